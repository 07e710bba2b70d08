//! Every setting there is. Adding one is adding it here; nothing else lists them.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::layers::{ConfigError, IgnoredKey, Layers, Resolver, Setting};
use super::value::{
    ByteSize, Containment, OrAuto, OrOff, Secret, SettingValue, StoreUrl, Switch, TextList, Uncommitted,
};
use crate::plugin::AUTO;
use crate::store::Durability;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is fixed about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingInfo {
    /// Its key in a file: `store.url`.
    pub key: &'static str,
    /// Its environment variable.
    pub env: Option<&'static str>,
    /// Whether a repository must be trusted before its file may set it.
    pub needs_trust: bool,
    /// What it is for.
    pub summary: &'static str,
}

/// A setting as `sexton config` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownSetting {
    /// What it is.
    pub info: SettingInfo,
    /// Its value.
    pub value: serde_json::Value,
    /// Where that came from, in words.
    pub origin: String,
}

macro_rules! settings {
    ($($field:ident: $type:ty {
        key: $key:literal,
        env: $env:expr,
        needs_trust: $trust:literal,
        summary: $summary:literal,
        default: $default:expr,
    })*) => {
        /// The whole configuration, resolved. Each value knows where it came from.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $(#[doc = $summary] pub $field: Setting<$type>,)*
            /// What an untrusted repository's file wanted to set, and may not.
            pub ignored: Vec<IgnoredKey>,
        }

        impl Config {
            /// Every setting there is.
            pub const SETTINGS: &'static [SettingInfo] = &[
                $(SettingInfo { key: $key, env: $env, needs_trust: $trust, summary: $summary },)*
            ];

            /// Puts the layers together. The one place where this happens.
            pub fn resolve(layers: &Layers) -> Result<Config, ConfigError> {
                let resolver = Resolver::new(layers, Self::SETTINGS)?;
                // Later defaults may build on the state directory, which is declared first.
                let mut state_dir = PathBuf::new();
                $(
                    let default: fn(&Layers, &Path) -> Result<$type, ConfigError> = $default;
                    let $field = resolver.resolve($key, || default(layers, &state_dir))?;
                    remember_state_dir(&mut state_dir, &$field.value);
                )*
                Ok(Config { $($field,)* ignored: resolver.into_ignored() })
            }

            /// Every setting with its value and origin.
            pub fn shown(&self) -> Vec<ShownSetting> {
                let values = [$((self.$field.value.to_json(), self.$field.origin.to_string()),)*];
                let settings = Self::SETTINGS.iter().copied().zip(values);
                settings.map(|(info, (value, origin))| ShownSetting { info, value, origin }).collect()
            }
        }
    };
}

/// Keeps the first path that is resolved, which is the state directory.
fn remember_state_dir(state_dir: &mut PathBuf, value: &dyn Any) {
    if let Some(path) = value.downcast_ref::<PathBuf>().filter(|_| state_dir.as_os_str().is_empty()) {
        state_dir.clone_from(path);
    }
}

