//! `sexton resume`: continues the loop of this agent's earlier session.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sexton_core::duration::parse_duration;
use sexton_core::probe::COOKIE;
use sexton_core::resume::{
    AgentIdentity, Claim, Dialect, LOCK_WAIT, Payload, Reason, ResumeContext, Resumption, Sight,
    find_current, resume,
};
use sexton_core::session::find_session;
use sexton_core::store::Access;
use sexton_core::{SessionId, Store, StoreError};
use sexton_service::{now, require_safe, require_state_dir};

use crate::args::GlobalArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, chain};
use crate::hook::Hook;
use crate::screen::{Screen, visible};

/// Continue the loop of this agent's earlier session.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton resume --agent-session 0199a213-81c0-7800-8aa1-bbab2a035a53
  sexton resume --thread t-4 --session k3v9 --json
  sexton resume --hook claude                 as a hook of Claude Code; reads the hook's JSON
  sexton resume --hook codex                  as `notify` of Codex; see docs/hooks.md")]
pub struct ResumeArgs {
    /// The agent's conversation id
    #[arg(long, value_name = "ID", value_parser = parse_agent_id, conflicts_with = "hook")]
    agent_session: Option<String>,
    /// The agent's thread id; used if no conversation id was recorded
    #[arg(long, value_name = "ID", value_parser = parse_agent_id, conflicts_with = "hook")]
    thread: Option<String>,
    /// Session that continues the loop [default: the session that this command runs in]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Maximum time since the last update of a loop that can be continued [default: resume.stale]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stale: Option<Duration>,
    /// Exit with an error if the loop cannot be continued or the hook fails
    #[arg(long)]
    strict: bool,
    /// Read the JSON that this agent passes to its hooks, and always exit with 0 unless `--strict` is set
    #[arg(long, value_enum, value_name = "AGENT")]
    hook: Option<Hook>,
    /// The hook's JSON, if the agent passes it as an argument [default: read standard input]
    #[arg(value_name = "PAYLOAD", requires = "hook")]
    payload: Option<OsString>,
}

fn parse_agent_id(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.parse::<SessionId>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("an agent id is 1 to 64 letters, digits, `_` or `-`".to_owned())
}

/// Returns whether these arguments, valid or not, are those of a hook that must not fail the agent's turn.
/// Claude Code interprets the exit code of a usage error as a request not to end the turn.
pub fn is_lenient(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<_> = arguments.skip(1).collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let hook = words.iter().any(|word| word == "--hook" || word.to_string_lossy().starts_with("--hook="));
    has("resume") && hook && !has("--strict")
}

/// Continues the loop. An error in a hook is printed, but does not change the exit code unless `--strict` is set.
pub async fn run(args: ResumeArgs, global: &GlobalArgs, screen: &mut Screen) -> Result<Exit, Failure> {
    let lenient = args.hook.is_some() && !args.strict;
    match attempt(args, global, screen).await {
        Err(failure) if lenient => {
            screen.fail(&failure);
            Ok(Exit::DONE)
        }
        Ok(_) if lenient => Ok(Exit::DONE),
        other => other,
    }
}

async fn attempt(args: ResumeArgs, global: &GlobalArgs, screen: &mut Screen) -> Result<Exit, Failure> {
    let payload = match args.hook {
        Some(hook) => hook.read(args.payload.as_deref())?,
        None => Payload { session: args.agent_session.clone(), thread: args.thread.clone(), turn: false },
    };
    let agent = AgentIdentity::new(payload.session.as_deref(), payload.thread.as_deref());
    for (given, accepted) in [(&payload.session, agent.session_id()), (&payload.thread, agent.thread_id())] {
        if let Some(given) = given.as_deref().filter(|given| accepted.is_none() && !given.is_empty()) {
            let shown: String = given.chars().take(80).flat_map(char::escape_debug).collect();
            screen.warn(&format!("`{shown}` is ignored: it is not a valid agent id"));
        }
    }
    let context = Context::load(global, screen)?;
    let (store, current) = match open(&args, &context).await? {
        Opened::Store(store, current) => (store, current),
        Opened::NoSession(dialect) => {
            let resumption = Resumption::unseen(Reason::CurrentSessionMissing);
            return report(&args, &resumption, dialect, context.screen);
        }
    };
    let dialect = store.dialect();
    let claim = Claim {
        agent,
        kind: args.hook.map(|hook| hook.agent().to_owned()),
        pane: std::env::var("TMUX_PANE").ok().filter(|pane| is_pane(pane)),
        turn: payload.turn,
        stale: args.stale.or_else(|| stale_variable(dialect)).unwrap_or(context.config.resume_stale.value),
    };
    let sight = || {
        let probe = context.open_probe().map_err(|error| chain(&error))?;
        let here = pollster::block_on(context.here(probe.as_ref())).map_err(|error| chain(&error))?;
        Ok(Sight { probe, here })
    };
    let resume_context =
        ResumeContext { store: store.as_ref(), sight: &sight, clock: &now, lock_wait: LOCK_WAIT };
    let resumption = resume(&resume_context, current.as_ref(), &claim).await?;
    report(&args, &resumption, dialect, context.screen)
}

