//! One call of a tool: who waits for it, and how they hear of its progress.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio_util::sync::CancellationToken;

/// The longest name of a client that is remembered.
const MAX_CLIENT: usize = 64;

/// One call of a tool.
pub(crate) struct Call {
    peer: Peer<RoleServer>,
    progress: Option<ProgressToken>,
    /// Cancelled when nobody waits for the answer any more.
    pub(crate) cancelled: CancellationToken,
    /// What the client calls itself.
    pub(crate) client: Option<String>,
}

impl Call {
    pub(crate) fn new(context: &RequestContext<RoleServer>) -> Call {
        let client = context.client_info().map(|client| {
            client.name.chars().filter(|letter| !letter.is_control()).take(MAX_CLIENT).collect::<String>()
        });
        Call {
            peer: context.peer.clone(),
            progress: context.meta.get_progress_token(),
            cancelled: context.ct.clone(),
            client: client.filter(|name| !name.trim().is_empty()),
        }
    }

    /// Tells the client that it is still being waited, where it asked to be told.
    pub(crate) async fn tell_progress(&self, waited: Duration, limit: Duration, what: &str) {
        let Some(token) = &self.progress else { return };
        let progress = ProgressNotificationParam::new(token.clone(), waited.as_secs_f64())
            .with_total(limit.as_secs_f64())
            .with_message(what);
        // A client that is gone is noticed by whoever reads from it.
        let _ = self.peer.notify_progress(progress).await;
    }
}
