//! What an untrusted repository, another local user and an agent inside a session cannot do through this program.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::geteuid;
use serde_json::{Value, json};
use support::project::Project;
use support::repository::Repository;
use support::{Ran, TestEnv, eventually, is_running, stores};

/// The settings that a repository may change without trust.
const WITHOUT_TRUST: [&str; 5] = [
    "ralph.base",
    "ralph.capture_json",
    "ralph.promise",
    "ralph.sleep_between_retries",
    "ralph.sleep_between_tickets",
];

/// The uid of a user that is neither root nor the user that runs the tests.
const STRANGER: u32 = 60_017;

/// Runs the binary in `directory`, limited to a minute and 2 GB, so that reading an endless or blocking file fails.
fn run_in(test_env: &TestEnv, directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new("sh");
    test_env.enclose(&mut command);
    command.args(["-c", "ulimit -v 2000000; exec timeout -s KILL 60 \"$0\" \"$@\""]);
    Ran::of(&command.arg(support::program()).args(arguments).current_dir(directory).output().unwrap())
}

/// Creates a directory that counts as a repository for settings.
fn clone_at(test_env: &TestEnv, settings: &str) -> PathBuf {
    let clone = test_env.path().join("clone");
    fs::create_dir_all(clone.join(".git")).unwrap();
    fs::write(clone.join(".sexton.toml"), settings).unwrap();
    clone
}

/// Returns a line that sets `key` to a valid value.
fn line_of(key: &str, value: &Value) -> String {
    format!("{key} = {value}\n")
}

