//! Times as logs of power write them, year first or since 1970.

use super::super::{clock, quantity};
use super::{Problem, Settings};

pub(in super::super) use clock::Stamp;

/// Reads RFC 3339 (`2025-01-15T12:34:56.789Z`), a year-first local time (`2025/01/15 12:34:56.789`,
/// `2025-01-15_12:34:56`) or a number since 1970 (see [`epoch_stamp`]).
pub(in super::super) fn parse_stamp(text: &str) -> Option<Stamp> {
    let text = text.trim();
    epoch_stamp(text).or_else(|| Stamp::parse(&text.replacen('_', " ", 1)))
}

/// Reads a decimal number since 1970. Its size tells seconds, milliseconds, microseconds and nanoseconds
/// apart: the years 1973 to 5138 in one unit are before 1973 in the next.
pub(in super::super) fn epoch_stamp(text: &str) -> Option<Stamp> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unit = match whole.len() {
        9..=11 => "s",
        12..=14 => "ms",
        15..=17 => "us",
        18..=19 => "ns",
        _ => return None,
    };
    quantity::decimal_nanos(text, unit).ok().map(Stamp::Instant)
}

/// A line that holds nothing but a time, as a polling loop writes before each answer: `# scrape TIME`,
/// `time: TIME` or `TIME`.
pub(in super::super) fn stamp_line(line: &str) -> Option<Stamp> {
    let is_word = |c: char| c.is_ascii_alphabetic() || " \t#:=@_-".contains(c);
    let text = line.trim();
    parse_stamp(text).or_else(|| parse_stamp(text.trim_start_matches(is_word)))
}

/// The point in time.
pub(super) fn resolve(stamp: Stamp, settings: &Settings) -> Result<i64, Problem> {
    let local = match stamp {
        Stamp::Instant(nanos) => return Ok(nanos),
        Stamp::Local(local) => local,
    };
    let Some(zone) = &settings.zone else {
        return Err(Problem::Stop(format!(
            "the time {local} has no zone; name the zone of the log (--tz), such as \
             \"America/Los_Angeles\" or \"UTC\""
        )));
    };
    settings.saw_local();
    zone.nanos(local).map_err(Problem::Stop)
}

#[cfg(test)]
mod tests {
    use super::super::testing::zone;
    use super::*;

    fn at(text: &str) -> String {
        match parse_stamp(text) {
            None => "none".into(),
            Some(Stamp::Instant(nanos)) => nanos.to_string(),
            Some(Stamp::Local(local)) => local.to_string(),
        }
    }

    #[test]
    fn stamps_are_told_apart_by_shape() {
        assert_eq!(at("2025/01/15 12:34:56.789"), "2025-01-15T12:34:56.789");
        assert_eq!(at("2025-01-15_12:34:56,5"), "2025-01-15T12:34:56.5");
        assert_eq!(at("2025-01-15T12:34:56.789Z"), "1736944496789000000");
        assert_eq!(at("2025-01-15 12:34:56+01:00"), "1736940896000000000");
        for epoch in ["1736944496", "1736944496000", "1736944496000000", "1736944496000000000"] {
            assert_eq!(at(epoch), "1736944496000000000");
        }
        assert_eq!(at("1736944496.123456789"), "1736944496123456789");
        for text in ["", "12", "2025-01-15", "2025-13-15 12:00:00", "2025-01-15 25:00:00"] {
            assert_eq!(at(text), "none", "{text}");
        }
        for text in ["12:34:56", "é025-01-15 12:34:56", "2025-01-15 12:34:56 PST", "-1736944496"] {
            assert_eq!(at(text), "none", "{text}");
        }
    }

    #[test]
    fn a_line_of_its_own_is_a_stamp() {
        let lines =
            ["# scrape 1736944496", "time: 2025-01-15T12:34:56Z", "1736944496", "#ts=1736944496.0"];
        for line in lines {
            assert_eq!(stamp_line(line), Some(Stamp::Instant(1_736_944_496_000_000_000)), "{line}");
        }
        assert_eq!(stamp_line("# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W)."), None);
    }

    #[test]
    fn a_local_time_needs_its_zone() {
        let stamp = parse_stamp("2025/11/02 01:30:00.000").unwrap();
        let message = |settings: &Settings| match settings.resolve(stamp) {
            Err(Problem::Stop(message)) => message,
            other => format!("{other:?}"),
        };
        insta::assert_snapshot!(message(&Settings::default()), @r#"the time 2025-11-02T01:30:00 has no zone; name the zone of the log (--tz), such as "America/Los_Angeles" or "UTC""#);
        let settings = zone("America/Los_Angeles");
        insta::assert_snapshot!(message(&settings), @r#"clocks changed at 2025-11-02T01:30:00, which came twice or never; give the offset of the log, such as "-07:00", as the time zone"#);
    }
}
