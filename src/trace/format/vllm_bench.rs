//! Results of `vllm bench serve`: plain ones hold totals only, `--save-detailed` adds a list entry a
//! request, and `--append-result` writes several results into one file.
//!
//! Sending times are of a monotonic clock. They become times of the run by an anchor: the one that the
//! caller names, the benchmark's own epoch window where a build writes it, or its `date`, which is local
//! time at its end to the second. Without any, requests keep durations only.

use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess};
use wattrace_schema::{
    Claim, ClockBase, InputClock, RequestStage, RequestStatus, RunKind, Stages, TimestampNs, Unit,
};

use super::client_statistics::{self, Claimed};
use super::clock::{LocalZone, SECOND_NS, Stamp};
use super::json::{Elements, Failure, Fields, Object, documents};
use super::scalar::Scalar;
use super::{AnchorInstant, Format, Head, ImportOptions, Input, Part, Reader, Sink, quantity};
use crate::{RequestRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "vllm-bench",
    title: "vllm bench serve results (--save-result, --save-detailed, --append-result)",
    recovers: "requests with first token, gaps between chunks and end; claimed statistics; failed requests",
    lacks: "power; times on a clock without --anchor or --tz; tokens of each chunk; results saved without \
            --save-detailed are claims only",
    reader: Reader::Parts { detect, read },
};

/// What a result holds besides what any benchmark does.
fn detect(head: &Head) -> Option<String> {
    let keys = ["endpoint_type", "backend", "burstiness", "request_rate", "total_input_tokens"];
    let old_keys = ["backend", "model_id", "tokenizer_id", "request_rate", "total_input_tokens"];
    let paths = head.json_paths();
    let has = |keys: &[&str]| keys.iter().all(|key| paths.iter().any(|path| path == key));
    (has(&keys) || has(&old_keys)).then(|| {
        format!("\"{}\" has the keys of a result of vllm bench serve", head.path().display())
    })
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let failure = Failure::default();
    let mut results = Vec::new();
    let collected = std::cell::RefCell::new(&mut results);
    documents(input, &failure, |_| Collect { results: &collected })?;
    if results.is_empty() {
        return Err(input.error(None, "holds no JSON; expected a result of vllm bench serve"));
    }
    let says_nothing = |result: &BenchResult| {
        claims(result).0.is_empty() && result.output_lens.is_empty() && result.ttfts_s.is_empty()
    };
    if results.iter().all(says_nothing) {
        return Err(input.error(
            None,
            "has no key of a result of vllm bench serve; expected \"duration\", \"completed\", \
             \"output_throughput\" or, with --save-detailed, \"ttfts\" and \"itls\"",
        ));
    }
    let of = results.len();
    let mut requests = Vec::with_capacity(of);
    for (index, result) in results.iter().enumerate() {
        requests.push(Requests::new(result, input, index, of, options)?);
    }
    // The gaps fill most of a file, so they are read once more and written as they come.
    let mut write =
        Write { input, results: &results, requests: &requests, failure: &failure, sink };
    let write = std::cell::RefCell::new(&mut write);
    documents(input, &failure, |index| Copy { write: &write, index })?;
    Ok(())
}

/// One result, without its gaps and texts.
#[derive(Default)]
struct BenchResult {
    scalars: BTreeMap<String, Scalar>,
    input_lens: Vec<Option<f64>>,
    output_lens: Vec<Option<f64>>,
    ttfts_s: Vec<Option<f64>>,
    latencies_s: Vec<Option<f64>>,
    start_times_s: Vec<Option<f64>>,
    errors: Vec<Option<String>>,
    /// Sum of the gaps of each request.
    gaps_s: Vec<f64>,
    has_gaps: bool,
}

impl BenchResult {
    fn number(&self, key: &str) -> Option<f64> {
        self.scalars.get(key).and_then(Scalar::number)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.scalars.get(key).and_then(Scalar::text).filter(|text| !text.trim().is_empty())
    }
}

/// Reads a result into the list.
struct Collect<'a, 'r> {
    results: &'a std::cell::RefCell<&'r mut Vec<BenchResult>>,
}

impl<'de> DeserializeSeed<'de> for Collect<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let mut result = BenchResult::default();
        Object(&mut result).deserialize(json)?;
        self.results.borrow_mut().push(result);
        Ok(())
    }
}

