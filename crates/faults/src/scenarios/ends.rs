//! The end of a session, with its supervisor killed at every call of it, or with every call failing: the exit
//! is recorded once and correctly.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use sexton_test_harness::strace::{Call, calls_in, killed_in, load_lines, mutating_calls};
use sexton_test_harness::{TestEnv, eventually, is_running};

use super::errors::errors_of;
use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "ends",
    promises: "I8 I10",
    what: "a supervisor killed, or with calls failing, at every call of its session's end",
    mutants: &["no_exit_file", "wrong_exit"],
    tools: &[("strace", "strace")],
    minutes: 2,
    runs_alone: false,
    run,
};

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";

/// An exit code that does not occur by accident.
const CODE: i64 = 73;

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        if trials.has_enough_violations() {
            return;
        }
        let fixture = Fixture::new(store);
        let trace = fixture.end_under(&["trace=all"]);
        for call in trials.some_of(&mutating_calls(&trace), 10) {
            let Call { name, nth } = &call;
            trials.trial(&format!("{store}, killed at {name} number {nth}"), || {
                let (only, kill) =
                    (format!("trace={name}"), format!("inject={name}:signal=SIGKILL:when={nth}"));
                let (id, trace) = fixture.end_one_under(&[&only, &kill]);
                fixture.test_env.ok(&["recover"]);
                fixture.require_recorded(&id, Exactness::MayBeUnknown);
                (!killed_in(&trace, name).is_empty()).into()
            });
        }
        let faults: Vec<(Call, &str)> = calls_in(&trace)
            .into_iter()
            .flat_map(|(call, _)| errors_of(&call.name).iter().map(move |error| (call.clone(), *error)))
            .collect();
        trials.announce(&format!("errors on {store}"), faults.len());
        for (Call { name, nth }, error) in trials.some_of(&faults, 10) {
            trials.trial(&format!("{store}, {error} from {name} number {nth}"), || {
                let (only, fail) =
                    (format!("trace={name}"), format!("inject={name}:error={error}:when={nth}"));
                let (id, trace) = fixture.end_one_under(&[&only, &fail]);
                // Without memory a program may abort, which is like being killed.
                let aborted = trace.iter().any(|line| line.contains("+++ killed by"));
                if name == "mmap" && aborted {
                    fixture.test_env.ok(&["recover"]);
                    fixture.require_recorded(&id, Exactness::MayBeUnknown);
                } else {
                    fixture.require_recorded(&id, Exactness::Exact);
                }
                trace.iter().any(|line| line.contains("(INJECTED)")).into()
            });
        }
        trials.trial(&format!("{store}, every write of the store fails"), || {
            // Only while the session ends; afterwards the disk has space again.
            let (id, trace) = fixture.end_one_under(&store_writes(store));
            fixture.require_recorded(&id, Exactness::Exact);
            trace.iter().filter(|line| line.contains("(INJECTED)")).count() as u64
        });
    }
}

/// Returns strace expressions that make every commit of this store fail, and nothing else.
fn store_writes(store: &str) -> [&'static str; 2] {
    // SQLite writes with pwrite64, and the journal syncs with fdatasync; exit files use neither.
    match store {
        "sqlite" => ["trace=pwrite64", "inject=pwrite64:error=ENOSPC"],
        _ => ["trace=fdatasync", "inject=fdatasync:error=ENOSPC"],
    }
}

/// How exactly the exit has to be known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exactness {
    Exact,
    /// The process that knew the exit was killed.
    MayBeUnknown,
}

struct Fixture {
    test_env: TestEnv,
    bystanders: Bystanders,
}

impl Fixture {
    fn new(store: &'static str) -> Fixture {
        let test_env = TestEnv::on(store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&test_env);
        Fixture { test_env, bystanders }
    }

    /// Returns a trace of the end of one session.
    fn end_under(&self, expressions: &[&str]) -> Vec<String> {
        let (id, trace) = self.end_one_under(expressions);
        self.require_recorded(&id, Exactness::Exact);
        trace
    }

    /// Starts a session, attaches strace to its supervisor, lets the command exit, and waits until the
    /// supervisor has exited. Returns the session and the trace.
    fn end_one_under(&self, expressions: &[&str]) -> (String, Vec<String>) {
        let gate = self.test_env.path().join("gate");
        let _ = std::fs::remove_file(&gate);
        let script = format!("until test -e {}; do sleep 0.02; done; exit {CODE}", gate.display());
        let id = self.test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
        let supervisor = self.test_env.record(&id)["supervisor"]["pid"].as_u64().unwrap();
        let output = self.test_env.path().join("trace-of-an-end");
        let mut strace = attach(supervisor, &output, expressions);
        std::fs::write(&gate, "").unwrap();
        eventually("the supervisor has ended", || !is_running(supervisor));
        strace.wait().unwrap();
        (id, load_lines(&output))
    }

    /// Requires that the end is recorded, in whichever way, and does not change afterwards.
    fn require_recorded(&self, id: &str, exactness: Exactness) {
        // An exit file is shown before it is committed, and the next process that writes commits it.
        let shown = self.test_env.record(id);
        require_true(&shown, exactness);
        self.test_env.ok(&["recover"]);
        let committed = self.test_env.record(id);
        require_true(&committed, exactness);
        for key in ["exit", "status", "finished_at"] {
            assert_eq!(shown[key], committed[key], "the record shown differs from the record committed");
        }
        self.test_env.ok(&["recover"]);
        assert_eq!(self.test_env.record(id), committed, "an exit was recorded twice");
        let left = std::fs::read_dir(self.test_env.state_dir().join("exits")).into_iter().flatten().count();
        assert_eq!(left, 0, "an exit file is left");
        assert_eq!(sexton_test_harness::carriers(id), [0; 0], "processes of the session are left");
        self.bystanders.require_untouched(&self.test_env);
    }
}

fn require_true(record: &Value, exactness: Exactness) {
    assert!(!record["finished_at"].is_null(), "its end is not recorded: {record}");
    let code = &record["exit"]["code"];
    let unknown = exactness == Exactness::MayBeUnknown && code.is_null();
    assert!(unknown || *code == CODE, "the recorded exit is wrong: {record}");
}

/// Starts strace, and returns when it is attached.
fn attach(pid: u64, output: &Path, expressions: &[&str]) -> Child {
    let mut command = Command::new("strace");
    command.args(["--quiet=attach,personality,thread-execve", "-f", "-b", "execve", "-y", "-o"]).arg(output);
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.args(["-p", &pid.to_string()]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("strace is attached", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
    });
    child
}
