//! What a ranking sees of a serving run.

use wattrace_schema::{Flag, FlagSet, Reason, RunKind, RunManifest, SizeGroup};

use crate::metrics::MetricRow;

/// Who a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunIdentity {
    /// Id of the run.
    pub run_id: String,
    /// Name of the model.
    pub model: String,
    /// Task of the workload.
    pub task: Option<String>,
    /// Group by total parameters.
    pub size_group: Option<SizeGroup>,
    /// Name of the serving engine.
    pub engine: Option<String>,
    /// Accelerators and how many of them.
    pub hardware: String,
    /// Whether the run is simulated.
    pub synthetic: bool,
}

impl RunIdentity {
    /// What `run.json` says.
    #[must_use]
    pub fn of(manifest: &RunManifest) -> Self {
        Self {
            run_id: manifest.run_id.clone(),
            model: manifest.model.name.clone(),
            task: manifest.workload.task.clone(),
            size_group: manifest.model.size_group(),
            engine: manifest.engine.name.clone(),
            hardware: manifest.hardware.label(),
            synthetic: manifest.synthetic,
        }
    }
}

/// The metrics of a run that rankings rest on, each with the reason if it is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServingValues {
    /// Steady energy per token, J.
    pub steady_j_per_token: Result<f64, Reason>,
    /// Lifecycle energy per token, J.
    pub lifecycle_j_per_token: Result<f64, Reason>,
    /// Output tokens of the formal stage.
    pub output_tokens: Result<f64, Reason>,
    /// Start-up and release energy, J.
    pub fixed_energy_j: Result<f64, Reason>,
    /// Energy of one request in steady state, J.
    pub steady_j_per_request: Result<f64, Reason>,
    /// Mean output tokens of a request.
    pub mean_request_output_tokens: Result<f64, Reason>,
    /// What a reader must know of any of them.
    pub flags: FlagSet,
}

impl ServingValues {
    /// The metrics by name. A name that `metric` does not know is [`Reason::NotApplicable`].
    pub fn from_metrics(
        mut metric: impl FnMut(&'static str) -> Option<(Result<f64, Reason>, FlagSet)>,
    ) -> Self {
        let mut flags = FlagSet::EMPTY;
        let mut value = |name| match metric(name) {
            Some((value, more)) => {
                flags.extend(more);
                value
            }
            None => Err(Reason::NotApplicable),
        };
        let mut values = Self {
            steady_j_per_token: value("steady_j_per_token"),
            lifecycle_j_per_token: value("lifecycle_j_per_token"),
            output_tokens: value("output_tokens"),
            fixed_energy_j: value("fixed_energy_j"),
            steady_j_per_request: value("steady_j_per_request"),
            mean_request_output_tokens: value("mean_request_output_tokens"),
            flags: FlagSet::EMPTY,
        };
        values.flags = flags;
        values
    }
}

/// A serving run as rankings see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingRun {
    /// Who it is.
    pub identity: RunIdentity,
    /// What it measured.
    pub values: ServingValues,
}

impl ServingRun {
    /// The run of `manifest` with its metrics; `None` for a run of another kind.
    #[must_use]
    pub fn of(manifest: &RunManifest, metrics: &MetricRow) -> Option<Self> {
        if manifest.kind != RunKind::Serving {
            return None;
        }
        let values = ServingValues::from_metrics(|name| metrics.value_and_flags(name));
        Some(Self { identity: RunIdentity::of(manifest), values })
    }

    /// Steady and lifecycle energy per token, J; `None` unless the run has both.
    pub(super) fn both(&self) -> Option<(f64, f64)> {
        let values = &self.values;
        Some((values.steady_j_per_token.ok()?, values.lifecycle_j_per_token.ok()?))
    }

    /// The flags of its values, and whether it is simulated.
    pub(super) fn flags(&self) -> FlagSet {
        let mut flags = self.values.flags;
        flags.insert_if(self.identity.synthetic, Flag::Synthetic);
        flags
    }
}
