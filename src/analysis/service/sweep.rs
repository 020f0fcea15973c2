//! Runs of one configuration at rising request rates.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use wattrace_schema::{Flag, FlagSet, Reason};

use super::FEWEST_REPEATS;
use super::measurement::RunMeasurement;
use super::rules::Objective;
use super::traffic::MemoryTraffic;
use crate::metrics::BYTES_PER_GB;
use crate::outcome::Outcome;
use crate::stats::median;

/// Median and band of a value over repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Median; +∞ where most runs have no bound.
    pub median: f64,
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Runs behind it.
    pub n: usize,
}

impl Spread {
    /// The spread of some values; `None` without any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(&mut values.to_vec())?,
            low: values.iter().copied().min_by(f64::total_cmp)?,
            high: values.iter().copied().max_by(f64::total_cmp)?,
            n: values.len(),
        })
    }

    /// Variance band: (max − min) / median.
    ///
    /// # Errors
    /// [`Reason::SingleValue`] for one run, [`Reason::NoValues`] for a median of zero.
    pub fn variance_band(&self) -> Result<f64, Reason> {
        if self.n < 2 {
            return Err(Reason::SingleValue);
        }
        let band = (self.high - self.low) / self.median;
        if band.is_finite() { Ok(band) } else { Err(Reason::NoValues) }
    }
}

/// The repeats at one request rate.
#[derive(Debug, Clone)]
pub struct RatePoint<'run> {
    /// Requests per second; `None` ranks highest.
    pub request_rate: Option<f64>,
    /// The runs, in the order of their ids.
    pub runs: Vec<&'run RunMeasurement>,
}

/// All runs of one configuration under one spec.
#[derive(Debug, Clone)]
pub struct Sweep<'run> {
    /// Hash of the spec.
    pub spec_hash: Option<String>,
    /// What is compared.
    pub configuration: Option<String>,
    /// Name of the model, of the first run.
    pub model: String,
    /// Accelerators and how many of them, of the first run.
    pub hardware: String,
    /// What counts as good service.
    pub objective: Option<Objective>,
    /// One entry a rate, ascending.
    pub points: Vec<RatePoint<'run>>,
}

/// One request rate of one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRow {
    /// Hash of the spec.
    pub spec_hash: Option<String>,
    /// What is compared.
    pub configuration: Option<String>,
    /// Name of the model.
    pub model: String,
    /// Accelerators and how many of them.
    pub hardware: String,
    /// Requests per second; `None`: as fast as the service takes them.
    pub request_rate: Option<f64>,
    /// Whether this is the rate of the goodput.
    pub is_goodput_rate: bool,
    /// Runs at this rate.
    pub n_runs: usize,
    /// Output tokens per second, median over runs.
    pub output_tok_s: Result<f64, Reason>,
    /// Smallest of them.
    pub output_tok_s_low: Result<f64, Reason>,
    /// Largest of them.
    pub output_tok_s_high: Result<f64, Reason>,
    /// (max − min) / median of them.
    pub variance_band: Result<f64, Reason>,
    /// 99th percentile of the time to first token, median over runs.
    pub ttft_p99_ms: Result<f64, Reason>,
    /// 99th percentile of the time per output token, median over runs.
    pub tpot_p99_ms: Result<f64, Reason>,
    /// Whether both medians keep their limits.
    pub meets_slo: Result<bool, Reason>,
    /// The limits; `None` without an objective.
    pub objective: Option<Objective>,
    /// Requests sent in the windows of all runs.
    pub sent: Result<u64, Reason>,
    /// Those of them that failed.
    pub failed: Result<u64, Reason>,
    /// Memory bandwidth utilisation, and what it is made of.
    pub memory: MemorySummary,
    /// Node power, median over runs.
    pub node_power_w: Result<f64, Reason>,
    /// Board power, all boards together, median over runs.
    pub board_power_w: Result<f64, Reason>,
    /// Output tokens per joule of the node, median over runs.
    pub tokens_per_joule: Result<f64, Reason>,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// Memory bandwidth utilisation over the windows of some runs, with what stands beside it: each value
/// the median over the runs that have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemorySummary {
    /// Memory bandwidth utilisation.
    pub mbu: Result<f64, Reason>,
    /// The engine's own estimate of it.
    pub engine_mbu: Result<f64, Reason>,
    /// Iterations per second of all replicas together.
    pub steps_per_s: Result<f64, Reason>,
    /// Mean number of sequences in an iteration.
    pub mean_batch: Result<f64, Reason>,
    /// Mean history of a sequence, tokens.
    pub mean_history_tokens: Result<f64, Reason>,
    /// Longest sequence, tokens.
    pub max_sequence_tokens: Result<f64, Reason>,
    /// Mean number of distinct routed experts of a layer; `None` for a dense model.
    pub active_experts: Option<f64>,
    /// Rated bandwidth of all accelerators together, GB/s.
    pub rated_gb_s: Result<f64, Reason>,
}

