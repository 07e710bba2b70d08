//! The connection to a service manager, through its private socket, which needs no message bus.

use std::io::{self, Read, Write};
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;

use super::message::{self, Call, Received, Writer};
use super::unavailable;

/// How long a manager may take for all requests together: a start must not hang with it.
const TIMEOUT: Duration = Duration::from_secs(4);

const START: Call = call("StartTransientUnit", "ssa(sv)a(sa(sv))");
const STOP: Call = call("StopUnit", "ss");

const fn call(member: &'static str, signature: &'static str) -> Call {
    Call {
        destination: "org.freedesktop.systemd1",
        path: "/org/freedesktop/systemd1",
        interface: "org.freedesktop.systemd1.Manager",
        member,
        signature,
    }
}

/// A property of a unit.
pub(super) enum Property<'a> {
    Text(&'static str, &'a str),
    Flag(&'static str, bool),
    Number(&'static str, u64),
    Pids(&'static str, &'a [u32]),
}

/// A service manager of our user, in our pid namespace.
pub(super) struct Manager {
    stream: UnixStream,
    /// Its pid.
    pub(super) pid: u32,
    until: Instant,
    /// The number of the last call.
    serial: u32,
}

impl Manager {
    /// Connects to the manager of this user; root's is the system's.
    pub(super) fn connect() -> io::Result<Manager> {
        let path = socket_path()?;
        let until = Instant::now() + TIMEOUT;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(TIMEOUT))?;
        let no_manager = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "none is running".to_owned(),
                io::ErrorKind::WouldBlock => "it does not accept connections".to_owned(),
                _ => error.to_string(),
            };
            unavailable(format!("no service manager of this user at {}: {why}", path.display()))
        };
        let address = SocketAddrUnix::new(&path).map_err(|errno| no_manager(errno.into()))?;
        connect(&socket, &address).map_err(|errno| no_manager(errno.into()))?;
        let pid = require_same_view(&socket)?;
        Ok(Manager { stream: UnixStream::from(socket), pid, until, serial: 0 })
    }

    /// Authenticates this user. A manager that answers is responsive.
    pub(super) fn authenticate(&mut self) -> io::Result<()> {
        let uid: String =
            geteuid().as_raw().to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
        self.send(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())?;
        let line = self.read_line()?;
        if !line.starts_with("OK ") {
            return Err(unavailable(format!("the service manager refuses this user: {}", line.trim_end())));
        }
        self.send(b"BEGIN\r\n")
    }

    /// Starts a transient unit and waits until its job is done.
    pub(super) fn start_unit(&mut self, name: &str, properties: &[Property<'_>]) -> io::Result<()> {
        let serial = self.call(&START, |body| {
            body.string(name);
            body.string("fail");
            body.array(8, |array| properties.iter().for_each(|property| write_property(array, property)));
            body.array(8, |_| ());
        })?;
        let refused = |why: &str| unavailable(format!("the service manager cannot start {name}: {why}"));
        // A job may finish before the call is answered.
        let mut ended: Vec<(String, String)> = Vec::new();
        let mut started = None;
        loop {
            match self.receive()? {
                Received::Answer { serial: answered, text } if answered == serial => {
                    started = Some(text.ok_or_else(|| refused("the answer names no job"))?);
                }
                Received::Refusal { serial: answered, why } if answered == serial => {
                    return Err(refused(&why));
                }
                Received::JobRemoved { job, result } => ended.push((job, result)),
                Received::Answer { .. } | Received::Refusal { .. } | Received::Other => continue,
            }
            let Some(started) = &started else { continue };
            match ended.iter().find(|(job, _)| job == started) {
                Some((_, result)) if result == "done" => return Ok(()),
                Some((_, result)) => return Err(refused(&format!("its job ended with `{result}`"))),
                None => {}
            }
        }
    }

    /// Stops a unit; returns as soon as the manager accepts the request.
    pub(super) fn stop_unit(&mut self, name: &str) -> io::Result<()> {
        let serial = self.call(&STOP, |body| {
            body.string(name);
            body.string("replace");
        })?;
        loop {
            match self.receive()? {
                Received::Answer { serial: answered, .. } if answered == serial => return Ok(()),
                Received::Refusal { serial: answered, why } if answered == serial => {
                    return Err(unavailable(format!("the service manager cannot stop {name}: {why}")));
                }
                _ => {}
            }
        }
    }

    fn call(&mut self, call: &Call, body: impl FnOnce(&mut Writer)) -> io::Result<u32> {
        self.serial += 1;
        let message = message::method_call(self.serial, call, body);
        self.send(&message)?;
        Ok(self.serial)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.time_left()?;
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write_all(bytes).map_err(connection_error)
    }

    fn receive(&mut self) -> io::Result<Received> {
        message::read(&mut TimedReader(self)).map_err(connection_error)
    }

    /// Reads one line of the handshake. The manager sends nothing more before our reply.
    fn read_line(&mut self) -> io::Result<String> {
        let mut line = [0; 256];
        let mut size = 0;
        while size < line.len() && !line[..size].ends_with(b"\n") {
            match TimedReader(self).read(&mut line[size..]).map_err(connection_error)? {
                0 => return Err(connection_error(io::ErrorKind::UnexpectedEof.into())),
                more => size += more,
            }
        }
        Ok(String::from_utf8_lossy(&line[..size]).into_owned())
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Reads until the deadline of the connection, however the bytes arrive.
struct TimedReader<'a>(&'a mut Manager);

impl Read for TimedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.stream.set_read_timeout(Some(self.0.time_left()?))?;
        self.0.stream.read(buffer)
    }
}

