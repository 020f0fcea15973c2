//! `profile_export.jsonl`.

use serde::Deserialize;
use wattrace_schema::{RequestStage, RequestStatus};

use super::super::clock::epoch_clock;
use super::super::request_row::status_of_error;
use super::super::token_count::{TokenCount, count};
use super::super::{ImportOptions, Input, Part, Sink, json, quantity};
use crate::{RequestRow, TraceError};

/// What tells a line of this file.
pub(super) const KEYS: &[&str] =
    &["metadata.request_start_ns", "metadata.benchmark_phase", "metrics"];

#[derive(Debug, Deserialize)]
struct Record {
    metadata: Metadata,
    metrics: Option<Metrics>,
    error: Option<Failure>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    x_request_id: Option<String>,
    request_start_ns: Option<i64>,
    request_end_ns: Option<i64>,
    benchmark_phase: String,
    was_cancelled: Option<bool>,
    context_overflow_skip: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
struct Metrics {
    time_to_first_token: Option<Duration>,
    inter_chunk_latency: Option<Durations>,
    input_sequence_length: Option<Tokens>,
    output_sequence_length: Option<Tokens>,
    reasoning_token_count: Option<Tokens>,
    usage_completion_tokens: Option<Tokens>,
}

/// Units are read from the record: they have changed before.
#[derive(Debug, Deserialize)]
struct Duration {
    value: Option<f64>,
    unit: String,
}

#[derive(Debug, Deserialize)]
struct Durations {
    value: Option<Vec<f64>>,
    unit: String,
}

#[derive(Debug, Deserialize)]
struct Tokens {
    value: Option<TokenCount>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    code: Option<i64>,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

impl Failure {
    fn text(&self) -> String {
        let code = self.code.map(|code| code.to_string());
        let parts = [code, self.kind.clone(), self.message.clone()];
        let parts: Vec<String> =
            parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { "unnamed error".to_owned() } else { parts.join(" ") }
    }

    fn status(&self) -> RequestStatus {
        status_of_error(self.kind.as_deref())
    }
}

/// What the notes count.
#[derive(Debug, Default)]
struct Tally {
    rows: u64,
    usage_differs: u64,
    unnamed: u64,
}

pub(super) fn read(
    input: &Input,
    options: &ImportOptions,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    sink.begin(&input.stem())?;
    let mut part = Part { clock: epoch_clock(1), ..Part::default() };
    let mut tally = Tally::default();
    json::lines::<Record>(input, |line, record| {
        match record.and_then(|record| record.row(line, &mut tally)) {
            Ok(row) => sink.request(row),
            Err(message) => part.skipped.add(options.strict, input.path(), line, "lines", message),
        }
    })?;
    if tally.rows == 0 {
        let mut message = "holds no request of AIPerf".to_owned();
        for note in part.skipped.notes(input.path()) {
            message += &format!("; {note}");
        }
        return Err(input.error(None, message));
    }
    if tally.usage_differs > 0 {
        part.notes.push(format!(
            "requests whose usage_completion_tokens differ from output_sequence_length, which is used: {}",
            tally.usage_differs
        ));
    }
    if tally.unnamed > 0 {
        part.notes.push(format!(
            "requests without x_request_id, named after their line: {}",
            tally.unnamed
        ));
    }
    sink.end(part)
}

impl Record {
    fn row(self, line: u64, tally: &mut Tally) -> Result<RequestRow, String> {
        let Self { metadata, metrics, error } = self;
        let metrics = metrics.unwrap_or_default();
        let stage = match metadata.benchmark_phase.as_str() {
            "profiling" => RequestStage::Formal,
            "warmup" => RequestStage::Warmup,
            other => {
                return Err(format!(
                    "metadata.benchmark_phase is \"{}\"; expected \"profiling\" or \"warmup\"",
                    other.escape_debug()
                ));
            }
        };
        let start_ns = metadata
            .request_start_ns
            .ok_or("metadata.request_start_ns is null; expected nanoseconds since 1970")?;
        let (status, error) = metadata.outcome(error);
        let first_ns = metrics.first_token_ns(start_ns)?;
        let itl_ns = gaps(metrics.inter_chunk_latency)?;
        let output_tokens = tokens(metrics.output_sequence_length);
        let usage = tokens(metrics.usage_completion_tokens);
        tally.usage_differs +=
            u64::from(usage.is_some() && output_tokens.is_some() && usage != output_tokens);
        tally.rows += 1;
        let request_id = metadata.x_request_id.filter(|id| !id.is_empty()).unwrap_or_else(|| {
            tally.unnamed += 1;
            format!("line-{line}")
        });
        Ok(RequestRow {
            request_id,
            stage,
            t_send_ns: Some(start_ns),
            t_first_token_ns: first_ns,
            t_end_ns: metadata.request_end_ns,
            status,
            error,
            input_tokens: tokens(metrics.input_sequence_length),
            output_tokens,
            reasoning_tokens: tokens(metrics.reasoning_token_count),
            itl_ns,
            itl_tokens: None,
            ttft_ns: None,
            e2e_ns: None,
        })
    }
}

impl Metadata {
    fn outcome(&self, error: Option<Failure>) -> (RequestStatus, Option<String>) {
        let cancelled = self.was_cancelled == Some(true);
        match error {
            Some(error) if cancelled => (RequestStatus::Cancelled, Some(error.text())),
            Some(error) => (error.status(), Some(error.text())),
            None if cancelled => (RequestStatus::Cancelled, None),
            None if self.context_overflow_skip == Some(true) => {
                (RequestStatus::Error, Some("prompt longer than the context".into()))
            }
            None => (RequestStatus::Ok, None),
        }
    }
}

impl Metrics {
    fn first_token_ns(&self, start_ns: i64) -> Result<Option<i64>, String> {
        let Some(Duration { value: Some(value), unit }) = &self.time_to_first_token else {
            return Ok(None);
        };
        let ttft_ns = quantity::duration_ns(*value, unit)
            .map_err(|problem| format!("metrics.time_to_first_token: {problem}"))?;
        start_ns
            .checked_add_unsigned(ttft_ns)
            .map(Some)
            .ok_or_else(|| "metrics.time_to_first_token reaches beyond the year 2261".into())
    }
}

fn tokens(metric: Option<Tokens>) -> Option<u32> {
    count(metric.and_then(|metric| metric.value))
}

fn gaps(metric: Option<Durations>) -> Result<Option<Vec<u64>>, String> {
    let Some(Durations { value: Some(values), unit }) = metric else { return Ok(None) };
    let gaps: Result<Vec<u64>, String> =
        values.iter().map(|value| quantity::duration_ns(*value, &unit)).collect();
    gaps.map(Some).map_err(|problem| format!("metrics.inter_chunk_latency: {problem}"))
}
