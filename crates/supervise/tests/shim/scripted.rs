//! The Linux probe with a script: how often stopping processes fails, how often it stops none, and how often
//! an observation returns `Unknown`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sexton_core::plugin::{ProbePlugin, inventory};
use sexton_core::probe::{
    EndPolicy, Ended, Group, Members, Occupants, ProbeCapabilities, ProcessDetails, Survivor,
};
use sexton_core::{Liveness, Others, ProbeError, ProcessIdentity, ProcessProbe};
use sexton_store_json as _;

pub const NAME: &str = "scripted";

inventory::submit! {
    ProbePlugin { name: NAME, summary: "follows the script of a test", strength: 0, open }
}

fn open() -> Result<Box<dyn ProcessProbe>, ProbeError> {
    // A shim is executed with the id of its session; nothing else identifies the test.
    let session = std::env::args().nth(2).unwrap_or_default();
    let directory = std::env::temp_dir().join(name_of(&session));
    Ok(Box::new(Scripted { inner: sexton_proc_linux::open()?, state: ScriptState { directory } }))
}

/// Returns the name of the directory that contains a session's script.
pub fn name_of(session: &str) -> String {
    format!("sexton-shim-{session}")
}

/// What happens when processes are to be stopped: each of these as often as given, one after the other, then
/// the normal behaviour.
#[derive(Default)]
pub struct Script {
    /// Calls that fail.
    pub failures: usize,
    /// Calls that stop no process, and report that.
    pub refusals: usize,
    /// Calls that stop no process, and report only one that is already gone.
    pub stale_reports: usize,
    /// Observations, after all that, that return `Unknown`.
    pub unknown_observations: usize,
}

impl Script {
    pub fn write_to(self, directory: &Path) -> ScriptState {
        let Script { failures, refusals, stale_reports, unknown_observations } = self;
        let text = format!("{failures} {refusals} {stale_reports} {unknown_observations}");
        fs::write(directory.join("script"), text).unwrap();
        ScriptState { directory: directory.to_owned() }
    }
}

/// The directory of the script, and how far it has been executed.
pub struct ScriptState {
    directory: PathBuf,
}

impl ScriptState {
    /// Returns how often processes were to be stopped.
    pub fn calls(&self) -> usize {
        self.count("calls")
    }

    fn count(&self, what: &str) -> usize {
        fs::read(self.directory.join(what)).map_or(0, |marks| marks.len())
    }

    fn add_one(&self, what: &str) {
        fs::write(self.directory.join(what), vec![b'x'; self.count(what) + 1]).unwrap();
    }

    pub fn wait_for_calls(&self, count: usize, limit: Duration) {
        let began = Instant::now();
        while self.calls() < count {
            assert!(began.elapsed() < limit, "no process was to be stopped");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn script(&self) -> Script {
        let text = fs::read_to_string(self.directory.join("script")).unwrap();
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Script { failures: next(), refusals: next(), stale_reports: next(), unknown_observations: next() }
    }
}

struct Scripted {
    inner: Box<dyn ProcessProbe>,
    state: ScriptState,
}

#[async_trait]
impl ProcessProbe for Scripted {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ProbeCapabilities {
        self.inner.capabilities()
    }

    async fn identify(&self, pid: u32) -> Result<ProcessIdentity, ProbeError> {
        self.inner.identify(pid).await
    }

    async fn observe(&self, identity: &ProcessIdentity) -> Liveness {
        if self.state.calls() > 0 && self.state.count("looks") < self.state.script().unknown_observations {
            self.state.add_one("looks");
            return Liveness::Unknown("the script returns unknown".to_owned());
        }
        self.inner.observe(identity).await
    }

    async fn describe(&self, pid: u32) -> Result<ProcessDetails, ProbeError> {
        self.inner.describe(pid).await
    }

    async fn members(&self, group: &Group, others: &Others) -> Result<Members, ProbeError> {
        self.inner.members(group, others).await
    }

    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        self.inner.occupants(dir).await
    }

    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        let (before, script) = (self.state.calls(), self.state.script());
        let (refusals, stale_reports) =
            (script.failures + script.refusals, script.failures + script.refusals + script.stale_reports);
        let ended = if before < script.failures {
            let action = "inspecting processes".to_owned();
            Err(ProbeError::Io { action, source: std::io::ErrorKind::OutOfMemory.into() })
        } else if before < stale_reports {
            let group = groups.first().expect("a shim ends one session");
            let seen = if before < refusals {
                self.inner.members(group, &policy.others).await?.processes
            } else {
                // The command, which has already exited.
                group.process.iter().cloned().collect()
            };
            let survivor = |identity| Survivor { identity, why: "the script lets it survive".to_owned() };
            let survivors = seen.into_iter().map(survivor).collect();
            let session = group.session.clone();
            Ok(vec![Ended { session, signalled: Vec::new(), survivors, spared: Vec::new() }])
        } else {
            self.inner.terminate(groups, policy).await
        };
        self.state.add_one("calls");
        ended
    }
}
