//! When the lines of a log were written: by the zone and the year that the caller names or, while the log
//! is being written, by when each line was seen.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use wattrace_schema::{ClockBase, InputClock};

use super::clock::{LocalZone, SECOND_NS, Years};
use super::{ImportOptions, Input};
use crate::TraceError;

/// Zones differ from UTC by multiples of a quarter of an hour.
const ZONE_STEP_NS: i64 = 900 * SECOND_NS;

/// Two clocks of one machine that are read one after the other differ by less than this. A stamp that lies
/// further ahead of the moment at which its line was seen is not of this machine's clock.
const AHEAD_NS: i64 = SECOND_NS;

/// Time between a stamp and the moment at which its line is in the file, where lines are not held back.
const WRITING_NS: i64 = 20_000_000;

/// Offsets of the wall clock that lie closer together than this are the same, read twice.
const SAME_OFFSET_NS: i64 = 1_000_000;

/// When a line of a growing log was seen, nanoseconds on the clock of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The look before, at which the line was not there.
    pub since_ns: i64,
    /// The look at which it was.
    pub at_ns: i64,
    /// What must be added to the wall clock of this machine to get the clock of the run.
    pub wall_offset_ns: i64,
}

/// When a line was written, as well as a stamp of whole seconds and the moment at which it was seen tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    /// The stamp; exact, or cut to whole seconds.
    pub(super) stamp_ns: i64,
    /// Earliest time if the stamp has whole seconds.
    pub(super) earliest_ns: i64,
    /// Latest time if it has.
    pub(super) latest_ns: i64,
}

impl Written {
    /// The middle of what is possible.
    pub(super) fn middle_ns(self) -> i64 {
        self.earliest_ns + (self.latest_ns - self.earliest_ns) / 2
    }

    /// In the second that begins at `stamp_ns`.
    pub(super) fn within(stamp_ns: i64) -> Self {
        let latest_ns = stamp_ns.saturating_add(SECOND_NS - 1);
        Self { stamp_ns, earliest_ns: stamp_ns, latest_ns }
    }
}

/// Dates the lines of one log.
#[derive(Debug)]
pub(super) enum Dating {
    /// Local times of a zone that the caller names.
    Named { zone: LocalZone, years: Years },
    /// Local times of this machine's clock, whatever its zone, of lines that were just written.
    Live(Arrivals),
}

/// What was learned from the lines of a growing log.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    seen: Option<Seen>,
    /// Offset of the wall clock at the look before, if it was stepped since.
    before_step_ns: Option<i64>,
    zone_ns: Option<i64>,
    late: u64,
    by_arrival: u64,
    arrival_uncertainty_ns: u64,
}

impl Dating {
    /// By the zone and the year in the options.
    ///
    /// # Errors
    /// They name no zone.
    pub(super) fn named(options: &ImportOptions, input: &Input) -> Result<Self, TraceError> {
        let zone = LocalZone::required(options, input)?;
        Ok(Self::Named { zone, years: Years::new(options, input) })
    }

    /// By when lines are seen.
    pub(super) fn live() -> Self {
        Self::Live(Arrivals::default())
    }

    /// The lines that follow were seen then.
    pub(super) fn see(&mut self, seen: Seen) {
        let Self::Live(arrivals) = self else { return };
        let before = arrivals.seen.map(|before| before.wall_offset_ns);
        if arrivals.seen != Some(seen) {
            arrivals.before_step_ns = before
                .filter(|before| before.abs_diff(seen.wall_offset_ns) > SAME_OFFSET_NS as u64);
        }
        arrivals.seen = Some(seen);
    }

    /// When a line with a date without its year was written.
    ///
    /// # Errors
    /// Zone or year do not fit, which concerns every line; never while the log is being written.
    pub(super) fn undated(&mut self, month: i8, day: i8, time: Time) -> Result<Written, String> {
        match self {
            Self::Named { zone, years } => {
                let local = years.place(month, day, time)?;
                Ok(Written::within(zone.nanos(local)?))
            }
            Self::Live(arrivals) => Ok(arrivals.undated(month, day, time)),
        }
    }