impl Fields for BenchResult {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "input_lens" => self.input_lens = map.next_value()?,
            "output_lens" => self.output_lens = map.next_value()?,
            "ttfts" => self.ttfts_s = map.next_value()?,
            "latencies" => self.latencies_s = map.next_value()?,
            "start_times" => self.start_times_s = map.next_value()?,
            "errors" => self.errors = map.next_value()?,
            "itls" => {
                self.has_gaps = true;
                let sums = &mut self.gaps_s;
                sums.clear();
                let failure = Failure::default();
                map.next_value_seed(Elements::new(&failure, |_, gaps: Vec<f64>| {
                    sums.push(gaps.iter().sum());
                    Ok(())
                }))?;
            }
            "generated_texts" => _ = map.next_value::<IgnoredAny>()?,
            _ => _ = self.scalars.insert(key.to_owned(), map.next_value()?),
        }
        Ok(())
    }
}

/// The requests of a result but for their gaps, and how their times are read.
struct Requests {
    rows: Vec<RequestRow>,
    clock: InputClock,
    stages: Stages,
    notes: Vec<String>,
}

impl Requests {
    fn new(
        result: &BenchResult,
        input: &Input,
        index: usize,
        of: usize,
        options: &ImportOptions,
    ) -> Result<Self, TraceError> {
        let place = if of > 1 { format!("result {}: ", index + 1) } else { String::new() };
        let error = |message: String| input.error(None, format!("{place}{message}"));
        let mut requests = Self {
            rows: rows(result).map_err(error)?,
            clock: InputClock::default(),
            stages: Stages::default(),
            notes: Vec::new(),
        };
        requests.say_what_is_no_number(result);
        if !requests.rows.is_empty() {
            requests.place_times(result, input, of, options).map_err(|cause| match cause {
                PlaceError::Message(message) => error(message),
                PlaceError::Trace(error) => error,
            })?;
        }
        Ok(requests)
    }

    /// Numbers that were written as null or NaN.
    fn say_what_is_no_number(&mut self, result: &BenchResult) {
        for (name, values) in [
            ("input_lens", &result.input_lens),
            ("output_lens", &result.output_lens),
            ("ttfts", &result.ttfts_s),
            ("latencies", &result.latencies_s),
            ("start_times", &result.start_times_s),
        ] {
            let absent = values.iter().filter(|value| value.is_none()).count();
            if absent > 0 {
                self.notes.push(format!("{name}: {absent} of {} are no numbers", values.len()));
            }
        }
    }

    /// Turns monotonic times into times of the run where an anchor ties them.
    fn place_times(
        &mut self,
        result: &BenchResult,
        input: &Input,
        of: usize,
        options: &ImportOptions,
    ) -> Result<(), PlaceError> {
        let resolution_ns = 1;
        let Some((first_ns, last_ns)) = span(&self.rows) else {
            self.clock = InputClock { base: ClockBase::None, ..InputClock::default() };
            self.notes.push("it has no start_times: requests keep durations only".into());
            self.drop_times();
            return Ok(());
        };
        let Some(tied) = tie(result, input, (first_ns, last_ns), of, options)? else {
            self.clock = InputClock { base: ClockBase::Monotonic, ..InputClock::default() };
            self.notes.push(
                "start_times are of a monotonic clock and nothing ties it to the calendar, so requests \
                 keep durations only; name an instant (--anchor) or the zone of \"date\" (--tz)"
                    .into(),
            );
            self.drop_times();
            return Ok(());
        };
        self.clock = InputClock { resolution_ns: Some(resolution_ns), ..tied };
        let offset_ns = self.clock.offset_ns.unwrap_or(0);
        for row in &mut self.rows {
            let times = [&mut row.t_send_ns, &mut row.t_first_token_ns, &mut row.t_end_ns];
            for nanos in times.into_iter().flatten() {
                *nanos = nanos.checked_add(offset_ns).ok_or_else(|| {
                    PlaceError::Message(format!("time {nanos} ns lies outside the calendar"))
                })?;
            }
            if row.t_send_ns.is_some() {
                (row.ttft_ns, row.e2e_ns) = (None, None);
            }
        }
        self.state_window(result, first_ns + offset_ns, last_ns + offset_ns)
    }

