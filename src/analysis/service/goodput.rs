//! SLO goodput: what a configuration delivers at the highest rate at which it is still good.

use wattrace_schema::{Flag, FlagSet, Reason};

use super::measurement::RunMeasurement;
use super::resample::interval;
use super::rules::Objective;
use super::sweep::{MemorySummary, RatePoint, Sweep, unbounded_is_infinite};
use crate::outcome::Outcome;
use crate::stats::median;
use crate::stats::random::Stream;

/// The goodput of one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct GoodputRow {
    /// Hash of the spec.
    pub spec_hash: Option<String>,
    /// What is compared.
    pub configuration: Option<String>,
    /// Name of the model.
    pub model: String,
    /// Accelerators and how many of them.
    pub hardware: String,
    /// The limits; `None` without an objective.
    pub objective: Option<Objective>,
    /// Output tokens per second at the highest request rate that meets the objective, median over runs.
    pub goodput_tok_s: Result<f64, Reason>,
    /// That rate, req/s; an inner `None` is the unlimited one.
    pub request_rate: Result<Option<f64>, Reason>,
    /// Smallest value of a run at that rate, tokens/s.
    pub goodput_low: Result<f64, Reason>,
    /// Largest value of a run at that rate, tokens/s.
    pub goodput_high: Result<f64, Reason>,
    /// (max − min) / median at that rate.
    pub variance_band: Result<f64, Reason>,
    /// Lower end of the 95% bootstrap interval of the goodput, tokens/s. Runs are redrawn at every rate,
    /// so the rate may change too; [`Reason::NoRateMeetsSlo`] where it falls on resamples without one.
    pub goodput_ci_low: Result<f64, Reason>,
    /// Upper end.
    pub goodput_ci_high: Result<f64, Reason>,
    /// Lower end of the 95% bootstrap interval of the rate.
    pub request_rate_ci_low: Result<Option<f64>, Reason>,
    /// Upper end.
    pub request_rate_ci_high: Result<Option<f64>, Reason>,
    /// Runs at that rate.
    pub n_runs: usize,
    /// Memory bandwidth utilisation at that rate, and what it is made of.
    pub memory: MemorySummary,
    /// Node power at that rate, median over runs.
    pub node_power_w: Result<f64, Reason>,
    /// Board power at that rate, all boards together, median over runs.
    pub board_power_w: Result<f64, Reason>,
    /// Output tokens per joule of the node at that rate: the median of the runs' ratios.
    pub tokens_per_joule: Result<f64, Reason>,
    /// What a reader must know.
    pub flags: FlagSet,
}

impl GoodputRow {
    /// Why there is no goodput.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.goodput_tok_s.err()
    }
}

