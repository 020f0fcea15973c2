//! Published values beside the recomputed ones.

use wattrace_schema::{Claim, Flag, Reason, Unit};

use super::MetricRow;
use super::requests::OUTPUT_THROUGHPUT_TOK_S;

/// One claim of a run and what was recomputed for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimComparison {
    /// The claim as it came.
    pub claim: Claim,
    /// The recomputed value in the claim's unit, or why there is none.
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
            recomputed: match row.find(&claim.metric) {
                None => Err(Reason::NotApplicable),
                // The value is the claim itself.
                Some((_, outcome)) if outcome.flags.contains(Flag::Claimed) => {
                    Err(Reason::SummaryOnly)
                }
                Some((metric, outcome)) => outcome.as_f64().and_then(|value| {
                    Ok(value * factor(metric.unit, &claim.unit).ok_or(Reason::UnitMismatch)?)
                }),
            },
        })
        .collect()
}

/// The claimed rate of output tokens, tokens/s, if there is one.
pub(crate) fn claimed_token_rate(claims: &[Claim]) -> Option<f64> {
    claims
        .iter()
        .find(|claim| claim.metric == OUTPUT_THROUGHPUT_TOK_S.name && claim.value > 0.0)
        .filter(|claim| factor(Unit::TokenPerSecond, &claim.unit) == Some(1.0))
        .map(|claim| claim.value)
}

/// How many of the unit written as `to` one `from` is; `None` for a unit of another kind.
fn factor(from: Unit, to: &str) -> Option<f64> {
    let to = to.trim();
    if to == from.symbol() || to == from.ucum() {
        return Some(1.0);
    }
    let factor = match (from, to) {
        (Unit::None | Unit::Count | Unit::Ratio, "" | "1") => 1.0,
        (Unit::Token, "token" | "tok" | "1") => 1.0,
        (Unit::TokenPerSecond, "tokens/s" | "token/s" | "tok/sec") => 1.0,
        (Unit::RequestPerSecond, "requests/s" | "request/s") => 1.0,
        (Unit::JoulePerToken, "J/tok") => 1.0,
        (Unit::JoulePerToken, "mJ/token" | "mJ/tok") => 1e3,
        (Unit::JoulePerToken, "Wh/token") => 1.0 / 3600.0,
        (Unit::Watt, "mW") => 1e3,
        (Unit::Watt, "kW") => 1e-3,
        (Unit::Joule, "mJ") => 1e3,
        (Unit::Joule, "kJ") => 1e-3,
        (Unit::Joule, "MJ") => 1e-6,
        (Unit::Joule, "Wh") => 1.0 / 3600.0,
        (Unit::Joule, "kWh") => 1.0 / 3.6e6,
        (Unit::Second, "ms") | (Unit::Millisecond, "us" | "µs") => 1e3,
        (Unit::Millisecond, "s") => 1e-3,
        (Unit::Millisecond, "ns") => 1e6,
        _ => return None,
    };
    Some(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_put_into_the_claims_unit() {
        assert_eq!(factor(Unit::Watt, "W"), Some(1.0));
        assert_eq!(factor(Unit::Watt, "kW"), Some(1e-3));
        // 3.6 MJ are a kilowatt hour.
        assert!((3.6e6 * factor(Unit::Joule, "kWh").unwrap() - 1.0).abs() < 1e-15);
        assert_eq!(factor(Unit::Millisecond, "s"), Some(1e-3));
        assert_eq!(factor(Unit::Watt, "J"), None);
    }
}
