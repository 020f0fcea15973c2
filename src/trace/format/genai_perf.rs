//! genai-perf and perf_analyzer: `profile_export.json`, the requests of one or more experiments with the
//! arrival of every response.
//!
//! All times are nanoseconds, on most builds since 1970, on some of a monotonic clock; their magnitude
//! tells. Token counts are not stored; a last chunk with `usage` gives them where the endpoint sends one,
//! else only chunks are known, which are not tokens.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::Value;
use wattrace_schema::{ClockBase, RequestStatus};

use super::json::{Elements, Failure, Fields};
use super::json_objects::{Items, Objects, objects};
use super::placement::{Extent, Placement};
use super::request_row::bare_request;
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink};
use crate::{RequestRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "genai-perf",
    title: "genai-perf and perf_analyzer: profile_export.json",
    recovers: "requests with times of chunks; token counts where the last chunk has them",
    lacks: "token counts otherwise, failed requests, power, engine, start-up and release",
    reader: Reader::Parts { detect, read },
};

fn detect(head: &Head) -> Option<String> {
    let keys = &["experiments", "experiments.requests.response_timestamps"];
    head.has_json_paths(keys).then(|| {
        format!(
            "\"{}\" has experiments whose requests have response_timestamps",
            head.path().display()
        )
    })
}

#[derive(Debug, Deserialize)]
struct Request {
    timestamp: i64,
    #[serde(default)]
    response_timestamps: Vec<i64>,
    #[serde(default)]
    response_outputs: Vec<Output>,
}

#[derive(Debug, Deserialize)]
struct Output {
    response: Option<String>,
}

/// What a response holds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Response {
    /// Something was generated, as far as one can tell.
    is_output: bool,
    model: Option<String>,
    input_tokens: Option<u32>,
    output_tokens: Option<u32>,
}

impl Response {
    /// Reads the text of a response, which may hold several server-sent events. Text that is not
    /// understood counts as output.
    fn parse(text: &str) -> Self {
        let mut response = Self::default();
        let events = text.lines().map(|line| line.trim()).filter(|line| !line.is_empty());
        for event in events {
            let event = event.strip_prefix("data:").unwrap_or(event).trim();
            if event == "[DONE]" {
                continue;
            }
            let Ok(value) = serde_json::from_str::<Value>(event) else {
                response.is_output = true;
                continue;
            };
            let is_empty = value["choices"].as_array().is_some_and(Vec::is_empty);
            response.is_output |= !is_empty;
            let tokens = |key: &str| {
                value["usage"][key].as_u64().and_then(|tokens| u32::try_from(tokens).ok())
            };
            response.input_tokens = response.input_tokens.or(tokens("prompt_tokens"));
            response.output_tokens = response.output_tokens.or(tokens("completion_tokens"));
            if response.model.is_none() {
                response.model = value["model"].as_str().map(str::to_owned);
            }
        }
        response
    }
}

/// Times before this are of no calendar: 2001-09-09 in nanoseconds.
const FIRST_EPOCH_NS: i64 = 1_000_000_000_000_000_000;

impl Request {
    fn is_epoch(&self) -> bool {
        self.timestamp >= FIRST_EPOCH_NS
    }

    /// The request on the input's own clock, and the name of the model.
    fn row(self, index: usize) -> Result<(RequestRow, Option<String>), String> {
        let Self { timestamp, response_timestamps: mut times, response_outputs: outputs } = self;
        let mut row =
            RequestRow { t_send_ns: Some(timestamp), ..bare_request(format!("request-{index}")) };
        let mut model = None;
        // Behind the last output stand at most a chunk with the counts and an end mark.
        let mut tail = outputs.iter().rev().map(|output| output.response.as_deref());
        let mut checks = if outputs.len() == times.len() { 3 } else { 0 };
        while let (Some(Some(text)), 1..) = (tail.next(), checks) {
            checks -= 1;
            let response = Response::parse(text);
            row.input_tokens = row.input_tokens.or(response.input_tokens);
            row.output_tokens = row.output_tokens.or(response.output_tokens);
            model = model.or(response.model);
            if response.is_output {
                break;
            }
            times.pop();
        }
        let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else {
            row.status = RequestStatus::Error;
            row.error = Some("no response".into());
            return Ok((row, model));
        };
        row.t_first_token_ns = Some(first);
        row.t_end_ns = Some(last);
        let gaps = times.windows(2).map(|pair| {
            pair[1].checked_sub(pair[0]).and_then(|gap| u64::try_from(gap).ok()).ok_or_else(|| {
                format!("response_timestamps run back from {} to {}", pair[0], pair[1])
            })
        });
        row.itl_ns = Some(gaps.collect::<Result<_, _>>()?);
        Ok((row, model))
    }
}

/// What stands in the file, in order.
enum Event {
    Begin,
    Request(usize, Request),
    /// The experiment is over; what was asked of the server, if that is told.
    End(Option<Load>),
}

