//! Which processes belong to a session, however they were started and whoever their parent is by now.

use std::collections::BTreeSet;

use sexton_core::{ProcessIdentity, SessionId};

use super::ProbeSubject;
use super::scene::{Scene, sorted};
use crate::role;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("members":
    a_command_and_its_children_are_members,
    i10_a_daemon_that_left_its_parents_is_a_member_by_its_cookie,
    a_child_that_forgot_the_cookie_is_a_member_by_descent,
    i10_an_adopted_orphan_without_a_cookie_is_a_member_through_the_supervisor,
    the_supervisor_is_no_member_where_it_is_named,
    a_registered_process_without_a_cookie_is_a_member_with_its_children,
    i2_a_process_of_another_session_is_no_member_even_as_a_descendant,
    i2_what_descends_from_another_session_is_no_member,
    i2_a_stranger_is_no_member,
    i2_a_cookie_must_match_whole,
    i2_a_reused_pid_lends_nobody_its_descendants,
    a_zombie_is_no_member,
    members_have_the_identities_that_identify_gives,
    a_session_without_processes_has_no_members,
);

fn a_command_and_its_children_are_members(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["say", "command", "fork", "say", "child", "fork", "say", "grandchild"]);
    let pids = play.pids(["command", "child", "grandchild"]);
    let group = scene.group(Some(scene.identify(play.pid())));
    assert_eq!(scene.member_pids(&group), sorted(pids));
    assert_eq!(scene.members(&group).unreadable, [0; 0]);
    // The cookie alone is enough: not every record has a process.
    assert_eq!(scene.member_pids(&scene.group(None)), sorted(pids));
}

fn i10_a_daemon_that_left_its_parents_is_a_member_by_its_cookie(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["say", "command", "fork", "leave", "setsid", "leave", "say", "daemon"]);
    let pids = play.pids(["command", "daemon"]);
    let command = scene.identify(play.pid());
    assert_eq!(scene.member_pids(&scene.group(Some(command.clone()))), sorted(pids));
    play.become_zombie();
    assert_eq!(scene.member_pids(&scene.group(Some(command))), [pids[1]]);
}

fn a_child_that_forgot_the_cookie_is_a_member_by_descent(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["fork", "forget", "say", "child", "fork", "setsid", "say", "grandchild"]);
    let pids = play.pids(["child", "grandchild"]);
    let group = scene.group(Some(scene.identify(play.pid())));
    assert_eq!(scene.member_pids(&group), sorted([play.pid(), pids[0], pids[1]]));
}

fn i10_an_adopted_orphan_without_a_cookie_is_a_member_through_the_supervisor(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["adopt", "fork", "leave", "forget", "setsid", "say", "orphan"]);
    let [orphan] = play.pids(["orphan"]);
    let supervisor = Some(scene.identify(play.pid()));
    let group = sexton_core::probe::Group { supervisor, ..scene.group(None) };
    assert_eq!(scene.member_pids(&group), [orphan]);
}

fn the_supervisor_is_no_member_where_it_is_named(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["say", "supervisor", "fork", "say", "command"]);
    let [shim, command] = play.pids(["supervisor", "command"]);
    let group = scene.group(Some(scene.identify(command)));
    let named = sexton_core::probe::Group { supervisor: Some(scene.identify(shim)), ..group.clone() };
    assert_eq!(scene.member_pids(&named), [command]);
    assert_eq!(scene.member_pids(&group), sorted([shim, command]), "one that is not named is a member too");
}

fn a_registered_process_without_a_cookie_is_a_member_with_its_children(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.stranger(["say", "registered", "fork", "say", "child"]);
    let pids = play.pids(["registered", "child"]);
    let group = scene.group(Some(scene.identify(play.pid())));
    assert_eq!(scene.member_pids(&group), sorted(pids));
}