impl MemorySummary {
    /// Nothing, for one reason.
    pub(super) const fn missing(reason: Reason) -> Self {
        Self {
            mbu: Err(reason),
            engine_mbu: Err(reason),
            steps_per_s: Err(reason),
            mean_batch: Err(reason),
            mean_history_tokens: Err(reason),
            max_sequence_tokens: Err(reason),
            active_experts: None,
            rated_gb_s: Err(reason),
        }
    }

    fn of(runs: &[&RunMeasurement]) -> Self {
        let of_runs = |value: &dyn Fn(&RunMeasurement) -> Result<f64, Reason>| {
            let values: Vec<_> = runs.iter().map(|run| value(run)).collect();
            let reason = values.iter().find_map(|value| value.err()).unwrap_or(Reason::NoValues);
            median(&mut values.into_iter().flatten().collect::<Vec<_>>()).ok_or(reason)
        };
        let of_traffic = |value: fn(&MemoryTraffic) -> f64| {
            of_runs(&|run| run.traffic.as_ref().map(value).map_err(|reason| *reason))
        };
        let of_some = |value: fn(&MemoryTraffic) -> Option<f64>| {
            of_runs(&|run| match &run.traffic {
                Ok(traffic) => value(traffic).ok_or(Reason::NoValues),
                Err(reason) => Err(*reason),
            })
        };
        Self {
            mbu: of_runs(&|run| run.mbu.as_f64()),
            engine_mbu: of_runs(&|run| run.engine_mbu),
            steps_per_s: of_traffic(|traffic| traffic.steps_per_s),
            mean_batch: of_traffic(|traffic| traffic.mean_batch),
            mean_history_tokens: of_traffic(|traffic| traffic.mean_history_tokens),
            max_sequence_tokens: of_some(|traffic| traffic.max_sequence_tokens.map(f64::from)),
            active_experts: of_some(|traffic| traffic.active_experts).ok(),
            rated_gb_s: of_traffic(|traffic| traffic.rated_bytes_per_s / BYTES_PER_GB),
        }
    }
}

/// Groups measurements into sweeps, ordered by spec, then model, hardware and configuration. A spec
/// says which model and hardware belong together; without one, each pair has sweeps of its own.
#[must_use]
pub fn sweeps(runs: &[RunMeasurement]) -> Vec<Sweep<'_>> {
    let mut groups: BTreeMap<_, Vec<&RunMeasurement>> = BTreeMap::new();
    for run in runs {
        let spec_hash = run.rules.spec_hash.clone();
        let subject = spec_hash.is_none().then(|| (run.model.clone(), run.hardware.clone()));
        let key = (spec_hash, subject, run.configuration.clone());
        groups.entry(key).or_default().push(run);
    }
    groups
        .into_iter()
        .map(|((spec_hash, _, configuration), mut runs)| {
            runs.sort_by(|a, b| {
                by_rate(a.request_rate, b.request_rate).then_with(|| a.run_id.cmp(&b.run_id))
            });
            Sweep {
                spec_hash,
                configuration,
                model: runs.first().map(|run| run.model.clone()).unwrap_or_default(),
                hardware: runs.first().map(|run| run.hardware.clone()).unwrap_or_default(),
                objective: runs.first().and_then(|run| run.rules.objective),
                points: runs
                    .chunk_by(|a, b| by_rate(a.request_rate, b.request_rate).is_eq())
                    .map(|runs| RatePoint {
                        request_rate: runs[0].request_rate,
                        runs: runs.to_vec(),
                    })
                    .collect(),
            }
        })
        .collect()
}

