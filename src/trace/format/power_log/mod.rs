//! What logs of power readings have in common: a line yields rows or a problem; rows are looked over
//! before they are kept, so that no importer turns a missing value into a zero.

mod cells;
mod json;
mod poll;
mod rows;
mod stamp;
mod undated;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use wattrace_schema::{ClockBase, InputClock, TimestampNs};

use super::clock::{LocalZone, epoch_clock};
use super::{AnchorInstant, DateOrder, ImportOptions, Input, Part, Sink, Skipped, quantity};
use crate::TraceError;

pub(super) use cells::{Columns, split_cells};
pub(super) use json::{Found, Piece, Pieces};
pub(super) use poll::{PollClock, Record};
pub(super) use rows::{Rows, Source};
pub(super) use stamp::{Stamp, epoch_stamp, parse_stamp, stamp_line};
pub(super) use undated::Undated;

/// Why a line, or the rest of a log, yields nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// The line is left out and counted; with `--strict` it is an error.
    Skip(String),
    /// Whatever followed would be a guess, so the log is refused.
    Stop(String),
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self::Skip(message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        Self::Skip(message.to_owned())
    }
}

/// What a person may say about the times of a log, and which of it was needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// Zone of times that the log gives without one.
    pub(super) zone: Option<LocalZone>,
    /// Time of the first reading of a log without times, or a time on its first day.
    pub(super) anchor: Option<TimestampNs>,
    pub(super) anchor_uncertainty_ns: Option<u64>,
    /// Time between the readings of such a log.
    pub(super) interval_ns: Option<i64>,
    /// Which number of a date is the month, where both may be.
    pub(super) date_order: Option<DateOrder>,
    pub(super) base: Rc<Cell<Option<ClockBase>>>,
}

impl Settings {
    /// What the options of an import say.
    ///
    /// # Errors
    /// There is no zone of that name, or the anchor is not of the first reading.
    pub(super) fn of(options: &ImportOptions) -> Result<Self, TraceError> {
        let anchor = options.anchor;
        if anchor.is_some_and(|anchor| anchor.instant == AnchorInstant::End) {
            return Err(TraceError::Other(
                "--anchor names the end of a log of power; expected its start, such as \
                 \"start=2026-01-31T12:00:00Z\""
                    .into(),
            ));
        }
        Ok(Self {
            zone: LocalZone::of(options)?,
            anchor: anchor.map(|anchor| TimestampNs::from_nanos(anchor.time_ns)),
            anchor_uncertainty_ns: anchor.and_then(|anchor| anchor.uncertainty_ns),
            interval_ns: options.interval_ns.and_then(|interval| i64::try_from(interval).ok()),
            date_order: options.date_order,
            base: Rc::default(),
        })
    }

    /// The point in time that a stamp means.
    pub(super) fn resolve(&self, stamp: Stamp) -> Result<i64, Problem> {
        stamp::resolve(stamp, self)
    }

    /// Remembers that the log has local times.
    fn saw_local(&self) {
        self.base.set(Some(ClockBase::Local));
    }

    /// The time of reading number `tick` of a log that has no times.
    pub(super) fn tick(&self, tick: i64, what: &str) -> Result<i64, Problem> {
        let (Some(anchor), Some(interval_ns)) = (self.anchor, self.interval_ns) else {
            return Err(Problem::Stop(format!(
                "{what} has no times; give the time of its first reading (--anchor) and the time between \
                 readings (--interval)"
            )));
        };
        self.base.set(Some(ClockBase::None));
        interval_ns
            .checked_mul(tick)
            .and_then(|since| anchor.nanos().checked_add(since))
            .ok_or_else(|| Problem::Stop("--interval leads out of the years 1678 to 2261".into()))
    }

    /// What `run.json` says of the clock.
    fn clock(&self, resolution_ns: u64) -> InputClock {
        match (self.base.get(), &self.zone) {
            (Some(ClockBase::Local), Some(zone)) => zone.clock(resolution_ns),
            (Some(ClockBase::None), _) => InputClock {
                base: ClockBase::None,
                anchor: self.anchor.map(|time| format!("start = {time}, named")),
                uncertainty_ns: self.anchor_uncertainty_ns,
                ..InputClock::default()
            },
            _ => epoch_clock(resolution_ns),
        }
    }
}

/// A log that is read line by line. Lines come without their ends; blank ones do not come.
pub(super) trait PowerLog {
    /// Reads a line and adds what it yields to `rows`.
    fn line(&mut self, text: &str, rows: &mut Rows) -> Result<(), Problem>;

    /// Reads on after the last line.
    fn end(&mut self, _rows: &mut Rows) -> Result<(), Problem> {
        Ok(())
    }

    /// A line was left out before it came here, or by [`Problem::Skip`].
    fn skipped(&mut self) {}

    /// Says what else is known of the run.
    fn describe(&self, _part: &mut Part) {}
}

