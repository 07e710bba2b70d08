//! Listings: their order, and each filter alone and combined. [`Query::select`] is the model.

use sexton_core::session::LoopState;
use sexton_core::store::Fields;
use sexton_core::{Query, Session, Status};

use super::Subject;
use super::needs::{LOOPS, NAMES, PENDING_WORKTREES, REPOSITORIES, TICKETS};
use super::samples::{completed, id, moment, running, varied};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("listing":
    newest_first_and_equal_times_by_descending_id,
    order_is_by_time_not_by_text,
    each_filter_matches_the_model,
    ticket_filter_matches_exactly: [TICKETS],
    name_filter_matches_exactly: [NAMES],
    repository_filter_matches_exactly: [REPOSITORIES],
    unsettled_filter_finds_pending_worktrees: [PENDING_WORKTREES],
    filters_combine_and_limit_applies_last: [NAMES, TICKETS, REPOSITORIES],
    prefix_is_not_a_pattern,
    listing_reflects_changed_records: [TICKETS, NAMES],
    active_loop_filter_reads_only_the_loop: [LOOPS],
);

const RECORDS: usize = 60;

fn newest_first_and_equal_times_by_descending_id(subject: &Subject) {
    let at = |text: &str, seconds| Session { created_at: moment(seconds), ..running(text) };
    let test_env = TestEnv::with(subject, [at("b", 5), at("old", 1), at("a", 5), at("new", 9), at("B", 5)]);
    let ids: Vec<_> = test_env.reader().all().into_iter().map(|session| session.id).collect();
    assert_eq!(ids, ["new", "b", "a", "B", "old"].map(id));
}

fn order_is_by_time_not_by_text(subject: &Subject) {
    let at = |text: &str, time: &str| Session { created_at: time.parse().expect("a time"), ..running(text) };
    let sessions = [
        at("whole", "2026-01-02T03:04:05Z"),
        at("micro", "2026-01-02T03:04:05.000001Z"),
        at("half", "2026-01-02T03:04:05.5Z"),
        at("ancient", "1969-12-31T23:59:59.5Z"),
        at("epoch", "1970-01-01T00:00:00Z"),
    ];
    let test_env = TestEnv::with(subject, sessions);
    let ids: Vec<_> = test_env.reader().all().into_iter().map(|session| session.id).collect();
    assert_eq!(ids, ["half", "micro", "whole", "epoch", "ancient"].map(id));
}

/// Lists with `query` and compares with the model. Returns the number of records.
fn compare(test_env: &TestEnv, all: &[Session], query: &Query) -> usize {
    let expected = query.select(all.to_vec());
    for store in [test_env.reader(), test_env.writer()] {
        let listed = store.listing(query);
        assert!(listed.damage.is_empty(), "{query:?}: {:?}", listed.damage);
        assert_eq!(listed.sessions, expected, "{query:?}");
    }
    expected.len()
}

fn filled(subject: &Subject) -> (TestEnv, Vec<Session>) {
    let test_env = TestEnv::with(subject, (0..RECORDS).map(varied));
    let all = test_env.reader().all();
    assert_eq!(all.len(), RECORDS);
    (test_env, all)
}

/// Checks queries that match some of a varied set, and queries that match nothing.
fn require_found(subject: &Subject, some: &[Query], none: &[Query]) {
    let (test_env, all) = filled(subject);
    for query in some {
        let found = compare(&test_env, &all, query);
        assert!(found > 0 && found < RECORDS, "{query:?} found {found}: it proves nothing");
    }
    for query in none {
        assert_eq!(compare(&test_env, &all, query), 0, "{query:?}");
    }
}

fn ticket_filter_matches_exactly(subject: &Subject) {
    let tickets = |ticket| Query::all().ticket(ticket);
    require_found(subject, &[tickets("T-1")], &[tickets("t-1"), tickets("")]);
}

fn name_filter_matches_exactly(subject: &Subject) {
    let named = |name| Query::all().named(name);
    require_found(subject, &[named("name 2"), named("active-1")], &[named("name")]);
}

fn repository_filter_matches_exactly(subject: &Subject) {
    let odd = Query::all().repo(super::samples::raw(b"/src/\xff\xfe").as_path());
    require_found(subject, &[Query::all().repo("/src/one"), odd], &[Query::all().repo("/src")]);
}

fn unsettled_filter_finds_pending_worktrees(subject: &Subject) {
    require_found(subject, &[Query::unsettled().finished_before(moment(900))], &[]);
}

