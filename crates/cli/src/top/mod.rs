//! `sexton top`, the live view: what sessions do, as they do it.
//!
//! What is on the screen follows from a [`State`](state::State) alone ([`draw`]), and the state changes in
//! one pure function ([`update`]), so that both are tested without a terminal. Files, processes and keys are
//! the business of [`world`] and [`inbox`]; [`terminal`] gives the terminal back, whatever happens.
//!
//! Architecture invariant: nothing on the disk is read unless the kernel said that it changed. The timer
//! looks at processes alone.

pub mod draw;
pub mod inbox;
pub mod meter;
pub mod state;
pub mod terminal;
pub mod text;
pub mod update;
pub mod world;
