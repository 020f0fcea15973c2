//! Times that a log gives without a zone, and dates whose month and day may stand in either order.

use jiff::civil::{DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use wattrace_schema::TimestampNs;

/// Which number of a date is the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    /// `12-31-2025`.
    MonthFirst,
    /// `31-12-2025`.
    DayFirst,
}

impl DateOrder {
    pub(super) const BOTH: [Self; 2] = [Self::MonthFirst, Self::DayFirst];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MonthFirst => "month first",
            Self::DayFirst => "day first",
        }
    }
}

/// A time such as `07-17-2024 09:44:23.305`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoggedTime {
    first: i8,
    second: i8,
    year: i16,
    time: Time,
}

impl LoggedTime {
    /// Parses two numbers, a year of four digits and a time of day with up to nine fractional digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.trim().split_once(' ')?;
        let mut parts = date.split(['-', '/']);
        let (first, second, year) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || year.len() != 4 {
            return None;
        }
        Some(Self {
            first: digits(first, 2)?.try_into().ok()?,
            second: digits(second, 2)?.try_into().ok()?,
            year: digits(year, 4)?.try_into().ok()?,
            time: time_of_day(time.trim_start())?,
        })
    }

    /// The year, which stands last.
    pub(super) const fn year(self) -> i16 {
        self.year
    }

    /// The date and time, if there is such a date in that order.
    pub(super) fn date_time(self, order: DateOrder) -> Option<DateTime> {
        let (month, day) = match order {
            DateOrder::MonthFirst => (self.first, self.second),
            DateOrder::DayFirst => (self.second, self.first),
        };
        let date = jiff::civil::Date::new(self.year, month, day).ok()?;
        Some(date.to_datetime(self.time))
    }
}

pub(super) fn time_of_day(text: &str) -> Option<Time> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let mut two_digits = || digits(parts.next()?, 2)?.try_into().ok();
    let (hour, minute, second) = (two_digits()?, two_digits()?, two_digits()?);
    if parts.next().is_some() {
        return None;
    }
    let nanos = digits(fraction, 9)? * 10_u32.pow(9 - u32::try_from(fraction.len()).ok()?);
    Time::new(hour, minute, second, nanos.try_into().ok()?).ok()
}

/// A number of 1 to `most` digits and nothing else.
fn digits(text: &str, most: usize) -> Option<u32> {
    let valid = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if valid { text.parse().ok() } else { None }
}

/// A time zone as a person names it: `UTC`, `Z`, an offset such as `-07:00`, or an IANA name.
///
/// # Errors
/// The text is none of these.
pub(super) fn parse_zone(text: &str) -> Result<TimeZone, String> {
    if matches!(text, "UTC" | "Z") {
        return Ok(TimeZone::UTC);
    }
    let named = || TimeZone::get(text).ok();
    parse_offset(text).or_else(named).ok_or_else(|| {
        format!(
            "\"{text}\" is no time zone; expected \"UTC\", an offset such as \"-07:00\", or a name such \
             as \"America/Los_Angeles\""
        )
    })
}

/// Says what is wrong with the name of a time zone.
///
/// # Errors
/// It is neither `UTC`, nor an offset, nor an IANA name.
pub fn check_zone(text: &str) -> Result<(), String> {
    parse_zone(text).map(|_| ())
}

fn parse_offset(text: &str) -> Option<TimeZone> {
    let (sign, clock) = match text.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let (hours, minutes) = clock.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    if minutes > 59 {
        return None;
    }
    zone_of_seconds(sign * i64::from(hours * 3600 + minutes * 60))
}

/// The zone that many seconds east of UTC.
pub(super) fn zone_of_seconds(east: i64) -> Option<TimeZone> {
    Some(TimeZone::fixed(Offset::from_seconds(i32::try_from(east).ok()?).ok()?))
}

/// A local time as a point in time.
///
/// # Errors
/// The clocks of the zone showed that time twice or never, or it does not fit 64-bit nanoseconds.
pub(super) fn to_timestamp(zone: &TimeZone, local: DateTime) -> Result<TimestampNs, String> {
    let timestamp = zone.to_ambiguous_timestamp(local).unambiguous().map_err(|_| {
        format!(
            "clocks changed at {local}, which came twice or never; give the offset of the log, such as \
             \"-07:00\", as the time zone (--tz)"
        )
    })?;
    i64::try_from(timestamp.as_nanosecond())
        .map(TimestampNs::from_nanos)
        .map_err(|_| format!("{local} lies outside the years 1678 to 2261"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_time_reads_in_both_orders_where_both_exist() {
        let time = LoggedTime::parse("07-04-2024 09:44:23.305").unwrap();
        let show = |time: LoggedTime, order| time.date_time(order).map(|local| local.to_string());
        assert_eq!(show(time, DateOrder::MonthFirst).unwrap(), "2024-07-04T09:44:23.305");
        assert_eq!(show(time, DateOrder::DayFirst).unwrap(), "2024-04-07T09:44:23.305");
        let time = LoggedTime::parse("17/07/2024 9:44:23").unwrap();
        assert_eq!(show(time, DateOrder::MonthFirst), None);
        assert_eq!(show(time, DateOrder::DayFirst).unwrap(), "2024-07-17T09:44:23");
    }

    #[test]
    fn other_texts_are_no_logged_time() {
        for text in [
            "",
            " ",
            "07-17-2024",
            "07-17-24 09:00:00",
            "2024-07-17 09:00:00",
            "07-17-2024 24:00:00",
            "07-17-2024 09:00",
            "07-17-2024 09:00:00.",
            "07-17-2024 09:00:00.1234567890",
            "07-17-2024 09:00:00:00",
            "-7-17-2024 09:00:00",
            "+7-17-2024 09:00:00",
            "é-17-2024 09:00:00",
        ] {
            assert_eq!(LoggedTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn zones_have_names_and_offsets() {
        let local: DateTime = "2024-07-17T02:00:00".parse().unwrap();
        let at = |zone| to_timestamp(&parse_zone(zone).unwrap(), local).unwrap().to_string();
        assert_eq!(at("UTC"), "2024-07-17T02:00:00Z");
        assert_eq!(at("-07:00"), "2024-07-17T09:00:00Z");
        assert_eq!(at("+05:30"), "2024-07-16T20:30:00Z");
        assert_eq!(at("America/Los_Angeles"), "2024-07-17T09:00:00Z");
        for text in ["", "Moon/Base", "+7", "-07:60", "+99:00"] {
            assert!(
                parse_zone(text).unwrap_err().starts_with(&format!("\"{text}\" is no time zone"))
            );
        }
    }

    #[test]
    fn a_time_that_came_twice_is_refused() {
        let zone = parse_zone("America/Los_Angeles").unwrap();
        let twice = "2024-11-03T01:30:00".parse().unwrap();
        insta::assert_snapshot!(
            to_timestamp(&zone, twice).unwrap_err(),
            @r#"clocks changed at 2024-11-03T01:30:00, which came twice or never; give the offset of the log, such as "-07:00", as the time zone (--tz)"#
        );
        assert!(to_timestamp(&zone, "2024-03-10T02:30:00".parse().unwrap()).is_err());
        assert!(to_timestamp(&zone, "0001-01-01T00:00:00".parse().unwrap()).is_err());
    }
}
