//! What the processes of listed sessions do now.

pub use sexton_embed::{Observed, observe};
