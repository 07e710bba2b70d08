//! Starts a session: turns a request into a record and a plan, and executes it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use sexton_core::session::{LoopState, OnOwnerDeath};
use sexton_core::store::Durability;
use sexton_core::{OsText, ProcessIdentity, ProcessProbe, Session, SessionId, Store, release};
use sexton_supervise::{Plan, SessionDir, Shim, StartError, Started, start};

use crate::error::ServiceError;
use crate::labels::Labels;
use crate::new_worktree::{Wish, create_worktree};
use crate::owner::{Enclosing, require_owner};
use crate::recovery::now;
use crate::service::Service;

/// A request for a session.
#[derive(Clone, Debug)]
pub struct Request {
    /// Command line, program first.
    pub command: Vec<OsString>,
    /// Working directory; the current one by default. With a worktree, a directory of its repository.
    pub cwd: Option<PathBuf>,
    /// Additional environment variables.
    pub env: Vec<(OsString, OsString)>,
    /// The user's labels.
    pub labels: Labels,
    /// State of the loop it belongs to.
    pub loop_state: Option<LoopState>,
    /// Its own git worktree.
    pub worktree: Option<Wish>,
    /// The process whose death ends it.
    pub owner: OwnerWish,
    /// What happens when the owner dies.
    pub on_owner_death: OnOwnerDeath,
    /// Its standard input.
    pub input: Input,
    /// Whether standard error gets a separate file.
    pub split_output: bool,
    /// Output file, instead of one in the session's directory. Existing content is kept; output is appended.
    pub output_path: Option<PathBuf>,
    /// Maximum run time.
    pub timeout: Option<Duration>,
    /// Maximum memory, in bytes.
    pub memory_max: Option<u64>,
    /// Maximum number of processes.
    pub pids_max: Option<u64>,
    /// Command to run after its end, instead of the configured one.
    pub notify: Option<OsString>,
}

/// The owner of a session: the process whose death ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerWish {
    /// No owner: it keeps running.
    None,
    /// This process.
    Me,
    /// The process with this pid.
    Process(u32),
    /// The command of the session that this process runs in, if there is one.
    Enclosing,
}

/// Standard input of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// The standard input of this process.
    Inherited,
}

impl Request {
    /// Creates a request that runs `command` in the current directory, without input and without an owner.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Request {
        Request {
            command: command.into_iter().map(Into::into).collect(),
            cwd: None,
            env: Vec::new(),
            labels: Labels::default(),
            loop_state: None,
            worktree: None,
            owner: OwnerWish::None,
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

/// A running session.
pub struct Running {
    /// Its record, as committed.
    pub session: Session,
    /// Its supervisor, a child of this process. It keeps running if it is not waited for.
    pub shim: Child,
    /// The session named by the cookie of this process, if it does not run and is therefore not the owner.
    pub ignored_cookie: Option<SessionId>,
    /// The open store that contains the record. A caller that stays with the session can drop it.
    pub store: Box<dyn Store>,
}

/// A session that could not be started.
#[derive(Debug)]
pub struct NotStarted {
    /// Its id: a command that could not be executed has a record.
    pub id: SessionId,
    /// The cause.
    pub error: ServiceError,
}

impl Service {
    /// Starts a session. Returns once its command has been executed.
    pub async fn start(&self, request: Request) -> Result<Running, NotStarted> {
        let id = SessionId::random();
        self.start_as(id.clone(), request).await.map_err(|error| NotStarted { id, error })
    }

    async fn start_as(&self, id: SessionId, request: Request) -> Result<Running, ServiceError> {
        // First, because it takes longest; it does nothing until it receives the plan.
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
            Some(wish) => self.start_in_worktree(wish, session, plan, shim, probe.as_ref()).await?,
        };
        Ok(Running { session, shim, ignored_cookie, store })
    }

    /// Starts the session in its own worktree.
    async fn start_in_worktree(
        &self,
        wish: Wish,
        session: Session,
        mut plan: Plan,
        shim: Shim,
        probe: &dyn ProcessProbe,
    ) -> Result<Started, ServiceError> {
        let directory = plan.cwd.as_path().to_owned();
        let (store, session, cleanup) =
            create_worktree(wish, session, &directory, probe, self).await?.into_parts();
        plan.worktree = true;
        plan.cwd = session.cwd.clone().unwrap_or(plan.cwd);
        match start(|| Ok(store), session, &plan, shim, now).await {
            Ok(started) => Ok(started),
            Err(error) => {
                let store = self.open_for_writing()?;
                cleanup.undo(store.as_ref(), probe).await?;
                Err(error.into())
            }
        }
    }

    async fn find_owner(
        &self,
        wish: OwnerWish,
        probe: &dyn ProcessProbe,
    ) -> Result<(Option<ProcessIdentity>, Option<SessionId>), ServiceError> {
        Ok(match wish {
            OwnerWish::None => (None, None),
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
    ) -> Result<(Session, Plan), ServiceError> {
        if request.command.is_empty() {
            return Err(ServiceError::BadRequest("no command given".to_owned()));
        }
        let begun_at = now();
        let mut session = Session::new(id, self.require_host()?, begun_at);
        session.loop_state = request.loop_state;
        request.labels.apply(&mut session, begun_at)?;
        let cwd = require_directory(request.cwd.as_deref())?;
        session.owner = owner;
        session.on_owner_death = request.on_owner_death;
        session.command = request.command.into_iter().map(OsText::from).collect();
        session.cwd = Some(cwd.clone());
        session.probe = Some(probe.name().to_owned());
        session.release = Some(release::current().to_owned());
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

fn require_directory(asked: Option<&Path>) -> Result<OsText, ServiceError> {
    let failed = |path: &Path, why: String| ServiceError::Directory { path: path.to_owned(), why };
    let Some(asked) = asked else {
        let here = std::env::current_dir().map_err(|error| failed(Path::new("."), error.to_string()))?;
        return Ok(here.into());
    };
    let directory = asked.canonicalize().map_err(|error| failed(asked, error.to_string()))?;
    if !directory.is_dir() {
        return Err(failed(asked, "not a directory".to_owned()));
    }
    Ok(directory.into())
}

impl NotStarted {
    /// Returns the error number if the command itself could not be executed.
    pub fn exec_errno(&self) -> Option<i32> {
        match &self.error {
            ServiceError::Start(StartError::NotExecuted { errno, .. }) => Some(*errno),
            _ => None,
        }
    }
}
