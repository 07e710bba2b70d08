//! The host that a session belongs to, and whether it is this one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ProcessIdentity, Session};

/// A host, as records identify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The random identifier of its state directory. Absent in records of releases that had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The installation's identifier (`/etc/machine-id` on Linux).
    pub machine_id: String,
    /// The hostname.
    pub hostname: String,
    /// Fields of a newer version, kept unchanged. They do not distinguish hosts.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Host {
    /// Creates a host from its machine id and hostname, without a state directory's identifier.
    pub fn new(machine_id: impl Into<String>, hostname: impl Into<String>) -> Host {
        Host { id: None, machine_id: machine_id.into(), hostname: hostname.into(), extra: Map::new() }
    }

    /// Sets the identifier of its state directory.
    #[must_use]
    pub fn with_id(mut self, id: Option<String>) -> Host {
        self.id = id;
        self
    }

    /// Returns the host of a record that names none, because its store cannot record one. Such a store and the
    /// processes that it records belong to the host that it lies on.
    pub fn unnamed() -> Host {
        Host::new("", "")
    }

    /// Returns whether a record names no host.
    pub fn is_unnamed(&self) -> bool {
        self.has_names_of(&Host::unnamed())
    }

    fn has_names_of(&self, other: &Host) -> bool {
        self.machine_id == other.machine_id && self.hostname == other.hostname
    }

    /// Returns whether nothing in `self` contradicts `here`. A record of an earlier release has no identifier,
    /// so only the names count.
    fn agrees_with(&self, here: &Host) -> bool {
        self.has_names_of(here) && (self.id.is_none() || self.id == here.id)
    }
}

/// A host in one of its incarnations: where something was created, or where this program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incarnation {
    /// The machine.
    pub host: Host,
    /// The id of its boot, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The pid namespace, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

/// Where an incarnation is, relative to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This host, in its present boot.
    Here,
    /// This host, in an earlier boot: no process of it can be alive.
    Rebooted,
    /// Another host, or one that cannot be proved to be this one. It is neither judged nor changed here.
    Elsewhere,
}

impl Incarnation {
    /// Creates the incarnation in which the process `identity` runs on `host`.
    pub fn new(host: Host, identity: &ProcessIdentity) -> Incarnation {
        Incarnation { host, boot_id: identity.boot_id.clone(), pid_namespace: identity.pid_namespace }
    }

    /// Returns the incarnation in which a session was started, as far as its record says.
    pub fn of(session: &Session) -> Incarnation {
        let recorded = [&session.process, &session.supervisor, &session.owner];
        let known = recorded.into_iter().flatten().find(|identity| identity.boot_id.is_some());
        Incarnation {
            host: session.host.clone(),
            boot_id: known.and_then(|identity| identity.boot_id.clone()),
            pid_namespace: known.and_then(|identity| identity.pid_namespace),
        }
    }

    /// Returns where it is, relative to `here`. Decision 0048 has the whole table.
    pub fn seen_from(&self, here: &Incarnation) -> Place {
        let same_boot = self.boot_id.as_ref().zip(here.boot_id.as_ref()).map(|(one, other)| one == other);
        let agrees = self.host.is_unnamed() || self.host.agrees_with(&here.host);
        match same_boot {
            // The same kernel, whatever its hostname is now. The pid namespace distinguishes its containers.
            Some(true) if agrees || self.pid_namespace == here.pid_namespace => Place::Here,
            Some(false) if agrees || sexton_mutant::is("clone_is_reboot") => Place::Rebooted,
            None if agrees => Place::Here,
            _ => Place::Elsewhere,
        }
    }

    /// Returns whether it is another host, or one that cannot be proved to be this one.
    pub fn is_elsewhere(&self, here: &Incarnation) -> bool {
        self.seen_from(here) == Place::Elsewhere
    }
}

impl Session {
    /// Returns where the session was started, relative to `here`.
    pub fn place(&self, here: &Incarnation) -> Place {
        Incarnation::of(self).seen_from(here)
    }

    /// Returns whether it was started on another host, or on one that cannot be proved to be this one.
    pub fn is_elsewhere(&self, here: &Incarnation) -> bool {
        self.place(here) == Place::Elsewhere
    }
}

#[cfg(test)]
mod tests;
