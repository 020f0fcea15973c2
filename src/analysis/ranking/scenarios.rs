//! Scenarios: the medians of both values over the models of one task and engine.

use wattrace_schema::{FlagSet, Reason};

use super::ServingRun;
use super::eligible::{by_key, flags, hardware, model_values};
use crate::stats::median;

/// One task on one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Task of the workload.
    pub task: String,
    /// Name of the serving engine.
    pub engine: String,
    /// Models that have both values.
    pub n_models: usize,
    /// Runs behind them.
    pub n_runs: usize,
    /// Medians over the models, or why there are none.
    pub medians: Result<ScenarioMedians, Reason>,
    /// Distinct hardware of the runs.
    pub hardware: Vec<String>,
    /// What a reader must know of the values.
    pub flags: FlagSet,
}

/// Medians over the models of a scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScenarioMedians {
    /// Steady energy per token, J.
    pub steady_j_per_token: f64,
    /// Lifecycle energy per token, J.
    pub lifecycle_j_per_token: f64,
}

impl ScenarioMedians {
    /// Lifecycle over steady; `None` where the steady median is zero.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.lifecycle_j_per_token / self.steady_j_per_token;
        ratio.is_finite().then_some(ratio)
    }
}

pub(super) fn scenarios(runs: &[&ServingRun]) -> Vec<Scenario> {
    let grouped =
        by_key(runs, |run| Some((run.identity.task.as_deref()?, run.identity.engine.as_deref()?)));
    grouped
        .into_iter()
        .map(|((task, engine), runs)| {
            let models = model_values(&runs);
            let mut steady: Vec<f64> = models.iter().map(|m| m.steady_j_per_token).collect();
            let mut lifecycle: Vec<f64> = models.iter().map(|m| m.lifecycle_j_per_token).collect();
            let medians = median(&mut steady).zip(median(&mut lifecycle));
            let medians = medians.map(|(steady_j_per_token, lifecycle_j_per_token)| {
                ScenarioMedians { steady_j_per_token, lifecycle_j_per_token }
            });
            Scenario {
                task: task.to_owned(),
                engine: engine.to_owned(),
                n_models: models.len(),
                n_runs: models.iter().map(|model| model.n_runs).sum(),
                medians: medians.ok_or(Reason::NoEligibleRuns),
                hardware: hardware(&runs),
                flags: flags(&runs),
            }
        })
        .collect()
}