#[test]
fn i11_an_untrusted_repository_can_change_only_five_settings() {
    let test_env = TestEnv::new();
    let settings = test_env.json(&["config"]);
    let settings = settings.as_object().unwrap();
    assert!(settings.len() > 40, "{settings:?}");
    let all: String = settings.iter().map(|(key, shown)| line_of(key, &shown["value"])).collect();
    let clone = clone_at(&test_env, &all);
    let ran = run_in(&test_env, &clone, &["config", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let seen: Value = serde_json::from_str(&ran.stdout).unwrap();
    for key in settings.keys() {
        let from_clone = seen[key]["origin"].as_str().unwrap().ends_with(".sexton.toml");
        assert_eq!(from_clone, WITHOUT_TRUST.contains(&key.as_str()), "{key}: {}", seen[key]);
        let warned = ran.stderr.contains(&format!("`{key}` is ignored"));
        assert_eq!(warned, !WITHOUT_TRUST.contains(&key.as_str()), "{key}: {}", ran.stderr);
    }
    assert!(ran.stderr.contains("`sexton trust`"), "{}", ran.stderr);
}

#[test]
fn i11_settings_of_an_untrusted_clone_delete_nothing_of_other_repositories() {
    let test_env = TestEnv::new().with_settings("store.durability = \"process\"\nstop.grace = \"300ms\"\n");
    let repository = Repository::in_work_dir(&test_env);
    let id = test_env.ok(&["run", "-d", "-w", "--", "sh", "-c", "echo work > tracked; exec sleep 600"]);
    eventually("the work is done", || {
        let path = test_env.record(&id)["worktree"]["path"].as_str().unwrap().to_owned();
        fs::read_to_string(Path::new(&path).join("tracked")).is_ok_and(|text| text == "work\n")
    });
    test_env.ok(&["stop", &id]);
    test_env.ok(&["worktree", "rm", &id]);
    let backup = PathBuf::from(test_env.ok(&["backup"]));
    assert_eq!(repository.rescues(), std::slice::from_ref(&id));
    let hostile = "[rescue]\nttl = \"1ms\"\nignored = \"off\"\n[retention]\nttl = \"0s\"\nkeep = 0\n\
                   [backup]\nkeep = 0\n[recover]\nstale = \"0s\"\nstray_age = \"0s\"\n";
    let clone = clone_at(&test_env, hostile);
    for command in
        [&["recover"][..], &["prune"], &["backup"], &["doctor", "--repair"], &["worktree", "prune"]]
    {
        let ran = run_in(&test_env, &clone, command);
        assert_eq!(ran.code, 0, "{command:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("`rescue.ttl` is ignored"), "{}", ran.stderr);
    }
    assert_eq!(repository.rescues(), std::slice::from_ref(&id), "a rescue was deleted");
    assert_eq!(test_env.record(&id)["status"], "stopped", "a record was deleted");
    assert!(backup.exists(), "a backup was deleted");
}

/// Creates a project whose configuration sets `root` as its worktree root, and whose records name a worktree that the
/// user created beside the project.
fn project_with_root(root: &str) -> (Project, PathBuf) {
    let project = Project::new();
    let config = json!({"parallelWorktreesDir": root}).to_string();
    fs::write(project.root().join(".tf/ralph/config.json"), config).unwrap();
    let own = project.root().parent().unwrap().join("work-of-the-user");
    project.repository.git(&["worktree", "add", "--quiet", "-b", "mine", own.to_str().unwrap()]);
    let entry = json!({"session_id": "s1", "ticket_id": "T-9", "pid": 4_000_000, "process_start_time": 7,
                       "started_at": "2026-01-02T03:04:05+00:00", "worktree_path": own, "status": "running"});
    fs::write(project.file(), json!({"version": 1, "sessions": [entry]}).to_string()).unwrap();
    (project, own)
}

#[test]
fn i5_i11_a_project_cannot_make_recovery_remove_a_users_worktree() {
    for root in ["..", "../", ".", "../../", "x/../.."] {
        for trusted in [false, true] {
            let (project, own) = project_with_root(root);
            if trusted {
                project.test_env.ok(&["trust"]);
            }
            let ran = project.test_env.sexton(&["--store", &project.url(), "recover"]);
            assert!(own.join("tracked").exists(), "{root}, trusted: {trusted}: {}", ran.stderr);
            assert!(project.repository.worktrees().contains(&own), "{root}, trusted: {trusted}");
            assert!(ran.stderr.contains("`parallelWorktreesDir`"), "{root}: {}", ran.stderr);
        }
    }
}

/// A cloned project can contain any id, also that of a session of the user. It reaches neither that session's files nor
/// its exit.
#[test]
fn i11_an_id_in_a_projects_records_reaches_no_session_of_another_store() {
    let project = Project::new();
    let test_env = &project.test_env;
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let pending = forge_exit(test_env, &id);
    let directory = test_env.state_dir().join("sessions").join(&id);
    let files = fs::read_dir(&directory).unwrap().count();
    let recover = |status: &str, completed_at: Value| {
        let entry = json!({"session_id": id, "ticket_id": "T-9", "pid": 4_000_000, "process_start_time": 7,
                           "started_at": "2020-01-02T03:04:05+00:00", "completed_at": completed_at,
                           "worktree_path": null, "return_code": null, "status": status});
        fs::write(project.file(), json!({"version": 1, "sessions": [entry]}).to_string()).unwrap();
        test_env.sexton(&["--store", &project.url(), "recover", "--ttl", "1d"])
    };
    for (status, completed_at) in
        [("completed", json!("2020-01-02T03:04:05+00:00")), ("running", Value::Null)]
    {
        let ran = recover(status, completed_at);
        assert_eq!(fs::read_dir(&directory).map_or(0, Iterator::count), files, "{status}: {}", ran.stderr);
        assert!(pending.exists(), "{status}: the exit of another store's session was taken: {}", ran.stdout);
    }
    fs::remove_file(pending).unwrap();
    test_env.ok(&["stop", &id]);
}

#[test]
fn i11_an_untrusted_project_cannot_move_its_worktree_root() {
    // Through its configuration.
    let (project, own) = project_with_root("../elsewhere");
    let beside = own.with_file_name("elsewhere");
    project.repository.git(&["worktree", "move", own.to_str().unwrap(), beside.to_str().unwrap()]);
    fs::create_dir(&own).unwrap();
    fs::rename(&beside, own.join("T-9")).unwrap();
    fs::rename(&own, &beside).unwrap();
    let tree = beside.join("T-9");
    project.repository.git(&["worktree", "repair", tree.to_str().unwrap()]);
    let text = fs::read_to_string(project.file()).unwrap();
    let text = text.replace(own.to_str().unwrap(), tree.to_str().unwrap());
    fs::write(project.file(), text).unwrap();
    let ran = project.test_env.sexton(&["--store", &project.url(), "recover"]);
    assert!(tree.join("tracked").exists(), "{}", ran.stderr);
    assert!(ran.stderr.contains("`parallelWorktreesDir`") && ran.stderr.contains("sexton trust"));
    // Through a symbolic link in place of its worktree root.
    let (project, own) = project_with_root(".tf/ralph/worktrees");
    let root = project.root().join(".tf/ralph/worktrees");
    fs::remove_dir(&root).unwrap();
    symlink("../../..", &root).unwrap();
    let ran = project.test_env.sexton(&["--store", &project.url(), "recover"]);
    assert!(own.join("tracked").exists(), "{}", ran.stderr);
}

#[test]
fn i11_settings_of_another_tool_apply_only_to_its_own_records() {
    let (project, _) = project_with_root(".tf/ralph/worktrees");
    let config = json!({"sessionTtlMs": 1, "orphanGracePeriodMs": 86_400_000, "maxIterations": 1,
                        "sleepBetweenTickets": 1, "captureJson": true, "promiseOnComplete": false});
    fs::write(project.root().join(".tf/ralph/config.json"), config.to_string()).unwrap();
    let origin = |shown: &Value, key: &str| {
        shown[key]["origin"].as_str().unwrap().ends_with("config.json").then_some(()).is_some()
    };
    let other = project.test_env.json(&["config"]);
    let own = project.test_env.json(&["--store", &project.url(), "config"]);
    for key in ["retention.ttl", "recover.min_age"] {
        assert!(!origin(&other, key), "{key} applies to every store");
        assert!(origin(&own, key), "{key} does not apply to its own file");
    }
    for shown in [&other, &own] {
        assert!(!origin(shown, "ralph.max_iterations"));
        for key in ["ralph.sleep_between_tickets", "ralph.capture_json", "ralph.promise"] {
            assert!(origin(shown, key), "{key}");
        }
    }
    // A link to it in another repository does not make it that repository's own store.
    let clone = clone_at(&project.test_env, "");
    fs::create_dir_all(clone.join(".tf/ralph")).unwrap();
    fs::write(clone.join(".tf/ralph/config.json"), config.to_string()).unwrap();
    symlink(project.file(), clone.join(".tf/ralph/dispatch-sessions.json")).unwrap();
    let link = ["--store", "tf:.tf/ralph/dispatch-sessions.json", "config", "--json"];
    let shown: Value = serde_json::from_str(&run_in(&project.test_env, &clone, &link).stdout).unwrap();
    assert!(!origin(&shown, "retention.ttl"), "{}", shown["retention.ttl"]);
}

/// Creates something that is not a usable file at `path`, and returns what the error must contain.
fn put_odd_file(path: &Path, way: usize) -> &'static str {
    let _ = fs::remove_file(path);
    match way {
        0 => {
            symlink("/dev/zero", path).unwrap();
            ""
        }
        1 => {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
            "a FIFO"
        }
        2 => {
            fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
            "larger than"
        }
        3 => {
            symlink("/etc/hostname", path).unwrap();
            "leads out of the repository"
        }
        _ => unreachable!("there are four ways"),
    }
}

#[test]
fn i11_a_settings_file_must_be_a_regular_file_inside_the_repository() {
    let test_env = TestEnv::new();
    let clone = clone_at(&test_env, "");
    for way in 0..4 {
        let message = put_odd_file(&clone.join(".sexton.toml"), way);
        for command in [&["ps"][..], &["recover"], &["trust"], &["config"]] {
            let ran = run_in(&test_env, &clone, command);
            assert_eq!(ran.code, 2, "{command:?}: {}", ran.stderr);
            let is_reported =
                ran.stderr.contains(".sexton.toml: cannot be read: ") && ran.stderr.contains(message);
            assert!(is_reported, "{command:?}: {}", ran.stderr);
        }
    }
    fs::remove_file(clone.join(".sexton.toml")).unwrap();
    fs::create_dir_all(clone.join(".tf/ralph")).unwrap();
    for way in 0..4 {
        let message = put_odd_file(&clone.join(".tf/ralph/config.json"), way);
        assert_eq!(run_in(&test_env, &clone, &["ps"]).code, 0, "a file of another tool must not stop `ps`");
        let ran = run_in(&test_env, &clone, &["config"]);
        assert!(ran.code == 2 && ran.stderr.contains(message), "{}", ran.stderr);
    }
    fs::write(clone.join("settings"), "[ralph]\nbase = \"next\"\n").unwrap();
    symlink("settings", clone.join(".sexton.toml")).unwrap();
    fs::remove_file(clone.join(".tf/ralph/config.json")).unwrap();
    let shown = run_in(&test_env, &clone, &["config"]);
    assert!(shown.stdout.contains("next"), "a link inside the repository was not followed: {}", shown.stderr);
}

#[test]
fn i11_a_store_must_be_a_regular_file() {
    let test_env = TestEnv::new();
    for scheme in ["sqlite", "json", "tf"] {
        for way in 0..2 {
            let path = test_env.path().join(format!("{scheme}-{way}"));
            put_odd_file(&path, way);
            let url = format!("{scheme}:{}", path.display());
            for command in [&["ps"][..], &["recover"]] {
                let ran = run_in(&test_env, &test_env.work_dir(), &[&["--store", &url], command].concat());
                assert!(ran.code == 1 && ran.stderr.contains("not a regular file"), "{url}: {}", ran.stderr);
            }
        }
    }
    let project = Project::new();
    let path = project.root().join(".tf/ralph/config.json");
    put_odd_file(&path, 1);
    fs::write(project.file(), "{\"version\": 1, \"sessions\": []}").unwrap();
    let ran = project.test_env.sexton(&["--store", &project.url(), "ps"]);
    assert!(ran.code == 0 && ran.stderr.contains("a FIFO"), "{}", ran.stderr);
}

/// Runs the binary as uid 65534; needs root.
fn as_nobody(test_env: &TestEnv, arguments: &[&str]) -> Ran {
    // The original binary may be in a directory that only root can enter.
    let copy = test_env.path().join("sexton-for-all-users");
    if !copy.exists() {
        fs::copy(support::program(), &copy).unwrap();
    }
    fs::set_permissions(test_env.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = test_env.path().join("home");
    if fs::create_dir(&home).is_ok() {
        chown(&home, Some(65_534), Some(65_534)).unwrap();
    }
    let mut command = Command::new(&copy);
    test_env.enclose(&mut command);
    command.args(arguments).env("SEXTON_STATE_DIR", home.join("state")).env("HOME", &home);
    Ran::of(&command.current_dir(&home).uid(65_534).gid(65_534).output().unwrap())
}

/// Creates a store of each kind in a world-writable directory, and returns their URLs and files.
fn shared_stores(test_env: &TestEnv) -> Vec<(String, Vec<PathBuf>)> {
    let shared = test_env.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut made = Vec::new();
    for scheme in stores() {
        let path = shared.join(scheme);
        let url = format!("{scheme}:{}", path.display());
        test_env.ok(&["--store", &url, "run", "--", "true"]);
        let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
        let mut files = vec![path.clone(), beside(".mark"), beside(".lock")];
        if scheme == "sqlite" {
            files.extend([beside("-wal"), beside("-shm")]);
        }
        made.push((url, files));
    }
    let tf = shared.join("dispatch-sessions.json");
    fs::write(&tf, "{\"version\": 1, \"sessions\": []}").unwrap();
    made.push((format!("tf:{}", tf.display()), vec![tf.clone(), tf.with_extension("lock")]));
    let omx = shared.join("omx");
    fs::create_dir_all(omx.join("sessions")).unwrap();
    made.push((format!("omx:{}", omx.display()), vec![omx.clone(), omx.join("sessions")]));
    made
}

#[test]
fn i11_a_store_file_of_another_user_is_refused() {
    let test_env = TestEnv::new();
    for (url, files) in shared_stores(&test_env) {
        let ran = test_env.sexton(&["--store", &url, "ps", "-a"]);
        assert_eq!(ran.code, 0, "{url}: own store: {}", ran.stderr);
        if !geteuid().is_root() {
            // Only root can change the owner of a file. Root's run of this test also reads as an ordinary user.
            continue;
        }
        for file in files {
            let was_there = file.exists();
            if !was_there {
                fs::write(&file, "").unwrap();
            }
            chown(&file, Some(STRANGER), None).unwrap();
            for command in [&["ps", "-a"][..], &["recover"], &["doctor"]] {
                let arguments = [&["--store", &url], command].concat();
                for ran in [test_env.sexton(&arguments), as_nobody(&test_env, &arguments)] {
                    let output = format!("{}{}", ran.stdout, ran.stderr);
                    assert_eq!(ran.code, 1, "{url}: {}: {command:?}: {output}", file.display());
                    // Root created a directory in the omx store that other users cannot enter.
                    let refused = output.contains("belongs to another user (uid 60017)")
                        || (url.starts_with("omx:") && output.contains("Permission denied"));
                    assert!(refused, "{output}");
                }
            }
            chown(&file, Some(0), None).unwrap();
            if !was_there {
                fs::remove_file(&file).unwrap();
            }
        }
        assert_eq!(
            test_env.sexton(&["--store", &url, "ps", "-a"]).code,
            0,
            "{url}: after the owner was restored"
        );
    }
}

/// Writes an exit file, as the command of session `id` could.
fn forge_exit(test_env: &TestEnv, id: &str) -> PathBuf {
    let exits = test_env.state_dir().join("exits");
    fs::create_dir_all(&exits).unwrap();
    let forged = json!({"session": id, "exit": {"code": 0, "signal": null, "reason": "exited"},
                        "finished_at": "2026-01-02T03:04:05Z"});
    let path = exits.join(format!("{id}.json"));
    fs::write(&path, forged.to_string()).unwrap();
    path
}

#[test]
fn i8_an_exit_file_is_ignored_while_its_command_is_alive() {
    for store in stores() {
        let test_env =
            TestEnv::on(store).with_settings("store.durability = \"process\"\nstop.grace = \"300ms\"\n");
        let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
        let pid = test_env.record(&id)["process"]["pid"].as_u64().unwrap();
        let forged = forge_exit(&test_env, &id);
        assert_eq!(test_env.record(&id)["status"], "running", "show");
        let listed = test_env.json(&["ps"]);
        assert_eq!(listed[0]["observed"], "alive", "{listed}");
        let waited = test_env.sexton(&["wait", &id, "--timeout", "50ms", "--json"]);
        let waited: Value = serde_json::from_str(&waited.stdout).unwrap();
        assert_eq!(waited[0]["status"], "running", "{waited}");
        let report = test_env.json(&["recover"]);
        assert_eq!(report["left_alone"], 1, "{report:#}");
        test_env.ok(&["prune", "--ttl", "0s"]);
        assert_eq!(test_env.record(&id)["status"], "running", "a command that writes");
        assert!(is_running(pid) && forged.exists());
        test_env.ok(&["stop", &id]);
        eventually("it is gone", || !is_running(pid));
        assert_eq!(test_env.record(&id)["status"], "stopped");
        test_env.ok(&["recover"]);
        assert!(!forged.exists(), "the forged exit file is left");
    }
}

/// Returns the control and direction characters of a text, except newlines.
fn control_characters(text: &str) -> Vec<char> {
    let directs = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| (c.is_control() && *c != '\n') || directs(*c)).collect()
}

#[test]
fn i11_no_output_for_people_contains_control_characters_of_a_record() {
    let odd = "x\x1b[31m\u{9b}2J\x07\u{7f}\r\u{202e}\u{2066}y";
    let test_env = TestEnv::new().with_settings("store.durability = \"process\"\nstop.grace = \"300ms\"\n");
    let directory = test_env.path().join(odd);
    let repository = Repository::at(&test_env, &directory);
    let script = format!("echo work > '{odd}'; exec sleep 600");
    let here = |arguments: &[&str]| run_in(&test_env, &directory, arguments);
    let ran = here(&["run", "-d", "-w", "--tag", "kind=\u{202e}tag", "--", "sh", "-c", &script, odd]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let id = ran.stdout.trim().to_owned();
    eventually("the work is done", || {
        let path = test_env.record(&id)["worktree"]["path"].as_str().unwrap().to_owned();
        Path::new(&path).join(odd).exists()
    });
    let mut shown = vec![here(&["ps"]), here(&["show", &id]), here(&["worktree", "list"])];
    support::crashed_env::kill_supervisor_and_command(&test_env, &id);
    shown.extend([here(&["recover"]), here(&["show", &id]), here(&["ps", "-a"]), here(&["doctor"])]);
    assert_eq!(repository.rescues(), std::slice::from_ref(&id));
    shown.extend([here(&["rescue", "list"]), here(&["rescue", "show", &id]), here(&["show", odd])]);
    shown.extend([here(&["--state-dir", odd, "ps"]), here(&["--store", &format!("json:{odd}/a"), "ps"])]);
    fs::write(directory.join(".sexton.toml"), "\"\\u001b[31m\\u202e\" = 1\n").unwrap();
    shown.push(here(&["ps"]));
    fs::write(directory.join(".sexton.toml"), "probe = \"linux\"\n").unwrap();
    shown.extend([here(&["ps"]), here(&["config"]), here(&["trust"])]);
    let mut escaped = 0;
    for (number, ran) in shown.iter().enumerate() {
        for text in [&ran.stdout, &ran.stderr] {
            assert_eq!(control_characters(text), Vec::<char>::new(), "output {number}: {text:?}");
            escaped += usize::from(text.contains("\\u{1b}[31m"));
        }
    }
    assert!(escaped >= 8, "only {escaped} outputs contained the escaped name");
    // JSON contains the original text.
    let record = test_env.record(&id);
    assert_eq!(record["command"][3], odd);
    assert_eq!(record["tags"]["kind"], "\u{202e}tag");
}

#[test]
fn i11_a_fifo_in_a_repository_does_not_block_recovery() {
    let test_env = TestEnv::new().with_settings("store.durability = \"process\"\nstop.grace = \"300ms\"\n");
    let repository = Repository::in_work_dir(&test_env);
    let script = "echo work > tracked; mkfifo pipe .gitattributes; mkfifo folder/.gitignore; exec sleep 600";
    let id = test_env.ok(&["run", "-d", "-w", "--", "sh", "-c", script]);
    let worktree = PathBuf::from(test_env.record(&id)["worktree"]["path"].as_str().unwrap());
    eventually("the work is done", || worktree.join("folder/.gitignore").exists());
    let link = fs::read_to_string(worktree.join(".git")).unwrap();
    let admin = worktree.join(link.strip_prefix("gitdir: ").unwrap().trim_end());
    assert!(admin.is_dir(), "{}", admin.display());
    mkfifoat(CWD, admin.join("FETCH_HEAD"), Mode::RUSR | Mode::WUSR).unwrap();
    mkfifoat(CWD, repository.path().join(".git/refs/heads/pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    support::crashed_env::kill_supervisor_and_command(&test_env, &id);
    let ran = run_in(&test_env, &test_env.work_dir(), &["recover"]);
    assert!(matches!(ran.code, 0 | 3), "recover blocks on a FIFO: {}: {}", ran.code, ran.stderr);
}
