//! vLLM's server log: the stat lines (every ten seconds or so) become engine metrics, the lines of
//! `--enable-logging-iteration-details` steps.
//!
//! A stamp has month, day and whole seconds, no year and no zone. When an iteration ended within its second
//! follows from its duration and its neighbours (see `step_times.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::civil::Time;
use wattrace_schema::{GraphMode, TimestampNs};

use super::clock::{SECOND_NS, time_of_day};
use super::dating::{Dating, Seen};
use super::follow::LogReader;
use super::log_line::{assigned, pairs, plain, slug, truth};
use super::step_times::{StepTime, StepTimes};
use super::{Format, Head, ImportOptions, Input, Line, Part, Reader, Sink, quantity};
use crate::{EngineRow, StepRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "vllm-log",
    title: "vLLM server log: stat lines and iteration details",
    recovers: "steps with tokens and duration (--enable-logging-iteration-details), throughput and queue lengths as engine metrics, engine version, when it was ready",
    lacks: "requests, power, history lengths of steps; the year and zone of its stamps (--year, --tz)",
    reader: Reader::Parts { detect, read },
};

/// A line of vLLM's log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine<'l> {
    /// Month, 1 to 12.
    pub month: i8,
    /// Day of the month.
    pub day: i8,
    /// Time of day, local, in whole seconds.
    pub time: Time,
    /// What the line says.
    pub event: Event<'l>,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'l> {
    /// One iteration of an engine.
    Iteration(Iteration),
    /// Means over the time since the last such line, and queue lengths.
    Stats(Stats),
    /// Counts of speculative decoding since the last such line.
    SpecDecoding(Stats),
    /// Anything else, in its words.
    Other(&'l str),
}

/// One iteration of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Iteration {
    /// Number of the engine where several log together.
    pub engine: u16,
    /// Counter of the iteration.
    pub number: u64,
    /// Requests in prefill.
    pub context_requests: u32,
    /// Prompt tokens processed.
    pub context_tokens: u32,
    /// Requests in decode.
    pub generation_requests: u32,
    /// Tokens decoded.
    pub generation_tokens: u32,
    /// Duration, ns; printed to 10 µs.
    pub elapsed_ns: i64,
    /// Whether it only kept pace with other ranks: no token of it is of use.
    pub dummy: bool,
}

/// Values of a stat line.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// Labels in the style of Prometheus, such as `engine="0"`.
    pub labels: Option<String>,
    /// Names in the style of our columns, unit included, such as `avg_prompt_throughput_tokens_s`.
    pub values: Vec<(String, f64)>,
}

/// Parses a line with the logger's stamp; `None` for lines without one (those of uvicorn, of other
/// libraries, or the rest of a message of several lines).
///
/// # Errors
/// What is wrong with a line that begins like an iteration or stat line.
pub fn parse_line(line: &str) -> Option<Result<LogLine<'_>, String>> {
    let (stamp, message) = split_stamp(line)?;
    Some(event(message).map(|event| LogLine { month: stamp.0, day: stamp.1, time: stamp.2, event }))
}

/// Month, day, time; then the message after `[file.py:123] `.
fn split_stamp(line: &str) -> Option<((i8, i8, Time), &str)> {
    const STAMP_BYTES: usize = "01-15 12:34:56 ".len();
    for (at, _) in line.match_indices('[').take(4) {
        let Some(stamp) = at.checked_sub(STAMP_BYTES).and_then(|start| line.get(start..at)) else {
            continue;
        };
        let Some(stamp) = parse_stamp(stamp) else { continue };
        let (place, message) = line[at + 1..].split_once(']')?;
        if place.contains(".py:") {
            return Some((stamp, message.strip_prefix(' ').unwrap_or(message)));
        }
    }
    None
}

fn parse_stamp(text: &str) -> Option<(i8, i8, Time)> {
    let (date, time) = text.strip_suffix(' ')?.split_once(' ')?;
    let (month, day) = date.split_once('-')?;
    let two_digits = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse().ok() } else { None }
    };
    let (month, day): (i8, i8) = (two_digits(month)?, two_digits(day)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let time = time_of_day(time)?;
    is_date.then_some((month, day, time))
}