/// Describes a failed read or write on the manager's socket.
fn connection_error(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            unavailable(format!("the service manager did not answer within {} s", TIMEOUT.as_secs()))
        }
        io::ErrorKind::UnexpectedEof => unavailable("the service manager closed the connection".to_owned()),
        _ => error,
    }
}

fn socket_path() -> io::Result<PathBuf> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/run/systemd/private"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute());
    // A cron job has no such variable; the location is conventional.
    let runtime = runtime.unwrap_or_else(|| PathBuf::from(format!("/run/user/{}", geteuid().as_raw())));
    Ok(runtime.join("systemd/private"))
}

/// Requires that the manager runs as our user or root and in our pid namespace, because units name processes
/// by pid. Returns its pid.
fn require_same_view(socket: &OwnedFd) -> io::Result<u32> {
    let peer = peer_credentials(socket)?;
    if peer.uid != geteuid().as_raw() && peer.uid != 0 {
        return Err(unavailable(format!(
            "the service manager belongs to user {}, not to the current one",
            peer.uid
        )));
    }
    let other = || unavailable("the service manager is in another pid namespace".to_owned());
    let pid = u32::try_from(peer.pid).ok().filter(|pid| *pid != 0).ok_or_else(other)?;
    let namespace = |of: &str| {
        std::fs::read_link(format!("/proc/{of}/ns/pid")).map_err(|error| {
            unavailable(format!("cannot determine the pid namespace of the service manager: {error}"))
        })
    };
    if namespace(&pid.to_string())? == namespace("self")? { Ok(pid) } else { Err(other()) }
}

/// Returns the credentials of the peer. (rustix cannot represent a peer in another pid namespace, which has
/// pid 0.)
#[allow(unsafe_code, reason = "SO_PEERCRED has no wrapper that allows the pid 0")]
fn peer_credentials(socket: &OwnedFd) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `size` bytes, and every bit pattern is a valid `ucred`.
    let done = unsafe {
        let place = (&raw mut peer).cast::<libc::c_void>();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut size)
    };
    if done == 0 { Ok(peer) } else { Err(io::Error::last_os_error()) }
}

fn write_property(array: &mut Writer, property: &Property<'_>) {
    array.align(8);
    match property {
        Property::Text(name, text) => {
            array.string(name);
            array.signature("s");
            array.string(text);
        }
        Property::Flag(name, flag) => {
            array.string(name);
            array.signature("b");
            array.u32(u32::from(*flag));
        }
        Property::Number(name, number) => {
            array.string(name);
            array.signature("t");
            array.u64(*number);
        }
        Property::Pids(name, pids) => {
            array.string(name);
            array.signature("au");
            array.array(4, |array| pids.iter().for_each(|pid| array.u32(*pid)));
        }
    }
}
