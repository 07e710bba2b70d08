//! Making worktrees: what git would have made, marked before the first file, and nothing where it cannot be.

// A case that cannot go on panics, in its helpers too.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Begun, Inspection, Plot, StartPoint};
use support::{
    Ground, branch, cleaner, inspect, names, now, picture, require_same, start, try_create, try_remove,
};

/// Why a worktree could not be made.
#[track_caller]
fn cannot(plot: &Plot, from: &StartPoint) -> String {
    match pollster::block_on(cleaner().create(plot, from, now())) {
        Err(error @ WorktreeError::CannotCreate { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The files of a worktree, without what links it to its repository.
fn files(path: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut files = picture(path);
    files.retain(|(path, _)| path != Path::new(".git"));
    files
}

/// Requires that the worktree is, file by file, what git itself would have made, and that git finds it clean.
#[track_caller]
fn require_as_git_makes_it(ground: &Ground, plot: &Plot) {
    let theirs = ground.top().join("theirs");
    ground.git(["worktree", "add", "--quiet", "--detach", theirs.to_str().unwrap()]);
    require_same(&files(&plot.path), &files(&theirs));
    assert_eq!(ground.git_in(&plot.path, ["status", "--porcelain"]), "");
    let listed = |path: &Path| ground.git_in(path, ["ls-files", "--stage", "-t"]);
    assert_eq!(listed(&plot.path), listed(&theirs));
    ground.git(["worktree", "remove", "--force", theirs.to_str().unwrap()]);
}

#[test]
fn a_worktree_is_what_git_itself_would_have_made() {
    let ground = Ground::new();
    let plot = ground.plot("s1");
    let base = ground.git(["rev-parse", "HEAD"]);
    assert_eq!(try_create(&plot).unwrap().base, base);
    require_as_git_makes_it(&ground, &plot);
    ground.require_clean(&[&plot.path]);
    assert_eq!(ground.git_in(&plot.path, ["symbolic-ref", "HEAD"]), "refs/heads/sexton/s1");
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(ground.trash(), [""; 0]);
}

#[test]
fn one_can_work_in_it_with_git() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    support::write(&plot.path.join("new.txt"), "new\n");
    ground.git_in(&plot.path, ["add", "new.txt"]);
    ground.git_in(&plot.path, ["commit", "--quiet", "--message", "mine"]);
    assert_eq!(ground.git(["show", "sexton/s1:new.txt"]), "new");
    assert_eq!(ground.git_in(&plot.path, ["rev-parse", "HEAD@{1}"]), ground.git(["rev-parse", "HEAD"]));
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 1 });
    ground.require_clean(&[&plot.path]);
}

#[test]
fn the_index_of_a_new_worktree_has_every_stat_and_tree() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    // Plumbing that does not refresh: a file whose stat differs from the index would be listed.
    assert_eq!(ground.git_in(&plot.path, ["diff-files", "--name-only"]), "");
    let before = fs::read(ground.repo.join(".git/worktrees/s1-0b5cbe2a/index")).unwrap();
    assert_eq!(
        ground.git_in(&plot.path, ["write-tree"]),
        ground.git(["rev-parse", "HEAD^{tree}"]),
        "the cached trees are the right ones"
    );
    let after = fs::read(ground.repo.join(".git/worktrees/s1-0b5cbe2a/index")).unwrap();
    assert!(before == after, "the tree extension was complete, so that git had nothing to add");
}

#[test]
fn many_files_are_written_by_several_threads_as_by_one() {
    let ground = Ground::new();
    for n in 0..1500 {
        ground.write(&format!("many/{}/{n}", n % 37), format!("content {n}\n").repeat(n % 50));
    }
    ground.commit("many");
    let plot = ground.create("s1");
    require_as_git_makes_it(&ground, &plot);
}

