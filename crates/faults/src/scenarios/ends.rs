//! The end of a session, seen by its supervisor, which is killed at every call of it or has every call fail: the
//! exit is recorded, once, with what it was.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use sexton_field::strace::{Call, calls_in, killed_in, load_lines, mutating_calls};
use sexton_field::{Yard, eventually, is_running};

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
    run,
};

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";

/// The exit code that no accident has.
const CODE: i64 = 73;

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        if trials.is_hopeless() {
            return;
        }
        let field = Field::set(store);
        let trace = field.end_under(&["trace=all"]);
        for call in trials.some_of(&mutating_calls(&trace), 10) {
            let Call { name, nth } = &call;
            trials.trial(&format!("{store}, killed at {name} number {nth}"), || {
                let (only, kill) =
                    (format!("trace={name}"), format!("inject={name}:signal=SIGKILL:when={nth}"));
                let (id, trace) = field.end_one_under(&[&only, &kill]);
                field.yard.ok(&["recover"]);
                field.require_recorded(&id, Exactness::MayBeUnknown);
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
                let (id, trace) = field.end_one_under(&[&only, &fail]);
                // Without memory a program may end like one that was killed.
                let aborted = trace.iter().any(|line| line.contains("+++ killed by"));
                if name == "mmap" && aborted {
                    field.yard.ok(&["recover"]);
                    field.require_recorded(&id, Exactness::MayBeUnknown);
                } else {
                    field.require_recorded(&id, Exactness::Exact);
                }
                trace.iter().any(|line| line.contains("(INJECTED)")).into()
            });
        }
        trials.trial(&format!("{store}, every write of the store fails"), || {
            // For as long as the session ends; afterwards the disk has room again.
            let (id, trace) = field.end_one_under(&store_writes(store));
            field.require_recorded(&id, Exactness::Exact);
            trace.iter().filter(|line| line.contains("(INJECTED)")).count() as u64
        });
    }
}

/// What makes every sync of this store fail, and no other.
fn store_writes(store: &str) -> [&'static str; 2] {
    // SQLite syncs its log, and the journal its data, with the one call; exit files are synced with the other.
    match store {
        "sqlite" => ["trace=pwrite64", "inject=pwrite64:error=ENOSPC"],
        _ => ["trace=fdatasync", "inject=fdatasync:error=ENOSPC"],
    }
}

/// How well the exit has to be known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exactness {
    Exact,
    /// Whoever could have told was killed.
    MayBeUnknown,
}

struct Field {
    yard: Yard,
    bystanders: Bystanders,
}

impl Field {
    fn set(store: &'static str) -> Field {
        let yard = Yard::on(store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&yard);
        Field { yard, bystanders }
    }

    /// A trace of the end of one session.
    fn end_under(&self, expressions: &[&str]) -> Vec<String> {
        let (id, trace) = self.end_one_under(expressions);
        self.require_recorded(&id, Exactness::Exact);
        trace
    }

    /// Starts a session, takes hold of its supervisor with strace, lets the command end, and waits until the
    /// supervisor has.
    fn end_one_under(&self, expressions: &[&str]) -> (String, Vec<String>) {
        let gate = self.yard.path().join("gate");
        let _ = std::fs::remove_file(&gate);
        let script = format!("until test -e {}; do sleep 0.02; done; exit {CODE}", gate.display());
        let id = self.yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
        let supervisor = self.yard.record(&id)["supervisor"]["pid"].as_u64().unwrap();
        let output = self.yard.path().join("trace-of-an-end");
        let mut strace = attach(supervisor, &output, expressions);
        std::fs::write(&gate, "").unwrap();
        eventually("the supervisor has ended", || !is_running(supervisor));
        strace.wait().unwrap();
        (id, load_lines(&output))
    }

    /// Requires that the end is recorded, by whichever way, and stays so.
    fn require_recorded(&self, id: &str, exactness: Exactness) {
        // What the exit file has is shown before anybody committed it, and committed by the next who writes.
        let shown = self.yard.record(id);
        require_true(&shown, exactness);
        self.yard.ok(&["recover"]);
        let committed = self.yard.record(id);
        require_true(&committed, exactness);
        for field in ["exit", "status", "finished_at"] {
            assert_eq!(shown[field], committed[field], "what was shown is not what was recorded");
        }
        self.yard.ok(&["recover"]);
        assert_eq!(self.yard.record(id), committed, "an exit was recorded twice");
        let left = std::fs::read_dir(self.yard.state_dir().join("exits")).into_iter().flatten().count();
        assert_eq!(left, 0, "an exit file is left");
        assert_eq!(sexton_field::carriers(id), [0; 0], "processes of the session are left");
        self.bystanders.require_untouched(&self.yard);
    }
}

fn require_true(record: &Value, exactness: Exactness) {
    assert!(!record["finished_at"].is_null(), "its end is not recorded: {record}");
    let code = &record["exit"]["code"];
    let unknown = exactness == Exactness::MayBeUnknown && code.is_null();
    assert!(unknown || *code == CODE, "the exit is not what it was: {record}");
}

/// Strace, when it has taken hold.
fn attach(pid: u64, output: &Path, expressions: &[&str]) -> Child {
    let mut command = Command::new("strace");
    command.args(["--quiet=attach,personality,thread-execve", "-f", "-b", "execve", "-y", "-o"]).arg(output);
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.args(["-p", &pid.to_string()]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("strace has taken hold", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
    });
    child
}