settings! {
    state_dir: PathBuf {
        key: "state_dir",
        env: Some("SEXTON_STATE_DIR"),
        needs_trust: true,
        summary: "Where records, logs and backups are kept.",
        default: |layers, _| default_state_dir(layers),
    }
    store_url: StoreUrl {
        key: "store.url",
        env: Some("SEXTON_STORE"),
        needs_trust: true,
        summary: "The store that holds the records.",
        default: |layers, state_dir| {
            let (scheme, file) = layers.default_store;
            Ok(StoreUrl(format!("{scheme}:{}", state_dir.join(file).display())))
        },
    }
    durability: Durability {
        key: "store.durability",
        env: None,
        needs_trust: true,
        summary: "What a commit survives: `power` cuts, or crashes of a `process` only.",
        default: |_, _| Ok(Durability::Power),
    }
    probe: String {
        key: "probe",
        env: Some("SEXTON_PROBE"),
        needs_trust: false,
        summary: "How processes are seen: `auto`, or the name of a probe.",
        default: |_, _| Ok(AUTO.to_owned()),
    }
    contain: Containment {
        key: "contain",
        env: None,
        needs_trust: false,
        summary: "How a session's processes are held together: `auto`, `cgroup` or `tree`.",
        default: |_, _| Ok(Containment::Auto),
    }
    owner_grace: Duration {
        key: "owner.grace",
        env: None,
        needs_trust: false,
        summary: "How long a session whose owner died waits to be adopted before it is ended.",
        default: |_, _| Ok(Duration::from_secs(10)),
    }
    stop_grace: Duration {
        key: "stop.grace",
        env: None,
        needs_trust: false,
        summary: "How long processes have to end before they are killed.",
        default: |_, _| Ok(Duration::from_secs(5)),
    }
    log_max_bytes: OrOff<ByteSize> {
        key: "log.max_bytes",
        env: None,
        needs_trust: false,
        summary: "How much of a log is kept, or `off`; the oldest part goes first.",
        default: |_, _| Ok(OrOff(Some(ByteSize(64 << 20)))),
    }
    notify_command: OrOff<String> {
        key: "notify.command",
        env: None,
        needs_trust: true,
        summary: "A shell command to run when a session ends, or `off`.",
        default: |_, _| Ok(OrOff(None)),
    }
    backup_keep: usize {
        key: "backup.keep",
        env: None,
        needs_trust: false,
        summary: "How many backups are kept; the last good one always is.",
        default: |_, _| Ok(10),
    }
    worktree_root: OrAuto<PathBuf> {
        key: "worktree.root",
        env: None,
        needs_trust: true,
        summary: "Where worktrees are made: `auto` (in the state directory, one folder per repository), or a path.",
        default: |_, _| Ok(OrAuto(None)),
    }
    recover_min_age: Duration {
        key: "recover.min_age",
        env: None,
        needs_trust: false,
        summary: "How old a session must be before recovery judges it.",
        default: |_, _| Ok(Duration::ZERO),
    }
    recover_stale: Duration {
        key: "recover.stale",
        env: None,
        needs_trust: false,
        summary: "After how long a dead session is called abandoned instead of orphaned.",
        default: |_, _| Ok(DAY * 30),
    }
    recover_stray_age: Duration {
        key: "recover.stray_age",
        env: None,
        needs_trust: false,
        summary: "How old a worktree without a record must be before it is rescued and removed.",
        default: |_, _| Ok(DAY),
    }
    resume_stale: Duration {
        key: "resume.stale",
        env: None,
        needs_trust: false,
        summary: "After how long an active loop that nobody touched is no longer taken over.",
        default: |_, _| Ok(DAY),
    }
    retention_ttl: Duration {
        key: "retention.ttl",
        env: None,
        needs_trust: false,
        summary: "How long finished records and their logs are kept.",
        default: |_, _| Ok(DAY * 7),
    }
    retention_keep: usize {
        key: "retention.keep",
        env: None,
        needs_trust: false,
        summary: "How many finished records are kept at most.",
        default: |_, _| Ok(1000),
    }
    rescue_ignored: Switch {
        key: "rescue.ignored",
        env: None,
        needs_trust: false,
        summary: "Whether small ignored files are rescued too: `on` or `off`.",
        default: |_, _| Ok(Switch(true)),
    }
    rescue_ttl: OrOff<Duration> {
        key: "rescue.ttl",
        env: None,
        needs_trust: false,
        summary: "After how long a rescue is dropped, or `off`: it is work.",
        default: |_, _| Ok(OrOff(None)),
    }
    mcp_allow: TextList {
        key: "mcp.allow",
        env: None,
        needs_trust: true,
        summary: "What `sexton mcp --allow-run` may run, as patterns of words; anything where the list is empty.",
        default: |_, _| Ok(TextList::default()),
    }
    mcp_deny: TextList {
        key: "mcp.deny",
        env: None,
        needs_trust: true,
        summary: "What it may never run, whatever else is allowed.",
        default: |_, _| Ok(TextList::default()),
    }
    mcp_token: OrOff<Secret> {
        key: "mcp.token",
        env: Some("SEXTON_MCP_TOKEN"),
        needs_trust: true,
        summary: "The bearer token that `sexton mcp --http` asks for, or `off`; never shown.",
        default: |_, _| Ok(OrOff(None)),
    }
    mcp_hosts: TextList {
        key: "mcp.hosts",
        env: None,
        needs_trust: true,
        summary: "Names besides `localhost` under which `sexton mcp --http` may be called.",
        default: |_, _| Ok(TextList::default()),
    }
    ralph_parallel: usize {
        key: "ralph.parallel",
        env: None,
        needs_trust: false,
        summary: "How many tickets the loop works on at once.",
        default: |_, _| Ok(1),
    }
    ralph_max_iterations: usize {
        key: "ralph.max_iterations",
        env: None,
        needs_trust: false,
        summary: "How many tickets the loop takes on before it ends.",
        default: |_, _| Ok(50),
    }
    ralph_max_iterations_per_ticket: usize {
        key: "ralph.max_iterations_per_ticket",
        env: None,
        needs_trust: false,
        summary: "How often the loop takes one ticket on that its query names again.",
        default: |_, _| Ok(5),
    }
    ralph_agent: OrAuto<String> {
        key: "ralph.agent",
        env: None,
        needs_trust: true,
        summary: "The agent's command, with {ticket} in it; `auto` is pi with the workflow.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_workflow: String {
        key: "ralph.workflow",
        env: None,
        needs_trust: true,
        summary: "What pi is told to do with a ticket.",
        default: |_, _| Ok("/tf".to_owned()),
    }
    ralph_workflow_flags: OrOff<String> {
        key: "ralph.workflow_flags",
        env: None,
        needs_trust: true,
        summary: "What pi is told after the ticket, or `off`.",
        default: |_, _| Ok(OrOff(Some("--auto".to_owned()))),
    }
    ralph_ticket_query: OrAuto<String> {
        key: "ralph.ticket_query",
        env: None,
        needs_trust: true,
        summary: "A shell command that prints tickets, one a line; `auto` asks tk.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_completion_check: OrAuto<String> {
        key: "ralph.completion_check",
        env: None,
        needs_trust: true,
        summary: "A shell command that fails when nothing is left to do; `auto` asks as the query does.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_sleep_between_tickets: Duration {
        key: "ralph.sleep_between_tickets",
        env: None,
        needs_trust: false,
        summary: "How long the loop pauses before its next ticket.",
        default: |_, _| Ok(Duration::from_secs(5)),
    }
    ralph_sleep_between_retries: Duration {
        key: "ralph.sleep_between_retries",
        env: None,
        needs_trust: false,
        summary: "How long the loop pauses before it tries a ticket, or a merge, again.",
        default: |_, _| Ok(Duration::from_secs(10)),
    }
    ralph_attempt_timeout: OrOff<Duration> {
        key: "ralph.attempt_timeout",
        env: None,
        needs_trust: false,
        summary: "How long an attempt may take when tickets are worked on one by one, or `off`.",
        default: |_, _| Ok(OrOff(Some(Duration::from_secs(600)))),
    }
    ralph_dispatch_timeout: OrOff<Duration> {
        key: "ralph.dispatch_timeout",
        env: None,
        needs_trust: false,
        summary: "How long an attempt may take when several tickets are worked on at once, or `off`.",
        default: |_, _| Ok(OrOff(Some(Duration::from_secs(1800)))),
    }
    ralph_max_restarts: usize {
        key: "ralph.max_restarts",
        env: None,
        needs_trust: false,
        summary: "How often a ticket whose attempt failed is tried again.",
        default: |_, _| Ok(2),
    }
    ralph_retry_from_rescue: Switch {
        key: "ralph.retry.from_rescue",
        env: None,
        needs_trust: false,
        summary: "Whether a new attempt begins with the rescued work of the last one: `on` or `off`.",
        default: |_, _| Ok(Switch(true)),
    }
    ralph_merge: Switch {
        key: "ralph.merge",
        env: None,
        needs_trust: false,
        summary: "Whether finished work is merged into the base branch: `on` or `off`.",
        default: |_, _| Ok(Switch(true)),
    }
    ralph_uncommitted: Uncommitted {
        key: "ralph.uncommitted",
        env: None,
        needs_trust: false,
        summary: "What becomes of changes that a successful agent did not commit: `commit` or `rescue`.",
        default: |_, _| Ok(Uncommitted::Commit),
    }
    ralph_base: OrAuto<String> {
        key: "ralph.base",
        env: None,
        needs_trust: false,
        summary: "The branch that work begins at and is merged into; `auto` is the one checked out here.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_worktrees: OrAuto<PathBuf> {
        key: "ralph.worktrees",
        env: None,
        needs_trust: true,
        summary: "Where the loop makes its worktrees; `auto` is where all others are made.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_capture_json: Switch {
        key: "ralph.capture_json",
        env: None,
        needs_trust: false,
        summary: "Whether the agent's standard output is kept by its ticket: `on` or `off`.",
        default: |_, _| Ok(Switch(false)),
    }
    ralph_logs: OrAuto<PathBuf> {
        key: "ralph.logs",
        env: None,
        needs_trust: true,
        summary: "Where that is kept; `auto` is `<state-dir>/ralph/<repo>-<hash>/logs`.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_promise: OrOff<String> {
        key: "ralph.promise",
        env: None,
        needs_trust: false,
        summary: "What the loop prints when nothing is left to do, or `off`.",
        default: |_, _| Ok(OrOff(Some("<promise>COMPLETE</promise>".to_owned()))),
    }
}

/// `$XDG_STATE_HOME/sexton`, else `~/.local/state/sexton`. A relative variable is ignored, as the XDG
/// specification asks.
fn default_state_dir(layers: &Layers) -> Result<PathBuf, ConfigError> {
    let absolute = |name| layers.env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("sexton"))
        .ok_or(ConfigError::NoStateDir)
}

#[cfg(test)]
mod tests;
