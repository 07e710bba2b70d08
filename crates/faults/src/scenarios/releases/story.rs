//! What two releases do to one store in turns, at random, and what must be true after each step.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sexton_test_harness::gate::Gate;
use sexton_test_harness::records::edit_record;
use sexton_test_harness::releases::Release;
use sexton_test_harness::{Ran, TestEnv, carriers, eventually, is_running, kill_9};

use crate::bystanders::Bystanders;

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";

/// An exit code that does not occur by accident.
const CODE: i64 = 73;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It runs, or exited by itself.
    Own,
    /// It was stopped.
    Stopped,
    /// Its supervisor was killed: its exit may be unknown.
    Killed,
}

/// A session of the story.
struct StorySession {
    id: String,
    of_older: bool,
    supervisor: u64,
    command: u64,
    gate: Gate,
    ending: Ending,
    /// Whether its record has fields that no release knows.
    planted: bool,
}

impl StorySession {
    fn is_supervised(&self) -> bool {
        is_running(self.supervisor)
    }
}

struct Story<'r> {
    test_env: TestEnv,
    bystanders: Bystanders,
    /// The older one first.
    releases: [&'r Release; 2],
    sessions: Vec<StorySession>,
    /// How many gates there are: a refused start has one too.
    gates: usize,
    faults: u64,
}

/// Makes the two releases do what `choices` select, and requires that every promise was kept. Returns how
/// many faults were injected.
pub(super) fn play(store: &'static str, releases: [&Release; 2], choices: &[u64]) -> u64 {
    let test_env = TestEnv::on(store).with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&test_env);
    let mut story = Story { test_env, bystanders, releases, sessions: Vec::new(), gates: 0, faults: 0 };
    // At least one session of each release exists from the start.
    story.start(0);
    story.start(1);
    for choice in choices {
        story.step(*choice);
        story.require_format_kept();
    }
    story.finish();
    story.faults
}

