//! What a store can represent. Sexton's own stores keep every field of a record; another tool's file has only
//! the fields of that tool.
//!
//! Architecture invariant: nothing is lost silently. A commit refuses what the store cannot represent, unless
//! it is declared in [`Capabilities::forgotten`]. A caller that accepts a reduced record, such as `migrate`,
//! calls [`Store::fit`](super::Store::fit), which returns the record and the fields that would be lost.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::StoreError;
use crate::{Session, Status};

/// What a store can represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The fields of a record that can be kept. A commit of a record with any other field is refused.
    pub fields: Fields,
    /// The fields, or parts of them, that a commit drops without an error, because nothing depends on them: the
    /// nanoseconds of a time, recovery's notes.
    pub forgotten: &'static [&'static str],
    /// The statuses that are read back as they were written. Any other is either written as the nearest of
    /// these (then `status` is in `forgotten`) or refused.
    pub statuses: &'static [Status],
    /// Whether commits can add to counters.
    pub counters: bool,
    /// Whether sessions can be started here: every field that a supervisor needs is kept.
    pub starts: bool,
    /// How a record's revision is determined.
    pub revisions: Revisions,
    /// Whether the worktrees that its records name carry our mark. If not, another tool made them, and recovery
    /// claims a worktree before it changes it.
    pub marks: bool,
    /// What the damage of one record affects.
    pub damage: Reach,
    /// Whether its records describe processes. If not, recovery has nothing to judge and leaves the records
    /// alone, including finished ones, which their own tool removes.
    pub processes: bool,
}

/// Fields of a record, named as in its JSON; nested ones with a dot: `ticket`, `worktree.path`. A field
/// includes everything inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Every field, including those of later versions.
    All,
    /// These fields. [`UNKNOWN`] stands for fields that this version does not know.
    Only(&'static [&'static str]),
}

/// Stands for the fields of a record that are not in [`KNOWN`].
pub const UNKNOWN: &str = "*";

/// The fields that every record has.
pub const KNOWN: [&str; 31] = [
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
    "containment",
    "limit_mark",
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
    "release",
    "revision",
    UNKNOWN,
];

/// How a record's revision is determined. In both cases different content has a different revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revisions {
    /// The number of the commit that wrote it: unique per commit.
    Commits,
    /// A digest of the record: equal content has an equal revision.
    Contents,
}

/// What the damage of one record affects. Everything else stays readable in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All records share a file, and the effect of a write on the damaged part is unknown: the whole store is
    /// read-only until it is repaired.
    Store,
    /// Each record has its own file: only that record is read-only, and [`Damage::harmless`](super::Damage)
    /// says that the others can be written. A batch that changes it is refused with
    /// [`StoreError::DamagedRecord`].
    Record,
}

impl Capabilities {
    /// The capabilities of a store that keeps everything.
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

    /// Returns whether the whole content of `field` is kept.
    pub fn keeps(&self, field: &str) -> bool {
        self.has_place_for(field)
            && !self.forgotten.iter().any(|part| is_inside(field, part) || is_inside(part, field))
    }

    /// Returns whether a commit may drop `field` without an error.
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

    /// Refuses `fitted` if it lost a field that may not be forgotten. A store calls this for every record of a
    /// batch before it writes anything.
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

    /// Refuses counters if none are kept. A caller that needs them only as statistics leaves them out.
    pub fn require_counters(&self, backend: &'static str, batch: &super::Batch) -> Result<(), StoreError> {
        if self.counters || batch.counters.is_empty() {
            return Ok(());
        }
        Err(StoreError::Unsupported { backend, what: "counters".to_owned() })
    }
}

/// A record as a store would return it, and the fields that it would lose.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The record as it would be read back.
    pub session: Session,
    /// The fields that would differ, named as in [`Fields`]; sorted.
    pub lost: Vec<String>,
}

impl Fitted {
    /// Returns `session` unchanged: nothing is lost.
    pub fn whole(session: Session) -> Fitted {
        Fitted { session, lost: Vec::new() }
    }

    /// Compares `before` with `after`, the record that the store would return for it. Fields that the store
    /// adds are no loss, nor is a different revision: every store assigns its own.
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

/// Collects each non-empty field of `before` that differs in `after`. Descends one level: what is nested deeper
/// counts as part of its field.
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

/// Returns whether the field `inner` is `outer` or lies in it.
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
            path: OsText::from("/worktrees/a"),
            root: None,
            repo: None,
            branch: Some("b".to_owned()),
            base: None,
            extra: Map::new(),
        });
        session
    }

    #[test]
    fn field_is_kept_only_if_all_of_it_is() {
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
    fn known_fields_are_those_of_a_record() {
        let document = serde_json::to_value(session()).unwrap();
        let names: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, KNOWN[..KNOWN.len() - 1]);
    }

    #[test]
    fn lost_fields_are_named_and_added_fields_are_no_loss() {
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
    fn unsupported_fields_are_refused_by_name_unless_forgotten() {
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
