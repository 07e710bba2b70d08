//! Rescued, removed, and restored: whatever files were in a worktree come back byte for byte. Every case also
//! goes through a `git gc --prune=now` in between, and git finds nothing wrong with the repository.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;
mod trial;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use support::{Ground, write};
use trial::Trial;

#[test]
fn i4_modified() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    let restored = trial.round_trip();
    assert_eq!((restored.files, restored.branch.as_deref()), (1, Some("sexton/s1")));
}

#[test]
fn i4_staged() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    trial.write("new", "new\n");
    trial.git(&["add", "--all"]);
    trial.round_trip();
}

#[test]
fn i4_staged_and_modified_again() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.write("new", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "modified again\n");
    trial.write("new", "modified again\n");
    trial.round_trip();
}

#[test]
fn i4_staged_and_put_back_on_disk() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "hello\n");
    trial.round_trip();
}

#[test]
fn i4_staged_and_deleted_on_disk() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.write("new", "staged\n");
    trial.git(&["add", "--all"]);
    fs::remove_file(trial.path("README.md")).unwrap();
    fs::remove_file(trial.path("new")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_untracked() {
    let trial = Trial::new();
    trial.write("new", "");
    trial.write("some/where/deep/new", "content");
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
}

#[test]
fn i4_ignored_beside_tracked_files() {
    let trial = Trial::new();
    trial.write(".gitignore", ".env\n*.log\n");
    trial.git(&["add", ".gitignore"]);
    trial.write(".env", "SECRET=1\n");
    trial.write("src/a.log", "log\n");
    fs::set_permissions(trial.path(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    trial.round_trip();
}

#[test]
fn i4_deleted() {
    let trial = Trial::new();
    fs::remove_file(trial.path("README.md")).unwrap();
    fs::remove_dir_all(trial.path("src/deep")).unwrap();
    trial.git(&["rm", "--quiet", "run.sh"]);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 3);
}

#[test]
fn i4_removed_from_the_index_and_still_on_disk() {
    let trial = Trial::new();
    trial.write(".gitignore", "src/\n");
    trial.git(&["rm", "--quiet", "--cached", "README.md", "src/main.rs"]);
    trial.write("src/main.rs", "changed, and in an ignored folder\n");
    trial.round_trip();
}

#[test]
fn i4_renamed() {
    let trial = Trial::new();
    trial.git(&["mv", "README.md", "renamed.md"]);
    fs::rename(trial.path("src/main.rs"), trial.path("moved.rs")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_a_file_becomes_a_directory_and_a_directory_a_file() {
    let trial = Trial::new();
    fs::remove_file(trial.path("README.md")).unwrap();
    trial.write("README.md/inside", "x");
    fs::remove_dir_all(trial.path("src")).unwrap();
    trial.write("src", "a file now");
    fs::remove_file(trial.path("link")).unwrap();
    trial.write("link/through", "not through the link");
    trial.round_trip();
}

#[test]
fn i5_a_restore_writes_through_no_symlink_of_head() {
    let ground = Ground::new();
    let outside = ground.top().join("outside");
    write(&outside.join("deep/er/file.txt"), "not ours\n");
    symlink("src", ground.repo.join("inside")).unwrap();
    symlink(&outside, ground.repo.join("out")).unwrap();
    ground.commit("links");
    let trial = Trial::on(ground);
    for link in ["inside", "out"] {
        fs::remove_file(trial.path(link)).unwrap();
        trial.write(&format!("{link}/deep/er/file.txt"), "a directory now\n");
    }
    trial.round_trip();
    assert_eq!(fs::read(outside.join("deep/er/file.txt")).unwrap(), b"not ours\n");
}

#[test]
fn i4_executable() {
    let trial = Trial::new();
    let set = |path: &str, mode| {
        fs::set_permissions(trial.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("README.md", 0o755);
    set("run.sh", 0o644);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
}

#[test]
fn i4_permission_bits_that_git_does_not_know() {
    let trial = Trial::new();
    trial.write("secret/key", "key\n");
    for (path, mode) in [("README.md", 0o600), ("secret/key", 0o400), ("secret", 0o700), ("src", 0o750)] {
        fs::set_permissions(trial.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    trial.round_trip();
}

#[test]
fn i4_permission_bits_alone() {
    let trial = Trial::new();
    fs::set_permissions(trial.path("README.md"), fs::Permissions::from_mode(0o600)).unwrap();
    trial.round_trip();
}

#[test]
fn i4_symlinks() {
    let trial = Trial::new();
    fs::remove_file(trial.path("link")).unwrap();
    symlink("src/main.rs", trial.path("link")).unwrap();
    symlink("nowhere", trial.path("dangling")).unwrap();
    symlink("/etc", trial.path("outside")).unwrap();
    fs::remove_file(trial.path("README.md")).unwrap();
    symlink("run.sh", trial.path("README.md")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_an_empty_directory_with_a_tracked_sibling() {
    let trial = Trial::new();
    fs::create_dir_all(trial.path("src/empty")).unwrap();
    fs::create_dir_all(trial.path("all/the/way/empty")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_names_that_are_not_utf8() {
    let trial = Trial::new();
    let name = OsStr::from_bytes(b"na\xffme \n\"\t");
    fs::write(trial.plot.path.join(name), "x").unwrap();
    fs::create_dir(trial.plot.path.join(OsStr::from_bytes(b"d\xfe"))).unwrap();
    fs::write(trial.plot.path.join(OsStr::from_bytes(b"d\xfe/\xfd")), "y").unwrap();
    trial.git(&["add", "--all"]);
    fs::write(trial.plot.path.join(name), "and modified").unwrap();
    trial.round_trip();
}

#[test]
fn i4_line_ends_stay_as_they_are_on_disk() {
    let ground = Ground::new();
    ground.write(".gitattributes", "* text=auto\n*.bat text eol=crlf\n");
    ground.write("run.bat", "one\r\ntwo\r\n");
    ground.write("plain.txt", "one\ntwo\n");
    ground.commit("attributes");
    let trial = Trial::on(ground);
    assert_eq!(fs::read(trial.path("run.bat")).unwrap(), b"one\r\ntwo\r\n");
    trial.write("run.bat", "one\nno return\r\n");
    trial.write("plain.txt", "with\r\nreturns\r\n");
    trial.write("staged.txt", "staged\r\nwith returns\r\n");
    trial.git(&["add", "staged.txt"]);
    trial.write("untracked.txt", "untracked\r\nwith\nboth\r\n");
    trial.round_trip();
}

#[test]
fn i4_bytes_that_git_takes_for_heads_come_back_as_they_were() {
    let ground = Ground::new();
    ground.write(".gitattributes", "*.bat text eol=crlf\n");
    ground.write("run.bat", "one\r\ntwo\r\n");
    ground.commit("attributes");
    let trial = Trial::on(ground);
    // HEAD's own bytes: a checkout would write others.
    trial.write("run.bat", "one\ntwo\n");
    trial.write("README.md", "changed\n");
    trial.round_trip();
}

#[test]
fn i4_everything_at_once() {
    let ground = Ground::new();
    for folder in 0..30 {
        for file in 0..20 {
            ground.write(&format!("f{folder}/g{}/{file}", file % 3), format!("{folder} {file}\n"));
        }
    }
    ground.write(".gitignore", "*.o\nbuild/\n");
    ground.commit("many");
    let trial = Trial::on(ground);
    for folder in (0..30).step_by(2) {
        trial.write(&format!("f{folder}/g0/0"), "modified\n");
        trial.write(&format!("f{folder}/g1/1"), "staged\n");
        trial.git(&["add", &format!("f{folder}/g1/1")]);
        fs::remove_file(trial.path(&format!("f{folder}/g2/2"))).unwrap();
        trial.write(&format!("f{folder}/new/{folder}"), "untracked\n");
        trial.write(&format!("f{folder}/x.o"), "ignored\n");
    }
    fs::remove_dir_all(trial.path("f1")).unwrap();
    let restored = trial.round_trip();
    assert_eq!(restored.files, 15 * 5 + 20);
}
