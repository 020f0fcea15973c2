//! `runs`: one row a run, one column a metric.

use std::collections::BTreeMap;

use wattrace_analysis::metrics::{MetricRow, catalogue};
use wattrace_analysis::{Metric, Value, ValueKind};
use wattrace_schema::{Reason, RunManifest, Unit};

use crate::record::{RunRecord, flag_codes, run_order};
use crate::table::{ResultTable, TableBuilder};

/// What became of every run: who it is, every metric of the catalogue, flags, and the reason of every
/// value that is missing.
#[must_use]
pub fn runs(records: &[RunRecord]) -> ResultTable {
    let records = run_order(records);
    let unread = MetricRow::missing(Reason::InvalidRun);
    let table = ResultTable::of("runs", "one run of the archive", &records);
    let table = identity(table);
    let table = catalogue().iter().fold(table, |table, metric| column(table, metric, &unread));
    table
        .text_list("flags", "What a reader must know beside the values.", |record| {
            Some(flag_codes(record.flags()))
        })
        .text(
            "reasons",
            "JSON object: name of each metric that is missing, and the code of the reason.",
            |record| Some(reasons(record.metrics_or(&unread))),
        )
        .text("error", "Why the run could not be read.", |record| {
            record.analysis.as_ref().err().cloned()
        })
        .text("path", "Folder of the run within the archive.", |record| Some(record.path.clone()))
        .build()
}

type Rows<'rows, 'record> = TableBuilder<'rows, &'record RunRecord>;

fn identity<'rows, 'record>(table: Rows<'rows, 'record>) -> Rows<'rows, 'record> {
    fn of<'a, T>(
        value: impl Fn(&'a RunManifest) -> Option<T>,
    ) -> impl Fn(&&'a RunRecord) -> Option<T> {
        move |record| record.manifest.as_ref().and_then(&value)
    }
    table
        .text("run_id", "Id of the run; its folder where run.json could not be read.", |record| {
            Some(record.run_id())
        })
        .text("kind", "serving, decode or summary.", of(|run| Some(run.kind.name())))
        .text("model", "Name of the model.", of(|run| Some(run.model.name.as_str())))
        .text("configuration", "What is compared.", of(|run| run.configuration.as_deref()))
        .text(
            "hardware",
            "Accelerators and how many of them.",
            of(|run| Some(run.hardware.label())),
        )
        .text("task", "Task of the workload.", of(|run| run.workload.task.as_deref()))
        .text(
            "size_group",
            "By total parameters: small (at most 50e9), medium (between), large (200e9 or more).",
            of(|run| run.model.size_group().map(|group| group.name())),
        )
        .text("engine", "Name of the serving engine.", of(|run| run.engine.name.as_deref()))
        .text("setting", "Key of one energy-model fit.", of(|run| Some(run.setting_or_default())))
        .text("cell", "Experimental cell within the setting.", of(|run| run.cell.as_deref()))
        .text(
            "split",
            "Side of the validation: fit or heldout.",
            of(|run| run.split.map(|split| split.name())),
        )
        .text("block", "Time block of a repeat.", of(|run| run.block.as_deref()))
        .boolean("synthetic", "Whether the run is simulated.", of(|run| Some(run.synthetic)))
        .count(
            "initial_cohort",
            Unit::Count,
            "Requests active at the start of a draining run.",
            of(|run| run.initial_cohort.map(u64::from)),
        )
        .number(
            "weight_bytes_per_iteration",
            Unit::Byte,
            "M_w: weights of the model that one iteration reads.",
            of(|run| run.model.weight_bytes_per_iteration().ok()),
        )
        .number(
            "kv_bytes_per_token",
            Unit::Byte,
            "K_KV: keys and values of one token of history.",
            of(|run| run.model.kv_bytes_per_token().ok()),
        )
}

fn column<'rows, 'record>(
    table: Rows<'rows, 'record>,
    metric: &Metric,
    unread: &MetricRow,
) -> Rows<'rows, 'record> {
    let value = |record: &&RunRecord| record.metrics_or(unread).get(metric.name)?.value.ok();
    let (name, unit, meaning) = (metric.name, metric.unit, metric.definition);
    match metric.kind {
        ValueKind::F64 => {
            table.number(name, unit, meaning, |record| value(record).map(Value::as_f64))
        }
        ValueKind::U64 => table.count(name, unit, meaning, |record| match value(record)? {
            Value::U64(count) => Some(count),
            Value::F64(_) | Value::Bool(_) | Value::Time(_) => None,
        }),
        ValueKind::Bool => table.boolean(name, meaning, |record| match value(record)? {
            Value::Bool(yes) => Some(yes),
            Value::F64(_) | Value::U64(_) | Value::Time(_) => None,
        }),
        ValueKind::Time => table.time(name, meaning, |record| match value(record)? {
            Value::Time(t_ns) => Some(t_ns),
            Value::F64(_) | Value::U64(_) | Value::Bool(_) => None,
        }),
    }
}

/// Missing metrics and their reasons as a JSON object with sorted keys.
fn reasons(metrics: &MetricRow) -> String {
    let reasons: BTreeMap<&str, &str> = metrics
        .iter()
        .filter_map(|(metric, outcome)| Some((metric.name, outcome.value.err()?.code())))
        .collect();
    serde_json::json!(reasons).to_string()
}
