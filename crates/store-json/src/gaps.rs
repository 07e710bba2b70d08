//! Detection of missing lines: a walk over the existing lines that knows which one must come next.

use crate::format::{Header, Place};

/// The position of a walk.
pub(crate) struct Walk {
    header: Option<Header>,
    at: Option<Place>,
    /// Bad lines since the last good one: each of them may be one of the missing lines.
    skipped: u64,
}

impl Walk {
    /// Starts a walk after the header; `None` if the header is lost.
    pub(crate) fn new(header: Option<Header>) -> Walk {
        Walk { header, at: None, skipped: 0 }
    }

    /// Skips a line that cannot be read.
    pub(crate) fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Advances to a good line and returns what is missing before it, not counting the skipped lines.
    pub(crate) fn step(&mut self, next: Place) -> Option<String> {
        let skipped = std::mem::take(&mut self.skipped);
        let Some(missing) = self.missing_before(next) else {
            return Some("it is out of order: lines were moved or repeated".to_owned());
        };
        self.at = Some(next);
        (missing > skipped).then(|| format!("{} before it: {LOSS}", lines_missing(missing - skipped)))
    }

    /// Returns what is missing at the end, if the commit `claimed` was acknowledged.
    pub(crate) fn end(&self, claimed: u64) -> Option<String> {
        let last = self.last_seq();
        let open = match self.at {
            Some(Place::Part { number, of, .. } | Place::Base { number, of }) => of.saturating_sub(number),
            None => self.header.as_ref().map_or(0, |header| header.base),
        };
        let commits = match (self.at, &self.header) {
            // Without a header, the commit that the base lines represent is unknown.
            (Some(Place::Base { .. }), None) => 0,
            _ => claimed.saturating_sub(last),
        };
        if open.saturating_add(commits) <= self.skipped {
            return None;
        }
        let what = match commits {
            0 => lines_missing(open),
            1 => format!("commit {claimed} was acknowledged and is missing"),
            _ => format!("commits {} to {claimed} were acknowledged and are missing", last + 1),
        };
        Some(format!("{what}: {LOSS}; restore a backup, or repair to continue without them"))
    }

    /// Returns the last commit if it is incomplete and was never acknowledged.
    pub(crate) fn torn_end(&mut self, claimed: u64) -> Option<u64> {
        match self.at {
            Some(Place::Part { seq, number, of }) if number < of && seq > claimed && self.skipped == 0 => {
                self.at = Some(Place::Part { seq, number: of, of });
                Some(seq)
            }
            _ => None,
        }
    }

    fn last_seq(&self) -> u64 {
        match self.at {
            Some(Place::Part { seq, .. }) => seq,
            Some(Place::Base { .. }) | None => self.header.as_ref().map_or(0, |header| header.seq),
        }
    }

    /// Returns the minimum number of lines missing before `next`; `None` if it cannot follow here.
    fn missing_before(&self, next: Place) -> Option<u64> {
        let Place::Part { seq, number, .. } = next else { return self.missing_before_base(next) };
        let first = number.checked_sub(1)?;
        let commits_since = |seen: u64| seq.checked_sub(seen + 1).map(|commits| commits + first);
        match (self.at, &self.header) {
            (Some(Place::Part { seq: seen, number: at, .. }), _) if seen == seq => number.checked_sub(at + 1),
            (Some(Place::Part { seq: seen, number: at, of }), _) => {
                Some(commits_since(seen)? + of.checked_sub(at)?)
            }
            (Some(Place::Base { number: at, of }), Some(header)) => {
                Some(commits_since(header.seq)? + of.checked_sub(at)?)
            }
            (Some(Place::Base { number: at, of }), None) => Some(of.checked_sub(at)? + first),
            (None, Some(header)) => Some(commits_since(header.seq)? + header.base),
            (None, None) => Some(first),
        }
    }

    fn missing_before_base(&self, next: Place) -> Option<u64> {
        match (self.at, next) {
            (None, Place::Base { number, .. }) => number.checked_sub(1),
            (Some(Place::Base { number: at, .. }), Place::Base { number, .. }) => number.checked_sub(at + 1),
            _ => None,
        }
    }
}

const LOSS: &str = "sessions may be missing or show an older state";

fn lines_missing(count: u64) -> String {
    if count == 1 { "a line is missing".to_owned() } else { format!("at least {count} lines are missing") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk() -> Walk {
        Walk::new(Some(Header { format: 1, store: String::new(), seq: 10, base: 2 }))
    }

    fn part(seq: u64, number: u64, of: u64) -> Place {
        Place::Part { seq, number, of }
    }

    const WHOLE: [Place; 5] = [
        Place::Base { number: 1, of: 2 },
        Place::Base { number: 2, of: 2 },
        Place::Part { seq: 11, number: 1, of: 2 },
        Place::Part { seq: 11, number: 2, of: 2 },
        Place::Part { seq: 12, number: 1, of: 1 },
    ];

    #[test]
    fn nothing_is_missing_from_a_whole_journal() {
        let mut walk = walk();
        for place in WHOLE {
            assert_eq!(walk.step(place), None);
        }
        assert_eq!(walk.end(12), None);
    }

    #[test]
    fn i6_a_missing_line_is_detected_unless_a_bad_line_replaces_it() {
        for taken in 0..WHOLE.len() {
            let (mut without, mut with_bad) = (walk(), walk());
            let mut noticed = false;
            for (at, place) in WHOLE.into_iter().enumerate() {
                if at == taken {
                    with_bad.skip();
                } else {
                    noticed |= without.step(place).is_some();
                    assert_eq!(with_bad.step(place), None, "line {taken} replaced by a bad one");
                }
            }
            assert!(noticed || without.end(12).is_some(), "line {taken} taken out");
            assert_eq!(with_bad.end(12), None, "line {taken} replaced by a bad one");
        }
    }

    #[test]
    fn repeated_lines_are_out_of_order() {
        let mut walk = walk();
        for place in WHOLE {
            walk.step(place);
        }
        assert!(walk.step(part(11, 1, 2)).is_some());
        assert_eq!(walk.step(part(13, 1, 1)), None);
    }

    #[test]
    fn an_incomplete_commit_is_torn_only_if_not_acknowledged() {
        let mut walk = walk();
        for place in WHOLE {
            walk.step(place);
        }
        assert_eq!(walk.step(part(13, 1, 3)), None);
        assert!(walk.end(13).is_some());
        assert_eq!(walk.torn_end(13), None);
        assert_eq!(walk.torn_end(12), Some(13));
        assert_eq!(walk.end(12), None);
    }
}