    /// The benchmark states how long it took; it ends with its last request.
    fn state_window(
        &mut self,
        result: &BenchResult,
        first_ns: i64,
        last_ns: i64,
    ) -> Result<(), PlaceError> {
        let Some(duration_s) = result.number("duration") else { return Ok(()) };
        let duration_ns = quantity::nanos(duration_s, "s").map_err(PlaceError::Message)?;
        let start_ns = last_ns.saturating_sub(duration_ns);
        if duration_ns <= 0 || start_ns > first_ns {
            self.notes.push(format!(
                "duration, {duration_s} s, is shorter than its requests took, and is not used"
            ));
            return Ok(());
        }
        self.stages.formal_start = Some(TimestampNs::from_nanos(start_ns));
        self.stages.formal_end = Some(TimestampNs::from_nanos(last_ns));
        self.notes.push(format!(
            "the formal window ends with the last request and is as long as the benchmark states, \
             {duration_s} s"
        ));
        Ok(())
    }

    fn drop_times(&mut self) {
        for row in &mut self.rows {
            (row.t_send_ns, row.t_first_token_ns, row.t_end_ns) = (None, None, None);
        }
    }
}

enum PlaceError {
    Message(String),
    Trace(TraceError),
}

/// First sending and last known time of the requests, on their own clock.
fn span(rows: &[RequestRow]) -> Option<(i64, i64)> {
    let first = rows.iter().filter_map(|row| row.t_send_ns).min()?;
    let last = rows.iter().filter_map(|row| row.t_end_ns.or(row.t_send_ns)).max()?;
    Some((first, last))
}

/// What ties the monotonic clock to the calendar, the surest first.
fn tie(
    result: &BenchResult,
    input: &Input,
    (first_ns, last_ns): (i64, i64),
    of: usize,
    options: &ImportOptions,
) -> Result<Option<InputClock>, PlaceError> {
    if let Some(anchor) = &options.anchor {
        if of > 1 && anchor.instant != AnchorInstant::Zero {
            return Err(PlaceError::Message(format!(
                "the anchor names its {}, but the file holds {of} results; name the zero of their clock \
                 (--anchor zero=TIME)",
                anchor.instant.name()
            )));
        }
        let offset_ns = anchor.offset_ns(first_ns, last_ns).map_err(PlaceError::Message)?;
        return Ok(Some(anchor.clock(ClockBase::Monotonic, offset_ns, 1)));
    }
    let clock = |anchor: String, offset_ns: i64, uncertainty_ns: i64| InputClock {
        base: ClockBase::Monotonic,
        anchor: Some(anchor),
        offset_ns: Some(offset_ns),
        uncertainty_ns: Some(uncertainty_ns.unsigned_abs()),
        ..InputClock::default()
    };
    let tied = |end_ns: i64| {
        end_ns.checked_sub(last_ns).ok_or_else(|| {
            PlaceError::Message(format!("end {end_ns} ns lies outside the calendar"))
        })
    };
    if let Some(end_s) = result.number("benchmark_end_time_unix") {
        let end_ns = quantity::epoch_seconds(end_s).map_err(PlaceError::Message)?;
        // What the benchmark's duration leaves beyond its requests bounds how far the two ends differ.
        let beyond_ns = result
            .number("duration")
            .and_then(|duration_s| quantity::nanos(duration_s, "s").ok())
            .map_or(SECOND_NS, |duration_ns| {
                duration_ns.saturating_sub(last_ns.saturating_sub(first_ns))
            });
        let name = "end = benchmark_end_time_unix of the result".to_owned();
        return Ok(Some(clock(name, tied(end_ns)?, beyond_ns)));
    }
    let zone = LocalZone::of(options).map_err(PlaceError::Trace)?;
    let (Some(zone), Some(date)) = (zone, result.text("date")) else { return Ok(None) };
    let stamp = Stamp::parse_compact(date).ok_or_else(|| {
        PlaceError::Trace(input.error(
            None,
            format!("date is \"{date}\"; expected a time such as \"20250115-123456\""),
        ))
    })?;
    let end_ns = zone.stamp(stamp).map_err(PlaceError::Message)?;
    let zone_name = options.time_zone.clone();
    let name = format!("end = date of the result, {date}");
    let clock = clock(name, tied(end_ns)?, SECOND_NS);
    Ok(Some(InputClock { zone: zone_name, ..clock }))
}

