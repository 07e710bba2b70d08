//! The loop's settings, made of the configuration: what was found out where nobody chose.

use std::path::PathBuf;
use std::time::Duration;

use sexton_core::config::{Config, Origin, Uncommitted};

use crate::agent::{Agent, AgentError};

/// The ticket query and the completion check of who names none.
pub(crate) const TK_FIRST: &str = "tk ready | head -1 | awk '{print $1}'";
const TK_ALL: &str = "tk ready | awk '{print $1}'";
pub(crate) const TK_LEFT: &str = "tk ready | grep -q .";

/// The most tickets that can be worked on at once.
const MAX_PARALLEL: usize = 256;

/// How the loop works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many tickets at once.
    pub parallel: usize,
    /// How many tickets in all.
    pub max_iterations: u64,
    /// How often one ticket, where the query names it again.
    pub max_iterations_per_ticket: u64,
    /// Who works on them.
    pub agent: Agent,
    /// The shell line that prints them.
    pub query: String,
    /// Whether that asks tk, because nobody named another.
    pub query_is_default: bool,
    /// The shell line that fails when nothing is left; the query itself says so without one.
    pub check: Option<String>,
    /// How long to pause before the next ticket.
    pub pause_between_tickets: Duration,
    /// How long to pause before a ticket, or a merge, is tried again.
    pub pause_between_retries: Duration,
    /// How long an attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// How often a ticket is tried again.
    pub max_restarts: u64,
    /// Whether a new attempt begins with the rescued work of the last one.
    pub from_rescue: bool,
    /// Whether finished work is merged.
    pub merge: bool,
    /// What becomes of changes that a successful agent did not commit.
    pub uncommitted: Uncommitted,
    /// The branch that work begins at and is merged into; the one checked out here without one.
    pub base: Option<String>,
    /// Where worktrees are made; where all others are without one.
    pub worktrees: Option<PathBuf>,
    /// Whether the agent's standard output is kept by its ticket.
    pub capture: bool,
    /// Where; in the state directory without one.
    pub logs: Option<PathBuf>,
    /// What is printed when nothing is left to do.
    pub promise: Option<String>,
}

/// Settings that no loop can work with.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A number makes no sense.
    #[error("`{key}` is {value}, but must be {expected}")]
    Number {
        /// Which.
        key: &'static str,
        /// What it is.
        value: usize,
        /// What it should be.
        expected: &'static str,
    },
    /// A repository that is not trusted wants to say what runs, and nobody else says it.
    #[error("{}: wants to set {}, and this repository is not trusted", .path.display(), .keys.join(", "))]
    NotTrusted {
        /// The file.
        path: PathBuf,
        /// The settings.
        keys: Vec<&'static str>,
    },
}

impl Settings {
    /// What the configuration says.
    pub fn from_config(config: &Config) -> Result<Settings, SettingsError> {
        require_trusted_commands(config)?;
        let parallel = config.ralph_parallel.value;
        if !(1..=MAX_PARALLEL).contains(&parallel) {
            let expected = "between 1 and 256";
            return Err(SettingsError::Number { key: "ralph.parallel", value: parallel, expected });
        }
        let capture = config.ralph_capture_json.value.0;
        let agent = Agent::new(
            config.ralph_agent.value.0.as_deref(),
            &config.ralph_workflow.value,
            config.ralph_workflow_flags.value.0.as_deref(),
            capture,
        )?;
        let query = config.ralph_ticket_query.value.0.clone();
        let query_is_default = query.is_none();
        // One who asks for the first ticket only is told of one that is worked on already, for ever.
        let of_tk = if parallel > 1 { TK_ALL } else { TK_FIRST };
        let check = config.ralph_completion_check.value.0.clone();
        let timeout =
            if parallel > 1 { &config.ralph_dispatch_timeout } else { &config.ralph_attempt_timeout };
        Ok(Settings {
            parallel,
            max_iterations: config.ralph_max_iterations.value as u64,
            max_iterations_per_ticket: config.ralph_max_iterations_per_ticket.value as u64,
            agent,
            query: query.unwrap_or_else(|| of_tk.to_owned()),
            query_is_default,
            check: check.or_else(|| query_is_default.then(|| TK_LEFT.to_owned())),
            pause_between_tickets: config.ralph_sleep_between_tickets.value,
            pause_between_retries: config.ralph_sleep_between_retries.value,
            attempt_timeout: timeout.value.0,
            max_restarts: config.ralph_max_restarts.value as u64,
            from_rescue: config.ralph_retry_from_rescue.value.0,
            merge: config.ralph_merge.value.0,
            uncommitted: config.ralph_uncommitted.value,
            base: config.ralph_base.value.0.clone(),
            worktrees: config.ralph_worktrees.value.0.clone(),
            capture,
            logs: config.ralph_logs.value.0.clone(),
            promise: config.ralph_promise.value.0.clone(),
        })
    }
}

