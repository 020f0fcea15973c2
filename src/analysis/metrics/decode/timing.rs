//! How long steps took, in a form compact enough to keep for every run of an archive.

use std::collections::BTreeMap;

use wattrace_schema::{GraphMode, Interval, Run};

use super::log::{Place, place};
use crate::metrics::windows;

/// Width of the ranges of `max_sequence_tokens` in which steps are taken together. Ranges end at a
/// multiple, inclusive, because capture limits such as 8192 do.
const RANGE_TOKENS: u32 = 64;

/// The iterations of one run with one number of active sequences, in one range of the longest sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTiming {
    /// Sequences in the batch.
    pub active_sequences: u32,
    /// Shortest `max_sequence_tokens` in the range that occurred.
    pub max_sequence_tokens_low: u32,
    /// Longest `max_sequence_tokens` in the range that occurred.
    pub max_sequence_tokens_high: u32,
    /// Mean time of an iteration, s.
    pub step_time_s: f64,
    /// Mean history of an iteration, summed over its sequences; `None` when a step does not say.
    pub history_tokens: Option<f64>,
    /// Iterations.
    pub iterations: u64,
    /// Share of iterations that were launched operation by operation; `None` when a step does not say.
    pub eager_share: Option<f64>,
}

#[derive(Default)]
struct Group {
    low: u32,
    high: u32,
    time_s: f64,
    history: Option<f64>,
    iterations: u64,
    eager: Option<u64>,
}

/// The step times of a run's decode window; empty where steps have no start, no longest sequence, or
/// the run no window. Steps that also prefill are left out.
#[must_use]
pub fn step_timings(run: &Run) -> Vec<StepTiming> {
    let (Some(steps), Ok(window)) = (&run.steps, windows::decode(&run.manifest.stages)) else {
        return Vec::new();
    };
    let mut groups: BTreeMap<(u32, u32), Group> = BTreeMap::new();
    for index in 0..steps.len() {
        let (Some(start_ns), Some(longest)) =
            (steps.t_start_ns[index], steps.max_sequence_tokens[index])
        else {
            continue;
        };
        let time_s = Interval::new(start_ns, steps.t_end_ns[index]).duration_s();
        let iterations = u64::from(steps.iterations[index]);
        let usable = place(steps, index, window) == Place::Inside
            && steps.prefill_tokens[index] == 0
            && iterations > 0
            && time_s > 0.0;
        if !usable {
            continue;
        }
        let range = longest.saturating_sub(1) / RANGE_TOKENS;
        let group = groups.entry((steps.active_sequences[index], range)).or_insert(Group {
            low: longest,
            history: Some(0.0),
            eager: Some(0),
            ..Group::default()
        });
        group.low = group.low.min(longest);
        group.high = group.high.max(longest);
        group.time_s += time_s;
        group.history =
            group.history.and_then(|sum| Some(sum + steps.history_tokens[index]? as f64));
        group.iterations += iterations;
        group.eager = group.eager.and_then(|sum| {
            let eager = steps.graph_mode[index]? == GraphMode::Eager;
            Some(sum + if eager { iterations } else { 0 })
        });
    }
    groups
        .into_iter()
        .map(|((active_sequences, _), group)| {
            let iterations = group.iterations as f64;
            StepTiming {
                active_sequences,
                max_sequence_tokens_low: group.low,
                max_sequence_tokens_high: group.high,
                step_time_s: group.time_s / iterations,
                history_tokens: group.history.map(|sum| sum / iterations),
                iterations: group.iterations,
                eager_share: group.eager.map(|eager| eager as f64 / iterations),
            }
        })
        .collect()
}
