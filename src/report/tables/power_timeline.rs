//! `power_timeline`: a run's power over time; `stages`: its stages on the same time axis.

use wattrace_analysis::metrics::{StageWindow, Timeline};
use wattrace_analysis::series::PowerBin;
use wattrace_schema::{Interval, Unit};

use crate::table::ResultTable;

/// A run's id and its power over time.
pub type RunTimeline = (String, Timeline);

struct Bin<'a> {
    run_id: &'a str,
    devices: &'static str,
    origin_ns: i64,
    bin: &'a PowerBin,
}

/// Power of every run over time, in bins few enough to draw. Accelerators and node are measured apart
/// and stand in rows of their own.
#[must_use]
pub fn power_timeline(runs: &[RunTimeline]) -> ResultTable {
    let rows: Vec<Bin<'_>> = in_order(runs)
        .into_iter()
        .flat_map(|(run_id, timeline)| {
            let sets = [("accelerators", &timeline.accelerators), ("node", &timeline.node)];
            sets.into_iter().flat_map(move |(devices, bins)| {
                let bins = bins.as_deref().unwrap_or_default();
                bins.iter().map(move |bin| Bin {
                    run_id,
                    devices,
                    origin_ns: timeline.origin_ns,
                    bin,
                })
            })
        })
        .collect();
    ResultTable::of("power_timeline", "one bin of time of one run, accelerators or node", &rows)
        .text("run_id", "Id of the run.", |row| Some(row.run_id))
        .text("devices", "accelerators (all together) or node.", |row| Some(row.devices))
        .time("t_start", "Begin of the bin.", |row| Some(row.bin.interval.start_ns))
        .number(
            "t_offset_s",
            Unit::Second,
            "Begin of the bin, from the first binned sample of the run.",
            |row| Some(offset_s(row.origin_ns, row.bin.interval.start_ns)),
        )
        .number("duration_s", Unit::Second, "Length of the bin.", |row| {
            Some(row.bin.interval.duration_s())
        })
        .number(
            "mean_power_w",
            Unit::Watt,
            "Time-weighted mean over the bin; between samples power runs as the source says.",
            |row| Some(row.bin.mean_w),
        )
        .number("min_power_w", Unit::Watt, "Lowest power in the bin.", |row| Some(row.bin.min_w))
        .number("max_power_w", Unit::Watt, "Highest power in the bin.", |row| Some(row.bin.max_w))
        .count(
            "samples",
            Unit::Count,
            "Samples of all devices in the bin; 0 where the values are interpolated.",
            |row| Some(row.bin.samples),
        )
        .build()
}

/// The stages of every run.
#[must_use]
pub fn stages(runs: &[RunTimeline]) -> ResultTable {
    let rows: Vec<(&str, i64, &StageWindow)> = in_order(runs)
        .into_iter()
        .flat_map(|(run_id, timeline)| {
            timeline.stages.iter().map(move |stage| (run_id, timeline.origin_ns, stage))
        })
        .collect();
    ResultTable::of("stages", "one stage of one run", &rows)
        .text("run_id", "Id of the run.", |(run_id, _, _)| Some(*run_id))
        .text("stage", "idle, startup, formal, steady, release or decode.", |(_, _, row)| {
            Some(row.stage)
        })
        .time("t_start", "Begin of the stage.", |(_, _, row)| Some(row.window.start_ns))
        .time("t_end", "End of the stage.", |(_, _, row)| Some(row.window.end_ns))
        .number(
            "start_offset_s",
            Unit::Second,
            "Begin of the stage on the time axis of `power_timeline`.",
            |(_, origin_ns, row)| Some(offset_s(*origin_ns, row.window.start_ns)),
        )
        .number(
            "end_offset_s",
            Unit::Second,
            "End of the stage on the time axis of `power_timeline`.",
            |(_, origin_ns, row)| Some(offset_s(*origin_ns, row.window.end_ns)),
        )
        .build()
}

fn offset_s(origin_ns: i64, t_ns: i64) -> f64 {
    Interval::new(origin_ns, t_ns).duration_s()
}

fn in_order(runs: &[RunTimeline]) -> Vec<(&str, &Timeline)> {
    let mut ordered: Vec<_> =
        runs.iter().map(|(run_id, timeline)| (run_id.as_str(), timeline)).collect();
    ordered.sort_by_key(|(run_id, _)| *run_id);
    ordered
}
