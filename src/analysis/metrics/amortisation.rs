//! How many requests it takes until starting and stopping a service no longer matters.

use wattrace_schema::{FlagSet, Reason};

use super::{BENCHMARK, MetricRow, PROJECT, declare, energy, requests as request_metrics, steady};
use crate::outcome::{Metric, Outcome, Value};

declare! {
    FIXED_ENERGY_J "fixed_energy_j" F64 Joule Accelerators BENCHMARK,
        "Start-up and release energy together: what a service costs however many requests it answers.";
    MEAN_REQUEST_OUTPUT_TOKENS "mean_request_output_tokens" F64 Token Client PROJECT,
        "Output tokens of successful formal requests divided by their number.";
    STEADY_J_PER_REQUEST "steady_j_per_request" F64 JoulePerRequest AcceleratorsAndClient BENCHMARK,
        "Steady energy per token times the mean output tokens of a successful formal request.";
    REQUESTS_TO_FIXED_SHARE_10_PERCENT "requests_to_fixed_share_10_percent" U64 Count AcceleratorsAndClient BENCHMARK,
        "Smallest number N of requests at which start-up and release are less than 10% of E(N) = start-up + release + N * steady energy per request.";
    REQUESTS_TO_FIXED_SHARE_5_PERCENT "requests_to_fixed_share_5_percent" U64 Count AcceleratorsAndClient BENCHMARK,
        "Smallest number N of requests at which start-up and release are less than 5% of E(N) = start-up + release + N * steady energy per request.";
    REQUESTS_TO_FIXED_SHARE_1_PERCENT "requests_to_fixed_share_1_percent" U64 Count AcceleratorsAndClient BENCHMARK,
        "Smallest number N of requests at which start-up and release are less than 1% of E(N) = start-up + release + N * steady energy per request.";
}

/// The shares that have a metric each, in percent.
const SHARES: [(&Metric, u32); 3] = [
    (&REQUESTS_TO_FIXED_SHARE_10_PERCENT, 10),
    (&REQUESTS_TO_FIXED_SHARE_5_PERCENT, 5),
    (&REQUESTS_TO_FIXED_SHARE_1_PERCENT, 1),
];

/// Energy of a service that answers N requests in steady state between one start and one release:
/// E(N) = fixed + N · e_ss (metrics definition, section 2).
///
/// ```
/// use wattrace_analysis::metrics::Amortisation;
///
/// let service =
///     Amortisation { fixed_j: 900.0, steady_j_per_request: 10.0, tokens_per_request: 20.0 };
/// // 900 J and 10 · 10 J.
/// assert_eq!(service.energy_j(10), 1000.0);
/// assert_eq!(service.j_per_token(10), 5.0);
/// assert_eq!(service.fixed_share(10), 0.9);
/// // At 810 requests the fixed part is exactly a tenth of 9000 J, and one more brings it below.
/// assert_eq!(service.requests_to_share_below(10), Some(811));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amortisation {
    /// Start-up and release energy, J.
    pub fixed_j: f64,
    /// Energy of one request in steady state, J.
    pub steady_j_per_request: f64,
    /// Mean output tokens of a request.
    pub tokens_per_request: f64,
}

impl Amortisation {
    /// Energy of `requests` requests with start and release, J.
    #[must_use]
    pub fn energy_j(&self, requests: u64) -> f64 {
        self.fixed_j + requests as f64 * self.steady_j_per_request
    }

    /// The same per request, J.
    #[must_use]
    pub fn j_per_request(&self, requests: u64) -> f64 {
        self.energy_j(requests) / requests as f64
    }

    /// The same per output token, J.
    #[must_use]
    pub fn j_per_token(&self, requests: u64) -> f64 {
        self.j_per_request(requests) / self.tokens_per_request
    }

    /// Share of start and release in the energy, 0 to 1.
    #[must_use]
    pub fn fixed_share(&self, requests: u64) -> f64 {
        self.fixed_j / self.energy_j(requests)
    }

    /// The smallest number of requests at which start and release are less than `percent` of the
    /// energy: the first N above fixed · (100 − percent) / (percent · e_ss). `None` if requests cost
    /// nothing, since the share then never falls.
    #[must_use]
    pub fn requests_to_share_below(&self, percent: u32) -> Option<u64> {
        let percent = f64::from(percent);
        let at_share = self.fixed_j * (100.0 - percent) / (percent * self.steady_j_per_request);
        // Beyond 2^53 a float no longer tells neighbouring counts apart.
        let countable = (0.0..=9.007_199_254_740_992e15).contains(&at_share);
        countable.then(|| at_share.floor() as u64 + 1)
    }
}

