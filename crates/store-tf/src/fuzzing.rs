//! Entry points of the fuzz target `records`. Compiled only with `--cfg fuzzing`.

use sexton_core::session::Exit;
use sexton_core::{Session, Status, Time};

use crate::document::{Content, Document};
use crate::entry::{Entry, Meaning};
use crate::fields::Fields;
use crate::project::Project;

/// Reads a file and asserts that it is written back unchanged, and that changing one entry changes nothing
/// else.
pub fn document(bytes: &[u8], now: Time) {
    let project =
        Project { root: "/p".into(), worktree_root: "/p/.tf/ralph/worktrees".into(), findings: Vec::new() };
    let (document, torn) = match Document::read(bytes, &project) {
        Content::Newer(version) => return assert!(version > crate::document::VERSION),
        Content::Document(document) => (document, false),
        Content::Torn(damage, document) => {
            assert!(!damage.harmless);
            (document, true)
        }
    };
    let findings = document.findings();
    for entry in &document.entries {
        let is_session = matches!(entry.meaning, Meaning::Session(_));
        assert!(torn || is_session || !findings.is_empty(), "an entry that is not a session is reported");
    }
    if torn {
        return;
    }
    let written = document.write(now);
    let again = read(&written, &project);
    assert!(texts(&again).eq(texts(&document)), "every entry keeps its bytes");
    for session in document.sessions() {
        assert!(again.sessions().any(|one| one == session), "{} is read back", session.id);
        changed(&document, session, &project, now);
    }
}

/// Finishes one running session.
fn changed(document: &Document, session: &Session, project: &Project, now: Time) {
    let at = document.find(&session.id).expect("a session has an entry");
    let present = &document.entries[at];
    let same = document.lay_out(|layout| Entry::of(session, Some(present), project, layout));
    if let Ok(same) = same {
        assert_eq!(same.text.get(), present.text.get(), "an unchanged entry keeps its bytes");
    }
    if session.status != Status::Running {
        return;
    }
    let mut ended = session.clone();
    ended.finish(Exit::exited(3), now);
    let Ok(entry) = document.lay_out(|layout| Entry::of(&ended, Some(present), project, layout)) else {
        return;
    };
    let read_back = entry.session().unwrap_or_else(|| panic!("{:?} of {}", entry.meaning, entry.text));
    assert_eq!((read_back.status, &read_back.id), (Status::Failed, &session.id));
    let before: Fields = serde_json::from_str(present.text.get()).expect("it was read");
    let after: Fields = serde_json::from_str(entry.text.get()).expect("it was written");
    for (name, value) in &before.0 {
        if !["status", "completed_at", "return_code"].contains(&name.as_str()) {
            let kept = after.0.iter().any(|(one, kept)| one == name && kept.get() == value.get());
            assert!(kept, "`{name}` of {} is lost in {}", present.text, entry.text);
        }
    }
    let changes = [(&session.id, Some(entry))].into_iter();
    let written = document.with_changes(changes).expect("it changed").write(now);
    let again = read(&written, project);
    let others = |document: &Document| -> Vec<String> {
        texts(document).enumerate().filter(|(one, _)| *one != at).map(|(_, text)| text.to_owned()).collect()
    };
    assert_eq!(others(&again), others(document), "no other entry changes");
}

fn read(bytes: &[u8], project: &Project) -> Document {
    match Document::read(bytes, project) {
        Content::Document(document) => document,
        other => panic!("a written file cannot be read: {other:?}"),
    }
}

fn texts(document: &Document) -> impl Iterator<Item = &str> {
    document.entries.iter().map(|entry| entry.text.get())
}
