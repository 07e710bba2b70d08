//! `sexton run`: start a session.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use rustix::process::Signal;
use sexton_core::config::{ByteSize, SettingValue};
use sexton_core::duration::parse_duration;
use sexton_core::probe::{COOKIE, Group};
use sexton_core::session::OnOwnerDeath;
use sexton_core::store::{Access, Durability};
use sexton_core::{OsText, ProcessIdentity, ProcessProbe, Session, SessionId};
use sexton_supervise::{
    Plan, SessionDir, Shim, SignalPipe, StartError, Started, Watched, Woken, start, watch_process,
};

use crate::context::Context;
use crate::ending::{exit_code, overlay_exits};
use crate::failure::{Exit, Failure};
use crate::host::this_host;
use crate::labels::Labels;
use crate::outputs::Outputs;
use crate::owner::{find_enclosing_owner, require_owner};
use crate::planting::{Wish, plant};
use crate::recovery::now;

/// Start a session.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton run -- claude -p 'fix the tests'            shows its output, exits with its code
  sexton run -d --name nightly -- ./agent.sh         returns at once, prints the id
  sexton run -d --timeout 30m --ticket T-12 -- codex exec 'work on T-12'
  sexton run -d --worktree -- claude -p 'try it'      in a git worktree and branch of its own
  sexton run --owner-pid $$ -d -- ./worker           ends when this shell does")]
pub struct RunArgs {
    /// Return once it runs, and print its id
    #[arg(short, long)]
    detach: bool,
    /// Run it there instead of here
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Give it a git worktree of its own
    #[arg(short, long)]
    worktree: bool,
    /// The branch to make for the worktree [default: sexton/<id>]
    #[arg(long, value_name = "BRANCH", requires = "worktree")]
    branch: Option<String>,
    /// Where the branch begins [default: HEAD]
    #[arg(long, value_name = "REF", requires = "worktree")]
    base: Option<String>,
    /// Add to its environment (repeatable)
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = variable_parser())]
    env: Vec<(OsString, OsString)>,
    /// End it after this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Keep standard error in a file of its own
    #[arg(long)]
    split_output: bool,
    /// The process whose death ends it
    #[arg(long, value_name = "PID", conflicts_with = "no_owner")]
    owner_pid: Option<u32>,
    /// Let it live on, even when it is started inside another session
    #[arg(long)]
    no_owner: bool,
    /// What happens when its owner dies
    #[arg(long, value_enum, value_name = "WHAT", default_value = "end")]
    on_owner_death: WhenOwnerDies,
    /// The most memory it may use, such as 2GiB (needs a control group)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_max: Option<u64>,
    /// The most processes it may have (needs a control group)
    #[arg(long, value_name = "N")]
    pids_max: Option<u64>,
    /// A shell command to run when it has ended
    #[arg(long, value_name = "COMMAND")]
    notify: Option<OsString>,
    #[command(flatten)]
    labels: Labels,
    /// What to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum WhenOwnerDies {
    /// It is ended after a grace period, unless it was adopted by then
    End,
    /// It lives on
    Keep,
}

/// What a session's environment always says truthfully.
const RESERVED: [&str; 3] = [COOKIE, "SEXTON_STORE", "SEXTON_STATE_DIR"];

/// Variables are bytes to the kernel: what is not UTF-8 is passed on as it is.
fn variable_parser() -> impl TypedValueParser<Value = (OsString, OsString)> {
    OsStringValueParser::new().try_map(|text| {
        let bytes = text.as_bytes();
        match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) if RESERVED.iter().any(|name| name.as_bytes() == &bytes[..at]) => {
                Err("sexton itself sets this variable; it is how a session's processes are recognised")
            }
            Some(at) if at > 0 => {
                let (key, value) = (OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]));
                Ok((key.to_owned(), value.to_owned()))
            }
            _ => Err("write KEY=VALUE"),
        }
    })
}

fn parse_size(text: &str) -> Result<u64, String> {
    ByteSize::from_text(text).map(|size| size.0).ok_or_else(|| format!("write {}", ByteSize::EXPECTED))
}

/// Starts the session, and in the foreground stays with it.
pub async fn run(args: RunArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let detach = args.detach;
    let id = SessionId::random();
    // Before anything is looked at: it takes longest, and does nothing until it is told what.
    let stdin = if detach { Stdio::null() } else { Stdio::inherit() };
    let shim = Shim::execute(&id, stdin).map_err(|error| Failure::new(crate::failure::chain(&error)))?;
    let probe = context.open_probe()?;
    let wish = args.worktree.then(|| Wish { branch: args.branch.clone(), base: args.base.clone() });
    let (session, plan) = prepare(args, id, probe.as_ref(), context).await?;
    let started = match wish {
        None => start(context.writable_store()?, session, &plan, shim, now).await,
        Some(wish) => return run_planted(wish, session, plan, shim, detach, probe.as_ref(), context).await,
    };
    let started = match started {
        Ok(started) => started,
        Err(error) => return not_started(error, &plan, context).await,
    };
    go_on(started, detach, probe.as_ref(), context).await
}