/// The requests, with monotonic times.
fn rows(result: &BenchResult) -> Result<Vec<RequestRow>, String> {
    let count = result.input_lens.len();
    if count == 0 && result.output_lens.is_empty() && result.ttfts_s.is_empty() {
        return Ok(Vec::new());
    }
    for (name, length) in [
        ("output_lens", result.output_lens.len()),
        ("ttfts", result.ttfts_s.len()),
        ("itls", if result.has_gaps { result.gaps_s.len() } else { count }),
        ("latencies", length_or(&result.latencies_s, count)),
        ("start_times", length_or(&result.start_times_s, count)),
        ("errors", length_or(&result.errors, count)),
    ] {
        if length != count {
            return Err(format!(
                "{name} has {length} entries and input_lens {count}; expected one for each request"
            ));
        }
    }
    (0..count).map(|index| row(result, index)).collect()
}

/// The length of a list; an empty one is absent.
fn length_or<T>(list: &[T], absent: usize) -> usize {
    if list.is_empty() { absent } else { list.len() }
}

fn row(result: &BenchResult, index: usize) -> Result<RequestRow, String> {
    let place = |message: String| format!("request {index}: {message}");
    let tokens = |name: &str, value: Option<f64>| -> Result<Option<u32>, String> {
        let Some(value) = value else { return Ok(None) };
        if value.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&value) {
            return Err(place(format!("{name} is {value}; expected a number of tokens")));
        }
        Ok(Some(value as u32))
    };
    let nanos = |name: &str, seconds: Option<f64>| -> Result<Option<u64>, String> {
        let Some(seconds) = seconds else { return Ok(None) };
        quantity::duration_ns(seconds, "s")
            .map(Some)
            .map_err(|_| place(format!("{name} is {seconds}; expected a time in seconds")))
    };
    let input_tokens = tokens("input_lens", result.input_lens[index])?;
    let output_tokens = tokens("output_lens", result.output_lens[index])?;
    let ttft_s = result.ttfts_s[index];
    let error = result.errors.get(index).cloned().flatten().filter(|text| !text.is_empty());
    let empty = output_tokens.unwrap_or(0) == 0 && ttft_s.unwrap_or(0.0) == 0.0;
    let failed = error.is_some() || empty;

    // A failed request keeps its slot with zeros, which are no measurements.
    let measured = |seconds: Option<f64>| seconds.filter(|seconds| !failed || *seconds > 0.0);
    let ttft_ns = nanos("ttfts", measured(ttft_s))?;
    let whole_s = match result.latencies_s.get(index) {
        Some(latency_s) => measured(*latency_s),
        None => {
            let gaps_s = result.gaps_s.get(index).copied().unwrap_or(0.0);
            measured(ttft_s).filter(|_| result.has_gaps).map(|ttft_s| ttft_s + gaps_s)
        }
    };
    let e2e_ns = nanos("latencies", whole_s)?;
    let start_s = result.start_times_s.get(index).copied().flatten();
    let t_send_ns = start_s
        .map(|seconds| quantity::nanos(seconds, "s"))
        .transpose()
        .map_err(|_| place("start_times is no time in seconds".into()))?;
    let after = |duration_ns: Option<u64>| {
        let duration_ns = i64::try_from(duration_ns?).ok()?;
        t_send_ns?.checked_add(duration_ns)
    };
    Ok(RequestRow {
        request_id: index.to_string(),
        stage: RequestStage::Formal,
        t_send_ns,
        t_first_token_ns: after(ttft_ns),
        t_end_ns: after(e2e_ns),
        status: status(failed, error.as_deref()),
        error,
        input_tokens,
        output_tokens: output_tokens.filter(|tokens| !failed || *tokens > 0),
        reasoning_tokens: None,
        itl_ns: None,
        itl_tokens: None,
        ttft_ns,
        e2e_ns,
    })
}

fn status(failed: bool, error: Option<&str>) -> RequestStatus {
    let text = error.unwrap_or_default().to_ascii_lowercase();
    if !failed {
        RequestStatus::Ok
    } else if text.contains("timeout") || text.contains("timed out") {
        RequestStatus::Timeout
    } else {
        RequestStatus::Error
    }
}

/// Writes results to the sink while their gaps are read.
struct Write<'a> {
    input: &'a Input,
    results: &'a [BenchResult],
    requests: &'a [Requests],
    failure: &'a Failure,
    sink: &'a mut dyn Sink,
}

