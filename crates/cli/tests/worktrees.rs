//! Worktrees of sessions, with the real program: they are created, kept while they hold work and removed when they
//! hold none. Other worktrees are never touched.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::crashed_env::kill_supervisor_and_command;
use support::effort::crash_stride;
use support::records::remove_record;
use support::repository::{Repository, files_under};
use support::strace::{kill_at, mutating_calls, trace};
use support::{Bystander, Ran, TestEnv, carriers, eventually, is_running, processes_with, stores};

const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"300ms\"\n";

fn quick() -> (TestEnv, Repository) {
    let test_env = TestEnv::new().with_settings(QUICK);
    let repository = Repository::in_work_dir(&test_env);
    (test_env, repository)
}

fn tree_of(record: &Value) -> PathBuf {
    PathBuf::from(record["worktree"]["path"].as_str().unwrap())
}

/// Runs `script` in a worktree until it exits, and returns the session's record.
fn run_in_tree(test_env: &TestEnv, script: &str) -> Value {
    let ran = test_env.sexton(&["run", "-w", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    test_env.json(&["ps", "-a", "--limit", "1"])[0].clone()
}

fn listed_trees(test_env: &TestEnv) -> Vec<String> {
    let listed = test_env.json(&["worktree", "list"]);
    listed.as_array().unwrap().iter().map(|one| one["session"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_session_runs_in_its_own_worktree_and_branch() {
    let (test_env, repository) = quick();
    let id = test_env.ok(&["run", "-d", "-w", "--branch", "topic", "--base", "main", "--", "sleep", "600"]);
    let record = test_env.record(&id);
    let tree = tree_of(&record);
    assert_eq!(repository.worktrees(), [repository.path().to_owned(), tree.clone()]);
    assert_eq!(files_under(&tree), files_under(repository.path()));
    let command = record["process"]["pid"].as_u64().unwrap();
    assert_eq!(std::fs::read_link(format!("/proc/{command}/cwd")).unwrap(), tree);
    assert!(repository.branches().contains("topic "));
    assert_eq!(record["worktree"]["base"], repository.git(&["rev-parse", "main"]));
}

#[test]
fn a_successful_session_without_work_leaves_no_worktree_branch_or_rescue() {
    for store in stores() {
        let test_env = TestEnv::on(store).with_settings(QUICK);
        let repository = Repository::in_work_dir(&test_env);
        let branches = repository.branches();
        let record = run_in_tree(&test_env, "test -e tracked");
        assert_eq!(record["status"], "completed");
        assert!(!tree_of(&record).exists(), "{store}");
        assert_eq!(repository.worktrees().len(), 1);
        assert_eq!((repository.branches(), repository.rescues()), (branches, Vec::new()));
        let trash = tree_of(&record).parent().unwrap().join(".trash");
        assert_eq!(std::fs::read_dir(trash).map_or(0, Iterator::count), 0);
        assert_eq!(test_env.record(record["id"].as_str().unwrap())["recovery"]["worktree"], "removed");
    }
}

#[test]
fn i4_a_successful_session_with_work_keeps_its_worktree() {
    let (test_env, repository) = quick();
    let scripts = [
        "echo more >> tracked",
        "echo new > untracked",
        "echo more >> tracked; git add tracked",
        "git commit -q --allow-empty -m 'an empty one'",
        "echo more >> tracked; git commit -qam own",
        "git rm -q tracked",
        "git checkout -q --detach; git commit -q --allow-empty -m 'on no branch'",
    ];
    for script in scripts {
        let record = run_in_tree(&test_env, script);
        let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
        assert_eq!(record["status"], "completed");
        assert!(tree.exists(), "{script}");
        assert!(repository.worktrees().contains(&tree), "{script}");
        assert_eq!(listed_trees(&test_env)[0], id, "{script}");
    }
    test_env.ok(&["recover"]);
    test_env.ok(&["worktree", "prune"]);
    assert_eq!(listed_trees(&test_env).len(), scripts.len(), "a kept worktree was removed");
    assert_eq!(repository.rescues().len(), 0);
}

#[test]
fn i4_worktree_rm_saves_the_work_and_rescue_restore_brings_it_back() {
    let (test_env, repository) = quick();
    let record = run_in_tree(
        &test_env,
        "echo more >> tracked; git add tracked; echo mine > new; chmod +x new; rm folder/other",
    );
    let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
    let status = |tree: &Path| repository.git(&["-C", tree.to_str().unwrap(), "status", "--porcelain"]);
    let (files, before) = (files_under(&tree), status(&tree));
    test_env.ok(&["worktree", "rm", id]);
    assert!(!tree.exists());
    assert_eq!(repository.rescues(), [id]);
    let into = test_env.path().join("back");
    test_env.ok(&["rescue", "restore", id, "--into", into.to_str().unwrap()]);
    assert_eq!(files_under(&into), files);
    assert_eq!(status(&into), before);
    test_env.ok(&["rescue", "drop", id]);
    assert_eq!(repository.rescues(), [""; 0]);
    assert_eq!(files_under(&into), files);
}

#[test]
fn a_command_that_cannot_be_executed_leaves_no_worktree_and_no_branch() {
    let (test_env, repository) = quick();
    let branches = repository.branches();
    for (command, code) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        for how in [&["run", "-w"][..], &["run", "-d", "-w"]] {
            let ran = test_env.sexton(&[how, &["--", command]].concat());
            assert_eq!(ran.code, code, "{}", ran.stderr);
            let record = test_env.json(&["ps", "-a", "--limit", "1"])[0].clone();
            assert_eq!(
                (record["status"].as_str(), record["exit"]["reason"].as_str()),
                (Some("failed"), Some("exec_failed"))
            );
            eventually("the tree is gone", || {
                !tree_of(&record).exists() && repository.worktrees().len() == 1
            });
            eventually("the branch is gone", || repository.branches() == branches);
        }
    }
    assert_eq!(repository.rescues(), [""; 0]);
}

#[test]
fn a_worktree_that_cannot_be_created_is_an_error_and_changes_nothing() {
    let (test_env, repository) = quick();
    repository.git(&["branch", "taken"]);
    let branches = repository.branches();
    let outside = test_env.path().join("outside");
    let empty = test_env.path().join("empty");
    std::fs::create_dir(&outside).unwrap();
    repository.git(&["init", "--quiet", empty.to_str().unwrap()]);
    let (outside, empty) = (outside.to_str().unwrap(), empty.to_str().unwrap());
    for (options, message) in [
        (["--branch", "taken"], "taken"),
        (["--branch", "no..good"], "no..good"),
        (["--branch", "main"], "main"),
        (["--base", "nowhere"], "nowhere"),
        (["--cwd", outside], "repository"),
        (["--cwd", empty], "commit"),
    ] {
        for how in [&["run", "-w"][..], &["run", "-d", "-w"]] {
            let ran = test_env.sexton(&[how, &options, &["--", "sleep", "600"]].concat());
            assert_eq!(ran.code, 125, "{options:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(message), "{options:?}: {}", ran.stderr);
            assert_eq!(test_env.json(&["ps", "-a"]), serde_json::json!([]), "{options:?}");
            assert_eq!(
                (repository.worktrees().len(), repository.branches()),
                (1, branches.clone()),
                "{options:?}"
            );
        }
    }
    let ran = test_env.sexton(&["run", "--branch", "x", "--", "true"]);
    assert_eq!(ran.code, 2, "--branch needs --worktree");
    let left = std::fs::read_dir(test_env.state_dir().join("sessions")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "session directories are left");
}

#[test]
fn recovery_inside_a_worktree_leaves_it_to_the_next_recovery() {
    let test_env = TestEnv::new().with_settings(&format!("{QUICK}owner.grace = \"10m\"\n"));
    let repository = Repository::in_work_dir(&test_env);
    let go = test_env.path().join("go");
    let sexton = support::quoted_program();
    let script = format!(
        "echo mine > new; while [ ! -e {} ]; do sleep 0.01; done; {sexton} recover; sleep 600",
        go.display()
    );
    let mut owner = Bystander::start();
    let id = test_env.ok(&["run", "-d", "-w", "--owner-pid", &owner.pid(), "--", "sh", "-c", &script]);
    owner.end();
    std::fs::write(&go, "").unwrap();
    let record = test_env.wait_until_ended(&id);
    assert_eq!(
        (record["status"].as_str(), record["recovery"]["worktree"].as_str()),
        (Some("orphaned"), Some("pending"))
    );
    eventually("everything has ended", || carriers(&id).is_empty());
    assert_eq!(std::fs::read(tree_of(&record).join("new")).unwrap(), b"mine\n");
    test_env.ok(&["recover"]);
    let record = test_env.record(&id);
    assert_eq!(record["recovery"]["worktree"], "removed");
    assert!(!tree_of(&record).exists());
    assert_eq!(repository.git(&["show", &format!("refs/sexton/rescue/{id}:new")]), "mine");
}

#[test]
fn i3_a_worktree_in_use_is_kept_until_the_process_exits() {
    let (test_env, repository) = quick();
    let id = test_env.ok(&["run", "-d", "-w", "--", "sh", "-c", "echo mine > new; exec sleep 600"]);
    let tree = tree_of(&test_env.record(&id));
    eventually("the work is done", || tree.join("new").exists());
    kill_supervisor_and_command(&test_env, &id);
    let mut visitor = Bystander(Command::new("sleep").arg("600").current_dir(&tree).spawn().unwrap());
    let ran = test_env.sexton(&["recover"]);
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(test_env.record(&id)["status"], "cleanup_failed");
    assert_eq!(std::fs::read(tree.join("new")).unwrap(), b"mine\n");
    assert!(is_running(visitor.0.id().into()));
    visitor.end();
    test_env.ok(&["recover"]);
    assert_eq!(test_env.record(&id)["status"], "orphaned");
    assert!(!tree.exists());
    assert_eq!(repository.rescues(), [id]);
}

/// Creates a stray: a session ends and keeps its worktree, then its record is deleted.
fn stray(test_env: &TestEnv, repository: &Repository) -> (String, PathBuf) {
    let directory = repository.path().to_str().unwrap();
    let ran = test_env.sexton(&["run", "-w", "--cwd", directory, "--", "sh", "-c", "echo mine > new"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let record = test_env.json(&["ps", "-a", "--limit", "1"])[0].clone();
    let id = record["id"].as_str().unwrap().to_owned();
    remove_record(test_env, &id);
    (id, tree_of(&record))
}

/// Creates a dead session with work in its worktree.
fn dead(test_env: &TestEnv, repository: &Repository) -> (String, PathBuf) {
    let directory = repository.path().to_str().unwrap();
    let script = "echo mine > new; exec sleep 600";
    let id = test_env.ok(&["run", "-d", "-w", "--cwd", directory, "--", "sh", "-c", script]);
    let tree = tree_of(&test_env.record(&id));
    eventually("the work is done", || tree.join("new").exists());
    kill_supervisor_and_command(test_env, &id);
    (id, tree)
}

#[test]
fn i5_stores_that_share_a_worktree_root_never_touch_each_others_worktrees() {
    let shared = tempfile::tempdir().unwrap();
    let settings = format!(
        "{QUICK}recover.stray_age = \"0s\"\nworktree.root = \"{}\"\n",
        shared.path().join("trees").display()
    );
    let test_envs =
        stores().into_iter().chain(stores()).map(|store| TestEnv::on(store).with_settings(&settings));
    let test_envs: Vec<_> = test_envs.collect();
    let repository = Repository::at(&test_envs[0], &shared.path().join("repository"));
    let trees: Vec<_> = test_envs
        .iter()
        .map(|test_env| [dead(test_env, &repository), stray(test_env, &repository)])
        .collect();
    let mut gone = Vec::new();
    for (test_env, own) in test_envs.iter().zip(&trees) {
        test_env.ok(&["recover"]);
        gone.extend(own);
        for (id, tree) in trees.iter().flatten() {
            let is_gone = gone.iter().any(|(other, _)| other == id);
            assert_eq!(tree.exists(), !is_gone, "{}", tree.display());
            assert_eq!(repository.rescues().contains(id), is_gone);
        }
    }
    for (id, _) in trees.iter().flatten() {
        assert_eq!(repository.git(&["show", &format!("refs/sexton/rescue/{id}:new")]), "mine");
    }
}

#[test]
fn i5_a_restored_store_keeps_worktrees_of_sessions_it_may_have_lost() {
    for store in stores() {
        let test_env = TestEnv::on(store).with_settings(&format!("{QUICK}recover.stray_age = \"0s\"\n"));
        let repository = Repository::in_work_dir(&test_env);
        test_env.ok(&["run", "--", "true"]);
        let backup = test_env.json(&["backup"])["backup"].as_str().unwrap().to_owned();
        let forgotten = tree_of(&run_in_tree(&test_env, "echo mine > new"));
        test_env.ok(&["restore", &backup]);
        assert_eq!(test_env.json(&["ps", "-a"]).as_array().unwrap().len(), 1, "{store}");
        test_env.ok(&["recover"]);
        assert_eq!(std::fs::read(forgotten.join("new")).unwrap(), b"mine\n", "{store}");
        // A worktree that was created and lost its record after the restore is a stray.
        let (id, tree) = stray(&test_env, &repository);
        test_env.ok(&["recover"]);
        assert!(!tree.exists() && forgotten.exists(), "{store}");
        assert_eq!(repository.rescues(), [id], "{store}");
    }
}

#[test]
#[cfg(feature = "store-json")]
fn i5_neither_a_damaged_nor_a_repaired_store_deletes_a_stray() {
    let test_env = TestEnv::on("json").with_settings(&format!("{QUICK}recover.stray_age = \"0s\"\n"));
    let _repository = Repository::in_work_dir(&test_env);
    let tree = tree_of(&run_in_tree(&test_env, "echo mine > new"));
    test_env.ok(&["run", "--", "true"]);
    let journal = std::fs::read(test_env.store_path()).unwrap();
    let lines: Vec<_> = journal.split_inclusive(|byte| *byte == b'\n').collect();
    // Damage every line that names the session of the worktree.
    let name = tree.file_name().unwrap().to_str().unwrap().to_owned();
    let damaged = lines.into_iter().flat_map(|line| {
        let mut line = line.to_vec();
        if String::from_utf8_lossy(&line).contains(&name) {
            let middle = line.len() / 2;
            line[middle] ^= 1;
        }
        line
    });
    std::fs::write(test_env.store_path(), damaged.collect::<Vec<_>>()).unwrap();
    assert_eq!(test_env.sexton(&["recover"]).code, 5);
    assert!(tree.join("new").exists());
    test_env.sexton(&["doctor", "--repair"]);
    assert_eq!(test_env.sexton(&["show", &name]).code, 4);
    test_env.ok(&["recover"]);
    assert!(tree.join("new").exists());
}

#[test]
fn i3_worktree_rm_refuses_while_a_process_of_the_session_is_alive() {
    let (test_env, _repository) = quick();
    let record = run_in_tree(&test_env, "echo mine > new");
    let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
    let mut late =
        Command::new("sleep").arg("600").env("SEXTON_SESSION_ID", id).current_dir("/").spawn().unwrap();
    let refused = test_env.sexton(&["worktree", "rm", id]);
    late.kill().unwrap();
    late.wait().unwrap();
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("of its session is alive"), "{}", refused.stderr);
    assert!(tree.join("new").exists());
    test_env.ok(&["worktree", "rm", id]);
    assert!(!tree.exists());
}

#[test]
fn i9_recovery_deletes_old_session_files_without_a_record() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let ids: Vec<_> = ["old", "young", "known"]
        .map(|name| {
            test_env.ok(&["run", "--name", name, "--", "echo", name]);
            test_env.record(name)["id"].as_str().unwrap().to_owned()
        })
        .into();
    let directories: Vec<_> = ids.iter().map(|id| test_env.state_dir().join("sessions").join(id)).collect();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    for directory in [&directories[0], &directories[2]] {
        let mark = std::fs::File::options().write(true).open(directory.join("mark.json")).unwrap();
        mark.set_modified(long_ago).unwrap();
    }
    for id in &ids[..2] {
        remove_record(&test_env, id);
    }
    let doctor = test_env.sexton(&["doctor"]);
    assert!(doctor.stdout.contains("1 log directories have no record"), "{}", doctor.stdout);
    let report = test_env.json(&["recover"]);
    let strays: Vec<_> = report["sessions"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(strays, [&ids[0]]);
    assert_eq!(directories.iter().map(|dir| dir.exists()).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn i3_recovery_never_removes_a_worktree_that_is_being_created() {
    let test_env = TestEnv::new().with_settings(&format!("{QUICK}recover.stray_age = \"0s\"\n"));
    let _repository = Repository::in_work_dir(&test_env);
    test_env.ok(&["recover"]);
    let recoveries = AtomicUsize::new(0);
    // Delay every change during the creation of a worktree.
    const CHANGES: &str = "mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,\
                           unlinkat,write,pwrite64,fsync,fdatasync";
    let slowly = format!("inject={CHANGES}:delay_enter=20000");
    let mut command = Command::new("strace");
    test_env.enclose(&mut command);
    command.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
    command.args(["-e", &format!("trace={CHANGES}"), "-e", &slowly, &support::program()]);
    command.args(["run", "-w", "--", "sh", "-c", "cat tracked; echo mine > new"]);
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| Ran::of(&command.output().unwrap()));
        while !running.is_finished() {
            let ran = test_env.sexton(&["recover"]);
            assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
            recoveries.fetch_add(1, Ordering::Relaxed);
        }
        running.join().unwrap()
    });
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "as committed\n"), "{}", ran.stderr);
    let record = test_env.json(&["ps", "-a"])[0].clone();
    assert_eq!(record["status"], "completed", "{record}");
    assert_eq!(std::fs::read(tree_of(&record).join("new")).unwrap(), b"mine\n");
    let recoveries = recoveries.into_inner();
    assert!(recoveries > 5, "only {recoveries} recoveries ran meanwhile");
}

#[test]
fn i7_a_worktree_rm_killed_at_any_call_is_finished_by_the_next() {
    let (test_env, repository) = quick();
    let finished = || run_in_tree(&test_env, "echo new > new")["id"].as_str().unwrap().to_owned();
    let calls = mutating_calls(&trace(&test_env, &["worktree", "rm", &finished()]));
    let mut killed = 0;
    for call in calls.iter().step_by(crash_stride(3)) {
        let id = finished();
        killed += usize::from(kill_at(&test_env, call, &["worktree", "rm", &id]));
        test_env.ok(&["worktree", "rm", &id]);
        let point = format!("{} number {}", call.name, call.nth);
        assert_eq!(repository.worktrees().len(), 1, "{point}");
        assert_eq!(repository.branches().lines().count(), 1, "{point}: its branch is left");
        let left = files_under(&repository.path().join(".git/sexton"));
        let left: Vec<_> = left.keys().filter(|file| file.to_string_lossy().contains(&id)).collect();
        assert!(left.is_empty(), "{point}: {left:?}");
        let rescue = format!("refs/sexton/rescue/{id}:new");
        assert_eq!(repository.git(&["show", &rescue]), "new", "{point}");
    }
    assert!(killed > 20, "only {killed} of {} were killed", calls.len());
}

#[test]
fn i8_recovery_removes_a_partly_created_worktree() {
    let (test_env, repository) = quick();
    let trace = test_env.path().join("trace");
    let mut failed = 0;
    for nth in (1..).step_by(crash_stride(3)) {
        let start = test_env.command(&["run", "-d", "-w", "--", "true"]);
        let mut traced = Command::new("strace");
        traced
            .args(["-qq", "-e", "trace=openat", "-e"])
            .arg(format!("inject=openat:error=EMFILE:when={nth}"));
        traced.arg("-o").arg(&trace).arg(start.get_program()).args(start.get_args());
        test_env.enclose(&mut traced);
        let ran = Ran::of(&traced.output().unwrap());
        let injected = std::fs::read_to_string(&trace).unwrap().contains("INJECTED");
        failed += usize::from(ran.code != 0);
        // If the command ran all the same, its supervisor removes the worktree, or this loop does.
        for session in test_env.json(&["ps", "-a", "--limit", "1"]).as_array().unwrap() {
            let id = session["id"].as_str().unwrap();
            if session["started_at"].is_string() && test_env.wait_until_ended(id)["status"] == "completed" {
                // The supervisor's own removal counts as a live process until it is done.
                eventually("the worktree can be removed", || {
                    test_env.sexton(&["worktree", "rm", id]).code == 0
                });
            }
        }
        test_env.ok(&["recover"]);
        let trees = repository.worktrees();
        assert_eq!(trees.len(), 1, "open number {nth}, {}: {trees:?}", ran.stderr);
        assert_eq!(repository.branches().lines().count(), 1, "open number {nth}: {}", ran.stderr);
        if !injected {
            break;
        }
    }
    assert!(failed > 5, "only {failed} failed");
    // Supervisors sweep after their session has ended. They must not do that while the test environment is deleted.
    let home = format!("HOME={}", test_env.path().display());
    eventually("no process is left in the test environment", || processes_with(&home).is_empty());
}

#[test]
fn i4_an_unreadable_nested_repository_keeps_its_worktree() {
    let (test_env, repository) = quick();
    let upstream = Repository::at(&test_env, &test_env.path().join("upstream"));
    let commit =
        "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m own; git rev-parse HEAD";
    let on_branch =
        format!("git checkout --quiet -b own; {commit}; git checkout --quiet --detach origin/main");
    // The only reference to the commit is HEAD, a branch, or a packed branch. OBJECT is the commit itself.
    for (having, places) in [
        (format!("git checkout --quiet --detach; {commit}"), "sub/HEAD . sub sub/objects sub/config OBJECT"),
        (on_branch.clone(), "sub/refs sub/refs/heads sub/refs/heads/own OBJECT"),
        (format!("{on_branch}; git pack-refs --all"), "sub/packed-refs OBJECT"),
    ] {
        // The submodule is not checked out any more.
        let script = format!(
            "set -eu; git -c protocol.file.allow=always submodule --quiet add '{}' sub; git commit --quiet -m sub\n\
             cd sub; {having}; cd ..; git submodule --quiet deinit --force sub",
            upstream.path().display()
        );
        let ran = test_env.sexton(&["run", "-w", "--", "sh", "-c", &script]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let commit = ran.stdout.trim();
        let record = test_env.json(&["ps", "-a", "--limit", "1"])[0].clone();
        let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
        let link = std::fs::read_to_string(tree.join(".git")).unwrap();
        let modules = Path::new(link.trim().strip_prefix("gitdir: ").unwrap()).join("modules");
        let object = format!("sub/objects/{}/{}", &commit[..2], &commit[2..]);
        for place in places.replace("OBJECT", &object).split(' ') {
            let place = if place == "." { modules.clone() } else { modules.join(place) };
            let ran = remove_with_bad_sector(&test_env, id, &place);
            assert_ne!(ran.code, 0, "{}: {}", place.display(), ran.stderr);
            assert!(tree.is_dir(), "{}: the worktree was removed", place.display());
            let modules = modules.join("sub");
            repository.git(&["--git-dir", modules.to_str().unwrap(), "cat-file", "-e", commit]);
        }
    }
}

/// Removes a worktree while every call that reads `place` fails with EIO.
fn remove_with_bad_sector(test_env: &TestEnv, id: &str, place: &Path) -> Ran {
    let calls = "openat,newfstatat,statx,readlink,access";
    let (reads, bad_sector) = (format!("trace={calls}"), format!("inject={calls}:error=EIO"));
    let (removal, trace) = (test_env.command(&["worktree", "rm", id]), test_env.path().join("trace"));
    let mut traced = Command::new("strace");
    traced.args(["-f", "--seccomp-bpf", "-qq", "-o"]).arg(&trace);
    traced.args(["-e", &reads, "-e", &bad_sector, "-P"]).arg(place);
    traced.arg(removal.get_program()).args(removal.get_args());
    test_env.enclose(&mut traced);
    let ran = Ran::of(&traced.output().unwrap());
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("INJECTED"), "no call read {}", place.display());
    ran
}

/// An ssh-agent, whose working directory only root can read. It is killed when this is dropped.
struct SshAgent(std::process::Child);

impl SshAgent {
    fn start(directory: &Path, name: &str) -> SshAgent {
        let socket = directory.join(name);
        let mut agent = Command::new("ssh-agent");
        agent.args(["-D", "-a"]).arg(&socket).current_dir(directory).stdout(std::process::Stdio::null());
        let agent = SshAgent(agent.spawn().expect("ssh-agent is installed"));
        // It protects its memory before it listens.
        eventually("the agent listens", || socket.exists());
        agent
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The working directory of such a process is unknown. If it is older than the worktree it is not inside; a younger
/// one may be. Root can read it, so only an ordinary user sees the difference.
#[cfg(feature = "proc-linux")]
#[test]
fn i3_an_older_process_that_cannot_be_examined_does_not_keep_a_worktree() {
    let is_root = rustix::process::geteuid().is_root();
    let (test_env, _repository) = quick();
    let _of_the_login = SshAgent::start(test_env.path(), "login");
    // The times of processes and directories are compared with an accuracy of 100 ms.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let record = run_in_tree(&test_env, "echo more >> tracked");
    let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
    let younger = SshAgent::start(test_env.path(), "younger");
    if !is_root {
        let kept = test_env.sexton(&["worktree", "rm", id]);
        assert_eq!(kept.code, 3, "{}{}", kept.stdout, kept.stderr);
        assert!(tree.exists());
    }
    drop(younger);
    test_env.ok(&["worktree", "rm", id]);
    assert!(!tree.exists());
}
