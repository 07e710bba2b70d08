//! A process that commits records one after another and says of each that it is committed: what it said must
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

/// The word that makes this program such a process.
pub(crate) const ROLE: &str = "ledger-role";

/// The record that all writers of a store change together.
const SHARED: &str = "shared";

/// The records that no writer makes.
const OTHERS: [&str; 2] = [SHARED, NEIGHBOUR];

/// Long enough for anything on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a stopped process is left so.
const MOMENT: Duration = Duration::from_millis(100);

/// Opens the store that `url` names.
pub(crate) fn open(url: &str, access: Access) -> Result<Box<dyn Store>, String> {
    let registry = Registry::linked().map_err(|error| error.to_string())?;
    let (plugin, path) = registry.require_store(url).map_err(|error| error.to_string())?;
    (plugin.open)(&StoreOptions { path, access, durability: Durability::Power })
        .map_err(|error| chain(&error))
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A session of which nothing is known.
pub(crate) fn blank(id: &SessionId) -> Session {
    let host = Host::new("m", "h");
    Session::new(id.clone(), host, Time::from(jiff::Timestamp::now()))
}

/// Puts the record there that all writers share, and neighbours whom none of them may disturb.
pub(crate) fn prepare(url: &str) -> Neighbours {
    let shared = blank(&SHARED.parse().unwrap());
    block_on(open(url, Access::Write).unwrap().commit(Batch::new().insert(shared))).unwrap();
    let (_, path) = url.split_once(':').unwrap();
    Neighbours::plant(Path::new(path).parent().unwrap(), url)
}

/// How often the shared record was changed.
fn shared_turns(url: &str) -> u64 {
    let store = open(url, Access::Read).unwrap();
    let shared = block_on(store.load(&SHARED.parse().unwrap())).unwrap().unwrap();
    shared.tags.get("turn").map_or(0, |turn| turn.parse().unwrap())
}

/// Commits until it is killed or cannot go on; prints a line for each commit that was acknowledged.
pub(crate) fn play(arguments: &[String]) -> ExitCode {
    let [url, share] = arguments else { return ExitCode::from(2) };
    let Err(why) = commit_for_ever(url, share == "share");
    println!("failed {}", why.replace('\n', " "));
    ExitCode::FAILURE
}

fn commit_for_ever(url: &str, share: bool) -> Result<Infallible, String> {
    let store = open(url, Access::Write)?;
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|_| "nobody listens".to_owned())
    };
    let shared: SessionId = SHARED.parse().unwrap();
    loop {
        let id = SessionId::random();
        say(&format!("begins {id}"))?;
        block_on(store.commit(Batch::new().insert(blank(&id)))).map_err(|error| chain(&error))?;
        say(&format!("committed {id}"))?;
        if !share {
            continue;
        }
        let turned = update_session(store.as_ref(), &shared, |session| {
            let turn = session.tags.get("turn").map_or(0, |turn| turn.parse::<u64>().unwrap());
            session.tags.insert("turn".to_owned(), (turn + 1).to_string());
            true
        });
        say("turns")?;
        block_on(turned).map_err(|error| chain(&error))?;
        say("turned")?;
    }
}

/// A writer that runs, and what it has said so far.
pub(crate) struct Ledger {
    child: Child,
    lines: Receiver<String>,
    /// What it said of each record: whether the commit was acknowledged.
    pub(crate) records: BTreeMap<SessionId, bool>,
    /// How many changes of the shared record it began, and how many were acknowledged.
    pub(crate) turns: (u64, u64),
    /// Why it gave up.
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

    /// Listens until it has committed so many records, or has ended.
    pub(crate) fn listen_until(&mut self, committed: usize) {
        while self.committed() < committed && self.failure.is_none() {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.hear(&line),
                Err(_) => return,
            }
        }
    }

    /// Hears what it has to say within a moment, if anything.
    pub(crate) fn listen_for_a_moment(&mut self) {
        if let Ok(line) = self.lines.recv_timeout(MOMENT) {
            self.hear(&line);
        }
    }

    /// How many of its commits were acknowledged.
    pub(crate) fn committed(&self) -> usize {
        self.records.values().filter(|acknowledged| **acknowledged).count()
    }

    /// Which process it is.
    pub(crate) fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Stops it where it is, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills it, and hears what it had said until then.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.end();
    }

    /// Waits for its end, and hears the rest.
    pub(crate) fn end(&mut self) {
        self.child.wait().unwrap();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.hear(&line);
        }
    }

    fn hear(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("begins", id)) => _ = self.records.insert(id.parse().unwrap(), false),
            Some(("committed", id)) => _ = self.records.insert(id.parse().unwrap(), true),
            Some(("failed", why)) => self.failure = Some(why.to_owned()),
            _ if line == "turns" => self.turns.0 += 1,
            _ if line == "turned" => self.turns.1 += 1,
            _ => {}
        }
    }

    /// Requires that everything it said is true: what was acknowledged is there, and nothing is there that
    /// it never began. The neighbours are as they were.
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
        assert!(strange.is_empty(), "nobody made {strange:?}");
        // Every change of the shared record was made on top of the last.
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

/// The URL of a store of this kind in `directory`.
pub(crate) fn url_in(directory: &Path, store: &str) -> String {
    let file: PathBuf = directory.join(if store == "sqlite" { "sessions.db" } else { "sessions.jsonl" });
    format!("{store}:{}", file.display())
}
