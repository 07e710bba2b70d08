//! `sexton resume`: take over the loop of this agent's earlier session.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sexton_core::duration::parse_duration;
use sexton_core::probe::COOKIE;
use sexton_core::resume::{
    AgentIdentity, Claim, Dialect, Ground, LOCK_WAIT, Payload, Reason, Resumption, Sight, find_current,
    resume,
};
use sexton_core::session::find_session;
use sexton_core::store::Access;
use sexton_core::{SessionId, Store, StoreError};
use sexton_embed::{now, require_safe, require_state_dir, this_host};

use crate::args::GlobalArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, chain};
use crate::hook::Hook;
use crate::screen::Screen;

/// Take over the loop of this agent's earlier session.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton resume --agent-session 0199a213-81c0-7800-8aa1-bbab2a035a53
  sexton resume --thread t-4 --session k3v9 --json
  sexton resume --hook claude                 in a hook of Claude Code; it reads the hook's JSON
  sexton resume --hook codex                  as `notify` of Codex; docs/hooks.md shows the settings")]
pub struct ResumeArgs {
    /// The agent's own id of its conversation
    #[arg(long, value_name = "ID", value_parser = parse_agent_id, conflicts_with = "hook")]
    agent_session: Option<String>,
    /// The agent's own id of its thread; counts where no conversation was recorded
    #[arg(long, value_name = "ID", value_parser = parse_agent_id, conflicts_with = "hook")]
    thread: Option<String>,
    /// The session that goes on [default: the one this command runs in]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// How long a loop that nobody touched can still be taken over [default: resume.stale]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stale: Option<Duration>,
    /// Exit with an error where the loop was refused, or where a hook had trouble
    #[arg(long)]
    strict: bool,
    /// Read the JSON that this agent hands to its hooks, and never fail its turn
    #[arg(long, value_enum, value_name = "AGENT")]
    hook: Option<Hook>,
    /// The hook's JSON, where the agent adds it as an argument; else it is read from standard input
    #[arg(value_name = "PAYLOAD", requires = "hook")]
    payload: Option<OsString>,
}

fn parse_agent_id(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.parse::<SessionId>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("an agent's id is 1 to 64 letters, digits, `_` or `-`".to_owned())
}

/// Whether these arguments are those of a hook that must not fail its agent's turn, however wrong they are.
/// To Claude Code the exit code of a usage error means that the turn may not end.
pub fn is_lenient(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<_> = arguments.skip(1).collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let hook = words.iter().any(|word| word == "--hook" || word.to_string_lossy().starts_with("--hook="));
    has("resume") && hook && !has("--strict")
}

/// Takes the loop over. A hook's own trouble is told and forgiven, unless it is to be strict.
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
    for (said, kept) in [(&payload.session, agent.session_id()), (&payload.thread, agent.thread_id())] {
        if let Some(said) = said.as_deref().filter(|said| kept.is_none() && !said.is_empty()) {
            let shown: String = said.chars().take(80).flat_map(char::escape_debug).collect();
            screen.warn(&format!("`{shown}` is ignored: it cannot be an agent's id"));
        }
    }
    let context = Context::load(global, screen)?;
    let (store, current) = match open(&args, &context).await? {
        Place::In(store, current) => (store, current),
        Place::Nowhere(dialect) => {
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
        Ok(Sight { probe, host: this_host() })
    };
    let ground = Ground { store: store.as_ref(), sight: &sight, clock: &now, lock_wait: LOCK_WAIT };
    let resumption = resume(&ground, current.as_ref(), &claim).await?;
    report(&args, &resumption, dialect, context.screen)
}

