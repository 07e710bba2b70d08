//! All settings. A new one is added here; nothing else lists them.

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

/// The fixed properties of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingInfo {
    /// Its key in a file: `store.url`.
    pub key: &'static str,
    /// Its environment variable.
    pub env: Option<&'static str>,
    /// Its purpose.
    pub summary: &'static str,
}

/// What a repository may set before the user trusts it: these affect only one loop in that repository. Every
/// other setting, and every new one, needs trust.
const HARMLESS: [&str; 5] = [
    "ralph.base",
    "ralph.promise",
    "ralph.capture_json",
    "ralph.sleep_between_tickets",
    "ralph.sleep_between_retries",
];

impl SettingInfo {
    /// Returns whether a repository must be trusted before its files may set it.
    pub fn needs_trust(&self) -> bool {
        !HARMLESS.contains(&self.key)
    }
}

/// A setting as `sexton config` prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownSetting {
    /// The setting.
    pub info: SettingInfo,
    /// Its value.
    pub value: serde_json::Value,
    /// The origin of the value, in words.
    pub origin: String,
}

macro_rules! settings {
    ($($field:ident: $type:ty {
        key: $key:literal,
        env: $env:expr,
        summary: $summary:literal,
        default: $default:expr,
    })*) => {
        /// The resolved configuration. Each value has its origin.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $(#[doc = $summary] pub $field: Setting<$type>,)*
            /// What an untrusted repository's file tried to set.
            pub ignored: Vec<IgnoredKey>,
            /// The state directory without the repository's layer. Trust is recorded there: a repository cannot
            /// make itself trusted.
            pub trust_dir: PathBuf,
        }

        impl Config {
            /// All settings.
            pub const SETTINGS: &'static [SettingInfo] = &[
                $(SettingInfo { key: $key, env: $env, summary: $summary },)*
            ];

            /// Resolves the layers. The only place where this happens.
            pub fn resolve(layers: &Layers) -> Result<Config, ConfigError> {
                let resolver = Resolver::new(layers, Self::SETTINGS)?;
                let trust_dir = resolver.resolve_by_user("state_dir", || default_state_dir(layers))?.value;
                // Later defaults may depend on the state directory, which is declared first.
                let mut state_dir = PathBuf::new();
                $(
                    let default: fn(&Layers, &Path) -> Result<$type, ConfigError> = $default;
                    let $field = resolver.resolve($key, || default(layers, &state_dir))?;
                    remember_state_dir(&mut state_dir, &$field.value);
                )*
                Ok(Config { $($field,)* ignored: resolver.into_ignored(), trust_dir })
            }

            /// Returns every setting with its value and origin.
            pub fn shown(&self) -> Vec<ShownSetting> {
                let values = [$((self.$field.value.to_json(), self.$field.origin.to_string()),)*];
                let settings = Self::SETTINGS.iter().copied().zip(values);
                settings.map(|(info, (value, origin))| ShownSetting { info, value, origin }).collect()
            }
        }
    };
}

/// Keeps the first resolved path, which is the state directory.
fn remember_state_dir(state_dir: &mut PathBuf, value: &dyn Any) {
    if let Some(path) = value.downcast_ref::<PathBuf>().filter(|_| state_dir.as_os_str().is_empty()) {
        state_dir.clone_from(path);
    }
}

