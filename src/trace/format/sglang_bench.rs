//! Results of `sglang.bench_serving`: lines of JSON, one a run, appended to a file. `--output-details`
//! adds a list entry a request.
//!
//! There is no time on any clock, so requests keep durations, and windows of requests in the order of
//! their ends cannot be rebuilt.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess};
use wattrace_schema::{Claim, ClockBase, InputClock, RequestStage, RequestStatus, RunKind, Unit};

use super::client_statistics::{self, Claimed};
use super::json::{Elements, Failure, Fields, Object, documents};
use super::scalar::Scalar;
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink, quantity};
use crate::{RequestRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "sglang-bench",
    title: "sglang.bench_serving results: JSON lines, one a run (--output-details for requests)",
    recovers: "durations, gaps and tokens of requests (--output-details), claimed statistics, failed requests",
    lacks: "power; times of requests, so no window, no steady state and no energy a request; without --output-details claims only",
    reader: Reader::Parts { detect, read },
};

fn detect(head: &Head) -> Option<String> {
    let keys = ["backend", "dataset_name", "total_output_tokens_retokenized", "request_throughput"];
    head.has_json_paths(&keys).then(|| {
        format!("\"{}\" has the keys of a result of sglang.bench_serving", head.path().display())
    })
}

/// One result. Gaps are held, since a line of details holds one run's requests only.
#[derive(Default)]
struct BenchResult {
    scalars: BTreeMap<String, Scalar>,
    input_lens: Vec<Option<u32>>,
    output_lens: Vec<Option<u32>>,
    ttfts_s: Vec<Option<f64>>,
    gaps_ns: Vec<Vec<u64>>,
    errors: Vec<Option<String>>,
}

impl BenchResult {
    fn number(&self, key: &str) -> Option<f64> {
        self.scalars.get(key).and_then(Scalar::number)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.scalars.get(key).and_then(Scalar::text).filter(|text| !text.trim().is_empty())
    }
}

struct ReadResult<'f> {
    result: BenchResult,
    failure: &'f Failure,
    input: &'f Input,
}

impl Fields for ReadResult<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let result = &mut self.result;
        match key {
            "input_lens" => result.input_lens = map.next_value()?,
            "output_lens" => result.output_lens = map.next_value()?,
            "ttfts" => result.ttfts_s = map.next_value()?,
            "errors" => result.errors = map.next_value()?,
            "itls" => {
                let (gaps_ns, input) = (&mut result.gaps_ns, self.input);
                gaps_ns.clear();
                map.next_value_seed(Elements::new(self.failure, |index, gaps: Vec<f64>| {
                    let gaps: Result<Vec<u64>, String> =
                        gaps.iter().map(|gap_s| quantity::duration_ns(*gap_s, "s")).collect();
                    gaps_ns.push(gaps.map_err(|problem| {
                        input.error(None, format!("request {index}: itls has {problem}"))
                    })?);
                    Ok(())
                }))?;
            }
            "generated_texts" => _ = map.next_value::<IgnoredAny>()?,
            _ => _ = result.scalars.insert(key.to_owned(), map.next_value()?),
        }
        Ok(())
    }
}

struct Copy<'a, 's> {
    read: ReadResult<'a>,
    sink: &'a RefCell<&'s mut dyn Sink>,
    index: usize,
}

impl<'de> DeserializeSeed<'de> for Copy<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, json: D) -> Result<(), D::Error> {
        Object(&mut self.read).deserialize(json)?;
        let ReadResult { result, failure, input } = self.read;
        let mut sink = self.sink.borrow_mut();
        failure.keep(write(&result, self.index, input, &mut **sink))
    }
}

fn read(input: &Input, _: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let failure = Failure::default();
    let sink = RefCell::new(sink);
    let count = documents(input, &failure, |index| Copy {
        read: ReadResult { result: BenchResult::default(), failure: &failure, input },
        sink: &sink,
        index,
    })?;
    if count == 0 {
        return Err(input.error(None, "holds no JSON; expected a result of sglang.bench_serving"));
    }
    Ok(())
}

fn write(
    result: &BenchResult,
    index: usize,
    input: &Input,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    let error = |message: String| input.error(Some(index as u64 + 1), message);
    let rows = rows(result).map_err(error)?;
    let tag =
        result.text("tag").map_or_else(|| input.stem(), |tag| format!("{}_{tag}", input.stem()));
    let has_rows = !rows.is_empty();
    if !has_rows && claims(result).0.is_empty() {
        return Err(error(
            "has no key of a result of sglang.bench_serving; expected \"duration\", \"completed\" or \
             \"output_throughput\""
                .to_owned(),
        ));
    }
    sink.begin(&tag)?;
    for row in rows {
        sink.request(row)?;
    }
    sink.end(part(result, has_rows))
}

