//! Tests of the scheduler without processes: fixed sequences here, random ones in `random_runs`.

mod random_runs;

use sexton_core::{SessionId, Time};

use super::*;
use crate::state::{How, Work};

fn at(seconds: u64) -> Time {
    let beginning: Time = "2026-01-02T00:00:00Z".parse().unwrap();
    beginning.saturating_add(Duration::from_secs(seconds))
}

fn ticket(text: &str) -> Ticket {
    text.parse().unwrap()
}

fn rules() -> Rules {
    Rules {
        parallel: 1,
        max_iterations: 50,
        max_iterations_per_ticket: 5,
        pause_between_tickets: Duration::from_secs(5),
        pause_between_retries: Duration::from_secs(10),
        max_restarts: 2,
        merge: true,
        has_check: false,
        promise: Some("DONE".to_owned()),
        only: None,
    }
}

fn begin(rules: Rules) -> (Scheduler, Vec<Action>) {
    let mut scheduler = Scheduler::new(rules, State::new("/repo".into(), "main".to_owned()));
    let actions = scheduler.handle(Event::Begin, at(0));
    (scheduler, actions)
}

fn continue_from(rules: Rules, state: State) -> (Scheduler, Vec<Action>) {
    let mut scheduler = Scheduler::new(rules, state);
    let actions = scheduler.handle(Event::Begin, at(LATER));
    (scheduler, actions)
}

/// When the next loop starts.
const LATER: u64 = 10_000;

fn queried(lines: &[&str]) -> Event {
    Event::Queried(Ok(QueryOutput { lines: lines.iter().map(|line| (*line).to_owned()).collect() }))
}

fn session(text: &str) -> SessionId {
    text.parse().unwrap()
}

fn started(text: &str) -> Event {
    Event::Started { ticket: ticket(text), session: session(text), worktree: None, log: None, rescue: None }
}

fn ended(text: &str, ending: Ending) -> Event {
    Event::Ended { ticket: ticket(text), session: session(text), log: Some("/log".into()), ending }
}

fn sealed(text: &str) -> Event {
    Event::Sealed { ticket: ticket(text), result: Ok(Sealed::Work { tip: "tip".to_owned() }) }
}

fn merged(text: &str) -> Event {
    let outcome = MergeOutcome::Merged { commit: "new".to_owned(), how: How::FastForward };
    Event::Merged { ticket: ticket(text), outcome }
}

fn deferred(text: &str) -> Event {
    Event::Merged { ticket: ticket(text), outcome: MergeOutcome::Deferred { why: "dirty".to_owned() } }
}

fn cleared(text: &str) -> Event {
    Event::Cleared { ticket: ticket(text), kept: None }
}

fn start(text: &str, serial: u64, attempt: u64) -> Action {
    Action::Start { ticket: ticket(text), serial, attempt }
}

fn clear(text: &str) -> Action {
    Action::Clear { ticket: ticket(text), session: session(text) }
}

fn stage(scheduler: &Scheduler, text: &str) -> Stage {
    scheduler.state.tickets[&ticket(text)].stage.clone()
}

/// Completes all stages of a ticket.
fn succeed(scheduler: &mut Scheduler, text: &str, now: Time) -> Vec<Action> {
    for event in [started(text), ended(text, Ending::Succeeded), sealed(text), merged(text)] {
        scheduler.handle(event, now);
    }
    scheduler.handle(cleared(text), now)
}

