//! Signal names and numbers: `TERM`, `SIGTERM` or `15`.

use rustix::process::Signal;

const NAMED: [(&str, Signal); 12] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("SEGV", Signal::SEGV),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("XCPU", Signal::XCPU),
];

/// The largest signal number.
const MAX_SIGNAL: i32 = 64;

/// Parses a signal name or number.
pub fn parse_signal(text: &str) -> Result<i32, String> {
    if let Ok(number) = text.parse::<i32>() {
        let known = (1..=MAX_SIGNAL).contains(&number);
        return if known { Ok(number) } else { Err(format!("signal numbers range from 1 to {MAX_SIGNAL}")) };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = NAMED.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, signal)| signal.as_raw()).ok_or_else(|| {
        let known = NAMED.map(|(name, _)| name).join(", ");
        format!("unknown signal; expected a number or one of {known}")
    })
}

/// Returns the known signal names, without `SIG`.
pub fn signal_names() -> impl Iterator<Item = &'static str> {
    NAMED.into_iter().map(|(name, _)| name)
}

/// Returns the signal's name, or its number if it has no known name.
pub fn signal_name(number: i32) -> String {
    let found = NAMED.into_iter().find(|(_, signal)| signal.as_raw() == number);
    found.map_or_else(|| format!("signal {number}"), |(name, _)| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_parse_by_name_prefixed_name_and_number() {
        assert_eq!(parse_signal("TERM"), Ok(15));
        assert_eq!(parse_signal("sigterm"), Ok(15));
        assert_eq!(parse_signal("15"), Ok(15));
        assert_eq!(signal_name(15), "SIGTERM");
        assert_eq!(signal_name(40), "signal 40");
    }

    #[test]
    fn invalid_signals_are_rejected() {
        for text in ["", "0", "65", "-9", "SIGFOO"] {
            assert!(parse_signal(text).is_err(), "{text}");
        }
    }
}
