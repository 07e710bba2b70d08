//! `sexton loop`: shows or sets a session's loop state.

use clap::{Args, Subcommand};
use serde_json::Value;
use sexton_core::resume::find_current;
use sexton_core::session::{LoopState, find_session};
use sexton_core::store::update_session;
use sexton_core::{Session, Store, Time};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::{Tone, visible};

/// Show or set a session's loop state.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton loop show k3v9
  sexton loop set k3v9 active=true phase=executing iteration=0 max_iterations=50
  sexton loop set iteration=4 note='half way'     inside a session: set its own loop state
  sexton loop set k3v9 note=null                  remove a key")]
pub struct LoopArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show a session's loop state
    #[command(after_help = "\
Examples:
  sexton loop show nightly
  sexton loop show --json          inside a session: show its own loop state")]
    Show {
        /// Session id, prefix of an id, or name [default: the session that this command runs in]
        #[arg(value_name = "ID")]
        session: Option<String>,
    },
    /// Set keys of a session's loop state; `null` removes a key
    #[command(after_help = "\
Examples:
  sexton loop set nightly active=true phase=executing iteration=0 max_iterations=50
  sexton loop set iteration=4      inside a session: set its own loop state
  sexton loop set nightly note=null")]
    Set {
        /// Session [default: the session that this command runs in], and the keys and values to set
        #[arg(value_name = "[ID] KEY=VALUE", required = true)]
        words: Vec<String>,
    },
}

/// The maximum length of a key.
const MAX_KEY: usize = 64;
/// The maximum length of a value. It is limited because a loop's state is read at every turn.
const MAX_VALUE: usize = 64 << 10;

/// Runs the subcommand.
pub async fn run(args: &LoopArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    match &args.action {
        Action::Show { session } => show(session.as_deref(), context).await,
        Action::Set { words } => set(words, context).await,
    }
}

async fn show(named: Option<&str>, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let store = context.open_for_reading()?;
    let session = require_session(store.as_ref(), named).await?;
    print(&session, context)?;
    Ok(Exit::DONE)
}

async fn set(words: &[String], context: &mut Context<'_>) -> Result<Exit, Failure> {
    let (named, pairs) = match words {
        [first, rest @ ..] if !first.contains('=') => (Some(first.as_str()), rest),
        all => (None, all),
    };
    if pairs.is_empty() {
        return Err(Failure::usage("nothing to set").hint("add KEY=VALUE, such as `iteration=4`"));
    }
    let edits = pairs.iter().map(|pair| Edit::parse(pair)).collect::<Result<Vec<_>, _>>()?;
    let store = context.open_for_writing()?;
    let id = require_session(store.as_ref(), named).await?.id;
    let now = context.now;
    let changed = update_session(store.as_ref(), &id, |session| {
        let before = session.loop_state.clone();
        let state = session.loop_state.get_or_insert_default();
        edits.iter().for_each(|edit| edit.apply(state));
        if before.as_ref() == Some(state) {
            return false;
        }
        stamp(state, &edits, now);
        true
    })
    .await?
    .ok_or_else(|| Failure {
        exit: Exit::NO_SUCH_SESSION,
        ..Failure::new(format!("session {id} no longer exists"))
    })?;
    let state = changed.loop_state.clone().unwrap_or_default();
    if state.active && state.is_over() {
        let phase = state.phase.unwrap_or_default();
        context.screen.warn(&format!(
            "the loop is active, but its phase `{}` means that it has ended",
            phase.trim().escape_debug()
        ));
    }
    if context.screen.json {
        print(&changed, context)?;
    }
    Ok(Exit::DONE)
}

/// Updates the times that depend on a change, unless the edits set them.
fn stamp(state: &mut LoopState, edits: &[Edit], now: Time) {
    let sets = |wanted: fn(&Edit) -> bool| edits.iter().any(wanted);
    if !sets(|edit| matches!(edit, Edit::UpdatedAt(_))) {
        state.updated_at = Some(now);
    }
    let binds = sets(|edit| matches!(edit, Edit::Pane(Some(_))));
    if binds && !sets(|edit| matches!(edit, Edit::PaneSetAt(_))) {
        state.pane_set_at = Some(now);
    }
}

/// Returns the given session, or the one that this command runs in.
async fn require_session(store: &dyn Store, named: Option<&str>) -> Result<Session, Failure> {
    if let Some(named) = named {
        return Ok(find_session(store, named).await?);
    }
    let current = find_current(store, |name| std::env::var(name).ok()).await?.ok_or_else(|| {
        Failure::usage("no session given, and this command does not run in a session")
            .hint("`sexton ps` lists the sessions")
    })?;
    Ok(find_session(store, current.as_str()).await?)
}

fn print(session: &Session, context: &Context<'_>) -> Result<(), Failure> {
    if context.screen.json {
        return context.screen.document(&session.loop_state);
    }
    let Some(state) = &session.loop_state else {
        context.screen.note(&format!("session {} has no loop state", session.id));
        return Ok(());
    };
    let document = serde_json::to_value(state)
        .map_err(|error| Failure::new(format!("cannot write the loop as JSON: {error}")))?;
    for (key, value) in document.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let key = context.screen.style().paint(Tone::Faint, &format!("{:>16}", visible(key)));
        context.screen.line(&format!("{key}  {}", visible(&value)))?;
    }
    Ok(())
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq)]
enum Edit {
    Active(bool),
    Phase(Option<String>),
    Iteration(Option<u64>),
    MaxIterations(Option<u64>),
    Pane(Option<String>),
    PaneSetAt(Option<Time>),
    UpdatedAt(Option<Time>),
    LastTurnAt(Option<Time>),
    Other(String, Option<Value>),
}

