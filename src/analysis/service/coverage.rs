//! What a spec names and nobody measured.

use std::collections::BTreeSet;

use wattrace_schema::spec::{Positive, Spec};
use wattrace_schema::{Interval, Requests, Run};

use super::rules::WindowRule;
use crate::series;
use crate::stats::median;

/// Relative distance within which a length or concurrency counts as the one that the spec names:
/// tokenisers add a few tokens to a synthetic prompt, and arrivals scatter.
const NEAR: f64 = 0.05;

/// One dimension of a spec: what was tried, and what was named but not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageRow {
    /// Hash of the spec.
    pub spec_hash: Option<String>,
    /// The dimension.
    pub dimension: &'static str,
    /// Values that runs measured, whether the spec names them or not.
    pub measured: Vec<String>,
    /// Values that the spec names and no run measured.
    pub not_measured: Vec<String>,
}

/// The conditions under which one run measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunConditions {
    /// What is compared.
    pub configuration: Option<String>,
    /// Median prompt length of the formal requests, tokens.
    pub input_tokens: Option<f64>,
    /// Median output length of the successful formal requests, tokens.
    pub output_tokens: Option<f64>,
    /// Most formal requests in flight at one time inside the window.
    pub concurrency: Option<f64>,
    /// Type of the weights.
    pub quantisation: Option<String>,
    /// Requests per second; `None`: as fast as the service takes them.
    pub request_rate: Option<f64>,
    /// Whether the node's power was measured.
    pub node_power: bool,
    /// Whether the boards' power was measured.
    pub board_power: bool,
}

impl RunConditions {
    /// The conditions of a run.
    #[must_use]
    pub fn of(run: &Run, rule: WindowRule) -> Self {
        let requests = run.requests.as_ref();
        let median_of = |tokens: fn(&Requests, usize) -> Option<u32>| {
            let requests = requests?;
            let formal = (0..requests.len()).filter(|index| requests.is_formal(*index));
            median(
                &mut formal
                    .filter_map(|index| tokens(requests, index))
                    .map(f64::from)
                    .collect::<Vec<_>>(),
            )
        };
        let window = rule.window(&run.manifest.stages).ok();
        Self {
            configuration: run.manifest.configuration.clone(),
            input_tokens: median_of(|requests, index| requests.input_tokens[index]),
            output_tokens: median_of(Requests::successful_tokens),
            concurrency: requests.zip(window).and_then(|(requests, window)| peak(requests, window)),
            quantisation: run.manifest.model.dtype.clone(),
            request_rate: run.manifest.workload.request_rate,
            node_power: series::node(run).is_ok(),
            board_power: series::accelerators(run).is_ok(),
        }
    }
}

/// Most requests in flight at one time; `None` when no request has both times.
fn peak(requests: &Requests, window: Interval) -> Option<f64> {
    let mut changes: Vec<(i64, i64)> = Vec::new();
    for index in (0..requests.len()).filter(|index| requests.is_formal(*index)) {
        let (Some(sent), Some(ended)) = (requests.t_send_ns[index], requests.t_end_ns[index])
        else {
            continue;
        };
        if ended > window.start_ns && sent < window.end_ns && ended > sent {
            changes.push((sent.max(window.start_ns), 1));
            changes.push((ended, -1));
        }
    }
    // At one instant the ends come first: a closed loop sends when a request ends.
    changes.sort_unstable();
    let in_flight = changes.iter().scan(0, |count, (_, change)| {
        *count += change;
        Some(*count)
    });
    in_flight.max().map(|most| most as f64)
}

