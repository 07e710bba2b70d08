//! Rescue, removal and restore: the files of a worktree come back byte for byte. Every case also runs `git gc
//! --prune=now` in between and checks the repository with `git fsck`.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

mod support;
mod trial;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use support::{TestEnv, write};
use trial::Trial;

#[test]
fn i4_modified_file_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    let restored = trial.round_trip();
    assert_eq!((restored.files, restored.branch.as_deref()), (1, Some("sexton/s1")));
}

#[test]
fn i4_staged_change_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    trial.write("new", "new\n");
    trial.git(&["add", "--all"]);
    trial.round_trip();
}

#[test]
fn i4_file_staged_and_modified_again_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.write("new", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "modified again\n");
    trial.write("new", "modified again\n");
    trial.round_trip();
}

#[test]
fn i4_file_staged_and_reverted_on_disk_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "hello\n");
    trial.round_trip();
}

#[test]
fn i4_file_staged_and_deleted_on_disk_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.write("new", "staged\n");
    trial.git(&["add", "--all"]);
    fs::remove_file(trial.path("README.md")).unwrap();
    fs::remove_file(trial.path("new")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_untracked_file_round_trips() {
    let trial = Trial::new();
    trial.write("new", "");
    trial.write("some/where/deep/new", "content");
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
}

#[test]
fn i4_ignored_file_beside_tracked_ones_round_trips() {
    let trial = Trial::new();
    trial.write(".gitignore", ".env\n*.log\n");
    trial.git(&["add", ".gitignore"]);
    trial.write(".env", "SECRET=1\n");
    trial.write("src/a.log", "log\n");
    fs::set_permissions(trial.path(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    trial.round_trip();
}

#[test]
fn i4_deleted_file_round_trips() {
    let trial = Trial::new();
    fs::remove_file(trial.path("README.md")).unwrap();
    fs::remove_dir_all(trial.path("src/deep")).unwrap();
    trial.git(&["rm", "--quiet", "run.sh"]);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 3);
}

#[test]
fn i4_file_removed_from_the_index_but_on_disk_round_trips() {
    let trial = Trial::new();
    trial.write(".gitignore", "src/\n");
    trial.git(&["rm", "--quiet", "--cached", "README.md", "src/main.rs"]);
    trial.write("src/main.rs", "changed, and in an ignored folder\n");
    trial.round_trip();
}

#[test]
fn i4_renamed_file_round_trips() {
    let trial = Trial::new();
    trial.git(&["mv", "README.md", "renamed.md"]);
    fs::rename(trial.path("src/main.rs"), trial.path("moved.rs")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_file_replaced_by_directory_and_vice_versa_round_trips() {
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
fn i5_restore_does_not_write_through_a_symlink_of_head() {
    let env = TestEnv::new();
    let outside = env.top().join("outside");
    write(&outside.join("deep/er/file.txt"), "not ours\n");
    symlink("src", env.repo.join("inside")).unwrap();
    symlink(&outside, env.repo.join("out")).unwrap();
    env.commit("links");
    let trial = Trial::on(env);
    for link in ["inside", "out"] {
        fs::remove_file(trial.path(link)).unwrap();
        trial.write(&format!("{link}/deep/er/file.txt"), "a directory now\n");
    }
    trial.round_trip();
    assert_eq!(fs::read(outside.join("deep/er/file.txt")).unwrap(), b"not ours\n");
}

#[test]
fn i4_executable_bit_round_trips() {
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
fn i4_permission_bits_that_git_does_not_store_round_trip() {
    let trial = Trial::new();
    trial.write("secret/key", "key\n");
    for (path, mode) in [("README.md", 0o600), ("secret/key", 0o400), ("secret", 0o700), ("src", 0o750)] {
        fs::set_permissions(trial.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    trial.round_trip();
}

#[test]
fn i4_change_of_permission_bits_only_round_trips() {
    let trial = Trial::new();
    fs::set_permissions(trial.path("README.md"), fs::Permissions::from_mode(0o600)).unwrap();
    trial.round_trip();
}

#[test]
fn i4_symlinks_round_trip() {
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
fn i4_empty_directories_round_trip() {
    let trial = Trial::new();
    fs::create_dir_all(trial.path("src/empty")).unwrap();
    fs::create_dir_all(trial.path("all/the/way/empty")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_non_utf8_names_round_trip() {
    let trial = Trial::new();
    let name = OsStr::from_bytes(b"na\xffme \n\"\t");
    fs::write(trial.location.path.join(name), "x").unwrap();
    fs::create_dir(trial.location.path.join(OsStr::from_bytes(b"d\xfe"))).unwrap();
    fs::write(trial.location.path.join(OsStr::from_bytes(b"d\xfe/\xfd")), "y").unwrap();
    trial.git(&["add", "--all"]);
    fs::write(trial.location.path.join(name), "and modified").unwrap();
    trial.round_trip();
}

#[test]
fn i4_line_ends_on_disk_round_trip() {
    let env = TestEnv::new();
    env.write(".gitattributes", "* text=auto\n*.bat text eol=crlf\n");
    env.write("run.bat", "one\r\ntwo\r\n");
    env.write("plain.txt", "one\ntwo\n");
    env.commit("attributes");
    let trial = Trial::on(env);
    assert_eq!(fs::read(trial.path("run.bat")).unwrap(), b"one\r\ntwo\r\n");
    trial.write("run.bat", "one\nno return\r\n");
    trial.write("plain.txt", "with\r\nreturns\r\n");
    trial.write("staged.txt", "staged\r\nwith returns\r\n");
    trial.git(&["add", "staged.txt"]);
    trial.write("untracked.txt", "untracked\r\nwith\nboth\r\n");
    trial.round_trip();
}

#[test]
fn i4_bytes_that_git_considers_unchanged_round_trip() {
    let env = TestEnv::new();
    env.write(".gitattributes", "*.bat text eol=crlf\n");
    env.write("run.bat", "one\r\ntwo\r\n");
    env.commit("attributes");
    let trial = Trial::on(env);
    // These are HEAD's stored bytes, but a checkout would write others.
    trial.write("run.bat", "one\ntwo\n");
    trial.write("README.md", "changed\n");
    trial.round_trip();
}

#[test]
fn i4_combination_of_all_changes_round_trips() {
    let env = TestEnv::new();
    for folder in 0..30 {
        for file in 0..20 {
            env.write(&format!("f{folder}/g{}/{file}", file % 3), format!("{folder} {file}\n"));
        }
    }
    env.write(".gitignore", "*.o\nbuild/\n");
    env.commit("many");
    let trial = Trial::on(env);
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
