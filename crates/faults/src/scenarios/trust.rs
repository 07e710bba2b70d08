//! Repositories that the user does not trust: with every setting, in every command that reads settings,
//! nothing of another repository, of the state directory or of the user's own settings changes. Also files
//! that never end, roots that contain the user's own worktrees, stores of other users, and exit files that a
//! command forges.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::geteuid;
use serde_json::{Value, json};
use sexton_test_harness::project::Project;
use sexton_test_harness::repository::{Repository, files_under};
use sexton_test_harness::{Ran, TestEnv, eventually, is_running, program, stores};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "trust",
    promises: "I5 I8 I11",
    what: "untrusted repositories with every setting, files that never end, stores of other users, forged exit files",
    mutants: &["trust_everything", "tf_root_untrusted", "any_file_type", "any_owner", "any_exit_file"],
    tools: &[("git", "git"), ("timeout", "coreutils")],
    minutes: 3,
    runs_alone: false,
    run,
};

/// What a repository may set without trust.
const WITHOUT_TRUST: [&str; 5] = [
    "ralph.base",
    "ralph.capture_json",
    "ralph.promise",
    "ralph.sleep_between_retries",
    "ralph.sleep_between_tickets",
];

/// Every command that reads settings and needs no terminal and no further argument; `ID` is an ended session
/// of the other repository.
const COMMANDS: [&[&str]; 21] = [
    &["recover"],
    &["prune"],
    &["doctor", "--repair"],
    &["backup"],
    &["worktree", "prune"],
    &["config"],
    &["ps", "-a"],
    &["show", "ID"],
    &["logs", "ID"],
    &["wait", "ID"],
    &["stop", "ID"],
    &["recover", "--dry-run"],
    &["doctor"],
    &["backup", "--list"],
    &["rescue", "list"],
    &["rescue", "show", "ID"],
    &["worktree", "list"],
    &["metrics"],
    &["mcp"],
    &["run", "--", "true"],
    &["ralph", "start", "--dry-run", "--ticket-query", "true", "--agent", "true {ticket}"],
];

fn run(trials: &mut Trials) {
    assert!(geteuid().is_root(), "this scenario gives files to another user: run it as root");
    let theirs = Theirs::prepare();
    let settings = theirs.hostile_settings();
    let all: Vec<_> = settings.values().cloned().collect();
    for (number, arguments) in COMMANDS.iter().enumerate() {
        trials.trial(&format!("all settings, {arguments:?}"), || theirs.attack(&all, &[arguments]));
        trials.trial(&format!("odd file {number}, {arguments:?}"), || theirs.odd_file(number, arguments));
    }
    for (number, (key, line)) in settings.iter().enumerate() {
        // Each with one command that deletes and one other; in a full campaign with all.
        let some = [COMMANDS[number % 5], COMMANDS[5 + number % 16]];
        let commands = trials.either(&some[..], &COMMANDS[..]);
        trials.trial(key, || theirs.attack(std::slice::from_ref(line), commands));
    }
    let roots = ["..", "../elsewhere", ".", "../../", "/", "x/../.."];
    for root in trials.some_of(&roots, 2) {
        trials.trial(&format!("the root {root}"), || move_root(root));
    }
    for store in stores() {
        trials.trial(&format!("a forged exit file, {store}"), || forge_exit(store));
        trials.trial(&format!("another user's files, {store}"), || chown_store(store));
    }
}

/// A repository with work in it, and an untrusted clone beside it.
struct Theirs {
    test_env: TestEnv,
    repository: Repository,
    bystanders: Bystanders,
    /// A session that ended and whose work is rescued, and one that runs in a worktree.
    ended: String,
    running: String,
    clone: PathBuf,
    before: State,
}

/// What must not change.
#[derive(Debug, PartialEq)]
struct State {
    refs: String,
    worktrees: Vec<PathBuf>,
    records: Vec<Value>,
    settings: BTreeMap<String, Value>,
    work: BTreeMap<PathBuf, Vec<u8>>,
    of_clone: BTreeMap<PathBuf, Vec<u8>>,
}

