//! guidellm: `benchmarks.json` of schema version 2. Every benchmark is a part; times are seconds since
//! 1970.
//!
//! There are no gaps between tokens, only the first and the last. The file's own "inter-token latency" is
//! a mean per request, which is what others call time per output token; its "time per output token"
//! includes the first token and has no counterpart.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::Value;
use wattrace_schema::{Claim, RequestStage, RequestStatus, TimestampNs, Unit};

use super::clock::epoch_clock;
use super::json::{Elements, Failure, Fields, Object};
use super::json_objects::{Items, Objects, objects};
use super::request_row::bare_request;
use super::token_count::{TokenCount, count};
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink, quantity};
use crate::{RequestRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "guidellm",
    title: "guidellm: benchmarks.json (schema version 2)",
    recovers: "requests with first and last token, incomplete and errored ones too; the measured window; claimed latencies",
    lacks: "gaps between tokens, power, start-up and release",
    reader: Reader::Parts { detect, read },
};

/// A float of seconds since 1970 steps by this.
const RESOLUTION_NS: u64 = 238;

fn detect(head: &Head) -> Option<String> {
    let versioned = head.has_json_paths(&["metadata.guidellm_version"]);
    let old =
        head.has_json_paths(&["benchmarks.type_"]) && head.text().contains("generative_benchmark");
    (versioned || old).then(|| {
        let what = if versioned { "metadata.guidellm_version" } else { "generative benchmarks" };
        format!("\"{}\" has {what} of guidellm", head.path().display())
    })
}

