//! Worktrees of sessions through the real program: made, kept where there is work in them, taken away where
//! there is none, and never anybody else's.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::effort::crash_stride;
use support::records::remove_record;
use support::repository::{Repository, files_under};
use support::scene::end_behind_its_back;
use support::strace::{kill_at, mutating_calls, trace};
use support::{Bystander, Ran, Yard, carriers, eventually, is_running, processes_with, stores};

const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"300ms\"\n";

fn quick() -> (Yard, Repository) {
    let yard = Yard::new().with_settings(QUICK);
    let repository = Repository::in_work_dir(&yard);
    (yard, repository)
}

fn tree_of(record: &Value) -> PathBuf {
    PathBuf::from(record["worktree"]["path"].as_str().unwrap())
}

/// Runs `script` in a worktree to its end, and gives back the session's record.
fn run_in_tree(yard: &Yard, script: &str) -> Value {
    let ran = yard.sexton(&["run", "-w", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    yard.json(&["ps", "-a", "--limit", "1"])[0].clone()
}

fn listed_trees(yard: &Yard) -> Vec<String> {
    let listed = yard.json(&["worktree", "list"]);
    listed.as_array().unwrap().iter().map(|one| one["session"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_session_works_in_a_tree_and_on_a_branch_of_its_own() {
    let (yard, repository) = quick();
    let id = yard.ok(&["run", "-d", "-w", "--branch", "topic", "--base", "main", "--", "sleep", "600"]);
    let record = yard.record(&id);
    let tree = tree_of(&record);
    assert_eq!(repository.worktrees(), [repository.path().to_owned(), tree.clone()]);
    assert_eq!(files_under(&tree), files_under(repository.path()));
    let command = record["process"]["pid"].as_u64().unwrap();
    assert_eq!(std::fs::read_link(format!("/proc/{command}/cwd")).unwrap(), tree);
    assert!(repository.branches().contains("topic "));
    assert_eq!(record["worktree"]["base"], repository.git(&["rev-parse", "main"]));
}

#[test]
fn a_session_that_ends_well_without_work_leaves_neither_tree_nor_branch_nor_rescue() {
    for store in stores() {
        let yard = Yard::on(store).with_settings(QUICK);
        let repository = Repository::in_work_dir(&yard);
        let branches = repository.branches();
        let record = run_in_tree(&yard, "test -e tracked");
        assert_eq!(record["status"], "completed");
        assert!(!tree_of(&record).exists(), "{store}");
        assert_eq!(repository.worktrees().len(), 1);
        assert_eq!((repository.branches(), repository.rescues()), (branches, Vec::new()));
        let trash = tree_of(&record).parent().unwrap().join(".trash");
        assert_eq!(std::fs::read_dir(trash).map_or(0, Iterator::count), 0);
        assert_eq!(yard.record(record["id"].as_str().unwrap())["recovery"]["worktree"], "removed");
    }
}

#[test]
fn i4_a_session_that_ends_well_with_work_keeps_its_tree_for_its_user() {
    let (yard, repository) = quick();
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
        let record = run_in_tree(&yard, script);
        let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
        assert_eq!(record["status"], "completed");
        assert!(tree.exists(), "{script}");
        assert!(repository.worktrees().contains(&tree), "{script}");
        assert_eq!(listed_trees(&yard)[0], id, "{script}");
    }
    yard.ok(&["recover"]);
    yard.ok(&["worktree", "prune"]);
    assert_eq!(listed_trees(&yard).len(), scripts.len(), "what a session kept is its user's");
    assert_eq!(repository.rescues().len(), 0);
}

#[test]
fn i4_removing_a_tree_saves_what_is_in_it_and_restoring_gives_it_back() {
    let (yard, repository) = quick();
    let record = run_in_tree(
        &yard,
        "echo more >> tracked; git add tracked; echo mine > new; chmod +x new; rm folder/other",
    );
    let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
    let status = |tree: &Path| repository.git(&["-C", tree.to_str().unwrap(), "status", "--porcelain"]);
    let (files, before) = (files_under(&tree), status(&tree));
    yard.ok(&["worktree", "rm", id]);
    assert!(!tree.exists());
    assert_eq!(repository.rescues(), [id]);
    let into = yard.path().join("back");
    yard.ok(&["rescue", "restore", id, "--into", into.to_str().unwrap()]);
    assert_eq!(files_under(&into), files);
    assert_eq!(status(&into), before);
    yard.ok(&["rescue", "drop", id]);
    assert_eq!(repository.rescues(), [""; 0]);
    assert_eq!(files_under(&into), files);
}

#[test]
fn a_command_that_cannot_be_executed_leaves_no_tree_and_no_branch() {
    let (yard, repository) = quick();
    let branches = repository.branches();
    for (command, code) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        for how in [&["run", "-w"][..], &["run", "-d", "-w"]] {
            let ran = yard.sexton(&[how, &["--", command]].concat());
            assert_eq!(ran.code, code, "{}", ran.stderr);
            let record = yard.json(&["ps", "-a", "--limit", "1"])[0].clone();
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
fn a_tree_that_cannot_be_made_is_a_clear_error_and_changes_nothing() {
    let (yard, repository) = quick();
    repository.git(&["branch", "taken"]);
    let branches = repository.branches();
    let outside = yard.path().join("outside");
    let empty = yard.path().join("empty");
    std::fs::create_dir(&outside).unwrap();
    repository.git(&["init", "--quiet", empty.to_str().unwrap()]);
    let (outside, empty) = (outside.to_str().unwrap(), empty.to_str().unwrap());
    for (options, said) in [
        (["--branch", "taken"], "taken"),
        (["--branch", "no..good"], "no..good"),
        (["--branch", "main"], "main"),
        (["--base", "nowhere"], "nowhere"),
        (["--cwd", outside], "repository"),
        (["--cwd", empty], "commit"),
    ] {
        for how in [&["run", "-w"][..], &["run", "-d", "-w"]] {
            let ran = yard.sexton(&[how, &options, &["--", "sleep", "600"]].concat());
            assert_eq!(ran.code, 125, "{options:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(said), "{options:?}: {}", ran.stderr);
            assert_eq!(yard.json(&["ps", "-a"]), serde_json::json!([]), "{options:?}");
            assert_eq!(
                (repository.worktrees().len(), repository.branches()),
                (1, branches.clone()),
                "{options:?}"
            );
        }
    }
    let ran = yard.sexton(&["run", "--branch", "x", "--", "true"]);
    assert_eq!(ran.code, 2, "a branch without --worktree is a mistake");
    let left = std::fs::read_dir(yard.state_dir().join("sessions")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "session directories are left");
}

#[test]
fn recovery_from_inside_a_tree_leaves_it_to_the_next_one() {
    let yard = Yard::new().with_settings(&format!("{QUICK}owner.grace = \"10m\"\n"));
    let repository = Repository::in_work_dir(&yard);
    let go = yard.path().join("go");
    let sexton = support::program();
    let script = format!(
        "echo mine > new; while [ ! -e {} ]; do sleep 0.01; done; {sexton} recover; sleep 600",
        go.display()
    );
    let mut owner = Bystander::start();
    let id = yard.ok(&["run", "-d", "-w", "--owner-pid", &owner.pid(), "--", "sh", "-c", &script]);
    owner.end();
    std::fs::write(&go, "").unwrap();
    let record = yard.wait_until_ended(&id);
    assert_eq!(
        (record["status"].as_str(), record["recovery"]["worktree"].as_str()),
        (Some("orphaned"), Some("pending"))
    );
    eventually("everything has ended", || carriers(&id).is_empty());
    assert_eq!(std::fs::read(tree_of(&record).join("new")).unwrap(), b"mine\n");
    yard.ok(&["recover"]);
    let record = yard.record(&id);
    assert_eq!(record["recovery"]["worktree"], "removed");
    assert!(!tree_of(&record).exists());
    assert_eq!(repository.git(&["show", &format!("refs/sexton/rescue/{id}:new")]), "mine");
}

#[test]
fn i3_a_tree_that_somebody_is_in_stays_until_they_have_left() {
    let (yard, repository) = quick();
    let id = yard.ok(&["run", "-d", "-w", "--", "sh", "-c", "echo mine > new; exec sleep 600"]);
    let tree = tree_of(&yard.record(&id));
    eventually("the work is done", || tree.join("new").exists());
    end_behind_its_back(&yard, &id);
    let mut visitor = Bystander(Command::new("sleep").arg("600").current_dir(&tree).spawn().unwrap());
    let ran = yard.sexton(&["recover"]);
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(yard.record(&id)["status"], "cleanup_failed");
    assert_eq!(std::fs::read(tree.join("new")).unwrap(), b"mine\n");
    assert!(is_running(visitor.0.id().into()));
    visitor.end();
    yard.ok(&["recover"]);
    assert_eq!(yard.record(&id)["status"], "orphaned");
    assert!(!tree.exists());
    assert_eq!(repository.rescues(), [id]);
}

/// A session that ended and kept its tree, whose record is then taken away: a stray.
fn stray(yard: &Yard, repository: &Repository) -> (String, PathBuf) {
    let directory = repository.path().to_str().unwrap();
    let ran = yard.sexton(&["run", "-w", "--cwd", directory, "--", "sh", "-c", "echo mine > new"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let record = yard.json(&["ps", "-a", "--limit", "1"])[0].clone();
    let id = record["id"].as_str().unwrap().to_owned();
    remove_record(yard, &id);
    (id, tree_of(&record))
}

/// A dead session with work in its tree.
fn dead(yard: &Yard, repository: &Repository) -> (String, PathBuf) {
    let directory = repository.path().to_str().unwrap();
    let script = "echo mine > new; exec sleep 600";
    let id = yard.ok(&["run", "-d", "-w", "--cwd", directory, "--", "sh", "-c", script]);
    let tree = tree_of(&yard.record(&id));
    eventually("the work is done", || tree.join("new").exists());
    end_behind_its_back(yard, &id);
    (id, tree)
}

#[test]
fn i5_two_stores_over_one_yard_never_touch_each_others_trees() {
    let shared = tempfile::tempdir().unwrap();
    let settings = format!(
        "{QUICK}recover.stray_age = \"0s\"\nworktree.root = \"{}\"\n",
        shared.path().join("trees").display()
    );
    let yards = stores().into_iter().chain(stores()).map(|store| Yard::on(store).with_settings(&settings));
    let yards: Vec<_> = yards.collect();
    let repository = Repository::at(&yards[0], &shared.path().join("repository"));
    let trees: Vec<_> =
        yards.iter().map(|yard| [dead(yard, &repository), stray(yard, &repository)]).collect();
    let mut gone = Vec::new();
    for (yard, own) in yards.iter().zip(&trees) {
        yard.ok(&["recover"]);
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
fn i5_a_store_that_may_have_forgotten_sessions_has_no_strays() {
    for store in stores() {
        let yard = Yard::on(store).with_settings(&format!("{QUICK}recover.stray_age = \"0s\"\n"));
        let repository = Repository::in_work_dir(&yard);
        yard.ok(&["run", "--", "true"]);
        let backup = yard.json(&["backup"])["backup"].as_str().unwrap().to_owned();
        let forgotten = tree_of(&run_in_tree(&yard, "echo mine > new"));
        yard.ok(&["restore", &backup]);
        assert_eq!(yard.json(&["ps", "-a"]).as_array().unwrap().len(), 1, "{store}");
        yard.ok(&["recover"]);
        assert_eq!(std::fs::read(forgotten.join("new")).unwrap(), b"mine\n", "{store}");
        // What was made and lost its record since then is a stray like any other.
        let (id, tree) = stray(&yard, &repository);
        yard.ok(&["recover"]);
        assert!(!tree.exists() && forgotten.exists(), "{store}");
        assert_eq!(repository.rescues(), [id], "{store}");
    }
}

#[test]
#[cfg(feature = "store-json")]
fn i5_a_damaged_store_deletes_no_stray_nor_does_the_repaired_one() {
    let yard = Yard::on("json").with_settings(&format!("{QUICK}recover.stray_age = \"0s\"\n"));
    let _repository = Repository::in_work_dir(&yard);
    let tree = tree_of(&run_in_tree(&yard, "echo mine > new"));
    yard.ok(&["run", "--", "true"]);
    let journal = std::fs::read(yard.store_path()).unwrap();
    let lines: Vec<_> = journal.split_inclusive(|byte| *byte == b'\n').collect();
    // Every line that speaks of the session in the tree is spoilt.
    let name = tree.file_name().unwrap().to_str().unwrap().to_owned();
    let spoilt = lines.into_iter().flat_map(|line| {
        let mut line = line.to_vec();
        if String::from_utf8_lossy(&line).contains(&name) {
            let middle = line.len() / 2;
            line[middle] ^= 1;
        }
        line
    });
    std::fs::write(yard.store_path(), spoilt.collect::<Vec<_>>()).unwrap();
    assert_eq!(yard.sexton(&["recover"]).code, 5);
    assert!(tree.join("new").exists());
    yard.sexton(&["doctor", "--repair"]);
    assert_eq!(yard.sexton(&["show", &name]).code, 4);
    yard.ok(&["recover"]);
    assert!(tree.join("new").exists());
}

#[test]
fn i3_rm_leaves_the_tree_of_a_session_of_which_a_process_is_alive() {
    let (yard, _repository) = quick();
    let record = run_in_tree(&yard, "echo mine > new");
    let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
    let mut late =
        Command::new("sleep").arg("600").env("SEXTON_SESSION_ID", id).current_dir("/").spawn().unwrap();
    let refused = yard.sexton(&["worktree", "rm", id]);
    late.kill().unwrap();
    late.wait().unwrap();
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("of its session is alive"), "{}", refused.stderr);
    assert!(tree.join("new").exists());
    yard.ok(&["worktree", "rm", id]);
    assert!(!tree.exists());
}

#[test]
fn i9_recovery_clears_the_files_of_a_session_that_has_no_record() {
    let yard = Yard::new().with_settings(QUICK);
    let ids: Vec<_> = ["old", "young", "known"]
        .map(|name| {
            yard.ok(&["run", "--name", name, "--", "echo", name]);
            yard.record(name)["id"].as_str().unwrap().to_owned()
        })
        .into();
    let directories: Vec<_> = ids.iter().map(|id| yard.state_dir().join("sessions").join(id)).collect();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    for directory in [&directories[0], &directories[2]] {
        let mark = std::fs::File::options().write(true).open(directory.join("mark.json")).unwrap();
        mark.set_modified(long_ago).unwrap();
    }
    for id in &ids[..2] {
        remove_record(&yard, id);
    }
    let doctor = yard.sexton(&["doctor"]);
    assert!(doctor.stdout.contains("1 log directories have no record"), "{}", doctor.stdout);
    let report = yard.json(&["recover"]);
    let strays: Vec<_> = report["sessions"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(strays, [&ids[0]]);
    assert_eq!(directories.iter().map(|dir| dir.exists()).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn i3_no_recovery_at_any_moment_takes_a_tree_from_under_its_maker() {
    let yard = Yard::new().with_settings(&format!("{QUICK}recover.stray_age = \"0s\"\n"));
    let _repository = Repository::in_work_dir(&yard);
    yard.ok(&["recover"]);
    let recoveries = AtomicUsize::new(0);
    // Every change that the making of a tree consists of takes its time.
    const CHANGES: &str = "mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,\
                           unlinkat,write,pwrite64,fsync,fdatasync";
    let slowly = format!("inject={CHANGES}:delay_enter=20000");
    let mut command = Command::new("strace");
    yard.enclose(&mut command);
    command.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
    command.args(["-e", &format!("trace={CHANGES}"), "-e", &slowly, &support::program()]);
    command.args(["run", "-w", "--", "sh", "-c", "cat tracked; echo mine > new"]);
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| Ran::of(&command.output().unwrap()));
        while !running.is_finished() {
            let ran = yard.sexton(&["recover"]);
            assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
            recoveries.fetch_add(1, Ordering::Relaxed);
        }
        running.join().unwrap()
    });
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "as committed\n"), "{}", ran.stderr);
    let record = yard.json(&["ps", "-a"])[0].clone();
    assert_eq!(record["status"], "completed", "{record}");
    assert_eq!(std::fs::read(tree_of(&record).join("new")).unwrap(), b"mine\n");
    let recoveries = recoveries.into_inner();
    assert!(recoveries > 5, "only {recoveries} recoveries ran meanwhile");
}

#[test]
fn i7_a_removal_by_hand_that_was_killed_anywhere_is_finished_by_the_next() {
    let (yard, repository) = quick();
    let finished = || run_in_tree(&yard, "echo new > new")["id"].as_str().unwrap().to_owned();
    let calls = mutating_calls(&trace(&yard, &["worktree", "rm", &finished()]));
    let mut killed = 0;
    for call in calls.iter().step_by(crash_stride(3)) {
        let id = finished();
        killed += usize::from(kill_at(&yard, call, &["worktree", "rm", &id]));
        yard.ok(&["worktree", "rm", &id]);
        let point = format!("{} number {}", call.name, call.nth);
        assert_eq!(repository.worktrees().len(), 1, "{point}");
        assert_eq!(repository.branches().lines().count(), 1, "{point}: its branch stays");
        let left = files_under(&repository.path().join(".git/sexton"));
        let left: Vec<_> = left.keys().filter(|file| file.to_string_lossy().contains(&id)).collect();
        assert!(left.is_empty(), "{point}: {left:?}");
        let rescue = format!("refs/sexton/rescue/{id}:new");
        assert_eq!(repository.git(&["show", &rescue]), "new", "{point}");
    }
    assert!(killed > 20, "only {killed} of {} were killed", calls.len());
}

#[test]
fn i8_a_worktree_that_could_not_be_made_whole_is_gone_after_a_recovery() {
    let (yard, repository) = quick();
    let trace = yard.path().join("trace");
    let mut failed = 0;
    for nth in (1..).step_by(crash_stride(3)) {
        let start = yard.command(&["run", "-d", "-w", "--", "true"]);
        let mut traced = Command::new("strace");
        traced
            .args(["-qq", "-e", "trace=openat", "-e"])
            .arg(format!("inject=openat:error=EMFILE:when={nth}"));
        traced.arg("-o").arg(&trace).arg(start.get_program()).args(start.get_args());
        yard.enclose(&mut traced);
        let ran = Ran::of(&traced.output().unwrap());
        let struck = std::fs::read_to_string(&trace).unwrap().contains("INJECTED");
        failed += usize::from(ran.code != 0);
        // One whose command ran all the same loses its worktree to its supervisor, or to this.
        for session in yard.json(&["ps", "-a", "--limit", "1"]).as_array().unwrap() {
            let id = session["id"].as_str().unwrap();
            if session["started_at"].is_string() && yard.wait_until_ended(id)["status"] == "completed" {
                yard.ok(&["worktree", "rm", id]);
            }
        }
        yard.ok(&["recover"]);
        let trees = repository.worktrees();
        assert_eq!(trees.len(), 1, "open number {nth}, {}: {trees:?}", ran.stderr);
        assert_eq!(repository.branches().lines().count(), 1, "open number {nth}: {}", ran.stderr);
        if !struck {
            break;
        }
    }
    assert!(failed > 5, "only {failed} failed");
    // Supervisors sweep after their session has ended, and are not to do that in a yard that is being deleted.
    let home = format!("HOME={}", yard.path().display());
    eventually("nobody is left in the yard", || processes_with(&home).is_empty());
}

#[test]
fn i4_a_repository_inside_that_cannot_be_read_keeps_its_worktree() {
    let (yard, repository) = quick();
    let upstream = Repository::at(&yard, &yard.path().join("upstream"));
    let commit =
        "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m own; git rev-parse HEAD";
    let on_branch =
        format!("git checkout --quiet -b own; {commit}; git checkout --quiet --detach origin/main");
    // Only this has the commit: HEAD, a branch, or a branch that is packed. OBJECT is the commit itself.
    for (having, places) in [
        (format!("git checkout --quiet --detach; {commit}"), "sub/HEAD . sub sub/objects sub/config OBJECT"),
        (on_branch.clone(), "sub/refs sub/refs/heads sub/refs/heads/own OBJECT"),
        (format!("{on_branch}; git pack-refs --all"), "sub/packed-refs OBJECT"),
    ] {
        // The submodule is not even checked out any more.
        let script = format!(
            "set -eu; git -c protocol.file.allow=always submodule --quiet add '{}' sub; git commit --quiet -m sub\n\
             cd sub; {having}; cd ..; git submodule --quiet deinit --force sub",
            upstream.path().display()
        );
        let ran = yard.sexton(&["run", "-w", "--", "sh", "-c", &script]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let commit = ran.stdout.trim();
        let record = yard.json(&["ps", "-a", "--limit", "1"])[0].clone();
        let (id, tree) = (record["id"].as_str().unwrap(), tree_of(&record));
        let link = std::fs::read_to_string(tree.join(".git")).unwrap();
        let modules = Path::new(link.trim().strip_prefix("gitdir: ").unwrap()).join("modules");
        let object = format!("sub/objects/{}/{}", &commit[..2], &commit[2..]);
        for place in places.replace("OBJECT", &object).split(' ') {
            let place = if place == "." { modules.clone() } else { modules.join(place) };
            let ran = remove_with_bad_sector(&yard, id, &place);
            assert_ne!(ran.code, 0, "{}: {}", place.display(), ran.stderr);
            assert!(tree.is_dir(), "{}: it is gone", place.display());
            let modules = modules.join("sub");
            repository.git(&["--git-dir", modules.to_str().unwrap(), "cat-file", "-e", commit]);
        }
    }
}

/// Removes a worktree while whoever looks at `place`, with whichever call, is told that it cannot be read.
fn remove_with_bad_sector(yard: &Yard, id: &str, place: &Path) -> Ran {
    let calls = "openat,newfstatat,statx,readlink,access";
    let (looks, bad_sector) = (format!("trace={calls}"), format!("inject={calls}:error=EIO"));
    let (removal, trace) = (yard.command(&["worktree", "rm", id]), yard.path().join("trace"));
    let mut traced = Command::new("strace");
    traced.args(["-f", "--seccomp-bpf", "-qq", "-o"]).arg(&trace);
    traced.args(["-e", &looks, "-e", &bad_sector, "-P"]).arg(place);
    traced.arg(removal.get_program()).args(removal.get_args());
    yard.enclose(&mut traced);
    let ran = Ran::of(&traced.output().unwrap());
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("INJECTED"), "nobody looked at {}", place.display());
    ran
}
