//! An ordinary user, set up by root: uid 65534 in its own mount and pid namespace, with control groups as a login
//! manager creates them, and optionally a real service manager.
//!
//! ```text
//! TOP/login       owned by root: the login session; the user cannot create groups here
//! TOP/delegated   owned by the user
//! TOP/manager     owned by the user, for the service manager; it may move processes from anywhere below TOP, as the
//!                 system's manager would do for it
//! ```

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::{Ran, TestEnv, eventually};

/// The uid and gid of the user.
const NOBODY: u32 = 65534;
/// The user's name, used for lingering.
const NAME: &str = "nobody";

/// The first process of the namespaces. It creates the file SET_UP when the setup succeeded.
const INIT: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/$UID_OF_USER
chown $UID_OF_USER:$UID_OF_USER /run/user/$UID_OF_USER
chmod 700 /run/user/$UID_OF_USER
mkdir -p /var/lib/systemd
mount -t tmpfs tmpfs /var/lib/systemd
if [ -n "$LINGERS" ]; then mkdir /var/lib/systemd/linger; touch /var/lib/systemd/linger/$NAME_OF_USER; fi
if [ -n "$MANAGER" ]; then
    echo $$ > "$TOP/manager/cgroup.procs"
    setpriv --reuid $UID_OF_USER --regid $UID_OF_USER --clear-groups \
        env -i HOME="$HOME" PATH="$PATH" XDG_RUNTIME_DIR=/run/user/$UID_OF_USER "$MANAGER" --user &
    echo $$ > "$TOP/cgroup.procs"
fi
touch "$SET_UP"
while :; do sleep 86400 & wait $!; done
"#;

/// Members that lose an inherited mark: their environment, its memory area, the permission to be inspected, their
/// limits. Each has its own kernel session, and gets another parent when the command is killed.
const ESCAPEES: &str = "env -i setsid sleep 777 & \
    setsid perl -e '$0 = \"x\" x 4000; sleep 777' & \
    setsid ssh-agent -D > /dev/null 2>&1 & \
    prlimit --locks=4 env -i setsid sleep 777 & \
    exec sleep 778";

/// The final command line of each of them.
const COMMAND_LINES: [&str; 5] = ["sleep 777", "sleep 777", "xxxxxxxx", "ssh-agent -D", "sleep 778"];

/// The user's service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// No service manager.
    None,
    /// Runs until the last logout.
    Running,
    /// Keeps running after the logout.
    Lingering,
}

/// The control group that a command of the user starts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A control group that root owns.
    Login,
    /// A control group that was delegated to the user.
    Delegated,
}

/// The user and its test environment.
pub struct User {
    test_env: TestEnv,
    top: PathBuf,
    namespaces: Child,
    /// The first process in the namespaces.
    init: u64,
}