fn event(message: &str) -> Result<Event<'_>, String> {
    let (labels, text) = split_engine(message);
    if let Some(rest) = text.strip_prefix("Iteration(") {
        let engine = labels.as_ref().map_or(0, |(number, _)| *number);
        return iteration(engine, rest).map(Event::Iteration);
    }
    let labels = labels.map(|(_, labels)| labels);
    if text.starts_with("Avg prompt throughput:") {
        return stats(labels, text).map(Event::Stats);
    }
    if let Some(rest) = text.strip_prefix("SpecDecoding metrics: ") {
        return stats(labels, rest).map(Event::SpecDecoding);
    }
    Ok(Event::Other(message))
}

/// `Engine 003: …` and `2 Engines Aggregated: …`: the number of the engine, and a label.
fn split_engine(message: &str) -> (Option<(u16, String)>, &str) {
    if let Some((number, rest)) =
        message.strip_prefix("Engine ").and_then(|rest| rest.split_once(": "))
        && let Ok(number) = number.parse::<u16>()
    {
        return (Some((number, format!("engine=\"{number}\""))), rest);
    }
    if let Some((count, rest)) = message.split_once(" Engines Aggregated: ")
        && count.parse::<u16>().is_ok()
    {
        return (Some((0, format!("engines=\"{count}\""))), rest);
    }
    (None, message)
}

/// `7): 1 context requests, …, iteration elapsed time: 150.00 ms (dummy), …`
fn iteration(engine: u16, text: &str) -> Result<Iteration, String> {
    let malformed = |what: &str| {
        format!(
            "is an iteration line without {what}; expected \"Iteration(N): … iteration elapsed time: X ms\""
        )
    };
    let (number, rest) = text.split_once("): ").ok_or_else(|| malformed("a number"))?;
    let number = number.parse().map_err(|_| malformed("a number"))?;
    let count = |name: &str| -> Result<u32, String> {
        let before = rest.split(", ").find_map(|piece| piece.strip_suffix(name));
        let before = before.ok_or_else(|| malformed(name.trim()))?;
        before.trim().parse().map_err(|_| malformed(name.trim()))
    };
    let elapsed = rest
        .split_once("iteration elapsed time: ")
        .map(|(_, elapsed)| elapsed.split([',', '(']).next().unwrap_or(elapsed))
        .ok_or_else(|| malformed("iteration elapsed time"))?;
    let elapsed_ns = quantity::split_unit(elapsed)
        .and_then(|(value, unit)| quantity::duration_ns(value, unit))
        .and_then(|nanos| i64::try_from(nanos).map_err(|error| error.to_string()))
        .map_err(|problem| {
            format!("has iteration elapsed time \"{}\": {problem}", elapsed.trim())
        })?;
    Ok(Iteration {
        engine,
        number,
        context_requests: count(" context requests")?,
        context_tokens: count(" context tokens")?,
        generation_requests: count(" generation requests")?,
        generation_tokens: count(" generation tokens")?,
        elapsed_ns,
        dummy: rest.contains("(dummy)"),
    })
}

/// `Avg prompt throughput: 120.0 tokens/s, …`: names keep their unit.
fn stats(labels: Option<String>, text: &str) -> Result<Stats, String> {
    let mut values = Vec::new();
    for (key, value) in pairs(text.trim_end_matches('.')) {
        // Acceptance rates by position are a list under one key.
        let parts: Vec<&str> = value.split(", ").collect();
        for (position, part) in parts.iter().enumerate() {
            let (number, unit) = quantity::split_unit(part)
                .map_err(|problem| format!("has \"{key}\" of {problem}; expected a number"))?;
            let mut name = slug(key);
            match unit {
                "" => {}
                "%" => name.push_str("_percent"),
                unit => name = format!("{name}_{}", slug(unit)),
            }
            if parts.len() > 1 {
                name = format!("{name}_{position}");
            }
            values.push((name, number));
        }
    }
    Ok(Stats { labels, values })
}