/// Refuses to go on with defaults where the repository names commands that its user does not trust: those
/// would be other tickets, or another agent, than anybody meant.
fn require_trusted_commands(config: &Config) -> Result<(), SettingsError> {
    let origins = [
        ("ralph.agent", &config.ralph_agent.origin),
        ("ralph.workflow", &config.ralph_workflow.origin),
        ("ralph.workflow_flags", &config.ralph_workflow_flags.origin),
        ("ralph.ticket_query", &config.ralph_ticket_query.origin),
        ("ralph.completion_check", &config.ralph_completion_check.origin),
    ];
    // A workflow is what pi is told: another agent needs none.
    let another_agent = config.ralph_agent.origin != Origin::Default;
    let unsaid = |key: &str| {
        origins.iter().any(|(known, origin)| *known == key && **origin == Origin::Default)
            && !(another_agent && key.starts_with("ralph.workflow"))
    };
    let mut ignored = config.ignored.iter().filter(|ignored| unsaid(ignored.key)).peekable();
    let Some(first) = ignored.peek().map(|ignored| ignored.path.clone()) else { return Ok(()) };
    let keys = ignored.filter(|ignored| ignored.path == first).map(|ignored| ignored.key).collect();
    Err(SettingsError::NotTrusted { path: first, keys })
}

#[cfg(test)]
mod tests {
    use sexton_core::config::{FileLayer, ForeignLayer, Layers};

    use super::*;

    fn settings(text: &str, foreign: Option<ForeignLayer>) -> Result<Settings, SettingsError> {
        let user = FileLayer { path: "/etc/sexton.toml".into(), text: text.to_owned() };
        let env = [("HOME".to_owned(), "/home/ann".to_owned())].into();
        let layers = Layers { user: Some(user), foreign, env, ..Layers::default() };
        Settings::from_config(&Config::resolve(&layers).unwrap())
    }

    #[test]
    fn who_names_nothing_asks_tk_and_starts_pi() {
        let serial = settings("", None).unwrap();
        assert_eq!(serial.query, "tk ready | head -1 | awk '{print $1}'");
        assert_eq!(serial.check.as_deref(), Some("tk ready | grep -q ."));
        assert_eq!(serial.attempt_timeout, Some(Duration::from_secs(600)));
        assert_eq!(serial.agent.program(), "pi");
    }

    #[test]
    fn several_at_once_are_asked_for_together_and_have_longer() {
        let parallel = settings("[ralph]\nparallel = 4", None).unwrap();
        assert_eq!(parallel.query, "tk ready | awk '{print $1}'");
        assert_eq!(parallel.attempt_timeout, Some(Duration::from_secs(1800)));
    }

    #[test]
    fn another_query_says_by_itself_when_nothing_is_left() {
        let other = settings("[ralph]\nticket_query = \"cat todo\"", None).unwrap();
        assert_eq!((other.query.as_str(), other.check), ("cat todo", None));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(settings("[ralph]\nparallel = 0", None).unwrap_err().to_string().contains("between 1 and"));
        assert!(settings("[ralph]\nagent = \"claude\"", None).unwrap_err().to_string().contains("{ticket}"));
    }

    #[test]
    fn commands_of_a_repository_that_is_not_trusted_must_be_given_by_somebody_else() {
        let foreign = || {
            let values = vec![
                ("ralph.ticket_query", "steal".to_owned()),
                ("ralph.workflow", "/evil".to_owned()),
                ("ralph.max_iterations", "3".to_owned()),
            ];
            Some(ForeignLayer { path: "/repo/config.json".into(), trusted: false, values })
        };
        let refused = settings("", foreign()).unwrap_err().to_string();
        assert_eq!(
            refused,
            "/repo/config.json: wants to set ralph.workflow, ralph.ticket_query, and this repository is not trusted"
        );
        let own = "[ralph]\nticket_query = \"mine\"\nagent = \"claude {ticket}\"";
        let given = settings(own, foreign()).unwrap();
        assert_eq!((given.query.as_str(), given.max_iterations), ("mine", 3));
    }
}