impl User {
    /// Sets up a user whose sessions have these settings. Needs root, and systemd if a manager is requested.
    pub fn enter(manager: Manager, settings: &str) -> User {
        assert!(rustix::process::geteuid().is_root(), "only root can become another user");
        let test_env = TestEnv::new().with_settings(settings);
        let top = make_groups();
        fs::create_dir(test_env.path().join("bin")).unwrap();
        fs::copy(crate::program(), test_env.path().join("bin/sexton")).unwrap();
        hand_over(test_env.path());
        let set_up = test_env.path().join("set-up");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INIT]);
        command.env("TOP", &top).env("SET_UP", &set_up).env("HOME", test_env.path());
        command.env("UID_OF_USER", NOBODY.to_string()).env("NAME_OF_USER", NAME);
        command.env("LINGERS", if manager == Manager::Lingering { "yes" } else { "" });
        let program = if manager == Manager::None { String::new() } else { find_systemd() };
        command.env("MANAGER", program);
        let log = fs::File::create(test_env.path().join("manager.log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut namespaces = command.spawn().expect("unshare is installed");
        eventually("the namespaces are set up", || {
            let ended = namespaces.try_wait().unwrap();
            let log = || fs::read_to_string(test_env.path().join("manager.log")).unwrap_or_default();
            assert!(ended.is_none(), "the namespaces could not be set up: {}", log());
            set_up.exists()
        });
        let children = format!("/proc/{0}/task/{0}/children", namespaces.id());
        let init = fs::read_to_string(children).unwrap().trim().parse().unwrap();
        let user = User { test_env, top, namespaces, init };
        if manager != Manager::None {
            eventually("the service manager listens", || {
                let socket = format!("/proc/{init}/root/run/user/{NOBODY}/systemd/private");
                Path::new(&socket).exists() && user.manager_pid().is_some()
            });
        }
        user
    }

    /// Returns the directory that contains everything of the user.
    pub fn path(&self) -> &Path {
        self.test_env.path()
    }

    /// Returns the topmost control group.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the pid of the service manager, as seen from the test's pid namespace.
    pub fn manager_pid(&self) -> Option<u64> {
        processes_in(&self.top.join("manager/init.scope")).into_iter().next()
    }

    /// Returns a command that runs any program as the user.
    pub fn command(&self, place: Place, arguments: &[&str]) -> Command {
        let group = self.top.join(match place {
            Place::Login => "login",
            Place::Delegated => "delegated",
        });
        // Root joins the group and the namespaces; then the user changes to its directory.
        let script = "echo $$ > \"$1/cgroup.procs\" && exec nsenter --target \"$2\" --mount --pid -- \
                      setpriv --reuid \"$3\" --regid \"$3\" --clear-groups -- \
                      sh -c 'cd \"$0\" && exec \"$@\"' \"${@:4}\"";
        let mut command = Command::new("bash");
        self.test_env.enclose(&mut command);
        command.env("XDG_RUNTIME_DIR", format!("/run/user/{NOBODY}"));
        command.env_remove("DBUS_SESSION_BUS_ADDRESS");
        command.args(["-c", script, "bash"]).arg(group).arg(self.init.to_string()).arg(NOBODY.to_string());
        command.arg(self.test_env.work_dir()).args(arguments);
        command
    }

    /// Returns the path of the user's copy of the binary.
    pub fn program(&self) -> String {
        self.path().join("bin/sexton").into_os_string().into_string().unwrap()
    }

    /// Runs any program as the user.
    pub fn run(&self, place: Place, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(place, arguments).output().unwrap())
    }

    /// Runs the binary as the user.
    pub fn sexton(&self, place: Place, arguments: &[&str]) -> Ran {
        self.run(place, &[&[self.program().as_str()], arguments].concat())
    }

    /// Runs the binary, requires success, and returns its output without the last newline.
    pub fn ok(&self, place: Place, arguments: &[&str]) -> String {
        let ran = self.sexton(place, arguments);
        assert_eq!(ran.code, 0, "sexton {arguments:?} failed:\n{}{}", ran.stdout, ran.stderr);
        ran.stdout.trim_end().to_owned()
    }

    /// Runs the binary with `--json`, requires success, and returns the document.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(Place::Login, &[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Starts a session whose processes have each lost a membership mark, and returns its record.
    pub fn start_escapees(&self, place: Place) -> Value {
        let id = self.ok(place, &["run", "-d", "--", "sh", "-c", ESCAPEES]);
        let record = self.json(&["show", &id]);
        let group = record["cgroup"]["path"].as_str().expect("it has a control group").to_owned();
        eventually("everything was started, and is in the group of the session", || {
            let mut missing = COMMAND_LINES.to_vec();
            for command in processes_in(group.as_ref()).into_iter().map(command_of) {
                if let Some(found) = missing.iter().position(|command_line| command.starts_with(command_line))
                {
                    missing.remove(found);
                }
            }
            missing.is_empty()
        });
        record
    }

    /// Sends a signal to a process, by its pid in the user's namespace.
    pub fn signal(&self, signal: &str, pid: u64) {
        let ran = self.run(Place::Login, &["kill", &format!("-{signal}"), &pid.to_string()]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }

    /// Kills the supervisor and the command of a session, and waits until both are gone.
    pub fn kill_session(&self, record: &Value) {
        for whose in ["supervisor", "process"] {
            let pid = record[whose]["pid"].as_u64().unwrap();
            self.signal("KILL", pid);
            eventually("it is gone", || !is_running_for(self.init, pid));
        }
    }

    /// Returns every process of the user except its manager, with pids of the test's namespace and command lines.
    pub fn processes(&self) -> Vec<(u64, String)> {
        let spared = [self.manager_pid(), Some(self.init)];
        let pids = processes_below(&self.top).into_iter().filter(|pid| !spared.contains(&Some(*pid)));
        // The sleep of the first process is its own child and stays.
        pids.map(|pid| (pid, command_of(pid))).filter(|(_, command)| command != "sleep 86400").collect()
    }

    /// Returns the existing control groups of sessions.
    pub fn session_groups(&self) -> Vec<PathBuf> {
        groups_below(&self.top)
            .into_iter()
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sexton-")))
            .collect()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // The kernel kills everything in a pid namespace together with its first process.
        let _ = self.namespaces.kill();
        let _ = self.namespaces.wait();
        let begun = std::time::Instant::now();
        while !processes_below(&self.top).is_empty() && begun.elapsed() < crate::GENEROUS {
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        for group in groups_below(&self.top).into_iter().rev() {
            let _ = fs::remove_dir(group);
        }
    }
}

/// Returns the path of systemd, which is not in PATH on all distributions.
fn find_systemd() -> String {
    let places = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];
    let found = places.into_iter().find(|path| Path::new(path).exists());
    found.expect("systemd is missing (on Debian: apt-get install systemd)").to_owned()
}

/// Creates the groups, separate from those of other tests.
fn make_groups() -> PathBuf {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount =
        mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let mount = mount.expect("no cgroup v2 hierarchy is mounted");
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    let name = format!("user-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let top = Path::new(mount).join(own).join(name);
    fs::create_dir(&top).unwrap();
    let give = |path: PathBuf| chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    give(top.join("cgroup.procs"));
    for name in ["login", "delegated", "manager"] {
        fs::create_dir(top.join(name)).unwrap();
    }
    for group in ["delegated", "manager"].map(|name| top.join(name)) {
        for file in ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            give(group.join(file));
        }
        give(group);
    }
    top
}

/// Changes the owner of a directory tree to the user.
fn hand_over(directory: &Path) {
    chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            hand_over(&entry.path());
        } else {
            chown(entry.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Returns a group and all groups below it, parents first.
fn groups_below(group: &Path) -> Vec<PathBuf> {
    let mut groups = vec![group.to_owned()];
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            groups.extend(groups_below(&entry.path()));
        }
    }
    groups
}

/// Returns the processes in a group, without those of the groups below it.
pub fn processes_in(group: &Path) -> Vec<u64> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Returns the first 60 characters of a process's command line.
fn command_of(pid: u64) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim().chars().take(60).collect()
}

fn processes_below(group: &Path) -> Vec<u64> {
    groups_below(group).iter().flat_map(|group| processes_in(group)).collect()
}

/// Returns whether a process with this pid in the namespace of `init` is running.
fn is_running_for(init: u64, pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{init}/root/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
