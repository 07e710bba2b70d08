//! The shim: one small process per session that waits for the command and records its end.

mod containment;
mod event_sources;
mod gate;
mod program;
mod recorder;
mod supervised;
mod trim;

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use sexton_core::plugin::Registry;
use sexton_core::{Incarnation, OsText, ProcessProbe};

use crate::control::{Control, FromShim, FromStarter, Ready};
use crate::host::find_host_leniently;
use crate::limit_mark::set_limit_mark;
use crate::plan::{Plan, WatchedCommand};
use crate::platform::{InheritedLimits, become_subreaper, expect_children, ignore_signals, name_process};
use crate::session_dir::SessionDir;
use crate::supervision::Supervision;
use containment::{fork_contained, leave_outer_group, reap_all};
use event_sources::EventSources;
use gate::{Gated, Opened, Streams, fork_at_gate};
use program::Program;
use supervised::Supervised;

/// The hidden argument that makes this program the shim.
pub(crate) const SHIM_WORD: &str = "__shim";

/// Process name; at most 15 characters.
const PROCESS_NAME: &core::ffi::CStr = c"sexton-shim";

/// Returns whether this process was executed as a shim. Call it before any argument is parsed.
pub fn is_shim() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == SHIM_WORD)
}

/// Runs the shim. Its standard output is the control channel; its standard input becomes the command's.
pub fn shim_main() -> ExitCode {
    match take_control().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn take_control() -> io::Result<Control> {
    let channel: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(Control::over(UnixStream::from(channel)))
}

fn run(mut control: Control) -> io::Result<()> {
    expect_children();
    // The shim must not be killed by accident; it exits when its session has ended.
    ignore_signals(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGUSR2,
        libc::SIGIO,
    ]);
    // Signals for an exceeded resource limit may kill the command, but not the process that records that.
    if !sexton_mutant::is("xfsz_kills") {
        ignore_signals(&[libc::SIGXFSZ, libc::SIGXCPU]);
    }
    let limits = InheritedLimits::raise();
    // Its own session, so that no signal of a terminal or of its starter's process group reaches it. Fails
    // only if it already is a session leader.
    let _ = rustix::process::setsid();
    // It must not occupy a directory. (If the starter set this, `Command` would have to fork instead of using
    // posix_spawn.)
    let _ = rustix::process::chdir("/");
    name_process(PROCESS_NAME);
    // If the starter exited before it sent a plan, there is nothing to clean up: only the shim creates a
    // session's files.
    let Some(mut plan) = control.receive::<Plan>()? else { return Ok(()) };
    if let Some(command) = plan.watch.take() {
        return watch(control, plan, command, limits);
    }
    let session = plan.session.clone();
    let state_dir = plan.state_dir.clone();
    let directory = SessionDir::of(&state_dir, &session);
    let (mut supervised, gated, ready) =
        match Prepared::make(&plan, limits).and_then(|prepared| prepared.fork(plan)) {
            Ok(forked) => forked,
            Err(error) => {
                let removed = directory.remove();
                return control.send(&FromShim::Failed { why: error.to_string() }).and(removed);
            }
        };
    let supervisor = ready.supervisor.clone();
    let mark = |store: String| {
        let made_on = Incarnation::new(find_host_leniently(&state_dir), &supervisor);
        directory.mark(&store, &session, made_on)
    };
    // A starter that cancelled the start may have exited before it could receive this. Its message can still be
    // received.
    let sent = control.send(&FromShim::Ready(Box::new(ready)));
    let answer = control.receive().or_else(|error| sent.and(Err(error)));
    let store = match answer {
        Ok(Some(FromStarter::Recorded { store })) => store,
        Ok(Some(FromStarter::CalledOff)) => {
            drop(gated);
            return supervised.call_off();
        }
        // The starter is gone, or could not record the session: the command must never run.
        Ok(None | Some(FromStarter::NotRecorded)) | Err(_) => {
            drop(gated);
            return supervised.give_up();
        }
    };
    match gated.open() {
        Opened::Executed => {
            // If the starter is gone, the record is sufficient.
            let _ = control.send(&FromShim::Executed);
            drop(control);
            // The starter no longer waits. A directory that could not be marked is never treated as a stray,
            // so the error is not reported.
            let _ = store.map(mark);
            supervised.wait()
        }
        Opened::NotExecuted(failure) => {
            let outcome = supervised.record_exec_failure(&failure);
            let doing = failure.step.doing().to_owned();
            let _ = control.send(&FromShim::NotExecuted { errno: failure.errno, doing });
            let _ = store.map(mark);
            // Last, because this process becomes the program that removes the worktree.
            supervised.clear_unused_worktree();
            outcome
        }
        Opened::Gone => supervised.give_up(),
    }
}