/// Files like each other, which git packs as differences, and a few that are like nothing.
fn write_versions(ground: &Ground, round: usize) {
    for n in 0..300 {
        let line = |line| format!("line {line} of {}\n", if line == n { round } else { 0 });
        ground.write(&format!("alike/{}/{n}", n % 7), (0..200).map(line).collect::<String>());
    }
    let noise: Vec<u8> = (0..700_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    ground.write("noise", &noise[..600_000 + round]);
}

#[test]
fn files_come_out_of_packs_of_any_kind_and_out_of_none() {
    let ground = Ground::new();
    write_versions(&ground, 1);
    ground.commit("first");
    write_versions(&ground, 2);
    ground.commit("second");
    let create = |session: &str| {
        let plot = ground.create(session);
        require_as_git_makes_it(&ground, &plot);
    };
    create("loose");
    ground.git(["repack", "-a", "-d", "-f", "--depth=50", "--window=50", "--quiet"]);
    create("chains");
    // Differences from an object that is given by its name instead of its distance.
    ground.git(["-c", "repack.useDeltaBaseOffset=false", "repack", "-a", "-d", "-f", "--quiet"]);
    create("names");
    for n in 0..5 {
        ground.write(&format!("alike/0/new{n}"), format!("{n}\n"));
        ground.commit("more");
        ground.git(["repack", "-d", "--quiet"]);
    }
    ground.write("last", "in no pack\n");
    ground.commit("last");
    create("several");
    ground.git(["multi-pack-index", "write"]);
    create("multi");
    ground.git(["-c", "pack.indexVersion=1", "repack", "-a", "-d", "-f", "--quiet"]);
    create("version1");
}

#[test]
fn files_come_out_of_the_store_of_another_repository() {
    let ground = Ground::new();
    write_versions(&ground, 1);
    ground.commit("many");
    ground.git(["repack", "-a", "-d", "--quiet"]);
    let borrower = ground.top().join("borrower");
    ground.git(["clone", "--quiet", "--shared", ".", borrower.to_str().unwrap()]);
    assert_eq!(names(&borrower.join(".git/objects/pack")), [""; 0]);
    let plot = Plot { repo: borrower.clone(), ..ground.plot("s1") };
    try_create(&plot).unwrap();
    assert_eq!(ground.git_in(&plot.path, ["status", "--porcelain"]), "");
    assert_eq!(fs::read(plot.path.join("noise")).unwrap(), fs::read(ground.repo.join("noise")).unwrap());
}

#[test]
fn a_file_whose_object_is_damaged_is_an_error_and_leaves_nothing() {
    let ground = Ground::new();
    write_versions(&ground, 1);
    ground.commit("many");
    ground.git(["repack", "-a", "-d", "--quiet"]);
    let packs = ground.repo.join(".git/objects/pack");
    let pack = names(&packs).into_iter().find(|name| name.ends_with(".pack")).unwrap();
    let mut bytes = fs::read(packs.join(&pack)).unwrap();
    // The noise is most of it.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::remove_file(packs.join(&pack)).unwrap();
    fs::write(packs.join(&pack), bytes).unwrap();
    let plot = ground.plot("s1");
    let error = try_create(&plot).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error}: {source}").contains("noise"), "{error}: {source}");
    assert!(!plot.path.exists());
    assert_eq!(ground.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(ground.git(["branch", "--list", "sexton/*"]), "");
}

#[test]
fn names_that_are_not_utf8_and_files_without_content_come_out_as_they_are() {
    let ground = Ground::new();
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"n\xffn \n\t'\"");
    fs::create_dir(ground.repo.join(odd)).unwrap();
    fs::write(ground.repo.join(odd).join(odd), "").unwrap();
    ground.commit("odd");
    let plot = ground.create("s1");
    require_as_git_makes_it(&ground, &plot);
}

#[test]
fn it_begins_at_the_base_that_was_asked_for() {
    let ground = Ground::new();
    let first = ground.git(["rev-parse", "HEAD"]);
    ground.git(["tag", "--annotate", "v1", "--message", "v1"]);
    ground.write("later.txt", "later\n");
    ground.commit("second");
    let plot = ground.plot("s1");
    let from = StartPoint { branch: branch(&plot), base: Some("v1".to_owned()), begun: Begun::Nothing };
    assert_eq!(pollster::block_on(cleaner().create(&plot, &from, now())).unwrap().base, first);
    assert!(!plot.path.join("later.txt").exists());
}

#[test]
fn again_is_the_same_and_changes_nothing() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    support::write(&plot.path.join("README.md"), "work in progress\n");
    let before = picture(ground.top());
    assert_eq!(try_create(&plot).unwrap().base, ground.git(["rev-parse", "HEAD"]));
    require_same(&picture(ground.top()), &before);
}

