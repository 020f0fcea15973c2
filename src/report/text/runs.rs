//! What `analyze` prints: one table a kind of run, then what failed, flags and claims.

use std::collections::BTreeMap;
use std::fmt::Write;

use wattrace_analysis::metrics::{ClaimComparison, MetricRow};
use wattrace_analysis::{Outcome, Value};
use wattrace_schema::{Flag, RunKind, RunManifest};

use super::TextStyle;
use super::grid::{Entry, Grid, GridBuilder, Place, emphasised};
use super::number::{decimals_like, signed_percent, significant};
use super::wrap::{counted, few, hanging};
use crate::record::{RunRecord, run_order};
use crate::tables::{agrees_as_printed, comparisons};

/// Significant digits of a number in a table.
const DIGITS: usize = 4;
/// Characters of a line of a heading made from a metric's name.
const HEADING_WIDTH: usize = 10;
/// Rows of a table of runs that matter only together.
const BRIEF_ROWS: usize = 10;
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
    // One decode or summary run says little; what they say together is in the fits.
    let brief = TextStyle { max_rows: style.max_rows.min(BRIEF_ROWS), ..style };
    let sections = [
        serving(&read(RunKind::Serving)).render(style),
        decode(&read(RunKind::Decode)).render(brief),
        summary(&read(RunKind::Summary)).render(brief),
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

type RunGrid<'a> = GridBuilder<'a, &'a RunRecord>;

/// A table of runs of one kind, which begins with their ids.
fn run_grid<'a>(kind: &str, records: &'a [&'a RunRecord]) -> RunGrid<'a> {
    let title = counted(records.len(), &format!("{kind} run"));
    GridBuilder::new(&title, RUNS_FILE, records, |record| record.run_id().to_owned()).column(
        "run",
        "run",
        Place::Text,
        |record| Entry::Text(marked_id(record)),
    )
}

impl RunGrid<'_> {
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

    /// How many flags a run has; they are explained below the tables.
    fn flag_count(self) -> Self {
        self.column("flags", "flags", Place::Number { rank: 0 }, |record| {
            let count = record.flags().iter().filter(|flag| *flag != Flag::Synthetic).count();
            Entry::text((count > 0).then(|| count.to_string()))
        })
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
    run_grid("serving", records)
        .identity("model", |run| Some(run.model.name.clone()))
        .identity("engine", |run| run.engine.name.clone())
        .identity("configuration", |run| {
            // Many archives compare engines and name the configuration after them.
            run.configuration.clone().filter(|name| run.engine.name.as_ref() != Some(name))
        })
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
        .flag_count()
        .build()
}

/// Successful and all formal requests.
fn requests(record: &&RunRecord) -> Entry {
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
    run_grid("decode", records)
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
        .flag_count()
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
    let grid = run_grid("summary", records)
        .identity("model", |run| Some(run.model.name.clone()))
        .identity("hardware", hardware)
        .identity("task", |run| run.workload.task.clone());
    metrics
        .iter()
        .enumerate()
        .fold(grid, |grid, (index, (metric, unit))| {
            let rank = u8::try_from(index).unwrap_or(u8::MAX);
            let words = hanging("", &metric.replace('_', " "), HEADING_WIDTH);
            let heading = format!("{words}{unit}");
            grid.column(metric, &heading, Place::Number { rank }, |record| {
                let claims = record.manifest.as_ref().map_or(&[][..], |run| &run.claims);
                let claim = claims.iter().find(|claim| claim.metric == *metric);
                Entry::text(claim.map(|claim| significant(claim.value, DIGITS)))
            })
        })
        .flag_count()
        .build()
}

fn synthetic_note(records: &[&RunRecord]) -> String {
    let simulated = records.iter().filter(|record| record.is_synthetic()).count();
    match simulated {
        0 => String::new(),
        _ if simulated == records.len() => "* simulated data: every run\n".to_owned(),
        _ => format!("* simulated data: {simulated} of {}\n", counted(records.len(), "run")),
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
    let title = format!("{} of {} could not be read", failed.len(), counted(records.len(), "run"));
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
    let agreeing = recomputed.len() - differing.len();
    let line = format!(
        "{} came with the data: {}",
        counted(claims.len(), "published value"),
        match recomputed.len() {
            0 => "none could be recomputed".to_owned(),
            count => format!("{count} could be recomputed, {agreeing} to every printed digit"),
        }
    );
    let mut out = hanging("", &line, style.width);
    if !differing.is_empty() {
        out.push_str(&differing_claims(&differing).render(style));
    }
    out
}

fn differing_claims(rows: &[(&RunRecord, &ClaimComparison, f64)]) -> Grid {
    let number = Place::Number { rank: 0 };
    GridBuilder::new("values that differ", CLAIMS_FILE, rows, |(record, row, _)| {
        format!("{} {}", record.run_id(), row.claim.metric)
    })
    .column("run", "run", Place::Text, |(record, ..)| Entry::Text(marked_id(record)))
    .column("metric", "metric", Place::Text, |(_, row, _)| Entry::Text(row.claim.metric.clone()))
    .column("claimed", "claimed", number, |(_, row, _)| Entry::Text(row.claim.value.to_string()))
    .column("recomputed", "recomputed", number, |(_, row, value)| {
        Entry::Text(decimals_like(*value, row.claim.value, 2))
    })
    .column("difference", "difference", number, |(_, row, _)| {
        Entry::text(row.relative_difference().map(signed_percent))
    })
    .column("unit", "unit", Place::Text, |(_, row, _)| Entry::Text(row.claim.unit.clone()))
    .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{decode, node_only, serving, summary, unreadable};

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
        insta::assert_snapshot!(runs_overview(&archive(), TextStyle::default()), @r#"
        3 serving runs
        model Qwen2.5-7B · engine vllm · configuration candidate · hardware H200-SXM-141GB x 1 · task chat
        run         requests  output    TTFT    TTFT    TPOT   formal  node     node  flags
                      ok/all   tok/s  p50 ms  p99 ms  p50 ms  J/token     W  J/token
        ────────────────────────────────────────────────────────────────────────────────────
        node-a             –       –       –       –       –        –  6000    3.000      1
        serving-a*       2/3   25.00    1500    1990   40.34    20.00     –        –
        serving-b*       2/3   25.00    1500    1990   40.34    20.00     –        –
        – requests, output rate, TTFT p50, TTFT p99, TPOT p50: no-requests (node-a)
        – formal J/token, steady J/token, lifecycle J/token: no-gpu-power (node-a)
        – steady J/token: too-few-requests (serving-a, serving-b)
        – lifecycle J/token: no-stamp (serving-a, serving-b)
        – node power, node J/token: no-node-power (serving-a, serving-b)

        * simulated data: 2 of 4 runs

        1 of 4 runs could not be read
          runs/broken: "power.parquet" column "power_w" row 3: -5; expected a finite number of watts, 0 or
          more

        flags
          claimed-tokens (node-a): The tokens come from a published rate that came with the data, not from a
          request log.

        2 published values came with the data: 1 could be recomputed, 0 to every printed digit
        values that differ
        run     metric                    claimed  recomputed  difference  unit
        ────────────────────────────────────────────────────────────────────────
        node-a  node_sample_mean_power_w   6100.5    6000.000      -1.65%  W
        "#);
    }

    #[test]
    fn a_narrow_overview_names_what_it_leaves_out() {
        let style = TextStyle { width: 60, max_rows: 2, colour: false };
        let text = runs_overview(&archive(), style);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        insta::assert_snapshot!(text, @r#"
        3 serving runs
        model Qwen2.5-7B · engine vllm · configuration candidate ·
        hardware H200-SXM-141GB x 1 · task chat
        run         requests  output   formal     node  flags
                      ok/all   tok/s  J/token  J/token
        ──────────────────────────────────────────────────────
        node-a             –       –        –    3.000      1
        serving-a*       2/3   25.00    20.00        –
        … and 1 more in runs.csv
        not shown at this width: TTFT p50, TTFT p99, TPOT p50, node
                                 power (in runs.csv)
        – requests, output rate, TTFT p50, TTFT p99, TPOT p50:
          no-requests (node-a)
        – formal J/token, steady J/token, lifecycle J/token:
          no-gpu-power (node-a)
        – steady J/token: too-few-requests (serving-a, serving-b)
        – lifecycle J/token: no-stamp (serving-a, serving-b)
        – node power, node J/token: no-node-power (serving-a,
          serving-b)

        * simulated data: 2 of 4 runs

        1 of 4 runs could not be read
          runs/broken: "power.parquet" column "power_w" row 3: -5;
          expected a finite number of watts, 0 or more

        flags
          claimed-tokens (node-a): The tokens come from a published
          rate that came with the data, not from a request log.

        2 published values came with the data: 1 could be
        recomputed, 0 to every printed digit
        values that differ
        run     metric        claimed  recomputed  difference  unit
        ────────────────────────────────────────────────────────────
        node-a  node_sample_   6100.5    6000.000      -1.65%  W
                mean_power_w
        "#);
    }

    #[test]
    fn decode_and_summary_runs_have_their_own_tables() {
        let records = [
            decode("decode-1", "b4-h100"),
            decode("decode-2", "b8-h100"),
            summary("published-1", "Llama-3-8B"),
            summary("published-2", "Llama-3-70B"),
        ];
        insta::assert_snapshot!(runs_overview(&records, TextStyle::default()), @r#"
        2 decode runs
        setting qwen-h200 · split fit
        run       cell     tokens  B_eff  history       q_w       q_KV      tau  J/token
                                           tokens  GB/token   GB/token  s/token
        ─────────────────────────────────────────────────────────────────────────────────
        decode-1  b4-h100      20  4.000    100.0    0.2500  0.0001010   0.5000    300.0
        decode-2  b8-h100      20  4.000    100.0    0.2500  0.0001010   0.5000    300.0

        2 summary runs
        hardware H100 x 2
        run          model          j per  b eff  flags
                                    token      1
                                  J/token
        ────────────────────────────────────────────────
        published-1  Llama-3-8B    0.5000  32.00      1
        published-2  Llama-3-70B   0.5000  32.00      1

        flags
          claimed (published-1, published-2): The value comes from published totals, not from raw rows.

        4 published values came with the data: none could be recomputed
        "#);
    }

    #[test]
    fn colour_only_adds_escapes() {
        let plain = runs_overview(&archive(), TextStyle::default());
        let style = TextStyle { colour: true, ..TextStyle::default() };
        let coloured = runs_overview(&archive(), style);
        assert!(coloured.contains("\u{1b}[1m3 serving runs\u{1b}[0m"), "{coloured}");
        let mut stripped = String::new();
        for (index, part) in coloured.split("\u{1b}[").enumerate() {
            let text = if index == 0 { part } else { part.split_once('m').unwrap().1 };
            stripped.push_str(text);
        }
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&stripped), trimmed(&plain));
    }

    #[test]
    fn an_empty_archive_says_so() {
        assert_eq!(runs_overview(&[], TextStyle::default()), "no runs\n");
    }
}
