//! Rules about power samples.

use wattrace_schema::tables::{POWER, power_column};
use wattrace_schema::{Interpolation, RunManifest, TimestampNs};

use super::device::{Device, Sample, counted, devices, found_while_reading, inside, seconds};
use super::stamps::{Window, windows};
use super::{Place, Report};
use crate::reader::power::PowerRows;

pub(super) fn negative(_: &RunManifest, power: &PowerRows, report: &mut Report) {
    found_while_reading(power, report);
}

pub(super) fn not_finite(_: &RunManifest, power: &PowerRows, report: &mut Report) {
    found_while_reading(power, report);
}

pub(super) fn absent(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    for device in devices(manifest, power) {
        let rows = device.rows;
        let absent = (rows.power_w.iter().zip(&rows.energy_j).zip(&rows.row))
            .filter(|((power, energy), _)| power.is_nan() && energy.is_nan())
            .map(|(_, row)| (*row, "neither power_w nor energy_j".to_owned()));
        let what = format!("rows of {} have no valid value", device.name());
        report.add_rows(Place::file(POWER.file), rows.t_ns.len(), &what, absent, "one of both");
    }
}

pub(super) fn ceiling(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    for device in devices(manifest, power) {
        let scope = device.source.scope;
        let ceiling_w = scope.power_ceiling_w();
        let expected = format!("at most {ceiling_w} W of scope {}", scope.name());
        let samples = device.power();
        let above = samples.iter().filter(|sample| sample.value > ceiling_w);
        let above = above.map(|sample| (sample.row, format!("{} W", sample.value)));
        let what = format!("readings of {} are too high", device.name());
        let place = Place::file(POWER.file);
        let column = place.clone().column(power_column::power_w);
        report.add_rows(column, samples.len(), &what, above, &expected);

        let counter = device.counter();
        let steep = steep_steps(&device, &counter, ceiling_w);
        let what = format!("counter readings of {} rise too fast", device.name());
        let column = place.column(power_column::energy_j);
        report.add_rows(column, counter.len(), &what, steep.into_iter(), &expected);
    }
}

/// Counter steps that would need more than `ceiling_w`. A counter is refreshed from time to time and may
/// be read more often, so its rise is spread over the time since it last changed.
fn steep_steps(device: &Device<'_>, counter: &[Sample], ceiling_w: f64) -> Vec<(u64, String)> {
    let refresh_s = device.source.counter_refresh_ms.unwrap_or(0.0) / 1e3;
    let mut steep = Vec::new();
    let mut changed = counter.first();
    for pair in counter.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let rise = after.value - before.value;
        if rise == 0.0 {
            continue;
        }
        let since = changed.map_or(before.t_ns, |sample| sample.t_ns);
        let seconds = (after.t_ns.saturating_sub(since) as f64 / 1e9).max(refresh_s);
        if seconds > 0.0 && rise / seconds > ceiling_w {
            let rise_w = (rise / seconds).round();
            steep.push((after.row, format!("{rise} J in {seconds} s, which is {rise_w} W")));
        }
        changed = Some(&pair[1]);
    }
    steep
}

/// Readers do not rely on the order, so it is worth no more than a note.
pub(super) fn order(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    let mut groups: Vec<Device<'_>> = devices(manifest, power).collect();
    groups.sort_by(|a, b| (&a.source.id, &a.rows.device).cmp(&(&b.source.id, &b.rows.device)));
    let rows = groups.iter().flat_map(|device| &device.rows.row);
    let backwards = groups.iter().find_map(|device| {
        let place = device.rows.t_ns.windows(2).position(|pair| pair[1] < pair[0])?;
        Some(device.rows.row[place + 1])
    });
    let first =
        backwards.or_else(|| (0..).zip(rows).find(|(at, row)| at != *row).map(|(at, _)| at));
    if let Some(row) = first {
        let message =
            format!("rows are not sorted by {}; no value depends on it", POWER.sort_key.join(", "));
        report.add(Place::file(POWER.file).row(row), message);
    }
}

