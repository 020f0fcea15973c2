//! Latencies of successful formal requests.

use wattrace_schema::{FlagSet, Reason, Requests, Unit};

use super::requests::{e2e_ms, tpot_ms, ttft_ms};
use super::{BENCHMARK, Context, MetricRow};
use crate::outcome::{Boundary, Metric, Outcome, ValueKind};
use crate::stats::{Moments, percentiles};

const NANOS_PER_MILLISECOND: f64 = 1e6;
/// The percentiles of each latency, in the order of `statistics!`.
const PERCENTILES: [f64; 4] = [0.50, 0.90, 0.95, 0.99];

const fn latency(name: &'static str, definition: &'static str) -> Metric {
    Metric {
        name,
        unit: Unit::Millisecond,
        kind: ValueKind::F64,
        boundary: Boundary::Client,
        definition,
        source: BENCHMARK,
    }
}

/// The seven statistics of one latency: four percentiles, the mean and both standard deviations.
macro_rules! statistics {
    ($prefix:literal, $meaning:literal) => {
        [
            latency(
                concat!($prefix, "_p50_ms"),
                concat!($meaning, ": 50th percentile, linear between order statistics."),
            ),
            latency(
                concat!($prefix, "_p90_ms"),
                concat!($meaning, ": 90th percentile, linear between order statistics."),
            ),
            latency(
                concat!($prefix, "_p95_ms"),
                concat!($meaning, ": 95th percentile, linear between order statistics."),
            ),
            latency(
                concat!($prefix, "_p99_ms"),
                concat!($meaning, ": 99th percentile, linear between order statistics."),
            ),
            latency(concat!($prefix, "_mean_ms"), concat!($meaning, ": mean.")),
            latency(
                concat!($prefix, "_std_ms"),
                concat!($meaning, ": sample standard deviation (n - 1)."),
            ),
            latency(
                concat!($prefix, "_std_population_ms"),
                concat!($meaning, ": population standard deviation (n)."),
            ),
        ]
    };
}

/// Time to first token.
pub(super) const TTFT: [Metric; 7] = statistics!(
    "ttft",
    "Time from sending a request to its first output token, successful formal requests"
);
/// Time per output token after the first.
pub(super) const TPOT: [Metric; 7] = statistics!(
    "tpot",
    "(t_end - t_first_token) / (output_tokens - 1), successful formal requests with two output tokens or more"
);
/// Inter-token latency.
pub(super) const ITL: [Metric; 7] = statistics!(
    "itl",
    "Gaps between successive output tokens, successful formal requests; a gap before a chunk of k tokens counts as k gaps of a k-th each"
);
/// End-to-end latency.
pub(super) const E2E: [Metric; 7] = statistics!(
    "e2e",
    "Time from sending a request to its last output token, successful formal requests"
);

pub(super) fn fill(context: &Context<'_>, row: &mut MetricRow) {
    let each = |value_ms: fn(&Requests, usize) -> Option<f64>| {
        let (requests, successful) = successful(context)?;
        Ok(successful.iter().filter_map(|index| value_ms(requests, *index)).collect())
    };
    let flags = context.log.flags;
    fill_statistics(row, &TTFT, each(ttft_ms), flags);
    fill_statistics(row, &TPOT, each(tpot_ms), flags);
    fill_statistics(row, &ITL, gaps_ms(context), flags);
    fill_statistics(row, &E2E, each(e2e_ms), flags);
}

fn successful<'a>(context: &'a Context<'_>) -> Result<(&'a Requests, &'a [usize]), Reason> {
    let successful = context.log.successful.as_ref().map_err(|reason| *reason)?;
    if successful.is_empty() {
        return Err(Reason::NoSuccessfulRequests);
    }
    let requests = context.run.requests.as_ref().ok_or(Reason::NoRequests)?;
    Ok((requests, successful))
}

/// Every gap between output tokens, ms.
fn gaps_ms(context: &Context<'_>) -> Result<Vec<f64>, Reason> {
    let (requests, successful) = successful(context)?;
    let mut gaps_ms = Vec::with_capacity(requests.gaps.gap_ns.len());
    for index in successful {
        let (gap_ns, tokens) = requests.gaps.of(*index);
        if tokens.is_empty() {
            gaps_ms.extend(gap_ns.iter().map(|gap| *gap as f64 / NANOS_PER_MILLISECOND));
        } else {
            for (gap, tokens) in gap_ns.iter().zip(tokens).filter(|(_, tokens)| **tokens > 0) {
                let each_ms = *gap as f64 / NANOS_PER_MILLISECOND / f64::from(*tokens);
                gaps_ms.extend(std::iter::repeat_n(each_ms, *tokens as usize));
            }
        }
    }
    Ok(gaps_ms)
}

fn fill_statistics(
    row: &mut MetricRow,
    metrics: &[Metric; 7],
    values: Result<Vec<f64>, Reason>,
    flags: FlagSet,
) {
    let mut values = match values {
        Ok(values) if values.is_empty() => return missing(row, metrics, Reason::NoValues),
        Ok(values) => values,
        Err(reason) => return missing(row, metrics, reason),
    };
    let count = values.len();
    let mut set = |metric: &Metric, value: Result<f64, Reason>| {
        row.set(metric, Outcome::number(value).from_rows(count).with_flags(flags));
    };
    // The moments come first, since selecting percentiles reorders the values.
    let moments = Moments::of(&values).ok_or(Reason::NoValues);
    set(&metrics[4], moments.map(|moments| moments.mean));
    set(&metrics[5], moments.and_then(|moments| moments.sample_std().ok_or(Reason::SingleValue)));
    set(&metrics[6], moments.map(|moments| moments.population_std()));
    let percentiles = percentiles(&mut values, &PERCENTILES);
    for (place, metric) in metrics[..PERCENTILES.len()].iter().enumerate() {
        set(metric, percentiles.as_ref().map(|values| values[place]).ok_or(Reason::NoValues));
    }
}

fn missing(row: &mut MetricRow, metrics: &[Metric; 7], reason: Reason) {
    for metric in metrics {
        row.set(metric, Outcome::missing(reason));
    }
}
