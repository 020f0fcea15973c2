//! TensorRT-LLM: iteration statistics from `GET /metrics`, one list a poll or one object a line.
//!
//! The time stamp is local text, of the end of the iteration. Polls drain the statistics, so slow polling
//! or a second consumer leaves iterations out; they are counted. Under overlap scheduling the latency is
//! the host's step and may belong to the device's step before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde::Deserialize;
use wattrace_schema::Engine;

use super::clock::{LocalZone, Stamp, Years, epoch_clock};
use super::dating::{Dating, Seen};
use super::follow::LogReader;
use super::json::{self, Failure};
use super::json_objects::OneOrMany;
use super::local_time::{DateOrder, LoggedTime};
use super::{Format, Head, ImportOptions, Input, Line, Part, Reader, Sink, quantity};
use crate::{StepRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "trtllm-stats",
    title: "TensorRT-LLM: iteration statistics",
    recovers: "steps with active sequences, new tokens, prompt tokens and, in newer versions, history",
    lacks: "requests, power, model; iterations that were never polled",
    reader: Reader::Parts { detect, read },
};

fn detect(head: &Head) -> Option<String> {
    let keys = &["iter", "iterLatencyMS", "numActiveRequests"];
    head.has_json_paths(keys).then(|| {
        format!(
            "\"{}\" has {} of TensorRT-LLM's iterations",
            head.path().display(),
            keys.join(", ")
        )
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Iteration {
    timestamp: Option<String>,
    iter: u64,
    #[serde(rename = "iterLatencyMS")]
    iter_latency_ms: Option<f64>,
    attention_dp_rank: Option<u16>,
    stats_dropped_frames: Option<u64>,
    inflight_batching_stats: Option<Inflight>,
    static_batching_stats: Option<Static>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inflight {
    num_gen_requests: u32,
    num_ctx_tokens: u32,
    avg_num_decoded_tokens_per_iter: Option<f64>,
    num_gen_kv_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Static {
    num_scheduled_requests: u32,
    num_context_requests: u32,
    num_ctx_tokens: u32,
    num_gen_tokens: u32,
}

/// What an iteration did.
struct Work {
    sequences: u32,
    new_tokens: u32,
    prefill_tokens: u32,
    history_tokens: Option<u64>,
}

impl Iteration {
    fn work(&self) -> Result<Work, String> {
        if let Some(inflight) = &self.inflight_batching_stats {
            let sequences = inflight.num_gen_requests;
            // Zero stands for a version that does not count; each sequence then gives one token.
            let each =
                inflight.avg_num_decoded_tokens_per_iter.filter(|each| *each > 0.0).unwrap_or(1.0);
            let tokens = (f64::from(sequences) * each).round();
            if !(0.0..=f64::from(u32::MAX)).contains(&tokens) {
                return Err(format!(
                    "avgNumDecodedTokensPerIter is {each}; expected tokens of a sequence"
                ));
            }
            return Ok(Work {
                sequences,
                new_tokens: tokens as u32,
                prefill_tokens: inflight.num_ctx_tokens,
                history_tokens: inflight.num_gen_kv_tokens,
            });
        }
        let stats = self.static_batching_stats.as_ref().ok_or(
            "has neither inflightBatchingStats nor staticBatchingStats; expected what the iteration did",
        )?;
        Ok(Work {
            sequences: stats.num_scheduled_requests.saturating_sub(stats.num_context_requests),
            new_tokens: stats.num_gen_tokens,
            prefill_tokens: stats.num_ctx_tokens,
            history_tokens: None,
        })
    }
}

/// A time with a zone or a local one.
fn stamp(text: &str) -> Option<Stamp> {
    // TensorRT-LLM writes the month first.
    let month_first = LoggedTime::parse(text)
        .and_then(|time| time.date_time(DateOrder::MonthFirst))
        .map(Stamp::Local);
    month_first.or_else(|| Stamp::parse(text))
}

struct Reading {
    input: Input,
    options: ImportOptions,
    dating: Option<Dating>,
    used_zone: bool,
    part: Part,
    seen: u64,
    rows: u64,
    missing: u64,
    dropped: u64,
    /// Last iteration of each replica.
    last: BTreeMap<u16, u64>,
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    sink.begin(&input.stem())?;
    let zone = LocalZone::of(options)?;
    let dating = zone.map(|zone| Dating::Named { zone, years: Years::new(options, input) });
    let mut reading = Reading::new(input.clone(), options.clone(), dating);
    reading.documents(json::text(input)?, sink)?;
    reading.finish(sink)
}

/// Reads statistics while they come, one or more documents a line.
pub(super) fn follow(path: &Path) -> Box<dyn LogReader> {
    let dating = Some(Dating::live());
    Box::new(Reading::new(Input::new(path), ImportOptions::default(), dating))
}

impl LogReader for Reading {
    fn settings(&mut self, _: &str) {}

    fn line(&mut self, line: Line<'_>, seen: Seen, sink: &mut dyn Sink) -> Result<(), TraceError> {
        if let Some(dating) = &mut self.dating {
            dating.see(seen);
        }
        let read = match line.text {
            Ok(text) => self.documents(text.as_bytes(), sink),
            Err(problem) => Err(self.input.error(None, problem)),
        };
        // Iterations before the place at which a line breaks were taken.
        read.or_else(|error| {
            let message = match error {
                TraceError::Format { message, .. } => message,
                other => return Err(other),
            };
            let path = self.input.path();
            self.part.skipped.add(self.options.strict, path, line.number, "lines", message)
        })
    }

    fn settle(&mut self, _: i64, _: &mut dyn Sink) -> Result<(), TraceError> {
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut dyn Sink) -> Result<(), TraceError> {
        Self::finish(*self, sink)
    }
}

impl Reading {
    fn new(input: Input, options: ImportOptions, dating: Option<Dating>) -> Self {
        Self {
            input,
            options,
            dating,
            used_zone: false,
            part: Part::default(),
            seen: 0,
            rows: 0,
            missing: 0,
            dropped: 0,
            last: BTreeMap::new(),
        }
    }

    fn documents(&mut self, reader: impl BufRead, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let failure = Failure::default();
        let input = self.input.clone();
        let shared = RefCell::new((self, sink));
        json::documents_of(reader, &input, &failure, |_| {
            OneOrMany::new(&failure, |iteration| {
                let (reading, sink) = &mut *shared.borrow_mut();
                reading.iteration(&iteration, *sink)
            })
        })?;
        Ok(())
    }

    fn iteration(&mut self, iteration: &Iteration, sink: &mut dyn Sink) -> Result<(), TraceError> {
        self.seen += 1;
        self.dropped = self.dropped.max(iteration.stats_dropped_frames.unwrap_or_default());
        match self.row(iteration)? {
            Ok(row) => {
                self.rows += 1;
                sink.step(row)
            }
            Err(message) => {
                let (strict, path) = (self.options.strict, self.input.path());
                self.part.skipped.add(
                    strict,
                    path,
                    self.seen,
                    "iterations, counted from 1,",
                    message,
                )
            }
        }
    }

    /// The step, or why the iteration is left out.
    fn row(&mut self, iteration: &Iteration) -> Result<Result<StepRow, String>, TraceError> {
        let t_end_ns = match self.end(iteration)? {
            Ok(t_end_ns) => t_end_ns,
            Err(message) => return Ok(Err(message)),
        };
        Ok(self.step(iteration, t_end_ns))
    }

    fn step(&mut self, iteration: &Iteration, t_end_ns: i64) -> Result<StepRow, String> {
        let work = iteration.work()?;
        let replica = iteration.attention_dp_rank.unwrap_or_default();
        let latency_ns = iteration
            .iter_latency_ms
            .map(|ms| quantity::duration_ns(ms, "ms"))
            .transpose()
            .map_err(|problem| format!("iterLatencyMS: {problem}"))?;
        let start = latency_ns.and_then(|latency| t_end_ns.checked_sub_unsigned(latency));
        if let Some(last) = self.last.get(&replica) {
            if iteration.iter == *last {
                return Err(format!("repeats iteration {last}"));
            }
            // A smaller number is a restart, not a gap.
            self.missing += iteration.iter.saturating_sub(*last).saturating_sub(1);
        }
        self.last.insert(replica, iteration.iter);
        Ok(StepRow {
            step: iteration.iter,
            replica,
            t_start_ns: start,
            t_end_ns,
            active_sequences: work.sequences,
            new_tokens: work.new_tokens,
            history_tokens: work.history_tokens,
            max_sequence_tokens: None,
            prefill_tokens: work.prefill_tokens,
            iterations: 1,
            active_experts: None,
            graph_mode: None,
        })
    }

    fn end(&mut self, iteration: &Iteration) -> Result<Result<i64, String>, TraceError> {
        let text = iteration.timestamp.as_deref().unwrap_or_default();
        let Some(stamp) = stamp(text) else {
            if let Some(written) = self.dating.as_mut().and_then(Dating::unstamped) {
                return Ok(Ok(written.middle_ns()));
            }
            return Ok(Err(format!(
                "timestamp is \"{}\"; expected a time such as 01-15-2025 12:34:56.123456",
                text.escape_debug()
            )));
        };
        match (stamp, &mut self.dating) {
            (Stamp::Instant(nanos), None) => Ok(Ok(nanos)),
            (Stamp::Instant(nanos), Some(dating)) => Ok(Ok(dating.instant(nanos))),
            (Stamp::Local(local), Some(dating)) => {
                self.used_zone = true;
                Ok(dating.dated(local).map(|written| written.stamp_ns))
            }
            (Stamp::Local(_), None) => {
                LocalZone::required(&self.options, &self.input).map(|_| Ok(0))
            }
        }
    }

    fn finish(mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        if self.rows == 0 {
            let mut message = "holds no iteration with a time".to_owned();
            for note in self.part.skipped.notes(self.input.path()) {
                message += &format!("; {note}");
            }
            return Err(self.input.error(None, message));
        }
        self.part.notes.extend(self.dating.iter().flat_map(Dating::notes));
        self.part.clock = match self.dating.as_ref().filter(|_| self.used_zone) {
            Some(dating) => dating.clock(1_000),
            None => epoch_clock(1_000),
        };
        self.part.engine = Engine { name: Some("tensorrt-llm".into()), ..Engine::default() };
        if self.missing > 0 {
            self.part.notes.push(format!(
                "iterations missing between those that were polled: {}; polls drain the statistics",
                self.missing
            ));
        }
        if self.dropped > 0 {
            self.part.notes.push(format!(
                "the engine dropped statistics before they were polled: statsDroppedFrames is {}",
                self.dropped
            ));
        }
        self.part.notes.push(
            "a step lasts iterLatencyMS before its stamp; under overlap scheduling that is the host's step"
                .into(),
        );
        sink.end(self.part)
    }
}

#[cfg(test)]
pub(super) mod tests;
