//! One run as the decode model sees it.

use wattrace_schema::{Flag, FlagSet, Reason, Run, RunKind, Split};

use crate::metrics::{BYTES_PER_GB, MetricRow, StepTiming, step_timings};

/// Where a run lies: the model's inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coordinates {
    /// Effective batch: tokens per iteration.
    pub b_eff: f64,
    /// Mean history before a token; `None` where it is not known.
    pub mean_history_tokens: Option<f64>,
    /// Weight bytes per token, GB.
    pub q_w_gb: f64,
    /// Key and value bytes per token, GB; `None` where history is not known.
    pub q_kv_gb: Option<f64>,
    /// Time per token, s.
    pub tau_s: f64,
}

impl Coordinates {
    /// The coordinates of a batch, a history and a time on a model of the given bytes.
    #[must_use]
    pub fn new(
        b_eff: f64,
        mean_history_tokens: Option<f64>,
        tau_s: f64,
        bytes: ModelBytes,
    ) -> Self {
        Self {
            b_eff,
            mean_history_tokens,
            q_w_gb: bytes.weights_per_iteration / (BYTES_PER_GB * b_eff),
            q_kv_gb: mean_history_tokens
                .map(|history| bytes.kv_per_token * (history + 1.0) / BYTES_PER_GB),
            tau_s,
        }
    }
}

/// Bytes that the model's geometry fixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelBytes {
    /// M_w: weights that one iteration reads.
    pub weights_per_iteration: f64,
    /// K_KV: keys and values of one token of history.
    pub kv_per_token: f64,
}

/// What a run that can be used gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Energy per token, J, above zero.
    pub j_per_token: f64,
    /// Where it was measured.
    pub coordinates: Coordinates,
    /// Bytes of the run's model.
    pub bytes: ModelBytes,
}

/// One decode or summary run as the decode model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The run.
    pub run_id: String,
    /// Its model.
    pub model: String,
    /// Key of the fit that it belongs to.
    pub setting: String,
    /// Experimental cell; a run that names none is a cell of its own.
    pub cell: String,
    /// Side of the validation.
    pub split: Option<Split>,
    /// Time block.
    pub block: Option<String>,
    /// The values are published totals, not measured from rows.
    pub claimed: bool,
    /// Requests active at the start of a draining run.
    pub initial_cohort: Option<u32>,
    /// Mean over requests of each one's own mean history, where the request log tells it.
    pub mean_request_history_tokens: Option<f64>,
    /// The measurement, or why the run stays out of every fit.
    pub measured: Result<Measured, Reason>,
    /// Step times of the run.
    pub step_timings: Vec<StepTiming>,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// Flags that keep a run out of the fits.
const EXCLUDING: [(Flag, Reason); 4] = [
    (Flag::MixedPrefill, Reason::MixedPrefill),
    (Flag::OverlappingSteps, Reason::OverlappingSteps),
    (Flag::TokenMismatch, Reason::TokenMismatch),
    (Flag::ReplicaCountMismatch, Reason::ReplicaCountMismatch),
];

/// What the decode model needs of a run beside its metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedRun {
    /// The run.
    pub run_id: String,
    /// Its model.
    pub model: String,
    /// Key of the fit that it belongs to.
    pub setting: String,
    /// Experimental cell, if it names one.
    pub cell: Option<String>,
    /// Side of the validation.
    pub split: Option<Split>,
    /// Time block.
    pub block: Option<String>,
    /// The values are published totals, not measured from rows.
    pub claimed: bool,
    /// Whether it is simulated.
    pub synthetic: bool,
    /// Requests active at the start of a draining run.
    pub initial_cohort: Option<u32>,
    /// M_w of its model, B, or why that is not known.
    pub weight_bytes_per_iteration: Result<f64, Reason>,
    /// K_KV of its model, B, or why that is not known.
    pub kv_bytes_per_token: Result<f64, Reason>,
    /// Step times of the run.
    pub step_timings: Vec<StepTiming>,
}

impl ObservedRun {
    /// What a run says; `None` for a serving run.
    fn of(run: &Run) -> Option<Self> {
        let manifest = &run.manifest;
        (manifest.kind != RunKind::Serving).then(|| Self {
            run_id: manifest.run_id.clone(),
            model: manifest.model.name.clone(),
            setting: manifest.setting_or_default(),
            cell: manifest.cell.clone(),
            split: manifest.split,
            block: manifest.block.clone(),
            claimed: manifest.kind == RunKind::Summary,
            synthetic: manifest.synthetic,
            initial_cohort: manifest.initial_cohort,
            weight_bytes_per_iteration: manifest.model.weight_bytes_per_iteration(),
            kv_bytes_per_token: manifest.model.kv_bytes_per_token(),
            step_timings: step_timings(run),
        })
    }
}

impl Observation {
    /// What a run and its metrics say; `None` for a serving run.
    #[must_use]
    pub fn of(run: &Run, metrics: &MetricRow) -> Option<Self> {
        let observed = ObservedRun::of(run)?;
        Some(Self::from_metrics(observed, |name| metrics.value_and_flags(name)))
    }

    /// The same from metrics by name. A name that `metric` does not know is [`Reason::NotApplicable`].
    pub fn from_metrics(
        run: ObservedRun,
        metric: impl Fn(&'static str) -> Option<(Result<f64, Reason>, FlagSet)>,
    ) -> Self {
        let mut flags = ["j_per_token", "b_eff", "q_kv_gb"]
            .into_iter()
            .filter_map(&metric)
            .fold(FlagSet::EMPTY, |flags, (_, more)| flags.union(more));
        flags.insert_if(run.synthetic, Flag::Synthetic);
        let value = |name| metric(name).map_or(Err(Reason::NotApplicable), |(value, _)| value);
        Self {
            measured: measured(&run, value, flags),
            cell: run.cell.unwrap_or_else(|| run.run_id.clone()),
            run_id: run.run_id,
            model: run.model,
            setting: run.setting,
            split: run.split,
            block: run.block,
            claimed: run.claimed,
            initial_cohort: run.initial_cohort,
            mean_request_history_tokens: value("mean_request_history_tokens").ok(),
            step_timings: run.step_timings,
            flags,
        }
    }
}

fn measured(
    run: &ObservedRun,
    metric: impl Fn(&'static str) -> Result<f64, Reason>,
    flags: FlagSet,
) -> Result<Measured, Reason> {
    // Asked first: whatever the run measured, the model does not hold for it.
    let weights_per_iteration = run.weight_bytes_per_iteration?;
    if let Some((_, reason)) = EXCLUDING.iter().find(|(flag, _)| flags.contains(*flag)) {
        return Err(*reason);
    }
    let positive = |name| {
        let value = metric(name)?;
        if value > 0.0 { Ok(value) } else { Err(Reason::NoValues) }
    };
    let history_known = |name| match metric(name) {
        Err(Reason::NoHistory) => Ok(None),
        other => other.map(Some),
    };
    Ok(Measured {
        j_per_token: positive("j_per_token")?,
        coordinates: Coordinates {
            b_eff: positive("b_eff")?,
            mean_history_tokens: history_known("mean_history_tokens")?,
            q_w_gb: positive("q_w_gb")?,
            q_kv_gb: history_known("q_kv_gb")?,
            tau_s: positive("tau_s")?,
        },
        bytes: ModelBytes { weights_per_iteration, kv_per_token: run.kv_bytes_per_token? },
    })
}
