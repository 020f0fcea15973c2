//! `step-time`: tables `step_times` and `step_breaks`.

use std::collections::{BTreeMap, BTreeSet};

use wattrace_figures::{StepBreak, StepTime, StepTimeLine, StepTimePoint};

use super::{FigureDataError, Found, Keyed, Source};
use crate::error::ReportError;
use crate::results::StoredTable;

/// Ranges of the longest sequence in which the analysis takes steps together.
const RANGE_TOKENS: u64 = 64;
/// Batches that a figure can tell apart.
const MOST_BATCHES: usize = 8;

/// Steps of several runs in one range of one batch.
#[derive(Default)]
struct Steps {
    time_s: f64,
    tokens: f64,
    iterations: f64,
}

type Batches = BTreeMap<u64, BTreeMap<u64, Steps>>;

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let table = source.table("step_times")?;
    let breaks = breaks(&source.table("step_breaks")?)?;
    let (run_id, setting) = (table.text("run_id")?, table.text("setting")?);
    let count = |column| table.counts(column);
    let (batch, iterations) = (count("active_sequences")?, count("iterations")?);
    let (low, high) = (count("max_sequence_tokens_low")?, count("max_sequence_tokens_high")?);
    let time = table.numbers("step_time_s")?;
    let mut settings: BTreeMap<&String, Batches> = BTreeMap::new();
    let mut synthetic: BTreeSet<&String> = BTreeSet::new();
    for row in 0..table.rows {
        let (Some(setting), Some(batch), Some(low), Some(high), Some(time_s), Some(iterations)) =
            (&setting[row], batch[row], low[row], high[row], time[row], iterations[row])
        else {
            continue;
        };
        let range = high.saturating_sub(1) / RANGE_TOKENS;
        let steps = settings
            .entry(setting)
            .or_default()
            .entry(batch)
            .or_default()
            .entry(range)
            .or_default();
        let weight = iterations as f64;
        steps.time_s += weight * time_s;
        steps.tokens += weight * (low + high) as f64 / 2.0;
        steps.iterations += weight;
        if run_id[row].as_ref().is_some_and(|run_id| source.runs.is_synthetic(run_id)) {
            synthetic.insert(setting);
        }
    }
    let mut left_out = 0;
    let figures: Vec<Keyed> = settings
        .into_iter()
        .map(|(setting, batches)| {
            let all = batches.len();
            let lines = lines(batches);
            left_out += all - lines.len();
            let figure = StepTime {
                setting: setting.clone(),
                synthetic: synthetic.contains(setting),
                lines,
                step_break: breaks.get(setting).copied(),
            };
            (setting.clone(), Box::new(figure) as _)
        })
        .collect();
    let mut found = source.some(figures, "no step names its time and max_sequence_tokens")?;
    found.note = (left_out > 0).then(|| {
        format!("the {MOST_BATCHES} batches with most lengths of each setting; {left_out} others left out")
    });
    Ok(found)
}

/// A line for each batch; of many, those with most lengths.
fn lines(batches: Batches) -> Vec<StepTimeLine> {
    let mut lines: Vec<StepTimeLine> = batches
        .into_iter()
        .map(|(active_sequences, ranges)| StepTimeLine {
            active_sequences,
            points: ranges
                .into_values()
                .filter(|steps| steps.iterations > 0.0)
                .map(|steps| StepTimePoint {
                    max_sequence_tokens: steps.tokens / steps.iterations,
                    step_time_s: steps.time_s / steps.iterations,
                })
                .collect(),
        })
        .collect();
    lines.sort_by_key(|line| (std::cmp::Reverse(line.points.len()), line.active_sequences));
    lines.truncate(MOST_BATCHES);
    lines.sort_by_key(|line| line.active_sequences);
    lines
}

fn breaks(table: &StoredTable) -> Result<BTreeMap<String, StepBreak>, ReportError> {
    let setting = table.text("setting")?;
    let (after, before) =
        (table.counts("break_after_tokens")?, table.counts("break_before_tokens")?);
    let (jump, detected) = (table.numbers("relative_jump")?, table.booleans("detected")?);
    let row = |row: usize| {
        let found = StepBreak {
            after_tokens: after[row]? as f64,
            before_tokens: before[row]? as f64,
            relative_jump: jump[row]?,
            detected: detected[row]?,
        };
        Some((setting[row].clone()?, found))
    };
    Ok((0..table.rows).filter_map(row).collect())
}
