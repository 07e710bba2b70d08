//! Restoring: where it goes, what it refuses, and which branch it takes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::{Plot, Removal, RestoredWork};
use support::{Ground, cleaner, names, picture, require_same, rescue, sweep, try_remove, write};

/// A worktree with one change, rescued.
fn rescued(ground: &Ground) -> Plot {
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    rescue(&plot);
    plot
}

fn try_restore(ground: &Ground, plot: &Plot, into: &Path) -> Result<RestoredWork, WorktreeError> {
    pollster::block_on(cleaner().restore(&ground.repo, &plot.session, into))
}

#[test]
fn a_restored_worktree_is_its_users_own() {
    let ground = Ground::new();
    let plot = rescued(&ground);
    try_remove(&plot).unwrap();
    sweep(&ground.root);
    let into = ground.top().join("somewhere/new");
    try_restore(&ground, &plot, &into).unwrap();
    let marked = pollster::block_on(cleaner().marked(into.parent().unwrap(), support::STORE)).unwrap();
    assert_eq!(marked, []);
    ground.git_in(&into, ["commit", "--quiet", "--all", "--message", "goes on"]);
    assert_eq!(ground.git(["show", "sexton/s1:README.md"]), "changed");
    ground.git(["worktree", "remove", into.to_str().unwrap()]);
    assert!(try_restore(&ground, &plot, &into).is_ok(), "the rescue stays");
}

#[test]
fn a_place_that_is_not_empty_is_refused_and_left_alone() {
    let ground = Ground::new();
    let plot = rescued(&ground);
    let into = ground.top().join("taken");
    write(&into.join("file"), "mine");
    let before = picture(ground.top());
    let refused = try_restore(&ground, &plot, &into).unwrap_err();
    assert!(matches!(&refused, WorktreeError::CannotRestore { why, .. } if why == "it is not empty"));
    let refused = try_restore(&ground, &plot, &into.join("file")).unwrap_err();
    assert!(matches!(&refused, WorktreeError::CannotRestore { why, .. } if why == "it is not a directory"));
    require_same(&picture(ground.top()), &before);
}

#[test]
fn an_empty_directory_is_used() {
    let ground = Ground::new();
    let plot = rescued(&ground);
    let into = ground.top().join("empty");
    fs::create_dir(&into).unwrap();
    try_restore(&ground, &plot, &into).unwrap();
    assert_eq!(fs::read(into.join("README.md")).unwrap(), b"changed\n");
}

#[test]
fn a_branch_that_is_checked_out_elsewhere_is_not_taken_from_there() {
    let ground = Ground::new();
    let plot = rescued(&ground);
    let into = ground.top().join("restored");
    let restored = try_restore(&ground, &plot, &into).unwrap();
    assert_eq!(restored.branch, None);
    let head = ground.git(["rev-parse", "main"]);
    assert_eq!(ground.git_in(&into, ["rev-parse", "HEAD"]), head);
    assert_eq!(ground.git_in(&plot.path, ["branch", "--show-current"]), "sexton/s1");
}

#[test]
fn a_branch_that_has_moved_on_is_left_where_it_is() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "committed\n");
    ground.git_in(&plot.path, ["commit", "--quiet", "--all", "--message", "mine"]);
    write(&plot.path.join("README.md"), "changed\n");
    try_remove(&plot).unwrap();
    let mine = ground.git(["rev-parse", "sexton/s1"]);
    ground.git(["branch", "--force", "sexton/s1", "main"]);
    let into = ground.top().join("restored");
    let restored = try_restore(&ground, &plot, &into).unwrap();
    assert_eq!(restored.branch, None);
    assert_eq!(ground.git_in(&into, ["rev-parse", "HEAD"]), mine);
    assert_eq!(ground.git(["rev-parse", "sexton/s1"]), ground.git(["rev-parse", "main"]));
}

#[test]
fn two_restores_of_one_rescue_do_not_get_in_each_others_way() {
    let ground = Ground::new();
    let plot = rescued(&ground);
    try_remove(&plot).unwrap();
    sweep(&ground.root);
    let places: Vec<PathBuf> = ["a/same", "b/same"].iter().map(|place| ground.top().join(place)).collect();
    for place in &places {
        try_restore(&ground, &plot, place).unwrap();
    }
    ground.require_clean(&[&places[0], &places[1]]);
}

#[test]
fn a_restore_that_fails_leaves_nothing_behind() {
    let ground = Ground::new();
    ground.write(".gitattributes", "*.x filter=broken\n");
    ground.write("a.x", "a\n");
    ground.commit("filtered");
    let plot = rescued(&ground);
    ground.git(["config", "filter.broken.smudge", "false"]);
    ground.git(["config", "filter.broken.required", "true"]);
    let before = picture(ground.top());
    let into = ground.top().join("restored");
    try_restore(&ground, &plot, &into).unwrap_err();
    require_same(&picture(ground.top()), &before);
}

