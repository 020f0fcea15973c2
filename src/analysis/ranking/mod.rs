//! Whether steady-state and lifecycle energy order models alike, and when two engines compare
//! (metrics definition, section 2: comparability, amortisation, rank agreement).
//!
//! A model's value is the median over its eligible runs: those that have both a steady and a lifecycle
//! value. Every other serving run is named in [`Ranking::excluded`], with what it lacks and why.

mod amortisation;
mod eligible;
mod groups;
mod pairs;
mod run;
mod scenarios;
#[cfg(test)]
mod tests;

use serde::Serialize;
use wattrace_schema::Reason;

pub use amortisation::{AMORTISED_REQUESTS, AmortisationRow};
pub use groups::{RankGroup, RankedModel, Swap};
pub use pairs::{EnginePair, EngineSide, LARGEST_TOKEN_DIFFERENCE};
pub use run::{RunIdentity, ServingRun, ServingValues};
pub use scenarios::{Scenario, ScenarioMedians};

/// How bootstrap intervals are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RankOptions {
    /// Resamples of models; 0 for no interval.
    pub resamples: usize,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Default for RankOptions {
    fn default() -> Self {
        Self { resamples: 10_000, seed: 1 }
    }
}

/// What a serving run lacks to take part in a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct ExcludedRun {
    /// The run.
    pub run: RunIdentity,
    /// Column of `runs` that is missing.
    pub missing: &'static str,
    /// Why it is missing.
    pub reason: Reason,
}

/// Everything that the serving runs of an archive say together. Rows are sorted by their keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// Agreement of the two orders, one row a task, size group and engine.
    pub groups: Vec<RankGroup>,
    /// The models of every group with their values and ranks.
    pub models: Vec<RankedModel>,
    /// Medians over models, one row a task and engine.
    pub scenarios: Vec<Scenario>,
    /// Engines beside each other, one row a model, task and pair of engines.
    pub pairs: Vec<EnginePair>,
    /// Runs that take no part, one row a value that a run lacks.
    pub excluded: Vec<ExcludedRun>,
    /// Energy of so many requests, one row a run and number.
    pub amortisation: Vec<AmortisationRow>,
}

/// Ranks the models of every group, sets engines beside each other, and spreads start and release over
/// requests. The order of `runs` does not matter, except that of two runs with one id only the first
/// counts.
#[must_use]
pub fn rank(runs: &[ServingRun], options: &RankOptions) -> Ranking {
    let (unique, mut excluded) = eligible::unique(runs);
    excluded.extend(unique.iter().flat_map(|run| eligible::missing(run)));
    excluded.sort_by(|a, b| a.run.run_id.cmp(&b.run.run_id));
    let (groups, models) = groups::groups(&unique, options);
    Ranking {
        groups,
        models,
        scenarios: scenarios::scenarios(&unique),
        pairs: pairs::pairs(&unique),
        excluded,
        amortisation: amortisation::amortisation(&unique),
    }
}