fn each_filter_matches_the_model(subject: &Subject) {
    let (test_env, all) = filled(subject);
    let some = [
        Query::active(),
        Query::all().id_prefix("abc"),
        Query::all().id_prefix("ab"),
        Query::all().id_prefix(all[7].id.as_str()),
        Query::all().limit(7),
        Query::all().with_statuses([Status::Failed, Status::CleanupFailed]),
        Query::unsettled(),
        Query::all().finished_before(moment(600)),
    ];
    let none = [
        Query::all().with_statuses([]),
        Query::all().id_prefix("zzz"),
        Query::all().limit(0),
        Query::all().finished_before(moment(0)),
    ];
    require_found(subject, &some, &none);
    for query in [Query::all(), Query::all().id_prefix(""), Query::all().limit(RECORDS * 2)] {
        assert_eq!(compare(&test_env, &all, &query), RECORDS, "{query:?}");
    }
    for status in Status::ALL.into_iter().filter(|status| subject.capabilities.statuses.contains(status)) {
        assert!(compare(&test_env, &all, &Query::all().with_statuses([status])) > 0);
    }
}

fn filters_combine_and_limit_applies_last(subject: &Subject) {
    let (test_env, all) = filled(subject);
    let mut found = 0;
    for bits in 0_u32..64 {
        let mut query = Query::all();
        let wants = |bit: u32| bits & (1 << bit) != 0;
        if wants(0) {
            query = query.with_statuses([Status::Completed, Status::Orphaned, Status::Running]);
        }
        if wants(1) {
            query = query.ticket("T-2");
        }
        if wants(2) {
            query = query.named("name 2");
        }
        if wants(3) {
            query = query.id_prefix("ab");
        }
        if wants(4) {
            query = query.repo("/src/one/nested");
        }
        if wants(5) {
            query = query.limit(2);
        }
        found += usize::from(compare(&test_env, &all, &query) > 0);
    }
    assert!(found > 16, "only {found} of 64 combinations found anything: they prove too little");
}

fn prefix_is_not_a_pattern(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a_b"), running("axb"), running("A_b"), running("a-b")]);
    let found = |prefix| {
        let listed = test_env.reader().listing(&Query::all().id_prefix(prefix)).sessions;
        listed.into_iter().map(|session| session.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found("a_"), ["a_b"]);
    assert_eq!(found("A"), ["A_b"]);
    assert_eq!(found("%"), [""; 0]);
    assert_eq!(found("a*"), [""; 0]);
    assert_eq!(found("a' OR ''='"), [""; 0]);
}

fn listing_reflects_changed_records(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let mut session = running("a");
    (session.ticket, session.name) = (Some("old".to_owned()), Some("old".to_owned()));
    let mut session = store.insert(session);
    (session.ticket, session.name) = (Some("new".to_owned()), Some("new".to_owned()));
    let changed = store.replace(super::samples::with_status(&session, Status::Failed));
    for gone in [Query::active(), Query::all().ticket("old"), Query::all().named("old")] {
        assert_eq!(test_env.reader().listing(&gone).sessions, [], "{gone:?}");
    }
    let failed = Query::all().with_statuses([Status::Failed]);
    for found in [failed, Query::all().ticket("new"), Query::all().named("new")] {
        assert_eq!(test_env.reader().listing(&found).sessions, std::slice::from_ref(&changed), "{found:?}");
    }
}

fn active_loop_filter_reads_only_the_loop(subject: &Subject) {
    let with = |text: &str, state: Option<LoopState>| Session { loop_state: state, ..running(text) };
    let state = |active| Some(LoopState { active, ..LoopState::default() });
    // The text of an active loop, in all fields except the loop.
    let mut decoy = with("decoy", state(false));
    decoy.tags.insert("active".to_owned(), "\"active\":true".to_owned());
    decoy.extra.insert("active".to_owned(), serde_json::json!(true));
    decoy.extra.insert("other".to_owned(), serde_json::json!({"active": true}));
    let finished = Session { loop_state: state(true), ..completed("ended") };
    let sessions =
        [with("drives", state(true)), with("idle", state(false)), with("none", None), decoy, finished];
    let test_env = TestEnv::with(subject, sessions);
    let all = test_env.reader().all();
    let found = compare(&test_env, &all, &Query::active_loops());
    assert!(found > 0 && found < all.len(), "it found {found}: it proves nothing");
    assert_eq!(compare(&test_env, &all, &Query::active_loops().limit(1)), 1);
    let running = compare(&test_env, &all, &Query::active_loops().with_statuses([Status::Running]));
    if subject.capabilities.fields == Fields::All {
        assert_eq!((found, running), (2, 1), "the filter does not depend on the status");
    }
}
