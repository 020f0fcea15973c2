//! The samples of one device in the order of their times, which several rules look at.

use wattrace_schema::{PowerSource, RunManifest, tables::POWER};

use super::stamps::{Window, windows};
use super::{Place, Report};
use crate::reader::power::{DeviceRows, PowerRows};

/// One valid sample and the row it came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) t_ns: i64,
    pub(super) value: f64,
    pub(super) row: u64,
}

/// A device with its source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device<'a> {
    pub(super) source: &'a PowerSource,
    pub(super) rows: &'a DeviceRows,
}

/// Every device of every source.
pub(super) fn devices<'a>(
    manifest: &'a RunManifest,
    power: &'a PowerRows,
) -> impl Iterator<Item = Device<'a>> {
    let sources = &manifest.power_sources;
    power.devices.iter().map(|rows| Device { source: &sources[rows.source], rows })
}

impl<'a> Device<'a> {
    /// Valid power readings in the order of their times.
    pub(super) fn power(&self) -> Vec<Sample> {
        sorted(self.rows, &self.rows.power_w)
    }

    /// Valid counter readings in the order of their times.
    pub(super) fn counter(&self) -> Vec<Sample> {
        sorted(self.rows, &self.rows.energy_j)
    }

    /// Power readings, or counter readings of a device that has no power.
    pub(super) fn samples(&self) -> Vec<Sample> {
        let power = self.power();
        if power.is_empty() { self.counter() } else { power }
    }

    /// How findings name it.
    pub(super) fn name(&self) -> String {
        format!("device \"{}\" of source \"{}\"", self.rows.device, self.source.id)
    }

    pub(super) fn place(&self, column: &'static str, row: u64) -> Place {
        Place::file(POWER.file).column(column).row(row)
    }

    /// The longest time between neighbouring samples that is no gap: three times the median interval of
    /// the samples inside the window, or with fewer than three samples of the nominal interval.
    pub(super) fn max_gap_ns(&self, samples: &[Sample], window: Window) -> i64 {
        let inside = inside(samples, window);
        let mut intervals: Vec<i64> =
            inside.windows(2).map(|pair| pair[1].t_ns.saturating_sub(pair[0].t_ns)).collect();
        intervals.retain(|interval| *interval > 0);
        if inside.len() < 3 || intervals.is_empty() {
            // A float cast saturates, so that an absurd interval is merely long.
            return (3e6 * self.source.nominal_interval_ms) as i64;
        }
        intervals.sort_unstable();
        let middle = intervals.len() / 2;
        let (upper, lower) = (intervals[middle], intervals[(intervals.len() - 1) / 2]);
        (lower / 2 + upper / 2 + (lower % 2 + upper % 2) / 2).saturating_mul(3)
    }

    /// The windows of the run, or the whole time of the samples if it has none.
    pub(super) fn windows(&self, manifest: &RunManifest, samples: &[Sample]) -> Vec<Window> {
        let named = windows(manifest);
        match (samples.first(), samples.last()) {
            (Some(first), Some(last)) if named.is_empty() => {
                vec![Window { name: "whole", start_ns: first.t_ns, end_ns: last.t_ns }]
            }
            _ => named,
        }
    }
}

/// The samples with `start <= t <= end`.
pub(super) fn inside(samples: &[Sample], window: Window) -> &[Sample] {
    let start = samples.partition_point(|sample| sample.t_ns < window.start_ns);
    let end = samples.partition_point(|sample| sample.t_ns <= window.end_ns);
    &samples[start..end]
}

fn sorted(rows: &DeviceRows, values: &[f64]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = (rows.t_ns.iter().zip(values).zip(&rows.row))
        .filter(|((_, value), _)| !value.is_nan())
        .map(|((t_ns, value), row)| Sample { t_ns: *t_ns, value: *value, row: *row })
        .collect();
    samples.sort_by_key(|sample| sample.t_ns);
    samples
}

/// A length of time for messages: seconds to the millisecond, or nanoseconds below one.
pub(super) fn seconds(nanos: i64) -> String {
    if nanos.unsigned_abs() < 1_000_000 {
        return format!("{nanos} ns");
    }
    format!("{} s", (nanos as f64 / 1e6).round() / 1e3)
}

/// A number of things, for messages.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Adds the findings that reading power rows gave for this rule.
pub(super) fn found_while_reading(power: &PowerRows, report: &mut Report) {
    let id = report.check.id;
    report.findings.extend(power.findings.iter().filter(|found| found.check == id).cloned());
}
