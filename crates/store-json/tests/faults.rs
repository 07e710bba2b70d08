//! A failing disk, and a writer killed while it rewrites the journal. This test executes itself as the
//! writer, under strace or with a resource limit.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Trial};
use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Status};

mod support;
use support::{TestEnv, all, ids, insert, session};

/// The variable that names the role of a child process of this test.
const ROLE: &str = "SEXTON_TEST_ROLE";

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        let path = std::env::args().nth(1).expect("the journal is the first argument");
        run_role(&role, Path::new(&path));
        return ExitCode::SUCCESS;
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("i6_a_failed_sync_makes_the_next_writer_rewrite_everything", after_a_failed_sync),
        trial("i6_an_unsynced_directory_makes_the_next_writer_rewrite", directory_not_synced),
        trial("i6_a_full_disk_leaves_the_journal_unchanged", no_space),
        trial("i6_a_writer_killed_during_a_rewrite_loses_nothing", killed_while_rewriting),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Runs as the writer process and prints a line per commit, `ok` or `error`.
fn run_role(role: &str, path: &Path) {
    let options = StoreOptions::new(path.to_owned(), Access::Write, Durability::Power);
    let store = sexton_store_json::open(&options).expect("the journal opens");
    let batches: Vec<Batch> = match role {
        "insert" => ["a", "b", "c"].map(|id| Batch::new().insert(session(id, Status::Completed))).into(),
        "grow" => {
            let mut busy = all(store.as_ref()).sessions.remove(0);
            busy.ticket = Some("new".to_owned());
            vec![Batch::new().replace(busy)]
        }
        other => panic!("unknown role {other}"),
    };
    for batch in batches {
        let outcome = block_on(store.commit(batch));
        let line = outcome.map_or_else(|error| format!("error: {error}"), |_| "ok".to_owned());
        writeln!(std::io::stdout(), "{line}").expect("stdout is open");
    }
}