/// Starts the session in a worktree of its own.
async fn run_planted(
    wish: Wish,
    session: Session,
    mut plan: Plan,
    shim: Shim,
    detach: bool,
    probe: &dyn ProcessProbe,
    context: &mut Context<'_>,
) -> Result<Exit, Failure> {
    let directory = plan.cwd.as_path().to_owned();
    let (store, session, remains) = plant(wish, session, &directory, probe, context).await?.into_parts();
    plan.worktree = true;
    plan.cwd = session.cwd.clone().unwrap_or(plan.cwd);
    match start(|| Ok(store), session, &plan, shim, now).await {
        Ok(started) => go_on(started, detach, probe, context).await,
        Err(error) => {
            let store = context.open_for_writing()?;
            remains.uproot(store.as_ref(), probe).await?;
            not_started(error, &plan, context).await
        }
    }
}

async fn go_on(
    started: Started,
    detach: bool,
    probe: &dyn ProcessProbe,
    context: &mut Context<'_>,
) -> Result<Exit, Failure> {
    if detach {
        return report_detached(&started.session, context);
    }
    // Only now: until here a signal ends this process, and with its owner the session.
    let signals = take_signals()?;
    stay_with(started, &signals, probe, context).await
}

async fn prepare(
    args: RunArgs,
    id: SessionId,
    probe: &dyn ProcessProbe,
    context: &Context<'_>,
) -> Result<(Session, Plan), Failure> {
    let mut session = Session::new(id, this_host(), context.now);
    args.labels.apply(&mut session)?;
    let cwd = require_directory(args.cwd.as_deref())?;
    session.owner = find_owner(args.owner_pid, args.no_owner, args.detach, probe, context).await?;
    session.on_owner_death = match args.on_owner_death {
        WhenOwnerDies::End => OnOwnerDeath::End,
        WhenOwnerDies::Keep => OnOwnerDeath::Keep,
    };
    session.command = args.command.into_iter().map(OsText::from).collect();
    session.cwd = Some(cwd.clone());
    session.probe = Some(probe.name().to_owned());
    let config = &context.config;
    let directory = SessionDir::of(context.state_dir(), &session.id);
    let notify = args.notify.or_else(|| config.notify_command.value.0.clone().map(OsString::from));
    let plan = Plan {
        session: session.id.clone(),
        store_url: context.absolute_store_url()?,
        power_safe: config.durability.value == Durability::Power,
        probe: probe.name().to_owned(),
        state_dir: context.state_dir().to_owned(),
        command: session.command.clone(),
        env: args.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd,
        log_path: directory.log_path().into(),
        stderr_path: args.split_output.then(|| directory.stderr_path().into()),
        log_max_bytes: config.log_max_bytes.value.0.map(|size| size.0),
        owner: session.owner.clone(),
        on_owner_death: session.on_owner_death,
        owner_grace: config.owner_grace.value,
        stop_grace: config.stop_grace.value,
        timeout: args.timeout,
        worktree: false,
        watch: None,
        notify: notify.map(OsText::from),
        containment: config.contain.value,
        memory_max: args.memory_max,
        pids_max: args.pids_max,
    };
    Ok((session, plan))
}

fn require_directory(asked: Option<&Path>) -> Result<OsText, Failure> {
    let failed = |path: &Path, error| Failure::new(format!("cannot run in {}: {error}", path.display()));
    let Some(asked) = asked else {
        let here = std::env::current_dir().map_err(|error| failed(Path::new("."), error))?;
        return Ok(here.into());
    };
    let directory = asked.canonicalize().map_err(|error| failed(asked, error))?;
    if !directory.is_dir() {
        return Err(Failure::new(format!("cannot run in {}: it is not a directory", asked.display())));
    }
    Ok(directory.into())
}

/// Foreground sessions are owned by this process, unless somebody else is named; detached ones by the
/// session they are started in, if there is one.
async fn find_owner(
    owner_pid: Option<u32>,
    no_owner: bool,
    detach: bool,
    probe: &dyn ProcessProbe,
    context: &Context<'_>,
) -> Result<Option<ProcessIdentity>, Failure> {
    match owner_pid {
        Some(pid) => Ok(Some(require_owner(probe, pid).await?)),
        None if no_owner => Ok(None),
        None if detach => find_enclosing_owner(probe, context).await,
        None => Ok(Some(probe.identify(std::process::id()).await?)),
    }
}

