//! `sexton run`: start a session.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use rustix::process::Signal;
use sexton_core::config::{ByteSize, SettingValue};
use sexton_core::duration::parse_duration;
use sexton_core::probe::{COOKIE, Group};
use sexton_core::session::OnOwnerDeath;
use sexton_core::store::Access;
use sexton_core::{ProcessProbe, Session, WorktreeError};
use sexton_embed::{HouseError, Input, NotStarted, OwnerWish, Request, Wish, overlay_exits};
use sexton_supervise::{SignalPipe, Watched, Woken, watch_process};

use crate::context::Context;
use crate::ending::exit_code;
use crate::failure::{Exit, Failure};
use crate::labels::LabelArgs;
use crate::outputs::Outputs;
use crate::owner::warn_of_cookie;

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
    labels: LabelArgs,
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
    let program = args.command.first().cloned().unwrap_or_default();
    let running = match context.start(args.into()).await {
        Ok(running) => running,
        Err(error) => return not_started(error, &program, context).await,
    };
    if let Some(id) = &running.ignored_cookie {
        warn_of_cookie(id, context.screen);
    }
    if detach {
        // This process ends here. The system closes everything at once, and sooner than SQLite does it.
        std::mem::forget(running.store);
        return report_detached(&running.session, context);
    }
    drop(running.store);
    // Only now: until here a signal ends this process, and with its owner the session.
    let signals = take_signals()?;
    stay_with(running.session, running.shim, &signals, context).await
}

impl From<RunArgs> for Request {
    fn from(args: RunArgs) -> Request {
        Request {
            cwd: args.cwd,
            env: args.env,
            labels: args.labels.into(),
            worktree: args.worktree.then(|| Wish { branch: args.branch, base: args.base, ..Wish::default() }),
            // Foreground sessions are owned by this process, unless somebody else is named; detached ones
            // by the session they are started in, if there is one.
            owner: match args.owner_pid {
                Some(pid) => OwnerWish::Process(pid),
                None if args.no_owner => OwnerWish::Nobody,
                None if args.detach => OwnerWish::Enclosing,
                None => OwnerWish::Me,
            },
            on_owner_death: match args.on_owner_death {
                WhenOwnerDies::End => OnOwnerDeath::End,
                WhenOwnerDies::Keep => OnOwnerDeath::Keep,
            },
            input: if args.detach { Input::Nothing } else { Input::Inherited },
            split_output: args.split_output,
            timeout: args.timeout,
            memory_max: args.memory_max,
            pids_max: args.pids_max,
            notify: args.notify,
            ..Request::new(args.command)
        }
    }
}

/// Says why nothing runs. A script gets the record of a command that could not be executed, too.
async fn not_started(failed: NotStarted, program: &OsStr, context: &Context<'_>) -> Result<Exit, Failure> {
    let Some(errno) = failed.exec_errno() else {
        let no_repository = matches!(failed.error, HouseError::Worktree(WorktreeError::NoRepository { .. }));
        let failure = Failure::from(failed.error);
        return Err(match no_repository {
            true => failure.hint("--worktree needs a git repository; `--cwd DIR` names one elsewhere"),
            false => failure,
        });
    };
    if context.screen.json {
        let store = context.open_store_as_it_is(Access::Read)?;
        if let Some(record) = store.load(&failed.id).await? {
            context.screen.document(&record)?;
        }
    }
    Err(exec_failure(errno, program))
}

/// A command that could not be executed exits as a shell would have it: 127 where there is none, 126
/// where it may not be executed.
fn exec_failure(errno: i32, program: &OsStr) -> Failure {
    let missing = errno == rustix::io::Errno::NOENT.raw_os_error();
    let why = std::io::Error::from_raw_os_error(errno);
    let program = program.display().to_string();
    let failure = Failure::new(format!("cannot execute `{}`: {why}", program.escape_debug()));
    Failure { exit: Exit(if missing { 127 } else { 126 }), ..failure }
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
    session: Session,
    mut shim: Child,
    signals: &SignalPipe,
    context: &mut Context<'_>,
) -> Result<Exit, Failure> {
    let probe = context.open_probe()?;
    let probe = probe.as_ref();
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
                pass_on(probe, &session, signal, interrupts).await?;
                interrupts += 1;
            }
        }
    }
    shim.wait().map_err(waiting)?;
    // Nobody is left to pass a signal on to: whoever insists does not want to see the rest.
    show_output(&mut outputs, signals, context)?;
    let ended = load_ended(&session, context).await?;
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