#[test]
fn what_cannot_be_made_is_refused_with_the_reason_and_changes_nothing() {
    let ground = Ground::new();
    ground.git(["branch", "taken"]);
    ground.git(["branch", "folder/inside"]);
    fs::create_dir_all(ground.root.join("occupied")).unwrap();
    let s1 = ground.create("s1");
    let from = |branch: &str, base: Option<&str>| StartPoint {
        branch: branch.to_owned(),
        base: base.map(str::to_owned),
        begun: Begun::Nothing,
    };
    let plot = ground.plot("new");
    let before = picture(ground.top());
    for (plot, from, why) in [
        (&plot, from("taken", None), "there is a branch `taken` already"),
        (&plot, from("bad..name", None), "is no name for a branch"),
        (&plot, from("-x", None), "is no name for a branch"),
        (&plot, from("new", Some("nowhere")), "`nowhere` names no commit"),
        (&plot, from("new", Some("HEAD^{tree}")), "names no commit"),
        (&plot, from("folder", None), "there are branches below `folder/`"),
        (&plot, from("taken/below", None), "there is a branch `taken`"),
        (&ground.plot("occupied"), from("new", None), "it has no .git file"),
        (&s1, from("other", None), "the session has one already, on branch `sexton/s1`"),
    ] {
        let said = cannot(plot, &from);
        assert!(said.contains(why), "{from:?}: {said}");
    }
    require_same(&picture(ground.top()), &before);
    ground.require_clean(&[&s1.path]);
}

#[test]
fn a_repository_without_a_commit_says_so() {
    let ground = Ground::empty();
    let plot = ground.plot("s1");
    assert!(cannot(&plot, &start(&plot)).contains("no commit yet"));
    assert!(!ground.repo.join(".git/worktrees").exists());
}

#[test]
fn i5_a_worktree_lies_directly_inside_its_yard() {
    let ground = Ground::new();
    for path in ["../outside", "a/b", ".hidden", ".."] {
        let plot = Plot { path: ground.root.join(path), ..ground.plot("s1") };
        let refused = try_create(&plot);
        assert!(matches!(refused, Err(WorktreeError::NotOurs { .. })), "{path}: {refused:?}");
    }
    assert_eq!(names(ground.top()), ["home", "repo"]);
}

#[test]
fn i5_a_yard_behind_a_symlink_is_refused() {
    let ground = Ground::new();
    fs::create_dir(ground.top().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(ground.top().join("elsewhere"), &ground.root).unwrap();
    let error = try_create(&ground.plot("s1")).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("a symlink leads to it"), "{error}: {why}");
    assert_eq!(names(&ground.top().join("elsewhere")), [""; 0]);
}

#[test]
fn a_bare_repository_has_worktrees_too() {
    let ground = Ground::new();
    let bare = ground.top().join("bare.git");
    ground.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let plot = Plot { repo: bare.clone(), ..ground.plot("s1") };
    try_create(&plot).unwrap();
    require_as_git_makes_it(&ground, &plot);
    assert_eq!(pollster::block_on(cleaner().find_repository(&plot.path.join("src"))).unwrap(), bare);
    assert_eq!(try_remove(&plot).unwrap(), sexton_core::worktree::Removal::Removed);
    assert!(!bare.join("worktrees").exists());
    assert_eq!(ground.git_in(&bare, ["branch", "--list", "sexton/*"]), "");
}

#[test]
fn every_worktree_of_a_repository_finds_the_same_one() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    for place in [&ground.repo, &ground.repo.join("src/deep"), &plot.path, &plot.path.join("src")] {
        assert_eq!(pollster::block_on(cleaner().find_repository(place)).unwrap(), ground.repo);
    }
    let nowhere = pollster::block_on(cleaner().find_repository(ground.top())).unwrap_err();
    assert!(nowhere.to_string().ends_with("it is not in a git repository"), "{nowhere}");
}