impl Edit {
    fn parse(pair: &str) -> Result<Edit, Failure> {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("`{}` is not KEY=VALUE", shorten(pair))))?;
        require_key(key)?;
        if value.len() > MAX_VALUE {
            return Err(Failure::usage(format!("the value of `{key}` is longer than {MAX_VALUE} bytes")));
        }
        let refuse = |expected: &str| {
            Failure::usage(format!("`{key}` cannot be `{}`: expected {expected}", shorten(value)))
        };
        let number =
            || optional(value, |text| text.parse().ok()).ok_or_else(|| refuse("a whole number or `null`"));
        let time = || {
            optional(value, |text| text.parse().ok())
                .ok_or_else(|| refuse("a time such as `2026-01-31T12:00:00Z` or `null`"))
        };
        let text = || {
            let plain = |text: &str| !text.chars().any(char::is_control);
            optional(value, |text| plain(text).then(|| text.to_owned()))
                .ok_or_else(|| refuse("text without control characters"))
        };
        Ok(match key {
            "active" => Edit::Active(value.parse().map_err(|_| refuse("`true` or `false`"))?),
            "phase" => Edit::Phase(text()?),
            "iteration" => Edit::Iteration(number()?),
            "max_iterations" => Edit::MaxIterations(number()?),
            "pane" => Edit::Pane(text()?),
            "pane_set_at" => Edit::PaneSetAt(time()?),
            "updated_at" => Edit::UpdatedAt(time()?),
            "last_turn_at" => Edit::LastTurnAt(time()?),
            _ => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
                Edit::Other(key.to_owned(), Some(value).filter(|value| !value.is_null()))
            }
        })
    }

    fn apply(&self, state: &mut LoopState) {
        match self.clone() {
            Edit::Active(active) => state.active = active,
            Edit::Phase(phase) => state.phase = phase,
            Edit::Iteration(iteration) => state.iteration = iteration,
            Edit::MaxIterations(max_iterations) => state.max_iterations = max_iterations,
            Edit::Pane(pane) => state.pane = pane,
            Edit::PaneSetAt(time) => state.pane_set_at = time,
            Edit::UpdatedAt(time) => state.updated_at = time,
            Edit::LastTurnAt(time) => state.last_turn_at = time,
            Edit::Other(key, Some(value)) => drop(state.extra.insert(key, value)),
            Edit::Other(key, None) => drop(state.extra.shift_remove(&key)),
        }
    }
}

/// Parses an optional value: `Some(None)` if it is empty or `null`, `None` if `read` fails.
fn optional<T>(value: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    match value {
        "" | "null" => Some(None),
        text => read(text).map(Some),
    }
}

fn require_key(key: &str) -> Result<(), Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(plain) {
        return Ok(());
    }
    let shown = shorten(key);
    Err(Failure::usage(format!(
        "`{shown}` is not a valid key: expected 1 to {MAX_KEY} letters, digits, `_` or `-`"
    )))
}

fn shorten(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_keys_are_typed_and_others_are_json_or_text() {
        let parse = |pair| Edit::parse(pair).unwrap();
        assert_eq!(parse("active=true"), Edit::Active(true));
        assert_eq!(parse("iteration=4"), Edit::Iteration(Some(4)));
        assert_eq!(parse("iteration=null"), Edit::Iteration(None));
        assert_eq!(parse("phase=a=b"), Edit::Phase(Some("a=b".to_owned())));
        assert_eq!(parse("phase=42"), Edit::Phase(Some("42".to_owned())));
        let noon = Some("2026-01-02T12:00:00Z".parse().unwrap());
        assert_eq!(parse("last_turn_at=2026-01-02T14:00:00+02:00"), Edit::LastTurnAt(noon));
        assert_eq!(parse("last_turn_at=2026-01-02T12:00:00"), Edit::LastTurnAt(noon));
        assert_eq!(parse("n=[1,{}]"), Edit::Other("n".to_owned(), Some(json!([1, {}]))));
        assert_eq!(parse("n=half way"), Edit::Other("n".to_owned(), Some(json!("half way"))));
        assert_eq!(parse("n="), Edit::Other("n".to_owned(), Some(json!(""))));
        assert_eq!(parse("n=null"), Edit::Other("n".to_owned(), None));
    }

    #[test]
    fn invalid_edits_are_rejected_with_the_reason() {
        for (pair, expected) in [
            ("active=yes", "`active` cannot be `yes`: expected `true` or `false`"),
            ("active=", "`active` cannot be ``: expected `true` or `false`"),
            ("iteration=-1", "`iteration` cannot be `-1`: expected a whole number or `null`"),
            ("iteration=1.5", "`iteration` cannot be `1.5`: expected a whole number or `null`"),
            ("phase=a\nb", "`phase` cannot be `a\\nb`: expected text without control characters"),
            ("=x", "`` is not a valid key: expected 1 to 64 letters, digits, `_` or `-`"),
            ("a/b=x", "`a/b` is not a valid key: expected 1 to 64 letters, digits, `_` or `-`"),
            ("plain", "`plain` is not KEY=VALUE"),
        ] {
            assert_eq!(Edit::parse(pair).unwrap_err().message, expected, "{pair}");
        }
        assert!(Edit::parse("updated_at=yesterday").unwrap_err().message.contains("2026-01-31T12:00:00Z"));
        let long = format!("n={}", "x".repeat(MAX_VALUE + 1));
        assert_eq!(Edit::parse(&long).unwrap_err().message, "the value of `n` is longer than 65536 bytes");
    }
}