/// Fills the metrics from those of energy, requests and steady state, which are filled before.
pub(super) fn fill(row: &mut MetricRow) {
    let startup = row.outcome(&energy::STARTUP_ENERGY_J);
    let release = row.outcome(&energy::RELEASE_ENERGY_J);
    let fixed = startup.as_f64().and_then(|startup_j| Ok(startup_j + release.as_f64()?));
    let fixed_flags = startup.flags.union(release.flags);
    row.set(&FIXED_ENERGY_J, Outcome::number(fixed).with_flags(fixed_flags));

    let tokens = row.outcome(&request_metrics::OUTPUT_TOKENS);
    let mean_tokens = mean_tokens(row);
    row.set(&MEAN_REQUEST_OUTPUT_TOKENS, Outcome::number(mean_tokens).with_flags(tokens.flags));

    let per_token = row.outcome(&steady::STEADY_J_PER_TOKEN);
    let per_request = per_token.as_f64().and_then(|per_token| Ok(per_token * mean_tokens?));
    let request_flags = per_token.flags.union(tokens.flags);
    row.set(&STEADY_J_PER_REQUEST, Outcome::number(per_request).with_flags(request_flags));

    let service = || {
        Ok(Amortisation {
            fixed_j: fixed?,
            steady_j_per_request: per_request?,
            tokens_per_request: mean_tokens?,
        })
    };
    for (metric, percent) in SHARES {
        let requests = service().and_then(|service: Amortisation| {
            service.requests_to_share_below(percent).ok_or(Reason::NoValues)
        });
        let flags: FlagSet = fixed_flags.union(request_flags);
        row.set(metric, Outcome::from(requests.map(Value::U64)).with_flags(flags));
    }
}

fn mean_tokens(row: &MetricRow) -> Result<f64, Reason> {
    let tokens = row.outcome(&request_metrics::OUTPUT_TOKENS).as_f64()?;
    let total = row.outcome(&request_metrics::REQUESTS_TOTAL).as_f64()?;
    let successful = total - row.outcome(&request_metrics::REQUESTS_FAILED).as_f64()?;
    if successful == 0.0 { Err(Reason::NoSuccessfulRequests) } else { Ok(tokens / successful) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(startup_j: Result<f64, Reason>, steady: Result<f64, Reason>) -> MetricRow {
        let mut row = MetricRow::new();
        row.set(&energy::STARTUP_ENERGY_J, Outcome::number(startup_j));
        row.set(&energy::RELEASE_ENERGY_J, Outcome::number(Ok(50.0)));
        row.set(&request_metrics::OUTPUT_TOKENS, Outcome::of(Value::U64(1000)));
        row.set(&request_metrics::REQUESTS_TOTAL, Outcome::of(Value::U64(11)));
        row.set(&request_metrics::REQUESTS_FAILED, Outcome::of(Value::U64(1)));
        row.set(&steady::STEADY_J_PER_TOKEN, Outcome::number(steady));
        fill(&mut row);
        row
    }

    #[test]
    fn start_and_release_are_spread_over_requests() {
        // 150 J fixed; 1000 tokens of 10 requests at 0.5 J are 50 J a request.
        let row = row(Ok(100.0), Ok(0.5));
        let value = |name: &str| row.get(name).unwrap().as_f64();
        assert_eq!(value("fixed_energy_j"), Ok(150.0));
        assert_eq!(value("mean_request_output_tokens"), Ok(100.0));
        assert_eq!(value("steady_j_per_request"), Ok(50.0));
        // The share is exactly 10% at 150 · 90/(10 · 50) = 27 requests, 5% at 57, 1% at 297.
        assert_eq!(value("requests_to_fixed_share_10_percent"), Ok(28.0));
        assert_eq!(value("requests_to_fixed_share_5_percent"), Ok(58.0));
        assert_eq!(value("requests_to_fixed_share_1_percent"), Ok(298.0));
    }

    #[test]
    fn what_is_missing_stays_missing() {
        let unsteady = row(Ok(100.0), Err(Reason::SteadyNotReached));
        let reason = |row: &MetricRow, name: &str| row.get(name).unwrap().value.unwrap_err();
        assert_eq!(reason(&unsteady, "steady_j_per_request"), Reason::SteadyNotReached);
        assert_eq!(
            reason(&unsteady, "requests_to_fixed_share_1_percent"),
            Reason::SteadyNotReached
        );
        let unstamped = row(Err(Reason::NoStamp), Ok(0.5));
        assert_eq!(reason(&unstamped, "fixed_energy_j"), Reason::NoStamp);
        // Requests that cost nothing never outweigh the start.
        let free = row(Ok(100.0), Ok(0.0));
        assert_eq!(reason(&free, "requests_to_fixed_share_10_percent"), Reason::NoValues);
    }

    #[test]
    fn the_share_is_below_at_the_count_and_not_before() {
        for fixed_j in [0.1, 3.0, 77.7, 1e5] {
            for steady_j_per_request in [0.013, 1.0, 9.3] {
                let service =
                    Amortisation { fixed_j, steady_j_per_request, tokens_per_request: 10.0 };
                for percent in [1, 5, 10] {
                    let below = service.requests_to_share_below(percent).unwrap();
                    let share = f64::from(percent) / 100.0;
                    assert!(service.fixed_share(below) < share);
                    assert!(below == 1 || service.fixed_share(below - 1) >= share * (1.0 - 1e-12));
                }
            }
        }
    }
}
