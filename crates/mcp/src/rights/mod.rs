//! What a server may do. By default it only reads.
//!
//! Commands are checked by their arguments as the kernel gets them, never by shell text. The check is a pure function
//! of the rights, the command and the directory.

mod indirect;
mod pattern;

use std::ffi::OsString;
use std::path::Path;

use sexton_core::config::Config;

use indirect::find_indirection;
pub use pattern::{Pattern, PatternError};

use crate::refusal::Refusal;

/// What the user allowed when starting the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// The server may start sessions.
    pub run: bool,
    /// The server may stop sessions.
    pub stop: bool,
    /// The server may recover, not only report what a recovery would do.
    pub recover: bool,
}

/// What a server may do.
#[derive(Clone, Debug)]
pub struct Rights {
    grants: Grants,
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
}

impl Rights {
    /// Creates the rights from `grants` and the configuration. An invalid pattern is an error: ignoring one in `deny`
    /// would allow what it denies.
    pub fn new(grants: Grants, config: &Config) -> Result<Rights, PatternError> {
        let parse = |key, texts: &[String]| -> Result<Vec<_>, _> {
            texts.iter().map(|text| Pattern::parse(key, text)).collect()
        };
        Ok(Rights {
            grants,
            allow: parse("mcp.allow", &config.mcp_allow.value.0)?,
            deny: parse("mcp.deny", &config.mcp_deny.value.0)?,
        })
    }

    /// Returns what the user allowed.
    pub fn grants(&self) -> Grants {
        self.grants
    }

    /// Fails unless sessions may be stopped.
    pub fn require_stop(&self) -> Result<(), Refusal> {
        if self.grants.stop { Ok(()) } else { Err(not_granted("stop sessions", "--allow-stop")) }
    }

    /// Fails unless a recovery may change something.
    pub fn require_recover(&self) -> Result<(), Refusal> {
        if self.grants.recover {
            return Ok(());
        }
        let refusal = not_granted("recover", "--allow-recover");
        Err(refusal.or("set `dry_run: true` to see what a recovery would do"))
    }

    /// Fails unless the command may be run in `directory`.
    pub fn require_run(&self, command: &[OsString], directory: &Path) -> Result<(), Refusal> {
        if !self.grants.run {
            return Err(not_granted("run commands", "--allow-run"));
        }
        if let Some(pattern) = self.deny.iter().find(|pattern| pattern.denies(command)) {
            let error = format!("this command is not allowed: `mcp.deny` has `{pattern}`");
            return Err(Refusal::new(error, "use another command, or ask the user"));
        }
        let indirection = find_indirection(command);
        if self.allow.is_empty() && indirection.is_none() {
            return Ok(());
        }
        let matches = |pattern: &&Pattern| pattern.allows(command, directory);
        let by_name = |pattern: &Pattern| indirection.is_none() || pattern.names_program();
        if self.allow.iter().filter(matches).any(by_name) {
            return Ok(());
        }
        Err(match indirection {
            Some(what) => Refusal::new(
                format!("this command is not allowed: {what}, and `mcp.allow` does not allow that by name"),
                "run the program itself, with its arguments as a list, or ask the user to allow it by name",
            ),
            None => Refusal::new(
                "this command is not allowed: no pattern in `mcp.allow` matches it",
                format!("the user allows: {}", self.allowed()),
            ),
        })
    }

    /// Returns the patterns of `mcp.allow` as text for messages.
    pub fn allowed(&self) -> String {
        self.allow.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ")
    }
}

fn not_granted(what: &str, flag: &str) -> Refusal {
    let error = format!("this server may not {what}: it was started without `{flag}`");
    Refusal::new(error, format!("ask the user to start it with `sexton mcp {flag}`"))
}

#[cfg(test)]
mod tests;