/// Says why nothing runs. A script gets the record of a command that could not be executed, too.
async fn not_started(error: StartError, plan: &Plan, context: &Context<'_>) -> Result<Exit, Failure> {
    if context.screen.json && matches!(error, StartError::NotExecuted { .. }) {
        let store = context.open_store_as_it_is(Access::Read)?;
        if let Some(failed) = store.load(&plan.session).await? {
            context.screen.document(&failed)?;
        }
    }
    Err(start_failure(error, plan))
}

/// A command that could not be executed exits as a shell would have it: 127 where there is none, 126
/// where it may not be executed.
fn start_failure(error: StartError, plan: &Plan) -> Failure {
    let program = plan.command.first().map(|word| word.display().to_string()).unwrap_or_default();
    match error {
        StartError::NotExecuted { errno, .. } => {
            let missing = errno == rustix::io::Errno::NOENT.raw_os_error();
            let why = std::io::Error::from_raw_os_error(errno);
            let failure = Failure::new(format!("cannot execute `{}`: {why}", program.escape_debug()));
            Failure { exit: Exit(if missing { 127 } else { 126 }), ..failure }
        }
        StartError::Store(error) => error.into(),
        other => Failure::new(crate::failure::chain(&other)),
    }
}

fn report_detached(session: &Session, context: &Context<'_>) -> Result<Exit, Failure> {
    let printed = match context.screen.json {
        true => context.screen.document(session),
        false => context.screen.line(session.id.as_str()),
    };
    // Whoever cannot be told the id on stdout may still read it elsewhere: the session runs.
    printed.map_err(|failure| failure.hint(format!("session {} runs all the same", session.id)))?;
    Ok(Exit::DONE)
}

fn take_signals() -> Result<SignalPipe, Failure> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    SignalPipe::open(&signals).map_err(|error| Failure::new(format!("cannot take over signals: {error}")))
}

/// Shows the output until the session has ended, passing signals on.
async fn stay_with(
    mut started: Started,
    signals: &SignalPipe,
    probe: &dyn ProcessProbe,
    context: &mut Context<'_>,
) -> Result<Exit, Failure> {
    let session = &started.session;
    let log = session.log.as_ref().ok_or_else(|| Failure::new("the session has no log"))?;
    let mut outputs = Outputs::of(log)?;
    let follower = outputs.follower()?;
    let supervisor = session.supervisor.as_ref().map(|supervisor| watch_process(probe, supervisor));
    let waiting = |error| Failure::new(format!("cannot wait for the session: {error}"));
    let mut interrupts = 0;
    loop {
        follower.arm().map_err(waiting)?;
        let signal = show_output(&mut outputs, signals, context)?;
        let Some(Watched::Alive(watch)) = &supervisor else { break };
        let woken = match signal {
            Some(signal) => Woken::Signal(signal),
            None => follower.wait(Some(watch), Some(signals), None).map_err(waiting)?,
        };
        match woken {
            Woken::Grew | Woken::TimeUp => {}
            Woken::Ended => break,
            Woken::Signal(signal) => {
                pass_on(probe, session, signal, interrupts).await?;
                interrupts += 1;
            }
        }
    }
    started.shim.wait().map_err(waiting)?;
    // Nobody is left to pass a signal on to: whoever insists does not want to see the rest.
    show_output(&mut outputs, signals, context)?;
    let ended = load_ended(&started.session, context).await?;
    if context.screen.json {
        context.screen.document(&ended)?;
    }
    Ok(exit_code(&ended))
}

/// Shows what is new, until there is no more or a signal arrives. Says where something is missing.
fn show_output(
    outputs: &mut Outputs,
    signals: &SignalPipe,
    context: &Context<'_>,
) -> Result<Option<i32>, Failure> {
    if context.screen.json {
        return Ok(None);
    }
    let pumped = outputs.pump(signals)?;
    if pumped.freed > 0 {
        context.screen.warn(&format!(
            "{} bytes of output are missing here: the log is bounded (`log.max_bytes`), and they were freed \
             before they could be shown",
            pumped.freed
        ));
    }
    Ok(pumped.signal)
}

/// Passes a signal on to every process of the session, as a terminal would. Whoever insists is heard: the
/// second time they get SIGTERM, from the third on SIGKILL.
async fn pass_on(
    probe: &dyn ProcessProbe,
    session: &Session,
    signal: i32,
    before: usize,
) -> Result<(), Failure> {
    let signal = match before {
        0 => signal,
        1 => Signal::TERM.as_raw(),
        _ => Signal::KILL.as_raw(),
    };
    for member in probe.members(&Group::of(session)).await?.processes {
        probe.signal(&member, signal).await?;
    }
    Ok(())
}

async fn load_ended(session: &Session, context: &Context<'_>) -> Result<Session, Failure> {
    let store = context.open_store_as_it_is(Access::Read)?;
    let mut ended = store.load(&session.id).await?.unwrap_or_else(|| session.clone());
    overlay_exits(&context.pending_exits(), [&mut ended])?;
    Ok(ended)
}