/// Runs this test as a writer in `role`, prefixed with the command `before`.
fn run(before: &[&str], role: &str, test_env: &TestEnv) -> Output {
    let this = std::env::current_exe().expect("the path of this executable is known");
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(this).arg(test_env.path()).env(ROLE, role);
    command.output().unwrap_or_else(|error| panic!("{} must be installed: {error}", before[0]))
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn inode(test_env: &TestEnv) -> u64 {
    fs::metadata(test_env.path()).expect("the journal is there").ino()
}

fn after_a_failed_sync() {
    let test_env = TestEnv::new();
    drop(test_env.writer());
    let before = inode(&test_env);
    let failing = ["strace", "-f", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=2"];
    let output = run(&failing, "insert", &test_env);
    let lines = lines(&output);
    assert!(
        matches!(&lines[..], [a, b, c] if a == "ok" && b.starts_with("error") && c == "ok"),
        "{output:?}"
    );
    assert_ne!(inode(&test_env), before, "a second sync does not report data that the first one lost");
    let store = test_env.reader();
    assert_eq!(store.damage(), []);
    // The failed commit may or may not have happened; the others have.
    let found = ids(store.as_ref());
    assert!(found.contains(&"a".to_owned()) && found.contains(&"c".to_owned()), "{found:?}");
}

fn no_space() {
    let test_env = TestEnv::new();
    let store = test_env.writer();
    while fs::metadata(test_env.path()).expect("the journal is there").len() < 20_000 {
        insert(store.as_ref(), &format!("s{}", ids(store.as_ref()).len()));
    }
    let (before, found) = (test_env.bytes(), ids(store.as_ref()));
    // In blocks of 512 bytes: room for a part of a line, but not for a whole one.
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", before.len() / 512 + 1);
    let output = run(&["sh", "-c", &limited, "-"], "insert", &test_env);
    let printed = lines(&output);
    assert_eq!(printed.len(), 3, "{output:?}");
    assert!(printed.iter().all(|line| line.starts_with("error: cannot write")), "{output:?}");
    assert!(test_env.bytes() == before, "not even a torn end is left");
    assert_eq!(ids(test_env.reader().as_ref()), found);
    insert(store.as_ref(), "afterwards");
}

/// Returns a journal that the next commit makes large enough to be rewritten: almost none of it is live.
fn about_to_be_rewritten() -> TestEnv {
    let test_env = TestEnv::new();
    let store = test_env.writer();
    let length = || fs::metadata(test_env.path()).expect("the journal is there").len();
    insert(store.as_ref(), "busy");
    let replace_with = |name: Option<String>| {
        let mut busy = all(store.as_ref()).sessions.remove(0);
        busy.name = name;
        block_on(store.commit(Batch::new().replace(busy))).expect("the batch is committed");
    };
    replace_with(None);
    let line = length() / 3;
    // One long line followed by a short one, so that the long one is dead.
    let bulk = (1 << 20) - length() - 3 * line;
    replace_with(Some("n".repeat(usize::try_from(bulk).expect("a small number"))));
    replace_with(None);
    test_env
}

fn directory_not_synced() {
    let test_env = about_to_be_rewritten();
    let before = inode(&test_env);
    // The first sync is for the new journal, the second for its directory.
    let failing = ["strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO:when=2"];
    let output = run(&failing, "grow", &test_env);
    assert_eq!(lines(&output), ["ok"], "the commit was durable before: {output:?}");
    let rewritten = inode(&test_env);
    assert_ne!(rewritten, before);
    insert(test_env.writer().as_ref(), "afterwards");
    assert_ne!(inode(&test_env), rewritten, "a commit was built on a name that a power cut may undo");
    assert_eq!(test_env.reader().damage(), []);
    assert_eq!(all(test_env.reader().as_ref()).sessions.len(), 2);
}

fn killed_while_rewriting() {
    let prepared = about_to_be_rewritten();
    let (journal, mark) = (prepared.bytes(), fs::read(prepared.mark()).expect("the mark is there"));
    let revision = all(prepared.reader().as_ref()).sessions[0].revision;
    assert!(journal.len() < 1 << 20, "it is not rewritten yet");
    let mut rewritten = 0;
    for call in ["write", "fsync", "rename", "fdatasync", "pwrite64", "openat", "ftruncate"] {
        for when in 1.. {
            let test_env = TestEnv::new();
            fs::write(test_env.path(), &journal).expect("the journal can be copied");
            fs::write(test_env.mark(), &mark).expect("the mark can be copied");
            let inject = format!("inject={call}:signal=SIGKILL:when={when}");
            let only = format!("trace={call}");
            let strace = ["strace", "-f", "-o", "/dev/null", "-e", &only, "-e", &inject];
            let output = run(&strace, "grow", &test_env);
            let what = format!("killed at {call} {when}");
            require_whole(&test_env, &what, !lines(&output).is_empty(), revision);
            if output.status.success() {
                rewritten += u32::from(test_env.bytes().len() < journal.len());
                break;
            }
        }
    }
    assert_eq!(rewritten, 7, "every uninterrupted run rewrites the journal");
}

/// Asserts that after a kill the journal has the old record or the new one and is writable.
fn require_whole(test_env: &TestEnv, what: &str, acknowledged: bool, before: u64) {
    let store = test_env.writer();
    assert!(store.damage().iter().all(|damage| damage.harmless), "{what}: {:?}", store.damage());
    let [busy] = &all(store.as_ref()).sessions[..] else { panic!("{what}: the record is gone") };
    let new = busy.ticket.as_deref() == Some("new");
    assert!(new || !acknowledged, "{what}: an acknowledged commit is gone");
    assert_eq!(busy.revision, before + u64::from(new), "{what}");
    insert(store.as_ref(), "afterwards");
    let reader = test_env.reader();
    assert_eq!(reader.damage(), [], "{what}");
    assert_eq!(all(reader.as_ref()).sessions.len(), 2, "{what}");
    let leftovers = fs::read_dir(test_env.file("")).expect("the directory can be listed");
    let is_leftover = |name: &str| name.contains(".tmp-");
    let left = leftovers.map(|entry| entry.expect("an entry can be read").file_name());
    assert!(
        left.into_iter().all(|name| !is_leftover(&name.to_string_lossy())),
        "{what}: a temporary file is left"
    );
}
