//! The rows that a log yields, looked over on their way.

use std::collections::{BTreeMap, BTreeSet};

use wattrace_schema::{Interpolation, PowerSource, Reading, Scope};

use super::Settings;
use crate::PowerRow;
use crate::format::Part;

/// Gaps between neighbours that the nominal interval is taken from, per source.
const GAPS: usize = 4096;
/// Interval of a source of which there is but one reading.
const UNKNOWN_INTERVAL_MS: f64 = 1000.0;
const SECOND_NS: i64 = 1_000_000_000;

/// What a log says of one stream of readings.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Source {
    pub(in super::super) id: String,
    pub(in super::super) scope: Scope,
    pub(in super::super) reading: Reading,
    pub(in super::super) averaging_window_ms: Option<f64>,
    pub(in super::super) interpolation: Interpolation,
}

impl Source {
    pub(in super::super) fn instant(id: &str, scope: Scope) -> Self {
        Self {
            id: id.to_owned(),
            scope,
            reading: Reading::Instant,
            averaging_window_ms: None,
            interpolation: Interpolation::Linear,
        }
    }

    pub(in super::super) fn average(id: &str, scope: Scope, window_ms: Option<f64>) -> Self {
        Self {
            reading: Reading::Average,
            averaging_window_ms: window_ms,
            ..Self::instant(id, scope)
        }
    }
}

/// Rows of power, and what was seen on the way.
#[derive(Debug, Default)]
pub(in super::super) struct Rows {
    /// Rows that were not yet taken away.
    pending: Vec<PowerRow>,
    sources: Vec<(Source, Seen)>,
    zero: u64,
    negative: u64,
    not_finite: u64,
    backward: u64,
    rows: u64,
    /// The coarsest of 1 s, 1 ms, 1 µs and 1 ns that all times are multiples of.
    resolution_ns: i64,
    accelerators: BTreeSet<String>,
    drivers: BTreeSet<String>,
    notes: Vec<String>,
    /// Left out on purpose, by what it is.
    left_out: BTreeMap<String, u64>,
}

/// The readings of one source so far.
#[derive(Debug, Default)]
struct Seen {
    devices: BTreeMap<String, Last>,
    gaps_ns: Vec<i64>,
    counter_gaps_ns: Vec<i64>,
}

/// The last reading of a device.
#[derive(Debug)]
struct Last {
    t_ns: i64,
    energy_j: Option<f64>,
    changed_ns: Option<i64>,
}

/// What was seen in a whole log.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in super::super) struct Findings {
    pub(in super::super) sources: Vec<PowerSource>,
    /// Devices of scope gpu-board, or else of gpu-module.
    pub(in super::super) accelerators: u32,
    /// Name of the accelerator, where the log gives one and only one.
    pub(in super::super) accelerator: Option<String>,
    pub(in super::super) driver: Option<String>,
    /// Step between two times that the log can tell apart.
    pub(in super::super) resolution_ns: u64,
    pub(in super::super) notes: Vec<String>,
}

impl Findings {
    /// What an importer says of a run that holds nothing but this log.
    pub(super) fn part(self, settings: &Settings) -> Part {
        Part {
            accelerator: self.accelerator,
            accelerators: (self.accelerators > 0).then_some(self.accelerators),
            driver: self.driver,
            power_sources: self.sources,
            notes: self.notes,
            clock: settings.clock(self.resolution_ns),
            ..Part::default()
        }
    }
}

impl Rows {
    /// Says what a source is; said again it changes nothing.
    pub(in super::super) fn declare(&mut self, source: Source) {
        if self.source_mut(&source.id).is_none() {
            self.sources.push((source, Seen::default()));
        }
    }

    /// Sets how a source reads, which some logs tell late.
    pub(in super::super) fn set_reading(
        &mut self,
        id: &str,
        reading: Reading,
        window_ms: Option<f64>,
    ) {
        if let Some((source, _)) = self.source_mut(id) {
            source.reading = reading;
            source.averaging_window_ms = window_ms;
        }
    }

    fn source_mut(&mut self, id: &str) -> Option<&mut (Source, Seen)> {
        self.sources.iter_mut().find(|(source, _)| source.id == id)
    }