/// Reads a log to the one part that it holds.
pub(super) fn read(
    input: &Input,
    options: &ImportOptions,
    sink: &mut dyn Sink,
    log: impl FnOnce(Settings) -> Box<dyn PowerLog>,
) -> Result<(), TraceError> {
    let settings = Settings::of(options)?;
    let mut log = log(settings.clone());
    sink.begin(&input.stem())?;
    let mut rows = Rows::default();
    let skipped =
        each_line(input, options.strict, log.as_mut(), &mut rows, &mut |row| sink.power(row))?;
    sink.end(part(input, &settings, log.as_ref(), &rows, skipped)?)
}

/// What is known of a run from a log whose rows were given.
///
/// # Errors
/// There was no row.
pub(super) fn part(
    input: &Input,
    settings: &Settings,
    log: &dyn PowerLog,
    rows: &Rows,
    skipped: Skipped,
) -> Result<Part, TraceError> {
    if rows.is_empty() {
        let mut message = "holds no reading of power or energy".to_owned();
        if let Some(note) = skipped.notes(input.path()).first() {
            message += &format!("; {note}");
        }
        return Err(input.error(None, message));
    }
    let mut part = rows.finish().part(settings);
    part.skipped = skipped;
    log.describe(&mut part);
    Ok(part)
}

/// Gives every line of `input` to `log`, and the rows that it yields to `keep`.
pub(super) fn each_line(
    input: &Input,
    strict: bool,
    log: &mut dyn PowerLog,
    rows: &mut Rows,
    keep: &mut dyn FnMut(crate::PowerRow) -> Result<(), TraceError>,
) -> Result<Skipped, TraceError> {
    let mut skipped = Skipped::default();
    let mut number = 0;
    let mut skip = |log: &mut dyn PowerLog, line: u64, result: Result<(), Problem>| match result {
        Ok(()) => Ok(()),
        Err(Problem::Stop(message)) => Err(input.error(Some(line), message)),
        Err(Problem::Skip(message)) => {
            log.skipped();
            skipped.add(strict, input.path(), line, "lines", message)
        }
    };
    let mut lines = input.lines()?;
    while let Some(line) = lines.next_line()? {
        number = line.number;
        let result = match line.text {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) if !line.ended && may_be_cut(text) => Err("was cut off".into()),
            Ok(text) => log.line(text, rows),
            Err(problem) => Err(problem.into()),
        };
        skip(log, number, result)?;
        for row in rows.take() {
            keep(row)?;
        }
    }
    let result = log.end(rows);
    skip(log, number, result)?;
    for row in rows.take() {
        keep(row)?;
    }
    Ok(skipped)
}

/// Whether a last line without an end may lack digits, units or cells: a number that was cut off still
/// looks like one.
pub(super) fn may_be_cut(line: &str) -> bool {
    !line.ends_with(|last: char| last.is_ascii_alphabetic() || "]}%\"".contains(last))
}

/// A cell as a number of watts; `None` where it says that there is none. A unit in the cell goes before
/// the one of the header.
pub(super) fn power_cell(
    column: &dyn fmt::Display,
    cell: &str,
    unit: &str,
) -> Result<Option<f64>, String> {
    value_cell(column, cell, unit, "412.34 W", quantity::power_w)
}

/// A cell as a number of joules, likewise.
pub(super) fn energy_cell(
    column: &dyn fmt::Display,
    cell: &str,
    unit: &str,
) -> Result<Option<f64>, String> {
    value_cell(column, cell, unit, "1000.5 J", quantity::energy_j)
}

fn value_cell(
    column: &dyn fmt::Display,
    cell: &str,
    unit: &str,
    example: &str,
    convert: fn(f64, &str) -> Result<f64, String>,
) -> Result<Option<f64>, String> {
    if quantity::is_absent(cell) {
        return Ok(None);
    }
    let (value, own_unit) = quantity::split_unit(cell).map_err(|_| {
        format!("\"{column}\" is \"{cell}\"; expected a number such as \"{example}\"")
    })?;
    let unit = if own_unit.is_empty() { unit } else { own_unit };
    let value =
        convert(value, unit).map_err(|cause| format!("\"{column}\" is \"{cell}\": {cause}"))?;
    Ok(Some(value))
}

/// A cell as a plain number, whatever its unit, for columns that explain power but are not power. What
/// cannot be read there costs no row.
pub(super) fn number_cell(cell: &str) -> Option<f64> {
    if quantity::is_absent(cell) {
        return None;
    }
    quantity::split_unit(cell).ok().map(|(value, _)| value)
}

/// A cell as whole megahertz.
pub(super) fn clock_cell(cell: &str) -> Option<u32> {
    quantity::megahertz(number_cell(cell)?, "MHz").ok()
}

#[cfg(test)]
mod real_logs;
#[cfg(test)]
pub(super) mod testing;
