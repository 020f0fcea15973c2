//! Statistics that the benchmark clients of vLLM and SGLang print beside their requests: their keys have the
//! same shape.

use std::collections::BTreeMap;

use wattrace_schema::{Claim, Unit};

use super::scalar::Scalar;

/// The metric that a key claims, its unit, and whether it describes successful requests only.
pub(super) type Claimed = (String, Unit, bool);

/// The tool's own statistics, under the names of ours where the definitions agree: `metric` says what a
/// key claims. Its standard deviations are of the population (numpy's default). The texts name values that
/// nothing can have.
pub(super) fn claims(
    scalars: &BTreeMap<String, Scalar>,
    metric: fn(&str) -> Option<Claimed>,
) -> (Vec<Claim>, Vec<String>) {
    let completed = scalars.get("completed").and_then(Scalar::number);
    let successful = completed.is_none_or(|completed| completed > 0.0);
    let (mut claims, mut refused) = (Vec::new(), Vec::new());
    for (key, value) in scalars {
        let Some(value) = value.number().filter(|value| value.is_finite()) else { continue };
        let Some((metric, unit, of_successful)) = metric(key) else { continue };
        // Statistics of no request are written as zeros.
        if of_successful && !successful {
            continue;
        }
        if value < 0.0 {
            refused.push(format!("{key} is {value}; expected 0 or more: not claimed"));
            continue;
        }
        claims.push(Claim { metric, value, unit: unit.symbol().into(), source: key.clone() });
    }
    (claims, refused)
}

/// What a key such as `median_ttft_ms` claims; `end_to_end` is the tool's word for a whole request.
pub(super) fn latency(key: &str, end_to_end: &str) -> Option<Claimed> {
    let (statistic, rest) = key.split_once('_')?;
    let latency = match rest.strip_suffix("_ms")? {
        latency @ ("ttft" | "tpot" | "itl") => latency,
        latency if latency == end_to_end => "e2e",
        _ => return None,
    };
    let suffix = match statistic {
        "mean" => "mean",
        // The median is also written as p50 where the caller asks for it.
        "median" => "p50",
        "std" => "std_population",
        "p90" | "p95" | "p99" => statistic,
        _ => return None,
    };
    Some((format!("{latency}_{suffix}_ms"), Unit::Millisecond, true))
}