#[derive(Debug, Deserialize)]
struct Load {
    mode: Option<String>,
    value: Option<f64>,
}

/// Reads the input as events.
fn events(
    input: &Input,
    each: &mut dyn FnMut(Event) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let failure = Failure::default();
    let mut document = Document { failure: failure.clone(), each, load: None };
    objects(input, &failure, &mut document)?;
    Ok(())
}

struct Document<'a> {
    failure: Failure,
    each: &'a mut dyn FnMut(Event) -> Result<(), TraceError>,
    load: Option<Load>,
}

impl Fields for Document<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key != "experiments" {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        }
        let failure = self.failure.clone();
        map.next_value_seed(Objects { items: &mut Experiments(self), failure: &failure })
    }
}

/// The list of experiments.
struct Experiments<'d, 'a>(&'d mut Document<'a>);

impl Fields for Experiments<'_, '_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "experiment" => self.0.load = map.next_value()?,
            "requests" => {
                let failure = self.0.failure.clone();
                let each = &mut *self.0.each;
                map.next_value_seed(Elements::new(&failure, |index, request| {
                    each(Event::Request(index, request))
                }))?;
            }
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
        Ok(())
    }
}

impl Items for Experiments<'_, '_> {
    fn begin(&mut self, _: usize) -> Result<(), TraceError> {
        self.0.load = None;
        (self.0.each)(Event::Begin)
    }

    fn end(&mut self) -> Result<(), TraceError> {
        (self.0.each)(Event::End(self.0.load.take()))
    }
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let monotonic = Placement::of(options, input, || extent(input))?;
    let mut experiment = Experiment::default();
    let mut experiments = 0;
    events(input, &mut |event| match event {
        Event::Begin => {
            experiments += 1;
            experiment = Experiment::default();
            sink.begin(&input.stem())
        }
        Event::Request(index, request) => {
            let placed = experiment.place(request, index, &monotonic);
            // A list has no lines: its elements are counted from 1 instead.
            let number = index as u64 + 1;
            match placed {
                Ok(row) => sink.request(row),
                Err(message) => experiment.part.skipped.add(
                    options.strict,
                    input.path(),
                    number,
                    "requests, counted from 1,",
                    message,
                ),
            }
        }
        Event::End(load) => sink.end(std::mem::take(&mut experiment).finish(load, &monotonic)),
    })?;
    if experiments == 0 {
        return Err(input.error(None, "holds no experiment; expected a list \"experiments\""));
    }
    Ok(())
}

/// First and last time of the requests of a monotonic clock.
fn extent(input: &Input) -> Result<Extent, TraceError> {
    let mut extent = Extent::default();
    events(input, &mut |event| {
        if let Event::Request(index, request) = event
            && let (false, Ok((row, _))) = (request.is_epoch(), request.row(index))
        {
            extent.add(&row);
        }
        Ok(())
    })?;
    Ok(extent)
}

/// One experiment while it is read.
#[derive(Default)]
struct Experiment {
    part: Part,
    /// Whether times count from 1970, as the first request has it.
    is_epoch: Option<bool>,
    without_count: u64,
    requests: u64,
}

impl Experiment {
    fn place(
        &mut self,
        request: Request,
        index: usize,
        monotonic: &Placement,
    ) -> Result<RequestRow, String> {
        let is_epoch = request.is_epoch();
        let timestamp = request.timestamp;
        if *self.is_epoch.get_or_insert(is_epoch) != is_epoch {
            return Err(format!(
                "timestamp {timestamp} is of another clock than the requests before"
            ));
        }
        let (row, model) = request.row(index)?;
        if let (true, Some(model)) = (self.part.model.name.is_empty(), model) {
            self.part.model.name = model;
        }
        self.requests += 1;
        self.without_count += u64::from(row.output_tokens.is_none());
        if is_epoch { Placement::Epoch.place(row) } else { monotonic.place(row) }
    }

    fn finish(mut self, load: Option<Load>, monotonic: &Placement) -> Part {
        let placement =
            if self.is_epoch == Some(false) { monotonic.clone() } else { Placement::Epoch };
        self.part.clock = placement.clock(ClockBase::Monotonic, 1);
        self.part.notes.extend(placement.note());
        if self.without_count > 0 {
            self.part.notes.push(format!(
                "requests without a count of tokens (no usage in their last responses), {} of {}: chunks \
                 are not tokens, so output_tokens is null",
                self.without_count, self.requests
            ));
        }
        if let Some(Load { mode: Some(mode), value }) = load {
            if mode == "request_rate" {
                self.part.workload.request_rate = value.filter(|rate| *rate > 0.0);
            }
            self.part.configuration = Some(match value {
                Some(value) => format!("{mode} {value}"),
                None => mode,
            });
        }
        self.part
    }
}

#[cfg(test)]
pub(super) mod tests;
