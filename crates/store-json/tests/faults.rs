//! A disk that fails and a writer that is killed while it rewrites the journal. Real processes: this test
//! starts itself again as a writer, under strace or under a limit.

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
use support::{Yard, all, ids, insert, session};

/// Names what a process of this test is to do, and with which journal.
const ROLE: &str = "SEXTON_TEST_ROLE";

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        let path = std::env::args().nth(1).expect("the journal is the first argument");
        play(&role, Path::new(&path));
        return ExitCode::SUCCESS;
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("i6_after_a_failed_sync_everything_is_written_anew", after_a_failed_sync),
        trial("i6_a_rewritten_journal_whose_directory_was_not_synced_is_written_again", directory_not_synced),
        trial("i6_a_write_that_found_no_room_leaves_the_journal_as_it_was", no_room),
        trial("i6_a_writer_killed_while_it_rewrites_the_journal_loses_nothing", killed_while_rewriting),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What a writing process does: it prints a line per commit, `ok` or `error`.
fn play(role: &str, path: &Path) {
    let options =
        StoreOptions { path: path.to_owned(), access: Access::Write, durability: Durability::Power };
    let store = sexton_store_json::open(&options).expect("the journal opens");
    let batches: Vec<Batch> = match role {
        "insert" => ["a", "b", "c"].map(|id| Batch::new().insert(session(id, Status::Completed))).into(),
        "grow" => {
            let mut busy = all(store.as_ref()).sessions.remove(0);
            busy.ticket = Some("new".to_owned());
            vec![Batch::new().replace(busy)]
        }
        other => panic!("nobody plays {other}"),
    };
    for batch in batches {
        let outcome = block_on(store.commit(batch));
        let line = outcome.map_or_else(|error| format!("error: {error}"), |_| "ok".to_owned());
        writeln!(std::io::stdout(), "{line}").expect("somebody reads what this process says");
    }
}