#[derive(Debug, Deserialize)]
struct Metadata {
    version: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Scheduler {
    measure_start_time: Option<f64>,
    measure_end_time: Option<f64>,
    requests_made: Option<Made>,
}

#[derive(Debug, Default, Deserialize)]
struct Made {
    successful: Option<u64>,
    incomplete: Option<u64>,
    errored: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Request {
    request_id: Option<String>,
    info: Info,
    input_metrics: Option<Usage>,
    output_metrics: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Info {
    timings: Timings,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Timings {
    resolve_start: Option<f64>,
    request_start: Option<f64>,
    #[serde(alias = "first_iteration")]
    first_token_iteration: Option<f64>,
    request_end: Option<f64>,
    resolve_end: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
struct Usage {
    total_tokens: Option<TokenCount>,
    text_tokens: Option<TokenCount>,
}

impl Usage {
    fn tokens(usage: Option<Self>) -> Option<u32> {
        let usage = usage.unwrap_or_default();
        count(usage.total_tokens.or(usage.text_tokens))
    }
}

/// Which of the lists a request stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Successful,
    Incomplete,
    Errored,
}

impl Outcome {
    const ALL: [(&'static str, Self); 3] = [
        ("successful", Self::Successful),
        ("incomplete", Self::Incomplete),
        ("errored", Self::Errored),
    ];

    const fn status(self) -> RequestStatus {
        match self {
            Self::Successful => RequestStatus::Ok,
            Self::Incomplete => RequestStatus::Cancelled,
            Self::Errored => RequestStatus::Error,
        }
    }
}

impl Request {
    fn row(self, outcome: Outcome, index: usize) -> Result<RequestRow, String> {
        let timings = self.info.timings;
        let time = |key: &str, seconds: Option<f64>| {
            let place = |seconds| {
                quantity::epoch_seconds(seconds).map_err(|problem| format!("{key}: {problem}"))
            };
            seconds.map(place).transpose()
        };
        let id = self.request_id.filter(|id| !id.is_empty());
        let mut row =
            bare_request(id.unwrap_or_else(|| format!("{outcome:?}-{index}").to_lowercase()));
        row.status = outcome.status();
        row.t_send_ns = time("request_start", timings.request_start.or(timings.resolve_start))?;
        row.t_first_token_ns = time("first_token_iteration", timings.first_token_iteration)?;
        row.t_end_ns = time("request_end", timings.request_end.or(timings.resolve_end))?;
        row.error = self.info.error;
        if outcome == Outcome::Errored && row.error.is_none() {
            row.error = Some("unnamed error".into());
        }
        row.input_tokens = Usage::tokens(self.input_metrics);
        row.output_tokens = Usage::tokens(self.output_metrics);
        if outcome != Outcome::Successful {
            // Without usage a failed request counts nothing, which is not a count of zero.
            row.output_tokens = row.output_tokens.filter(|tokens| *tokens > 0);
        }
        Ok(row)
    }
}

/// Means and percentiles that the file states for successful requests, with our name and what one unit
/// of theirs is in ours.
const CLAIMS: &[(&str, &str, Unit, f64)] = &[
    ("request_latency", "e2e", Unit::Millisecond, 1e3),
    ("time_to_first_token_ms", "ttft", Unit::Millisecond, 1.0),
    ("inter_token_latency_ms", "tpot", Unit::Millisecond, 1.0),
];

fn claims(metrics: &Value, file: &str, benchmark: usize) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (key, metric, unit, scale) in CLAIMS {
        let stated = &metrics[*key]["successful"];
        let quantiles = [("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99")];
        let mut add = |path: String, name: &str, value: &Value| {
            let Some(value) = value.as_f64().filter(|value| value.is_finite()) else { return };
            claims.push(Claim {
                metric: format!("{metric}_{name}_ms"),
                value: value * scale,
                unit: unit.symbol().into(),
                source: format!("{file} benchmarks[{benchmark}].metrics.{key}.successful.{path}"),
            });
        };
        // Statistics over nothing are zeros, which claim nothing.
        if stated["count"].as_u64() == Some(0) {
            continue;
        }
        add("mean".into(), "mean", &stated["mean"]);
        for (theirs, ours) in quantiles {
            add(format!("percentiles.{theirs}"), ours, &stated["percentiles"][theirs]);
        }
    }
    claims
}

struct Document<'a> {
    input: &'a Input,
    options: &'a ImportOptions,
    sink: &'a mut dyn Sink,
    failure: Failure,
    is_version_2: bool,
    benchmarks: usize,
    open: Benchmark,
}

/// The benchmark that is being read.
#[derive(Default)]
struct Benchmark {
    part: Part,
    index: usize,
    scheduler: Scheduler,
    window: Option<(i64, i64)>,
    rows: [u64; 3],
    without_count: u64,
}

impl Document<'_> {
    fn check_version(&mut self, metadata: &Metadata) -> Result<(), TraceError> {
        let version = metadata.version.clone().unwrap_or_default();
        self.is_version_2 = version.as_f64() == Some(2.0) || version.as_str() == Some("2");
        if self.is_version_2 {
            return Ok(());
        }
        Err(self.input.error(
            None,
            format!(
                "is of guidellm's schema version {version}; expected version 2, which alone is read"
            ),
        ))
    }
}

impl Fields for Document<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let failure = self.failure.clone();
        match key {
            "metadata" => {
                let metadata: Metadata = map.next_value()?;
                failure.keep(self.check_version(&metadata))
            }
            "benchmarks" if !self.is_version_2 => failure.keep(Err(self.input.error(
                None,
                "has benchmarks without metadata.version before them; expected guidellm's schema version 2",
            ))),
            "benchmarks" => {
                map.next_value_seed(Objects { items: &mut Benchmarks(self), failure: &failure })
            }
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

/// The list of benchmarks.
struct Benchmarks<'d, 'a>(&'d mut Document<'a>);

impl Items for Benchmarks<'_, '_> {
    fn begin(&mut self, index: usize) -> Result<(), TraceError> {
        self.0.benchmarks += 1;
        self.0.open = Benchmark { index, ..Benchmark::default() };
        self.0.sink.begin(&self.0.input.stem())
    }

    fn end(&mut self) -> Result<(), TraceError> {
        let part = std::mem::take(&mut self.0.open).finish();
        self.0.sink.end(part)
    }
}

impl Fields for Benchmarks<'_, '_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let document = &mut *self.0;
        match key {
            "config" => {
                let config: Value = map.next_value()?;
                document.open.configure(&config);
            }
            "scheduler_metrics" => {
                document.open.scheduler = map.next_value()?;
                let window = document.open.scheduler.window();
                let window = window.map_err(|message| document.input.error(None, message));
                document.open.window = document.failure.clone().keep(window)?;
            }
            "metrics" => {
                let metrics: Value = map.next_value()?;
                let file = document.input.file_name();
                document.open.part.claims = claims(&metrics, &file, document.open.index);
            }
            "requests" => map.next_value_seed(Object(&mut Lists(document)))?,
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
        Ok(())
    }
}

/// The three lists of requests.
struct Lists<'d, 'a>(&'d mut Document<'a>);

impl Fields for Lists<'_, '_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let Some((_, outcome)) = Outcome::ALL.into_iter().find(|(name, _)| *name == key) else {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        };
        let failure = self.0.failure.clone();
        // A list may be null.
        map.next_value_seed(OptionalElements(Elements::new(&failure, |index, request: Request| {
            self.0.request(outcome, index, request)
        })))
    }
}

