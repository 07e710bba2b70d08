//! Whose a worktree is: marks, claims, and two stores over one yard.

// A case that cannot go on panics, in its helpers too.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Begun, Inspection, Marked, Plot, Removal};
use support::{
    Ground, STORE, cleaner, inspect, now, picture, refusal, require_same, rescue, sweep, try_create,
    try_remove, try_rescue, write,
};

const OTHER_STORE: &str = "ffffffff-9999-4222-8333-444455556666";

/// A worktree that git made in the yard.
fn foreign(ground: &Ground, session: &str) -> Plot {
    let plot = ground.plot(session);
    ground.git(["worktree", "add", "--quiet", "-b", session, plot.path.to_str().unwrap()]);
    plot
}

fn marked(ground: &Ground, store: &str) -> Vec<Marked> {
    pollster::block_on(cleaner().marked(&ground.root, store)).unwrap()
}

fn claim(plot: &Plot) -> Result<(), WorktreeError> {
    pollster::block_on(cleaner().claim(plot, now()))
}

#[test]
fn what_has_no_mark_is_never_touched() {
    let ground = Ground::new();
    let plot = foreign(&ground, "s1");
    let before = picture(ground.top());
    assert_eq!(inspect(&plot), Inspection::Foreign("it has no mark".to_owned()));
    assert!(refusal(try_remove(&plot)).contains("it has no mark"));
    assert!(matches!(try_create(&plot), Err(WorktreeError::CannotCreate { .. })));
    assert_eq!(sweep(&ground.root), 0);
    require_same(&picture(ground.top()), &before);
}

#[test]
fn a_damaged_mark_and_a_newer_one_are_refused() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let mark = ground.repo.join(".git/worktrees/s1-0b5cbe2a/sexton.json");
    for (text, why) in [("{\"form", "damaged"), ("{\"format\": 99}", "of a newer version")] {
        fs::write(&mark, text).unwrap();
        let said = refusal(try_remove(&plot));
        assert!(said.contains(why), "{said}");
        assert_eq!(marked(&ground, STORE), []);
    }
    assert!(plot.path.join("README.md").exists());
}

#[test]
fn two_stores_over_one_yard_never_touch_each_others_worktrees() {
    let ground = Ground::new();
    let ours = ground.create("s1");
    let theirs = Plot { store: OTHER_STORE.to_owned(), ..ground.plot("s2") };
    try_create(&theirs).unwrap();
    write(&theirs.path.join("README.md"), "theirs\n");
    let before = picture(&ground.root);
    for plot in [
        Plot { store: OTHER_STORE.to_owned(), ..ours.clone() },
        Plot { store: STORE.to_owned(), ..theirs.clone() },
    ] {
        assert!(matches!(inspect(&plot), Inspection::Foreign(why) if why.contains("another store")));
        assert!(refusal(try_remove(&plot)).contains("another store"));
        assert!(claim(&plot).unwrap_err().to_string().contains("another store"));
        assert!(try_create(&plot).unwrap_err().to_string().contains("another store"));
    }
    require_same(&picture(&ground.root), &before);
    let paths = |store| marked(&ground, store).into_iter().map(|marked| marked.plot).collect::<Vec<_>>();
    assert_eq!(paths(STORE), std::slice::from_ref(&ours));
    assert_eq!(paths(OTHER_STORE), std::slice::from_ref(&theirs));
    assert_eq!(try_remove(&ours).unwrap(), Removal::Removed);
    assert_eq!(inspect(&theirs), Inspection::Present { dirty: true, own_commits: 0 });
    ground.require_clean(&[&theirs.path]);
}

#[test]
fn two_stores_can_have_a_session_of_the_same_name_in_yards_of_their_own() {
    let ground = Ground::new();
    let ours = ground.create("s1");
    let root = ground.top().join("other-yard");
    let theirs = Plot {
        store: OTHER_STORE.to_owned(),
        path: root.join("s1"),
        root: root.clone(),
        ..ground.plot("s1")
    };
    let from = sexton_core::worktree::StartPoint {
        branch: "other/s1".to_owned(),
        base: None,
        begun: Begun::Nothing,
    };
    pollster::block_on(cleaner().create(&theirs, &from, now())).unwrap();
    ground.require_clean(&[&ours.path, &theirs.path]);
    assert_eq!(try_remove(&ours).unwrap(), Removal::Removed);
    ground.require_clean(&[&theirs.path]);
}