fn i2_a_process_of_another_session_is_no_member_even_as_a_descendant(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let other = SessionId::random();
    let play = scene.member(["say", "command", "fork", "carry", other.as_str(), "say", "other"]);
    let [command, elsewhere] = play.pids(["command", "other"]);
    let group = scene.group(Some(scene.identify(command)));
    assert_eq!(scene.member_pids(&group), [command]);
    let others = sexton_core::probe::Group { session: other, ..scene.group(None) };
    assert_eq!(scene.member_pids(&others), [elsewhere]);
}

fn i2_what_descends_from_another_session_is_no_member(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let other = SessionId::random();
    let acts = ["fork", "carry", other.as_str(), "fork", "forget", "say", "theirs"];
    let play = scene.member(acts);
    play.pids(["theirs"]);
    // The nearest ancestor that belongs to anybody decides, not the farthest.
    let group = scene.group(Some(scene.identify(play.pid())));
    assert_eq!(scene.member_pids(&group), [play.pid()]);
}

fn i2_a_stranger_is_no_member(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["say", "command"]);
    let bystander = scene.stranger(["say", "bystander"]);
    play.pids(["command"]);
    bystander.pids(["bystander"]);
    let group = scene.group(Some(scene.identify(play.pid())));
    assert_eq!(scene.member_pids(&group), [play.pid()]);
    assert_eq!(scene.members(&group).unreadable, [0; 0]);
}

fn i2_a_cookie_must_match_whole(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let id = scene.session.as_str();
    let longer: Vec<String> = vec![format!("{id}0"), id[..id.len() - 1].to_owned(), id.to_uppercase()];
    let mut plays = Vec::new();
    for cookie in &longer {
        plays.push(scene.stranger(["carry", cookie, "say", "near"]));
    }
    // A text that contains the whole assignment, in a variable and in an argument, is not the cookie.
    let assignment = format!("{}={id}", sexton_core::probe::COOKIE);
    let mut command = role::command(super::actor::ACTOR);
    command.env("NOTE", &assignment).env(format!("X{}", sexton_core::probe::COOKIE), id);
    plays.push(super::scene::Actor::start(&mut command, ["say", "near", "say", &assignment]));
    for play in &plays {
        play.pids(["near"]);
    }
    assert_eq!(scene.member_pids(&scene.group(None)), [0; 0]);
}

fn i2_a_reused_pid_lends_nobody_its_descendants(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let bystander = scene.stranger(["say", "bystander", "fork", "say", "child"]);
    bystander.pids(["bystander", "child"]);
    let identity = scene.identify(bystander.pid());
    for recorded in super::identity::altered(&identity) {
        let group =
            sexton_core::probe::Group { supervisor: Some(recorded.clone()), ..scene.group(Some(recorded)) };
        assert_eq!(scene.member_pids(&group), [0; 0]);
    }
    let bare = scene.group(Some(ProcessIdentity::of_pid(bystander.pid())));
    assert_eq!(scene.member_pids(&bare), [0; 0]);
}

fn a_zombie_is_no_member(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["say", "command"]);
    play.pids(["command"]);
    let group = scene.group(Some(scene.identify(play.pid())));
    play.become_zombie();
    assert_eq!(scene.member_pids(&group), [0; 0]);
}

fn members_have_the_identities_that_identify_gives(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["say", "command", "fork", "say", "child"]);
    let pids: BTreeSet<u32> = play.pids(["command", "child"]).into();
    let members = scene.members(&scene.group(None)).processes;
    assert_eq!(members.iter().map(|member| member.pid).collect::<BTreeSet<_>>(), pids);
    for member in members {
        assert_eq!(member.compare(&scene.identify(member.pid)), sexton_core::identity::Match::Same);
        assert_eq!(scene.observe(&member), sexton_core::Liveness::Alive);
    }
}

fn a_session_without_processes_has_no_members(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let members = scene.members(&scene.group(None));
    assert_eq!((members.processes, members.unreadable), (Vec::new(), Vec::new()));
}
