//! The shim: one small process per session that waits for the command and records its end.

mod gate;
mod life;
mod outlook;
mod program;
mod recorder;
mod trim;

use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use sexton_core::config::Containment;
use sexton_core::plugin::Registry;
use sexton_core::probe::{Contained, Limits};
use sexton_core::{OsText, ProcessProbe, SessionId};

use crate::control::{Control, FromShim, FromStarter, Ready};
use crate::plan::{Plan, WatchedCommand};
use crate::platform::{become_subreaper, ignore_signals, leave_session_group, name_process};
use crate::session_dir::SessionDir;
use gate::{Gated, Opened, Streams, fork_at_gate};
use life::Life;
use outlook::Outlook;
use program::Program;

/// The hidden word that makes this program the shim.
pub(crate) const SHIM_WORD: &str = "__shim";

/// What the kernel calls the process; at most 15 characters.
const PROCESS_NAME: &core::ffi::CStr = c"sexton-shim";

/// Whether this process was executed as a shim. Asked before any argument is parsed.
pub fn is_shim() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == SHIM_WORD)
}

/// The whole life of a shim. Its control channel is its standard output; what becomes the command's
/// standard input is its own.
pub fn shim_main() -> ExitCode {
    match take_control().and_then(live) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn take_control() -> io::Result<Control> {
    let channel: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(Control::over(UnixStream::from(channel)))
}

fn live(mut control: Control) -> io::Result<()> {
    // Nobody may end the shim by accident; it ends when its session has.
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
    // Its own session, so that no terminal and no process group of its starter reaches it. Refused only
    // where that is so already.
    let _ = rustix::process::setsid();
    // It is nobody's occupant, however long it lives. (Its starter could see to that, but then it could not
    // start it without copying itself first.)
    let _ = rustix::process::chdir("/");
    name_process(PROCESS_NAME);
    // A starter that left before it said what to start has nothing to be tidied up: what there is of a
    // session, the shim makes.
    let Some(mut plan) = control.receive::<Plan>()? else { return Ok(()) };
    if let Some(command) = plan.watch.take() {
        return watch(control, plan, command);
    }
    let session = plan.session.clone();
    let directory = SessionDir::of(&plan.state_dir, &session);
    let (mut life, gated, ready) = match Prepared::make(&plan).and_then(|prepared| prepared.fork(plan)) {
        Ok(forked) => forked,
        Err(error) => {
            let removed = directory.remove();
            return control.send(&FromShim::Failed { why: error.to_string() }).and(removed);
        }
    };
    let answer = control.send(&FromShim::Ready(Box::new(ready))).and_then(|()| control.receive());
    let store = match answer {
        Ok(Some(FromStarter::Recorded { store })) => store,
        Ok(Some(FromStarter::CalledOff)) => {
            drop(gated);
            return life.call_off();
        }
        // The starter is gone, or could not record the session: the command must never run.
        Ok(None | Some(FromStarter::NotRecorded)) | Err(_) => {
            drop(gated);
            return life.give_up();
        }
    };
    match gated.open() {
        Opened::Executed => {
            // Where the starter is gone by now, the record speaks for itself.
            let _ = control.send(&FromShim::Executed);
            drop(control);
            // Nobody waits for this any more. A directory that could not be marked is never taken for a stray,
            // so nobody has to hear of it either.
            let _ = store.map(|store| directory.mark(&store, &session));
            life.wait()
        }
        Opened::NotExecuted(failure) => {
            let outcome = life.record_exec_failure(&failure);
            let doing = failure.step.doing().to_owned();
            let _ = control.send(&FromShim::NotExecuted { errno: failure.errno, doing });
            let _ = store.map(|store| directory.mark(&store, &session));
            // Only now: this process becomes the one that takes the worktree away.
            life.clear_unused_worktree();
            outcome
        }
        Opened::Nobody => life.give_up(),
    }
}

/// The life of a shim for a session that lost its own.
fn watch(mut control: Control, plan: Plan, command: WatchedCommand) -> io::Result<()> {
    let lost = command.lost.clone();
    let prepared = prepare_watch(plan, command).and_then(|life| Ok((life.take_over(lost.as_ref())?, life)));
    match prepared {
        Ok((true, mut life)) => {
            let _ = control.send(&FromShim::Executed);
            drop(control);
            life.watch()
        }
        // Somebody else supervises it by now, or it has ended.
        Ok((false, _)) => control.send(&FromShim::Executed),
        Err(error) => control.send(&FromShim::Failed { why: error.to_string() }),
    }
}

fn prepare_watch(plan: Plan, command: WatchedCommand) -> io::Result<Life> {
    let registry = Registry::linked().map_err(io::Error::other)?;
    let probe = registry.open_probe(&plan.probe).map_err(io::Error::other)?;
    let log = open_log(&plan.log_path)?;
    let supervisor = pollster::block_on(probe.identify(std::process::id())).map_err(io::Error::other)?;
    let ready = Ready { process: command.process, supervisor, cgroup: command.cgroup };
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Life::new(plan, probe, Outlook::open()?, log, &ready))
}

