//! Which agent's hook calls this program, and how its payload is read.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use sexton_core::resume::Payload;

use crate::failure::Failure;

/// The agent that runs the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hook {
    /// Codex: `notify` in config.toml, or a hook of its hooks.json
    Codex,
    /// Claude Code: a hook of its settings.json
    Claude,
}

impl Hook {
    /// Returns the agent's name in records.
    pub fn agent(self) -> &'static str {
        match self {
            Hook::Codex => "codex",
            Hook::Claude => "claude",
        }
    }

    /// Reads the payload from the argument that the agent added, or else from standard input.
    pub fn read(self, argument: Option<&OsStr>) -> Result<Payload, Failure> {
        if let Some(argument) = argument {
            return Payload::read(argument.as_bytes()).map_err(|error| Failure::new(error.to_string()));
        }
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(Failure::usage(
                "`--hook` reads the hook's JSON from standard input, which is a terminal",
            )
            .hint("the agent runs this command; see docs/hooks.md for the agent's settings"));
        }
        Payload::read(stdin.lock()).map_err(|error| Failure::new(error.to_string()))
    }
}