fn detect(head: &Head) -> Option<String> {
    let line = head.lines().find(|line| split_stamp(&plain(line)).is_some())?;
    let shown: String = line.chars().take(60).collect();
    Some(format!("\"{}\" has lines of vLLM's logger, such as \"{shown}\"", head.path().display()))
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let mut log = Log::new(input.path(), options.strict, Dating::named(options, input)?);
    sink.begin(&input.stem())?;
    let mut lines = input.lines()?;
    while let Some(line) = lines.next_line()? {
        log.line(line, sink)?;
    }
    log.finish(sink)
}

/// Reads a log while it is written.
pub(super) fn follow(path: &Path) -> Box<dyn LogReader> {
    Box::new(Log::new(path, false, Dating::live()))
}

impl LogReader for Log {
    fn settings(&mut self, text: &str) {
        if let Some(Ok(LogLine { event: Event::Other(message), .. })) = parse_line(&plain(text)) {
            self.note_settings(message);
        }
    }

    fn line(&mut self, line: Line<'_>, seen: Seen, sink: &mut dyn Sink) -> Result<(), TraceError> {
        self.dating.see(seen);
        Self::line(self, line, sink)
    }

    fn settle(&mut self, horizon_ns: i64, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let settled: Vec<_> =
            self.steps.values_mut().flat_map(|times| times.settle_before(horizon_ns)).collect();
        self.write(settled, sink)
    }

    fn finish(self: Box<Self>, sink: &mut dyn Sink) -> Result<(), TraceError> {
        Self::finish(*self, sink)
    }
}

#[derive(Default)]
struct Counts {
    steps: u64,
    dummies: u64,
    stats: u64,
    others: u64,
    uncertainty_ns: u64,
}

/// A log that is being read.
struct Log {
    path: PathBuf,
    strict: bool,
    dating: Dating,
    part: Part,
    steps: BTreeMap<u16, StepTimes<Iteration>>,
    graph_mode: Option<GraphMode>,
    /// Time of the last stamped line.
    last_ns: Option<i64>,
    counts: Counts,
}

impl Log {
    fn new(path: &Path, strict: bool, dating: Dating) -> Self {
        let mut part = Part { clock: dating.clock(SECOND_NS.unsigned_abs()), ..Part::default() };
        part.engine.name = Some("vllm".into());
        Self {
            path: path.to_owned(),
            strict,
            dating,
            part,
            steps: BTreeMap::new(),
            graph_mode: None,
            last_ns: None,
            counts: Counts::default(),
        }
    }

    fn skip(&mut self, line: u64, what: &'static str, message: String) -> Result<(), TraceError> {
        self.part.skipped.add(self.strict, &self.path, line, what, message)
    }

    fn error(&self, line: Option<u64>, message: impl Into<String>) -> TraceError {
        TraceError::Format { path: self.path.clone(), line, message: message.into() }
    }

    fn line(&mut self, line: Line<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let Line { number, ended, .. } = line;
        let text = match line.text {
            Ok(text) => plain(text),
            Err(problem) => return self.skip(number, "lines", problem.into()),
        };
        let text = text.as_ref();
        let line = match parse_line(text) {
            Some(Ok(line)) => line,
            Some(Err(_)) if !ended => {
                return self.skip(number, "lines", "was cut off; expected a whole line".into());
            }
            Some(Err(problem)) => return self.skip(number, "lines", problem),
            None => {
                self.unstamped(text);
                return Ok(());
            }
        };
        let written = match self.dating.undated(line.month, line.day, line.time) {
            Ok(written) => written,
            // A zone or year that does not fit concerns every line: better one error than thousands skipped.
            Err(message) => return Err(self.error(Some(number), message)),
        };
        let t_ns = written.stamp_ns;
        self.last_ns = Some(t_ns);
        match line.event {
            Event::Iteration(iteration) => {
                let times = self.steps.entry(iteration.engine).or_default();
                let settled = times.push(written, iteration.elapsed_ns, iteration);
                self.write(settled, sink)
            }
            Event::Stats(stats) | Event::SpecDecoding(stats) => {
                self.counts.stats += 1;
                for (name, value) in stats.values {
                    let labels = stats.labels.clone();
                    sink.engine(EngineRow { t_ns, name, labels, value: Some(value) })?;
                }
                Ok(())
            }
            Event::Other(message) => {
                self.counts.others += 1;
                self.note_settings(message);
                Ok(())
            }
        }
    }