/// The store and the current session in it.
enum Place {
    /// Nothing names a session here.
    Nowhere(&'static Dialect),
    /// The store, open for writing, and the session that is named.
    In(Box<dyn Store>, Option<SessionId>),
}

/// Opens the store, and finds the current session in it. Where nothing names one, nothing is made either, and
/// where nothing could, a hook does not even open it: it fires in agents that Sexton knows nothing of, at every turn.
async fn open(args: &ResumeArgs, context: &Context<'_>) -> Result<Place, Failure> {
    if args.session.is_none() && std::env::var_os(COOKIE).is_none() {
        // Who asks by hand, or wants to know of trouble, hears of a store that cannot be used.
        if args.hook.is_some() && !args.strict {
            let dialect = context.dialect()?;
            let named = dialect.session_variables.iter().any(|name| variable(name).is_some());
            if !named && !dialect.names_current {
                return Ok(Place::Nowhere(dialect));
            }
        }
        require_safe(context.state_dir())?;
        let store = context.open_store_as_it_is(Access::Read)?;
        if find_current(store.as_ref(), variable).await?.is_none() {
            return Ok(Place::Nowhere(store.dialect()));
        }
    }
    require_state_dir(context.state_dir())?;
    let store = context.open_store_as_it_is(Access::Write)?;
    // A damaged store is no reason to say less than that the current record cannot be read, if that is so.
    if store.damage().iter().all(|damage| damage.harmless) {
        context.pending_exits().commit(store.as_ref())?;
    }
    let current = match &args.session {
        Some(named) => Some(require_named(store.as_ref(), named).await?),
        None => find_current(store.as_ref(), variable).await?,
    };
    Ok(Place::In(store, current))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The id of the session that its user names; one that cannot be read has its id all the same.
async fn require_named(store: &dyn Store, named: &str) -> Result<SessionId, Failure> {
    if let Ok(id) = named.parse::<SessionId>()
        && let Err(StoreError::DamagedRecord { .. } | StoreError::Record { .. }) = store.load(&id).await
    {
        return Ok(id);
    }
    Ok(find_session(store, named).await?.id)
}

/// The limit that another tool's variables set, in milliseconds.
fn stale_variable(dialect: &Dialect) -> Option<Duration> {
    let set = dialect.stale_variables.iter().filter_map(|name| variable(name));
    let mut usable = set.filter_map(|value| value.trim().parse().ok()).filter(|limit| *limit > 0);
    usable.next().map(Duration::from_millis)
}

/// tmux calls its panes `%0`, `%1` …
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
    let (sentence, hint) = told(resumption);
    if screen.json {
        screen.document(&document(resumption, dialect))?;
    } else if args.hook.is_none() {
        screen.line(&format!("{}: {sentence}", dialect.word(resumption.reason)))?;
    } else if resumption.resumed || is_worth_telling(resumption.reason) {
        // What a hook prints on its standard output, some agents read as a message to them.
        screen.note(&format!("sexton: {sentence}"));
    }
    if let Some(hint) = hint.filter(|_| args.hook.is_none() || is_worth_telling(resumption.reason)) {
        screen.hint(&hint);
    }
    Ok(match resumption.reason {
        Reason::CurrentLoopUnreadable => Exit::STORE_UNUSABLE,
        reason if args.strict && reason.is_refusal() => Exit::FAILED,
        _ => Exit::DONE,
    })
}

/// Whether a hook says it. That there is no session here is nothing to say at every turn of every agent.
fn is_worth_telling(reason: Reason) -> bool {
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

/// The reason in a sentence, and what can be done about it.
fn told(resumption: &Resumption) -> (String, Option<String>) {
    let name = |id: &Option<SessionId>| id.as_ref().map_or_else(String::new, ToString::to_string);
    let (source, target) = (name(&resumption.source), name(&resumption.target));
    let evidence = resumption.evidence.as_deref().unwrap_or_default();
    let plain = |sentence: String| (sentence, None);
    match resumption.reason {
        Reason::Resumed => plain(format!("session {target} goes on with the loop of session {source}")),
        Reason::CurrentLoopActive => plain(match resumption.updated_current_owner {
            true => format!("session {target} drives its loop, whose owner was brought up to date"),
            false => format!("session {target} drives its loop"),
        }),
        Reason::CurrentLoopAbandonedStale => plain(format!(
            "the loop of session {target} was not touched for too long and is marked as abandoned"
        )),
        Reason::CurrentLoopPresent => {
            plain(format!("session {target} has a loop that is not active; nothing was changed"))
        }
        Reason::CurrentLoopUnreadable => (
            format!("the record of session {target} cannot be read; nothing was changed"),
            Some("`sexton doctor` says what is damaged".to_owned()),
        ),
        Reason::CurrentSessionMissing => (
            "no session is the current one; nothing was changed".to_owned(),
            Some("start the agent with `sexton run`, or give `--session ID`".to_owned()),
        ),
        Reason::AgentIdentityMissing => (
            "nobody says which agent this is; nothing was changed".to_owned(),
            Some("give `--agent-session ID` or `--thread ID`".to_owned()),
        ),
        Reason::NoMatchingPriorLoop => plain("this agent left no loop behind".to_owned()),
        Reason::MatchingPriorLoopAbandonedStale => plain(
            "the loop that this agent left was not touched for too long and is marked as abandoned"
                .to_owned(),
        ),
        Reason::MultipleMatchingPriorLoops => (
            format!("several sessions have a loop of this agent ({evidence}); nothing was changed"),
            Some("`sexton loop set ID active=false` for all but one of them".to_owned()),
        ),
        Reason::PriorSessionRunning => (
            format!("session {source} still has that loop ({evidence}); nothing was changed"),
            Some(format!(
                "`sexton stop {source}` ends it; `sexton forget {source}` is your word that it is gone"
            )),
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
    fn only_what_tmux_calls_a_pane_is_one() {
        assert!(is_pane("%0") && is_pane("%123"));
        for text in ["", "%", "0", "% 1", "%1\n", "%-1", "%1;kill", &format!("%{}", "1".repeat(21))] {
            assert!(!is_pane(text), "{text:?}");
        }
    }

    #[test]
    fn a_hook_is_known_by_its_arguments_before_they_are_understood() {
        let lenient = |words: &str| is_lenient(words.split(' ').map(OsString::from));
        assert!(lenient("sexton resume --hook claude --bogus"));
        assert!(lenient("sexton --json resume --hook=nobody"));
        assert!(!lenient("sexton resume --hook claude --strict --bogus"));
        assert!(!lenient("sexton resume --bogus"));
        assert!(!lenient("sexton run --hook claude"));
    }
}
