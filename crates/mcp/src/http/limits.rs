//! Limits on what clients can make a server hold. Together they keep its memory below 64 MiB, whatever it is sent.

use std::time::Duration;

/// Maximum number of connections.
pub(super) const CONNECTIONS: usize = 256;

/// Maximum number of connections per peer.
pub(super) const CONNECTIONS_PER_PEER: usize = 128;

/// Maximum number of connections being rejected with a response. Further ones are closed without one.
pub(super) const REJECTIONS_AT_ONCE: usize = 16;

/// Time that a rejected peer has to read the response.
pub(super) const REJECT_TIME: Duration = Duration::from_secs(2);

/// Maximum number of client conversations.
pub(super) const CONVERSATIONS: usize = 64;

/// How long a conversation without a message is kept. Longer than any call.
pub(super) const CONVERSATION_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// Maximum size of the request line and headers.
pub(super) const HEADER_BYTES: usize = 16 * 1024;

/// Maximum number of headers.
pub(super) const HEADERS: usize = 64;

/// Time to send the headers, and how long an idle connection is kept.
pub(super) const HEADER_TIME: Duration = Duration::from_secs(15);

/// Maximum size of a request body. The limit for a command is lower.
pub(super) const BODY_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of JSON values in a message.
pub(super) const VALUES: usize = 16 * 1024;

/// Bytes accounted for each value besides its text: a small number takes 2 bytes in a body and many more parsed.
pub(super) const VALUE_BYTES: usize = 128;

/// Bytes of a body that every connection may hold.
pub(super) const OWN_BODY_BYTES: usize = 16 * 1024;

/// Bytes that all connections share for larger bodies.
pub(super) const SHARED_BODY_BYTES: usize = 6 * 1024 * 1024;

/// Time to send a body.
pub(super) const BODY_TIME: Duration = Duration::from_secs(20);

/// How long a client may read nothing while data is pending.
pub(super) const STALL_TIME: Duration = Duration::from_secs(30);

/// Pause after `accept` failed, for example because no file descriptor is left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Seconds after which a client should retry a request that exceeded a shared limit.
pub(super) const RETRY_AFTER: &str = "1";