fn rows(result: &BenchResult) -> Result<Vec<RequestRow>, String> {
    let count = result.output_lens.len();
    for (name, length) in [
        ("input_lens", result.input_lens.len()),
        ("ttfts", result.ttfts_s.len()),
        ("itls", result.gaps_ns.len()),
        ("errors", result.errors.len()),
    ] {
        if length != count && length != 0 {
            return Err(format!(
                "{name} has {length} entries and output_lens {count}; expected one for each request"
            ));
        }
    }
    (0..count).map(|index| row(result, index)).collect()
}

fn row(result: &BenchResult, index: usize) -> Result<RequestRow, String> {
    let error = result.errors.get(index).cloned().flatten().filter(|text| !text.is_empty());
    let output_tokens = result.output_lens[index];
    let ttft_s = result.ttfts_s.get(index).copied().flatten();
    let empty = output_tokens.unwrap_or(0) == 0 && ttft_s.unwrap_or(0.0) == 0.0;
    let failed = error.is_some() || empty;
    // A failed request keeps its slot with zeros, which are no measurements.
    let ttft_ns = ttft_s
        .filter(|seconds| !failed || *seconds > 0.0)
        .map(|seconds| {
            quantity::duration_ns(seconds, "s").map_err(|_| {
                format!("request {index}: ttfts is {seconds}; expected a time in seconds")
            })
        })
        .transpose()?;
    let gaps_ns = result.gaps_ns.get(index).filter(|gaps| !gaps.is_empty());
    let whole = |ttft_ns: u64| {
        gaps_ns.map_or(Some(ttft_ns), |gaps| {
            gaps.iter().try_fold(ttft_ns, |sum, gap| sum.checked_add(*gap))
        })
    };
    let e2e_ns = ttft_ns.filter(|_| !result.gaps_ns.is_empty()).and_then(whole);
    Ok(RequestRow {
        request_id: index.to_string(),
        stage: RequestStage::Formal,
        t_send_ns: None,
        t_first_token_ns: None,
        t_end_ns: None,
        status: if failed { RequestStatus::Error } else { RequestStatus::Ok },
        error,
        input_tokens: result.input_lens.get(index).copied().flatten(),
        output_tokens: output_tokens.filter(|tokens| !failed || *tokens > 0),
        reasoning_tokens: None,
        itl_ns: gaps_ns.cloned(),
        itl_tokens: None,
        ttft_ns,
        e2e_ns,
    })
}

fn part(result: &BenchResult, has_rows: bool) -> Part {
    let (claims, refused) = claims(result);
    let mut part = Part {
        kind: (!has_rows).then_some(RunKind::Summary),
        configuration: result.text("tag").map(str::to_owned),
        claims,
        notes: refused,
        clock: InputClock { base: ClockBase::None, ..InputClock::default() },
        ..Part::default()
    };
    let backend = result.text("backend").unwrap_or_default();
    if backend.starts_with("sglang") || backend == "vllm" {
        part.engine.name = Some(backend.split('-').next().unwrap_or(backend).to_owned());
    }
    part.workload.dataset = result.text("dataset_name").map(str::to_owned);
    part.workload.request_rate =
        result.number("request_rate").filter(|rate| rate.is_finite() && *rate > 0.0);
    let settings: Vec<String> =
        ["backend", "max_concurrency", "random_input_len", "random_output_len"]
            .into_iter()
            .filter_map(|key| Some(format!("{key} {}", result.scalars.get(key)?.shown()?)))
            .collect();
    if !settings.is_empty() {
        part.notes.push(format!("the client's settings: {}", settings.join(", ")));
    }
    part.notes.push(if has_rows {
        "requests have no times, only durations: windows of requests in the order of their ends cannot be \
         rebuilt"
            .into()
    } else {
        "it was saved without --output-details: there are only claims".into()
    });
    part
}

/// Claims, and texts about values that are none.
fn claims(result: &BenchResult) -> (Vec<Claim>, Vec<String>) {
    client_statistics::claims(&result.scalars, metric)
}

/// The metric that a key claims, its unit, and whether it describes successful requests only.
fn metric(key: &str) -> Option<Claimed> {
    let named = |metric: &str, unit, of_successful| Some((metric.to_owned(), unit, of_successful));
    match key {
        "duration" => return named("duration_s", Unit::Second, false),
        "total_input_tokens" => return named("input_tokens", Unit::Token, false),
        "total_output_tokens" => return named("output_tokens", Unit::Token, false),
        "total_output_tokens_retokenized" => return named(key, Unit::Token, false),
        "request_throughput" => {
            return named("request_throughput_req_s", Unit::RequestPerSecond, true);
        }
        "output_throughput" => return named("output_throughput_tok_s", Unit::TokenPerSecond, true),
        "input_throughput" | "output_throughput_retokenized" | "total_throughput" => {
            return named(key, Unit::TokenPerSecond, true);
        }
        "accept_length" => return named(key, Unit::Token, true),
        "concurrency" => return named(key, Unit::Count, true),
        _ => {}
    }
    client_statistics::latency(key, "e2e_latency")
}

#[cfg(test)]
pub(super) mod tests;
