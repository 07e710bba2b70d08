//! Durations as users write them: `250ms`, `5s`, `30m`, `12h`, `7d`. A bare number is refused, because its unit
//! is ambiguous.

use std::time::Duration;

/// A text that is not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration: {why}")]
pub struct DurationError {
    text: String,
    why: &'static str,
}

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 60 * 60_000), ("d", 24 * 60 * 60_000)];

/// Parses a whole number directly followed by its unit.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let fail = |why| DurationError { text: text.to_owned(), why };
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    if digits.is_empty() {
        return Err(fail("write a whole number and its unit, such as `250ms`, `5s`, `30m`, `12h` or `7d`"));
    }
    if unit.is_empty() {
        return Err(fail("a number alone has no unit; add `ms`, `s`, `m`, `h` or `d`"));
    }
    let (_, factor) = UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| fail("the unit must be `ms`, `s`, `m`, `h` or `d`"))?;
    let millis = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
    millis.map(Duration::from_millis).ok_or_else(|| fail("it is too long"))
}

/// Formats a duration so that [`parse_duration`] reads the same one, to the millisecond.
pub fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let (unit, factor) =
        UNITS.into_iter().rev().find(|(_, factor)| millis.is_multiple_of(*factor)).unwrap_or(UNITS[0]);
    format!("{}{unit}", millis / factor)
}

/// Formats an age for a table: its largest whole unit, such as `3m`, `2h` or `5d`.
pub fn format_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_parsed() {
        let millis = |text| parse_duration(text).unwrap().as_millis();
        assert_eq!(millis("250ms"), 250);
        assert_eq!(millis("5s"), 5_000);
        assert_eq!(millis("30m"), 1_800_000);
        assert_eq!(millis("12h"), 43_200_000);
        assert_eq!(millis("7d"), 604_800_000);
        assert_eq!(millis("0s"), 0);
    }

    #[test]
    fn bare_numbers_signs_and_unknown_units_are_refused() {
        for text in
            ["5", "", "s", "-5s", "1.5h", "5 s", "5w", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(parse_duration(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn formatted_duration_round_trips() {
        for text in ["250ms", "90s", "30m", "36h", "7d", "0s"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn age_shows_its_largest_unit() {
        let ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 5 * 86_400];
        let shown = ages.map(|seconds| format_age(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0s", "59s", "1m", "59m", "1h", "23h", "1d", "5d"]);
    }
}
