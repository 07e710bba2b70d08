//! Counters and tallies.

use std::collections::BTreeMap;

use pollster::block_on;
use sexton_core::{Batch, Status};

use super::Subject;
use super::needs::COUNTERS;
use super::samples::{completed, running, varied};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("counters":
    counters_add_up_across_handles: [COUNTERS],
    large_counters_are_supported: [COUNTERS],
    tally_counts_each_status,
    tally_follows_changes_and_removals,
);

fn counters_add_up_across_handles(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let (one, two) = (test_env.writer(), test_env.writer());
    one.commit(Batch::new().count("started", 1).count("odd name: ü", 5).insert(running("a")));
    two.commit(Batch::new().count("started", 2).count("started", 1));
    let expected = BTreeMap::from([("started".to_owned(), 4), ("odd name: ü".to_owned(), 5)]);
    for store in [one, two, test_env.reader()] {
        assert_eq!(store.counters(), expected);
    }
}

fn large_counters_are_supported(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let large = u64::try_from(i64::MAX).expect("a positive number") - 1;
    test_env.writer().commit(Batch::new().count("bytes", large));
    test_env.writer().commit(Batch::new().count("bytes", 1));
    assert_eq!(test_env.reader().counters().get("bytes"), Some(&(large + 1)));
}

fn tally(test_env: &TestEnv) -> BTreeMap<Status, u64> {
    block_on(test_env.reader().0.tally()).expect("the records can be counted")
}

fn tally_counts_each_status(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..60).map(varied));
    let mut expected = BTreeMap::new();
    for session in test_env.reader().all() {
        *expected.entry(session.status).or_default() += 1;
    }
    assert_eq!(tally(&test_env), expected);
}

fn tally_follows_changes_and_removals(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    assert_eq!(tally(&test_env), BTreeMap::new());
    let (a, b) = (store.insert(running("a")), store.insert(completed("b")));
    assert_eq!(tally(&test_env), BTreeMap::from([(Status::Running, 1), (Status::Completed, 1)]));
    store.replace(super::samples::with_status(&a, Status::Completed));
    assert_eq!(tally(&test_env), BTreeMap::from([(Status::Completed, 2)]));
    store.commit(Batch::new().remove(&b));
    assert_eq!(tally(&test_env), BTreeMap::from([(Status::Completed, 1)]));
}
