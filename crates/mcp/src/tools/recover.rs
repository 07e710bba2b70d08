//! `recover`: put everything in order after a crash, or say what that would do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::recover::{Policy, Report, Silent};

use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;

pub(super) struct Recover;

/// Whether something is to be changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Only say what would be done, which is meant without a word; `false` does it, where the user allows that.
    #[serde(default = "only_look")]
    dry_run: bool,
}

fn only_look() -> bool {
    true
}

/// What was done, or would be.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// The report of the recovery.
    report: Report,
}

impl Work for Recover {
    const NAME: &'static str = "recover";
    const TITLE: &'static str = "Recover after a crash";
    const DESCRIPTION: &'static str = "Put everything in order: end orphaned sessions, rescue the work in their \
        worktrees, remove those, let old records go. Says only what it would do unless `dry_run` is false.";
    const EFFECT: Effect = Effect::Ends;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        if !arguments.dry_run {
            server.rights().require_recover()?;
        }
        let recovered = server.blocking(move |server| {
            let house = server.house();
            let policy = Policy { dry_run: arguments.dry_run, ..Policy::from_config(&house.config) };
            Ok(pollster::block_on(house.recover(&policy, &Silent))?)
        });
        let report: Report = recovered.await?;
        let failed = report.failed;
        let told = Told { report };
        Ok(match failed {
            0 => Answer::of(&told),
            some => Answer::failed(
                &told,
                Refusal::new(
                    format!("{some} of the sessions could not be cleaned up"),
                    "each says why in `report.sessions`; the next recovery tries again",
                ),
            ),
        })
    }
}
