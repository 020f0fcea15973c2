//! From the times of a log to nanoseconds since 1970: zones, years, the order of day and month, and
//! clocks that count from an unknown instant. What cannot be known is asked for, never guessed.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use wattrace_schema::{ClockBase, InputClock, TimestampNs};

use super::local_time::{self, DateOrder, LoggedTime};
use super::{ImportOptions, Input};
use crate::TraceError;

/// Nanoseconds in a second, millisecond and microsecond.
pub(super) const SECOND_NS: i64 = 1_000_000_000;

/// A time as a log gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    /// With a zone: nanoseconds since 1970.
    Instant(i64),
    /// Wall time without a zone.
    Local(DateTime),
}

impl Stamp {
    /// Parses a date that begins with its year and a time of day: `2025/01/15 12:34:56.789`,
    /// `2025-01-15 12:34:56,789`, `2025-01-15T12:34:56`, with or without `Z` or an offset. `None` for
    /// anything else.
    #[must_use]
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(time) = TimestampNs::parse(text) {
            return Some(Self::Instant(time.nanos()));
        }
        let (date, time) = text.split_once([' ', 'T'])?;
        let separator = if date.contains('/') { '/' } else { '-' };
        let mut parts = date.split(separator);
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || year.len() != 4 {
            return None;
        }
        let date = Date::new(number(year)?, number(month)?, number(day)?).ok()?;
        Some(Self::Local(date.to_datetime(time_of_day(time)?)))
    }

    /// Parses a date without separators, as `date` of vLLM's benchmark: `20250115-123456`.
    #[must_use]
    pub(super) fn parse_compact(text: &str) -> Option<Self> {
        let (date, time) = text.trim().split_once('-')?;
        if date.len() != 8 || time.len() != 6 || !date.is_ascii() || !time.is_ascii() {
            return None;
        }
        let date =
            Date::new(number(&date[..4])?, number(&date[4..6])?, number(&date[6..])?).ok()?;
        let time =
            Time::new(number(&time[..2])?, number(&time[2..4])?, number(&time[4..])?, 0).ok()?;
        Some(Self::Local(date.to_datetime(time)))
    }
}

/// A time of day with up to nine fractional digits after a point or a comma.
pub(super) fn time_of_day(text: &str) -> Option<Time> {
    local_time::time_of_day(&text.trim().replace(',', "."))
}

/// An unsigned number of digits only.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// The zone of an input's local times.
#[derive(Debug, Clone)]
pub(super) struct LocalZone {
    zone: TimeZone,
    name: String,
}

impl LocalZone {
    /// The zone that the options name, if they do.
    ///
    /// # Errors
    /// There is no zone of that name.
    pub(super) fn of(options: &ImportOptions) -> Result<Option<Self>, TraceError> {
        let Some(name) = &options.time_zone else { return Ok(None) };
        let zone = local_time::parse_zone(name).map_err(TraceError::Other)?;
        Ok(Some(Self { zone, name: name.clone() }))
    }

    /// The zone that the options name.
    ///
    /// # Errors
    /// They name none, so that local times cannot be placed: the message asks for `--tz`.
    pub(super) fn required(options: &ImportOptions, input: &Input) -> Result<Self, TraceError> {
        Self::of(options)?.ok_or_else(|| {
            input.error(
                None,
                "has local times without a zone; name the zone (--tz), such as UTC or \
                 America/Los_Angeles",
            )
        })
    }

    /// Nanoseconds since 1970 of a local time.
    ///
    /// # Errors
    /// Clocks showed that time twice or never (a change of daylight saving); the message asks for an
    /// offset.
    pub(super) fn nanos(&self, local: DateTime) -> Result<i64, String> {
        local_time::to_timestamp(&self.zone, local).map(TimestampNs::nanos)
    }

    /// The local time at a point in time; `None` outside the calendar.
    pub(super) fn local(&self, nanos: i64) -> Option<DateTime> {
        let timestamp = jiff::Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
        Some(self.zone.to_datetime(timestamp))
    }

    /// Nanoseconds since 1970 of a stamp, which needs the zone only if it has none itself.
    ///
    /// # Errors
    /// As [`LocalZone::nanos`].
    pub(super) fn stamp(&self, stamp: Stamp) -> Result<i64, String> {
        match stamp {
            Stamp::Instant(nanos) => Ok(nanos),
            Stamp::Local(local) => self.nanos(local),
        }
    }

    /// What `run.json` says of such a clock.
    #[must_use]
    pub(super) fn clock(&self, resolution_ns: u64) -> InputClock {
        InputClock {
            base: ClockBase::Local,
            zone: Some(self.name.clone()),
            resolution_ns: Some(resolution_ns),
            ..InputClock::default()
        }
    }
}

