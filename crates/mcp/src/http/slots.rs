//! A slot for each connection. When all are taken, the connection that has kept the server waiting longest is evicted,
//! first among those that sent no valid token. A connection with a request in progress keeps its slot.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::limits::{CONNECTIONS, CONNECTIONS_PER_PEER};

/// The other end of a connection, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A host. All users of this host count as one.
    Address(IpAddr),
    /// A process on this host.
    Process(i32),
}

/// State of a connection.
struct Entry {
    peer: Peer,
    /// Whether it has sent a valid request.
    authorized: bool,
    /// Since when the server waits for its client to send.
    waiting: Option<Instant>,
    /// Since when the server waits for its client to read.
    stalled: Option<Instant>,
    close: CancellationToken,
}

impl Entry {
    /// Returns since when the server waits for this connection's client.
    fn since(&self) -> Option<Instant> {
        self.waiting.or(self.stalled)
    }
}

#[derive(Default)]
struct Open {
    next: u64,
    entries: HashMap<u64, Entry>,
}

impl Open {
    fn count(&self, peer: Peer) -> usize {
        self.entries.values().filter(|entry| entry.peer == peer).count()
    }

    /// Closes the connection that has kept the server waiting longest. Returns whether there was one.
    fn evict(&mut self, of: Option<Peer>) -> bool {
        let candidates = self.entries.iter().filter(|(_, entry)| of.is_none_or(|peer| entry.peer == peer));
        let waiting =
            candidates.filter_map(|(number, entry)| Some((entry.authorized, entry.since()?, *number)));
        let Some((_, _, number)) = waiting.min() else { return false };
        if let Some(entry) = self.entries.remove(&number) {
            entry.close.cancel();
        }
        true
    }
}

/// The connection slots of one server.
#[derive(Clone, Default)]
pub(super) struct Slots {
    open: Arc<Mutex<Open>>,
}

impl Slots {
    /// Takes a slot for a connection of `peer`. Returns `None` if every slot has a request in progress.
    pub(super) fn take(&self, peer: Peer) -> Option<Slot> {
        let mut open = self.open();
        if open.count(peer) >= CONNECTIONS_PER_PEER && !open.evict(Some(peer)) {
            return None;
        }
        if open.entries.len() >= CONNECTIONS && !open.evict(None) {
            return None;
        }
        let number = open.next;
        open.next += 1;
        let close = CancellationToken::new();
        let waiting = Some(Instant::now());
        let entry = Entry { peer, authorized: false, waiting, stalled: None, close: close.clone() };
        open.entries.insert(number, entry);
        drop(open);
        Some(Slot { slots: self.clone(), number, close })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of one connection, freed when it is dropped.
pub(super) struct Slot {
    slots: Slots,
    number: u64,
    close: CancellationToken,
}

impl Slot {
    /// Records that its client has sent a valid request.
    pub(super) fn authorize(&self) {
        self.change(|entry| entry.authorized = true);
    }

    /// Records that the server waits for the client to send.
    pub(super) fn wait(&self) {
        self.change(|entry| entry.waiting = Some(Instant::now()));
    }

    /// Records that a request is in progress.
    pub(super) fn work(&self) {
        self.change(|entry| entry.waiting = None);
    }

    /// Records whether the server waits for the client to read.
    pub(super) fn stall(&self, stalled: bool) {
        self.change(|entry| entry.stalled = stalled.then(Instant::now));
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.close.cancelled().await;
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.slots.open().entries.get_mut(&self.number) {
            change(entry);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.open().entries.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        Peer::Address(IpAddr::from([10, 0, 0, number]))
    }

    fn is_evicted(slot: &Slot) -> bool {
        slot.close.is_cancelled()
    }

    #[test]
    fn i9_longest_waiting_connection_is_evicted() {
        let slots = Slots::default();
        let one: Vec<_> = (0..CONNECTIONS_PER_PEER).map(|_| slots.take(peer(1)).unwrap()).collect();
        let next = slots.take(peer(1)).unwrap();
        assert!(is_evicted(&one[0]) && !is_evicted(&one[1]) && !is_evicted(&next));
        assert!(slots.take(peer(2)).is_some());
    }

    #[test]
    fn i9_unauthorized_connection_is_evicted_first() {
        let slots = Slots::default();
        let first = slots.take(peer(1)).unwrap();
        first.authorize();
        let others: Vec<_> = (0..CONNECTIONS_PER_PEER).map(|_| slots.take(peer(1)).unwrap()).collect();
        assert!(!is_evicted(&first) && is_evicted(&others[0]));
    }

    #[test]
    fn i9_connection_with_request_in_progress_is_kept() {
        let slots = Slots::default();
        let busy: Vec<_> = (0..CONNECTIONS_PER_PEER).map(|_| slots.take(peer(1)).unwrap()).collect();
        busy.iter().for_each(Slot::work);
        assert!(slots.take(peer(1)).is_none());
        busy[7].stall(true);
        assert!(slots.take(peer(1)).is_some());
        assert!(is_evicted(&busy[7]));
        drop(busy);
        assert!(slots.take(peer(1)).is_some());
    }

    #[test]
    fn i9_total_number_of_connections_is_limited() {
        let slots = Slots::default();
        let count = u8::try_from(CONNECTIONS / 2).unwrap();
        let open: Vec<_> = (0..count)
            .flat_map(|number| [number, number])
            .map(|number| slots.take(peer(number)).unwrap())
            .collect();
        assert_eq!(open.iter().filter(|slot| is_evicted(slot)).count(), 0);
        let next = slots.take(peer(255)).unwrap();
        assert!(is_evicted(&open[0]) && !is_evicted(&next));
        assert_eq!(slots.open().entries.len(), CONNECTIONS);
    }
}