#[test]
fn marked_worktrees_are_listed_with_their_plot_and_age() {
    let ground = Ground::new();
    assert_eq!(marked(&ground, STORE), []);
    let (one, gone) = (ground.create("one"), ground.create("gone"));
    foreign(&ground, "unmarked");
    fs::create_dir(ground.root.join("plain")).unwrap();
    fs::write(ground.root.join("file"), "").unwrap();
    fs::remove_dir_all(&gone.path).unwrap();
    let expected = [gone, one].map(|plot| Marked { plot, made_at: now() });
    assert_eq!(marked(&ground, STORE), expected, "also one whose directory is gone");
    assert_eq!(marked(&ground, "nobody"), []);
}

#[test]
fn a_claimed_worktree_is_rescued_and_removed_and_its_branch_is_its_users() {
    let ground = Ground::new();
    let plot = foreign(&ground, "s1");
    write(&plot.path.join("README.md"), "changed\n");
    claim(&plot).unwrap();
    claim(&plot).unwrap();
    assert_eq!(marked(&ground, STORE), [Marked { plot: plot.clone(), made_at: now() }]);
    assert_eq!(inspect(&plot), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(ground.git(["show", "refs/sexton/rescue/s1:README.md"]), "changed");
    assert_eq!(ground.git(["branch", "--list", "s1"]).trim(), "s1");
    ground.require_clean(&[]);
}

#[test]
fn a_claimed_worktree_whose_directory_is_gone_is_found_by_its_mark() {
    let ground = Ground::new();
    let plot = foreign(&ground, "s1");
    claim(&plot).unwrap();
    fs::remove_dir_all(&plot.path).unwrap();
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    ground.require_clean(&[]);
}

#[test]
fn only_a_worktree_in_the_yard_that_nobody_claimed_can_be_claimed() {
    let ground = Ground::new();
    let ours = ground.create("ours");
    fs::create_dir(ground.root.join("plain")).unwrap();
    std::os::unix::fs::symlink(&ours.path, ground.root.join("symlink")).unwrap();
    let outside = Plot { path: ground.top().join("outside"), ..ground.plot("outside") };
    ground.git(["worktree", "add", "--quiet", "--detach", outside.path.to_str().unwrap()]);
    fs::rename(&outside.path, ground.root.join("moved")).unwrap();
    for (plot, why) in [
        (ground.plot("nothing"), "there is no worktree"),
        (ground.plot("plain"), "it has no .git file"),
        (ground.plot("symlink"), "it is a symlink"),
        (ground.plot("moved"), "for a worktree at another place"),
        (outside, "does not lie directly inside"),
        (Plot { path: ours.path.clone(), ..ground.plot("other") }, "it has the mark of session ours"),
    ] {
        let said = claim(&plot).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_worktree_of_another_repository_is_refused() {
    let (ground, other) = (Ground::new(), Ground::new());
    let plot = ground.create("s1");
    let mistaken = Plot { repo: other.repo.clone(), ..plot.clone() };
    assert!(refusal(try_remove(&mistaken)).contains("a worktree of another repository"));
    assert!(try_rescue(&mistaken).is_err());
    assert!(plot.path.join("README.md").exists());
}

#[test]
fn a_repository_in_the_place_of_a_worktree_is_refused() {
    let ground = Ground::new();
    let plot = ground.plot("s1");
    ground.git(["clone", "--quiet", ".", plot.path.to_str().unwrap()]);
    assert_eq!(inspect(&plot), Inspection::Foreign("it is a repository of its own".to_owned()));
    assert!(refusal(try_remove(&plot)).contains("it is a repository of its own"));
}

#[test]
fn an_agent_that_loses_the_link_to_its_repository_keeps_its_files() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    rescue(&plot);
    fs::remove_file(plot.path.join(".git")).unwrap();
    assert!(refusal(try_remove(&plot)).contains("it has no .git file"));
    assert!(plot.path.join("README.md").exists());
}