/// A list, or null for an empty one.
struct OptionalElements<S>(S);

impl<'de, S: serde::de::DeserializeSeed<'de, Value = ()>> serde::de::DeserializeSeed<'de>
    for OptionalElements<S>
{
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: serde::de::DeserializeSeed<'de, Value = ()>> serde::de::Visitor<'de>
    for OptionalElements<S>
{
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of requests, or null")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.deserialize(deserializer)
    }
}

impl Document<'_> {
    fn request(
        &mut self,
        outcome: Outcome,
        index: usize,
        request: Request,
    ) -> Result<(), TraceError> {
        let open = &mut self.open;
        match request.row(outcome, index) {
            Ok(mut row) => {
                if let (Some((start, _)), Some(sent)) = (open.window, row.t_send_ns)
                    && sent < start
                {
                    row.stage = RequestStage::Warmup;
                }
                open.rows[outcome as usize] += 1;
                let counted = row.output_tokens.is_some() || outcome != Outcome::Successful;
                open.without_count += u64::from(!counted);
                self.sink.request(row)
            }
            Err(message) => open.part.skipped.add(
                self.options.strict,
                self.input.path(),
                index as u64 + 1,
                "requests, counted from 1,",
                message,
            ),
        }
    }
}

impl Scheduler {
    fn window(&self) -> Result<Option<(i64, i64)>, String> {
        let (Some(start), Some(end)) = (self.measure_start_time, self.measure_end_time) else {
            return Ok(None);
        };
        // Zero and -1 stand for a time that was not taken.
        if start <= 0.0 || end <= start {
            return Ok(None);
        }
        let place = |key: &str, seconds| {
            quantity::epoch_seconds(seconds).map_err(|problem| format!("{key}: {problem}"))
        };
        Ok(Some((place("measure_start_time", start)?, place("measure_end_time", end)?)))
    }
}

impl Benchmark {
    fn configure(&mut self, config: &Value) {
        let text =
            |pointer: &str| config.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let model = ["/backend/model", "/backend/target_model", "/requests/model", "/model"];
        if let Some(model) = model.iter().find_map(|pointer| text(pointer)) {
            self.part.model.name = model;
        }
        let strategy = text("/strategy/type_");
        let rate = config.pointer("/strategy/rate").and_then(Value::as_f64);
        let streams = config.pointer("/strategy/streams").and_then(Value::as_u64);
        self.part.workload.request_rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0);
        self.part.configuration = strategy.map(|strategy| match (rate, streams) {
            (Some(rate), _) => format!("{strategy} {rate}"),
            (None, Some(streams)) => format!("{strategy} {streams}"),
            (None, None) => strategy,
        });
    }

    fn finish(mut self) -> Part {
        let part = &mut self.part;
        part.clock = epoch_clock(RESOLUTION_NS);
        if let Some((start, end)) = self.window {
            part.stages.formal_start = Some(TimestampNs::from_nanos(start));
            part.stages.formal_end = Some(TimestampNs::from_nanos(end));
            part.notes.push(
                "the formal window is the measured one (measure_start_time to measure_end_time); requests \
                 sent before it are warm-up"
                    .into(),
            );
        }
        let made = self.scheduler.requests_made.unwrap_or_default();
        let made = [made.successful, made.incomplete, made.errored];
        for (((name, _), made), held) in Outcome::ALL.iter().zip(made).zip(self.rows) {
            if let Some(made) = made.filter(|made| *made != held) {
                part.notes.push(format!(
                    "{made} requests were {name}, the file holds {held} of them (sample_size thins the \
                     lists), so percentiles here are of those only"
                ));
            }
        }
        if self.without_count > 0 {
            part.notes.push(format!(
                "successful requests without a count of output tokens: {}; iterations are not tokens, so \
                 it is null",
                self.without_count
            ));
        }
        self.part
    }
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let failure = Failure::default();
    let mut document = Document {
        input,
        options,
        sink,
        failure: failure.clone(),
        is_version_2: false,
        benchmarks: 0,
        open: Benchmark::default(),
    };
    objects(input, &failure, &mut document)?;
    if document.benchmarks == 0 {
        return Err(input.error(None, "holds no benchmark; expected a list \"benchmarks\""));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
