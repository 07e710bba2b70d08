//! `sexton top`: the live view of sessions.
//!
//! The screen is drawn from a [`State`](state::State) alone ([`draw`]), and the state changes only in one pure
//! function ([`update`]), so that both are tested without a terminal. [`world`] reads files and processes, and
//! [`inbox`] reads keys. [`terminal`] restores the terminal in every case.
//!
//! Architecture invariant: no file is read unless the kernel reported a change of it. The timer only checks
//! processes.

pub mod draw;
pub mod inbox;
pub mod meter;
pub mod state;
pub mod terminal;
pub mod text;
pub mod update;
pub mod world;
