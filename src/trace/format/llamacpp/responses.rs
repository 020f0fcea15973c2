//! Responses with `timings`: one, a list of them, or one a line.

use std::cell::RefCell;

use serde::Deserialize;
use wattrace_schema::{Engine, InputClock};

use super::super::json::{self, Failure};
use super::super::json_objects::OneOrMany;
use super::super::request_row::bare_request;
use super::super::token_count::{TokenCount, count};
use super::super::{ImportOptions, Input, Part, Sink, quantity};
use crate::{RequestRow, TraceError};

/// What tells a response.
pub(super) const KEYS: &[&str] = &["timings.prompt_ms", "timings.predicted_ms"];

#[derive(Debug, Deserialize)]
struct Response {
    id: Option<String>,
    model: Option<String>,
    timings: Option<Timings>,
}

#[derive(Debug, Deserialize)]
struct Timings {
    cache_n: Option<TokenCount>,
    prompt_n: Option<TokenCount>,
    prompt_ms: Option<f64>,
    predicted_n: Option<TokenCount>,
    predicted_ms: Option<f64>,
}

/// A request of which prompt and generation time are known. The first token comes at the end of the
/// prompt.
pub(super) fn timed(
    mut row: RequestRow,
    prompt_ms: Option<f64>,
    generation_ms: Option<f64>,
) -> Result<RequestRow, String> {
    let duration = |name: &str, ms: Option<f64>| {
        let convert =
            |ms| quantity::duration_ns(ms, "ms").map_err(|problem| format!("{name}: {problem}"));
        ms.map(convert).transpose()
    };
    row.ttft_ns = duration("time of the prompt", prompt_ms)?;
    let generation_ns = duration("time of the generation", generation_ms)?;
    row.e2e_ns = row.ttft_ns.zip(generation_ns).and_then(|(prompt, rest)| prompt.checked_add(rest));
    Ok(row)
}

impl Response {
    fn row(self, number: u64) -> Result<RequestRow, String> {
        let timings = self.timings.ok_or("has no timings; expected prompt_ms and predicted_ms")?;
        let id = self.id.filter(|id| !id.is_empty());
        let mut row = bare_request(id.unwrap_or_else(|| format!("response-{number}")));
        // prompt_n counts what was processed, cache_n what was found in the cache.
        let cached = count(timings.cache_n).unwrap_or_default();
        row.input_tokens = count(timings.prompt_n).and_then(|prompt| prompt.checked_add(cached));
        row.output_tokens = count(timings.predicted_n);
        timed(row, timings.prompt_ms, timings.predicted_ms)
    }
}

pub(super) fn read(
    input: &Input,
    options: &ImportOptions,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    sink.begin(&input.stem())?;
    let mut part = Part { clock: InputClock::default(), ..Part::default() };
    part.engine = Engine { name: Some("llama.cpp".into()), ..Engine::default() };
    let (mut seen, mut rows) = (0_u64, 0_u64);
    let failure = Failure::default();
    let take = RefCell::new(|mut response: Response| {
        seen += 1;
        if let (true, Some(model)) = (part.model.name.is_empty(), response.model.take()) {
            part.model.name = model;
        }
        match response.row(seen) {
            Ok(row) => {
                rows += 1;
                sink.request(row)
            }
            Err(message) => part.skipped.add(
                options.strict,
                input.path(),
                seen,
                "responses, counted from 1,",
                message,
            ),
        }
    });
    json::documents(input, &failure, |_| {
        OneOrMany::new(&failure, |response| (*take.borrow_mut())(response))
    })?;
    if rows == 0 {
        return Err(input.error(None, "holds no response with timings"));
    }
    part.notes.push(
        "requests have durations and no times; they count from when a slot took the request, so time in \
         the queue is not in them"
            .into(),
    );
    sink.end(part)
}
