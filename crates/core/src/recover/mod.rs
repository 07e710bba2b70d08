//! Recovery: after any crash, put everything in order.
//!
//! It looks ([`observe`]), decides ([`plan`], a pure function), acts ([`recover`]) and reports. There is
//! no journal: a run that was killed is simply planned again from what is true, so every step is one that
//! can be done twice. Nothing is signalled or removed because of something that nobody could tell.

mod act;
mod adopt;
mod case;
mod end;
mod forget;
mod ground;
mod observe;
mod plan;
mod policy;
mod record;
mod report;
mod retention;
mod strays;
mod yard;

pub use act::{clear_strays, recover};
pub use forget::{Forgotten, forget};
pub use ground::{Ground, MarkedFiles, Phase, Premises, Progress, RecoverError, Silent};
pub use observe::{Sighting, observe};
pub use plan::{Cause, Decision, Plan, Step, Verdict, plan};
pub use policy::{Adoption, Policy, Retention};
pub use report::{AgeBuckets, Outcome, Pruned, Report, Seconds, SessionReport, WorktreeCounts};
pub use retention::prune;

pub(crate) use plan::owner_is_gone;
