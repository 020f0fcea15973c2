//! inference-perf: `per_request_lifecycle_metrics.json`, a list of requests on a monotonic clock.
//!
//! Chunks that arrive in one read share almost one time, so gaps may be microseconds. The client counts
//! output tokens by tokenizing the text again; where the server sent its own count, that one is taken.

use std::cell::RefCell;

use serde::Deserialize;
use wattrace_schema::{ClockBase, RequestStatus};

use super::json::{self, Elements, Failure};
use super::placement::{Extent, Placement};
use super::request_row::{bare_request, status_of_error};
use super::token_count::{TokenCount, count};
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink, quantity};
use crate::{RequestRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "inference-perf",
    title: "inference-perf: per_request_lifecycle_metrics.json",
    recovers: "requests with times of tokens or chunks, failed ones too; on the calendar with an anchor",
    lacks: "model, power, engine, start-up and release; calendar time without an anchor",
    reader: Reader::Parts { detect, read },
};

fn detect(head: &Head) -> Option<String> {
    let keys = &["start_time", "end_time", "info", "error"];
    let tokens = ["info.input_tokens", "info.request_metrics"];
    let is_one = head.has_json_paths(keys) && tokens.iter().any(|key| head.has_json_paths(&[key]));
    is_one.then(|| {
        format!(
            "\"{}\" lists requests with start_time, end_time, info and error of inference-perf",
            head.path().display()
        )
    })
}

#[derive(Debug, Deserialize)]
struct Request {
    start_time: Option<f64>,
    end_time: Option<f64>,
    info: Option<Info>,
    error: Option<RequestError>,
}

#[derive(Debug, Default, Deserialize)]
struct Info {
    request_metrics: Option<RequestMetrics>,
    response_metrics: Option<ResponseMetrics>,
    // The layout before response_metrics.
    input_tokens: Option<TokenCount>,
    output_tokens: Option<TokenCount>,
    output_token_times: Option<Vec<f64>>,
}

#[derive(Debug, Deserialize)]
struct RequestMetrics {
    text: Option<TextMetrics>,
}

#[derive(Debug, Deserialize)]
struct TextMetrics {
    input_tokens: Option<TokenCount>,
}

#[derive(Debug, Default, Deserialize)]
struct ResponseMetrics {
    output_tokens: Option<TokenCount>,
    server_usage: Option<ServerUsage>,
    chunk_times: Option<Vec<f64>>,
    output_token_times: Option<Vec<f64>>,
}

#[derive(Debug, Deserialize)]
struct ServerUsage {
    completion_tokens: Option<TokenCount>,
}

#[derive(Debug, Deserialize)]
struct RequestError {
    error_type: Option<String>,
    error_msg: Option<String>,
}

impl RequestError {
    fn status(&self) -> RequestStatus {
        status_of_error(self.error_type.as_deref())
    }

    fn text(self) -> String {
        let parts = [self.error_type, self.error_msg].into_iter().flatten();
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { "unnamed error".to_owned() } else { parts.join(": ") }
    }
}

/// Seconds of the monotonic clock.
fn on_own_clock(seconds: f64) -> Result<i64, String> {
    quantity::nanos(seconds, "s")
}

/// A request on the input's own clock.
struct Parsed {
    row: RequestRow,
    recounted_differs: bool,
    from_chunks: bool,
}

impl Request {
    fn parse(self, index: usize) -> Result<Parsed, String> {
        let time = |key: &str, seconds: Option<f64>| {
            let parse =
                |seconds| on_own_clock(seconds).map_err(|problem| format!("{key}: {problem}"));
            seconds.map(parse).transpose()
        };
        let mut row = bare_request(format!("request-{index}"));
        row.t_send_ns = time("start_time", self.start_time)?;
        row.t_end_ns = time("end_time", self.end_time)?;
        let info = self.info.unwrap_or_default();
        let text = info.request_metrics.and_then(|metrics| metrics.text);
        row.input_tokens = count(text.and_then(|text| text.input_tokens).or(info.input_tokens));
        let response = info.response_metrics.unwrap_or_default();
        let served = count(response.server_usage.and_then(|usage| usage.completion_tokens));
        let recounted = count(response.output_tokens.or(info.output_tokens));
        row.output_tokens = served.or(recounted);
        let token_times = response.output_token_times.or(info.output_token_times);
        let token_times = token_times.filter(|times| !times.is_empty());
        let from_chunks = token_times.is_none();
        let times = token_times.or(response.chunk_times).unwrap_or_default();
        let times: Vec<i64> =
            times.iter().map(|time| on_own_clock(*time)).collect::<Result<_, _>>()?;
        row.t_first_token_ns = times.first().copied();
        if !times.is_empty() {
            row.itl_ns = Some(gaps(&times)?);
        }
        if let Some(error) = self.error {
            row.status = error.status();
            row.error = Some(error.text());
            // A failed request counts the tokens that came, which an absent response does not tell.
            row.output_tokens = row.output_tokens.filter(|tokens| *tokens > 0);
        }
        let recounted_differs = served.is_some() && recounted.is_some() && served != recounted;
        Ok(Parsed { row, recounted_differs, from_chunks: from_chunks && !times.is_empty() })
    }
}

fn gaps(times: &[i64]) -> Result<Vec<u64>, String> {
    let gap = |pair: &[i64]| pair[1].checked_sub(pair[0]).and_then(|gap| u64::try_from(gap).ok());
    let gaps: Option<Vec<u64>> = times.windows(2).map(gap).collect();
    gaps.ok_or_else(|| "times of tokens run backwards".into())
}

/// Reads every request of the list.
fn requests(
    input: &Input,
    each: &mut dyn FnMut(usize, Request) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let failure = Failure::default();
    let each = RefCell::new(each);
    json::documents(input, &failure, |_| {
        Elements::new(&failure, |index, request| (*each.borrow_mut())(index, request))
    })?;
    Ok(())
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let placement = Placement::of(options, input, || {
        let mut extent = Extent::default();
        requests(input, &mut |index, request| {
            if let Ok(parsed) = request.parse(index) {
                extent.add(&parsed.row);
            }
            Ok(())
        })?;
        Ok(extent)
    })?;
    sink.begin(&input.stem())?;
    let mut part = Part { clock: placement.clock(ClockBase::Monotonic, 1), ..Part::default() };
    let (mut rows, mut recounted, mut from_chunks) = (0_u64, 0_u64, 0_u64);
    requests(input, &mut |index, request| {
        let placed = request.parse(index).and_then(|parsed| {
            recounted += u64::from(parsed.recounted_differs);
            from_chunks += u64::from(parsed.from_chunks);
            placement.place(parsed.row)
        });
        match placed {
            Ok(row) => {
                rows += 1;
                sink.request(row)
            }
            Err(message) => part.skipped.add(
                options.strict,
                input.path(),
                index as u64 + 1,
                "requests, counted from 1,",
                message,
            ),
        }
    })?;
    if rows == 0 {
        return Err(input.error(None, "holds no request; expected a list of requests"));
    }
    part.notes.extend(placement.note());
    if recounted > 0 {
        part.notes.push(format!(
            "requests whose output tokens the client recounted otherwise than the server, whose count is \
             used: {recounted}"
        ));
    }
    if from_chunks > 0 {
        part.notes.push(format!(
            "requests whose gaps are between chunks, which need not be tokens: {from_chunks}"
        ));
    }
    sink.end(part)
}

#[cfg(test)]
pub(super) mod tests;
