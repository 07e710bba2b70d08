//! The Linux probe, but for a script: how often ending processes fails, how often it ends nobody, and how often a
//! look at one tells nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sexton_core::plugin::{ProbePlugin, inventory};
use sexton_core::probe::{
    EndPolicy, Ended, Group, Members, Occupants, ProbeCapabilities, ProcessDetails, Survivor,
};
use sexton_core::{Liveness, ProbeError, ProcessIdentity, ProcessProbe};
use sexton_store_json as _;

pub const NAME: &str = "scripted";

inventory::submit! {
    ProbePlugin { name: NAME, summary: "does what a test wants", strength: 0, open }
}

fn open() -> Result<Box<dyn ProcessProbe>, ProbeError> {
    // A shim is executed with the id of its session, and told nothing else that this could be known by.
    let session = std::env::args().nth(2).unwrap_or_default();
    let directory = std::env::temp_dir().join(name_of(&session));
    Ok(Box::new(Scripted { inner: sexton_proc_linux::open()?, stage: Stage { directory } }))
}

/// The name of the directory that a session's script is played in.
pub fn name_of(session: &str) -> String {
    format!("sexton-shim-{session}")
}

/// What happens when processes are to be ended: each of these as often as it says, one after the other, then what
/// always happens.
#[derive(Default)]
pub struct Script {
    /// Calls that fail.
    pub failures: usize,
    /// Calls that end nobody, and say so.
    pub refusals: usize,
    /// Calls that end nobody, and know of somebody only who is gone by now.
    pub glimpses: usize,
    /// Looks at one process, after all that, that tell nothing.
    pub blind_looks: usize,
}

impl Script {
    pub fn stage(self, directory: &Path) -> Stage {
        let Script { failures, refusals, glimpses, blind_looks } = self;
        let text = format!("{failures} {refusals} {glimpses} {blind_looks}");
        fs::write(directory.join("script"), text).unwrap();
        Stage { directory: directory.to_owned() }
    }
}

/// Where the script is played, and what has been played of it.
pub struct Stage {
    directory: PathBuf,
}

impl Stage {
    /// How often processes were to be ended.
    pub fn calls(&self) -> usize {
        self.count("calls")
    }

    fn count(&self, what: &str) -> usize {
        fs::read(self.directory.join(what)).map_or(0, |strokes| strokes.len())
    }

    fn add_one(&self, what: &str) {
        fs::write(self.directory.join(what), vec![b'x'; self.count(what) + 1]).unwrap();
    }

    pub fn wait_for_calls(&self, count: usize, limit: Duration) {
        let began = Instant::now();
        while self.calls() < count {
            assert!(began.elapsed() < limit, "nobody was to be ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn script(&self) -> Script {
        let text = fs::read_to_string(self.directory.join("script")).unwrap();
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Script { failures: next(), refusals: next(), glimpses: next(), blind_looks: next() }
    }
}

struct Scripted {
    inner: Box<dyn ProcessProbe>,
    stage: Stage,
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
        if self.stage.calls() > 0 && self.stage.count("looks") < self.stage.script().blind_looks {
            self.stage.add_one("looks");
            return Liveness::Unknown("it is asked not to look".to_owned());
        }
        self.inner.observe(identity).await
    }

    async fn describe(&self, pid: u32) -> Result<ProcessDetails, ProbeError> {
        self.inner.describe(pid).await
    }

    async fn members(&self, group: &Group) -> Result<Members, ProbeError> {
        self.inner.members(group).await
    }

    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        self.inner.occupants(dir).await
    }

    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        let (before, script) = (self.stage.calls(), self.stage.script());
        let (refusals, glimpses) =
            (script.failures + script.refusals, script.failures + script.refusals + script.glimpses);
        let ended = if before < script.failures {
            let action = "looking at processes".to_owned();
            Err(ProbeError::Io { action, source: std::io::ErrorKind::OutOfMemory.into() })
        } else if before < glimpses {
            let group = groups.first().expect("a shim ends one session");
            let seen = if before < refusals {
                self.inner.members(group).await?.processes
            } else {
                // The command: its end is what the session is being ended for.
                group.process.iter().cloned().collect()
            };
            let survivor = |identity| Survivor { identity, why: "it is asked to stay".to_owned() };
            let survivors = seen.into_iter().map(survivor).collect();
            let session = group.session.clone();
            Ok(vec![Ended { session, signalled: Vec::new(), survivors, spared: Vec::new() }])
        } else {
            self.inner.terminate(groups, policy).await
        };
        self.stage.add_one("calls");
        ended
    }
}
