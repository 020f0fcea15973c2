//! A jump of step time at some length of the longest sequence, as when graph capture ends.
//!
//! Steps compare only with like steps. Within runs, those of one run and one batch do: their level is
//! free, and time grows with the history read, by one slope for the setting. Where no run crosses a
//! jump, the means of cells are compared instead, those of one batch with each other; a jump must then
//! stand out against what else makes cells differ. In both cases every possible place of the jump
//! is tried by least squares, and the one that leaves the least is reported (Andrews, "Tests for
//! parameter instability and structural change with unknown change point", Econometrica 61, 1993).

use std::collections::BTreeMap;

use wattrace_schema::{FlagSet, Reason};

use super::rows::StepBreakRow;
use super::setting::{ModelRun, SettingRuns, flags_of};
use crate::metrics::StepTiming;

/// Smallest F statistic of a jump worth reporting: the 1% critical value of the largest F over
/// all breaks, one coefficient, 15% trimming (Andrews, Econometrica 71, 2003, corrigendum).
const F_LIMIT: f64 = 12.16;

/// Smallest jump worth reporting, as a share of the level below: time is not exactly linear in
/// history, and a bend must not pass for a jump.
const JUMP_LIMIT: f64 = 0.02;

/// One compared step time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Rows of one group share a level.
    group: usize,
    longest_low: u32,
    longest_high: u32,
    step_time_s: f64,
    history_tokens: f64,
    weight: f64,
    iterations: f64,
    eager_share: Option<f64>,
}

/// The best place for a jump.
#[derive(Debug, Clone, Copy)]
struct Break {
    after_tokens: u32,
    before_tokens: u32,
    below_s: f64,
    jump_s: f64,
    f_statistic: Option<f64>,
    explained_share: f64,
    eager_below: Option<f64>,
    eager_above: Option<f64>,
}

impl Break {
    fn relative_jump(&self) -> f64 {
        self.jump_s / self.below_s
    }

    fn is_detected(&self) -> bool {
        // Without a statistic the jump leaves nothing unexplained.
        let clear = self.f_statistic.is_none_or(|f| f >= F_LIMIT);
        clear && self.relative_jump().abs() >= JUMP_LIMIT
    }
}

/// Looks for a jump in the step times of a setting's runs, of both sides.
pub(super) fn find(setting: &SettingRuns<'_>) -> StepBreakRow {
    let runs: Vec<ModelRun<'_>> =
        setting.usable().filter(|run| !run.observation.step_timings.is_empty()).copied().collect();
    let within = within_runs(&runs);
    let between = between_cells(&runs);
    let candidates = [("within-runs", within), ("between-cells", between)];
    let found: Vec<_> = candidates
        .into_iter()
        .filter_map(|(name, samples)| Some((name, groups(&samples), best_break(&samples)?)))
        .collect();
    let chosen = found.iter().find(|(_, _, best)| best.is_detected()).or_else(|| found.first());
    let reason = match chosen {
        Some(_) => None,
        None if runs.is_empty() => Some(Reason::NoSteps),
        None => Some(Reason::NoValues),
    };
    let best = chosen.map(|(_, _, best)| best);
    StepBreakRow {
        setting: setting.name.clone(),
        comparison: chosen.map(|(name, _, _)| *name),
        n_runs: runs.len(),
        n_groups: chosen.map_or(0, |(_, groups, _)| *groups),
        detected: best.is_some_and(Break::is_detected),
        break_after_tokens: best.map(|best| best.after_tokens),
        break_before_tokens: best.map(|best| best.before_tokens),
        step_time_below_s: best.map(|best| best.below_s),
        step_time_above_s: best.map(|best| best.below_s + best.jump_s),
        relative_jump: best.map(Break::relative_jump),
        f_statistic: best.and_then(|best| best.f_statistic),
        explained_share: best.map(|best| best.explained_share),
        eager_share_below: best.and_then(|best| best.eager_below),
        eager_share_above: best.and_then(|best| best.eager_above),
        flags: if runs.is_empty() { FlagSet::EMPTY } else { flags_of(&runs) },
        reason,
    }
}

fn groups(samples: &[Sample]) -> usize {
    // Groups are numbered in the order of samples.
    samples.last().map_or(0, |sample| sample.group + 1)
}

fn known(timing: &StepTiming) -> Option<(f64, f64)> {
    Some((timing.history_tokens?, timing.iterations as f64))
}

/// One sample a run, batch and range of lengths; each run and batch is a group.
fn within_runs(runs: &[ModelRun<'_>]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for run in runs {
        let timings = &run.observation.step_timings;
        for of_batch in timings.chunk_by(|a, b| a.active_sequences == b.active_sequences) {
            let group = groups(&samples);
            samples.extend(of_batch.iter().filter_map(|timing| {
                let (history_tokens, iterations) = known(timing)?;
                Some(Sample {
                    group,
                    longest_low: timing.max_sequence_tokens_low,
                    longest_high: timing.max_sequence_tokens_high,
                    step_time_s: timing.step_time_s,
                    history_tokens,
                    weight: iterations,
                    iterations,
                    eager_share: timing.eager_share,
                })
            }));
        }
    }
    samples
}

/// Sums over the iterations of one cell and batch.
#[derive(Default)]
struct CellSums {
    iterations: f64,
    step_time_s: f64,
    history_tokens: f64,
    longest_low: f64,
    longest_high: f64,
    /// `None` when a step does not say.
    eager: Option<f64>,
}

