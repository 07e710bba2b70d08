//! The Linux probe, but for a script: how often ending processes fails, and how often it ends nobody.

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

/// What happens when processes are to be ended: first this many failures, then this many calls that end
/// nobody, then what always happens.
pub struct Script {
    pub failures: usize,
    pub refusals: usize,
}

impl Script {
    pub fn stage(self, directory: &Path) -> Stage {
        fs::write(directory.join("script"), format!("{} {}", self.failures, self.refusals)).unwrap();
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
        fs::read(self.directory.join("calls")).map_or(0, |calls| calls.len())
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
        let (failures, refusals) = text.split_once(' ').unwrap();
        Script { failures: failures.parse().unwrap(), refusals: refusals.parse().unwrap() }
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
        let ended = if before < script.failures {
            let action = "looking at processes".to_owned();
            Err(ProbeError::Io { action, source: std::io::ErrorKind::OutOfMemory.into() })
        } else if before < script.failures + script.refusals {
            let group = groups.first().expect("a shim ends one session");
            let why = "it is asked to stay".to_owned();
            let members = self.inner.members(group).await?.processes.into_iter();
            let survivors = members.map(|identity| Survivor { identity, why: why.clone() }).collect();
            let session = group.session.clone();
            Ok(vec![Ended { session, signalled: Vec::new(), survivors, spared: Vec::new() }])
        } else {
            self.inner.terminate(groups, policy).await
        };
        fs::write(self.stage.directory.join("calls"), vec![b'x'; before + 1]).unwrap();
        ended
    }
}
