//! `recover`: recovers after a crash, or reports what a recovery would do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::recover::{Policy, Report, Silent};

use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;

pub(super) struct Recover;

/// Whether the recovery changes anything.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Only report what would be done. Default: true. The user must allow `false`.
    #[serde(default = "dry_run_by_default")]
    dry_run: bool,
}

fn dry_run_by_default() -> bool {
    true
}

/// What was done, or would be done.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// Report of the recovery.
    report: Report,
}

impl Work for Recover {
    const NAME: &'static str = "recover";
    const TITLE: &'static str = "Recover after a crash";
    const DESCRIPTION: &'static str = "Stop orphaned sessions, rescue the work in their worktrees, remove the \
        worktrees, and delete old records. Only reports what it would do unless `dry_run` is false.";
    const EFFECT: Effect = Effect::Ends;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        if !arguments.dry_run {
            server.rights().require_recover()?;
        }
        let recovered = server.blocking(move |server| {
            let service = server.service();
            let policy = Policy { dry_run: arguments.dry_run, ..Policy::from_config(&service.config) };
            Ok(pollster::block_on(service.recover(&policy, &Silent))?)
        });
        let report: Report = recovered.await?;
        let failed = report.failed;
        let reply = Reply { report };
        Ok(match failed {
            0 => Answer::of(&reply),
            some => Answer::failed(
                &reply,
                Refusal::new(
                    format!("{some} of the sessions could not be cleaned up"),
                    "`report.sessions` has the cause of each; the next recovery tries again",
                ),
            ),
        })
    }
}
