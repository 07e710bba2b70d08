//! The part of `cargo xtask bench store` that needs an open store in the measured process.
//!
//! A separate program, because it is built like the product and the rest of the benchmarks is not. It runs one
//! operation and prints figures; it does not judge them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its figures")]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write, stdin};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pollster::block_on;
use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::session::{Exit, Log};
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Host, ProcessIdentity, Query, Session, SessionId, Status, Store, Time};

use sexton_store_json as _;
use sexton_store_sqlite as _;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How many records one commit inserts when a store is filled.
const BATCH: usize = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result {
    match words {
        ["populate", url, count] => populate(&*open(url)?, count.parse()?),
        ["commits", small, large, bare, turns] => {
            commits(&*open(small)?, &*open(large)?, Path::new(bare), turns.parse()?)
        }
        ["multiply", url, template, count] => multiply(&*open(url)?, Path::new(template), count.parse()?),
        ["rewrite", url, directory] => rewrite(&*open(url)?, Path::new(directory)),
        ["contend", url, count] => contend(&*open(url)?, count.parse()?),
        _ => {
            Err("usage: populate URL COUNT | commits SMALL LARGE BARE TURNS | multiply URL TEMPLATE COUNT | \
                  rewrite URL DIRECTORY | contend URL COUNT"
                .into())
        }
    }
}

fn open(url: &str) -> Result<Box<dyn Store>> {
    let (plugin, path) = Registry::linked()?.require_store(url)?;
    Ok((plugin.open)(&StoreOptions::new(path, Access::Write, Durability::Power))?)
}

/// Fills a store with finished records; with a count of zero it is a store that once had a record.
fn populate(store: &dyn Store, count: usize) -> Result {
    let mut first = running(0)?;
    first.revision = block_on(store.commit(Batch::new().insert(first.clone())))?.revision_of(&first.id);
    block_on(store.commit(Batch::new().remove(&first)))?;
    let numbers: Vec<usize> = (0..count).collect();
    for chunk in numbers.chunks(BATCH) {
        let mut batch = Batch::new();
        for number in chunk {
            batch = batch.insert(ended(running(*number)?));
        }
        block_on(store.commit(batch))?;
    }
    Ok(())
}

/// Adds sessions that are like the one in the file, each with its own id.
fn multiply(store: &dyn Store, template: &Path, count: usize) -> Result {
    let template = Session::from_json(&std::fs::read_to_string(template)?)?;
    let numbers: Vec<usize> = (0..count).collect();
    for chunk in numbers.chunks(BATCH) {
        let mut batch = Batch::new();
        for _ in chunk {
            batch = batch.insert(Session { id: SessionId::random(), revision: 0, ..template.clone() });
        }
        block_on(store.commit(batch))?;
    }
    Ok(())
}

/// Times a backup and one commit that ends every session; prints nanoseconds.
fn rewrite(store: &dyn Store, directory: &Path) -> Result {
    let sessions = block_on(store.list(&Query::active()))?.sessions;
    let now: Time = "2026-01-01T12:00:00Z".parse()?;
    let batch = sessions.into_iter().fold(Batch::new(), |batch, session| batch.replace(ended(session)));
    let began = Instant::now();
    block_on(store.backup(directory, now))?;
    block_on(store.commit(batch))?;
    println!("{}", began.elapsed().as_nanos());
    Ok(())
}

/// Times, in turns, bare writes and commits to two stores; prints nanoseconds per write as JSON.
fn commits(small: &dyn Store, large: &dyn Store, bare: &Path, turns: usize) -> Result {
    let mut file = OpenOptions::new().create(true).append(true).open(bare)?;
    let mut samples = Vec::with_capacity(turns);
    for turn in 0..turns {
        let session = running(turn)?;
        let times = [bare_life(&mut file, &session)?, life(small, &session)?, life(large, &session)?];
        samples.push(times.map(|time| time.as_nanos()));
    }
    println!("{samples:?}");
    Ok(())
}

/// Returns the mean time of a session's two commits, its start and its end. It is removed again, so that the
/// store keeps its size.
fn life(store: &dyn Store, session: &Session) -> Result<Duration> {
    let began = Instant::now();
    let started = block_on(store.commit(Batch::new().insert(session.clone())))?;
    let first = began.elapsed();
    let mut session = ended(session.clone());
    session.revision = started.revision_of(&session.id);
    let began = Instant::now();
    let updated = block_on(store.commit(Batch::new().replace(session.clone())))?;
    session.revision = updated.revision_of(&session.id);
    let second = began.elapsed();
    block_on(store.commit(Batch::new().remove(&session)))?;
    Ok((first + second) / 2)
}

/// Returns the mean time of only writing the same two documents to a file.
fn bare_life(file: &mut File, session: &Session) -> Result<Duration> {
    let documents = [serde_json::to_vec(session)?, serde_json::to_vec(&ended(session.clone()))?];
    let mut total = Duration::ZERO;
    for document in documents {
        let began = Instant::now();
        file.write_all(&document)?;
        file.sync_data()?;
        total += began.elapsed();
    }
    Ok(total / 2)
}

/// Inserts `count` records, one by one, after it has read a line.
fn contend(store: &dyn Store, count: usize) -> Result {
    let sessions = (0..count).map(running).collect::<Result<Vec<_>>>()?;
    println!("ready");
    stdin().lock().read_line(&mut String::new())?;
    for session in sessions {
        block_on(store.commit(Batch::new().insert(session)))?;
    }
    println!("done");
    Ok(())
}

/// Returns a record as `run` commits it, with fields of realistic length.
fn running(number: usize) -> Result<Session> {
    let host = Host::new("4c2f0d6b8a1e4f0f9d3a7b5c6e8f9a0b", "bench");
    let noon: Time = "2026-01-01T12:00:00Z".parse()?;
    let created_at = noon.saturating_add(Duration::from_secs(number.try_into()?));
    let mut session = Session::new(SessionId::random(), host, created_at);
    session.status = Status::Running;
    session.ticket = Some(format!("T-{number}"));
    session.command = ["claude", "--print", "fix the flaky test in crates/core"].map(Into::into).to_vec();
    session.cwd = Some("/home/user/src/project".into());
    session.probe = Some("linux".into());
    session.process = Some(identity(4_200));
    session.supervisor = Some(identity(4_199));
    session.started_at = Some(created_at);
    let path = format!("/home/user/.local/state/sexton/sessions/{}/output.log", session.id);
    session.log = Some(Log { path: path.into(), stderr_path: None, extra: serde_json::Map::new() });
    Ok(session)
}

fn identity(pid: u32) -> ProcessIdentity {
    ProcessIdentity {
        boot_id: Some("0e8f4a1c-5a52-4a5c-9d6f-6f0c8a3f7b21".into()),
        pidfd_inode: Some(u64::from(pid) + 90_000),
        start_ticks: Some(1_234_567),
        pid_namespace: Some(4_026_531_836),
        time_namespace: Some(4_026_531_834),
        exe: Some("/usr/local/bin/sexton".into()),
        ..ProcessIdentity::of_pid(pid)
    }
}

/// Returns the same record after its command exited successfully.
fn ended(mut session: Session) -> Session {
    session.status = Status::Completed;
    session.finished_at = Some(session.created_at.saturating_add(Duration::from_secs(60)));
    session.exit = Some(Exit::exited(0));
    session
}
