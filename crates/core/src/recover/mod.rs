//! Recovery: restores a consistent state after any crash.
//!
//! It observes ([`observe`]), decides ([`plan`], a pure function), acts ([`recover`]) and reports. There is no
//! journal: after an interrupted run the next one plans again from the present state, so every step can be
//! repeated. Unknown is never a reason to signal a process or to remove anything.

mod act;
mod adopt;
mod case;
mod context;
mod end;
mod forget;
mod format;
mod observe;
mod plan;
mod policy;
mod problem;
mod record;
mod report;
mod retention;
mod strays;
mod supervise;
mod worktrees;

pub use act::{clear_strays, recover};
pub use context::{
    MarkedFiles, Phase, Progress, RecoverError, RecoveryContext, Silent, StateFiles, UnreadableExit,
};
pub use forget::{Forgotten, forget};
pub use observe::{Sighting, observe};
pub use plan::{Cause, Decision, Plan, Step, StepKind, Verdict, plan};
pub use policy::{Adoption, Policy, Retention};
pub use problem::{Problem, ProblemKind};
pub use report::{
    AgeBuckets, FormatOutcome, FormatReport, Outcome, Pruned, Report, Seconds, SessionReport, WorktreeCounts,
};
pub use retention::{PruneReport, prune, prune_host};
pub use worktrees::is_another_hosts;

pub(crate) use plan::owner_is_gone;