    /// Adds a row of a declared source. Power that is not above zero, and a counter below zero, are no
    /// readings: they become null and are counted.
    pub(in super::super) fn push(&mut self, mut row: PowerRow) {
        row.power_w = row.power_w.filter(|watts| self.is_valid(*watts, *watts > 0.0));
        row.energy_j = row.energy_j.filter(|joules| self.is_valid(*joules, *joules >= 0.0));
        if self.rows == 0 {
            self.resolution_ns = SECOND_NS;
        }
        while row.t_ns % self.resolution_ns != 0 {
            self.resolution_ns /= 1000;
        }
        self.rows += 1;
        let Some((_, seen)) = self.sources.iter_mut().find(|(source, _)| source.id == row.source)
        else {
            debug_assert!(false, "source \"{}\" was not declared", row.source);
            return;
        };
        self.backward += u64::from(seen.add(&row));
        self.pending.push(row);
    }

    fn is_valid(&mut self, value: f64, in_range: bool) -> bool {
        if !value.is_finite() {
            self.not_finite += 1;
        } else if value < 0.0 {
            self.negative += 1;
        } else if !in_range {
            self.zero += 1;
        }
        value.is_finite() && in_range
    }

    /// Remembers the name of an accelerator, as the log writes it.
    pub(in super::super) fn accelerator(&mut self, name: &str) {
        if !self.accelerators.contains(name) {
            self.accelerators.insert(name.to_owned());
        }
    }

    /// Names of accelerators that the log gave.
    pub(in super::super) fn accelerators(&self) -> impl Iterator<Item = &str> {
        self.accelerators.iter().map(String::as_str)
    }

    /// Remembers the version of the driver.
    pub(in super::super) fn driver(&mut self, version: &str) {
        if !self.drivers.contains(version) {
            self.drivers.insert(version.to_owned());
        }
    }

    /// Adds a note about a decision; the same note again is one.
    pub(in super::super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Counts something that is left out on purpose, such as rows of another meaning.
    pub(in super::super) fn leave_out(&mut self, what: &str) {
        match self.left_out.get_mut(what) {
            Some(count) => *count += 1,
            None => {
                self.left_out.insert(what.to_owned(), 1);
            }
        }
    }

    /// Whether a row was ever added.
    pub(in super::super) const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows added since the last call.
    pub(in super::super) fn take(&mut self) -> impl Iterator<Item = PowerRow> + '_ {
        self.pending.drain(..)
    }

    /// What was seen. Sources without a row are left out.
    pub(in super::super) fn finish(&self) -> Findings {
        let used = || self.sources.iter().filter(|(_, seen)| !seen.devices.is_empty());
        let mut notes = self.notes.clone();
        for (count, what) in [
            (self.zero, "readings of 0, which a device that runs does not draw, null"),
            (self.negative, "negative readings, null"),
            (self.not_finite, "readings that are no finite number, null"),
            (self.backward, "readings earlier than the one before of their device"),
        ] {
            if count > 0 {
                notes.push(format!("{what}: {count}"));
            }
        }
        for (what, count) in &self.left_out {
            notes.push(format!("{what}, left out: {count}"));
        }
        let devices = |scope: Scope| -> BTreeSet<&str> {
            used()
                .filter(|(source, _)| source.scope == scope)
                .flat_map(|(_, seen)| seen.devices.keys().map(String::as_str))
                .collect()
        };
        let boards = devices(Scope::GpuBoard);
        let accelerators = if boards.is_empty() { devices(Scope::GpuModule) } else { boards };
        let only = |names: &BTreeSet<String>| match names.len() {
            1 => names.first().cloned(),
            _ => None,
        };
        if self.accelerators.len() > 1 {
            let names: Vec<&str> = self.accelerators().collect();
            notes.push(format!("accelerators of several names: {}", names.join(", ")));
        }
        Findings {
            sources: used().map(|(source, seen)| self.source(source, seen)).collect(),
            accelerators: u32::try_from(accelerators.len()).unwrap_or(u32::MAX),
            accelerator: only(&self.accelerators),
            driver: only(&self.drivers),
            resolution_ns: u64::try_from(self.resolution_ns).unwrap_or(1),
            notes,
        }
    }