/// What `run.json` says of times since 1970.
#[must_use]
pub(super) fn epoch_clock(resolution_ns: u64) -> InputClock {
    InputClock {
        base: ClockBase::Epoch,
        resolution_ns: Some(resolution_ns),
        ..InputClock::default()
    }
}

/// Finds the year of stamps that have none, line after line.
#[derive(Debug)]
pub(super) struct Years {
    year: Option<i16>,
    modified: Option<Date>,
    last: Option<DateTime>,
    from_file: bool,
}

/// A step back of more days than this is New Year, not disorder.
const NEW_YEAR_DAYS: i32 = 180;

impl Years {
    /// The year of the first stamp is the one that the options name, or else follows from the time at
    /// which the file was last changed, which lies after its last line.
    #[must_use]
    pub(super) fn new(options: &ImportOptions, input: &Input) -> Self {
        let modified = input.modified().map(|time| TimeZone::UTC.to_datetime(time).date());
        Self { year: options.year, modified, last: None, from_file: options.year.is_none() }
    }

    /// The stamp with its year. Stamps come in the order of the log; where the date falls back by more
    /// than half a year, a new year has begun.
    ///
    /// # Errors
    /// Neither the options nor the file tell a year, or the year has no such date.
    pub(super) fn place(&mut self, month: i8, day: i8, time: Time) -> Result<DateTime, String> {
        let in_year = |year: i16| {
            Date::new(year, month, day).map(|date| date.to_datetime(time)).map_err(|_| {
                format!("{year} has no day {month:02}-{day:02}; name the year (--year)")
            })
        };
        let year = match self.year {
            Some(year) => year,
            None => {
                let modified = self.modified.ok_or("the times have no year; name it (--year)")?;
                // A day of grace, since the zone of the log is another than the file's.
                let latest = modified.tomorrow().unwrap_or(modified);
                let this = in_year(modified.year());
                let later = this.as_ref().map_or(true, |stamp| stamp.date() > latest);
                let year = if later { modified.year() - 1 } else { modified.year() };
                *self.year.insert(year)
            }
        };
        let mut stamp = in_year(year);
        if let (Some(last), Ok(placed)) = (self.last, &stamp) {
            let back = (last.date() - placed.date()).get_days();
            if back > NEW_YEAR_DAYS {
                stamp = in_year(year + 1);
                self.year = Some(year + 1);
            } else if back < -NEW_YEAR_DAYS {
                // A straggling line of the old year.
                return in_year(year - 1);
            }
        }
        let placed = stamp?;
        self.last = Some(placed);
        Ok(placed)
    }

    /// Where the year comes from, for the notes; `None` where no stamp was placed.
    #[must_use]
    pub(super) fn note(&self) -> Option<String> {
        let last = self.last?;
        Some(if self.from_file {
            format!("its times have no year: {} taken from the file's last change", last.year())
        } else {
            format!("its times have no year: {} as named", last.year())
        })
    }
}

/// Finds the order of day and month in dates such as `01-02-2025`.
#[derive(Debug, Clone, Default)]
pub(super) struct DateOrders {
    readable: [bool; 2],
    previous: [Option<DateTime>; 2],
    backward: [u64; 2],
    any: bool,
    differ: bool,
}

impl DateOrders {
    /// Takes one date into account.
    pub(super) fn add(&mut self, time: LoggedTime) {
        if !self.any {
            self.readable = [true; 2];
            self.any = true;
        }
        let read = DateOrder::BOTH.map(|order| time.date_time(order));
        self.differ |= read[0] != read[1];
        for (place, read) in read.into_iter().enumerate() {
            self.readable[place] &= read.is_some();
            if let (Some(read), Some(previous)) = (read, self.previous[place]) {
                self.backward[place] += u64::from(read < previous);
            }
            self.previous[place] = read.or(self.previous[place]);
        }
    }

    /// The order in which every date exists.
    ///
    /// # Errors
    /// No order fits, or both do and give different days; the message asks for `--date-order`.
    pub(super) fn decide(&self, named: Option<DateOrder>) -> Result<DateOrder, String> {
        let fits = |order: DateOrder| self.readable[usize::from(order == DateOrder::DayFirst)];
        match named {
            Some(order) if fits(order) => return Ok(order),
            Some(order) => return Err(format!("not every date exists {}", order.name())),
            None => {}
        }
        match self.readable {
            [true, true] if self.differ => match self.backward {
                [0, back] if back > 0 => Ok(DateOrder::MonthFirst),
                [back, 0] if back > 0 => Ok(DateOrder::DayFirst),
                _ => {
                    Err("dates may have the month or the day first; name the order (--date-order \
                          month-first or day-first)"
                        .into())
                }
            },
            [true, _] => Ok(DateOrder::MonthFirst),
            [false, true] => Ok(DateOrder::DayFirst),
            [false, false] => Err("no order of day and month fits every date".into()),
        }
    }
}

