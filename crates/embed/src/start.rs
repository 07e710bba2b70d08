//! Starting a session: what is asked for, made into a record and a plan, and carried out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use sexton_core::session::{LoopState, OnOwnerDeath};
use sexton_core::store::Durability;
use sexton_core::{OsText, ProcessIdentity, ProcessProbe, Session, SessionId, Store};
use sexton_supervise::{Plan, SessionDir, Shim, StartError, Started, start};

use crate::error::HouseError;
use crate::host::this_host;
use crate::house::House;
use crate::labels::Labels;
use crate::owner::{Enclosing, require_owner};
use crate::planting::{Wish, plant};
use crate::recovery::now;

/// A session that is wished for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to execute, program first.
    pub command: Vec<OsString>,
    /// Where; here without one. With a worktree, a directory of the repository to make it from.
    pub cwd: Option<PathBuf>,
    /// What to add to its environment.
    pub env: Vec<(OsString, OsString)>,
    /// What its user says about it.
    pub labels: Labels,
    /// The loop it carries.
    pub loop_state: Option<LoopState>,
    /// A git worktree of its own.
    pub worktree: Option<Wish>,
    /// Whose death ends it.
    pub owner: OwnerWish,
    /// What happens then.
    pub on_owner_death: OnOwnerDeath,
    /// What it reads.
    pub input: Input,
    /// Whether standard error is kept in a file of its own.
    pub split_output: bool,
    /// Where its output goes, instead of the session's own directory. What is there already stays in front.
    pub output_path: Option<PathBuf>,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// The most memory it may use, in bytes.
    pub memory_max: Option<u64>,
    /// The most processes it may have.
    pub pids_max: Option<u64>,
    /// What to run when it has ended, instead of what is configured.
    pub notify: Option<OsString>,
}

/// Whose death ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerWish {
    /// Nobody's: it lives on.
    Nobody,
    /// This very process's.
    Me,
    /// The process's with this pid.
    Process(u32),
    /// That of the session around this process, where there is one.
    Enclosing,
}

/// What a command reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// What this process reads from.
    Inherited,
}

impl Request {
    /// A session that runs `command` here, with nothing to read and nobody who owns it.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Request {
        Request {
            command: command.into_iter().map(Into::into).collect(),
            cwd: None,
            env: Vec::new(),
            labels: Labels::default(),
            loop_state: None,
            worktree: None,
            owner: OwnerWish::Nobody,
            on_owner_death: OnOwnerDeath::End,
            input: Input::Nothing,
            split_output: false,
            output_path: None,
            timeout: None,
            memory_max: None,
            pids_max: None,
            notify: None,
        }
    }
}

/// A session that runs.
pub struct Running {
    /// Its record, as committed.
    pub session: Session,
    /// Its shim, a child of this process. One that is not waited for lives on.
    pub shim: Child,
    /// The session that the cookie of this process names, where it does not run and therefore owns nothing.
    pub ignored_cookie: Option<SessionId>,
    /// The store in which it is recorded, open. Who stays with the session has no use for it.
    pub store: Box<dyn Store>,
}

/// A session that does not run.
#[derive(Debug)]
pub struct NotStarted {
    /// Its id: a command that could not be executed has a record.
    pub id: SessionId,
    /// Why.
    pub error: HouseError,
}

impl House {
    /// Starts a session. Returns once its command really runs.
    pub async fn start(&self, request: Request) -> Result<Running, NotStarted> {
        let id = SessionId::random();
        self.start_as(id.clone(), request).await.map_err(|error| NotStarted { id, error })
    }

    async fn start_as(&self, id: SessionId, request: Request) -> Result<Running, HouseError> {
        // Before anything is looked at: it takes longest, and does nothing until it is told what.
        let stdin = match request.input {
            Input::Nothing => Stdio::null(),
            Input::Inherited => Stdio::inherit(),
        };
        let shim = Shim::execute(&id, stdin)?;
        let probe = self.open_probe()?;
        let (owner, ignored_cookie) = self.find_owner(request.owner, probe.as_ref()).await?;
        let wish = request.worktree.clone();
        let (session, plan) = self.prepare(request, id, owner, probe.as_ref())?;
        let Started { session, shim, store } = match wish {
            None => start(self.writable_store()?, session, &plan, shim, now).await?,
            Some(wish) => self.start_planted(wish, session, plan, shim, probe.as_ref()).await?,
        };
        Ok(Running { session, shim, ignored_cookie, store })
    }