    /// When a line with a whole date was written.
    ///
    /// # Errors
    /// The zone does not fit, which concerns every line; never while the log is being written.
    pub(super) fn dated(&mut self, local: DateTime) -> Result<Written, String> {
        match self {
            Self::Named { zone, .. } => Ok(Written::within(zone.nanos(local)?)),
            Self::Live(arrivals) => Ok(arrivals.place(&[local])),
        }
    }

    /// When something happened by a stamp that names its zone.
    pub(super) fn instant(&self, nanos: i64) -> i64 {
        match self {
            Self::Named { .. } => nanos,
            Self::Live(arrivals) => {
                nanos.saturating_add(arrivals.seen.map_or(0, |seen| seen.wall_offset_ns))
            }
        }
    }

    /// When a line without a time was written, if anybody saw it.
    pub(super) fn unstamped(&mut self) -> Option<Written> {
        match self {
            Self::Named { .. } => None,
            Self::Live(arrivals) => Some(arrivals.arrival()),
        }
    }

    /// What `run.json` says of the clock.
    pub(super) fn clock(&self, resolution_ns: u64) -> InputClock {
        match self {
            Self::Named { zone, .. } => zone.clock(resolution_ns),
            Self::Live(_) => InputClock {
                base: ClockBase::Local,
                resolution_ns: Some(resolution_ns),
                ..InputClock::default()
            },
        }
    }

    /// What was decided.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::Named { years, .. } => years.note().into_iter().collect(),
            Self::Live(arrivals) => arrivals.notes(),
        }
    }
}

impl Arrivals {
    fn undated(&mut self, month: i8, day: i8, time: Time) -> Written {
        let year = |nanos: i64| {
            let timestamp = jiff::Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
            Some(TimeZone::UTC.to_datetime(timestamp).year())
        };
        let year = self.seen.and_then(|seen| year(seen.at_ns.saturating_sub(seen.wall_offset_ns)));
        let year = year.unwrap_or_default();
        // Around New Year the zone of the log may be in another year than UTC.
        let dates = [year, year - 1, year + 1].map(|year| Date::new(year, month, day).ok());
        let locals: Vec<DateTime> =
            dates.into_iter().flatten().map(|date| date.to_datetime(time)).collect();
        self.place(&locals)
    }

    /// Of the times that a stamp may mean, the one closest to when its line was seen. The zone is the
    /// whole number of quarters of an hour that lies between them.
    fn place(&mut self, locals: &[DateTime]) -> Written {
        let Some(seen) = self.seen else { return self.arrival() };
        let offsets = [Some(seen.wall_offset_ns), self.before_step_ns];
        let walls = locals.iter().filter_map(|local| {
            let timestamp = TimeZone::UTC.to_timestamp(*local).ok()?;
            i64::try_from(timestamp.as_nanosecond()).ok()
        });
        let candidates = walls.flat_map(|wall_ns| {
            offsets.into_iter().flatten().map(move |offset_ns| wall_ns.saturating_add(offset_ns))
        });
        let placed = candidates.filter_map(|as_utc_ns| {
            let lag_ns = seen.at_ns.saturating_sub(as_utc_ns);
            let zone_ns =
                lag_ns.saturating_add(ZONE_STEP_NS / 2).div_euclid(ZONE_STEP_NS) * ZONE_STEP_NS;
            let is_zone = zone_ns.abs() <= 14 * 3600 * SECOND_NS;
            let ahead_ns = zone_ns - lag_ns;
            (is_zone && ahead_ns <= AHEAD_NS).then_some((
                ahead_ns.abs(),
                as_utc_ns + zone_ns,
                zone_ns,
            ))
        });
        let Some((_, stamp_ns, zone_ns)) = placed.min_by_key(|(distance_ns, ..)| *distance_ns)
        else {
            return self.arrival();
        };
        self.zone_ns = Some(zone_ns);
        let mut written = Written::within(stamp_ns);
        let since_ns = seen.since_ns.saturating_sub(WRITING_NS);
        if written.latest_ns < since_ns {
            // Whoever holds one line back may do so with all.
            self.late += 1;
        } else if self.late == 0 {
            written.earliest_ns = stamp_ns.max(since_ns);
        }
        written.latest_ns = written.latest_ns.min(seen.at_ns).max(written.earliest_ns);
        written
    }

