//! What a store can represent. Sexton's own stores keep every field of a record; the file of another tool
//! has the fields that its own tool gave it.
//!
//! Architecture invariant: nothing is lost in silence. What has no place is refused by the commit that
//! asks for it, unless it is declared in [`Capabilities::forgotten`]; whoever wants a lesser record, as
//! `migrate` does, asks [`Store::fit`](super::Store::fit) for it and is told what that costs.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::StoreError;
use crate::{Session, Status};

/// What a store can represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Which fields of a record have a place here. A commit of a record that has any other is refused.
    pub fields: Fields,
    /// The fields, or parts of them, that a commit leaves out without a word, because nothing depends on
    /// them: a time's nanoseconds, what recovery noted.
    pub forgotten: &'static [&'static str],
    /// The statuses that come back as they were written. Any other is either written as the nearest of
    /// these (then `status` is among what is forgotten) or refused.
    pub statuses: &'static [Status],
    /// Whether commits can add to counters.
    pub counters: bool,
    /// Whether sessions can be started here: everything that a supervisor needs of a record is kept.
    pub starts: bool,
    /// What a record's revision is.
    pub revisions: Revisions,
    /// Whether the worktrees that its records name carry our mark. Where not, another tool made them, and
    /// recovery claims one before it touches it.
    pub marks: bool,
    /// How far the damage of one record reaches.
    pub damage: Reach,
    /// Whether its records tell of processes. Where not, there is nothing that recovery could judge: it
    /// leaves them alone, finished ones too, which are their own tool's to remove.
    pub processes: bool,
}

/// Fields of a record, named as in its JSON; those inside another with a dot: `ticket`, `worktree.path`.
/// A field stands for everything inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Every one there is, and those of tomorrow.
    All,
    /// These. [`UNKNOWN`] stands for those that no version of this program knows.
    Only(&'static [&'static str]),
}

/// Stands for the fields of a record that are none of [`KNOWN`].
pub const UNKNOWN: &str = "*";

/// The fields that every record has.
pub const KNOWN: [&str; 28] = [
    "schema",
    "id",
    "name",
    "ticket",
    "tags",
    "command",
    "cwd",
    "status",
    "host",
    "process",
    "supervisor",
    "owner",
    "on_owner_death",
    "deadline_at",
    "cgroup",
    "probe",
    "ending",
    "agent",
    "worktree",
    "loop",
    "created_at",
    "started_at",
    "finished_at",
    "exit",
    "recovery",
    "log",
    "revision",
    UNKNOWN,
];

/// What a record's revision is made of. Either way another content has another revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revisions {
    /// The number of the commit that wrote it: no two commits share one.
    Commits,
    /// A digest of the record: the same content again has the same revision again.
    Contents,
}

/// How far the damage of one record reaches. Around it everything stays readable either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All records share a file, and nobody can tell what a write would make of the damage: the whole store
    /// is only read until it is repaired.
    Store,
    /// Each record has a file of its own: that one is only read, and [`Damage::harmless`](super::Damage) says
    /// that every other can be written. A batch that is about it is refused with
    /// [`StoreError::DamagedRecord`].
    Record,
}

impl Capabilities {
    /// Those of a store that keeps whatever it is given.
    pub const EVERYTHING: Capabilities = Capabilities {
        fields: Fields::All,
        forgotten: &[],
        statuses: &Status::ALL,
        counters: true,
        starts: true,
        revisions: Revisions::Commits,
        marks: true,
        damage: Reach::Store,
        processes: true,
    };

    /// Whether whatever `field` says is kept.
    pub fn keeps(&self, field: &str) -> bool {
        self.has_place_for(field)
            && !self.forgotten.iter().any(|part| is_inside(field, part) || is_inside(part, field))
    }

    /// Whether a record may lose `field` on its way into the store without anybody being told.
    pub fn forgets(&self, field: &str) -> bool {
        self.forgotten.iter().any(|forgotten| is_inside(field, forgotten))
    }

    fn has_place_for(&self, field: &str) -> bool {
        let known = KNOWN.iter().any(|known| is_inside(field, known));
        match self.fields {
            Fields::All => true,
            Fields::Only(fields) if known => fields.iter().any(|place| is_inside(field, place)),
            Fields::Only(fields) => fields.contains(&UNKNOWN),
        }
    }

    /// Refuses what `fitted` would lose, but for what may be forgotten. A store calls this for every
    /// record that it is asked to commit, before it writes anything.
    pub fn require_kept(&self, backend: &'static str, fitted: &Fitted) -> Result<(), StoreError> {
        let lost: Vec<String> = fitted
            .lost
            .iter()
            .filter(|field| !self.forgets(field))
            .map(|field| format!("`{field}`"))
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        Err(StoreError::Unsupported {
            backend,
            what: format!("{} of session {}", lost.join(", "), fitted.session.id),
        })
    }

