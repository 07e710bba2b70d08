//! Resuming: an agent that goes on with its conversation in a new session takes its loop along, once.
//!
//! [`resume`] looks at the current session and at those that could have driven the loop before, decides
//! ([`decide`], a pure function), and changes every record that the decision is about in one commit. The
//! answer always has a [`Reason`], spelled in the store's [`Dialect`].
//!
//! Architecture invariant: a loop has one active owner. Both records of a transfer change in one commit,
//! each at the revision that was judged, so that nobody ever sees two owners, and a crash leaves one.

mod act;
mod activity;
mod agent;
mod decide;
mod dialect;
mod edit;
mod look;
mod payload;

pub use act::{Ground, LOCK, LOCK_WAIT, Resumption, find_current, resume};
pub use activity::Activity;
pub use agent::AgentIdentity;
pub use decide::{Claim, Current, Decision, Prior, decide};
pub use dialect::{Dialect, Reason, Words};
pub use look::{Sight, Standing};
pub use payload::{Payload, PayloadError};
