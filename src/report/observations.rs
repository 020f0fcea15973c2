//! What the decode energy model sees of runs, read back from a results folder.

use std::collections::{BTreeMap, BTreeSet};

use wattrace_analysis::metrics::StepTiming;
use wattrace_analysis::model::{Observation, ObservedRun};
use wattrace_schema::{Reason, RunKind, Split};

use crate::error::ReportError;
use crate::results::{Results, StoredTable};
use crate::stored_metrics::StoredMetrics;
use crate::stored_row::StoredRow;

/// What a results folder holds for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredObservations {
    /// Decode and summary runs, as they were when the results were written; of runs with one id, the first.
    pub observations: Vec<Observation>,
    /// Runs of any kind that could not be analysed then, by id, each with what was wrong.
    pub failures: Vec<(String, String)>,
}

/// Reads what the model sees of the runs of a results folder.
///
/// # Errors
/// When a table is missing, changed, or does not belong to the others.
pub fn stored_observations(results: &Results) -> Result<StoredObservations, ReportError> {
    let runs = results.table("runs")?;
    let metrics = StoredMetrics::read(results, runs.rows)?;
    // Results of serving runs alone have no tables of the model.
    let table = |name| results.has_table(name).then(|| results.table(name)).transpose();
    let excluded = table("excluded_runs")?.map_or(Ok(BTreeMap::new()), |it| exclusions(&it))?;
    let mut timings = table("step_times")?.map_or(Ok(BTreeMap::new()), |it| step_timings(&it))?;
    let mut seen = BTreeSet::new();
    let (mut observations, mut failures) = (Vec::new(), Vec::new());
    for row in 0..runs.rows {
        let run = StoredRow::new(&runs, row);
        let run_id = run.text("run_id")?;
        if let Some(error) = run.optional_text("error")? {
            failures.push((run_id, error.to_owned()));
            continue;
        }
        let kind = run.optional_text("kind")?;
        let is_serving = kind.is_none_or(|kind| kind == RunKind::Serving.name());
        if is_serving || !seen.insert(run_id.clone()) {
            continue;
        }
        // What the model's geometry does not give keeps a run out of the fits, and that says why.
        let reason = excluded.get(&run_id).copied().unwrap_or(Reason::NoGeometry);
        let bytes = |column| Ok::<_, ReportError>(run.optional_number(column)?.ok_or(reason));
        let optional = |column| Ok::<_, ReportError>(run.optional_text(column)?.map(str::to_owned));
        let observed = ObservedRun {
            model: run.text("model")?,
            setting: run.text("setting")?,
            cell: optional("cell")?,
            split: run.optional_text("split")?.and_then(Split::from_name),
            block: optional("block")?,
            claimed: kind == Some(RunKind::Summary.name()),
            synthetic: run.boolean("synthetic")?,
            initial_cohort: run.optional_count("initial_cohort")?.map(narrow),
            weight_bytes_per_iteration: bytes("weight_bytes_per_iteration")?,
            kv_bytes_per_token: bytes("kv_bytes_per_token")?,
            step_timings: timings.remove(&run_id).unwrap_or_default(),
            run_id,
        };
        observations.push(Observation::from_metrics(observed, |name| metrics.get(name, row)));
    }
    Ok(StoredObservations { observations, failures })
}

/// Why runs are in no fit, by id.
fn exclusions(table: &StoredTable) -> Result<BTreeMap<String, Reason>, ReportError> {
    let mut reasons = BTreeMap::new();
    for row in (0..table.rows).map(|row| StoredRow::new(table, row)) {
        if let Some(reason) = row.optional_text("reason")?.and_then(Reason::from_code) {
            reasons.insert(row.text("run_id")?, reason);
        }
    }
    Ok(reasons)
}

/// Step times of runs, by id.
fn step_timings(table: &StoredTable) -> Result<BTreeMap<String, Vec<StepTiming>>, ReportError> {
    let mut timings: BTreeMap<String, Vec<StepTiming>> = BTreeMap::new();
    for row in (0..table.rows).map(|row| StoredRow::new(table, row)) {
        timings.entry(row.text("run_id")?).or_default().push(StepTiming {
            active_sequences: narrow(row.count("active_sequences")?),
            max_sequence_tokens_low: narrow(row.count("max_sequence_tokens_low")?),
            max_sequence_tokens_high: narrow(row.count("max_sequence_tokens_high")?),
            step_time_s: row.number("step_time_s")?,
            history_tokens: row.optional_number("history_tokens")?,
            iterations: row.count("iterations")?,
            eager_share: row.optional_number("eager_share")?,
        });
    }
    Ok(timings)
}

/// A count that was narrower when it was written.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