#[test]
fn a_restored_worktree_of_relative_links_can_be_moved_with_its_repository() {
    let ground = Ground::new();
    ground.git(["config", "core.repositoryFormatVersion", "1"]);
    ground.git(["config", "extensions.relativeWorktrees", "true"]);
    let plot = rescued(&ground);
    let into = ground.top().join("restored");
    try_restore(&ground, &plot, &into).unwrap();
    let link = fs::read_to_string(into.join(".git")).unwrap();
    assert_eq!(link, "gitdir: ../repo/.git/worktrees/restored\n");
}

#[test]
fn a_newer_rescue_is_refused_and_named_and_hides_no_other() {
    let ground = Ground::new();
    let plot = rescued(&ground);
    let other = ground.create("other");
    write(&other.path.join("README.md"), "changed\n");
    support::rescue(&other);
    let commit = |tree: &str, parents: &[&str]| {
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        ground.git(["commit-tree", tree, "-m", "newer"].into_iter().chain(parents))
    };
    let reference = format!("refs/sexton/rescue/{}", plot.session);
    write(&ground.top().join("manifest"), "{\"format\": 2}");
    let blob = ground.git(["hash-object", "-w", ground.top().join("manifest").to_str().unwrap()]);
    let index = ground.top().join("index");
    let plumb = |arguments: &[&str]| {
        let output =
            ground.git_command(&ground.repo, arguments).env("GIT_INDEX_FILE", &index).output().unwrap();
        assert!(output.status.success(), "{}", support::said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    plumb(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},manifest.json")]);
    let state = commit(&plumb(&["write-tree"]), &[]);
    let newer = commit("main^{tree}", &["main", &state]);
    ground.git(["update-ref", &reference, &newer]);
    let refused = try_restore(&ground, &plot, &ground.top().join("restored")).unwrap_err();
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("its format is 2, and this version reads 1"), "{source}");
    let list = pollster::block_on(cleaner().rescues(&ground.repo)).unwrap();
    assert_eq!(list.entries.iter().map(|entry| &entry.session).collect::<Vec<_>>(), [&other.session]);
    assert_eq!(list.unreadable.iter().map(|one| &one.reference).collect::<Vec<_>>(), [&reference]);
    assert_eq!(names(&ground.top().join("restored")), [""; 0]);
}

/// The most memory that this process ever had.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
fn a_large_file_is_never_held_whole() {
    const LARGE: u64 = 128 << 20;
    let ground = Ground::new();
    let plot = ground.create("s1");
    let file = fs::File::create(plot.path.join("large")).unwrap();
    file.set_len(LARGE).unwrap();
    file.write_all_at(b"the end", LARGE - 7).unwrap();
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    sweep(&ground.root);
    let into = ground.top().join("restored");
    try_restore(&ground, &plot, &into).unwrap();
    let grown = peak();
    assert!(grown < LARGE / 2, "{grown} bytes at the most");
    let restored = fs::File::open(into.join("large")).unwrap();
    let mut end = [0; 8];
    restored.read_exact_at(&mut end, LARGE - 8).unwrap();
    assert_eq!((restored.metadata().unwrap().len(), &end), (LARGE, b"\0the end"));
}

#[test]
fn i5_a_rescue_that_somebody_else_made_changes_nothing_outside() {
    let ground = Ground::new();
    let plot = rescued(&ground);
    let reference = format!("refs/sexton/rescue/{}", plot.session);
    let victim = ground.top().join("victim");
    write(&victim, "precious");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    let object = |content: &str, arguments: &[&str]| {
        write(&ground.top().join("object"), content);
        let input = fs::File::open(ground.top().join("object")).unwrap();
        let output = ground.git_command(&ground.repo, arguments).stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", support::said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let manifest = ground.git(["show", &format!("{reference}^2:manifest.json")]);
    let planted =
        manifest.replace("\"modes\": []", "\"modes\": [{\"path\": \"../victim\", \"mode\": \"0777\"}]");
    assert_ne!(planted, manifest);
    let blob = object(&planted, &["hash-object", "-w", "--stdin"]);
    let old = ground.git(["rev-parse", &format!("{reference}^2:manifest.json")]);
    let tree = ground.git(["ls-tree", &format!("{reference}^2")]).replace(&old, &blob);
    let tree = object(&format!("{tree}\n"), &["mktree"]);
    let state = ground.git(["commit-tree", &tree, "-m", "state", "-p", "main"]);
    let whole = format!("{reference}^{{tree}}");
    let hostile = ground.git(["commit-tree", &whole, "-m", "hostile", "-p", "main", "-p", &state]);
    ground.git(["update-ref", &reference, &hostile]);
    assert!(try_restore(&ground, &plot, &ground.top().join("restored")).is_err());
    assert_eq!(victim.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
