//! Rules about cumulative energy counters.

use wattrace_schema::tables::{POWER, power_column};
use wattrace_schema::{EnergyMethod, RunManifest, Scope};

use super::device::{Device, Sample, counted, devices, seconds};
use super::{Place, Report};
use crate::reader::power::PowerRows;

pub(super) fn falls(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    for device in devices(manifest, power) {
        let counter = device.counter();
        let wrap_j = device.source.counter_wrap_j;
        let is_reset = |pair: &&[Sample]| {
            pair[1].value < pair[0].value && wrap_j.is_none_or(|wrap_j| pair[0].value > wrap_j)
        };
        let resets = counter.windows(2).filter(is_reset);
        let resets = resets
            .map(|pair| (pair[1].row, format!("from {} J to {} J", pair[0].value, pair[1].value)));
        let what = format!("counter readings of {} fall", device.name());
        let expected = match wrap_j {
            None => "a counter that only rises; a range after which it starts again belongs in \
                     counter_wrap_j"
                .to_owned(),
            Some(wrap_j) => format!("a counter that stays within counter_wrap_j, {wrap_j} J"),
        };
        let place = Place::file(POWER.file).column(power_column::energy_j);
        report.add_rows(place, counter.len(), &what, resets, &expected);
    }
}

pub(super) fn stalls(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    for device in devices(manifest, power) {
        let (counter, readings) = (device.counter(), device.power());
        for window in device.windows(manifest, &counter) {
            let start = counter.partition_point(|sample| sample.t_ns < window.start_ns);
            let end = counter.partition_point(|sample| sample.t_ns <= window.end_ns);
            let refresh_ns = (device.source.counter_refresh_ms.unwrap_or(0.0) * 1e6) as i64;
            let limit = device.max_gap_ns(&counter, window).max(refresh_ns);
            let stalls = stalls_of(&counter[start..end], &readings, limit);
            let Some((row, longest)) = stalls.iter().copied().reduce(|a, b| (a.0, a.1.max(b.1)))
            else {
                continue;
            };
            let message = format!(
                "the counter of {} has {} in the {} window, the longest {}, while power is \
                 above zero; expected it to rise within {}",
                device.name(),
                counted(stalls.len(), "standstill"),
                window.name,
                seconds(longest),
                seconds(limit)
            );
            report.add(device.place(power_column::energy_j, row), message);
        }
    }
}

/// Stretches longer than `limit` in which the counter keeps its value and no reading is zero: the row at
/// which each begins, and its length.
fn stalls_of(counter: &[Sample], readings: &[Sample], limit: i64) -> Vec<(u64, i64)> {
    let is_on = |from: i64, to: i64| {
        let start = readings.partition_point(|sample| sample.t_ns < from);
        let end = readings.partition_point(|sample| sample.t_ns <= to);
        start < end && readings[start..end].iter().all(|sample| sample.value > 0.0)
    };
    counter
        .chunk_by(|a, b| a.value == b.value)
        .filter_map(|still| {
            let (first, last) = (still.first()?, still.last()?);
            let length = last.t_ns.saturating_sub(first.t_ns);
            (length > limit && is_on(first.t_ns, last.t_ns)).then_some((first.row, length))
        })
        .collect()
}

pub(super) fn asked(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    let method = &manifest.energy_method;
    let stages: Vec<_> = [
        ("startup", method.startup),
        ("formal", method.formal),
        ("steady", method.steady),
        ("release", method.release),
        ("decode", method.decode),
    ]
    .into_iter()
    .filter(|(_, method)| *method == Some(EnergyMethod::Counter))
    .map(|(stage, _)| stage)
    .collect();
    if stages.is_empty() {
        return;
    }
    let is_accelerator =
        |device: &Device<'_>| matches!(device.source.scope, Scope::GpuBoard | Scope::GpuModule);
    let without: Vec<_> = devices(manifest, power)
        .filter(is_accelerator)
        .filter(|device| device.counter().is_empty())
        .map(|device| device.name())
        .collect();
    if let Some(first) = without.first() {
        let message = format!(
            "key \"energy_method\" asks for the counter in {}, but {} without it, \
             the first {first}; expected energy_j, or \"trapezoid\"",
            stages.join(", "),
            match without.len() {
                1 => "one accelerator is".to_owned(),
                count => format!("{count} accelerators are"),
            }
        );
        report.add(Place::file(POWER.file).column(power_column::energy_j), message);
    }
}