impl Theirs {
    fn prepare() -> Theirs {
        let test_env = TestEnv::new();
        let (state, store) = (test_env.state_dir(), test_env.store_url());
        // The user's file sets the state directory: the environment would override any repository.
        let settings = format!(
            "state_dir = {state:?}\n[store]\nurl = {store:?}\ndurability = \"process\"\n\
             [stop]\ngrace = \"200ms\"\n[backup]\nkeep = 1000\n"
        );
        let test_env = test_env.with_settings(&settings);
        let repository = Repository::in_work_dir(&test_env);
        let bystanders = Bystanders::plant(&test_env);
        let start = |name: &str| {
            let script = "echo work > tracked; echo said; exec sleep 14400";
            let id = test_env.ok(&["run", "-d", "-w", "--name", name, "--", "sh", "-c", script]);
            let tree = PathBuf::from(test_env.record(&id)["worktree"]["path"].as_str().unwrap());
            eventually("it has worked", || {
                fs::read_to_string(tree.join("tracked")).is_ok_and(|text| text == "work\n")
            });
            id
        };
        let (ended, running) = (start("ended"), start("running"));
        test_env.ok(&["stop", &ended]);
        test_env.ok(&["worktree", "rm", &ended]);
        assert_eq!(repository.rescues(), std::slice::from_ref(&ended));
        let clone = test_env.path().join("clone");
        Repository::at(&test_env, &clone);
        let mut theirs =
            Theirs { before: State::none(), test_env, repository, bystanders, ended, running, clone };
        theirs.before = theirs.state();
        theirs
    }

    fn settings_file(&self) -> PathBuf {
        self.clone.join(".sexton.toml")
    }

