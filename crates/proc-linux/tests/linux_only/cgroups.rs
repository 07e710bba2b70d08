//! Control groups: processes in them are found and stopped whatever they do. Where none can be created, the
//! error can_contain so.

use std::io;
use std::time::Duration;

use sexton_core::probe::{COOKIE, Group};
use sexton_core::{Others, SessionId};
use sexton_proc_linux::cgroup::{Cgroup, find_base};

use super::play::{Case, TestProcess, end, group, idle, members, pids, policy, probe, stubborn};

pub const CASES: &[Case] = &[
    ("cgroup_capability_is_true_iff_a_group_can_be_created", capability_matches),
    ("i10_cgroup_finds_a_process_without_cookie_and_parent", finds_processes_without_other_evidence),
    ("i2_cgroup_with_another_inode_is_not_touched", another_inode_is_not_touched),
    ("i2_stopping_a_cgroup_spares_another_session_inside", another_session_inside_is_spared),
    ("i10_forged_cookie_in_a_cgroup_exempts_no_process", forged_cookie_exempts_no_process),
    ("i2_stopping_a_cgroup_spares_processes_on_the_spare_list", spare_list_is_respected),
    ("nested_cgroups_are_stopped_and_removed", nested_groups_are_stopped_too),
    ("limit_that_cannot_be_set_gives_a_clear_error", limit_is_set_or_refused),
];

/// A session's control group, removed at the end of the case.
struct Container(Cgroup);

impl Container {
    /// Creates the group; returns `None` after checking the error if this user may not create any.
    fn make(session: &SessionId) -> Option<Container> {
        match Cgroup::create(session) {
            Ok(cgroup) => Some(Container(cgroup)),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
                assert!(!rustix::process::geteuid().is_root(), "root can make a control group: {error}");
                assert!(!probe().capabilities().cgroup);
                None
            }
        }
    }

    fn group(&self, session: &SessionId) -> Group {
        Group { cgroup: Some(self.0.to_record()), ..group(session) }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let emptied = std::time::Instant::now() + super::play::TIMEOUT;
        while !self.0.remove().unwrap_or(true) && std::time::Instant::now() < emptied {
            std::thread::yield_now();
        }
    }
}

fn capability_matches() {
    let can_contain = probe().capabilities().cgroup;
    assert_eq!(can_contain, find_base().is_ok());
    let made = Cgroup::create(&SessionId::random());
    assert_eq!(can_contain, made.is_ok());
    if let Ok(cgroup) = made {
        assert!(cgroup.remove().unwrap());
        assert!(Cgroup::find(&cgroup.to_record()).unwrap().is_none());
    }
}

fn finds_processes_without_other_evidence() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let mut hidden = TestProcess::start(&mut stubborn());
    assert_eq!(members(&container.group(&session)).processes, []);
    container.0.add(hidden.pid()).unwrap();
    assert_eq!(pids(&members(&container.group(&session)).processes), [hidden.pid()]);
    let ended = end(&[container.group(&session)], &policy(Duration::from_millis(100)));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!hidden.is_alive());
}

fn another_inode_is_not_touched() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let mut bystander = TestProcess::start(&mut idle());
    container.0.add(bystander.pid()).unwrap();
    let mut group = container.group(&session);
    group.cgroup.as_mut().unwrap().inode += 1;
    assert_eq!(members(&group).processes, []);
    let ended = end(&[group], &policy(Duration::ZERO));
    assert_eq!(ended[0].signalled, []);
    assert!(bystander.is_alive());
}

fn another_session_inside_is_spared() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let inner = SessionId::random();
    let mut member = TestProcess::start(stubborn().env(COOKIE, session.as_str()));
    let mut guest = TestProcess::start(stubborn().env(COOKIE, inner.as_str()));
    for process in [&member, &guest] {
        container.0.add(process.pid()).unwrap();
    }
    let mut policy = policy(Duration::ZERO);
    policy.others = Others::Known(vec![Group { process: Some(guest.identity()), ..group(&inner) }]);
    let ended = end(&[container.group(&session)], &policy);
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!member.is_alive());
    assert!(guest.is_alive());
}

fn forged_cookie_exempts_no_process() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let mut forgers: Vec<_> = ["nosuchsession", SessionId::random().as_str()]
        .map(|cookie| TestProcess::start(stubborn().env(COOKIE, cookie)))
        .into();
    for process in &forgers {
        container.0.add(process.pid()).unwrap();
    }
    let ended = end(&[container.group(&session)], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (2, 0));
    assert!(forgers.iter_mut().all(|forger| !forger.is_alive()));
}

fn spare_list_is_respected() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let mut member = TestProcess::start(&mut stubborn());
    let mut spared = TestProcess::start(&mut stubborn());
    for process in [&member, &spared] {
        container.0.add(process.pid()).unwrap();
    }
    let mut policy = policy(Duration::ZERO);
    policy.spare.push(spared.identity());
    let ended = end(&[container.group(&session)], &policy);
    assert_eq!((pids(&ended[0].spared), ended[0].survivors.len()), (vec![spared.pid()], 0));
    assert!(!member.is_alive());
    assert!(spared.is_alive());
}

fn nested_groups_are_stopped_too() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let below = container.0.to_record().path.as_path().join("inner/most");
    std::fs::create_dir_all(&below).unwrap();
    let mut hidden = TestProcess::start(&mut stubborn());
    std::fs::write(below.join("cgroup.procs"), hidden.pid().to_string()).unwrap();
    assert!(!container.0.remove().unwrap());
    let ended = end(&[container.group(&session)], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!hidden.is_alive());
    assert!(container.0.remove().unwrap());
}

fn limit_is_set_or_refused() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let limits: [(&str, io::Result<()>); 2] =
        [("pids", container.0.set_pids_max(100)), ("memory", container.0.set_memory_max(1 << 30))];
    for (controller, limit) in limits {
        let path = container.0.to_record().path.as_path().join(format!("{controller}.max"));
        match limit {
            Ok(()) => assert!(["100", "1073741824"].contains(&std::fs::read_to_string(path).unwrap().trim())),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                assert!(
                    error.to_string().starts_with(&format!("the {controller} controller is not available")),
                    "{error}"
                );
            }
        }
    }
}
