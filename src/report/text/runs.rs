//! What `analyze` prints: one table a kind of run, then what failed, flags and claims.

use std::collections::BTreeMap;
use std::fmt::Write;

use wattrace_analysis::metrics::{ClaimComparison, MetricRow};
use wattrace_analysis::{Outcome, Value};
use wattrace_schema::{Flag, Reason, RunKind, RunManifest};

use super::TextStyle;
use super::grid::{Entry, Grid, GridColumn, Place, emphasised};
use super::number::{decimals_like, signed_percent, significant};
use super::wrap::{few, hanging};
use crate::record::{RunRecord, run_order};
use crate::tables::{agrees_as_printed, comparisons};

/// Significant digits of a number in a table.
const DIGITS: usize = 4;
const RUNS_FILE: &str = "runs.csv";
const CLAIMS_FILE: &str = "claims.csv";

/// Every run of an archive in text: serving, decode and summary runs in a table each, then the runs
/// that could not be read, the flags, and the claims that the raw rows do not bear out.
#[must_use]
pub fn runs_overview(records: &[RunRecord], style: TextStyle) -> String {
    let records = run_order(records);
    let read = |kind: RunKind| -> Vec<&RunRecord> {
        let of_kind = |record: &&RunRecord| {
            record.analysis.is_ok() && record.manifest.as_ref().is_some_and(|run| run.kind == kind)
        };
        records.iter().copied().filter(of_kind).collect()
    };
    let sections = [
        serving(&read(RunKind::Serving)).render(style),
        decode(&read(RunKind::Decode)).render(style),
        summary(&read(RunKind::Summary)).render(style),
        synthetic_note(&records),
        failures(&records, style),
        flags(&records, style),
        claims(&records, style),
    ];
    let filled: Vec<&str> =
        sections.iter().map(String::as_str).filter(|section| !section.is_empty()).collect();
    if filled.is_empty() { "no runs\n".to_owned() } else { filled.join("\n") }
}

/// The run's id, marked if it is simulated.
fn marked_id(record: &RunRecord) -> String {
    let mark = if record.is_synthetic() { "*" } else { "" };
    format!("{}{mark}", record.run_id())
}

struct GridBuilder<'a> {
    records: &'a [&'a RunRecord],
    grid: Grid,
}

impl<'a> GridBuilder<'a> {
    fn new(kind: &str, records: &'a [&'a RunRecord]) -> Self {
        let row_names: Vec<String> =
            records.iter().map(|record| record.run_id().to_owned()).collect();
        let plural = if records.len() == 1 { "run" } else { "runs" };
        let title = format!("{} {kind} {plural}", records.len());
        let grid = Grid { title, row_names, columns: Vec::new(), full_table: RUNS_FILE };
        Self { records, grid }
            .column("run", "run", Place::Text, |record| Entry::Text(marked_id(record)))
    }

    fn column(
        mut self,
        name: &str,
        heading: &str,
        place: Place,
        entry: impl Fn(&RunRecord) -> Entry,
    ) -> Self {
        let entries = self.records.iter().map(|record| entry(record)).collect();
        let (name, heading) = (name.to_owned(), heading.to_owned());
        self.grid.columns.push(GridColumn { heading, name, place, entries });
        self
    }

    fn identity(self, name: &str, text: impl Fn(&RunManifest) -> Option<String>) -> Self {
        self.column(name, name, Place::Identity, |record| {
            Entry::text(record.manifest.as_ref().and_then(&text))
        })
    }

    /// A metric's column; none if the catalogue has no such metric.
    fn metric(self, metric: &str, name: &str, heading: &str, rank: u8) -> Self {
        self.any_metric(&[metric], name, heading, rank)
    }

    /// A column of the first of these metrics that a run has.
    fn any_metric(self, metrics: &[&str], name: &str, heading: &str, rank: u8) -> Self {
        self.column(name, heading, Place::Number { rank }, |record| {
            let Ok(analysis) = &record.analysis else { return Entry::Blank };
            first_of(&analysis.metrics, metrics)
        })
    }

    fn build(self) -> Grid {
        let with_flags = self.column("flags", "flags", Place::Number { rank: 0 }, |record| {
            let count = record.flags().iter().filter(|flag| *flag != Flag::Synthetic).count();
            Entry::text((count > 0).then(|| count.to_string()))
        });
        with_flags.grid
    }
}

fn first_of(row: &MetricRow, metrics: &[&str]) -> Entry {
    let outcomes: Vec<&Outcome> = metrics.iter().filter_map(|metric| row.get(metric)).collect();
    let value = outcomes.iter().find_map(|outcome| outcome.value.ok());
    match (value, outcomes.first()) {
        (Some(value), _) => Entry::Text(shown(value)),
        (None, Some(outcome)) => outcome.value.map_or_else(Entry::Missing, |_| Entry::Blank),
        (None, None) => Entry::Blank,
    }
}

