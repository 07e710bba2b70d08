//! Counters and tallies.

use std::collections::BTreeMap;

use pollster::block_on;
use sexton_core::{Batch, Status};

use super::Subject;
use super::needs::COUNTERS;
use super::samples::{completed, running, varied};
use super::site::Site;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("counters":
    counters_add_up_across_handles: [COUNTERS],
    a_counter_can_be_large: [COUNTERS],
    the_tally_counts_each_status,
    the_tally_follows_changes_and_removals,
);

fn counters_add_up_across_handles(subject: &Subject) {
    let site = Site::new(subject);
    let (one, two) = (site.writer(), site.writer());
    one.commit(Batch::new().count("started", 1).count("odd name: ü", 5).insert(running("a")));
    two.commit(Batch::new().count("started", 2).count("started", 1));
    let expected = BTreeMap::from([("started".to_owned(), 4), ("odd name: ü".to_owned(), 5)]);
    for store in [one, two, site.reader()] {
        assert_eq!(store.counters(), expected);
    }
}

fn a_counter_can_be_large(subject: &Subject) {
    let site = Site::new(subject);
    let large = u64::try_from(i64::MAX).expect("a positive number") - 1;
    site.writer().commit(Batch::new().count("bytes", large));
    site.writer().commit(Batch::new().count("bytes", 1));
    assert_eq!(site.reader().counters().get("bytes"), Some(&(large + 1)));
}

fn tally(site: &Site) -> BTreeMap<Status, u64> {
    block_on(site.reader().0.tally()).expect("the records can be counted")
}

fn the_tally_counts_each_status(subject: &Subject) {
    let site = Site::with(subject, (0..60).map(varied));
    let mut expected = BTreeMap::new();
    for session in site.reader().all() {
        *expected.entry(session.status).or_default() += 1;
    }
    assert_eq!(tally(&site), expected);
}

fn the_tally_follows_changes_and_removals(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    assert_eq!(tally(&site), BTreeMap::new());
    let (a, b) = (store.insert(running("a")), store.insert(completed("b")));
    assert_eq!(tally(&site), BTreeMap::from([(Status::Running, 1), (Status::Completed, 1)]));
    store.replace(super::samples::with_status(&a, Status::Completed));
    assert_eq!(tally(&site), BTreeMap::from([(Status::Completed, 2)]));
    store.commit(Batch::new().remove(&b));
    assert_eq!(tally(&site), BTreeMap::from([(Status::Completed, 1)]));
}