/// The instant of a run that an anchor names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorInstant {
    /// Zero of the input's own clock.
    Zero,
    /// When the first request was sent, or the first row of the input.
    Start,
    /// When the last request ended, or the last row of the input.
    End,
}

impl AnchorInstant {
    const ALL: [(&'static str, Self); 3] =
        [("zero", Self::Zero), ("start", Self::Start), ("end", Self::End)];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, instant)| *instant == self).map_or("", |(name, _)| name)
    }
}

/// Ties a clock that counts from an unknown instant to the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// Which instant is known.
    pub instant: AnchorInstant,
    /// When it was, nanoseconds since 1970.
    pub time_ns: i64,
    /// How well that is known.
    pub uncertainty_ns: Option<u64>,
}

impl Anchor {
    /// Parses `[zero=|start=|end=]TIME[±DURATION]`: the time in RFC 3339 or in seconds since 1970; the
    /// instant is `start` where none is named. `+-` may stand for `±`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, uncertainty) = match text.split_once('±').or_else(|| text.split_once("+-")) {
            Some((text, uncertainty)) => (text, Some(uncertainty)),
            None => (text, None),
        };
        let (instant, time) = match text.split_once('=') {
            Some((name, time)) => {
                let found = AnchorInstant::ALL.iter().find(|(known, _)| *known == name.trim());
                let (_, instant) = found.ok_or_else(|| {
                    format!("\"{name}\" is no instant of an anchor; expected zero, start or end")
                })?;
                (*instant, time)
            }
            None => (AnchorInstant::Start, text),
        };
        let time = time.trim();
        let time_ns = TimestampNs::parse(time)
            .map(TimestampNs::nanos)
            .or_else(|_| super::quantity::decimal_nanos(time, "s"))
            .map_err(|_| {
                format!(
                    "\"{time}\" is no time of an anchor; expected RFC 3339 such as \
                     2026-01-31T12:00:00.5Z, or seconds since 1970"
                )
            })?;
        let uncertainty_ns = uncertainty
            .map(|text| {
                let (value, unit) = super::quantity::split_unit(text)?;
                super::quantity::duration_ns(value, unit)
            })
            .transpose()?;
        Ok(Self { instant, time_ns, uncertainty_ns })
    }

    /// What must be added to the input's times, given its first and last, to get nanoseconds since 1970.
    ///
    /// # Errors
    /// The result does not fit.
    pub fn offset_ns(&self, first_ns: i64, last_ns: i64) -> Result<i64, String> {
        let at = match self.instant {
            AnchorInstant::Zero => 0,
            AnchorInstant::Start => first_ns,
            AnchorInstant::End => last_ns,
        };
        self.time_ns.checked_sub(at).ok_or_else(|| {
            format!("{at} ns on the input's clock cannot be placed at {}", self.time())
        })
    }

    /// What `run.json` says of a clock tied by this anchor.
    #[must_use]
    pub fn clock(&self, base: ClockBase, offset_ns: i64, resolution_ns: u64) -> InputClock {
        InputClock {
            base,
            anchor: Some(format!("{} = {}, named", self.instant.name(), self.time())),
            offset_ns: Some(offset_ns),
            uncertainty_ns: self.uncertainty_ns,
            resolution_ns: Some(resolution_ns),
            ..InputClock::default()
        }
    }

    fn time(&self) -> TimestampNs {
        TimestampNs::from_nanos(self.time_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(zone: &str) -> ImportOptions {
        ImportOptions { time_zone: Some(zone.into()), ..ImportOptions::default() }
    }

    #[test]
    fn stamps_have_many_shapes() {
        let local = |text: &str| match Stamp::parse(text) {
            Some(Stamp::Local(local)) => local.to_string(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(local("2025/01/15 12:34:56.789"), "2025-01-15T12:34:56.789");
        assert_eq!(local("2025-01-15 12:34:56,789"), "2025-01-15T12:34:56.789");
        assert_eq!(local("2025-01-15T12:34:56"), "2025-01-15T12:34:56");
        assert_eq!(
            Stamp::parse("2025-01-15T12:34:56Z"),
            Some(Stamp::Instant(1_736_944_496 * SECOND_NS))
        );
        let compact = Stamp::parse_compact("20250115-123456").unwrap();
        assert_eq!(compact, Stamp::parse("2025-01-15 12:34:56").unwrap());
        for text in
            ["", "2025", "15-01-2025 12:00:00", "2025-13-01 12:00:00", "2025-01-15 25:00:00", "é"]
        {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
        for text in ["", "20250115", "20251315-123456", "éééé-123456", "20250115-12345é"] {
            assert_eq!(Stamp::parse_compact(text), None, "{text}");
        }
    }

    #[test]
    fn a_missing_zone_is_asked_for() {
        let input = Input::new(std::path::Path::new("gpu.csv"));
        let error = LocalZone::required(&ImportOptions::default(), &input).unwrap_err();
        insta::assert_snapshot!(
            error,
            @r#""gpu.csv": has local times without a zone; name the zone (--tz), such as UTC or America/Los_Angeles"#
        );
        let zone = LocalZone::required(&options("America/Los_Angeles"), &input).unwrap();
        // In November 01:30 came twice.
        let fold = Stamp::parse("2024-11-03 01:30:00").unwrap();
        assert!(zone.stamp(fold).unwrap_err().contains("--tz"));
    }

    fn years(year: Option<i16>, modified: Option<&str>) -> Years {
        let modified = modified.map(|date| date.parse().unwrap());
        Years { year, modified, last: None, from_file: year.is_none() }
    }

    #[test]
    fn a_year_turns_where_the_date_falls_back() {
        let noon = Time::midnight();
        let mut named = years(Some(2025), None);
        let mut place = |month, day| named.place(month, day, noon).unwrap().date().to_string();
        assert_eq!(place(12, 31), "2025-12-31");
        assert_eq!(place(1, 1), "2026-01-01");
        assert_eq!(place(12, 31), "2025-12-31");
        assert_eq!(place(1, 2), "2026-01-02");
        // Last changed in January, so a December before it is of the year before.
        let mut from_file = years(None, Some("2027-01-02"));
        assert_eq!(from_file.place(12, 30, noon).unwrap().year(), 2026);
        assert_eq!(from_file.place(1, 2, noon).unwrap().year(), 2027);
        assert_eq!(years(None, Some("2026-11-30")).place(11, 30, noon).unwrap().year(), 2026);
        assert_eq!(
            years(None, None).place(1, 1, noon).unwrap_err(),
            "the times have no year; name it (--year)"
        );
        assert!(years(Some(2025), None).place(2, 29, noon).is_err());
    }

    #[test]
    fn the_order_of_dates_is_asked_for_where_both_fit() {
        let orders = |dates: &[&str]| {
            let mut orders = DateOrders::default();
            for date in dates {
                orders.add(LoggedTime::parse(&format!("{date} 12:00:00")).unwrap());
            }
            orders
        };
        assert_eq!(orders(&["01-15-2025"]).decide(None), Ok(DateOrder::MonthFirst));
        assert_eq!(orders(&["15-01-2025"]).decide(None), Ok(DateOrder::DayFirst));
        assert_eq!(orders(&["02-02-2025"]).decide(None), Ok(DateOrder::MonthFirst));
        assert!(orders(&["02-03-2025"]).decide(None).unwrap_err().contains("--date-order"));
        assert_eq!(
            orders(&["02-03-2025"]).decide(Some(DateOrder::DayFirst)),
            Ok(DateOrder::DayFirst)
        );
        assert!(orders(&["01-15-2025"]).decide(Some(DateOrder::DayFirst)).is_err());
        // 12 January to 1 February; month first, January would follow December of the same year.
        assert_eq!(orders(&["12-01-2025", "01-02-2025"]).decide(None), Ok(DateOrder::DayFirst));
    }

    #[test]
    fn an_anchor_names_its_instant_time_and_uncertainty() {
        let anchor = Anchor::parse("end=2026-11-30T04:42:56Z±0.5s").unwrap();
        assert_eq!(anchor.instant, AnchorInstant::End);
        assert_eq!(anchor.uncertainty_ns, Some(500_000_000));
        assert_eq!(anchor.offset_ns(5, 10), Ok(1_796_013_776_000_000_000 - 10));
        let plain = Anchor::parse("1736944496.25+-20 ms").unwrap();
        assert_eq!(
            (plain.instant, plain.time_ns),
            (AnchorInstant::Start, 1_736_944_496_250_000_000)
        );
        assert_eq!(plain.uncertainty_ns, Some(20_000_000));
        for (text, message) in [
            ("middle=1", "\"middle\" is no instant of an anchor; expected zero, start or end"),
            ("yesterday", "\"yesterday\" is no time of an anchor"),
            ("1±2", "\"\" is no unit of time"),
        ] {
            let error = Anchor::parse(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