/// One sample a cell and batch, its mean over iterations; each batch is a group.
fn between_cells(runs: &[ModelRun<'_>]) -> Vec<Sample> {
    let mut by_batch: BTreeMap<(u32, &str), CellSums> = BTreeMap::new();
    for run in runs {
        for timing in &run.observation.step_timings {
            let Some((history_tokens, iterations)) = known(timing) else { continue };
            let sums = by_batch
                .entry((timing.active_sequences, run.cell()))
                .or_insert(CellSums { eager: Some(0.0), ..CellSums::default() });
            sums.iterations += iterations;
            sums.step_time_s += iterations * timing.step_time_s;
            sums.history_tokens += iterations * history_tokens;
            sums.longest_low += iterations * f64::from(timing.max_sequence_tokens_low);
            sums.longest_high += iterations * f64::from(timing.max_sequence_tokens_high);
            sums.eager = sums.eager.zip(timing.eager_share).map(|(sum, e)| sum + iterations * e);
        }
    }
    let mut samples: Vec<Sample> = Vec::new();
    let mut last_batch = None;
    for ((batch, _), sums) in by_batch {
        let group = if last_batch == Some(batch) { groups(&samples) - 1 } else { groups(&samples) };
        last_batch = Some(batch);
        let n = sums.iterations;
        samples.push(Sample {
            group,
            longest_low: (sums.longest_low / n).round() as u32,
            longest_high: (sums.longest_high / n).round() as u32,
            step_time_s: sums.step_time_s / n,
            history_tokens: sums.history_tokens / n,
            weight: 1.0,
            iterations: n,
            eager_share: sums.eager.map(|eager| eager / n),
        });
    }
    samples
}

/// Subtracts from every value the weighted mean of its group.
fn centre(samples: &[Sample], values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mut sums = vec![(0.0, 0.0); groups(samples)];
    for (sample, value) in samples.iter().zip(&values) {
        let (weight, sum) = &mut sums[sample.group];
        *weight += sample.weight;
        *sum += sample.weight * value;
    }
    let mean = |sample: &Sample| sums[sample.group].1 / sums[sample.group].0;
    samples.iter().zip(&values).map(|(sample, value)| value - mean(sample)).collect()
}

fn product(samples: &[Sample], a: &[f64], b: &[f64]) -> f64 {
    samples.iter().zip(a.iter().zip(b)).map(|(sample, (a, b))| sample.weight * a * b).sum()
}

/// Takes the part that is proportional to `history` out of `values`.
fn without_history(samples: &[Sample], mut values: Vec<f64>, history: &[f64]) -> Vec<f64> {
    let square = product(samples, history, history);
    if square > 0.0 {
        let slope = product(samples, &values, history) / square;
        for (value, history) in values.iter_mut().zip(history) {
            *value -= slope * history;
        }
    }
    values
}

/// Share of an indicator's variation that must be left after levels and history, for a jump to be
/// told from growth with history.
const SMALLEST_SHARE: f64 = 1e-6;

fn best_break(samples: &[Sample]) -> Option<Break> {
    let history = centre(samples, samples.iter().map(|sample| sample.history_tokens));
    let times = centre(samples, samples.iter().map(|sample| sample.step_time_s));
    let times = without_history(samples, times, &history);
    let total = product(samples, &times, &times);
    // Levels, the slope, the jump.
    let df = samples.len().checked_sub(groups(samples) + 2).filter(|df| *df > 0)?;

    let mut places: Vec<u32> = samples.iter().map(|sample| sample.longest_high).collect();
    places.sort_unstable();
    places.dedup();
    let mut best: Option<(f64, f64, u32)> = None;
    for place in places {
        let above = centre(samples, samples.iter().map(|s| is_above(s, place)));
        let variation = product(samples, &above, &above);
        let above = without_history(samples, above, &history);
        let left = product(samples, &above, &above);
        if left <= SMALLEST_SHARE * variation || left <= 0.0 {
            continue;
        }
        let covariation = product(samples, &above, &times);
        let explained = covariation * covariation / left;
        if best.is_none_or(|(most, _, _)| explained > most) {
            best = Some((explained, covariation / left, place));
        }
    }
    let (explained, jump_s, place) = best?;
    let residual = (total - explained).max(0.0);
    // What is left after an exact fit is rounding, and no measure of anything.
    let exact = residual <= 1e-20 * total;
    let f_statistic = (!exact).then(|| explained / (residual / df as f64));
    describe(samples, place, jump_s, f_statistic, explained / total)
}

fn is_above(sample: &Sample, place: u32) -> f64 {
    f64::from(u8::from(sample.longest_low > place))
}

fn describe(
    samples: &[Sample],
    place: u32,
    jump_s: f64,
    f_statistic: Option<f64>,
    explained_share: f64,
) -> Option<Break> {
    let weight: f64 = samples.iter().map(|sample| sample.weight).sum();
    let below_s = samples
        .iter()
        .map(|sample| sample.weight * (sample.step_time_s - jump_s * is_above(sample, place)))
        .sum::<f64>()
        / weight;
    let (above, below): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|sample| sample.longest_low > place);
    let eager = |side: &[&Sample]| {
        let iterations: f64 = side.iter().map(|sample| sample.iterations).sum();
        let eager: Option<f64> =
            side.iter().map(|s| Some(s.eager_share? * s.iterations)).sum::<Option<f64>>();
        eager.map(|eager| eager / iterations)
    };
    let finite = below_s > 0.0 && explained_share.is_finite();
    finite.then_some(())?;
    let before_tokens = above.iter().map(|sample| sample.longest_low).min()?;
    Some(Break {
        after_tokens: below.iter().map(|s| s.longest_high).filter(|h| *h < before_tokens).max()?,
        before_tokens,
        below_s,
        jump_s,
        f_statistic,
        explained_share,
        eager_below: eager(&below),
        eager_above: eager(&above),
    })
}