#[test]
fn ticket_goes_from_query_to_base_branch() {
    let (mut scheduler, actions) = begin(rules());
    assert_eq!(actions, [Action::Query]);
    assert_eq!(scheduler.handle(queried(&["T-1", "T-2"]), at(1)), [start("T-1", 1, 1)]);
    assert_eq!(scheduler.handle(started("T-1"), at(2)), []);
    let seal = Action::Seal { ticket: ticket("T-1"), session: session("T-1") };
    assert_eq!(scheduler.handle(ended("T-1", Ending::Succeeded), at(3)), [seal]);
    let merge = Action::Merge { ticket: ticket("T-1"), session: session("T-1"), tip: "tip".to_owned() };
    assert_eq!(scheduler.handle(sealed("T-1"), at(4)), [merge]);
    assert_eq!(scheduler.handle(merged("T-1"), at(5)), [clear("T-1")]);
    assert_eq!(scheduler.handle(cleared("T-1"), at(6)), []);
    let work = Work::Merged { commit: "new".to_owned(), how: How::FastForward };
    assert_eq!(stage(&scheduler, "T-1"), Stage::Done { work, kept: None });
    // The next ticket starts after the pause.
    assert_eq!(scheduler.next_moment(), Some(at(11)));
    assert_eq!(scheduler.handle(Event::Tick, at(10)), []);
    assert_eq!(scheduler.handle(Event::Tick, at(11)), [Action::Query]);
    assert_eq!(scheduler.handle(queried(&["T-2"]), at(12)), [start("T-2", 2, 1)]);
    assert_eq!(scheduler.state.iteration, 2);
}

#[test]
fn empty_query_completes_the_loop_with_its_promise() {
    let (mut scheduler, _) = begin(rules());
    assert_eq!(scheduler.handle(queried(&[]), at(1)), [Action::Finish]);
    let summary = scheduler.summary();
    assert_eq!((summary.phase, summary.promise.as_deref()), (Phase::Complete, Some("DONE")));
}

#[test]
fn completion_check_decides_whether_work_is_left() {
    for (left, phase) in [(true, Phase::Stuck), (false, Phase::Complete)] {
        let (mut scheduler, _) = begin(Rules { has_check: true, ..rules() });
        assert_eq!(scheduler.handle(queried(&[]), at(1)), [Action::Check]);
        assert_eq!(scheduler.handle(Event::Checked { left }, at(2)), [Action::Finish]);
        assert_eq!(scheduler.state.phase, phase);
    }
}

#[test]
fn failing_ticket_is_retried_and_then_set_aside() {
    let (mut scheduler, _) = begin(rules());
    scheduler.handle(queried(&["T-1"]), at(0));
    for attempt in 1..=3 {
        let now = at(attempt * 100);
        scheduler.handle(started("T-1"), now);
        let ending = if attempt == 2 { Ending::TimedOut } else { Ending::Failed("exit code 1".to_owned()) };
        assert_eq!(scheduler.handle(ended("T-1", ending), now), [clear("T-1")]);
        let after = scheduler.handle(cleared("T-1"), now);
        if attempt < 3 {
            assert_eq!((after, scheduler.next_moment()), (vec![], Some(at(attempt * 100 + 10))));
            let next = scheduler.handle(Event::Tick, at(attempt * 100 + 10));
            assert_eq!(next, [start("T-1", attempt + 1, attempt + 1)]);
        }
    }
    let why = "failed 3 times, the last time: exit code 1".to_owned();
    assert_eq!(stage(&scheduler, "T-1"), Stage::SetAside { why });
    let notices = scheduler.take_notices();
    let log = notices.iter().find_map(|notice| match notice {
        Notice::SetAside { log, .. } => log.clone(),
        _ => None,
    });
    assert_eq!(log.unwrap().to_str(), Some("/log"), "the notice has the log");
    // It is not retried, and the loop ends without a promise because nothing else can be taken on.
    assert_eq!(scheduler.handle(Event::Tick, at(305)), [Action::Query]);
    assert_eq!(scheduler.handle(queried(&["T-1"]), at(306)), [Action::Finish]);
    assert_eq!((scheduler.state.phase, scheduler.summary().promise), (Phase::Stuck, None));
}

#[test]
fn ticket_that_the_query_always_returns_is_set_aside_at_the_limit() {
    let (mut scheduler, _) = begin(Rules { max_iterations_per_ticket: 2, ..rules() });
    for time in [0, 100] {
        scheduler.handle(Event::Tick, at(time));
        scheduler.handle(queried(&["T-1"]), at(time));
        succeed(&mut scheduler, "T-1", at(time));
    }
    scheduler.handle(Event::Tick, at(200));
    assert_eq!(scheduler.handle(queried(&["T-1"]), at(200)), [Action::Finish]);
    assert!(matches!(stage(&scheduler, "T-1"), Stage::SetAside { .. }));
    assert_eq!(scheduler.state.iteration, 2);
}