    /// Starts the session in a worktree of its own.
    async fn start_planted(
        &self,
        wish: Wish,
        session: Session,
        mut plan: Plan,
        shim: Shim,
        probe: &dyn ProcessProbe,
    ) -> Result<Started, HouseError> {
        let directory = plan.cwd.as_path().to_owned();
        let (store, session, remains) = plant(wish, session, &directory, probe, self).await?.into_parts();
        plan.worktree = true;
        plan.cwd = session.cwd.clone().unwrap_or(plan.cwd);
        match start(|| Ok(store), session, &plan, shim, now).await {
            Ok(started) => Ok(started),
            Err(error) => {
                let store = self.open_for_writing()?;
                remains.uproot(store.as_ref(), probe).await?;
                Err(error.into())
            }
        }
    }

    async fn find_owner(
        &self,
        wish: OwnerWish,
        probe: &dyn ProcessProbe,
    ) -> Result<(Option<ProcessIdentity>, Option<SessionId>), HouseError> {
        Ok(match wish {
            OwnerWish::Nobody => (None, None),
            OwnerWish::Me => (Some(probe.identify(std::process::id()).await?), None),
            OwnerWish::Process(pid) => (Some(require_owner(probe, pid).await?), None),
            OwnerWish::Enclosing => match self.find_enclosing(probe).await? {
                Enclosing::Nothing => (None, None),
                Enclosing::Running(process) => (Some(process), None),
                Enclosing::NotRunning(id) => (None, Some(id)),
            },
        })
    }

    fn prepare(
        &self,
        request: Request,
        id: SessionId,
        owner: Option<ProcessIdentity>,
        probe: &dyn ProcessProbe,
    ) -> Result<(Session, Plan), HouseError> {
        if request.command.is_empty() {
            return Err(HouseError::BadRequest("there is no command to run".to_owned()));
        }
        let begun_at = now();
        let mut session = Session::new(id, this_host(), begun_at);
        session.loop_state = request.loop_state;
        request.labels.apply(&mut session, begun_at)?;
        let cwd = require_directory(request.cwd.as_deref())?;
        session.owner = owner;
        session.on_owner_death = request.on_owner_death;
        session.command = request.command.into_iter().map(OsText::from).collect();
        session.cwd = Some(cwd.clone());
        session.probe = Some(probe.name().to_owned());
        let config = &self.config;
        let directory = SessionDir::of(self.state_dir(), &session.id);
        let notify = request.notify.or_else(|| config.notify_command.value.0.clone().map(OsString::from));
        let log_path = request.output_path.unwrap_or_else(|| directory.log_path());
        let plan = Plan {
            session: session.id.clone(),
            store_url: self.absolute_store_url()?,
            power_safe: config.durability.value == Durability::Power,
            probe: probe.name().to_owned(),
            state_dir: self.state_dir().to_owned(),
            command: session.command.clone(),
            env: request.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd,
            log_path: log_path.into(),
            stderr_path: request.split_output.then(|| directory.stderr_path().into()),
            log_max_bytes: config.log_max_bytes.value.0.map(|size| size.0),
            owner: session.owner.clone(),
            on_owner_death: session.on_owner_death,
            owner_grace: config.owner_grace.value,
            stop_grace: config.stop_grace.value,
            timeout: request.timeout,
            worktree: false,
            watch: None,
            notify: notify.map(OsText::from),
            containment: config.contain.value,
            memory_max: request.memory_max,
            pids_max: request.pids_max,
        };
        Ok((session, plan))
    }
}

fn require_directory(asked: Option<&Path>) -> Result<OsText, HouseError> {
    let failed = |path: &Path, why: String| HouseError::Directory { path: path.to_owned(), why };
    let Some(asked) = asked else {
        let here = std::env::current_dir().map_err(|error| failed(Path::new("."), error.to_string()))?;
        return Ok(here.into());
    };
    let directory = asked.canonicalize().map_err(|error| failed(asked, error.to_string()))?;
    if !directory.is_dir() {
        return Err(failed(asked, "it is not a directory".to_owned()));
    }
    Ok(directory.into())
}

impl NotStarted {
    /// The number of the error, where the command itself could not be executed.
    pub fn exec_errno(&self) -> Option<i32> {
        match &self.error {
            HouseError::Start(StartError::NotExecuted { errno, .. }) => Some(*errno),
            _ => None,
        }
    }
}