/// Supervises a session that lost its shim.
fn watch(
    mut control: Control,
    plan: Plan,
    command: WatchedCommand,
    limits: InheritedLimits,
) -> io::Result<()> {
    let lost = command.lost.clone();
    let prepared = prepare_watch(plan, command, limits)
        .and_then(|supervised| Ok((supervised.take_over(lost.as_ref())?, supervised)));
    match prepared {
        Ok((true, mut supervised)) => {
            let _ = control.send(&FromShim::Executed);
            drop(control);
            supervised.watch()
        }
        // It has another supervisor by now, or it has ended.
        Ok((false, _)) => control.send(&FromShim::NotNeeded),
        Err(error) => control.send(&FromShim::Failed { why: error.to_string() }),
    }
}

fn prepare_watch(plan: Plan, command: WatchedCommand, limits: InheritedLimits) -> io::Result<Supervised> {
    let registry = Registry::linked().map_err(io::Error::other)?;
    let probe = registry.open_probe(&plan.probe).map_err(io::Error::other)?;
    // The starter may be a process of a session, even of this one.
    if let Some(cgroup) = &command.cgroup
        && let Ok(directory) = File::open(cgroup.path.as_path())
    {
        leave_outer_group(directory.as_fd(), cgroup, &plan.session);
    }
    let log = open_log(&plan.log_path)?;
    let supervisor = pollster::block_on(probe.identify(std::process::id())).map_err(io::Error::other)?;
    let ready = Ready {
        process: command.process,
        supervisor,
        cgroup: command.cgroup,
        containment: None,
        limit_mark: command.limit_mark,
    };
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Supervised::new(plan, probe, EventSources::open()?, log, &ready, limits))
}

/// Everything that can fail before a process exists.
struct Prepared {
    program: Program,
    directory: CString,
    log: File,
    stderr: Option<File>,
    probe: Box<dyn ProcessProbe>,
    limits: InheritedLimits,
}

impl Prepared {
    fn make(plan: &Plan, limits: InheritedLimits) -> io::Result<Prepared> {
        if let Some(bytes) = limits.too_small_to_record() {
            let why = "too small to record how the command ends (`ulimit -f`)";
            return Err(io::Error::other(format!("the file size limit is {bytes} bytes, {why}")));
        }
        let directory = SessionDir::of(&plan.state_dir, &plan.session);
        directory.create().map_err(|error| cannot_create(directory.path(), &error))?;
        let kept = Supervision::of(plan).keep(&directory);
        kept.map_err(|error| cannot_create(&directory.path().join("supervision.json"), &error))?;
        let registry = Registry::linked().map_err(io::Error::other)?;
        let probe = registry.open_probe(&plan.probe).map_err(io::Error::other)?;
        Ok(Prepared {
            program: Program::prepare(plan).map_err(io::Error::other)?,
            directory: CString::new(plan.cwd.as_os_str().as_bytes()).map_err(io::Error::other)?,
            log: open_log(&plan.log_path)?,
            stderr: plan.stderr_path.as_ref().map(open_log).transpose()?,
            probe,
            limits,
        })
    }

    fn fork(self, plan: Plan) -> io::Result<(Supervised, Gated, Ready)> {
        let (event_sources, gated, ready) = self.fork_command(&plan)?;
        Ok((Supervised::new(plan, self.probe, event_sources, self.log, &ready, self.limits), gated, ready))
    }

    fn fork_command(&self, plan: &Plan) -> io::Result<(EventSources, Gated, Ready)> {
        become_subreaper()?;
        let event_sources = EventSources::open()?;
        let stdout = self.log.as_fd();
        let streams = Streams {
            stdin: rustix::stdio::stdin(),
            stdout,
            stderr: self.stderr.as_ref().map_or(stdout, AsFd::as_fd),
        };
        let probe = self.probe.as_ref();
        let fork = |cgroup: Option<BorrowedFd<'_>>| {
            fork_at_gate(&self.program, &self.directory, &streams, &self.limits, cgroup)
        };
        let held = fork_contained(plan, probe, fork)?;
        let identify = |pid| pollster::block_on(probe.identify(pid)).map_err(io::Error::other);
        let ready = || {
            // The command has its own copy; ours would keep a terminal or a pipe open until the session ends.
            rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
            Ok(Ready {
                process: identify(held.gated.pid)?,
                supervisor: identify(std::process::id())?,
                cgroup: held.cgroup.clone(),
                containment: Some(held.by),
                limit_mark: set_limit_mark(held.gated.pid),
            })
        };
        match ready() {
            Ok(ready) => Ok((event_sources, held.gated, ready)),
            Err(error) => {
                // The command exits, because its gate is closed.
                drop(held.gated);
                reap_all();
                held.cgroup.iter().for_each(|cgroup| probe.release(cgroup));
                Err(error)
            }
        }
    }
}

fn cannot_create(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot create {}: {error}", path.display()))
}

fn open_log(path: &OsText) -> io::Result<File> {
    OpenOptions::new().append(true).read(true).create(true).mode(0o600).open(path.as_path())
}