impl Sweep<'_> {
    /// The highest rate that meets the objective.
    ///
    /// # Errors
    /// [`Reason::NoRateMeetsSlo`], or the reason why no rate has a verdict.
    pub(super) fn best_point(&self) -> Result<usize, Reason> {
        let verdicts: Vec<_> = self.points.iter().map(|point| self.verdict(point)).collect();
        if let Some(best) = verdicts.iter().rposition(|verdict| *verdict == Ok(true)) {
            return Ok(best);
        }
        match verdicts.iter().find_map(|verdict| verdict.err()) {
            Some(reason) if verdicts.iter().all(Result::is_err) => Err(reason),
            _ => Err(Reason::NoRateMeetsSlo),
        }
    }

    /// The goodput, with intervals from `seed`.
    ///
    /// Where no rate has a verdict, since the runs have only claimed token rates, power and tokens per
    /// joule are those of the highest rate.
    #[must_use]
    pub fn goodput(&self, seed: u64) -> GoodputRow {
        let best = self.best_point();
        let reason = best.err();
        let point = match best {
            Ok(best) => self.points.get(best),
            Err(Reason::NoRateMeetsSlo) => None,
            Err(_) => self.points.last(),
        };
        let at = |metric: fn(&RunMeasurement) -> &Outcome| match (point, reason) {
            (Some(point), _) => point.bounded_median(metric),
            (None, reason) => Err(reason.unwrap_or(Reason::NoValues)),
        };
        let output = best.and_then(|best| self.points[best].spread(|run| &run.output_tok_s));
        let resampled = best.and_then(|_| self.resampled(seed));
        GoodputRow {
            spec_hash: self.spec_hash.clone(),
            configuration: self.configuration.clone(),
            model: self.model.clone(),
            hardware: self.hardware.clone(),
            objective: self.objective,
            goodput_tok_s: output.map(|output| output.median),
            request_rate: best.map(|best| self.points[best].request_rate),
            goodput_low: output.map(|output| output.low),
            goodput_high: output.map(|output| output.high),
            variance_band: output.and_then(|output| output.variance_band()),
            goodput_ci_low: resampled.and_then(|ends| ends.goodput_tok_s.0),
            goodput_ci_high: resampled.and_then(|ends| ends.goodput_tok_s.1),
            request_rate_ci_low: resampled.and_then(|ends| ends.request_rate.0),
            request_rate_ci_high: resampled.and_then(|ends| ends.request_rate.1),
            n_runs: point.map_or(0, |point| point.runs.len()),
            memory: point.map_or_else(
                || MemorySummary::missing(reason.unwrap_or(Reason::NoValues)),
                RatePoint::memory,
            ),
            node_power_w: at(|run| &run.node_power_w),
            board_power_w: at(|run| &run.board_power_w),
            tokens_per_joule: at(|run| &run.tokens_per_joule),
            flags: self.goodput_flags(best, point),
        }
    }

    fn goodput_flags(&self, best: Result<usize, Reason>, point: Option<&RatePoint<'_>>) -> FlagSet {
        let verdicts: Vec<_> = self.points.iter().map(|point| self.verdict(point)).collect();
        let mut flags = point.map_or(FlagSet::EMPTY, |point| self.flags(point));
        let undecided = verdicts.iter().any(Result::is_err) && verdicts.iter().any(Result::is_ok);
        flags.insert_if(undecided, Flag::RateUndecided);
        if let Ok(best) = best {
            flags.insert_if(verdicts[..best].contains(&Ok(false)), Flag::NonMonotone);
            flags.insert_if(best + 1 == self.points.len(), Flag::AtSweepEnd);
        }
        flags
    }

    /// Intervals of the goodput and its rate, by redrawing the runs of every rate.
    fn resampled(&self, seed: u64) -> Result<GoodputInterval, Reason> {
        let objective = self.objective.ok_or(Reason::NoSlo)?;
        let points: Vec<_> = self.points.iter().map(Repeats::of).collect();
        if points.iter().any(|repeats| repeats.0.len() == 1) {
            return Err(Reason::SingleValue);
        }
        let best = |stream: &mut Stream| {
            // Every rate is redrawn before the best is looked for: the draws of one do not depend on
            // what became of another.
            points
                .iter()
                .map(|repeats| repeats.redrawn_goodput(&objective, stream))
                .enumerate()
                .filter_map(|(index, goodput)| Some((index, goodput?)))
                .last()
        };
        let none = f64::NEG_INFINITY;
        let rank = |stream: &mut Stream| best(stream).map_or(none, |(index, _)| index as f64);
        let goodput = |stream: &mut Stream| best(stream).map_or(none, |(_, goodput)| goodput);
        let known =
            |value: f64| if value == none { Err(Reason::NoRateMeetsSlo) } else { Ok(value) };
        let rate = |rank: f64| Ok(self.points[known(rank)? as usize].request_rate);
        let (low_rank, high_rank) = interval(seed, rank);
        let (low, high) = interval(seed, goodput);
        Ok(GoodputInterval {
            goodput_tok_s: (known(low), known(high)),
            request_rate: (rate(low_rank), rate(high_rank)),
        })
    }
}

#[derive(Clone, Copy)]
struct GoodputInterval {
    goodput_tok_s: (Result<f64, Reason>, Result<f64, Reason>),
    request_rate: (Result<Option<f64>, Reason>, Result<Option<f64>, Reason>),
}

/// Output rate and both percentiles of each run of a rate that has all three.
struct Repeats(Vec<[f64; 3]>);

impl Repeats {
    fn of(point: &RatePoint<'_>) -> Self {
        let triple = |run: &&RunMeasurement| {
            Some([
                run.output_tok_s.as_f64().ok()?,
                unbounded_is_infinite(&run.ttft_p99_ms).ok()?,
                unbounded_is_infinite(&run.tpot_p99_ms).ok()?,
            ])
        };
        Self(point.runs.iter().filter_map(triple).collect())
    }

    /// The median output rate of redrawn runs; `None` where their medians miss the objective.
    fn redrawn_goodput(&self, objective: &Objective, stream: &mut Stream) -> Option<f64> {
        let runs = &self.0;
        let drawn: Vec<_> = (0..runs.len()).map(|_| runs[stream.below(runs.len())]).collect();
        let median_of =
            |which: usize| median(&mut drawn.iter().map(|run| run[which]).collect::<Vec<_>>());
        let [output_tok_s, ttft_ms, tpot_ms] = [median_of(0)?, median_of(1)?, median_of(2)?];
        let good = ttft_ms <= objective.ttft_p99_ms && tpot_ms <= objective.tpot_p99_ms;
        good.then_some(output_tok_s)
    }
}