impl Story<'_> {
    fn newer(&self) -> &Release {
        self.releases[1]
    }

    fn step(&mut self, choice: u64) {
        let by = usize::from(choice >> 8 & 1 == 1);
        let chosen = usize::try_from(choice >> 16 & 0xffff).unwrap() % self.sessions.len();
        match choice % 8 {
            0 | 1 => self.start(by),
            2 => self.end(chosen),
            3 => self.kill(chosen, choice >> 40 & 1 == 1),
            4 => self.stop(by, chosen),
            5 => self.recover(by),
            6 => self.recover_killed(by, Duration::from_millis(choice >> 48 & 0x3f)),
            _ => self.list(),
        }
    }

    /// Runs a command of one release that writes. The older one is refused only after the format was raised.
    fn write(&self, by: usize, arguments: &[&str]) -> Option<String> {
        let Ran { code, stdout, stderr } = self.releases[by].run(&self.test_env, arguments);
        let name = self.releases[by].name;
        if code == 0 {
            return Some(stdout.trim_end().to_owned());
        }
        let refused = by == 0 && [5, 125].contains(&code) && stderr.contains("newer than the supported");
        assert!(refused, "{name}, sexton {arguments:?} failed with {code}: {stderr}");
        None
    }

    fn start(&mut self, by: usize) {
        let number = self.sessions.len();
        let gate = Gate::at(&self.test_env.path().join(format!("gate-{}", self.gates)));
        self.gates += 1;
        let (name, script) = (format!("session-{number}"), gate.script(CODE));
        let Some(id) = self.write(by, &["run", "-d", "--name", &name, "--", "sh", "-c", &script]) else {
            return;
        };
        let record = self.newer().json(&self.test_env, &["show", &id]);
        let pid = |field: &str| record[field]["pid"].as_u64().unwrap();
        // After the format was raised this process cannot write it.
        let planted = number.is_multiple_of(2) && self.releases[0].run(&self.test_env, &["ps"]).code == 0;
        if planted {
            edit_record(&self.test_env, &id, |session| {
                session.extra.insert("invented".to_owned(), invented());
                session.host.extra.insert("rack".to_owned(), invented());
            });
        }
        let (supervisor, command) = (pid("supervisor"), pid("process"));
        let of_older = by == 0;
        self.sessions.push(StorySession {
            id,
            of_older,
            supervisor,
            command,
            gate,
            ending: Ending::Own,
            planted,
        });
    }

    /// Lets a session exit by itself, and requires that its supervisor, of whichever release, recorded it.
    fn end(&mut self, chosen: usize) {
        let session = &self.sessions[chosen];
        session.gate.open();
        eventually("the session has ended", || !session.is_supervised() && !is_running(session.command));
        if session.ending == Ending::Own {
            let record = self.newer().json(&self.test_env, &["show", &session.id]);
            assert_eq!(record["exit"]["code"], CODE, "an end was not recorded by its supervisor: {record}");
        }
    }

    fn kill(&mut self, chosen: usize, with_command: bool) {
        let session = &mut self.sessions[chosen];
        if !session.is_supervised() {
            return;
        }
        kill_9(session.supervisor);
        self.faults += 1;
        if session.ending == Ending::Own {
            session.ending = Ending::Killed;
        }
        if with_command && is_running(session.command) {
            kill_9(session.command);
        }
        eventually("the supervisor is gone", || !session.is_supervised());
    }

    fn stop(&mut self, by: usize, chosen: usize) {
        let was_running = self.sessions[chosen].is_supervised();
        let id = self.sessions[chosen].id.clone();
        if self.write(by, &["stop", &id]).is_none() {
            return;
        }
        let session = &mut self.sessions[chosen];
        assert!(!is_running(session.command), "a stopped session's command runs");
        if was_running && session.ending == Ending::Own {
            session.ending = Ending::Stopped;
        }
    }

    fn recover(&mut self, by: usize) {
        self.write(by, &["recover"]);
    }

    fn recover_killed(&mut self, by: usize, after: Duration) {
        let mut command = self.releases[by].command(&self.test_env, &["recover"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(after);
        if child.try_wait().unwrap().is_none() {
            self.faults += 1;
        }
        let _ = child.kill();
        child.wait().unwrap();
    }

    fn list(&mut self) {
        let listed = self.newer().json(&self.test_env, &["ps", "-a"]);
        // The bystander is a session too.
        assert_eq!(listed.as_array().unwrap().len(), self.sessions.len() + 1, "a session was lost");
    }

    /// Requires that the older release can write while a supervisor of it runs.
    fn require_format_kept(&self) {
        let Some(at_work) = self.sessions.iter().find(|one| one.of_older && one.is_supervised()) else {
            return;
        };
        let ran = self.releases[0].run(&self.test_env, &["ps"]);
        let still = at_work.is_supervised();
        assert!(
            ran.code == 0 || !still,
            "the format was raised under session {}: {}",
            at_work.id,
            ran.stderr
        );
    }

    fn finish(&mut self) {
        for session in &self.sessions {
            session.gate.open();
        }
        eventually("every session has ended", || {
            self.sessions.iter().all(|one| !one.is_supervised() && !is_running(one.command))
        });
        let newer = self.newer();
        // A recovery may have started another supervisor, which is about to record the end.
        eventually("every supervisor has exited", || {
            let records = newer.json(&self.test_env, &["ps", "-a"]);
            let supervisors = records.as_array().unwrap().iter().map(|record| &record["supervisor"]["pid"]);
            supervisors.filter_map(Value::as_u64).all(|pid| !is_running(pid))
        });
        newer.ok(&self.test_env, &["recover"]);
        let records = newer.json(&self.test_env, &["ps", "-a"]);
        newer.ok(&self.test_env, &["recover"]);
        assert_eq!(
            without_age(&newer.json(&self.test_env, &["ps", "-a"])),
            without_age(&records),
            "recorded twice"
        );
        let find = |id: &str| {
            let found = records.as_array().unwrap().iter().find(|record| record["id"] == id);
            found.unwrap_or_else(|| panic!("session {id} was lost")).clone()
        };
        for session in &self.sessions {
            require_true(session, &find(&session.id));
            assert_eq!(carriers(&session.id), [0; 0], "processes of the session are left");
        }
        self.bystanders.require_untouched_as(&find(&self.bystanders.session));
        let exits =
            std::fs::read_dir(self.test_env.state_dir().join("exits")).into_iter().flatten().flatten();
        let names = exits.map(|entry| entry.file_name().to_string_lossy().into_owned());
        // The previous release leaves one for a start that was refused after the format was raised.
        let is_of = |name: &String, record: &Value| name.starts_with(record["id"].as_str().unwrap());
        let left: Vec<_> =
            names.filter(|name| records.as_array().unwrap().iter().any(|one| is_of(name, one))).collect();
        assert!(left.is_empty(), "exit files are left: {left:?}");
        assert_eq!(newer.json(&self.test_env, &["doctor"])["healthy"], true);
        self.require_read_by_older(records.as_array().unwrap().len());
    }

    /// Requires that the older release can read the store at the end: without restriction, or, if the format
    /// was raised, as far as it can, with an error that says so.
    fn require_read_by_older(&self, records: usize) {
        let ran = self.releases[0].run(&self.test_env, &["ps", "-a", "--json"]);
        let raised = self.newer() == &Release::next();
        assert_eq!(ran.code, if raised { 5 } else { 0 }, "{}", ran.stderr);
        // The previous release reads nothing from a journal of a newer format.
        if !raised || self.releases[0] == &Release::this() {
            let listed: Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!(listed.as_array().unwrap().len(), records, "{}", ran.stderr);
        }
    }
}

/// Returns a value that no release knows.
pub(super) fn invented() -> Value {
    json!({"by": "a newer release", "deep": [1, 2.5, null]})
}

/// Returns the records without the field that changes by itself.
fn without_age(records: &Value) -> Vec<Value> {
    let mut records = records.as_array().unwrap().clone();
    for record in &mut records {
        record.as_object_mut().unwrap().remove("observed");
    }
    records
}

/// Requires that the record is correct, whichever release wrote it.
fn require_true(session: &StorySession, record: &Value) {
    assert!(!record["finished_at"].is_null(), "its end is not recorded: {record}");
    let code = &record["exit"]["code"];
    match session.ending {
        Ending::Own => assert_eq!(*code, CODE, "the recorded exit is wrong: {record}"),
        Ending::Stopped => assert_eq!(record["status"], "stopped", "{record}"),
        Ending::Killed => assert!(code.is_null() || *code == CODE, "the recorded exit is wrong: {record}"),
    }
    if session.planted {
        assert_eq!(record["invented"], invented(), "a field of a newer release was dropped: {record}");
        assert_eq!(record["host"]["rack"], invented(), "a field of a newer release was dropped: {record}");
    }
}