#[test]
fn line_ends_and_filters_are_what_git_makes_of_them() {
    let ground = Ground::new();
    ground.write(".gitattributes", "*.crlf eol=crlf text\n*.up filter=up\n*.id ident\n");
    ground.write("a.crlf", "one\ntwo\n");
    ground.write("a.up", "shout\n");
    ground.write("a.id", "$Id$\n");
    ground.commit("attributes");
    ground.git(["config", "filter.up.smudge", "tr a-z A-Z"]);
    ground.git(["config", "filter.up.clean", "tr A-Z a-z"]);
    let plot = ground.create("s1");
    assert_eq!(fs::read(plot.path.join("a.crlf")).unwrap(), b"one\r\ntwo\r\n");
    assert_eq!(fs::read(plot.path.join("a.up")).unwrap(), b"SHOUT\n");
    require_as_git_makes_it(&ground, &plot);
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
}

#[test]
fn a_filter_that_fails_is_an_error_and_leaves_nothing() {
    let ground = Ground::new();
    ground.write(".gitattributes", "*.up filter=up\n");
    ground.write("a.up", "x\n");
    ground.commit("attributes");
    ground.git(["config", "filter.up.smudge", "echo the filter is broken >&2; false"]);
    ground.git(["config", "filter.up.required", "true"]);
    let error = try_create(&ground.plot("s1")).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("the filter is broken"), "{why}");
    ground.git(["config", "--unset", "filter.up.required"]);
    ground.require_clean(&[]);
    assert_eq!(ground.git(["branch", "--list", "sexton/*"]), "");
    assert_eq!(support::sweep(&ground.root), 1);
}

#[test]
fn a_sparse_checkout_is_handed_on() {
    let ground = Ground::new();
    ground.git(["sparse-checkout", "set", "src/deep"]);
    let plot = ground.create("s1");
    require_as_git_makes_it(&ground, &plot);
    assert!(plot.path.join("src/deep/er/file.txt").exists());
    assert!(plot.path.join("src/main.rs").exists(), "a cone has the files beside its folders");
    assert!(ground.git_in(&plot.path, ["ls-files", "-t"]).contains("H src/deep/er/file.txt"));
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), sexton_core::worktree::Removal::Removed);
    ground.require_clean(&[]);
}

#[test]
fn a_submodule_is_an_empty_directory_as_git_leaves_it() {
    let ground = Ground::new();
    let other = Ground::new();
    let url = other.repo.to_str().unwrap();
    ground.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]);
    ground.commit("submodule");
    let plot = ground.create("s1");
    assert_eq!(names(&plot.path.join("sub")), [""; 0]);
    require_as_git_makes_it(&ground, &plot);
}

#[test]
fn relative_links_are_written_where_the_repository_has_them() {
    let ground = Ground::new();
    ground.git(["config", "core.repositoryformatversion", "1"]);
    ground.git(["config", "extensions.relativeWorktrees", "true"]);
    let plot = ground.create("s1");
    let link = fs::read_to_string(plot.path.join(".git")).unwrap();
    assert_eq!(link, "gitdir: ../../repo/.git/worktrees/s1-0b5cbe2a\n");
    let back = fs::read_to_string(ground.repo.join(".git/worktrees/s1-0b5cbe2a/gitdir")).unwrap();
    assert_eq!(back, "../../../../yard/s1/.git\n");
    // The git of this machine may be too old for the extension; without it the links must still be right.
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), sexton_core::worktree::Removal::Removed);
    assert_eq!(support::sweep(&ground.root), 1);
    assert!(!ground.repo.join(".git/worktrees").exists());
}

#[test]
fn a_wish_for_relative_links_is_told_to_other_programs_as_git_does_it() {
    let ground = Ground::new();
    ground.git(["config", "worktree.useRelativePaths", "true"]);
    let plot = ground.create("s1");
    assert!(fs::read_to_string(plot.path.join(".git")).unwrap().starts_with("gitdir: ../../repo"));
    let config = fs::read_to_string(ground.repo.join(".git/config")).unwrap();
    assert!(config.contains("relativeWorktrees = true") && config.contains("repositoryformatversion = 1"));
}

#[test]
fn modes_follow_the_umask_and_the_yard_is_private() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&ground.root), 0o700);
    assert_eq!(mode(&plot.path), mode(&ground.repo));
    assert_eq!(mode(&plot.path.join("run.sh")), mode(&ground.repo.join("run.sh")));
}