    /// Runs the binary in the clone, as the user, with a limit on time and memory.
    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new("sh");
        self.test_env.enclose(&mut command);
        command.args(["-c", "ulimit -v 4000000; exec timeout -s KILL 30 \"$0\" \"$@\""]).arg(program());
        command.args(arguments.iter().map(|word| if *word == "ID" { &*self.ended } else { word }));
        command.env_remove("SEXTON_STATE_DIR").env_remove("SEXTON_STORE").current_dir(&self.clone);
        Ran::of(&command.output().unwrap())
    }

    fn state(&self) -> State {
        let shown = self.run(&["config", "--json"]);
        let shown: BTreeMap<String, Value> = serde_json::from_str(&shown.stdout).unwrap_or_default();
        let ids = [&self.ended, &self.running, &self.bystanders.session];
        let records: Vec<_> = ids.into_iter().map(|id| self.test_env.record(id)).collect();
        let tree = PathBuf::from(records[1]["worktree"]["path"].as_str().unwrap());
        let mut of_clone = files_under(&self.clone);
        of_clone.remove(Path::new(".sexton.toml"));
        let settings = shown.into_iter().filter(|(key, _)| !WITHOUT_TRUST.contains(&key.as_str()));
        State {
            refs: self.repository.git(&["for-each-ref"]),
            worktrees: self.repository.worktrees(),
            records,
            settings: settings.collect(),
            work: files_under(&tree),
            of_clone,
        }
    }

    /// Returns a line for every setting, with a value that differs from the user's. It is found by running
    /// the program: a setting that is added later is attacked as well, or the scenario fails because it has
    /// no value for it.
    fn hostile_settings(&self) -> BTreeMap<String, String> {
        let resolve = |settings: &str| -> Option<BTreeMap<String, Value>> {
            let config = self.test_env.path().join("resolved/sexton");
            fs::create_dir_all(&config).unwrap();
            fs::write(config.join("config.toml"), settings).unwrap();
            let mut command = self.test_env.command(&["config", "--json"]);
            command.env_remove("SEXTON_STATE_DIR").env_remove("SEXTON_STORE");
            let output = command.env("XDG_CONFIG_HOME", config.parent().unwrap()).output().unwrap();
            serde_json::from_slice(&output.stdout).ok()
        };
        let place = json!(self.clone.join("theirs"));
        let url = json!(format!("json:{}", self.clone.join("theirs.jsonl").display()));
        let command = json!(format!("touch {}", self.clone.join("ran").display()));
        let values = [
            json!("0s"),
            json!("1ms"),
            json!(0),
            json!(77),
            json!("1B"),
            json!("on"),
            json!("off"),
            json!("tree"),
            json!("process"),
            json!("power"),
            json!("rescue"),
            json!(["*"]),
            place.clone(),
            json!("a-secret-of-theirs"),
        ];
        let defaults = resolve("").unwrap();
        let of_user = &self.before.settings;
        let find = |key: &str| {
            // For a command, a path or a store, the most harmful value is tried first.
            let by_name: Vec<Value> = match key {
                "store.url" => vec![url.clone()],
                "probe" => vec![json!("portable")],
                "notify.command" => vec![command.clone()],
                _ if defaults[key]["value"] == "auto" => vec![place.clone()],
                _ => Vec::new(),
            };
            let fits = |value: &&Value| {
                let shown = resolve(&format!("{key} = {value}\n"));
                let shown = shown.map(|shown| shown[key]["value"].clone());
                let own = of_user.get(key).map_or(&defaults[key]["value"], |own| &own["value"]);
                shown.is_some_and(|shown| shown != *own)
            };
            by_name.iter().chain(&values).find(fits).cloned()
        };
        let found = defaults.keys().map(|key| {
            let value = find(key).unwrap_or_else(|| panic!("no value is known that changes {key}"));
            (key.clone(), format!("{key} = {value}\n"))
        });
        found.collect()
    }

    /// Writes these settings into the clone and runs the commands there.
    fn attack(&self, lines: &[String], commands: &[&[&str]]) -> u64 {
        fs::write(self.settings_file(), lines.concat()).unwrap();
        for arguments in commands {
            let ran = self.run(arguments);
            assert!(!matches!(ran.code, -1 | 137), "{arguments:?} did not end: {}", ran.stderr);
        }
        self.require_untouched();
        fs::remove_file(self.settings_file()).unwrap();
        (lines.len() * commands.len()) as u64
    }

    /// Replaces the settings by something that is not a regular file.
    fn odd_file(&self, number: usize, arguments: &[&str]) -> u64 {
        let path = self.settings_file();
        match number % 3 {
            0 => mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap(),
            1 => symlink("/dev/zero", &path).unwrap(),
            _ => fs::File::create(&path).unwrap().set_len(1 << 40).unwrap(),
        }
        let ran = self.run(arguments);
        let refused = ran.stderr.contains(".sexton.toml: cannot be read");
        fs::remove_file(&path).unwrap();
        // `mcp` and `run` use their own exit codes for their own errors.
        assert!(ran.code > 0 && refused, "{arguments:?}: {}: {}", ran.code, ran.stderr);
        self.require_untouched();
        1
    }

    fn require_untouched(&self) {
        self.bystanders.require_untouched(&self.test_env);
        let now = self.state();
        let (before, now) = (&self.before, &now);
        assert_eq!(now.refs, before.refs, "refs of the other repository");
        assert_eq!(now.worktrees, before.worktrees, "worktrees of the other repository");
        assert_eq!(now.records, before.records, "records of the other repository");
        assert_eq!(now.work, before.work, "work of the other repository");
        assert_eq!(now.of_clone, before.of_clone, "something was made in the clone");
        if !now.settings.is_empty() {
            assert_eq!(now.settings, before.settings, "the user's settings");
        }
        let log = self.test_env.state_dir().join("sessions").join(&self.ended);
        assert!(log.exists(), "the log of the other repository's session is gone");
        let pid = now.records[1]["process"]["pid"].as_u64().unwrap();
        assert!(is_running(pid), "the other repository's session was ended");
    }
}

impl State {
    fn none() -> State {
        State {
            refs: String::new(),
            worktrees: Vec::new(),
            records: Vec::new(),
            settings: BTreeMap::new(),
            work: BTreeMap::new(),
            of_clone: BTreeMap::new(),
        }
    }
}

