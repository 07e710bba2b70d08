//! Commands that run under limits which affect nothing else on this machine.

use std::process::Command;

use crate::{TestEnv, program};

/// Returns a command that runs the program in its own user namespace with a limit of 0 inotify instances.
pub fn without_inotify(test_env: &TestEnv, arguments: &[&str]) -> Command {
    let exhaust = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", exhaust, &program()]).args(arguments);
    test_env.enclose(&mut command);
    command
}

/// Returns a command that runs the program from a shell which first executes `limit`, such as `ulimit -f 0`.
pub fn limited(test_env: &TestEnv, limit: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit} && exec \"$0\" \"$@\""), &program()]).args(arguments);
    test_env.enclose(&mut command);
    command
}

/// Returns the number of inotify instances that a process has open.
pub fn inotify_instances(pid: u64) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.ok()?.path()).ok());
    targets.filter(|target| target.as_os_str() == "anon_inode:inotify").count()
}