/// Ascending rates; no rate asks for all that the service can take and ranks highest.
pub(super) fn by_rate(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

impl Sweep<'_> {
    /// One row a request rate, ascending.
    #[must_use]
    pub fn rows(&self) -> Vec<SweepRow> {
        let best = self.best_point().ok();
        let row = |(index, point)| self.row(point, best == Some(index));
        self.points.iter().enumerate().map(row).collect()
    }

    /// Whether its runs differ in model or hardware.
    pub(super) fn is_mixed(&self) -> bool {
        let runs = self.points.iter().flat_map(|point| &point.runs);
        runs.into_iter().any(|run| run.model != self.model || run.hardware != self.hardware)
    }

    fn row(&self, point: &RatePoint<'_>, is_goodput_rate: bool) -> SweepRow {
        let output = point.spread(|run| &run.output_tok_s);
        SweepRow {
            spec_hash: self.spec_hash.clone(),
            configuration: self.configuration.clone(),
            model: self.model.clone(),
            hardware: self.hardware.clone(),
            request_rate: point.request_rate,
            is_goodput_rate,
            n_runs: point.runs.len(),
            output_tok_s: output.map(|output| output.median),
            output_tok_s_low: output.map(|output| output.low),
            output_tok_s_high: output.map(|output| output.high),
            variance_band: output.and_then(|output| output.variance_band()),
            ttft_p99_ms: point.bounded_median(|run| &run.ttft_p99_ms),
            tpot_p99_ms: point.bounded_median(|run| &run.tpot_p99_ms),
            meets_slo: self.verdict(point),
            objective: self.objective,
            sent: point.total(|run| run.sent),
            failed: point.total(|run| run.failed),
            memory: point.memory(),
            node_power_w: point.bounded_median(|run| &run.node_power_w),
            board_power_w: point.bounded_median(|run| &run.board_power_w),
            tokens_per_joule: point.bounded_median(|run| &run.tokens_per_joule),
            flags: self.flags(point),
        }
    }

    /// Flags of a point and of the sweep that it stands in.
    pub(super) fn flags(&self, point: &RatePoint<'_>) -> FlagSet {
        let mut flags = point.flags();
        flags.insert_if(self.is_mixed(), Flag::MixedSubjects);
        flags
    }

    /// Whether the medians over the runs of both percentiles keep their limits.
    pub(super) fn verdict(&self, point: &RatePoint<'_>) -> Result<bool, Reason> {
        let objective = self.objective.ok_or(Reason::NoSlo)?;
        let keeps = |spread: Result<Spread, Reason>, limit: f64| Ok(spread?.median <= limit);
        let ttft = keeps(point.spread(|run| &run.ttft_p99_ms), objective.ttft_p99_ms);
        let tpot = keeps(point.spread(|run| &run.tpot_p99_ms), objective.tpot_p99_ms);
        // One limit that is broken decides, whatever the other is.
        if ttft == Ok(false) || tpot == Ok(false) { Ok(false) } else { Ok(ttft? && tpot?) }
    }
}

impl RatePoint<'_> {
    /// The values of the runs that have one; a percentile without bound is +∞.
    pub(super) fn values(&self, metric: impl Fn(&RunMeasurement) -> &Outcome) -> Vec<f64> {
        self.runs.iter().filter_map(|run| unbounded_is_infinite(metric(run)).ok()).collect()
    }

    /// Median and band; the first run's reason where no run has a value.
    pub(super) fn spread(
        &self,
        metric: impl Fn(&RunMeasurement) -> &Outcome,
    ) -> Result<Spread, Reason> {
        let reason = |run: &&RunMeasurement| unbounded_is_infinite(metric(run)).err();
        Spread::of(&self.values(&metric))
            .ok_or_else(|| self.runs.iter().find_map(reason).unwrap_or(Reason::NoValues))
    }

    /// The median, an infinite one being a reason.
    pub(super) fn bounded_median(
        &self,
        metric: impl Fn(&RunMeasurement) -> &Outcome,
    ) -> Result<f64, Reason> {
        match self.spread(metric)?.median {
            median if median.is_infinite() => Err(Reason::P99Unbounded),
            median => Ok(median),
        }
    }

    /// Memory bandwidth utilisation and what stands beside it.
    pub(super) fn memory(&self) -> MemorySummary {
        MemorySummary::of(&self.runs)
    }

    fn total(&self, count: impl Fn(&RunMeasurement) -> Result<u64, Reason>) -> Result<u64, Reason> {
        self.runs.iter().map(|run| count(run)).sum()
    }

    /// Flags of the runs and of their number.
    pub(super) fn flags(&self) -> FlagSet {
        let mut flags = self.runs.iter().fold(FlagSet::EMPTY, |all, run| all.union(run.flags()));
        flags.insert_if(self.runs.len() < FEWEST_REPEATS, Flag::TooFewRepeats);
        let some_lack = |metric: fn(&RunMeasurement) -> &Outcome| {
            let having = self.values(metric).len();
            having > 0 && having < self.runs.len()
        };
        let left_out = some_lack(|run| &run.output_tok_s)
            || some_lack(|run| &run.ttft_p99_ms)
            || some_lack(|run| &run.tpot_p99_ms)
            || some_lack(|run| &run.node_power_w)
            || some_lack(|run| &run.board_power_w)
            || some_lack(|run| &run.mbu);
        flags.insert_if(left_out, Flag::RunsLeftOut);
        flags
    }
}

/// The value; +∞ for a percentile that failures make infinite.
pub(super) fn unbounded_is_infinite(outcome: &Outcome) -> Result<f64, Reason> {
    match outcome.as_f64() {
        Err(Reason::P99Unbounded) => Ok(f64::INFINITY),
        value => value,
    }
}