    fn source(&self, source: &Source, seen: &Seen) -> PowerSource {
        let interval_ms = median_ms(&seen.gaps_ns).unwrap_or(UNKNOWN_INTERVAL_MS);
        // A counter that is read more often than it is refreshed repeats its value.
        let refresh_ms =
            median_ms(&seen.counter_gaps_ns).filter(|refresh| *refresh > 1.5 * interval_ms);
        PowerSource {
            id: source.id.clone(),
            scope: source.scope,
            reading: source.reading,
            averaging_window_ms: source.averaging_window_ms,
            nominal_interval_ms: interval_ms,
            counter_wrap_j: None,
            counter_refresh_ms: refresh_ms,
            accuracy_percent: None,
            clock_offset_ns: None,
            // A stamp in whole seconds leaves up to a second open.
            clock_offset_uncertainty_ns: (self.resolution_ns == SECOND_NS).then_some(1_000_000_000),
            interpolation: source.interpolation,
        }
    }
}

impl Seen {
    /// Adds a row; says whether it is earlier than the one before.
    fn add(&mut self, row: &PowerRow) -> bool {
        let Some(last) = self.devices.get_mut(&row.device) else {
            let changed_ns = None;
            let last = Last { t_ns: row.t_ns, energy_j: row.energy_j, changed_ns };
            self.devices.insert(row.device.clone(), last);
            return false;
        };
        let gap_ns = row.t_ns.saturating_sub(last.t_ns);
        if gap_ns > 0 && self.gaps_ns.len() < GAPS {
            self.gaps_ns.push(gap_ns);
        }
        last.t_ns = row.t_ns;
        if row.energy_j.is_some() && row.energy_j != last.energy_j {
            let since = last.changed_ns.map(|changed| row.t_ns.saturating_sub(changed));
            let since = since.filter(|_| self.counter_gaps_ns.len() < GAPS);
            self.counter_gaps_ns.extend(since);
            last.energy_j = row.energy_j;
            last.changed_ns = Some(row.t_ns);
        }
        gap_ns < 0
    }
}

/// The median in milliseconds, whole ones where it is ten or more: an intended interval, not its jitter.
fn median_ms(gaps_ns: &[i64]) -> Option<f64> {
    let mut sorted = gaps_ns.to_vec();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)? as f64 / 1e6;
    let interval = if median >= 10.0 { median.round() } else { median };
    (interval > 0.0).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(t_ms: i64, power_w: Option<f64>, energy_j: Option<f64>) -> PowerRow {
        PowerRow {
            t_ns: t_ms * 1_000_000,
            source: "a".into(),
            device: "gpu0".into(),
            power_w,
            energy_j,
            ..PowerRow::default()
        }
    }

    #[test]
    fn values_that_are_none_become_null_and_are_counted() {
        let mut rows = Rows::default();
        rows.declare(Source::instant("a", Scope::GpuBoard));
        for watts in [0.0, -1.0, f64::NAN, f64::INFINITY, 5.5] {
            rows.push(row(1, Some(watts), None));
        }
        let watts: Vec<Option<f64>> = rows.take().map(|row| row.power_w).collect();
        assert_eq!(watts, [None, None, None, None, Some(5.5)]);
        assert_eq!(
            rows.finish().notes,
            [
                "readings of 0, which a device that runs does not draw, null: 1",
                "negative readings, null: 1",
                "readings that are no finite number, null: 2",
            ]
        );
    }

    #[test]
    fn the_interval_is_the_median_and_a_slow_counter_is_noticed() {
        let mut rows = Rows::default();
        rows.declare(Source::instant("a", Scope::GpuBoard));
        rows.declare(Source::instant("unused", Scope::Node));
        // Read each 100 ms (jitter 0.3 ms), refreshed each 400 ms.
        for tick in 0..20 {
            rows.push(row(tick * 100, Some(9.0), Some(1.0 + (tick / 4) as f64)));
        }
        rows.push(row(1500, Some(9.0), None));
        let findings = rows.finish();
        let source = &findings.sources[0];
        assert_eq!(findings.sources.len(), 1);
        assert_eq!(source.nominal_interval_ms, 100.0);
        assert_eq!(source.counter_refresh_ms, Some(400.0));
        assert_eq!(source.clock_offset_uncertainty_ns, None);
        assert_eq!(findings.notes, ["readings earlier than the one before of their device: 1"]);
        assert_eq!(findings.accelerators, 1);
    }
}
