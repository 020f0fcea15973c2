//! `metrics`: one row a number, with everything behind it.

use wattrace_analysis::metrics::MetricRow;
use wattrace_analysis::{Metric, Outcome, Value};
use wattrace_schema::{Reason, Unit};

use crate::record::{RunRecord, flag_codes, run_order};
use crate::table::ResultTable;

/// One metric of one run.
struct MetricOfRun<'a> {
    record: &'a RunRecord,
    metric: &'a Metric,
    outcome: &'a Outcome,
}

/// Every metric of every run in long form: value or reason, method, boundary, window, evidence and flags.
#[must_use]
pub fn metrics(records: &[RunRecord]) -> ResultTable {
    let unread = MetricRow::missing(Reason::InvalidRun);
    let rows: Vec<_> = run_order(records)
        .into_iter()
        .flat_map(|record| {
            record.metrics_or(&unread).iter().map(move |(metric, outcome)| MetricOfRun {
                record,
                metric,
                outcome,
            })
        })
        .collect();
    ResultTable::of("metrics", "one metric of one run", &rows)
        .text("run_id", "Id of the run.", |row| Some(row.record.run_id()))
        .text("metric", "Column of `runs`.", |row| Some(row.metric.name))
        .number(
            "value",
            Unit::None,
            "The value in the row's unit; yes is 1 and no is 0. Times stand in `time`.",
            |row| row.outcome.value.ok().filter(|value| !is_time(*value)).map(Value::as_f64),
        )
        .time("time", "The value of a metric that is a time.", |row| match row.outcome.value {
            Ok(Value::Time(t_ns)) => Some(t_ns),
            _ => None,
        })
        .text("unit", "Unit of the value.", |row| Some(row.metric.unit.symbol()))
        .text("reason", "Why there is no value.", |row| row.outcome.value.err().map(Reason::code))
        .text("method", "How energy was computed: trapezoid or counter.", |row| {
            row.outcome.method.map(|method| method.name())
        })
        .text("boundary", "What is measured or counted.", |row| Some(row.metric.boundary.name()))
        .time("window_start", "First instant of the window.", |row| {
            row.outcome.window.map(|window| window.start_ns)
        })
        .time("window_end", "Last instant of the window.", |row| {
            row.outcome.window.map(|window| window.end_ns)
        })
        .count("rows", Unit::Count, "Samples, requests or steps behind the value.", |row| {
            row.outcome.evidence.rows
        })
        .number(
            "gap_share",
            Unit::Ratio,
            "Share of the window that lies in sampling gaps.",
            |row| row.outcome.evidence.gap_share,
        )
        .number(
            "counter_lost_s",
            Unit::Second,
            "Time of the window in which an energy counter was reset, over all devices.",
            |row| row.outcome.evidence.counter_lost_s,
        )
        .text_list("flags", "What a reader must know beside the value.", |row| {
            Some(flag_codes(row.outcome.flags))
        })
        .build()
}

const fn is_time(value: Value) -> bool {
    matches!(value, Value::Time(_))
}
