//! Tests that the fake cleaner is as strict as documented.

use pollster::block_on;

use super::*;
use crate::{FakeProbe, FakeProcess};

fn beginning() -> Time {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn location(session: &str) -> WorktreeLocation {
    WorktreeLocation {
        store: "store".to_owned(),
        session: session.parse().unwrap(),
        repo: "/src/one".into(),
        root: "/worktrees".into(),
        path: Path::new("/worktrees").join(session),
    }
}

/// Creates a cleaner with one worktree that has an unsaved file.
fn with_work() -> (FakeCleaner, WorktreeLocation) {
    let (cleaner, location) = (FakeCleaner::new(), location("a"));
    let from = StartPoint {
        branch: "sexton/a".to_owned(),
        base: None,
        begun: sexton_core::worktree::Begun::Nothing,
    };
    block_on(cleaner.create(&location, &from, beginning())).unwrap();
    cleaner.write(&location.path, "note", "unsaved");
    (cleaner, location)
}

fn rescue(cleaner: &FakeCleaner, location: &WorktreeLocation) -> Rescued {
    block_on(cleaner.rescue(location, beginning())).unwrap()
}

fn clear(cleaner: &FakeCleaner, location: &WorktreeLocation) -> Result<Removal, WorktreeError> {
    block_on(cleaner.clear(location, &FakeProbe::new(), beginning()))?.removal
}

#[test]
fn rescued_worktree_is_removed_once_and_can_be_restored() {
    let (cleaner, location) = with_work();
    let rescued = rescue(&cleaner, &location);
    assert_eq!(rescue(&cleaner, &location), rescued, "unchanged content makes no new rescue");
    assert_eq!(clear(&cleaner, &location).unwrap(), Removal::Removed);
    assert_eq!(clear(&cleaner, &location).unwrap(), Removal::AlreadyGone);
    assert_eq!(
        rescue(&cleaner, &location),
        rescued,
        "rescuing a removed worktree returns its earlier rescue"
    );
    assert_eq!(cleaner.removed(), std::slice::from_ref(&location.path));
    assert_eq!(cleaner.trash(), std::slice::from_ref(&location.path));
    assert_eq!(block_on(cleaner.sweep(&location.root, &FakeProbe::new(), &|_| false)).unwrap().deleted, 1);
    assert!(cleaner.trash().is_empty());
    let restored = block_on(cleaner.restore(&location.repo, &location.session, Path::new("/again"))).unwrap();
    assert_eq!(restored.files, 1);
    let saved = cleaner.find_rescued(&location.repo, &location.session).unwrap();
    assert_eq!(saved.get("note").map(String::as_str), Some("unsaved"));
}

#[test]
#[should_panic(expected = "is removed while occupied by")]
fn i3_removing_an_occupied_worktree_panics() {
    let (cleaner, location) = with_work();
    let probe = FakeProbe::new();
    probe.start(FakeProcess::new().in_directory("/worktrees/a/src"));
    _ = block_on(cleaner.clear(&location, &probe, beginning()));
}

#[test]
fn i3_process_that_enters_during_removal_keeps_the_worktree() {
    let (cleaner, location) = with_work();
    cleaner.enter_during_removal(&location.path, "process 7 entered");
    assert_eq!(clear(&cleaner, &location).unwrap(), Removal::Kept("process 7 entered".to_owned()));
    assert!(cleaner.exists(&location.path));
    assert_eq!(clear(&cleaner, &location).unwrap(), Removal::Removed);
}

#[test]
fn i5_paths_outside_the_worktree_root_are_refused() {
    let (cleaner, inside) = with_work();
    for path in ["/elsewhere/a", "/worktrees", "/worktrees/a/b", "/worktrees/..", "/worktrees/a/../../etc"] {
        let outside = WorktreeLocation { path: path.into(), ..inside.clone() };
        cleaner.place(&outside, beginning());
        let error = clear(&cleaner, &outside).unwrap_err();
        assert!(matches!(error, WorktreeError::NotOurs { .. }), "{path}: {error:?}");
        assert!(cleaner.exists(Path::new(path)));
    }
    let stranger = WorktreeLocation { session: "b".parse().unwrap(), ..inside };
    assert!(matches!(clear(&cleaner, &stranger), Err(WorktreeError::NotOurs { .. })));
}

#[test]
fn refused_rescue_fails() {
    let (cleaner, location) = with_work();
    cleaner.refuse_rescue(&location.path, "a nested repository");
    let error = block_on(cleaner.rescue(&location, beginning())).unwrap_err();
    assert!(matches!(error, WorktreeError::CannotRescue { .. }), "{error:?}");
}

#[test]
fn marked_lists_only_this_store_and_worktree_root() {
    let cleaner = FakeCleaner::new();
    cleaner.place(&location("a"), beginning());
    cleaner.place(&WorktreeLocation { store: "other".to_owned(), ..location("b") }, beginning());
    let marked = block_on(cleaner.marked(Path::new("/worktrees"), "store")).unwrap();
    assert_eq!(marked.iter().map(|marked| marked.location.session.as_str()).collect::<Vec<_>>(), ["a"]);
}
