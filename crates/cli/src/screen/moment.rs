//! Formats times for people in the local time zone. JSON output has UTC times.

use jiff::tz::TimeZone;
use sexton_core::Time;

/// Formats a time in the local time zone.
pub fn local_time(time: Time) -> String {
    in_zone(time, TimeZone::system())
}

fn in_zone(time: Time, zone: TimeZone) -> String {
    time.timestamp().to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    #[test]
    fn times_are_shown_in_the_given_time_zone() {
        let time: Time = "2026-01-02T23:04:05.678Z".parse().unwrap();
        assert_eq!(in_zone(time, TimeZone::UTC), "2026-01-02 23:04:05");
        assert_eq!(in_zone(time, Offset::constant(2).to_time_zone()), "2026-01-03 01:04:05");
    }
}
