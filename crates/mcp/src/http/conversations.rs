//! The conversations of clients, which the protocol calls sessions. Many clients never close theirs, so their number is
//! limited, and a new one evicts the least needed one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use super::limits::{CONVERSATION_IDLE, CONVERSATIONS};

/// The conversations of one server.
#[derive(Clone)]
pub(super) struct Conversations {
    pub(super) manager: Arc<LocalSessionManager>,
    known: Arc<Mutex<HashMap<String, Known>>>,
}

/// State of a conversation.
struct Known {
    /// Whether it had a request after the one that opened it.
    used: bool,
    last: Instant,
    /// Number of its requests in progress.
    open: usize,
}

impl Conversations {
    pub(super) fn new() -> Conversations {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(CONVERSATION_IDLE);
        // Clients do not repeat a cancelled request, so its result need not be cached.
        manager.session_config.completed_cache_ttl = Duration::ZERO;
        Conversations { manager: Arc::new(manager), known: Arc::default() }
    }

    /// Marks the conversation as in use until the returned guard is dropped.
    pub(super) fn enter(&self, id: &str) -> Option<InUse> {
        let mut known = self.known();
        let conversation = known.get_mut(id)?;
        conversation.used = true;
        conversation.open += 1;
        drop(known);
        Some(InUse { conversations: self.clone(), id: id.to_owned() })
    }

    /// Admits a new conversation. At the limit it evicts an idle one: first one that was never used after it was
    /// opened, then the least recently used one. If none is idle, it closes the new one and returns `None`.
    pub(super) async fn admit(&self, id: &str) -> Option<InUse> {
        self.forget_closed().await;
        let evicted = {
            let mut known = self.known();
            known.insert(id.to_owned(), Known { used: false, last: Instant::now(), open: 1 });
            if known.len() > CONVERSATIONS && !sexton_mutant::is("no_session_limit") {
                let evicted = least_needed(&known).unwrap_or_else(|| id.to_owned());
                known.remove(&evicted);
                Some(evicted)
            } else {
                None
            }
        };
        if let Some(evicted) = evicted {
            // An error means that it has already ended.
            let _ = self.manager.close_session(&evicted.as_str().into()).await;
            if evicted == id {
                return None;
            }
        }
        Some(InUse { conversations: self.clone(), id: id.to_owned() })
    }

    /// Removes the conversations that were closed by their clients or timed out.
    async fn forget_closed(&self) {
        let alive = self.manager.sessions.read().await;
        self.known().retain(|id, _| alive.contains_key(id.as_str()));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn least_needed(known: &HashMap<String, Known>) -> Option<String> {
    let idle = known.iter().filter(|(_, conversation)| conversation.open == 0);
    idle.min_by_key(|(_, conversation)| (conversation.used, conversation.last)).map(|(id, _)| id.clone())
}

/// Guard of a conversation with a request in progress.
pub(super) struct InUse {
    conversations: Conversations,
    id: String,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversations.known().get_mut(&self.id) {
            conversation.open = conversation.open.saturating_sub(1);
            conversation.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(used: bool, open: usize) -> Known {
        Known { used, last: Instant::now(), open }
    }

    #[test]
    fn i9_least_needed_conversation_is_evicted() {
        let mut known = HashMap::new();
        known.insert("busy".to_owned(), conversation(false, 1));
        assert_eq!(least_needed(&known), None);
        known.insert("old".to_owned(), conversation(true, 0));
        known.insert("newer".to_owned(), conversation(true, 0));
        assert_eq!(least_needed(&known).as_deref(), Some("old"));
        known.insert("never used".to_owned(), conversation(false, 0));
        assert_eq!(least_needed(&known).as_deref(), Some("never used"));
    }
}
