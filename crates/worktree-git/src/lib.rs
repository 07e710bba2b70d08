//! Worktrees on git: made marked, rescued whole, removed with care.
//!
//! Architecture invariant: nothing is removed that was not first found by `site.rs`, which alone says whose
//! a worktree is; nothing outside the yard is reached, because `yard.rs` holds it open; and a rescue runs no
//! program.

mod entry;
mod fault;
mod mark;
mod repository;
mod site;
mod pack;
mod rescue;
mod rescues;
mod scan;
mod tree;
mod yard;