    /// Uvicorn's lines have no stamp; the server is ready by the time of the line before.
    fn unstamped(&mut self, text: &str) {
        self.counts.others += 1;
        if text.contains("Application startup complete")
            && let (None, Some(last)) = (self.part.stages.ready, self.last_ns)
        {
            self.part.stages.ready = Some(TimestampNs::from_nanos(last));
            self.part.notes.push(
                "ready is the stamp of the line before \"Application startup complete\", which has none"
                    .into(),
            );
        }
    }

    /// The engine prints its configuration as it starts.
    fn note_settings(&mut self, message: &str) {
        let Some((head, config)) = message.split_once(" LLM engine (v") else { return };
        if !head.starts_with("Initializing a") {
            return;
        }
        let engine = &mut self.part.engine;
        engine.version = config.split(')').next().map(str::to_owned);
        let number = |name: &str| assigned(config, name).and_then(|text| text.parse::<u32>().ok());
        engine.tensor_parallel = number("tensor_parallel_size").filter(|count| *count > 0);
        engine.replicas = number("data_parallel_size").filter(|count| *count > 0);
        if let Some(model) = assigned(config, "model") {
            model.clone_into(&mut self.part.model.name);
        }
        let dtype = assigned(config, "dtype");
        self.part.model.dtype =
            dtype.map(|dtype| dtype.strip_prefix("torch.").unwrap_or(dtype).to_owned());
        if assigned(config, "enforce_eager").and_then(truth) == Some(true) {
            self.graph_mode = Some(GraphMode::Eager);
        }
    }

    fn write(
        &mut self,
        settled: Vec<(StepTime, Iteration)>,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        for (time, iteration) in settled {
            self.counts.steps += 1;
            self.counts.dummies += u64::from(iteration.dummy);
            self.counts.uncertainty_ns = self.counts.uncertainty_ns.max(time.uncertainty_ns);
            // A dummy iteration keeps its time and its energy, but none of its tokens is of use.
            let counted = |count: u32| if iteration.dummy { 0 } else { count };
            let active = iteration.context_requests.saturating_add(iteration.generation_requests);
            sink.step(StepRow {
                step: iteration.number,
                replica: iteration.engine,
                t_start_ns: Some(time.t_start_ns),
                t_end_ns: time.t_end_ns,
                active_sequences: counted(active),
                new_tokens: counted(iteration.generation_tokens),
                history_tokens: None,
                max_sequence_tokens: None,
                prefill_tokens: counted(iteration.context_tokens),
                iterations: 1,
                active_experts: None,
                graph_mode: self.graph_mode,
            })?;
        }
        Ok(())
    }

    fn finish(mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let mut overlapping = 0;
        for (_, mut times) in std::mem::take(&mut self.steps) {
            let settled = times.finish();
            overlapping += times.overlapping;
            self.write(settled, sink)?;
        }
        let counts = &self.counts;
        if counts.steps == 0 && counts.stats == 0 {
            return Err(self.error(
                None,
                "holds no stat line and no iteration line of vLLM; expected \"Avg prompt throughput: …\" or, \
                 with --enable-logging-iteration-details, \"Iteration(N): …\"",
            ));
        }
        let notes = &mut self.part.notes;
        notes.extend(self.dating.notes());
        if counts.steps > 0 {
            self.part.clock.uncertainty_ns = Some(counts.uncertainty_ns);
            notes.push(format!(
                "{} steps; stamps have whole seconds, so ends within a second follow from durations and \
                 order, at most {} ms off; the log has no history lengths",
                counts.steps,
                counts.uncertainty_ns / 1_000_000
            ));
        } else {
            notes.push("it has no iteration lines, so there are no steps".into());
        }
        for (count, what) in [
            (counts.dummies, "dummy iterations of data parallelism, kept without tokens"),
            (overlapping, "iterations that last longer than the stamps around them leave room for"),
            (counts.others, "other lines, not read"),
        ] {
            if count > 0 {
                notes.push(format!("{what}: {count}"));
            }
        }
        sink.end(self.part)
    }
}

#[cfg(test)]
pub(super) mod tests;
