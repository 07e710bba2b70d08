//! The loop's settings, from the configuration and the defaults that depend on it.

use std::path::PathBuf;
use std::time::Duration;

use sexton_core::config::{Config, Origin, Uncommitted};

use crate::agent::{Agent, AgentError};

/// The default ticket queries and completion check.
pub(crate) const TK_FIRST: &str = "tk ready | head -1 | awk '{print $1}'";
const TK_ALL: &str = "tk ready | awk '{print $1}'";
pub(crate) const TK_LEFT: &str = "tk ready | grep -q .";

/// Highest value of `ralph.parallel`.
const MAX_PARALLEL: usize = 256;

/// Settings of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of tickets in progress.
    pub parallel: usize,
    /// Maximum number of iterations.
    pub max_iterations: u64,
    /// Maximum number of iterations per ticket, if the query returns it again.
    pub max_iterations_per_ticket: u64,
    /// The agent that works on tickets.
    pub agent: Agent,
    /// Shell command that prints tickets.
    pub query: String,
    /// Whether the query is the default, which runs tk.
    pub query_is_default: bool,
    /// Shell command that fails when nothing is left. Without it, an empty query result means that.
    pub check: Option<String>,
    /// Pause before the next ticket.
    pub pause_between_tickets: Duration,
    /// Pause before a ticket or a merge is retried.
    pub pause_between_retries: Duration,
    /// Time limit of an attempt.
    pub attempt_timeout: Option<Duration>,
    /// Maximum number of retries of a ticket.
    pub max_restarts: u64,
    /// Whether a retry starts from the rescued work of the last attempt.
    pub from_rescue: bool,
    /// Whether finished work is merged.
    pub merge: bool,
    /// What to do with changes that a successful agent did not commit.
    pub uncommitted: Uncommitted,
    /// The branch that work starts from and is merged into. Default: the one checked out.
    pub base: Option<String>,
    /// Worktree root. Default: that of all other sessions.
    pub worktrees: Option<PathBuf>,
    /// Whether the agent's standard output is logged by ticket.
    pub capture: bool,
    /// Directory of these logs. Default: in the state directory.
    pub logs: Option<PathBuf>,
    /// Text to print when nothing is left to do.
    pub promise: Option<String>,
}

/// Why settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The agent's command is invalid.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A number is out of range.
    #[error("`{key}` is {value}, but must be {expected}")]
    Number {
        /// The key.
        key: &'static str,
        /// The value.
        value: usize,
        /// The allowed range.
        expected: &'static str,
    },
    /// A repository that is not trusted sets commands, and no trusted source sets them.
    #[error("{}: sets {}, but this repository is not trusted", .path.display(), .keys.join(", "))]
    NotTrusted {
        /// The file.
        path: PathBuf,
        /// The settings.
        keys: Vec<&'static str>,
    },
}

impl Settings {
    /// Creates the settings from the configuration.
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
        // A query for only the first ticket would always return one that is in progress.
        let default_query = if parallel > 1 { TK_ALL } else { TK_FIRST };
        let check = config.ralph_completion_check.value.0.clone();
        let timeout =
            if parallel > 1 { &config.ralph_dispatch_timeout } else { &config.ralph_attempt_timeout };
        Ok(Settings {
            parallel,
            max_iterations: config.ralph_max_iterations.value as u64,
            max_iterations_per_ticket: config.ralph_max_iterations_per_ticket.value as u64,
            agent,
            query: query.unwrap_or_else(|| default_query.to_owned()),
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

/// Fails if the repository sets commands but is not trusted. Using the defaults instead could run other tickets or
/// another agent than intended.
fn require_trusted_commands(config: &Config) -> Result<(), SettingsError> {
    let origins = [
        ("ralph.agent", &config.ralph_agent.origin),
        ("ralph.workflow", &config.ralph_workflow.origin),
        ("ralph.workflow_flags", &config.ralph_workflow_flags.origin),
        ("ralph.ticket_query", &config.ralph_ticket_query.origin),
        ("ralph.completion_check", &config.ralph_completion_check.origin),
    ];
    // Only pi uses a workflow.
    let another_agent = config.ralph_agent.origin != Origin::Default;
    let is_unset = |key: &str| {
        origins.iter().any(|(known, origin)| *known == key && **origin == Origin::Default)
            && !(another_agent && key.starts_with("ralph.workflow"))
    };
    let mut ignored = config.ignored.iter().filter(|ignored| is_unset(ignored.key)).peekable();
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
    fn defaults_are_tk_and_pi() {
        let serial = settings("", None).unwrap();
        assert_eq!(serial.query, "tk ready | head -1 | awk '{print $1}'");
        assert_eq!(serial.check.as_deref(), Some("tk ready | grep -q ."));
        assert_eq!(serial.attempt_timeout, Some(Duration::from_secs(600)));
        assert_eq!(serial.agent.program(), "pi");
    }

    #[test]
    fn parallel_loop_queries_all_tickets_and_has_a_longer_timeout() {
        let parallel = settings("[ralph]\nparallel = 4", None).unwrap();
        assert_eq!(parallel.query, "tk ready | awk '{print $1}'");
        assert_eq!(parallel.attempt_timeout, Some(Duration::from_secs(1800)));
    }

    #[test]
    fn custom_query_has_no_default_check() {
        let other = settings("[ralph]\nticket_query = \"cat todo\"", None).unwrap();
        assert_eq!((other.query.as_str(), other.check), ("cat todo", None));
    }

    #[test]
    fn invalid_settings_are_refused() {
        assert!(settings("[ralph]\nparallel = 0", None).unwrap_err().to_string().contains("between 1 and"));
        assert!(settings("[ralph]\nagent = \"claude\"", None).unwrap_err().to_string().contains("{ticket}"));
    }

    #[test]
    fn commands_of_untrusted_repository_must_be_set_elsewhere() {
        let foreign = || {
            let values = vec![
                ("ralph.ticket_query", "steal".to_owned()),
                ("ralph.workflow", "/evil".to_owned()),
                ("ralph.max_iterations", "3".to_owned()),
            ];
            Some(ForeignLayer { path: "/repo/config.json".into(), trusted: false, own_store: false, values })
        };
        let refused = settings("", foreign()).unwrap_err().to_string();
        assert_eq!(
            refused,
            "/repo/config.json: sets ralph.workflow, ralph.ticket_query, but this repository is not trusted"
        );
        let own = "[ralph]\nticket_query = \"mine\"\nagent = \"claude {ticket}\"";
        let given = settings(own, foreign()).unwrap();
        assert_eq!((given.query.as_str(), given.max_iterations), ("mine", 50));
    }
}