pub(super) fn duplicate_time(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    for device in devices(manifest, power) {
        let rows = device.rows;
        let mut times: Vec<_> = rows.t_ns.iter().zip(&rows.row).collect();
        times.sort_unstable();
        let repeated = times.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let repeated =
            repeated.map(|pair| (*pair[1].1, TimestampNs::from_nanos(*pair[1].0).to_string()));
        let what = format!("rows of {} repeat the time of another", device.name());
        let place = Place::file(POWER.file).column(power_column::t);
        let expected =
            "one row a time; such rows count as one, of their mean power and largest counter";
        report.add_rows(place, rows.t_ns.len(), &what, repeated, expected);
    }
}

pub(super) fn coverage(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    for device in devices(manifest, power) {
        let samples = device.samples();
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            let message = format!("{} has no valid sample", device.name());
            report.add(Place::file(POWER.file), message);
            continue;
        };
        for window in windows(manifest) {
            let max_gap = device.max_gap_ns(&samples, window);
            let late = first.t_ns.saturating_sub(window.start_ns);
            let early = window.end_ns.saturating_sub(last.t_ns);
            let what = if first.t_ns > window.end_ns {
                let distance = first.t_ns.saturating_sub(window.end_ns);
                format!("every sample lies after it, the first by {}", distance_text(distance))
            } else if last.t_ns < window.start_ns {
                let distance = window.start_ns.saturating_sub(last.t_ns);
                format!("every sample lies before it, the last by {}", distance_text(distance))
            } else if late > max_gap {
                format!("the first sample comes {} after its start", seconds(late))
            } else if early > max_gap {
                format!("the last sample comes {} before its end", seconds(early))
            } else {
                continue;
            };
            let message = format!(
                "{} does not cover the {} window: {what}; expected samples within {} of both ends",
                device.name(),
                window.name,
                seconds(max_gap)
            );
            report.add(Place::file(POWER.file).column(power_column::t), message);
        }
    }
}

/// A distance, with a word of warning where a time zone explains it.
fn distance_text(nanos: i64) -> String {
    const HOUR: i64 = 3_600_000_000_000;
    let hours = nanos.saturating_add(HOUR / 2) / HOUR;
    let is_zone = (1..=14).contains(&hours) && (nanos - hours * HOUR).abs() < HOUR / 12;
    let hint = if is_zone {
        format!(" (about {hours} h: is one of both in local time?)")
    } else {
        String::new()
    };
    format!("{}{hint}", seconds(nanos))
}

pub(super) fn gap(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    // A source that drops repeats is silent while nothing changes: its gaps are no loss.
    let linear = |device: &Device<'_>| device.source.interpolation == Interpolation::Linear;
    for device in devices(manifest, power).filter(linear) {
        let samples = device.samples();
        for window in device.windows(manifest, &samples) {
            let max_gap = device.max_gap_ns(&samples, window);
            add_gaps(&device, &samples, window, max_gap, report);
        }
    }
}

fn add_gaps(
    device: &Device<'_>,
    samples: &[Sample],
    window: Window,
    max_gap: i64,
    report: &mut Report,
) {
    let gaps: Vec<(Sample, i64, i64)> = samples
        .windows(2)
        .filter(|pair| pair[1].t_ns > window.start_ns && pair[0].t_ns < window.end_ns)
        .map(|pair| {
            let (from, to) = (pair[0].t_ns.max(window.start_ns), pair[1].t_ns.min(window.end_ns));
            let inside = to.saturating_sub(from);
            (pair[1], pair[1].t_ns.saturating_sub(pair[0].t_ns), inside)
        })
        .filter(|(_, length, _)| *length > max_gap)
        .collect();
    let Some((first, ..)) = gaps.first() else { return };
    let longest = gaps.iter().map(|(_, length, _)| *length).max().unwrap_or_default();
    let in_gaps: f64 = gaps.iter().map(|(_, _, inside)| *inside as f64).sum();
    let length = window.end_ns.saturating_sub(window.start_ns) as f64;
    let message = format!(
        "{} has {} among {} samples of the {} window, the longest {}, {:.1}% of the window \
         together; expected samples at most {} apart",
        device.name(),
        counted(gaps.len(), "gap"),
        inside(samples, window).len(),
        window.name,
        seconds(longest),
        100.0 * in_gaps / length,
        seconds(max_gap)
    );
    report.add(device.place(power_column::t, first.row), message);
}
