//! Published values beside the recomputed ones.

use wattrace_schema::{Claim, Flag, Reason};

use super::MetricRow;
use super::requests::OUTPUT_THROUGHPUT_TOK_S;

/// One claim of a run and what was recomputed for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimComparison {
    /// The claim as it came.
    pub claim: Claim,
    /// The recomputed value, or why there is none.
    pub recomputed: Result<f64, Reason>,
}

impl ClaimComparison {
    /// Recomputed minus claimed.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        self.recomputed.ok().map(|recomputed| recomputed - self.claim.value)
    }

    /// (recomputed − claimed) / claimed; `None` for a claim of zero.
    #[must_use]
    pub fn relative_difference(&self) -> Option<f64> {
        let relative = self.difference()? / self.claim.value;
        relative.is_finite().then_some(relative)
    }
}

pub(super) fn compare(claims: &[Claim], row: &MetricRow) -> Vec<ClaimComparison> {
    claims
        .iter()
        .map(|claim| ClaimComparison {
            claim: claim.clone(),
            recomputed: match row.get(&claim.metric) {
                None => Err(Reason::NotApplicable),
                // The value is the claim itself.
                Some(outcome) if outcome.flags.contains(Flag::Claimed) => Err(Reason::SummaryOnly),
                Some(outcome) => outcome.as_f64(),
            },
        })
        .collect()
}

/// The claimed rate of output tokens, tokens/s, if there is one.
pub(crate) fn claimed_token_rate(claims: &[Claim]) -> Option<f64> {
    claims
        .iter()
        .find(|claim| claim.metric == OUTPUT_THROUGHPUT_TOK_S.name && claim.value > 0.0)
        .map(|claim| claim.value)
}
