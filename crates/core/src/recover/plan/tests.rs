//! Tests of the plan: every row of the table, and its properties.

use std::fmt::Write;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::recover::{Adoption, Retention};
use crate::session::{Ending, Recovery, Worktree, WorktreeOutcome};
use crate::{Host, OsText, SessionId};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> Time {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

fn policy() -> Policy {
    Policy {
        min_age: Duration::from_secs(10),
        stop_grace: Duration::from_secs(5),
        kill_wait: Duration::from_secs(5),
        stale: DAY * 30,
        stray_age: DAY,
        retention: Retention { ttl: DAY * 7, keep: 1000, rescue_ttl: None },
        adopt: None,
        backup: true,
        dry_run: false,
    }
}

fn unknown() -> Liveness {
    Liveness::Unknown("it was recorded in another pid namespace".to_owned())
}

/// Returns the observation of a session that runs normally: its command, supervisor and owner are alive.
fn running() -> Sighting {
    let id: SessionId = "abcd".parse().unwrap();
    let host = Host::new("m", "laptop");
    let mut session = Session::new(id, host, now().saturating_sub(DAY));
    session.status = Status::Running;
    session.process = Some(ProcessIdentity::of_pid(100));
    session.supervisor = Some(ProcessIdentity::of_pid(99));
    session.owner = Some(ProcessIdentity::of_pid(50));
    session.worktree = Some(worktree());
    Sighting {
        session,
        ours: true,
        exit_waits: false,
        exit_unreadable: None,
        rebooted: false,
        store_omits_process: false,
        process: Some(Liveness::Alive),
        identity: Some(ProcessIdentity::of_pid(100)),
        supervisor: Some(Liveness::Alive),
        supervisor_stopped: false,
        owner: Some(Liveness::Alive),
    }
}

fn worktree() -> Worktree {
    Worktree {
        path: OsText::from("/worktrees/abcd"),
        root: Some(OsText::from("/worktrees")),
        repo: Some(OsText::from("/src")),
        branch: None,
        base: None,
        extra: serde_json::Map::new(),
    }
}

fn recovery(worktree: WorktreeOutcome) -> Recovery {
    Recovery {
        cause: "process_dead".to_owned(),
        evidence: Some("process 100 is gone".to_owned()),
        rescue_ref: None,
        worktree: Some(worktree),
        error: None,
        extra: serde_json::Map::new(),
    }
}

fn ending(reason: EndingReason) -> Ending {
    Ending::new(reason, "stop", now())
}

/// Formats one row of the snapshot.
fn format_row(decision: &Decision) -> String {
    let steps: Vec<_> = decision
        .steps
        .iter()
        .map(|step| match step {
            Step::CommitExit => "commit exit".to_owned(),
            Step::Adopt(owner) => format!("adopt by {:?}", owner.as_ref().map(|owner| owner.pid)),
            Step::Supervise => "supervise".to_owned(),
            Step::Claim(reason) => format!("claim {reason:?}"),
            Step::End(group) => format!("end {:?}", group.process.as_ref().map(|process| process.pid)),
            Step::Rescue => "rescue".to_owned(),
            Step::Remove => "remove".to_owned(),
            Step::Record(status) => format!("record {status}"),
        })
        .collect();
    let cause = decision.cause.map_or("-", Cause::as_str);
    format!("{:?} | {cause} | {} | {}", decision.verdict, steps.join(", "), decision.evidence)
}

#[test]
fn decision_table() {
    let dead = || Sighting { process: Some(Liveness::Gone), supervisor: Some(Liveness::Gone), ..running() };
    let with = |mut sighting: Sighting, change: fn(&mut Sighting)| {
        change(&mut sighting);
        sighting
    };
    let orphan = || Sighting { owner: Some(Liveness::Gone), ..running() };
    let rows = [
        ("another host", Sighting { ours: false, ..dead() }),
        ("exit file present", Sighting { exit_waits: true, ..dead() }),
        ("exit file present, command alive", Sighting { exit_waits: true, ..running() }),
        (
            "worktree pending",
            with(dead(), |seen| {
                seen.session.status = Status::Orphaned;
                seen.session.recovery = Some(recovery(WorktreeOutcome::Pending));
            }),
        ),
        (
            "cleanup failed before",
            with(dead(), |seen| {
                seen.session.status = Status::CleanupFailed;
                seen.session.recovery = Some(recovery(WorktreeOutcome::Failed));
            }),
        ),
        (
            "cleanup failed, liveness unknown",
            with(dead(), |seen| {
                seen.session.status = Status::CleanupFailed;
                seen.process = Some(unknown());
            }),
        ),
        ("boot id differs", Sighting { rebooted: true, process: None, supervisor: None, ..running() }),
        (
            "starting, supervisor alive",
            with(running(), |seen| {
                seen.session.status = Status::Starting;
                (seen.session.process, seen.process) = (None, None);
            }),
        ),
        (
            "starting, supervisor unknown",
            with(running(), |seen| {
                seen.session.status = Status::Starting;
                (seen.session.process, seen.process) = (None, None);
                seen.supervisor = Some(unknown());
            }),
        ),
        ("younger than the minimum age", with(dead(), |seen| seen.session.started_at = Some(now()))),
        (
            "no process was ever recorded",
            with(dead(), |seen| {
                seen.session.status = Status::Starting;
                (seen.session.process, seen.process) = (None, None);
            }),
        ),
        ("command gone, supervisor alive", Sighting { process: Some(Liveness::Gone), ..running() }),
        (
            "command gone, supervisor stopped",
            Sighting { process: Some(Liveness::Gone), supervisor_stopped: true, ..running() },
        ),
        ("command gone, supervisor unknown", Sighting { supervisor: Some(unknown()), ..dead() }),
        ("stale", with(dead(), |seen| seen.session.created_at = now().saturating_sub(DAY * 31))),
        (
            "stale, but alive",
            with(running(), |seen| {
                seen.session.created_at = now().saturating_sub(DAY * 400);
            }),
        ),
        ("pid now another process", Sighting { process: Some(Liveness::Reused), ..dead() }),
        ("command gone, supervisor gone", dead()),
        (
            "command gone, no supervisor recorded",
            with(dead(), |seen| {
                (seen.session.supervisor, seen.supervisor) = (None, None);
            }),
        ),
        (
            "command gone, stop in progress",
            with(dead(), |seen| {
                seen.session.ending = Some(ending(EndingReason::Stopped));
            }),
        ),
        (
            "command gone, recovery in progress",
            with(dead(), |seen| {
                seen.session.ending = Some(ending(EndingReason::OwnerDead));
            }),
        ),
        ("command alive, owner gone", orphan()),
        ("command alive, owner's pid reused", Sighting { owner: Some(Liveness::Reused), ..running() }),
        ("command alive, owner unknown", Sighting { owner: Some(unknown()), ..running() }),
        (
            "command alive, owner gone, keep",
            with(orphan(), |seen| {
                seen.session.on_owner_death = OnOwnerDeath::Keep;
            }),
        ),
        (
            "command alive, owner gone, supervisor gone",
            Sighting { supervisor: Some(Liveness::Gone), ..orphan() },
        ),
        ("command alive", running()),
        ("command alive, supervisor gone", Sighting { supervisor: Some(Liveness::Gone), ..running() }),
        (
            "command alive, supervisor's pid reused",
            Sighting { supervisor: Some(Liveness::Reused), ..running() },
        ),
        ("command alive, supervisor unknown", Sighting { supervisor: Some(unknown()), ..running() }),
        (
            "command alive, no supervisor recorded",
            with(running(), |seen| {
                (seen.session.supervisor, seen.supervisor) = (None, None);
            }),
        ),
        (
            "command alive, supervisor gone, being ended",
            with(Sighting { supervisor: Some(Liveness::Gone), ..running() }, |seen| {
                seen.session.ending = Some(ending(EndingReason::Stopped));
            }),
        ),
        (
            "command alive, supervisor gone, owner gone, keep",
            with(Sighting { supervisor: Some(Liveness::Gone), ..orphan() }, |seen| {
                seen.session.on_owner_death = OnOwnerDeath::Keep;
            }),
        ),
        ("command unknown", Sighting { process: Some(unknown()), ..running() }),
    ];
    let mut table = String::new();
    for (name, sighting) in rows {
        let decision = decide(&sighting, &policy(), now());
        writeln!(table, "{name}: {}", format_row(&decision)).unwrap();
    }
    let adopting = Policy { adopt: Some(Adoption { owner: Some(ProcessIdentity::of_pid(7)) }), ..policy() };
    writeln!(table, "adopting: {}", format_row(&decide(&orphan(), &adopting, now()))).unwrap();
    let being_ended = with(orphan(), |seen| seen.session.ending = Some(ending(EndingReason::Stopped)));
    writeln!(table, "adopting what is being ended: {}", format_row(&decide(&being_ended, &adopting, now())))
        .unwrap();
    insta::assert_snapshot!(table);
}

#[test]
fn session_with_expired_ending_can_be_adopted_or_ended() {
    let minute = Duration::from_secs(60);
    let killed = Ending { at: now().saturating_sub(minute * 2), ..ending(EndingReason::Stopped) };
    let mut seen = Sighting { owner: Some(Liveness::Gone), ..running() };
    seen.session.ending = Some(killed.within(minute));
    let adopting = Policy { adopt: Some(Adoption { owner: None }), ..policy() };
    assert_eq!(decide(&seen, &adopting, now()).verdict, Verdict::Adopted);
    assert_eq!(decide(&seen, &policy(), now()).steps[0], Step::Claim(EndingReason::OwnerDead));
}

fn any_liveness() -> impl Strategy<Value = Option<Liveness>> {
    prop_oneof![
        Just(None),
        Just(Some(Liveness::Alive)),
        Just(Some(Liveness::Gone)),
        Just(Some(Liveness::Reused)),
        Just(Some(unknown())),
    ]
}

prop_compose! {
    fn any_sighting()(
        status in prop::sample::select(Status::ALL.to_vec()),
        liveness in (any_liveness(), any_liveness(), any_liveness()),
        flags in any::<[bool; 7]>(),
        age in 0_u64..200,
        ending_reason in prop::option::of(prop::sample::select(vec![
            EndingReason::Stopped, EndingReason::Timeout, EndingReason::OwnerDead, EndingReason::Recovered,
        ])),
        worktree_outcome in prop::option::of(prop::sample::select(vec![
            WorktreeOutcome::Pending, WorktreeOutcome::Kept, WorktreeOutcome::Failed,
        ])),
    ) -> Sighting {
        let (process, supervisor, owner) = liveness;
        let [ours, exit_waits, rebooted, supervisor_stopped, keep, has_worktree, young] = flags;
        let mut sighting = Sighting {
            ours, exit_waits, rebooted, supervisor_stopped, process, supervisor, owner, ..running()
        };
        let session = &mut sighting.session;
        session.status = status;
        session.created_at = now().saturating_sub(if young { Duration::ZERO } else { DAY * u32::try_from(age).unwrap() });
        session.ending = ending_reason.map(ending);
        session.recovery = worktree_outcome.map(recovery);
        session.on_owner_death = if keep { OnOwnerDeath::Keep } else { OnOwnerDeath::End };
        session.worktree = has_worktree.then(worktree);
        for (identity, liveness) in [
            (&mut session.process, &sighting.process),
            (&mut session.supervisor, &sighting.supervisor),
            (&mut session.owner, &sighting.owner),
        ] {
            if liveness.is_none() {
                *identity = None;
            }
        }
        sighting
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn i2_unknown_liveness_never_leads_to_termination(seen in any_sighting(), adopt in any::<bool>()) {
        let adopt = adopt.then_some(Adoption { owner: None });
        let decision = decide(&seen, &Policy { adopt, ..policy() }, now());
        let ends = decision.steps.iter().find_map(|step| match step {
            Step::End(group) => Some(group),
            _ => None,
        });
        if let Some(group) = ends {
            prop_assert!(seen.ours && !seen.rebooted, "signals to another machine or another boot");
            prop_assert!(!matches!(seen.process, Some(Liveness::Unknown(_))), "a kill on Unknown");
            prop_assert_eq!(group.process.is_some(), seen.process == Some(Liveness::Alive));
            let claimed = decision.steps.iter().any(|step| matches!(step, Step::Claim(_)));
            let active = seen.session.status.is_active();
            prop_assert!(!active || group.process.is_none() || claimed || find_ending(&seen.session, now()).is_some());
        }
    }

    #[test]
    fn i2_supervisor_is_replaced_only_if_command_lives_and_supervisor_is_proved_gone(
        seen in any_sighting(), adopt in any::<bool>(),
    ) {
        let adopt = adopt.then_some(Adoption { owner: None });
        let steps = decide(&seen, &Policy { adopt, ..policy() }, now()).steps;
        if steps.contains(&Step::Supervise) {
            prop_assert_eq!(steps.len(), 1);
            prop_assert!(seen.ours && !seen.rebooted && seen.session.status.is_active());
            prop_assert_eq!(&seen.process, &Some(Liveness::Alive));
            prop_assert!(matches!(seen.supervisor, Some(Liveness::Gone | Liveness::Reused)));
            prop_assert!(find_ending(&seen.session, now()).is_none());
        }
    }

    #[test]
    fn i8_exit_file_is_ignored_while_command_lives(seen in any_sighting()) {
        let decision = decide(&seen, &policy(), now());
        if seen.process == Some(Liveness::Alive) {
            prop_assert!(!decision.steps.contains(&Step::CommitExit));
        }
    }

    #[test]
    fn i4_rescue_precedes_removal(seen in any_sighting()) {
        let steps = decide(&seen, &policy(), now()).steps;
        let place = |wanted: &Step| steps.iter().position(|step| step == wanted);
        let ended = steps.iter().position(|step| matches!(step, Step::End(_)));
        if let Some(removed) = place(&Step::Remove) {
            prop_assert!(place(&Step::Rescue).is_some_and(|rescued| rescued < removed));
            prop_assert!(ended.is_none_or(|ended| ended < removed));
            prop_assert!(matches!(steps.last(), Some(Step::Record(_))));
        }
        if seen.session.worktree.is_none() {
            prop_assert!(place(&Step::Rescue).is_none() && place(&Step::Remove).is_none());
        }
    }

    #[test]
    fn i3_live_or_starting_session_keeps_its_worktree(seen in any_sighting()) {
        let decision = decide(&seen, &policy(), now());
        let removes = decision.steps.contains(&Step::Remove);
        let active = seen.session.status.is_active() && !seen.rebooted;
        if active && seen.process == Some(Liveness::Alive) {
            let orphaned = matches!(seen.owner, Some(Liveness::Gone | Liveness::Reused));
            prop_assert!(!removes || orphaned && seen.session.on_owner_death == OnOwnerDeath::End);
        }
        let supervised = matches!(seen.supervisor, Some(Liveness::Alive | Liveness::Unknown(_)));
        if active && seen.process != Some(Liveness::Alive) && supervised {
            prop_assert!(decision.steps.is_empty() || decision.steps == [Step::CommitExit]);
        }
    }
}
