//! Pairs of engines on one model and task, which compare only when they output about as many tokens.

use wattrace_schema::{FlagSet, Reason};

use super::ServingRun;
use super::eligible::{by_key, flags, hardware, model_values};
use crate::stats::median;

/// Largest |tokens_a − tokens_b| / max at which two engines compare.
pub const LARGEST_TOKEN_DIFFERENCE: f64 = 0.20;

/// One engine of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSide {
    /// Name of the serving engine.
    pub engine: String,
    /// Runs behind the values.
    pub n_runs: usize,
    /// Median output tokens of these runs, or of all runs that counted tokens where none has both
    /// values.
    pub output_tokens: Result<f64, Reason>,
    /// Median steady energy per token, J.
    pub steady_j_per_token: Result<f64, Reason>,
    /// Median lifecycle energy per token, J.
    pub lifecycle_j_per_token: Result<f64, Reason>,
}

/// Two engines on one model and task, in the order of their names.
#[derive(Debug, Clone, PartialEq)]
pub struct EnginePair {
    /// Name of the model.
    pub model: String,
    /// Task of the workload.
    pub task: String,
    /// The engine whose name comes first.
    pub a: EngineSide,
    /// The other engine.
    pub b: EngineSide,
    /// |tokens_a − tokens_b| / max, or why there is none.
    pub token_difference: Result<f64, Reason>,
    /// Whether the difference is small enough to compare.
    pub comparable: Result<bool, Reason>,
    /// Distinct hardware of the runs of both engines.
    pub hardware: Vec<String>,
    /// What a reader must know of the values.
    pub flags: FlagSet,
}

impl EnginePair {
    /// Steady energy per token of b over that of a, or why they do not compare.
    ///
    /// # Errors
    /// Why there is no ratio.
    pub fn steady_ratio(&self) -> Result<f64, Reason> {
        self.ratio(self.a.steady_j_per_token, self.b.steady_j_per_token)
    }

    /// Lifecycle energy per token of b over that of a, or why they do not compare.
    ///
    /// # Errors
    /// Why there is no ratio.
    pub fn lifecycle_ratio(&self) -> Result<f64, Reason> {
        self.ratio(self.a.lifecycle_j_per_token, self.b.lifecycle_j_per_token)
    }

    fn ratio(&self, a: Result<f64, Reason>, b: Result<f64, Reason>) -> Result<f64, Reason> {
        if !self.comparable? {
            return Err(Reason::TokensTooDifferent);
        }
        let ratio = b? / a?;
        if ratio.is_finite() { Ok(ratio) } else { Err(Reason::NoValues) }
    }
}

/// Every pair of engines that ran one model on one task.
pub(super) fn pairs(runs: &[&ServingRun]) -> Vec<EnginePair> {
    let mut pairs = Vec::new();
    let grouped =
        by_key(runs, |run| Some((run.identity.model.as_str(), run.identity.task.as_deref()?)));
    for ((model, task), runs) in grouped {
        let engines = by_key(&runs, |run| run.identity.engine.as_deref());
        let sides: Vec<(EngineSide, &Vec<&ServingRun>)> =
            engines.iter().map(|(engine, runs)| (side(engine, runs), runs)).collect();
        for (index, (a, a_runs)) in sides.iter().enumerate() {
            for (b, b_runs) in &sides[index + 1..] {
                let both: Vec<&ServingRun> = a_runs.iter().chain(*b_runs).copied().collect();
                pairs.push(pair(model, task, a, b, &both));
            }
        }
    }
    pairs
}

fn side(engine: &str, runs: &[&ServingRun]) -> EngineSide {
    let eligible: Vec<&ServingRun> =
        runs.iter().copied().filter(|run| run.both().is_some()).collect();
    let value = model_values(&eligible).into_iter().next().ok_or(Reason::NoEligibleRuns);
    let counted = if eligible.is_empty() { runs } else { &eligible };
    EngineSide {
        engine: engine.to_owned(),
        n_runs: eligible.len(),
        output_tokens: median_tokens(counted),
        steady_j_per_token: value.as_ref().map(|v| v.steady_j_per_token).map_err(|r| *r),
        lifecycle_j_per_token: value.map(|value| value.lifecycle_j_per_token),
    }
}

/// Median output tokens of the runs that counted them; without any, the first run's reason.
fn median_tokens(runs: &[&ServingRun]) -> Result<f64, Reason> {
    let mut tokens: Vec<f64> =
        runs.iter().filter_map(|run| run.values.output_tokens.ok()).collect();
    let first = runs.iter().find_map(|run| run.values.output_tokens.err());
    median(&mut tokens).ok_or(first.unwrap_or(Reason::NoRequests))
}

fn pair(
    model: &str,
    task: &str,
    a: &EngineSide,
    b: &EngineSide,
    runs: &[&ServingRun],
) -> EnginePair {
    let tokens = a.output_tokens.and_then(|a| Ok((a, b.output_tokens?)));
    let tokens = tokens
        .and_then(|(a, b)| if a.max(b) > 0.0 { Ok((a, b)) } else { Err(Reason::NoOutputTokens) });
    EnginePair {
        model: model.to_owned(),
        task: task.to_owned(),
        a: a.clone(),
        b: b.clone(),
        token_difference: tokens.map(|(a, b)| (a - b).abs() / a.max(b)),
        // A fifth, in whole numbers: a difference of exactly 0.20 compares whatever the rounding.
        comparable: tokens.map(|(a, b)| 5.0 * (a - b).abs() <= a.max(b)),
        hardware: hardware(runs),
        flags: flags(runs),
    }
}