/// One row a dimension: configuration, context length, output length, quantisation, concurrency, request rate and
/// power source.
#[must_use]
pub fn coverage(spec_hash: Option<&str>, spec: &Spec, runs: &[RunConditions]) -> Vec<CoverageRow> {
    let workload = &spec.workload;
    let counts = |named: &Option<Vec<std::num::NonZeroU32>>| {
        named.iter().flatten().map(|count| f64::from(count.get())).collect::<Vec<_>>()
    };
    let tried = |value: fn(&RunConditions) -> Option<f64>| {
        runs.iter().filter_map(value).collect::<Vec<_>>()
    };
    let numbers = |dimension, named, value| {
        let (measured, not_measured) = match_numbers(named, &tried(value));
        CoverageRow { spec_hash: spec_hash.map(str::to_owned), dimension, measured, not_measured }
    };
    let texts = |dimension, named: BTreeSet<String>, tried: BTreeSet<String>| CoverageRow {
        spec_hash: spec_hash.map(str::to_owned),
        dimension,
        not_measured: named.difference(&tried).cloned().collect(),
        measured: tried.into_iter().collect(),
    };
    let names = |runs: &[RunConditions]| {
        runs.iter().filter_map(|run| run.configuration.clone()).collect::<BTreeSet<_>>()
    };
    let named_configurations =
        spec.runs.configurations.iter().flat_map(|named| named.keys().cloned()).collect();
    vec![
        texts("configuration", named_configurations, names(runs)),
        numbers("context_length", counts(&workload.input_tokens), |run| run.input_tokens),
        numbers("output_length", counts(&workload.output_tokens), |run| run.output_tokens),
        texts("quantisation", named_quantisations(spec), tried_quantisations(runs)),
        numbers("concurrency", counts(&workload.concurrency), |run| run.concurrency),
        rates(spec_hash, &workload.request_rates, runs),
        texts("power_source", named_sources(spec), tried_sources(runs)),
    ]
}

/// Numbers tried, a named one standing for all that are near it, and those named that are near none.
fn match_numbers(mut named: Vec<f64>, tried: &[f64]) -> (Vec<String>, Vec<String>) {
    named.sort_by(f64::total_cmp);
    let near = |a: f64, b: f64| (a - b).abs() <= NEAR * b;
    let mut measured: Vec<f64> = tried
        .iter()
        .map(|value| named.iter().copied().find(|name| near(*value, *name)).unwrap_or(*value))
        .collect();
    measured.sort_by(f64::total_cmp);
    measured.dedup();
    named.retain(|name| !measured.contains(name));
    let text = |values: &[f64]| values.iter().map(f64::to_string).collect();
    (text(&measured), text(&named))
}

/// Request rates are asked for, not observed, so only the same rate counts.
fn rates(
    spec_hash: Option<&str>,
    named: &[Option<Positive>],
    runs: &[RunConditions],
) -> CoverageRow {
    let mut named: Vec<_> = named.iter().map(|rate| rate.map(Positive::get)).collect();
    let mut measured: Vec<_> = runs.iter().map(|run| run.request_rate).collect();
    for rates in [&mut named, &mut measured] {
        rates.sort_by(|a, b| super::sweep::by_rate(*a, *b));
        rates.dedup();
    }
    named.retain(|rate| !measured.contains(rate));
    let text = |rates: &[Option<f64>]| {
        rates
            .iter()
            .map(|rate| rate.map_or_else(|| "unlimited".to_owned(), |r| r.to_string()))
            .collect()
    };
    CoverageRow {
        spec_hash: spec_hash.map(str::to_owned),
        dimension: "request_rate",
        measured: text(&measured),
        not_measured: text(&named),
    }
}

/// One spelling for one type: `bfloat16` is `bf16`, `float16` and `half` are `fp16`.
fn one_spelling(dtype: &str) -> String {
    let dtype = dtype.to_ascii_lowercase().replace("bfloat", "bf").replace("float", "fp");
    if dtype == "half" { "fp16".to_owned() } else { dtype }
}

fn named_quantisations(spec: &Spec) -> BTreeSet<String> {
    let published = std::slice::from_ref(&spec.model.dtype);
    let named = spec.model.quantisations.as_deref().unwrap_or(published);
    named.iter().map(|dtype| one_spelling(dtype)).collect()
}

fn tried_quantisations(runs: &[RunConditions]) -> BTreeSet<String> {
    runs.iter().filter_map(|run| run.quantisation.as_deref()).map(one_spelling).collect()
}

fn named_sources(spec: &Spec) -> BTreeSet<String> {
    let power = spec.power.as_ref();
    let node = power.and_then(|power| power.node_source.as_ref()).map(|_| "node".to_owned());
    let board = power.and_then(|power| power.board_source.as_ref()).map(|_| "board".to_owned());
    node.into_iter().chain(board).collect()
}

fn tried_sources(runs: &[RunConditions]) -> BTreeSet<String> {
    let node = runs.iter().any(|run| run.node_power).then(|| "node".to_owned());
    let board = runs.iter().any(|run| run.board_power).then(|| "board".to_owned());
    node.into_iter().chain(board).collect()
}