/// This test as a writer in `role`, behind the command `before`.
fn run(before: &[&str], role: &str, yard: &Yard) -> Output {
    let this = std::env::current_exe().expect("a process knows its program");
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(this).arg(yard.path()).env(ROLE, role);
    command.output().unwrap_or_else(|error| panic!("{} must be installed: {error}", before[0]))
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn inode(yard: &Yard) -> u64 {
    fs::metadata(yard.path()).expect("the journal is there").ino()
}

fn after_a_failed_sync() {
    let yard = Yard::new();
    drop(yard.writer());
    let before = inode(&yard);
    let failing = ["strace", "-f", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=2"];
    let output = run(&failing, "insert", &yard);
    let lines = lines(&output);
    assert!(
        matches!(&lines[..], [a, b, c] if a == "ok" && b.starts_with("error") && c == "ok"),
        "{output:?}"
    );
    assert_ne!(
        inode(&yard),
        before,
        "the second sync of a file proves nothing about what the first one lost"
    );
    let store = yard.reader();
    assert_eq!(store.damage(), []);
    // The failed commit may have happened or not; the others have.
    let found = ids(store.as_ref());
    assert!(found.contains(&"a".to_owned()) && found.contains(&"c".to_owned()), "{found:?}");
}

fn no_room() {
    let yard = Yard::new();
    let store = yard.writer();
    while fs::metadata(yard.path()).expect("the journal is there").len() < 20_000 {
        insert(store.as_ref(), &format!("s{}", ids(store.as_ref()).len()));
    }
    let (before, found) = (yard.bytes(), ids(store.as_ref()));
    // In blocks of 512 bytes: room for a part of a line, and for no whole one.
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", before.len() / 512 + 1);
    let output = run(&["sh", "-c", &limited, "-"], "insert", &yard);
    let printed = lines(&output);
    assert_eq!(printed.len(), 3, "{output:?}");
    assert!(printed.iter().all(|line| line.starts_with("error: cannot write")), "{output:?}");
    assert!(yard.bytes() == before, "not even a torn end is left");
    assert_eq!(ids(yard.reader().as_ref()), found);
    insert(store.as_ref(), "afterwards");
}

/// A journal that the next commit makes large enough to be rewritten: nearly all of it is dead.
fn about_to_be_rewritten() -> Yard {
    let yard = Yard::new();
    let store = yard.writer();
    let length = || fs::metadata(yard.path()).expect("the journal is there").len();
    insert(store.as_ref(), "busy");
    let replace_with = |name: Option<String>| {
        let mut busy = all(store.as_ref()).sessions.remove(0);
        busy.name = name;
        block_on(store.commit(Batch::new().replace(busy))).expect("the batch is committed");
    };
    replace_with(None);
    let line = length() / 3;
    // One long line, and then a short one, so that the long one is dead.
    let bulk = (1 << 20) - length() - 3 * line;
    replace_with(Some("n".repeat(usize::try_from(bulk).expect("a small number"))));
    replace_with(None);
    yard
}

fn directory_not_synced() {
    let yard = about_to_be_rewritten();
    let before = inode(&yard);
    // The first sync is that of the new journal, the second that of its directory.
    let failing = ["strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO:when=2"];
    let output = run(&failing, "grow", &yard);
    assert_eq!(lines(&output), ["ok"], "the commit was durable before: {output:?}");
    let rewritten = inode(&yard);
    assert_ne!(rewritten, before);
    insert(yard.writer().as_ref(), "afterwards");
    assert_ne!(inode(&yard), rewritten, "a commit was built on a name that a power cut may undo");
    assert_eq!(yard.reader().damage(), []);
    assert_eq!(all(yard.reader().as_ref()).sessions.len(), 2);
}

fn killed_while_rewriting() {
    let prepared = about_to_be_rewritten();
    let (journal, mark) = (prepared.bytes(), fs::read(prepared.mark()).expect("the mark is there"));
    let revision = all(prepared.reader().as_ref()).sessions[0].revision;
    assert!(journal.len() < 1 << 20, "it is not rewritten yet");
    let mut rewritten = 0;
    for call in ["write", "fsync", "rename", "fdatasync", "pwrite64", "openat", "ftruncate"] {
        for when in 1.. {
            let yard = Yard::new();
            fs::write(yard.path(), &journal).expect("the journal can be copied");
            fs::write(yard.mark(), &mark).expect("the mark can be copied");
            let inject = format!("inject={call}:signal=SIGKILL:when={when}");
            let only = format!("trace={call}");
            let strace = ["strace", "-f", "-o", "/dev/null", "-e", &only, "-e", &inject];
            let output = run(&strace, "grow", &yard);
            let what = format!("killed at {call} {when}");
            require_whole(&yard, &what, !lines(&output).is_empty(), revision);
            if output.status.success() {
                rewritten += u32::from(yard.bytes().len() < journal.len());
                break;
            }
        }
    }
    assert_eq!(rewritten, 7, "every uninterrupted run rewrites the journal");
}

/// After a kill the journal has the old record or the new one, and goes on.
fn require_whole(yard: &Yard, what: &str, acknowledged: bool, before: u64) {
    let store = yard.writer();
    assert!(store.damage().iter().all(|damage| damage.harmless), "{what}: {:?}", store.damage());
    let [busy] = &all(store.as_ref()).sessions[..] else { panic!("{what}: the record is gone") };
    let new = busy.ticket.as_deref() == Some("new");
    assert!(new || !acknowledged, "{what}: an acknowledged commit is gone");
    assert_eq!(busy.revision, before + u64::from(new), "{what}");
    insert(store.as_ref(), "afterwards");
    let reader = yard.reader();
    assert_eq!(reader.damage(), [], "{what}");
    assert_eq!(all(reader.as_ref()).sessions.len(), 2, "{what}");
    let leftovers = fs::read_dir(yard.file("")).expect("the directory can be listed");
    let is_leftover = |name: &str| name.contains(".tmp-");
    let left = leftovers.map(|entry| entry.expect("an entry can be read").file_name());
    assert!(
        left.into_iter().all(|name| !is_leftover(&name.to_string_lossy())),
        "{what}: half a journal is left"
    );
}
