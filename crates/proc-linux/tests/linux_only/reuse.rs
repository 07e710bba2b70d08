//! Pids that are reused within one clock tick.

use std::time::Duration;

use pollster::block_on;
use sexton_core::{Liveness, Others, SessionId};

use super::namespaces::role_in_pid_namespace;
use super::play::{Case, TestProcess, group, policy, probe};

pub const CASES: &[Case] = &[("i2_pid_reused_2000_times_is_never_signalled", never_signalled)];

const REUSES: usize = 2000;

fn never_signalled() {
    let status = role_in_pid_namespace("reuse", &["--mount-proc"]).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Role: the first process of a namespace, where it alone decides which pid comes next.
pub fn reuse_pids() {
    let probe = probe();
    assert!(probe.capabilities().exact_identity, "pidfds have no unique inodes on this kernel");
    let mut in_one_tick = 0;
    for turn in 0..REUSES {
        let recorded = {
            let former = TestProcess(idle());
            block_on(probe.identify(former.pid())).unwrap()
        };
        std::fs::write("/proc/sys/kernel/ns_last_pid", (recorded.pid - 1).to_string()).unwrap();
        let mut bystander = TestProcess(idle());
        assert_eq!(bystander.pid(), recorded.pid, "turn {turn}: the pid was not reused");
        in_one_tick += usize::from(bystander.identity().start_ticks == recorded.start_ticks);

        assert_eq!(block_on(probe.observe(&recorded)), Liveness::Reused);
        let mut of_former = group(&SessionId::random());
        of_former.process = Some(recorded.clone());
        of_former.supervisor = (turn % 2 == 0).then_some(recorded);
        assert_eq!(block_on(probe.members(&of_former, &Others::none())).unwrap().processes, []);
        let ended = block_on(probe.terminate(&[of_former], &policy(Duration::ZERO))).unwrap();
        assert_eq!((&ended[0].signalled[..], &ended[0].survivors[..]), (&[][..], &[][..]));
        assert!(bystander.is_alive(), "turn {turn}: a bystander was killed");
    }
    // Otherwise the inode was not needed and the test proves nothing.
    assert!(in_one_tick > REUSES / 10, "only {in_one_tick} of {REUSES} reuses were within one tick");
    eprintln!("{in_one_tick} of {REUSES} pids were reused within one tick, none was signalled");
}

fn idle() -> std::process::Child {
    std::process::Command::new("/bin/sleep").arg("600").env_clear().spawn().unwrap()
}
