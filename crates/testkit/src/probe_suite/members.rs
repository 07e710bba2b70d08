//! Which processes belong to a session, however they were started and whatever their parent is.

use std::collections::BTreeSet;

use sexton_core::ProcessIdentity;

use super::ProbeSubject;
use super::test_env::{TestEnv, sorted};
use crate::role;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("members":
    command_and_its_children_are_members,
    i10_daemon_is_a_member_by_its_cookie,
    child_without_cookie_is_a_member_by_descent,
    i10_orphan_adopted_by_the_supervisor_is_a_member,
    recorded_supervisor_is_not_a_member,
    registered_process_without_cookie_is_a_member_with_its_children,
    i2_unrelated_process_is_not_a_member,
    i2_cookie_must_match_exactly,
    i2_descendants_of_a_reused_pid_are_not_members,
    zombie_is_not_a_member,
    members_have_the_same_identity_as_identify,
    session_without_processes_has_no_members,
);

fn command_and_its_children_are_members(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["say", "command", "fork", "say", "child", "fork", "say", "grandchild"]);
    let pids = actor.pids(["command", "child", "grandchild"]);
    let group = test_env.group(Some(test_env.identify(actor.pid())));
    assert_eq!(test_env.member_pids(&group), sorted(pids));
    assert_eq!(test_env.members(&group).unreadable, [0; 0]);
    // The cookie alone is sufficient, because not every record has a process.
    assert_eq!(test_env.member_pids(&test_env.group(None)), sorted(pids));
}

fn i10_daemon_is_a_member_by_its_cookie(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["say", "command", "fork", "leave", "setsid", "leave", "say", "daemon"]);
    let pids = actor.pids(["command", "daemon"]);
    let command = test_env.identify(actor.pid());
    assert_eq!(test_env.member_pids(&test_env.group(Some(command.clone()))), sorted(pids));
    actor.become_zombie();
    assert_eq!(test_env.member_pids(&test_env.group(Some(command))), [pids[1]]);
}

fn child_without_cookie_is_a_member_by_descent(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["fork", "forget", "say", "child", "fork", "setsid", "say", "grandchild"]);
    let pids = actor.pids(["child", "grandchild"]);
    let group = test_env.group(Some(test_env.identify(actor.pid())));
    assert_eq!(test_env.member_pids(&group), sorted([actor.pid(), pids[0], pids[1]]));
}

fn i10_orphan_adopted_by_the_supervisor_is_a_member(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["adopt", "fork", "leave", "forget", "setsid", "say", "orphan"]);
    let [orphan] = actor.pids(["orphan"]);
    let supervisor = Some(test_env.identify(actor.pid()));
    let group = sexton_core::probe::Group { supervisor, ..test_env.group(None) };
    assert_eq!(test_env.member_pids(&group), [orphan]);
}

fn recorded_supervisor_is_not_a_member(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["say", "supervisor", "fork", "say", "command"]);
    let [shim, command] = actor.pids(["supervisor", "command"]);
    let group = test_env.group(Some(test_env.identify(command)));
    let named = sexton_core::probe::Group { supervisor: Some(test_env.identify(shim)), ..group.clone() };
    assert_eq!(test_env.member_pids(&named), [command]);
    assert_eq!(
        test_env.member_pids(&group),
        sorted([shim, command]),
        "a supervisor that is not recorded is a member"
    );
}

fn registered_process_without_cookie_is_a_member_with_its_children(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.stranger(["say", "registered", "fork", "say", "child"]);
    let pids = actor.pids(["registered", "child"]);
    let group = test_env.group(Some(test_env.identify(actor.pid())));
    assert_eq!(test_env.member_pids(&group), sorted(pids));
}

fn i2_unrelated_process_is_not_a_member(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["say", "command"]);
    let bystander = test_env.stranger(["say", "bystander"]);
    actor.pids(["command"]);
    bystander.pids(["bystander"]);
    let group = test_env.group(Some(test_env.identify(actor.pid())));
    assert_eq!(test_env.member_pids(&group), [actor.pid()]);
    assert_eq!(test_env.members(&group).unreadable, [0; 0]);
}

fn i2_cookie_must_match_exactly(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let id = test_env.session.as_str();
    let longer: Vec<String> = vec![format!("{id}0"), id[..id.len() - 1].to_owned(), id.to_uppercase()];
    let mut actors = Vec::new();
    for cookie in &longer {
        actors.push(test_env.stranger(["carry", cookie, "say", "near"]));
    }
    // The assignment inside another variable or an argument is not a cookie.
    let assignment = format!("{}={id}", sexton_core::probe::COOKIE);
    let mut command = role::command(super::actor::ACTOR);
    command.env("NOTE", &assignment).env(format!("X{}", sexton_core::probe::COOKIE), id);
    actors.push(super::test_env::Actor::start(&mut command, ["say", "near", "say", &assignment]));
    for actor in &actors {
        actor.pids(["near"]);
    }
    assert_eq!(test_env.member_pids(&test_env.group(None)), [0; 0]);
}

fn i2_descendants_of_a_reused_pid_are_not_members(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let bystander = test_env.stranger(["say", "bystander", "fork", "say", "child"]);
    bystander.pids(["bystander", "child"]);
    let identity = test_env.identify(bystander.pid());
    for recorded in super::identity::altered(&identity) {
        let group = sexton_core::probe::Group {
            supervisor: Some(recorded.clone()),
            ..test_env.group(Some(recorded))
        };
        assert_eq!(test_env.member_pids(&group), [0; 0]);
    }
    let bare = test_env.group(Some(ProcessIdentity::of_pid(bystander.pid())));
    assert_eq!(test_env.member_pids(&bare), [0; 0]);
}

fn zombie_is_not_a_member(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["say", "command"]);
    actor.pids(["command"]);
    let group = test_env.group(Some(test_env.identify(actor.pid())));
    actor.become_zombie();
    assert_eq!(test_env.member_pids(&group), [0; 0]);
}

fn members_have_the_same_identity_as_identify(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["say", "command", "fork", "say", "child"]);
    let pids: BTreeSet<u32> = actor.pids(["command", "child"]).into();
    let members = test_env.members(&test_env.group(None)).processes;
    assert_eq!(members.iter().map(|member| member.pid).collect::<BTreeSet<_>>(), pids);
    for member in members {
        assert_eq!(member.compare(&test_env.identify(member.pid)), sexton_core::identity::Match::Same);
        assert_eq!(test_env.observe(&member), sexton_core::Liveness::Alive);
    }
}

fn session_without_processes_has_no_members(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let members = test_env.members(&test_env.group(None));
    assert_eq!((members.processes, members.unreadable), (Vec::new(), Vec::new()));
}
