//! Resuming: an agent that continues its conversation in a new session takes over its loop, once.
//!
//! [`resume`] examines the current session and those that could have driven the loop before, decides
//! ([`decide`], a pure function), and changes all affected records in one commit. The result always has a
//! [`Reason`], spelled in the store's [`Dialect`].
//!
//! Architecture invariant: a loop has one active owner. Both records of a transfer change in one commit, each
//! at the revision that was judged, so that two owners are never visible, and a crash leaves one.

mod act;
mod activity;
mod agent;
mod decide;
mod dialect;
mod edit;
mod look;
mod payload;

pub use act::{LOCK, LOCK_WAIT, ResumeContext, Resumption, find_current, resume};
pub use activity::Activity;
pub use agent::AgentIdentity;
pub use decide::{Claim, Current, Decision, Prior, decide};
pub use dialect::{Dialect, Reason, Words};
pub use look::{Sight, Standing};
pub use payload::{Payload, PayloadError};
