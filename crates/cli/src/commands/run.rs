//! `sexton run`: starts a session.

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
use sexton_core::{Others, ProcessProbe, Session, WorktreeError};
use sexton_service::{Input, NotStarted, OwnerWish, Request, ServiceError, Wish, watch_session};
use sexton_supervise::{SignalPipe, Woken};

use crate::context::Context;
use crate::ending::report_ends;
use crate::failure::{Exit, Failure};
use crate::labels::LabelArgs;
use crate::outputs::Outputs;
use crate::owner::warn_of_cookie;

/// Start a session.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton run -- claude -p 'fix the tests'            show its output and exit with its exit code
  sexton run -d --name nightly -- ./agent.sh         run in the background and print the session id
  sexton run -d --timeout 30m --ticket T-12 -- codex exec 'work on T-12'
  sexton run -d --worktree -- claude -p 'try it'     run in a new git worktree on a new branch
  sexton run --owner-pid $$ -d -- ./worker           stop the session when this shell exits")]
pub struct RunArgs {
    /// Run in the background and print the session id
    #[arg(short, long)]
    detach: bool,
    /// Working directory of the command [default: the current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Run in a new git worktree
    #[arg(short, long)]
    worktree: bool,
    /// Branch to create for the worktree [default: sexton/<id>]
    #[arg(long, value_name = "BRANCH", requires = "worktree")]
    branch: Option<String>,
    /// Commit at which the branch starts [default: HEAD]
    #[arg(long, value_name = "REF", requires = "worktree")]
    base: Option<String>,
    /// Set an environment variable (repeatable)
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = variable_parser())]
    env: Vec<(OsString, OsString)>,
    /// Stop the session after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Write standard error to a separate file
    #[arg(long)]
    split_output: bool,
    /// Owner process; the session is stopped when the owner exits
    #[arg(long, value_name = "PID", conflicts_with = "no_owner")]
    owner_pid: Option<u32>,
    /// Start without an owner, even inside another session
    #[arg(long)]
    no_owner: bool,
    /// What to do when the owner exits
    #[arg(long, value_enum, value_name = "WHAT", default_value = "end")]
    on_owner_death: WhenOwnerDies,
    /// Memory limit, such as 2GiB (requires a control group)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_max: Option<u64>,
    /// Limit on the number of processes (requires a control group)
    #[arg(long, value_name = "N")]
    pids_max: Option<u64>,
    /// Shell command to run when the session has ended
    #[arg(long, value_name = "COMMAND")]
    notify: Option<OsString>,
    #[command(flatten)]
    labels: LabelArgs,
    /// Command to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum WhenOwnerDies {
    /// Stop the session after a grace period, unless it is adopted before
    End,
    /// Keep the session running
    Keep,
}

/// The variables of a session that the user cannot override.
const RESERVED: [&str; 3] = [COOKIE, "SEXTON_STORE", "SEXTON_STATE_DIR"];

/// Parses KEY=VALUE as bytes, so that values that are not UTF-8 are passed on unchanged.
fn variable_parser() -> impl TypedValueParser<Value = (OsString, OsString)> {
    OsStringValueParser::new().try_map(|text| {
        let bytes = text.as_bytes();
        match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) if RESERVED.iter().any(|name| name.as_bytes() == &bytes[..at]) => {
                Err("sexton sets this variable itself to identify a session's processes")
            }
            Some(at) if at > 0 => {
                let (key, value) = (OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]));
                Ok((key.to_owned(), value.to_owned()))
            }
            _ => Err("expected KEY=VALUE"),
        }
    })
}

fn parse_size(text: &str) -> Result<u64, String> {
    ByteSize::from_text(text).map(|size| size.0).ok_or_else(|| format!("expected {}", ByteSize::EXPECTED))
}

/// Starts the session. In the foreground, shows its output until it ends.
pub async fn run(args: RunArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let detach = args.detach;
    let program = args.command.first().cloned().unwrap_or_default();
    context.warn_of_unreadable_exits();
    let running = match context.start(args.into()).await {
        Ok(running) => running,
        Err(error) => return not_started(error, &program, context).await,
    };
    if let Some(id) = &running.ignored_cookie {
        warn_of_cookie(id, context.screen);
    }
    if detach {
        // This process exits now, and the kernel closes the files faster than SQLite does.
        std::mem::forget(running.store);
        return report_detached(&running.session, context);
    }
    drop(running.store);
    // Not earlier: until here a signal must end this process, and thereby the session that it owns.
    let signals = take_signals()?;
    follow_session(running.session, running.shim, &signals, context).await
}

