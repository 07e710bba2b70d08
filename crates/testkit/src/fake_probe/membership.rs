//! Who belongs to a session on the fake machine, by the rules of the trait.

use std::collections::BTreeSet;

use sexton_core::probe::{Group, Members};

use super::process::Entry;
use super::{Machine, is_same};

/// How a process stands to a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Member,
    Stranger,
    /// It descends from the session and cannot be read.
    Unreadable,
}

impl Machine {
    /// The members of `group`, in the order of their pids.
    pub(super) fn members(&self, group: &Group) -> Members {
        let mut members = Members::default();
        for entry in self.living().filter(|entry| !is_supervisor(entry, group)) {
            match self.standing(entry, group) {
                Standing::Member => members.processes.push(entry.identity.clone()),
                Standing::Unreadable => members.unreadable.push(entry.identity.pid),
                Standing::Stranger => {}
            }
        }
        members
    }

    fn standing(&self, entry: &Entry, group: &Group) -> Standing {
        if entry.hidden.is_some() {
            return if self.descends(entry, group) { Standing::Unreadable } else { Standing::Stranger };
        }
        match &entry.process.cookie {
            Some(cookie) if *cookie == group.session => Standing::Member,
            Some(_) => Standing::Stranger,
            None if is_recorded(entry, group) || self.descends(entry, group) => Standing::Member,
            None => Standing::Stranger,
        }
    }

    /// Whether the nearest ancestor that belongs to anybody belongs to `group`.
    fn descends(&self, entry: &Entry, group: &Group) -> bool {
        let mut visited = BTreeSet::new();
        let mut parent = entry.process.parent;
        while let Some(pid) = parent.filter(|pid| visited.insert(*pid)) {
            let Some(ancestor) = self.processes.get(&pid).filter(|ancestor| ancestor.alive) else {
                return false;
            };
            if is_recorded(ancestor, group) || is_supervisor(ancestor, group) {
                return true;
            }
            if let Some(cookie) = &ancestor.process.cookie {
                return *cookie == group.session;
            }
            parent = ancestor.process.parent;
        }
        false
    }
}

fn is_recorded(entry: &Entry, group: &Group) -> bool {
    group.process.as_ref().is_some_and(|recorded| is_same(recorded, &entry.identity))
}

fn is_supervisor(entry: &Entry, group: &Group) -> bool {
    group.supervisor.as_ref().is_some_and(|recorded| is_same(recorded, &entry.identity))
}