#[test]
fn constant_query_with_limit_1_completes_each_ticket_once() {
    let (mut scheduler, _) = begin(Rules { max_iterations_per_ticket: 1, ..rules() });
    scheduler.handle(queried(&["T-1"]), at(0));
    succeed(&mut scheduler, "T-1", at(0));
    scheduler.handle(Event::Tick, at(5));
    assert_eq!(scheduler.handle(queried(&["T-1"]), at(5)), [Action::Finish]);
    assert_eq!(scheduler.state.phase, Phase::Complete);
}

#[test]
fn invalid_ticket_is_reported_once_and_never_started() {
    let (mut scheduler, _) = begin(rules());
    scheduler.handle(queried(&["../x; rm -rf ~", "T-1", "../x; rm -rf ~"]), at(0));
    assert_eq!(scheduler.state.tickets.keys().collect::<Vec<_>>(), [&ticket("T-1")]);
    succeed(&mut scheduler, "T-1", at(0));
    scheduler.handle(Event::Tick, at(5));
    assert_eq!(scheduler.handle(queried(&["../x; rm -rf ~"]), at(5)), [Action::Finish]);
    assert_eq!(scheduler.state.phase, Phase::Stuck);
    let refused =
        scheduler.take_notices().into_iter().filter(|notice| matches!(notice, Notice::Refused { .. }));
    assert_eq!(refused.count(), 1);
}

#[test]
fn repeated_query_failures_end_the_loop() {
    let (mut scheduler, _) = begin(rules());
    for time in [0, 5] {
        assert_eq!(scheduler.handle(Event::Queried(Err("exit 1".to_owned())), at(time)), []);
        assert_eq!(scheduler.handle(Event::Tick, at(time + 5)), [Action::Query]);
    }
    assert_eq!(scheduler.handle(Event::Queried(Err("exit 1".to_owned())), at(10)), [Action::Finish]);
    assert_eq!(scheduler.state.phase, Phase::Failed);
    assert!(scheduler.summary().error.unwrap().contains("3 times in a row"));
}

#[test]
fn parallel_tickets_are_merged_one_at_a_time() {
    let (mut scheduler, _) = begin(Rules { parallel: 2, ..rules() });
    let begun = scheduler.handle(queried(&["T-1", "T-2", "T-3"]), at(0));
    assert_eq!(begun, [start("T-1", 1, 1), start("T-2", 2, 1)]);
    for text in ["T-1", "T-2"] {
        scheduler.handle(started(text), at(1));
        scheduler.handle(ended(text, Ending::Succeeded), at(1));
    }
    let merge =
        |text: &str| Action::Merge { ticket: ticket(text), session: session(text), tip: "tip".to_owned() };
    assert_eq!(scheduler.handle(sealed("T-1"), at(2)), [merge("T-1")]);
    assert_eq!(scheduler.handle(sealed("T-2"), at(2)), [], "two merges at once");
    assert_eq!(scheduler.handle(merged("T-1"), at(3)), [clear("T-1"), merge("T-2")]);
}

#[test]
fn deferred_merge_is_retried_without_blocking_other_tickets() {
    let (mut scheduler, _) = begin(rules());
    scheduler.handle(queried(&["T-1"]), at(0));
    for event in [started("T-1"), ended("T-1", Ending::Succeeded), sealed("T-1"), deferred("T-1")] {
        scheduler.handle(event, at(0));
    }
    assert_eq!(scheduler.handle(Event::Tick, at(5)), [Action::Query]);
    assert_eq!(scheduler.handle(queried(&["T-1", "T-2"]), at(5)), [start("T-2", 2, 1)]);
    let again = scheduler.handle(Event::Tick, at(10));
    assert!(matches!(&again[..], [Action::Merge { .. }]), "{again:?}");
    scheduler.handle(merged("T-1"), at(11));
    scheduler.handle(cleared("T-1"), at(11));
    assert!(matches!(stage(&scheduler, "T-1"), Stage::Done { .. }));
    let deferrals = scheduler.take_notices().into_iter().filter(|n| matches!(n, Notice::Deferred { .. }));
    assert_eq!(deferrals.count(), 1);
}

