//! A process that commits records one after another and prints each acknowledged commit: what it printed must
//! be true whatever happens to it, to its disk or to the machine.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use pollster::block_on;
use rustix::process::{Pid, Signal, kill_process};
use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::store::{Access, Durability, update_session};
use sexton_core::{Batch, Host, Session, SessionId, Store, Time};

use crate::bystanders::{NEIGHBOUR, Neighbours};

/// The argument that makes this program such a process.
pub(crate) const ROLE: &str = "ledger-role";

/// The record that all writers of a store change together.
const SHARED: &str = "shared";

/// The records that no writer creates.
const OTHERS: [&str; 2] = [SHARED, NEIGHBOUR];

/// Long enough for any step on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a stopped process stays stopped.
const MOMENT: Duration = Duration::from_millis(100);

/// Opens the store that `url` names.
pub(crate) fn open(url: &str, access: Access) -> Result<Box<dyn Store>, String> {
    let registry = Registry::linked().map_err(|error| error.to_string())?;
    let (plugin, path) = registry.require_store(url).map_err(|error| error.to_string())?;
    (plugin.open)(&StoreOptions::new(path, access, Durability::Power)).map_err(|error| chain(&error))
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns a session with no data.
pub(crate) fn blank(id: &SessionId) -> Session {
    let host = Host::new("m", "h");
    Session::new(id.clone(), host, Time::from(jiff::Timestamp::now()))
}

/// Inserts the record that all writers share, and plants neighbours that none of them may change.
pub(crate) fn prepare(url: &str) -> Neighbours {
    let shared = blank(&SHARED.parse().unwrap());
    block_on(open(url, Access::Write).unwrap().commit(Batch::new().insert(shared))).unwrap();
    let (_, path) = url.split_once(':').unwrap();
    Neighbours::plant(Path::new(path).parent().unwrap(), url)
}

/// Returns how often the shared record was changed.
fn shared_turns(url: &str) -> u64 {
    let store = open(url, Access::Read).unwrap();
    let shared = block_on(store.load(&SHARED.parse().unwrap())).unwrap().unwrap();
    shared.tags.get("turn").map_or(0, |turn| turn.parse().unwrap())
}

/// Commits until it is killed or a commit fails; prints a line for each acknowledged commit.
pub(crate) fn play(arguments: &[String]) -> ExitCode {
    let [url, share] = arguments else { return ExitCode::from(2) };
    let Err(why) = commit_until_failure(url, share == "share");
    println!("failed {}", why.replace('\n', " "));
    ExitCode::FAILURE
}

fn commit_until_failure(url: &str, share: bool) -> Result<Infallible, String> {
    let store = open(url, Access::Write)?;
    let print_line = |line: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|_| "standard output is closed".to_owned())
    };
    let shared: SessionId = SHARED.parse().unwrap();
    loop {
        let id = SessionId::random();
        print_line(&format!("begins {id}"))?;
        block_on(store.commit(Batch::new().insert(blank(&id)))).map_err(|error| chain(&error))?;
        print_line(&format!("committed {id}"))?;
        if !share {
            continue;
        }
        let turned = update_session(store.as_ref(), &shared, |session| {
            let turn = session.tags.get("turn").map_or(0, |turn| turn.parse::<u64>().unwrap());
            session.tags.insert("turn".to_owned(), (turn + 1).to_string());
            true
        });
        print_line("turns")?;
        block_on(turned).map_err(|error| chain(&error))?;
        print_line("turned")?;
    }
}

/// A running writer, and what it has printed so far.
pub(crate) struct Ledger {
    child: Child,
    lines: Receiver<String>,
    /// The records that it began to commit, and whether each commit was acknowledged.
    pub(crate) records: BTreeMap<SessionId, bool>,
    /// How many changes of the shared record it began, and how many were acknowledged.
    pub(crate) turns: (u64, u64),
    /// Why it stopped.
    pub(crate) failure: Option<String>,
}

impl Ledger {
    /// Starts one.
    pub(crate) fn start(url: &str, share: bool) -> Ledger {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([ROLE, url, if share { "share" } else { "alone" }]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ledger { child, lines, records: BTreeMap::new(), turns: (0, 0), failure: None }
    }

    /// Reads until it has committed this many records, or has exited.
    pub(crate) fn read_until(&mut self, committed: usize) {
        while self.committed() < committed && self.failure.is_none() {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.handle_line(&line),
                Err(_) => return,
            }
        }
    }

    /// Reads one line if it prints one soon.
    pub(crate) fn read_briefly(&mut self) {
        if let Ok(line) = self.lines.recv_timeout(MOMENT) {
            self.handle_line(&line);
        }
    }

    /// Returns how many of its commits were acknowledged.
    pub(crate) fn committed(&self) -> usize {
        self.records.values().filter(|acknowledged| **acknowledged).count()
    }

    /// Returns its pid.
    pub(crate) fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Sends it a signal, to stop or to continue it.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills it, and reads what it had printed until then.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.end();
    }

    /// Waits until it exits, and reads the rest.
    pub(crate) fn end(&mut self) {
        self.child.wait().unwrap();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.handle_line(&line);
        }
    }

    fn handle_line(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("begins", id)) => _ = self.records.insert(id.parse().unwrap(), false),
            Some(("committed", id)) => _ = self.records.insert(id.parse().unwrap(), true),
            Some(("failed", why)) => self.failure = Some(why.to_owned()),
            _ if line == "turns" => self.turns.0 += 1,
            _ if line == "turned" => self.turns.1 += 1,
            _ => {}
        }
    }

    /// Requires that everything it printed is true: acknowledged records exist, and no record exists that it
    /// never began. The neighbours are unchanged.
    pub(crate) fn require_kept(ledgers: &[Ledger], neighbours: &Neighbours, url: &str) {
        neighbours.require_untouched(url);
        let store = open(url, Access::Read).unwrap();
        let listing = block_on(store.list(&sexton_core::Query::all())).unwrap();
        assert!(listing.damage.is_empty() && store.damage().iter().all(|one| one.harmless), "{listing:?}");
        let found: std::collections::BTreeSet<_> =
            listing.sessions.iter().map(|session| session.id.clone()).collect();
        let begun: BTreeMap<_, _> = ledgers.iter().flat_map(|ledger| ledger.records.clone()).collect();
        let lost: Vec<_> =
            begun.iter().filter(|(id, acknowledged)| **acknowledged && !found.contains(id)).collect();
        assert!(lost.is_empty(), "{} acknowledged records are lost: {lost:?}", lost.len());
        let strange: Vec<_> =
            found.iter().filter(|id| !OTHERS.contains(&id.as_str()) && !begun.contains_key(id)).collect();
        assert!(strange.is_empty(), "no writer created {strange:?}");
        // Every change of the shared record was based on the last one.
        let (begun, acknowledged) =
            ledgers.iter().fold((0, 0), |sum, one| (sum.0 + one.turns.0, sum.1 + one.turns.1));
        let turns = shared_turns(url);
        assert!(
            (acknowledged..=begun).contains(&turns),
            "{turns} changes of one record, {acknowledged} acknowledged of {begun}"
        );
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the URL of a store of this kind in `directory`.
pub(crate) fn url_in(directory: &Path, store: &str) -> String {
    let file: PathBuf = directory.join(if store == "sqlite" { "sessions.db" } else { "sessions.jsonl" });
    format!("{store}:{}", file.display())
}