impl From<RunArgs> for Request {
    fn from(args: RunArgs) -> Request {
        Request {
            cwd: args.cwd,
            env: args.env,
            labels: args.labels.into(),
            worktree: args.worktree.then(|| Wish { branch: args.branch, base: args.base, ..Wish::default() }),
            // A foreground session is owned by this process unless another owner is given; a detached one by the
            // enclosing session, if there is one.
            owner: match args.owner_pid {
                Some(pid) => OwnerWish::Process(pid),
                None if args.no_owner => OwnerWish::None,
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

/// Returns why the session did not start. With `--json`, prints the record of a command that could not be executed.
async fn not_started(failed: NotStarted, program: &OsStr, context: &Context<'_>) -> Result<Exit, Failure> {
    let Some(errno) = failed.exec_errno() else {
        let no_repository =
            matches!(failed.error, ServiceError::Worktree(WorktreeError::NoRepository { .. }));
        let failure = Failure::from(failed.error);
        return Err(match no_repository {
            true => failure.hint("`--worktree` requires a git repository; use `--cwd DIR` to select one"),
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

/// Returns the failure for a command that could not be executed, with the exit code of a shell: 127 if it does not
/// exist, 126 otherwise.
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
    // If the id cannot be printed on stdout, the hint on stderr contains it: the session is running.
    printed.map_err(|failure| failure.hint(format!("session {} is running", session.id)))?;
    Ok(Exit::DONE)
}

fn take_signals() -> Result<SignalPipe, Failure> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    SignalPipe::open(&signals).map_err(|error| Failure::new(format!("cannot handle signals: {error}")))
}

/// Shows the output until the session has ended, and forwards signals.
async fn follow_session(
    mut session: Session,
    mut shim: Child,
    signals: &SignalPipe,
    context: &mut Context<'_>,
) -> Result<Exit, Failure> {
    let probe = context.open_probe()?;
    let probe = probe.as_ref();
    let log = session.log.as_ref().ok_or_else(|| Failure::new("the session has no log"))?;
    let mut outputs = Outputs::of(log)?;
    let follower = outputs.follower();
    let mut watch = watch_session(probe, &session);
    let waiting = |error| Failure::new(format!("cannot wait for the session: {error}"));
    let mut interrupts = 0;
    loop {
        follower.arm().map_err(waiting)?;
        let signal = show_output(&mut outputs, signals, context)?;
        let Some(watched) = &watch else { break };
        let woken = match signal {
            Some(signal) => Woken::Signal(signal),
            None => follower.wait(Some(watched), Some(signals), None).map_err(waiting)?,
        };
        match woken {
            Woken::Grew | Woken::TimeUp => {}
            Woken::Ended => {
                // The supervisor exited. If it was killed, it recorded no exit, and the command is watched instead.
                session = load_ended(&session, context).await?;
                watch = watch_session(probe, &session);
            }
            Woken::Signal(signal) => {
                forward_signal(probe, &session, signal, interrupts).await?;
                interrupts += 1;
            }
        }
    }
    shim.wait().map_err(waiting)?;
    // There is no process left to forward a signal to, so a signal only cuts the remaining output short.
    show_output(&mut outputs, signals, context)?;
    let ended = if session.status.is_active() { load_ended(&session, context).await? } else { session };
    if context.screen.json {
        context.screen.document(&ended)?;
    }
    Ok(report_ends([&ended], context.screen))
}

/// Shows new output until the end of the log or until a signal arrives. Warns about missing output.
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
            "{} bytes of output are missing: the log is limited by `log.max_bytes`, and they were freed before \
             they could be shown",
            pumped.freed
        ));
    }
    Ok(pumped.signal)
}

/// Forwards a signal to every process of the session, as a terminal would. The second signal is sent as SIGTERM,
/// every later one as SIGKILL.
async fn forward_signal(
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
    for member in probe.members(&Group::of(session), &Others::Unknown).await?.processes {
        probe.signal(&member, signal).await?;
    }
    Ok(())
}

async fn load_ended(session: &Session, context: &Context<'_>) -> Result<Session, Failure> {
    let store = context.open_store_as_it_is(Access::Read)?;
    let mut ended = store.load(&session.id).await?.unwrap_or_else(|| session.clone());
    context.overlay_exits([&mut ended]).await?;
    Ok(ended)
}
