//! Rank agreement: one group a task, size group and engine.

use wattrace_schema::{FlagSet, Reason, SizeGroup};

use super::eligible::{ModelValue, by_key, flags, hardware, model_values};
use super::{RankOptions, ServingRun};
use crate::stats::{RankAgreement, average_ranks, rank_agreement};

/// Two models that swap places: the first costs less in steady state and more over the lifecycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The model that is ahead in steady state.
    pub ahead_in_steady_state: String,
    /// The model that is ahead over the lifecycle.
    pub ahead_over_lifecycle: String,
}

/// Agreement of the steady and the lifecycle order of the models of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct RankGroup {
    /// Task of the workload.
    pub task: String,
    /// Group by total parameters.
    pub size_group: SizeGroup,
    /// Name of the serving engine.
    pub engine: String,
    /// Models that have both values.
    pub n_models: usize,
    /// Runs behind them.
    pub n_runs: usize,
    /// The agreement, or why there is none.
    pub agreement: Result<RankAgreement, Reason>,
    /// Pairs of models that swap places, in the order of models.
    pub swaps: Vec<Swap>,
    /// Distinct hardware of the runs; more than one mixes hardware with models.
    pub hardware: Vec<String>,
    /// What a reader must know of the values.
    pub flags: FlagSet,
}

/// One model of a group with its values and ranks, 1 for the least energy.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedModel {
    /// Task of the workload.
    pub task: String,
    /// Group by total parameters.
    pub size_group: SizeGroup,
    /// Name of the serving engine.
    pub engine: String,
    /// Name of the model.
    pub model: String,
    /// Runs whose median the values are.
    pub n_runs: usize,
    /// Median steady energy per token, J.
    pub steady_j_per_token: f64,
    /// Median lifecycle energy per token, J.
    pub lifecycle_j_per_token: f64,
    /// Rank by steady energy; ties share the average of their ranks.
    pub steady_rank: f64,
    /// Rank by lifecycle energy.
    pub lifecycle_rank: f64,
}

/// The groups and the models in them. A group none of whose runs is eligible has no models.
pub(super) fn groups(
    runs: &[&ServingRun],
    options: &RankOptions,
) -> (Vec<RankGroup>, Vec<RankedModel>) {
    let mut groups = Vec::new();
    let mut ranked = Vec::new();
    let grouped = by_key(runs, |run| {
        let identity = &run.identity;
        Some((identity.task.as_deref()?, identity.size_group?, identity.engine.as_deref()?))
    });
    for ((task, size_group, engine), runs) in grouped {
        let models = model_values(&runs);
        let steady: Vec<f64> = models.iter().map(|model| model.steady_j_per_token).collect();
        let lifecycle: Vec<f64> = models.iter().map(|model| model.lifecycle_j_per_token).collect();
        let agreement = rank_agreement(&steady, &lifecycle, options.resamples, options.seed);
        groups.push(RankGroup {
            task: task.to_owned(),
            size_group,
            engine: engine.to_owned(),
            n_models: models.len(),
            n_runs: models.iter().map(|model| model.n_runs).sum(),
            agreement: agreement.map_err(|failure| failure.reason),
            swaps: swaps(&models),
            hardware: hardware(&runs),
            flags: flags(&runs),
        });
        let ranks = average_ranks(&steady).into_iter().zip(average_ranks(&lifecycle));
        ranked.extend(models.into_iter().zip(ranks).map(
            |(model, (steady_rank, lifecycle_rank))| RankedModel {
                task: task.to_owned(),
                size_group,
                engine: engine.to_owned(),
                model: model.model,
                n_runs: model.n_runs,
                steady_j_per_token: model.steady_j_per_token,
                lifecycle_j_per_token: model.lifecycle_j_per_token,
                steady_rank,
                lifecycle_rank,
            },
        ));
    }
    (groups, ranked)
}

/// Pairs of models that the two values order in opposite ways; a tie on either side is no swap.
fn swaps(models: &[ModelValue]) -> Vec<Swap> {
    let swapped = |a: &ModelValue, b: &ModelValue| {
        a.steady_j_per_token < b.steady_j_per_token
            && a.lifecycle_j_per_token > b.lifecycle_j_per_token
    };
    let mut swaps = Vec::new();
    for (index, first) in models.iter().enumerate() {
        for second in &models[index + 1..] {
            let (steady, lifecycle) = if swapped(first, second) {
                (first, second)
            } else if swapped(second, first) {
                (second, first)
            } else {
                continue;
            };
            swaps.push(Swap {
                ahead_in_steady_state: steady.model.clone(),
                ahead_over_lifecycle: lifecycle.model.clone(),
            });
        }
    }
    swaps
}
