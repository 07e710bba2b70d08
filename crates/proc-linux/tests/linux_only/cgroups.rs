//! Control groups: found and ended whatever the processes in them do; and where none can be made, said so.

use std::io;
use std::time::Duration;

use sexton_core::SessionId;
use sexton_core::probe::{COOKIE, Group};
use sexton_proc_linux::cgroup::{Cgroup, find_base};

use super::play::{Actor, Case, end, group, idle, members, pids, policy, probe, stubborn};

pub const CASES: &[Case] = &[
    ("the_capability_says_whether_a_control_group_can_be_made", the_capability_is_true),
    ("i10_a_control_group_finds_what_has_no_cookie_and_no_parent", finds_what_nothing_else_shows),
    ("i2_a_control_group_that_is_not_the_recorded_one_is_left_alone", another_inode_is_left_alone),
    ("i2_ending_a_control_group_spares_another_session_inside", another_session_inside_is_spared),
    ("i2_ending_a_control_group_spares_who_is_to_be_spared", the_spared_are_spared),
    ("a_control_group_with_groups_below_is_ended_and_removed", groups_below_are_ended_too),
    ("a_limit_that_cannot_be_set_is_refused_in_words", a_limit_is_set_or_refused),
];

/// A session's control group, removed at the end of the case.
struct Container(Cgroup);

impl Container {
    /// `None` where this user may not make any: then that is what there is to be seen.
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
        let emptied = std::time::Instant::now() + super::play::PATIENCE;
        while !self.0.remove().unwrap_or(true) && std::time::Instant::now() < emptied {
            std::thread::yield_now();
        }
    }
}

fn the_capability_is_true() {
    let says = probe().capabilities().cgroup;
    assert_eq!(says, find_base().is_ok());
    let made = Cgroup::create(&SessionId::random());
    assert_eq!(says, made.is_ok());
    if let Ok(cgroup) = made {
        assert!(cgroup.remove().unwrap());
        assert!(Cgroup::find(&cgroup.to_record()).unwrap().is_none());
    }
}

fn finds_what_nothing_else_shows() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let mut hidden = Actor::start(&mut stubborn());
    assert_eq!(members(&container.group(&session)).processes, []);
    container.0.add(hidden.pid()).unwrap();
    assert_eq!(pids(&members(&container.group(&session)).processes), [hidden.pid()]);
    let ended = end(&[container.group(&session)], &policy(Duration::from_millis(100)));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!hidden.is_alive());
}

fn another_inode_is_left_alone() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let mut bystander = Actor::start(&mut idle());
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
    let mut member = Actor::start(stubborn().env(COOKIE, session.as_str()));
    let mut guest = Actor::start(stubborn().env(COOKIE, SessionId::random().as_str()));
    for actor in [&member, &guest] {
        container.0.add(actor.pid()).unwrap();
    }
    let ended = end(&[container.group(&session)], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!member.is_alive());
    assert!(guest.is_alive());
}

fn the_spared_are_spared() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let mut member = Actor::start(&mut stubborn());
    let mut spared = Actor::start(&mut stubborn());
    for actor in [&member, &spared] {
        container.0.add(actor.pid()).unwrap();
    }
    let mut policy = policy(Duration::ZERO);
    policy.spare.push(spared.identity());
    let ended = end(&[container.group(&session)], &policy);
    assert_eq!((pids(&ended[0].spared), ended[0].survivors.len()), (vec![spared.pid()], 0));
    assert!(!member.is_alive());
    assert!(spared.is_alive());
}

fn groups_below_are_ended_too() {
    let session = SessionId::random();
    let Some(container) = Container::make(&session) else { return };
    let below = container.0.to_record().path.as_path().join("inner/most");
    std::fs::create_dir_all(&below).unwrap();
    let mut hidden = Actor::start(&mut stubborn());
    std::fs::write(below.join("cgroup.procs"), hidden.pid().to_string()).unwrap();
    assert!(!container.0.remove().unwrap());
    let ended = end(&[container.group(&session)], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!hidden.is_alive());
    assert!(container.0.remove().unwrap());
}

fn a_limit_is_set_or_refused() {
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
                    error.to_string().starts_with(&format!("the {controller} controller cannot")),
                    "{error}"
                );
            }
        }
    }
}