/// The opened store and the current session in it.
enum Opened {
    /// There is no current session.
    NoSession(&'static Dialect),
    /// The store, opened for writing, and the current session.
    Store(Box<dyn Store>, Option<SessionId>),
}

/// Opens the store and finds the current session in it. Creates nothing if there is no current session. A hook
/// does not even open the store if nothing can name a session, because it also runs at every turn of agents that
/// Sexton does not track.
async fn open(args: &ResumeArgs, context: &Context<'_>) -> Result<Opened, Failure> {
    if args.session.is_none() && std::env::var_os(COOKIE).is_none() {
        // Without `--hook`, or with `--strict`, an unusable store is an error.
        if args.hook.is_some() && !args.strict {
            let dialect = context.dialect()?;
            let named = dialect.session_variables.iter().any(|name| variable(name).is_some());
            if !named && !dialect.names_current {
                return Ok(Opened::NoSession(dialect));
            }
        }
        require_safe(context.state_dir())?;
        let store = context.open_store_as_it_is(Access::Read)?;
        if find_current(store.as_ref(), variable).await?.is_none() {
            return Ok(Opened::NoSession(store.dialect()));
        }
    }
    require_state_dir(context.state_dir())?;
    let store = context.open_store_as_it_is(Access::Write)?;
    // A damaged store is not an error yet: the result may be that the current record cannot be read.
    if store.damage().iter().all(|damage| damage.harmless) {
        context.commit_exits(store.as_ref())?;
    }
    let current = match &args.session {
        Some(named) => Some(require_named(store.as_ref(), named).await?),
        None => find_current(store.as_ref(), variable).await?,
    };
    Ok(Opened::Store(store, current))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the id of the given session. An unreadable record is found by its full id.
async fn require_named(store: &dyn Store, named: &str) -> Result<SessionId, Failure> {
    if let Ok(id) = named.parse::<SessionId>()
        && let Err(StoreError::DamagedRecord { .. } | StoreError::Record { .. }) = store.load(&id).await
    {
        return Ok(id);
    }
    Ok(find_session(store, named).await?.id)
}

/// Returns the limit from another tool's environment variables, which are in milliseconds.
fn stale_variable(dialect: &Dialect) -> Option<Duration> {
    let set = dialect.stale_variables.iter().filter_map(|name| variable(name));
    let mut usable = set.filter_map(|value| value.trim().parse().ok()).filter(|limit| *limit > 0);
    usable.next().map(Duration::from_millis)
}

/// Returns whether `text` is a tmux pane id: `%0`, `%1`, …
fn is_pane(text: &str) -> bool {
    let number = text.strip_prefix('%').unwrap_or_default();
    (1..=20).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn report(
    args: &ResumeArgs,
    resumption: &Resumption,
    dialect: &Dialect,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let (sentence, hint) = describe(resumption);
    if screen.json {
        screen.document(&document(resumption, dialect))?;
    } else if args.hook.is_none() {
        screen.line(&visible(&format!("{}: {sentence}", dialect.word(resumption.reason))))?;
    } else if resumption.resumed || is_worth_printing(resumption.reason) {
        // Some agents read the standard output of a hook as a message, so this goes to stderr.
        screen.note(&format!("sexton: {sentence}"));
    }
    if let Some(hint) = hint.filter(|_| args.hook.is_none() || is_worth_printing(resumption.reason)) {
        screen.hint(&hint);
    }
    Ok(match resumption.reason {
        Reason::CurrentLoopUnreadable => Exit::STORE_UNUSABLE,
        reason if args.strict && reason.is_refusal() => Exit::FAILED,
        _ => Exit::DONE,
    })
}

/// Returns whether a hook prints the reason. A missing session is not worth a message at every turn of every agent.
fn is_worth_printing(reason: Reason) -> bool {
    reason.is_refusal() && reason != Reason::CurrentSessionMissing
}

fn document(resumption: &Resumption, dialect: &Dialect) -> Value {
    json!({
        "current_session": resumption.current_session,
        "resumed": resumption.resumed,
        "updated_current_owner": resumption.updated_current_owner,
        "reason": dialect.word(resumption.reason),
        "source": resumption.source,
        "target": resumption.target,
    })
}

/// Returns the reason as a sentence, and a hint.
fn describe(resumption: &Resumption) -> (String, Option<String>) {
    let name = |id: &Option<SessionId>| id.as_ref().map_or_else(String::new, ToString::to_string);
    let (source, target) = (name(&resumption.source), name(&resumption.target));
    let evidence = resumption.evidence.as_deref().unwrap_or_default();
    let plain = |sentence: String| (sentence, None);
    match resumption.reason {
        Reason::Resumed => plain(format!("session {target} continues the loop of session {source}")),
        Reason::CurrentLoopActive => plain(match resumption.updated_current_owner {
            true => format!("session {target} runs its own loop; the loop's owner was updated"),
            false => format!("session {target} runs its own loop"),
        }),
        Reason::CurrentLoopAbandonedStale => {
            plain(format!("the loop of session {target} is stale and was marked as abandoned"))
        }
        Reason::CurrentLoopPresent => {
            plain(format!("session {target} has an inactive loop; nothing was changed"))
        }
        Reason::CurrentLoopUnreadable => (
            format!("the record of session {target} cannot be read; nothing was changed"),
            Some("`sexton doctor` shows the damage".to_owned()),
        ),
        Reason::CurrentSessionMissing => (
            "there is no current session; nothing was changed".to_owned(),
            Some("start the agent with `sexton run`, or use `--session ID`".to_owned()),
        ),
        Reason::AgentIdentityMissing => (
            "the agent is unknown; nothing was changed".to_owned(),
            Some("use `--agent-session ID` or `--thread ID`".to_owned()),
        ),
        Reason::NoMatchingPriorLoop => plain("no earlier loop of this agent found".to_owned()),
        Reason::MatchingPriorLoopAbandonedStale => {
            plain("the earlier loop of this agent is stale and was marked as abandoned".to_owned())
        }
        Reason::MultipleMatchingPriorLoops => (
            format!("several sessions have a loop of this agent ({evidence}); nothing was changed"),
            Some("run `sexton loop set ID active=false` for all but one of them".to_owned()),
        ),
        Reason::PriorSessionRunning => (
            format!("session {source} still has that loop ({evidence}); nothing was changed"),
            Some(format!("`sexton stop {source}` stops it; if it is gone, run `sexton forget {source}`")),
        ),
        Reason::LockTimeout => (
            format!("another resume did not finish within {} s; nothing was changed", LOCK_WAIT.as_secs()),
            Some("try again when it has finished".to_owned()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tmux_pane_ids_are_accepted() {
        assert!(is_pane("%0") && is_pane("%123"));
        for text in ["", "%", "0", "% 1", "%1\n", "%-1", "%1;kill", &format!("%{}", "1".repeat(21))] {
            assert!(!is_pane(text), "{text:?}");
        }
    }

    #[test]
    fn hooks_are_recognised_even_with_invalid_arguments() {
        let lenient = |words: &str| is_lenient(words.split(' ').map(OsString::from));
        assert!(lenient("sexton resume --hook claude --bogus"));
        assert!(lenient("sexton --json resume --hook=unknown"));
        assert!(!lenient("sexton resume --hook claude --strict --bogus"));
        assert!(!lenient("sexton resume --bogus"));
        assert!(!lenient("sexton run --hook claude"));
    }
}