    fn arrival(&mut self) -> Written {
        let Some(Seen { since_ns, at_ns, .. }) = self.seen else {
            return Written { stamp_ns: 0, earliest_ns: 0, latest_ns: 0 };
        };
        self.by_arrival += 1;
        let uncertainty_ns = at_ns.abs_diff(since_ns).div_ceil(2);
        self.arrival_uncertainty_ns = self.arrival_uncertainty_ns.max(uncertainty_ns);
        let earliest_ns = since_ns.min(at_ns);
        Written { stamp_ns: earliest_ns, earliest_ns, latest_ns: at_ns }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(zone_ns) = self.zone_ns {
            // A zone east of UTC shows a later time, so what must be added to it is negative.
            let minutes = -zone_ns / (60 * SECOND_NS);
            let sign = if minutes < 0 { '-' } else { '+' };
            let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
            notes.push(format!(
                "its stamps are of this machine's clock; their zone, {sign}{hours:02}:{minutes:02}, and year \
                 follow from when lines were seen"
            ));
        }
        if self.late > 0 {
            notes.push(format!(
                "lines that were held back before they were written: {}; from the first on, lines were not \
                 taken to be as young as they looked",
                self.late
            ));
        }
        if self.by_arrival > 0 {
            notes.push(format!(
                "lines without a time, or with one that does not fit when they were seen: {}; they are dated \
                 by when they were seen, at most {} ms off",
                self.by_arrival,
                self.arrival_uncertainty_ns.div_ceil(1_000_000)
            ));
        }
        notes
    }
}

/// Where a clock that counts from the start of an engine lies on the clock of the run. Each line was
/// written no later than it was seen, and no earlier than the look before; what all lines allow is narrow
/// after a few looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uptime {
    earliest_ns: i64,
    latest_ns: i64,
    /// Lines came later than the look after them: the engine holds lines back.
    is_buffered: bool,
}

impl Default for Uptime {
    fn default() -> Self {
        Self { earliest_ns: i64::MIN, latest_ns: i64::MAX, is_buffered: false }
    }
}

impl Uptime {
    /// A line with this stamp was seen.
    pub(super) fn see(&mut self, stamp_ns: i64, seen: Seen) {
        self.latest_ns = self.latest_ns.min(seen.at_ns.saturating_sub(stamp_ns));
        self.earliest_ns = self.earliest_ns.max(seen.since_ns.saturating_sub(stamp_ns));
        self.is_buffered |= self.earliest_ns > self.latest_ns.saturating_add(WRITING_NS);
    }

    /// What must be added to a stamp.
    pub(super) fn offset_ns(&self) -> i64 {
        if self.earliest_ns >= self.latest_ns || self.earliest_ns == i64::MIN {
            return if self.latest_ns == i64::MAX { 0 } else { self.latest_ns };
        }
        if self.is_buffered {
            return self.latest_ns;
        }
        self.earliest_ns + (self.latest_ns - self.earliest_ns) / 2
    }

