//! `device_energies`: what each device contributes to each energy, and from which samples.

use wattrace_analysis::metrics::DeviceEnergy;
use wattrace_schema::{NANOS_PER_SECOND, Unit};

use crate::record::{RunRecord, flag_codes, run_order};
use crate::table::ResultTable;

/// Energy of every device over every stage, by both methods where both exist: enough to compute each
/// energy again from `power.parquet`.
#[must_use]
pub fn device_energies(records: &[RunRecord]) -> ResultTable {
    let rows: Vec<(&RunRecord, &DeviceEnergy)> = run_order(records)
        .into_iter()
        .flat_map(|record| {
            let analysis = record.analysis.as_ref().ok();
            let energies = analysis.map_or(&[][..], |analysis| analysis.metrics.device_energies());
            energies.iter().map(move |energy| (record, energy))
        })
        .collect();
    ResultTable::of("device_energies", "one device over one stage of one run by one method", &rows)
        .text("run_id", "Id of the run.", |(record, _)| Some(record.run_id()))
        .text(
            "stage",
            "idle, startup, formal, steady, release or decode of the accelerators, or formal-node.",
            |(_, row)| Some(row.stage.name()),
        )
        .text("method", "trapezoid or counter.", |(_, row)| Some(row.method.name()))
        .boolean(
            "counts",
            "Whether the stage's energy is that of this method; the other is a cross-check.",
            |(_, row)| Some(row.counts),
        )
        .text("source", "Id of the power source.", |(_, row)| Some(row.device.source.as_str()))
        .text("device", "Name of the device within the source.", |(_, row)| {
            Some(row.device.device.as_str())
        })
        .text("interpolation", "How power runs between samples: linear or hold.", |(_, row)| {
            Some(row.device.interpolation.name())
        })
        .number(
            "clock_offset_s",
            Unit::Second,
            "What is added to the file's times to get the run's clock, on which all times here are.",
            |(_, row)| Some(row.device.clock_offset_ns as f64 / NANOS_PER_SECOND),
        )
        .time("window_start", "First instant of the window.", |(_, row)| Some(row.window.start_ns))
        .time("window_end", "Last instant of the window.", |(_, row)| Some(row.window.end_ns))
        .number("energy_j", Unit::Joule, "Energy of the device over the window.", |(_, row)| {
            Some(row.energy_j)
        })
        .count("samples", Unit::Count, "Samples inside the window.", |(_, row)| {
            Some(row.samples as u64)
        })
        .time(
            "first_sample",
            "First sample read; the one before the window where its edge is interpolated.",
            |(_, row)| Some(row.read.first_ns),
        )
        .time(
            "last_sample",
            "Last sample read; the one after the window where its edge is interpolated.",
            |(_, row)| Some(row.read.last_ns),
        )
        .number(
            "value_at_start",
            Unit::None,
            "Power (W) or unwrapped counter (J) at the window's start.",
            |(_, row)| Some(row.read.start_value),
        )
        .number(
            "value_at_end",
            Unit::None,
            "Power (W) or unwrapped counter (J) at the window's end.",
            |(_, row)| Some(row.read.end_value),
        )
        .number(
            "max_gap_s",
            Unit::Second,
            "Longest distance between samples that counts as ordinary in this window.",
            |(_, row)| Some(row.read.max_gap_s),
        )
        .number("gap_s", Unit::Second, "Time of the window in sampling gaps.", |(_, row)| {
            Some(row.gap_s)
        })
        .number(
            "counter_lost_s",
            Unit::Second,
            "Time of the window in which the counter was reset.",
            |(_, row)| Some(row.counter_lost_s),
        )
        .text_list("flags", "What a reader must know beside the value.", |(_, row)| {
            Some(flag_codes(row.flags))
        })
        .build()
}