#[test]
fn loop_with_only_a_deferred_merge_ends_and_the_next_loop_merges() {
    let (mut scheduler, _) = begin(rules());
    scheduler.handle(queried(&["T-1"]), at(0));
    for event in [started("T-1"), ended("T-1", Ending::Succeeded), sealed("T-1"), deferred("T-1")] {
        scheduler.handle(event, at(0));
    }
    scheduler.handle(Event::Tick, at(5));
    let mut actions = scheduler.handle(queried(&["T-1"]), at(5));
    let mut tries = 0;
    while !actions.contains(&Action::Finish) {
        tries += usize::from(actions.iter().any(|action| matches!(action, Action::Merge { .. })));
        let moment = scheduler.next_moment();
        actions = match (actions.is_empty(), moment) {
            (false, _) => scheduler.handle(deferred("T-1"), at(6)),
            (true, moment) => scheduler.handle(Event::Tick, moment.unwrap()),
        };
    }
    assert_eq!(tries, LAST_TRIES);
    assert!(scheduler.state.is_unfinished());
    let (_, actions) = continue_from(rules(), scheduler.state.into_next(false));
    assert!(actions.iter().any(|action| matches!(action, Action::Merge { .. })), "{actions:?}");
}

#[test]
fn conflict_is_kept_and_other_tickets_continue() {
    let (mut scheduler, _) = begin(rules());
    scheduler.handle(queried(&["T-1"]), at(0));
    for event in [started("T-1"), ended("T-1", Ending::Succeeded), sealed("T-1")] {
        scheduler.handle(event, at(0));
    }
    let outcome =
        MergeOutcome::Conflict { paths: vec!["a".to_owned()], worktree: Some("/worktrees/x".into()) };
    let after = scheduler.handle(Event::Merged { ticket: ticket("T-1"), outcome }, at(0));
    assert_eq!(after, [], "its worktree is kept");
    scheduler.handle(Event::Tick, at(5));
    assert_eq!(scheduler.handle(queried(&["T-1", "T-2"]), at(5)), [start("T-2", 2, 1)]);
}

#[test]
fn interrupt_stops_sessions_and_starts_nothing_new() {
    let (mut scheduler, _) = begin(Rules { parallel: 2, ..rules() });
    scheduler.handle(queried(&["T-1", "T-2"]), at(0));
    scheduler.handle(started("T-1"), at(1));
    let stop = |text: &str| Action::Stop { sessions: vec![session(text)], at_once: false };
    assert_eq!(scheduler.handle(Event::Interrupt, at(2)), [stop("T-1")]);
    // A session that was starting is stopped once it has started.
    assert_eq!(scheduler.handle(started("T-2"), at(3)), [stop("T-2")]);
    assert_eq!(scheduler.handle(ended("T-1", Ending::Stopped), at(4)), [clear("T-1")]);
    assert_eq!(scheduler.handle(ended("T-2", Ending::Succeeded), at(4)), []);
    assert_eq!(scheduler.handle(cleared("T-1"), at(5)), [Action::Finish]);
    assert_eq!(scheduler.state.phase, Phase::Interrupted);
    // The stopped ticket has no failure counted, and the work of the other is kept.
    let (_, actions) = continue_from(Rules { parallel: 2, ..rules() }, scheduler.state.into_next(false));
    let seal = Action::Seal { ticket: ticket("T-2"), session: session("T-2") };
    assert_eq!(actions, [start("T-1", 3, 1), seal]);
}

