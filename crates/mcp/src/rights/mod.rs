//! What a server may do. Without a word of its user it only looks.
//!
//! A command is judged by its words, as the kernel gets them, never by shell text. The judgement is pure: it
//! is made of the rights, the words and the directory.

mod indirect;
mod pattern;

use std::ffi::OsString;
use std::path::Path;

use sexton_core::config::Config;

use indirect::find_indirection;
pub use pattern::{Pattern, PatternError};

use crate::refusal::Refusal;

/// What its user gave a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// It may start sessions.
    pub run: bool,
    /// It may stop them.
    pub stop: bool,
    /// It may recover, not only say what a recovery would do.
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
    /// What `grants` and the configuration allow. A pattern that makes no sense is an error: one that was
    /// silently left out of `deny` would allow.
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

    /// What its user gave.
    pub fn grants(&self) -> Grants {
        self.grants
    }

    /// Refuses unless sessions may be stopped.
    pub fn require_stop(&self) -> Result<(), Refusal> {
        if self.grants.stop { Ok(()) } else { Err(not_granted("stop sessions", "--allow-stop")) }
    }

    /// Refuses unless a recovery may change something.
    pub fn require_recover(&self) -> Result<(), Refusal> {
        if self.grants.recover {
            return Ok(());
        }
        let refusal = not_granted("recover", "--allow-recover");
        Err(refusal.or("say `dry_run: true` to learn what a recovery would do"))
    }

    /// Refuses unless this command may be run in `directory`.
    pub fn require_run(&self, command: &[OsString], directory: &Path) -> Result<(), Refusal> {
        if !self.grants.run {
            return Err(not_granted("run commands", "--allow-run"));
        }
        if let Some(pattern) = self.deny.iter().find(|pattern| pattern.denies(command)) {
            let error = format!("this command may not be run: `mcp.deny` has `{pattern}`");
            return Err(Refusal::new(error, "do it another way, or ask the user"));
        }
        let indirection = find_indirection(command);
        if self.allow.is_empty() && indirection.is_none() {
            return Ok(());
        }
        let fits = |pattern: &&Pattern| pattern.allows(command, directory);
        let by_name = |pattern: &Pattern| indirection.is_none() || pattern.names_program();
        if self.allow.iter().filter(fits).any(by_name) {
            return Ok(());
        }
        Err(match indirection {
            Some(what) => Refusal::new(
                format!("this command may not be run: {what}, and `mcp.allow` does not allow that by name"),
                "run the program itself, with its words as a list; or ask the user to allow it by name",
            ),
            None => Refusal::new(
                "this command may not be run: `mcp.allow` has no pattern that fits it",
                format!("the user allows: {}", self.allowed()),
            ),
        })
    }

    /// The patterns that allow, for people.
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
