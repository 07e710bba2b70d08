//! The limit mark: a value of RLIMIT_LOCKS that identifies the session a process was started in.
//!
//! No kernel since Linux 2.4 enforces this limit. It is inherited through `exec`, a cleared environment and a
//! new session, only a privileged process can raise it again, and every user can read it in `/proc/PID/limits`.

/// The smallest and the largest mark of a session that was not started inside another. Values below 2^53 are
/// exact in JSON readers that use doubles.
const LEAST: u64 = 1 << 44;
const MOST: u64 = (1 << 53) - 1;

/// The maximum difference between the marks of a session and of one started inside it. A limit in this range
/// below a mark was lowered from it, except with a probability of 1 in 2^23.
const STEP: u64 = 1 << 30;

/// Returns the mark for a session that inherits this limit; `None` if the limit leaves no room for one. `None`
/// as the inherited limit means unlimited. `random` selects the mark.
pub fn choose_limit_mark(inherited: Option<u64>, random: u64) -> Option<u64> {
    if sexton_mutant::is("no_limit_mark") {
        return None;
    }
    match inherited.filter(|limit| *limit <= MOST) {
        None => Some(LEAST + random % (MOST - LEAST)),
        Some(limit) if limit > 2 * STEP => Some(limit - 1 - random % (STEP - 1)),
        Some(_) => None,
    }
}

/// How the limit of a process compares with a session's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkRelation {
    /// It is the mark.
    Same,
    /// It was lowered from the mark: by a session that was started inside, or by the process itself.
    Lowered,
    /// It is unrelated to the mark.
    Unrelated,
}

/// Compares the limit of a process with a session's mark.
pub fn compare_limit_mark(mark: u64, limit: u64) -> MarkRelation {
    if limit == mark {
        MarkRelation::Same
    } else if limit < mark && mark - limit < STEP {
        MarkRelation::Lowered
    } else {
        MarkRelation::Unrelated
    }
}

/// Returns the hard limit on file locks in `/proc/PID/limits`; `None` if it has no finite one.
pub fn parse_limits(limits: &[u8]) -> Option<u64> {
    let line = limits.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Max file locks"))?;
    str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hard_limit_is_read() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units     \n\
            Max address space         unlimited            unlimited            bytes     \n\
            Max file locks            17                   4503599627370496     locks     \n";
        assert_eq!(parse_limits(text), Some(4_503_599_627_370_496));
        assert_eq!(parse_limits(b"Max file locks   unlimited  unlimited  locks\n"), None);
        assert_eq!(parse_limits(b"Max file locks"), None);
        assert_eq!(parse_limits(b""), None);
    }

    #[test]
    fn small_inherited_limit_leaves_no_room_for_a_mark() {
        for limit in [0, 1, 100_000, 2 * STEP] {
            assert_eq!(choose_limit_mark(Some(limit), 7), None, "{limit}");
        }
    }

    proptest! {
        #[test]
        fn mark_is_in_range_and_exact_in_json(random: u64) {
            let mark = choose_limit_mark(None, random).unwrap();
            prop_assert!((LEAST..MOST).contains(&mark));
        }

        #[test]
        fn nested_session_has_a_lower_related_mark(random: u64, inner: u64) {
            let outer = choose_limit_mark(None, random).unwrap();
            let nested = choose_limit_mark(Some(outer), inner).unwrap();
            prop_assert!(nested < outer);
            prop_assert_eq!(compare_limit_mark(outer, nested), MarkRelation::Lowered);
            prop_assert_eq!(compare_limit_mark(nested, outer), MarkRelation::Unrelated);
        }
    }
}
