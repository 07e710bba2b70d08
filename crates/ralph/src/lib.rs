//! The loop: tickets in, finished work out, and no crash that matters.
//!
//! A [`Loop`] asks a query for tickets and lets an agent work on each, in a git worktree and on a branch of its
//! own; what succeeds is merged. [`schedule`] decides, purely; `executor` acts, each action on a thread of its
//! own; `keeper` makes the memory durable before anything is done that could not be told from it. A loop that is
//! killed loses nothing: the next one recovers first, and goes on with the same memory.
//!
//! Architecture invariant: nothing here prints. What happens is told as [`Notice`]s.
//!
//! Architecture invariant: a ticket is data. It is a [`Ticket`] before it names anything, and never a part of a
//! shell line.

mod agent;
mod attempt;
mod capture;
mod error;
mod executor;
mod git;
mod keeper;
mod logs;
mod mainline;
mod notice;
mod run;
pub mod schedule;
mod seal;
mod settings;
mod shell;
mod site;
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