/// Everything that can fail before there is a process.
struct Prepared {
    program: Program,
    directory: CString,
    log: File,
    stderr: Option<File>,
    probe: Box<dyn ProcessProbe>,
    contained: Option<Contained>,
}

impl Prepared {
    fn make(plan: &Plan) -> io::Result<Prepared> {
        let directory = SessionDir::of(&plan.state_dir, &plan.session);
        directory.create().map_err(|error| cannot_make(directory.path(), &error))?;
        let registry = Registry::linked().map_err(io::Error::other)?;
        let probe = registry.open_probe(&plan.probe).map_err(io::Error::other)?;
        Ok(Prepared {
            program: Program::prepare(plan).map_err(io::Error::other)?,
            directory: CString::new(plan.cwd.as_os_str().as_bytes()).map_err(io::Error::other)?,
            log: open_log(&plan.log_path)?,
            stderr: plan.stderr_path.as_ref().map(open_log).transpose()?,
            contained: contain(plan, probe.as_ref())?,
            probe,
        })
    }

    fn fork(self, plan: Plan) -> io::Result<(Life, Gated, Ready)> {
        match self.fork_command() {
            Ok((outlook, gated, ready)) => {
                Ok((Life::new(plan, self.probe, outlook, self.log, &ready), gated, ready))
            }
            Err(error) => {
                // Whoever was forked leaves, for nobody holds its gate any more.
                while matches!(wait(WaitOptions::empty()), Ok(_) | Err(Errno::INTR)) {}
                self.contained.iter().for_each(|contained| self.probe.release(&contained.cgroup));
                Err(error)
            }
        }
    }

    fn fork_command(&self) -> io::Result<(Outlook, Gated, Ready)> {
        become_subreaper()?;
        let outlook = Outlook::open()?;
        let stdout = self.log.as_fd();
        let streams = Streams {
            stdin: rustix::stdio::stdin(),
            stdout,
            stderr: self.stderr.as_ref().map_or(stdout, AsFd::as_fd),
        };
        let cgroup = self.contained.as_ref().map(|contained| contained.directory.as_fd());
        let gated = fork_at_gate(&self.program, &self.directory, &streams, cgroup)?;
        // The command has its own copy; ours would keep a terminal or a pipe open for as long as we live.
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let identify = |pid| pollster::block_on(self.probe.identify(pid)).map_err(io::Error::other);
        let ready = Ready {
            process: identify(gated.pid)?,
            supervisor: identify(std::process::id())?,
            cgroup: self.contained.as_ref().map(|contained| contained.cgroup.clone()),
        };
        Ok((outlook, gated, ready))
    }
}

/// The control group of the session, where one is wanted and can be made.
fn contain(plan: &Plan, probe: &dyn ProcessProbe) -> io::Result<Option<Contained>> {
    if plan.containment == Containment::Tree {
        return Ok(None);
    }
    let limits = Limits { memory_max: plan.memory_max, pids_max: plan.pids_max };
    match probe.contain(&plan.session, &limits) {
        Ok(contained) => {
            stand_outside(&contained, &plan.session);
            Ok(Some(contained))
        }
        Err(_) if plan.containment == Containment::Auto && limits == Limits::default() => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Leaves the control group of a session that this one was started in. Where that is refused, ending that one
/// kills this supervisor as well; its command lives on, and is recorded.
fn stand_outside(contained: &Contained, session: &SessionId) {
    let name = contained.cgroup.path.as_path().file_name().map(OsStr::to_string_lossy);
    if let Some(prefix) = name.as_deref().and_then(|name| name.strip_suffix(session.as_str())) {
        let _ = leave_session_group(contained.directory.as_fd(), prefix);
    }
}

fn cannot_make(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot make {}: {error}", path.display()))
}

fn open_log(path: &OsText) -> io::Result<File> {
    OpenOptions::new().append(true).read(true).create(true).mode(0o600).open(path.as_path())
}
