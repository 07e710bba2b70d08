//! The fake cleaner's own tests: it must be as strict as it says.

use pollster::block_on;

use super::*;
use crate::{FakeProbe, FakeProcess};

fn beginning() -> Time {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn plot(session: &str) -> Plot {
    Plot {
        store: "store".to_owned(),
        session: session.parse().unwrap(),
        repo: "/src/one".into(),
        root: "/yard".into(),
        path: Path::new("/yard").join(session),
    }
}

/// A yard with one worktree that holds an unsaved note.
fn with_work() -> (FakeCleaner, Plot) {
    let (cleaner, plot) = (FakeCleaner::new(), plot("a"));
    let from = StartPoint {
        branch: "sexton/a".to_owned(),
        base: None,
        begun: sexton_core::worktree::Begun::Nothing,
    };
    block_on(cleaner.create(&plot, &from, beginning())).unwrap();
    cleaner.write(&plot.path, "note", "unsaved");
    (cleaner, plot)
}

fn rescue(cleaner: &FakeCleaner, plot: &Plot) -> Rescued {
    block_on(cleaner.rescue(plot, beginning())).unwrap()
}

fn clear(cleaner: &FakeCleaner, plot: &Plot) -> Result<Removal, WorktreeError> {
    block_on(cleaner.clear(plot, &FakeProbe::new(), beginning()))?.removal
}

#[test]
fn what_was_rescued_is_removed_once_and_comes_back() {
    let (cleaner, plot) = with_work();
    let rescued = rescue(&cleaner, &plot);
    assert_eq!(rescue(&cleaner, &plot), rescued, "the same content again is no new rescue");
    assert_eq!(clear(&cleaner, &plot).unwrap(), Removal::Removed);
    assert_eq!(clear(&cleaner, &plot).unwrap(), Removal::AlreadyGone);
    assert_eq!(rescue(&cleaner, &plot), rescued, "a rescue of what is gone is what was saved of it");
    assert_eq!(cleaner.removed(), std::slice::from_ref(&plot.path));
    assert_eq!(cleaner.trash(), std::slice::from_ref(&plot.path));
    assert_eq!(block_on(cleaner.sweep(&plot.root, &FakeProbe::new())).unwrap(), 1);
    assert!(cleaner.trash().is_empty());
    let restored = block_on(cleaner.restore(&plot.repo, &plot.session, Path::new("/again"))).unwrap();
    assert_eq!(restored.files, 1);
    let saved = cleaner.find_rescued(&plot.repo, &plot.session).unwrap();
    assert_eq!(saved.get("note").map(String::as_str), Some("unsaved"));
}

#[test]
#[should_panic(expected = "is removed under")]
fn i3_removing_under_a_living_process_is_a_panic() {
    let (cleaner, plot) = with_work();
    let probe = FakeProbe::new();
    probe.start(FakeProcess::new().in_directory("/yard/a/src"));
    _ = block_on(cleaner.clear(&plot, &probe, beginning()));
}

#[test]
fn i3_somebody_who_comes_in_at_the_last_moment_keeps_the_worktree() {
    let (cleaner, plot) = with_work();
    cleaner.let_somebody_in(&plot.path, "process 7 came in");
    assert_eq!(clear(&cleaner, &plot).unwrap(), Removal::Kept("process 7 came in".to_owned()));
    assert!(cleaner.exists(&plot.path));
    assert_eq!(clear(&cleaner, &plot).unwrap(), Removal::Removed);
}

#[test]
fn i5_nothing_outside_the_yard_is_touched() {
    let (cleaner, inside) = with_work();
    for path in ["/elsewhere/a", "/yard", "/yard/a/b", "/yard/..", "/yard/a/../../etc"] {
        let outside = Plot { path: path.into(), ..inside.clone() };
        cleaner.place(&outside, beginning());
        let error = clear(&cleaner, &outside).unwrap_err();
        assert!(matches!(error, WorktreeError::NotOurs { .. }), "{path}: {error:?}");
        assert!(cleaner.exists(Path::new(path)));
    }
    let stranger = Plot { session: "b".parse().unwrap(), ..inside };
    assert!(matches!(clear(&cleaner, &stranger), Err(WorktreeError::NotOurs { .. })));
}

#[test]
fn a_rescue_that_was_told_to_fail_fails() {
    let (cleaner, plot) = with_work();
    cleaner.refuse_rescue(&plot.path, "a nested repository");
    let error = block_on(cleaner.rescue(&plot, beginning())).unwrap_err();
    assert!(matches!(error, WorktreeError::CannotRescue { .. }), "{error:?}");
}

#[test]
fn marked_are_those_of_this_store_and_this_yard() {
    let cleaner = FakeCleaner::new();
    cleaner.place(&plot("a"), beginning());
    cleaner.place(&Plot { store: "other".to_owned(), ..plot("b") }, beginning());
    let marked = block_on(cleaner.marked(Path::new("/yard"), "store")).unwrap();
    assert_eq!(marked.iter().map(|marked| marked.plot.session.as_str()).collect::<Vec<_>>(), ["a"]);
}
