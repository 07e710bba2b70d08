//! The ralph loop: runs an agent for each ticket, merges finished work, and survives crashes.
//!
//! A [`Loop`] runs a query for tickets and starts an agent for each, in its own git worktree and branch. Work that
//! succeeds is merged. [`schedule`] decides as pure functions; `executor` performs each action on its own thread;
//! `loop_record` saves the state before any action whose effects could not be recognized without it. A killed loop
//! loses nothing: the next one recovers first and continues from the saved state.
//!
//! Architecture invariant: this crate does not print. It reports events as [`Notice`]s.
//!
//! Architecture invariant: a ticket is data. It is parsed to a [`Ticket`] before it names anything, and is never part
//! of a shell command line.

mod agent;
mod attempt;
mod base_branch;
mod capture;
mod error;
mod executor;
mod git;
mod logs;
mod loop_context;
mod loop_record;
mod notice;
mod run;
pub mod schedule;
mod seal;
mod settings;
mod shell;
mod state;
mod ticket;
pub mod ticketflow;

pub use agent::{Agent, AgentError};
pub use error::RalphError;
pub use git::GitError;
pub use notice::{Notice, Row, Summary};
pub use run::{Loop, Preview, Remote};
pub use settings::{Settings, SettingsError};
pub use state::{How, Phase, Progress, Stage, State, Then, Work};
pub use ticket::{InvalidTicket, Ticket};