fn shown(value: Value) -> String {
    match value {
        Value::F64(number) => significant(number, DIGITS),
        Value::U64(count) => count.to_string(),
        Value::Bool(yes) => if yes { "yes" } else { "no" }.to_owned(),
        Value::Time(t_ns) => wattrace_schema::TimestampNs::from_nanos(t_ns).to_string(),
    }
}

fn hardware(run: &RunManifest) -> Option<String> {
    Some(run.hardware.label())
}

fn serving(records: &[&RunRecord]) -> Grid {
    GridBuilder::new("serving", records)
        .identity("model", |run| Some(run.model.name.clone()))
        .identity("engine", |run| run.engine.name.clone())
        .identity("configuration", |run| run.configuration.clone())
        .identity("hardware", hardware)
        .identity("task", |run| run.workload.task.clone())
        .column("requests", "requests\nok/all", Place::Number { rank: 3 }, requests)
        .metric("output_throughput_tok_s", "output rate", "output\ntok/s", 2)
        .metric("ttft_p50_ms", "TTFT p50", "TTFT\np50 ms", 7)
        .metric("ttft_p99_ms", "TTFT p99", "TTFT\np99 ms", 5)
        .metric("tpot_p50_ms", "TPOT p50", "TPOT\np50 ms", 6)
        .metric("formal_j_per_token", "formal J/token", "formal\nJ/token", 0)
        .metric("steady_j_per_token", "steady J/token", "steady\nJ/token", 0)
        .metric("lifecycle_j_per_token", "lifecycle J/token", "lifecycle\nJ/token", 0)
        .any_metric(&["node_power_w", "node_sample_mean_power_w"], "node power", "node\nW", 8)
        .any_metric(
            &["node_j_per_token", "node_sample_mean_j_per_token"],
            "node J/token",
            "node\nJ/token",
            1,
        )
        .build()
}

/// Successful and all formal requests.
fn requests(record: &RunRecord) -> Entry {
    let Ok(analysis) = &record.analysis else { return Entry::Blank };
    let count = |metric: &str| match analysis.metrics.get(metric)?.value {
        Ok(Value::U64(count)) => Some(Ok(count)),
        Ok(Value::F64(_) | Value::Bool(_) | Value::Time(_)) => None,
        Err(reason) => Some(Err(reason)),
    };
    match (count("requests_total"), count("requests_failed")) {
        (Some(Ok(total)), Some(Ok(failed))) => {
            Entry::Text(format!("{}/{total}", total.saturating_sub(failed)))
        }
        (Some(Err(reason)), _) | (_, Some(Err(reason))) => Entry::Missing(reason),
        _ => Entry::Blank,
    }
}

fn decode(records: &[&RunRecord]) -> Grid {
    GridBuilder::new("decode", records)
        .identity("setting", |run| Some(run.setting_or_default()))
        .identity("cell", |run| run.cell.clone())
        .identity("split", |run| run.split.map(|split| split.name().to_owned()))
        .metric("tokens", "tokens", "tokens", 4)
        .metric("b_eff", "B_eff", "B_eff", 1)
        .metric("mean_history_tokens", "history", "history\ntokens", 1)
        .metric("q_w_gb", "q_w", "q_w\nGB/token", 3)
        .metric("q_kv_gb", "q_KV", "q_KV\nGB/token", 3)
        .metric("tau_s", "tau", "tau\ns/token", 2)
        .metric("j_per_token", "J/token", "J/token", 0)
        .build()
}

/// Summary runs have nothing but claims: a column for each claimed metric.
fn summary(records: &[&RunRecord]) -> Grid {
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for claim in records.iter().flat_map(|record| &record.manifest).flat_map(|run| &run.claims) {
        if !metrics.iter().any(|(metric, _)| *metric == claim.metric) {
            metrics.push((&claim.metric, &claim.unit));
        }
    }
    let builder = GridBuilder::new("summary", records)
        .identity("model", |run| Some(run.model.name.clone()))
        .identity("hardware", hardware)
        .identity("task", |run| run.workload.task.clone());
    metrics
        .iter()
        .enumerate()
        .fold(builder, |builder, (index, (metric, unit))| {
            let rank = u8::try_from(index).unwrap_or(u8::MAX);
            let heading = format!("{}\n{unit}", metric.replace('_', "\n"));
            builder.column(metric, &heading, Place::Number { rank }, |record| {
                let claims = record.manifest.as_ref().map_or(&[][..], |run| &run.claims);
                let claim = claims.iter().find(|claim| claim.metric == *metric);
                Entry::text(claim.map(|claim| significant(claim.value, DIGITS)))
            })
        })
        .build()
}

fn synthetic_note(records: &[&RunRecord]) -> String {
    let simulated = records.iter().filter(|record| record.is_synthetic()).count();
    match simulated {
        0 => String::new(),
        _ if simulated == records.len() => "* simulated data: every run\n".to_owned(),
        _ => format!("* simulated data: {simulated} of {} runs\n", records.len()),
    }
}