settings! {
    state_dir: PathBuf {
        key: "state_dir",
        env: Some("SEXTON_STATE_DIR"),
        summary: "Where records, logs and backups are kept.",
        default: |layers, _| default_state_dir(layers),
    }
    store_url: StoreUrl {
        key: "store.url",
        env: Some("SEXTON_STORE"),
        summary: "The store that holds the records.",
        default: |layers, state_dir| {
            let (scheme, file) = layers.default_store;
            Ok(StoreUrl(format!("{scheme}:{}", state_dir.join(file).display())))
        },
    }
    durability: Durability {
        key: "store.durability",
        env: None,
        summary: "What a commit survives: `power` cuts, or crashes of a `process` only.",
        default: |_, _| Ok(Durability::Power),
    }
    probe: String {
        key: "probe",
        env: Some("SEXTON_PROBE"),
        summary: "How processes are observed: `auto`, or the name of a probe.",
        default: |_, _| Ok(AUTO.to_owned()),
    }
    contain: Containment {
        key: "contain",
        env: None,
        summary: "How a session's processes are contained: `auto`, `cgroup`, `systemd` or `tree`.",
        default: |_, _| Ok(Containment::Auto),
    }
    owner_grace: Duration {
        key: "owner.grace",
        env: None,
        summary: "How long a session whose owner died waits to be adopted before it is ended.",
        default: |_, _| Ok(Duration::from_secs(10)),
    }
    stop_grace: Duration {
        key: "stop.grace",
        env: None,
        summary: "Grace period before processes are killed.",
        default: |_, _| Ok(Duration::from_secs(5)),
    }
    log_max_bytes: OrOff<ByteSize> {
        key: "log.max_bytes",
        env: None,
        summary: "Maximum size of a log, or `off`; the oldest part is deleted first.",
        default: |_, _| Ok(OrOff(Some(ByteSize(64 << 20)))),
    }
    notify_command: OrOff<String> {
        key: "notify.command",
        env: None,
        summary: "A shell command to run when a session ends, or `off`.",
        default: |_, _| Ok(OrOff(None)),
    }
    backup_keep: usize {
        key: "backup.keep",
        env: None,
        summary: "How many backups are kept; the last good one is always kept.",
        default: |_, _| Ok(10),
    }
    worktree_root: OrAuto<PathBuf> {
        key: "worktree.root",
        env: None,
        summary: "Where worktrees are created: `auto` (in the state directory, one folder per repository), or a path.",
        default: |_, _| Ok(OrAuto(None)),
    }
    worktree_cleaner: String {
        key: "worktree.cleaner",
        env: None,
        summary: "How worktrees are saved and removed: `auto`, or the name of a worktree backend.",
        default: |_, _| Ok(AUTO.to_owned()),
    }
    recover_min_age: Duration {
        key: "recover.min_age",
        env: None,
        summary: "How old a session must be before recovery judges it.",
        default: |_, _| Ok(Duration::ZERO),
    }
    recover_stale: Duration {
        key: "recover.stale",
        env: None,
        summary: "Age at which a dead session counts as abandoned instead of orphaned.",
        default: |_, _| Ok(DAY * 30),
    }
    recover_stray_age: Duration {
        key: "recover.stray_age",
        env: None,
        summary: "How old a worktree without a record must be before it is rescued and removed.",
        default: |_, _| Ok(DAY),
    }
    resume_stale: Duration {
        key: "resume.stale",
        env: None,
        summary: "How long an active loop may be idle before it is no longer taken over.",
        default: |_, _| Ok(DAY),
    }
    retention_ttl: Duration {
        key: "retention.ttl",
        env: None,
        summary: "How long finished records and their logs are kept.",
        default: |_, _| Ok(DAY * 7),
    }
    retention_keep: usize {
        key: "retention.keep",
        env: None,
        summary: "How many finished records are kept at most.",
        default: |_, _| Ok(1000),
    }
    rescue_ignored: Switch {
        key: "rescue.ignored",
        env: None,
        summary: "Whether small ignored files are rescued too: `on` or `off`.",
        default: |_, _| Ok(Switch(true)),
    }
    rescue_ttl: OrOff<Duration> {
        key: "rescue.ttl",
        env: None,
        summary: "Age at which a rescue is deleted, or `off` to keep every rescue.",
        default: |_, _| Ok(OrOff(None)),
    }
    mcp_allow: TextList {
        key: "mcp.allow",
        env: None,
        summary: "Commands that `sexton mcp --allow-run` may run, as word patterns; an empty list allows all.",
        default: |_, _| Ok(TextList::default()),
    }
    mcp_deny: TextList {
        key: "mcp.deny",
        env: None,
        summary: "Commands that `sexton mcp --allow-run` may never run; overrides `mcp.allow`.",
        default: |_, _| Ok(TextList::default()),
    }
    mcp_token: OrOff<Secret> {
        key: "mcp.token",
        env: Some("SEXTON_MCP_TOKEN"),
        summary: "The bearer token that `sexton mcp --http` requires; `off` generates one. Never shown.",
        default: |_, _| Ok(OrOff(None)),
    }
    mcp_hosts: TextList {
        key: "mcp.hosts",
        env: None,
        summary: "Host names besides `localhost` for which `sexton mcp --http` accepts requests.",
        default: |_, _| Ok(TextList::default()),
    }
    ralph_parallel: usize {
        key: "ralph.parallel",
        env: None,
        summary: "How many tickets the loop works on at once.",
        default: |_, _| Ok(1),
    }
    ralph_max_iterations: usize {
        key: "ralph.max_iterations",
        env: None,
        summary: "How many tickets the loop starts before it ends.",
        default: |_, _| Ok(50),
    }
    ralph_max_iterations_per_ticket: usize {
        key: "ralph.max_iterations_per_ticket",
        env: None,
        summary: "How many times the loop starts a ticket that its query keeps returning.",
        default: |_, _| Ok(5),
    }
    ralph_agent: OrAuto<String> {
        key: "ralph.agent",
        env: None,
        summary: "The agent's command, which contains {ticket}; `auto` runs pi with the workflow.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_workflow: String {
        key: "ralph.workflow",
        env: None,
        summary: "The workflow that pi runs for a ticket.",
        default: |_, _| Ok("/tf".to_owned()),
    }
    ralph_workflow_flags: OrOff<String> {
        key: "ralph.workflow_flags",
        env: None,
        summary: "Flags after the ticket in pi's prompt, or `off`.",
        default: |_, _| Ok(OrOff(Some("--auto".to_owned()))),
    }
    ralph_ticket_query: OrAuto<String> {
        key: "ralph.ticket_query",
        env: None,
        summary: "A shell command that prints tickets, one per line; `auto` uses tk.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_completion_check: OrAuto<String> {
        key: "ralph.completion_check",
        env: None,
        summary: "A shell command that fails when nothing is left to do; `auto` uses tk if the query does.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_sleep_between_tickets: Duration {
        key: "ralph.sleep_between_tickets",
        env: None,
        summary: "How long the loop pauses before its next ticket.",
        default: |_, _| Ok(Duration::from_secs(5)),
    }
    ralph_sleep_between_retries: Duration {
        key: "ralph.sleep_between_retries",
        env: None,
        summary: "How long the loop pauses before it tries a ticket, or a merge, again.",
        default: |_, _| Ok(Duration::from_secs(10)),
    }
    ralph_attempt_timeout: OrOff<Duration> {
        key: "ralph.attempt_timeout",
        env: None,
        summary: "How long an attempt may take when tickets are worked on one by one, or `off`.",
        default: |_, _| Ok(OrOff(Some(Duration::from_secs(600)))),
    }
    ralph_dispatch_timeout: OrOff<Duration> {
        key: "ralph.dispatch_timeout",
        env: None,
        summary: "How long an attempt may take when several tickets are worked on at once, or `off`.",
        default: |_, _| Ok(OrOff(Some(Duration::from_secs(1800)))),
    }
    ralph_max_restarts: usize {
        key: "ralph.max_restarts",
        env: None,
        summary: "How many times a failed ticket is retried.",
        default: |_, _| Ok(2),
    }
    ralph_retry_from_rescue: Switch {
        key: "ralph.retry.from_rescue",
        env: None,
        summary: "Whether a new attempt starts from the rescued work of the last one: `on` or `off`.",
        default: |_, _| Ok(Switch(true)),
    }
    ralph_merge: Switch {
        key: "ralph.merge",
        env: None,
        summary: "Whether finished work is merged into the base branch: `on` or `off`.",
        default: |_, _| Ok(Switch(true)),
    }
    ralph_uncommitted: Uncommitted {
        key: "ralph.uncommitted",
        env: None,
        summary: "What happens to changes that a successful agent did not commit: `commit` or `rescue`.",
        default: |_, _| Ok(Uncommitted::Commit),
    }
    ralph_base: OrAuto<String> {
        key: "ralph.base",
        env: None,
        summary: "The branch that work starts from and is merged into; `auto` is the one checked out here.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_worktrees: OrAuto<PathBuf> {
        key: "ralph.worktrees",
        env: None,
        summary: "Where the loop creates its worktrees; `auto` uses `worktree.root`.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_capture_json: Switch {
        key: "ralph.capture_json",
        env: None,
        summary: "Whether the agent's standard output is saved per ticket: `on` or `off`.",
        default: |_, _| Ok(Switch(false)),
    }
    ralph_logs: OrAuto<PathBuf> {
        key: "ralph.logs",
        env: None,
        summary: "Where captured output is saved; `auto` is `<state-dir>/ralph/<repo>-<hash>/logs`.",
        default: |_, _| Ok(OrAuto(None)),
    }
    ralph_promise: OrOff<String> {
        key: "ralph.promise",
        env: None,
        summary: "What the loop prints when nothing is left to do, or `off`.",
        default: |_, _| Ok(OrOff(Some("<promise>COMPLETE</promise>".to_owned()))),
    }
}

/// Returns `$XDG_STATE_HOME/sexton`, or `~/.local/state/sexton`. A relative variable is ignored, as the XDG
/// specification requires.
fn default_state_dir(layers: &Layers) -> Result<PathBuf, ConfigError> {
    let absolute = |name| layers.env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("sexton"))
        .ok_or(ConfigError::NoStateDir)
}

#[cfg(test)]
mod tests;