    /// How far it may be off; where lines are held back, as far as the bounds contradict each other.
    pub(super) fn uncertainty_ns(&self) -> u64 {
        let width_ns = self.earliest_ns.abs_diff(self.latest_ns);
        if self.earliest_ns < self.latest_ns { width_ns.div_ceil(2) } else { width_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::nanos;
    use super::*;

    const MS: i64 = 1_000_000;

    /// A look 200 ms after the one before, with a wall clock that agrees with the run's.
    fn seen(at: &str) -> Seen {
        let at_ns = nanos(at);
        Seen { since_ns: at_ns - 200 * MS, at_ns, wall_offset_ns: 0 }
    }

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn the_zone_and_the_year_follow_from_when_a_line_was_seen() {
        // New Year's Eve in New York, half past four in the morning in Kathmandu.
        for (stamp, zone) in [((12, 31, "18:59:59"), "-05:00"), ((1, 1, "05:44:59"), "+05:45")] {
            let mut dating = Dating::live();
            dating.see(seen("2026-01-01T00:00:00.3Z"));
            let (month, day, text) = stamp;
            let written = dating.undated(month, day, time(text)).unwrap();
            assert_eq!(written.stamp_ns, nanos("2025-12-31T23:59:59Z"));
            assert_eq!(written.latest_ns, nanos("2025-12-31T23:59:59.999999999Z"));
            assert!(dating.notes()[0].contains(zone), "{:?}", dating.notes());
        }
    }

    #[test]
    fn a_line_was_written_between_two_looks() {
        let mut dating = Dating::live();
        dating.see(seen("2026-03-01T10:00:00.25Z"));
        let written = dating.undated(3, 1, time("10:00:00")).unwrap();
        let expected = (nanos("2026-03-01T10:00:00.03Z"), nanos("2026-03-01T10:00:00.25Z"));
        assert_eq!((written.earliest_ns, written.latest_ns), expected);
        // A line that comes three seconds late says that lines are held back.
        dating.see(seen("2026-03-01T10:00:05.5Z"));
        dating.undated(3, 1, time("10:00:02")).unwrap();
        let written = dating.undated(3, 1, time("10:00:05")).unwrap();
        let expected = (nanos("2026-03-01T10:00:05Z"), nanos("2026-03-01T10:00:05.5Z"));
        assert_eq!((written.earliest_ns, written.latest_ns), expected);
        assert!(
            dating.notes()[1].starts_with("lines that were held back before they were written: 1")
        );
    }

    #[test]
    fn lines_before_and_after_a_step_of_the_wall_clock_keep_their_places() {
        let mut dating = Dating::live();
        dating.see(seen("2026-03-01T10:00:00.2Z"));
        // The wall clock is set 30 s ahead between the two looks.
        let stepped = Seen { wall_offset_ns: -30 * SECOND_NS, ..seen("2026-03-01T10:00:00.4Z") };
        dating.see(stepped);
        let expected = nanos("2026-03-01T10:00:00Z");
        assert_eq!(dating.undated(3, 1, time("10:00:00")).unwrap().stamp_ns, expected);
        dating.see(stepped);
        assert_eq!(dating.undated(3, 1, time("10:00:30")).unwrap().stamp_ns, expected);
    }

    #[test]
    fn lines_narrow_down_when_an_engine_started() {
        let mut uptime = Uptime::default();
        let look = |at_ms: i64| Seen {
            since_ns: (at_ms - 200) * MS,
            at_ns: at_ms * MS,
            wall_offset_ns: 0,
        };
        // It started at 1000 ms. The line of 1050 ms is seen at 1200, that of 1390 ms at 1400.
        uptime.see(50 * MS, look(1200));
        assert_eq!((uptime.offset_ns(), uptime.uncertainty_ns()), (1050 * MS, 100_000_000));
        uptime.see(390 * MS, look(1400));
        // [950, 1150] and [810, 1010].
        assert_eq!((uptime.offset_ns(), uptime.uncertainty_ns()), (980 * MS, 30_000_000));
        // A line of 1100 ms that comes at 1600 was held back: it bounds from above only.
        uptime.see(100 * MS, look(1600));
        assert_eq!(uptime.offset_ns(), 1010 * MS);
        assert_eq!(uptime.uncertainty_ns(), 290_000_000);
    }

    #[test]
    fn stamps_that_cannot_be_are_replaced_by_the_arrival() {
        let mut dating = Dating::live();
        dating.see(seen("2026-03-01T10:00:00Z"));
        let arrival = (nanos("2026-03-01T09:59:59.8Z"), nanos("2026-03-01T10:00:00Z"));
        for written in [
            dating.undated(2, 30, time("10:00:00")).unwrap(),
            dating.undated(3, 1, time("10:01:00")).unwrap(),
            dating.unstamped().unwrap(),
        ] {
            assert_eq!((written.stamp_ns, written.latest_ns), arrival);
        }
        assert_eq!(
            dating.notes(),
            [
                "lines without a time, or with one that does not fit when they were seen: 3; they are dated by \
              when they were seen, at most 100 ms off"
            ]
        );
    }
}
