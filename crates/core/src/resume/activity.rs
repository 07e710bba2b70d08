//! The last activity of a loop, and whether it is too long ago.

use std::time::Duration;

use super::dialect::Dialect;
use crate::session::LoopState;
use crate::{Session, Time};

/// An activity of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// When it happened.
    pub at: Time,
    /// The field that it was taken from, or the substitute.
    pub source: &'static str,
}

/// An active loop that was idle for longer than the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Staleness {
    /// How long it was idle.
    pub(super) age: Duration,
    /// How long it may be idle.
    pub(super) threshold: Duration,
    /// The source of the newest activity.
    pub(super) source: &'static str,
}

impl Activity {
    /// Returns the newest activity in a loop's own record.
    pub(super) fn newest(state: &LoopState, dialect: &Dialect) -> Option<Activity> {
        let times = [
            (state.updated_at, "updated_at"),
            (state.last_turn_at, "last_turn_at"),
            (state.pane_set_at, dialect.pane_time),
        ];
        // If two are equal, the first one is named.
        let known = times.into_iter().rev().filter_map(|(at, source)| Some(Activity { at: at?, source }));
        known.max_by_key(|activity| activity.at)
    }

    /// Returns the substitute for a loop's own times in a record of Sexton's own: the start of the session.
    pub fn of_start(session: &Session) -> Activity {
        match session.started_at.filter(|started| *started >= session.created_at) {
            Some(at) => Activity { at, source: "started_at" },
            None => Activity { at: session.created_at, source: "created_at" },
        }
    }
}

impl Staleness {
    /// Returns the staleness of a loop at `now`, if it is stale. A loop without any activity time counts as
    /// fresh, because its age is unknown.
    pub(super) fn of(
        state: &LoopState,
        fallback: Option<Activity>,
        dialect: &Dialect,
        threshold: Duration,
        now: Time,
    ) -> Option<Staleness> {
        let activity = Activity::newest(state, dialect).or(fallback)?;
        let age = activity.at.age_at(now);
        (age > threshold).then_some(Staleness { age, threshold, source: activity.source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn stale(state: &LoopState, fallback: Option<Activity>) -> Option<&'static str> {
        let now = time("2026-01-02T12:00:00Z");
        Staleness::of(state, fallback, &Dialect::SEXTON, LIMIT, now).map(|staleness| staleness.source)
    }

    #[test]
    fn newest_time_decides_whatever_its_offset() {
        let (old, fresh) = (time("2026-01-02T10:00:00Z"), time("2026-01-02T13:59:30+02:00"));
        let all_old = LoopState { updated_at: Some(old), last_turn_at: Some(old), ..LoopState::default() };
        assert_eq!(stale(&all_old, None), Some("updated_at"));
        let older = Some(time("2026-01-02T09:00:00"));
        assert_eq!(stale(&LoopState { updated_at: older, ..all_old.clone() }, None), Some("last_turn_at"));
        for state in [
            LoopState { updated_at: Some(fresh), ..all_old.clone() },
            LoopState { last_turn_at: Some(fresh), ..all_old.clone() },
            LoopState { pane_set_at: Some(fresh), ..all_old.clone() },
        ] {
            assert_eq!(stale(&state, None), None, "{state:?}");
        }
    }

    #[test]
    fn exact_threshold_and_future_times_are_fresh() {
        for at in ["2026-01-02T11:59:00Z", "2027-01-01T00:00:00Z"] {
            let state = LoopState { updated_at: Some(time(at)), ..LoopState::default() };
            assert_eq!(stale(&state, None), None, "{at}");
        }
        let state = LoopState { updated_at: Some(time("2026-01-02T11:58:59.999Z")), ..LoopState::default() };
        assert_eq!(stale(&state, None), Some("updated_at"));
    }

    #[test]
    fn fallback_counts_only_without_own_times() {
        let old = Activity { at: time("2026-01-01T00:00:00Z"), source: "mtime" };
        assert_eq!(stale(&LoopState::default(), Some(old)), Some("mtime"));
        assert_eq!(stale(&LoopState::default(), None), None);
        let state = LoopState { last_turn_at: Some(time("2026-01-02T11:59:59Z")), ..LoopState::default() };
        assert_eq!(stale(&state, Some(old)), None);
    }
}
