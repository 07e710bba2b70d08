//! A point in time, as records and users write it. The caller reads the clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time. Written as RFC 3339 in UTC; read with any offset, and a time without one is UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Timestamp);

/// A text that is not a time.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not an RFC 3339 time")]
pub struct TimeError {
    text: String,
    #[source]
    source: jiff::Error,
}

impl Time {
    /// Returns the time as nanoseconds since 1970, for ordering in an index. Saturates in the year 2262.
    pub fn as_nanoseconds(self) -> i64 {
        i64::try_from(self.0.as_nanosecond()).unwrap_or(if self.0.as_nanosecond() < 0 {
            i64::MIN
        } else {
            i64::MAX
        })
    }

    /// Returns how long ago `self` was at `now`; zero if it is in the future.
    pub fn age_at(self, now: Time) -> Duration {
        Duration::try_from(now.0.duration_since(self.0)).unwrap_or(Duration::ZERO)
    }

    /// Returns the time `span` later, or the last representable one.
    pub fn saturating_add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(span).unwrap_or(Timestamp::MAX))
    }

    /// Returns the time `span` earlier, or the first representable one.
    pub fn saturating_sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(span).unwrap_or(Timestamp::MIN))
    }

    /// Returns the time `span` after the beginning of 1970, or the last representable one.
    pub fn since_1970(span: Duration) -> Time {
        Time(Timestamp::UNIX_EPOCH).saturating_add(span)
    }

    /// Returns the underlying timestamp, for formatting in a time zone.
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Time(timestamp)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        text.parse::<Timestamp>()
            .or_else(|with_offset| match text.parse::<DateTime>() {
                Ok(naive) => naive.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()),
                Err(_) => Err(with_offset),
            })
            .map(Time)
            .map_err(|source| TimeError { text: text.to_owned(), source })
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time", "description": "RFC 3339; written in UTC"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn offset_does_not_change_the_moment() {
        assert_eq!(time("2026-01-02T03:04:05+02:00"), time("2026-01-02T01:04:05Z"));
    }

    #[test]
    fn time_without_offset_is_utc() {
        assert_eq!(time("2026-01-02T03:04:05.5"), time("2026-01-02T03:04:05.5Z"));
        assert_eq!(time("2026-01-02 03:04:05"), time("2026-01-02T03:04:05Z"));
    }

    #[test]
    fn time_is_written_in_utc_and_round_trips() {
        let written = serde_json::to_string(&time("2026-01-02T03:04:05.123456789+05:30")).unwrap();
        assert_eq!(written, "\"2026-01-01T21:34:05.123456789Z\"");
        assert_eq!(serde_json::from_str::<Time>(&written).unwrap(), time("2026-01-01T21:34:05.123456789Z"));
    }

    #[test]
    fn error_quotes_the_invalid_text() {
        assert_eq!(
            "yesterday".parse::<Time>().unwrap_err().to_string(),
            "`yesterday` is not an RFC 3339 time"
        );
    }

    #[test]
    fn age_is_never_negative() {
        let (early, late) = (time("2026-01-01T00:00:00Z"), time("2026-01-01T00:01:00Z"));
        assert_eq!(early.age_at(late), Duration::from_secs(60));
        assert_eq!(late.age_at(early), Duration::ZERO);
    }
}