fn failures(records: &[&RunRecord], style: TextStyle) -> String {
    let failed: Vec<(&str, &str)> = records
        .iter()
        .filter_map(|record| Some((record.run_id(), record.analysis.as_ref().err()?.as_str())))
        .collect();
    if failed.is_empty() {
        return String::new();
    }
    let title = format!("{} of {} runs could not be read", failed.len(), records.len());
    let mut out = format!("{}\n", emphasised(&title, style.colour));
    for (run_id, error) in failed.iter().take(style.max_rows) {
        out.push_str(&hanging("  ", &format!("{run_id}: {error}"), style.width));
    }
    push_rest(&mut out, failed.len(), style, RUNS_FILE);
    out
}

fn push_rest(out: &mut String, count: usize, style: TextStyle, file: &str) {
    if let Some(more) = count.checked_sub(style.max_rows).filter(|more| *more > 0) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  … and {more} more in {file}");
    }
}

fn flags(records: &[&RunRecord], style: TextStyle) -> String {
    let mut runs_by_flag: BTreeMap<Flag, Vec<&str>> = BTreeMap::new();
    for record in records {
        for flag in record.flags().iter().filter(|flag| *flag != Flag::Synthetic) {
            runs_by_flag.entry(flag).or_default().push(record.run_id());
        }
    }
    if runs_by_flag.is_empty() {
        return String::new();
    }
    let mut out = format!("{}\n", emphasised("flags", style.colour));
    for (flag, runs) in &runs_by_flag {
        let runs = if runs.len() == records.len() { "every run".to_owned() } else { few(runs) };
        let note = format!("{flag} ({runs}): {}", flag.meaning());
        out.push_str(&hanging("  ", &note, style.width));
    }
    out
}

fn claims(records: &[&RunRecord], style: TextStyle) -> String {
    let claims: Vec<(&RunRecord, ClaimComparison)> = records
        .iter()
        .flat_map(|record| comparisons(record).into_iter().map(move |claim| (*record, claim)))
        .collect();
    if claims.is_empty() {
        return String::new();
    }
    let recomputed: Vec<(&RunRecord, &ClaimComparison, f64)> = claims
        .iter()
        .filter_map(|(record, row)| Some((*record, row, row.recomputed.ok()?)))
        .collect();
    let differing: Vec<_> = recomputed
        .iter()
        .copied()
        .filter(|(_, row, value)| !agrees_as_printed(row.claim.value, *value))
        .collect();
    let line = format!(
        "{} published values came with the data; {} could be recomputed, {} of these agree to every printed digit",
        claims.len(),
        recomputed.len(),
        recomputed.len() - differing.len(),
    );
    let mut out = hanging("", &line, style.width);
    if !differing.is_empty() {
        out.push_str(&differing_claims(&differing).render(style));
    }
    out
}

fn differing_claims(rows: &[(&RunRecord, &ClaimComparison, f64)]) -> Grid {
    let column = |name: &str, place, entry: &dyn Fn(&RunRecord, &ClaimComparison, f64) -> Entry| {
        let entries = rows.iter().map(|(record, row, value)| entry(record, row, *value)).collect();
        GridColumn { heading: name.to_owned(), name: name.to_owned(), place, entries }
    };
    let number = Place::Number { rank: 0 };
    let columns = vec![
        column("run", Place::Text, &|record, _, _| Entry::Text(marked_id(record))),
        column("metric", Place::Text, &|_, row, _| Entry::Text(row.claim.metric.clone())),
        column("claimed", number, &|_, row, _| Entry::Text(row.claim.value.to_string())),
        column("recomputed", number, &|_, row, value| {
            Entry::Text(decimals_like(value, row.claim.value, 2))
        }),
        column("difference", number, &|_, row, _| {
            row.relative_difference().map_or(Entry::Missing(Reason::NotApplicable), |difference| {
                Entry::Text(signed_percent(difference))
            })
        }),
        column("unit", Place::Text, &|_, row, _| Entry::Text(row.claim.unit.clone())),
    ];
    let row_names = rows
        .iter()
        .map(|(record, row, _)| format!("{} {}", record.run_id(), row.claim.metric))
        .collect();
    let title = "values that differ".to_owned();
    Grid { title, row_names, columns, full_table: CLAIMS_FILE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node_only, serving, unreadable};

    fn archive() -> Vec<RunRecord> {
        vec![
            unreadable(
                "runs/broken",
                "\"power.parquet\" column \"power_w\" row 3: -5; expected a finite number of watts, 0 or more",
            ),
            node_only("node-a"),
            serving("serving-b"),
            serving("serving-a"),
        ]
    }

    #[test]
    fn the_overview_explains_what_is_missing() {
        insta::assert_snapshot!(runs_overview(&archive(), TextStyle::default()), @"");
    }

    #[test]
    fn a_narrow_overview_names_what_it_leaves_out() {
        let style = TextStyle { width: 60, max_rows: 2, colour: false };
        let text = runs_overview(&archive(), style);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        insta::assert_snapshot!(text, @"");
    }

    #[test]
    fn an_empty_archive_says_so() {
        assert_eq!(runs_overview(&[], TextStyle::default()), "no runs\n");
    }
}