/// A project of another tool whose configuration names a root that contains a worktree of the user, with a
/// record that names that worktree. The worktree stays, whether the project is trusted or not.
fn move_root(root: &str) -> u64 {
    let project = Project::new();
    let above = project.root().parent().unwrap().to_owned();
    let own = match root {
        "../elsewhere" => above.join("elsewhere/own"),
        _ => above.join("own"),
    };
    let config = json!({"parallelWorktreesDir": root, "sessionTtlMs": 1}).to_string();
    fs::write(project.root().join(".tf/ralph/config.json"), config).unwrap();
    project.repository.git(&["worktree", "add", "--quiet", "-b", "mine", own.to_str().unwrap()]);
    let entry = json!({"session_id": "s1", "ticket_id": "own", "pid": 4_000_000, "process_start_time": 7,
                       "started_at": "2026-01-02T03:04:05+00:00", "worktree_path": own, "status": "running"});
    fs::write(project.file(), json!({"version": 1, "sessions": [entry]}).to_string()).unwrap();
    let url = project.url();
    let attack = || {
        for command in [&["recover"][..], &["prune"], &["doctor", "--repair"], &["worktree", "prune"]] {
            let ran = project.test_env.sexton(&project.arguments(&url, command));
            assert!(own.join("tracked").exists(), "{command:?}: the user's worktree is gone: {}", ran.stderr);
            assert!(project.repository.worktrees().contains(&own), "{command:?}: it is no longer registered");
        }
    };
    attack();
    if root != "../elsewhere" {
        project.test_env.ok(&["trust"]);
        attack();
    }
    1
}

/// A command forges its own exit file. It can still be stopped.
fn forge_exit(store: &'static str) -> u64 {
    let test_env =
        TestEnv::on(store).with_settings("store.durability = \"process\"\nstop.grace = \"200ms\"\n");
    let exits = test_env.state_dir().join("exits");
    let forge = "mkdir -p \"$0\"; printf '{\"session\":\"%s\",\"exit\":{\"code\":0,\"signal\":null,\"reason\":\"exited\"},\
                 \"finished_at\":\"2026-01-02T03:04:05Z\"}' $SEXTON_SESSION_ID > \"$0/new\"; \
                 mv \"$0/new\" \"$0/$SEXTON_SESSION_ID.json\"; exec sleep 14400";
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", forge, exits.to_str().unwrap()]);
    eventually("it has forged its exit file", || exits.join(format!("{id}.json")).exists());
    assert_eq!(test_env.record(&id)["status"], "running", "show");
    assert_eq!(test_env.json(&["ps"]).as_array().unwrap().len(), 1, "ps");
    test_env.ok(&["recover"]);
    let record = test_env.record(&id);
    assert_eq!(record["status"], "running", "recover");
    let pid = record["process"]["pid"].as_u64().unwrap();
    assert!(is_running(pid));
    test_env.ok(&["stop", &id]);
    assert!(!is_running(pid), "it was not stopped");
    assert_eq!(test_env.record(&id)["status"], "stopped");
    1
}

/// Another user owns one file of a store. The program reads nothing from the store.
fn chown_store(store: &'static str) -> u64 {
    let test_env = TestEnv::on(store);
    test_env.ok(&["run", "--", "true"]);
    let path = test_env.store_path();
    let mut struck = 0;
    for suffix in ["", ".mark", ".lock"] {
        let file = PathBuf::from(format!("{}{suffix}", path.display()));
        chown(&file, Some(60_017), None).unwrap();
        for command in [&["ps", "-a"][..], &["recover"]] {
            let ran = test_env.sexton(command);
            let refused = ran.code == 1 && ran.stderr.contains("belongs to another user");
            assert!(refused, "{command:?} with {}: {}{}", file.display(), ran.stdout, ran.stderr);
            struck += 1;
        }
        chown(&file, Some(0), None).unwrap();
    }
    test_env.ok(&["recover"]);
    struck
}