/// Copies one result.
struct Copy<'a, 'w> {
    write: &'a std::cell::RefCell<&'a mut Write<'w>>,
    index: usize,
}

impl<'de> DeserializeSeed<'de> for Copy<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let write = &mut **self.write.borrow_mut();
        let failure = write.failure;
        let changed = || write_changed(write.input);
        let (Some(result), Some(requests)) =
            (write.results.get(self.index), write.requests.get(self.index))
        else {
            return failure.keep(Err(changed()));
        };
        failure.keep(write.sink.begin(&write.input.stem()))?;
        let mut gaps = CopyGaps { rows: &requests.rows, written: 0, failure, sink: write.sink };
        Object(&mut gaps).deserialize(json)?;
        let written = gaps.written;
        failure.keep(if written == 0 {
            requests.rows.iter().try_for_each(|row| write.sink.request(row.clone()))
        } else if written == requests.rows.len() {
            Ok(())
        } else {
            Err(changed())
        })?;
        failure.keep(write.sink.end(part(result, requests)))
    }
}

fn write_changed(input: &Input) -> TraceError {
    input.error(None, "changed while it was read")
}

struct CopyGaps<'a> {
    rows: &'a [RequestRow],
    written: usize,
    failure: &'a Failure,
    sink: &'a mut dyn Sink,
}

impl Fields for CopyGaps<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key != "itls" || self.written > 0 {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        }
        let (rows, sink, written) = (self.rows, &mut *self.sink, &mut self.written);
        map.next_value_seed(Elements::new(self.failure, |index, gaps: Vec<f64>| {
            let Some(row) = rows.get(index) else { return Ok(()) };
            let gaps_ns: Result<Vec<u64>, String> =
                gaps.iter().map(|gap_s| quantity::duration_ns(*gap_s, "s")).collect();
            let gaps_ns = gaps_ns.map_err(|message| {
                TraceError::Other(format!("request {index}: itls has {message}"))
            })?;
            *written += 1;
            // A failed request keeps an empty list, which is no measurement.
            let itl_ns = (!gaps_ns.is_empty()).then_some(gaps_ns);
            sink.request(RequestRow { itl_ns, ..row.clone() })
        }))
    }
}

/// What a result says besides its requests.
fn part(result: &BenchResult, requests: &Requests) -> Part {
    let (claims, refused) = claims(result);
    let mut part = Part {
        kind: requests.rows.is_empty().then_some(RunKind::Summary),
        configuration: result.text("label").map(str::to_owned),
        claims,
        notes: refused,
        stages: requests.stages,
        clock: requests.clock.clone(),
        ..Part::default()
    };
    part.model.name = result.text("model_id").unwrap_or_default().to_owned();
    part.engine.name = result.text("backend").filter(|name| *name == "vllm").map(str::to_owned);
    part.workload.request_rate =
        result.number("request_rate").filter(|rate| rate.is_finite() && *rate > 0.0);
    let settings: Vec<String> = ["backend", "endpoint_type", "burstiness", "max_concurrency"]
        .into_iter()
        .filter_map(|key| Some(format!("{key} {}", result.scalars.get(key)?.shown()?)))
        .collect();
    if !settings.is_empty() {
        part.notes.push(format!("the client's settings: {}", settings.join(", ")));
    }
    if requests.rows.is_empty() {
        part.notes.push("it was saved without --save-detailed: there are only claims".into());
    }
    part.notes.extend(requests.notes.iter().cloned());
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
        "num_prompts" => return named("requests_total", Unit::Count, false),
        "failed" => return named("requests_failed", Unit::Count, false),
        "total_input_tokens" => return named("input_tokens", Unit::Token, false),
        "total_output_tokens" => return named("output_tokens", Unit::Token, false),
        "request_throughput" => {
            return named("request_throughput_req_s", Unit::RequestPerSecond, true);
        }
        "request_goodput" | "request_goodput:" => {
            return named("request_goodput_req_s", Unit::RequestPerSecond, true);
        }
        "output_throughput" => return named("output_throughput_tok_s", Unit::TokenPerSecond, true),
        "total_token_throughput" => {
            return named("total_token_throughput", Unit::TokenPerSecond, true);
        }
        _ => {}
    }
    client_statistics::latency(key, "e2el")
}

#[cfg(test)]
pub(super) mod tests;
