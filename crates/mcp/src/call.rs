//! One tool call: its client, cancellation and progress notifications.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio_util::sync::CancellationToken;

/// Maximum length of a client's name; the rest is cut off.
const MAX_CLIENT: usize = 64;

/// One tool call.
pub(crate) struct Call {
    peer: Peer<RoleServer>,
    progress: Option<ProgressToken>,
    /// Cancelled when the client no longer waits for the result.
    pub(crate) cancelled: CancellationToken,
    /// Name that the client reports for itself.
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

    /// Sends a progress notification if the client requested it.
    pub(crate) async fn report_progress(&self, waited: Duration, limit: Duration, what: &str) {
        let Some(token) = &self.progress else { return };
        let progress = ProgressNotificationParam::new(token.clone(), waited.as_secs_f64())
            .with_total(limit.as_secs_f64())
            .with_message(what);
        // A disconnected client is detected by the reader of its connection.
        let _ = self.peer.notify_progress(progress).await;
    }
}
