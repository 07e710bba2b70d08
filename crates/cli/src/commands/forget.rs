//! `sexton forget`: the user's word that a session which nobody can judge is gone.

use clap::Args;
use sexton_core::recover::{Forgotten, Outcome, forget};
use sexton_core::session::find_session;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Settle sessions that nobody can judge, on your word that they are gone.
///
/// No process is signalled. A worktree is rescued, and removed where nobody is in it.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton forget k3v9               its container, or its machine, is gone for good")]
pub struct ForgetArgs {
    /// Ids, beginnings of ids, or names
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<String>,
}

/// Forgets each of them.
pub async fn run(args: &ForgetArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = context.tools_for_writing()?;
    let mut ids = Vec::new();
    for name in &args.sessions {
        let id = find_session(tools.store.as_ref(), name).await?.id;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let mut reports = Vec::new();
    let mut exit = Exit::DONE;
    for id in &ids {
        match forget(&tools.ground(), id).await? {
            Forgotten::Done(report) => {
                if report.outcome == Outcome::Failed {
                    exit = Exit::PARTLY_DONE;
                }
                if let Some(error) = &report.error {
                    context.screen.warn(&format!("session {id}: {error}"));
                }
                context.screen.note(&format!("session {id} is {}", report.status));
                if report.rescue_ref.is_some() {
                    context.screen.hint(&format!("`sexton rescue restore {id}` gives its work back"));
                }
                reports.push(report);
            }
            Forgotten::AlreadyFinished(status) => {
                context.screen.note(&format!("session {id} has ended already ({status})"));
            }
            Forgotten::Running => {
                return Err(Failure::new(format!("session {id} runs: it can be seen"))
                    .hint(format!("`sexton stop {id}` ends it")));
            }
            Forgotten::NoSuchSession => {
                let failure = Failure::new(format!("there is no session {id} any more"));
                return Err(Failure { exit: Exit::NO_SUCH_SESSION, ..failure });
            }
        }
    }
    if context.screen.json {
        context.screen.document(&reports)?;
    }
    Ok(exit)
}