    /// Refuses counters, where none are kept. Whoever counts only for statistics leaves them out instead.
    pub fn require_counters(&self, backend: &'static str, batch: &super::Batch) -> Result<(), StoreError> {
        if self.counters || batch.counters.is_empty() {
            return Ok(());
        }
        Err(StoreError::Unsupported { backend, what: "counters".to_owned() })
    }
}

/// A record as a store would give it back, and what it cost to make it so.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The record as it would be read after it was written.
    pub session: Session,
    /// The fields that are not in it as they were, named as in [`Fields`]; sorted.
    pub lost: Vec<String>,
}

impl Fitted {
    /// `session` as it is: nothing is lost.
    pub fn whole(session: Session) -> Fitted {
        Fitted { session, lost: Vec::new() }
    }

    /// What becomes of `before` in a store that gives it back as `after`. Fields that the store adds are
    /// no loss, nor is the revision: every store has its own.
    ///
    /// # Panics
    /// Never: every field of a record has a JSON form.
    pub fn compare(before: &Session, after: Session) -> Fitted {
        let document = |session: &Session| match serde_json::to_value(session) {
            Ok(Value::Object(fields)) => fields,
            other => unreachable!("a record is written as an object, not {other:?}"),
        };
        let mut lost = BTreeSet::new();
        note_lost("", &document(before), &document(&after), &mut lost);
        lost.remove("revision");
        Fitted { session: after, lost: lost.into_iter().collect() }
    }
}

/// Notes each field of `before` that says something and that `after` does not say as well. Goes one level
/// down: what is inside a field of a field is part of that.
fn note_lost(
    above: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    lost: &mut BTreeSet<String>,
) {
    for (name, value) in before.iter().filter(|(_, value)| !says_nothing(value)) {
        match (value, after.get(name)) {
            (value, Some(kept)) if value == kept => {}
            (Value::Object(inner), Some(Value::Object(kept))) if above.is_empty() && !kept.is_empty() => {
                note_lost(&format!("{name}."), inner, kept, lost);
            }
            _ => _ = lost.insert(format!("{above}{name}")),
        }
    }
}

/// Whether the field `inner` is `outer` or lies in it.
fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Worktree;
    use crate::{Host, OsText};

    const SOME: Capabilities = Capabilities {
        fields: Fields::Only(&["id", "status", "worktree.path", "ticket", "started_at", UNKNOWN]),
        forgotten: &["recovery", "started_at"],
        counters: false,
        ..Capabilities::EVERYTHING
    };

    fn session() -> Session {
        let host = Host::new("m", "h");
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let mut session = Session::new("abcd".parse().unwrap(), host, now);
        session.worktree = Some(Worktree {
            path: OsText::from("/yard/a"),
            root: None,
            repo: None,
            branch: Some("b".to_owned()),
            base: None,
            extra: Map::new(),
        });
        session
    }

    #[test]
    fn a_field_is_kept_only_with_everything_inside_it() {
        for (field, kept) in [
            ("name", false),
            ("worktree", false),
            ("worktree.branch", false),
            ("worktree.path", true),
            ("recovery.cause", false),
            ("started_at", false),
            ("tickets", true),
            ("ticket", true),
            ("ticket.inside", true),
        ] {
            assert_eq!(SOME.keeps(field), kept, "{field}");
            assert!(Capabilities::EVERYTHING.keeps(field));
        }
    }

    #[test]
    fn the_known_fields_are_those_of_a_record() {
        let document = serde_json::to_value(session()).unwrap();
        let names: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, KNOWN[..KNOWN.len() - 1]);
    }

    #[test]
    fn a_loss_is_named_by_its_field_and_what_a_store_adds_is_none() {
        let before = session();
        let mut after = before.clone();
        after.revision = 9;
        after.ticket = Some("added".to_owned());
        after.worktree.as_mut().unwrap().branch = None;
        let fitted = Fitted::compare(&before, after);
        assert_eq!(fitted.lost, ["worktree.branch"]);
        assert_eq!(Fitted::compare(&before, before.clone()), Fitted::whole(before));
    }

    #[test]
    fn what_has_no_place_is_refused_by_name_unless_nothing_depends_on_it() {
        let lost = |fields: &[&str]| Fitted {
            session: session(),
            lost: fields.iter().map(|&field| field.to_owned()).collect(),
        };
        SOME.require_kept("tin", &lost(&["recovery", "recovery.cause"])).unwrap();
        let error = SOME.require_kept("tin", &lost(&["name", "recovery", "worktree.branch"])).unwrap_err();
        assert_eq!(error.to_string(), "a tin store cannot keep `name`, `worktree.branch` of session abcd");
        let error = SOME.require_counters("tin", &super::super::Batch::new().count("seen", 1)).unwrap_err();
        assert_eq!(error.to_string(), "a tin store cannot keep counters");
    }
}
