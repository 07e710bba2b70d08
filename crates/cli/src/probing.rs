//! The observed state of the processes of listed sessions.

pub use sexton_service::{Observed, observe};