#[test]
fn second_interrupt_kills_sessions_and_finishes_at_once() {
    let (mut scheduler, _) = begin(rules());
    scheduler.handle(queried(&["T-1"]), at(0));
    scheduler.handle(started("T-1"), at(1));
    scheduler.handle(Event::Interrupt, at(2));
    let kill = Action::Stop { sessions: vec![session("T-1")], at_once: true };
    assert_eq!(scheduler.handle(Event::Interrupt, at(3)), [kill]);
    assert_eq!(scheduler.handle(Event::Killed, at(4)), [Action::Finish]);
    assert_eq!(scheduler.state.phase, Phase::Interrupted);
    // The next loop finds the outcome and counts no failure.
    let (mut next, actions) = continue_from(rules(), scheduler.state.into_next(false));
    assert_eq!(actions, [Action::Find { ticket: ticket("T-1"), serial: 1 }]);
    next.handle(ended("T-1", Ending::Stopped), at(LATER));
    assert_eq!(next.handle(cleared("T-1"), at(LATER)), [start("T-1", 2, 1)]);
}

#[test]
fn ticket_of_session_stopped_by_user_is_set_aside() {
    let (mut scheduler, _) = begin(rules());
    scheduler.handle(queried(&["T-1"]), at(0));
    scheduler.handle(ended("T-1", Ending::Stopped), at(1));
    scheduler.handle(cleared("T-1"), at(1));
    assert!(matches!(stage(&scheduler, "T-1"), Stage::SetAside { .. }));
}

#[test]
fn missing_agent_fails_the_loop_without_counting_failures() {
    let (mut scheduler, _) = begin(Rules { parallel: 2, ..rules() });
    scheduler.handle(queried(&["T-1", "T-2"]), at(0));
    scheduler.handle(started("T-2"), at(0));
    let fault = Fault::Everything("no such agent".to_owned());
    assert_eq!(scheduler.handle(Event::NotStarted { ticket: ticket("T-1"), fault }, at(1)), []);
    assert_eq!(scheduler.handle(ended("T-2", Ending::Succeeded), at(2)), [Action::Finish]);
    assert_eq!(scheduler.state.phase, Phase::Failed);
    assert!(matches!(stage(&scheduler, "T-1"), Stage::Waiting { .. }));
    assert_eq!(scheduler.state.tickets[&ticket("T-1")].failures, 0);
}

#[test]
fn iteration_limit_is_respected() {
    let (mut scheduler, _) = begin(Rules { max_iterations: 1, ..rules() });
    scheduler.handle(queried(&["T-1", "T-2"]), at(0));
    assert_eq!(succeed(&mut scheduler, "T-1", at(1)), [Action::Finish]);
    assert_eq!((scheduler.state.phase, scheduler.state.tickets.len()), (Phase::Exhausted, 1));
}

#[test]
fn single_ticket_loop_works_only_on_that_ticket() {
    let only = Rules { only: Some(ticket("T-1")), max_iterations: 1, ..rules() };
    let (mut scheduler, actions) = begin(only.clone());
    assert_eq!(actions, [start("T-1", 1, 1)]);
    assert_eq!(succeed(&mut scheduler, "T-1", at(1)), [Action::Finish]);
    assert_eq!(scheduler.state.phase, Phase::Complete);
    // A finished ticket is done again on request; an interrupted one continues.
    let (_, actions) = continue_from(only.clone(), scheduler.state.clone().into_next(false));
    assert_eq!(actions, [start("T-1", 2, 1)]);
    let mut interrupted = scheduler.state;
    interrupted.phase = Phase::Running;
    interrupted.tickets.get_mut(&ticket("T-1")).unwrap().stage = Stage::Sealing;
    let (_, actions) = continue_from(only, interrupted);
    assert!(matches!(&actions[..], [Action::Seal { .. }]), "{actions:?}");
}

#[test]
fn interrupt_after_finish_changes_nothing() {
    let (mut scheduler, _) = begin(rules());
    assert_eq!(scheduler.handle(queried(&[]), at(1)), [Action::Finish]);
    let phase = scheduler.state.phase;
    scheduler.take_notices();
    assert_eq!(scheduler.handle(Event::Interrupt, at(2)), []);
    assert_eq!(scheduler.state.phase, phase);
    assert!(scheduler.take_notices().is_empty());
}
