//! SGLang's server log: `Decode batch` lines become steps, one row for the decode iterations since the
//! line before; every number of `Decode batch` and `Prefill batch` lines becomes an engine metric.
//!
//! The keys of these lines differ from version to version, and their order with them, so they are read as
//! pairs of key and value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wattrace_schema::{GraphMode, TimestampNs};

use super::clock::{SECOND_NS, Stamp};
use super::dating::{Dating, Seen, Written};
use super::follow::LogReader;
use super::log_line::{assigned, pairs, plain, slug, truth};
use super::step_times::{StepTime, StepTimes};
use super::{Format, Head, ImportOptions, Input, Line, Part, Reader, Sink, quantity};
use crate::{EngineRow, StepRow, TraceError};

pub(super) const FORMAT: Format = Format {
    name: "sglang-log",
    title: "SGLang server log: Decode batch and Prefill batch lines",
    recovers: "steps, each over the iterations between two lines (--decode-log-interval), with context lengths; throughput and queue lengths as engine metrics; when it was ready",
    lacks: "requests, power, single iterations; the zone of its stamps (--tz)",
    reader: Reader::Parts { detect, read },
};

/// Iterations between two decode lines unless the server's arguments say otherwise.
const DEFAULT_INTERVAL: u32 = 40;

/// A line of SGLang's log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// When it was written: local time, or none in the oldest versions. Microseconds where the line ends
    /// with a time stamp of its own, milliseconds with `SGLANG_LOG_MS=1`, else whole seconds.
    pub local: Option<jiff::civil::DateTime>,
    /// Which rank wrote it.
    pub rank: Rank,
    /// What it says.
    pub event: Event,
}

/// The rank of a process, as far as the line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[expect(missing_docs, reason = "each field is the kind of parallelism that it names")]
pub struct Rank {
    pub data: Option<u16>,
    pub pipeline: Option<u16>,
    pub tensor: Option<u16>,
    pub expert: Option<u16>,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Decode iterations since the line before.
    Decode(Batch),
    /// A prefill batch.
    Prefill(Batch),
    /// Requests were thrown out of a full cache and wait again.
    Retracted(Batch),
    /// The server takes requests.
    Ready,
    /// Anything else.
    Other,
}

/// The pairs of a batch line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Count of forward passes in brackets, where the version prints it.
    pub forward_count: Option<u64>,
    /// Keys as printed with their numbers, in order; percentages as they stand.
    pub numbers: Vec<(String, f64)>,
    /// Whether the batch ran as a captured graph.
    pub graph: Option<bool>,
}

impl Batch {
    /// The number of a key, such as `#running-req`.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        self.numbers.iter().find(|(name, _)| name == key).map(|(_, number)| *number)
    }

    fn count(&self, key: &str) -> Option<u32> {
        let number = self.number(key)?;
        let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        whole.then_some(number as u32)
    }
}

/// Parses any line of the log.
///
/// # Errors
/// What is wrong with a decode or prefill line.
pub fn parse_line(line: &str) -> Result<LogLine, String> {
    let line = plain(line);
    let marked = |marker: &str| line.split_once(marker);
    let (prefix, event): (&str, fn(Batch) -> Event) =
        if let Some((prefix, _)) = marked("Decode batch") {
            (prefix, Event::Decode)
        } else if let Some((prefix, _)) = marked("Prefill batch") {
            (prefix, Event::Prefill)
        } else if let Some((prefix, _)) = marked("KV cache pool is full. Retract requests") {
            (prefix, Event::Retracted)
        } else {
            let (local, rank) = parse_prefix(&line);
            let ready = line.contains("The server is fired up and ready to roll");
            let event = if ready { Event::Ready } else { Event::Other };
            return Ok(LogLine { local, rank, event });
        };
    let (mut local, rank) = parse_prefix(prefix);
    let body = &line[prefix.len()..];
    let (batch, stamp) = parse_batch(body)?;
    if let Some(Stamp::Local(exact)) = stamp {
        local = Some(exact);
    }
    Ok(LogLine { local, rank, event: event(batch) })
}

/// The last `[…]` before the message: a time, then ranks.
fn parse_prefix(prefix: &str) -> (Option<jiff::civil::DateTime>, Rank) {
    let mut rank = Rank::default();
    let Some((inside, _)) = prefix.match_indices('[').find_map(|(at, _)| {
        prefix[at + 1..].split_once(']').filter(|(inside, _)| has_time(inside))
    }) else {
        return (None, rank);
    };
    let mut words = inside.split_whitespace();
    let (date, time) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let local = match Stamp::parse(&format!("{date} {time}")) {
        Some(Stamp::Local(local)) => Some(local),
        _ => None,
    };
    for word in words {
        let digits = word.find(|character: char| character.is_ascii_digit());
        let Some((name, number)) = digits.map(|at| word.split_at(at)) else { continue };
        let number = number.parse().ok();
        match name {
            "DP" => rank.data = number,
            "PP" => rank.pipeline = number,
            "TP" => rank.tensor = number,
            "EP" => rank.expert = number,
            _ => {}
        }
    }
    (local, rank)
}

fn has_time(inside: &str) -> bool {
    inside.len() >= "2025-01-15 12:34:56".len()
        && inside.as_bytes()[..4].iter().all(u8::is_ascii_digit)
}

/// `Decode batch[ [1234]][.,] key: value, …[, timestamp: …]`
fn parse_batch(body: &str) -> Result<(Batch, Option<Stamp>), String> {
    let mut batch = Batch::default();
    let at = body.find('#').or_else(|| body.find(':').map(|_| 0)).unwrap_or(body.len());
    let (head, list) = body.split_at(at);
    if let Some((_, count)) = head.split_once('[') {
        batch.forward_count = count.split(']').next().and_then(|count| count.trim().parse().ok());
    }
    let mut stamp = None;
    for (key, value) in pairs(list) {
        match key {
            "timestamp" => stamp = Stamp::parse(&value),
            key if key.ends_with(" graph") => batch.graph = truth(&value),
            // A list in brackets, one entry a rank: a fork's, without a counterpart here.
            _ if value.starts_with('[') => {}
            _ => {
                let (number, unit) = quantity::split_unit(&value)
                    .map_err(|problem| format!("has \"{key}\" of {problem}; expected a number"))?;
                if !matches!(unit, "" | "%") {
                    return Err(format!("has \"{key}\" of \"{value}\"; expected a number"));
                }
                batch.numbers.push((key.to_owned(), number));
            }
        }
    }
    if batch.numbers.is_empty() {
        return Err("has no number; expected \"#running-req: N, …\"".into());
    }
    Ok((batch, stamp))
}

fn detect(head: &Head) -> Option<String> {
    let is_batch = |line: &&str| {
        matches!(parse_line(line).map(|line| line.event), Ok(Event::Decode(_) | Event::Prefill(_)))
    };
    let path = head.path().display();
    if let Some(line) = head.lines().find(is_batch) {
        let kind = if line.contains("Decode") { "Decode batch" } else { "Prefill batch" };
        return Some(format!("\"{path}\" has a {kind} line of SGLang"));
    }
    head.text()
        .contains("server_args=ServerArgs(")
        .then(|| format!("\"{path}\" begins with the arguments of an SGLang server"))
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
        self.note_settings(text);
    }

    fn line(&mut self, line: Line<'_>, seen: Seen, sink: &mut dyn Sink) -> Result<(), TraceError> {
        self.dating.see(seen);
        Self::line(self, line, sink)
    }

    fn settle(&mut self, horizon_ns: i64, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let settle =
            |(id, replica): (&u16, &mut Replica)| (*id, replica.times.settle_before(horizon_ns));
        let settled: Vec<_> = self.replicas.iter_mut().map(settle).collect();
        settled.into_iter().try_for_each(|(id, settled)| self.write(id, settled, sink))
    }

    fn finish(self: Box<Self>, sink: &mut dyn Sink) -> Result<(), TraceError> {
        Self::finish(*self, sink)
    }
}

#[derive(Default)]
struct Counts {
    decode: u64,
    prefill: u64,
    other_ranks: u64,
    others: u64,
    fine_stamps: bool,
    counted: bool,
    uncertainty_ns: u64,
}

/// A decode line whose row is not written yet.
struct DecodeLine {
    step: u64,
    iterations: u32,
    running: u32,
    new_tokens: u32,
    history_tokens: Option<u64>,
    prefill_tokens: u32,
    graph_mode: Option<GraphMode>,
}

/// What is known of one replica so far.
#[derive(Default)]
struct Replica {
    /// The tensor and pipeline rank whose lines are read; the others repeat them.
    rank: Option<(Option<u16>, Option<u16>)>,
    last_ns: Option<i64>,
    forward_count: Option<u64>,
    steps: u64,
    prefill_tokens: u32,
    times: StepTimes<DecodeLine>,
}

struct Log {
    path: PathBuf,
    strict: bool,
    dating: Dating,
    part: Part,
    /// `--decode-log-interval`, where the log prints the server's arguments.
    interval: Option<u32>,
    replicas: BTreeMap<u16, Replica>,
    /// End of the row written last, by replica.
    last_end_ns: BTreeMap<u16, i64>,
    counts: Counts,
}

impl Log {
    fn new(path: &Path, strict: bool, dating: Dating) -> Self {
        let mut part = Part::default();
        part.engine.name = Some("sglang".into());
        Self {
            path: path.to_owned(),
            strict,
            dating,
            part,
            interval: None,
            replicas: BTreeMap::new(),
            last_end_ns: BTreeMap::new(),
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
            Ok(text) => text,
            Err(problem) => return self.skip(number, "lines", problem.into()),
        };
        let line = match parse_line(text) {
            Ok(line) => line,
            Err(_) if !ended => {
                return self.skip(number, "lines", "was cut off; expected a whole line".into());
            }
            Err(problem) => return self.skip(number, "lines", problem),
        };
        if line.event == Event::Other {
            self.counts.others += 1;
            self.note_settings(text);
            return Ok(());
        }
        let written = match line.local {
            Some(local) => {
                self.counts.fine_stamps |= local.subsec_nanosecond() != 0;
                self.dating.dated(local).map_err(|message| self.error(Some(number), message))?
            }
            None => match self.dating.unstamped() {
                Some(written) => written,
                None => {
                    let message = "has no time; expected \"[2025-01-15 12:34:56] …\"".to_owned();
                    return self.skip(number, "lines without a time", message);
                }
            },
        };
        let t_ns = written.stamp_ns;
        match line.event {
            Event::Decode(batch) => self.decode(number, line.rank, written, &batch, sink),
            Event::Prefill(batch) => self.prefill(line.rank, t_ns, &batch, sink),
            Event::Retracted(batch) => metrics("retract", line.rank, t_ns, &batch, sink),
            Event::Ready => {
                self.part.stages.ready.get_or_insert(TimestampNs::from_nanos(t_ns));
                Ok(())
            }
            Event::Other => Ok(()),
        }
    }

    /// The replica that a line is of; `None` where another rank of it writes the same lines.
    fn replica(&mut self, rank: Rank) -> Option<&mut Replica> {
        let replica = self.replicas.entry(rank.data.unwrap_or(0)).or_default();
        let own = *replica.rank.get_or_insert((rank.tensor, rank.pipeline));
        if own == (rank.tensor, rank.pipeline) {
            Some(replica)
        } else {
            self.counts.other_ranks += 1;
            None
        }
    }

    fn prefill(
        &mut self,
        rank: Rank,
        t_ns: i64,
        batch: &Batch,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let Some(replica) = self.replica(rank) else { return Ok(()) };
        let tokens = batch.count("#new-token").unwrap_or(0);
        replica.prefill_tokens = replica.prefill_tokens.saturating_add(tokens);
        self.counts.prefill += 1;
        metrics("prefill", rank, t_ns, batch, sink)
    }

    fn decode(
        &mut self,
        number: u64,
        rank: Rank,
        written: Written,
        batch: &Batch,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let t_ns = written.stamp_ns;
        let running = batch.count("#running-req");
        let throughput = batch.number("gen throughput (token/s)").filter(|rate| *rate >= 0.0);
        let (Some(running), Some(throughput)) = (running, throughput) else {
            let message =
                "has no \"#running-req\" or no \"gen throughput (token/s)\"; expected both";
            return self.skip(number, "lines", message.into());
        };
        let interval = self.interval.unwrap_or(DEFAULT_INTERVAL);
        let fine = self.counts.fine_stamps;
        let Some(replica) = self.replica(rank) else { return Ok(()) };
        let counted = batch.forward_count.zip(replica.forward_count).and_then(|(now, before)| {
            u32::try_from(now.checked_sub(before)?).ok().filter(|count| *count > 0)
        });
        let iterations = counted.unwrap_or(interval);
        let since_ns =
            replica.last_ns.map(|last| t_ns.saturating_sub(last)).filter(|since| *since > 0);
        let per_step = f64::from(running) * batch.number("accept len").unwrap_or(1.0).max(1.0);
        // With fine stamps the rate times its interval is exact; with whole seconds the interval is not
        // known well enough, and the batch is taken to have stood as it was printed.
        let tokens = match since_ns.filter(|_| fine) {
            Some(since_ns) => throughput * since_ns as f64 / 1e9,
            None => per_step * f64::from(iterations),
        };
        let new_tokens = tokens.round().min(f64::from(u32::MAX)) as u32;
        let elapsed_ns = match since_ns.filter(|_| fine) {
            Some(since_ns) => Some(since_ns),
            None => quantity::nanos(tokens / throughput, "s").ok(),
        };
        let line = DecodeLine {
            step: replica.steps,
            iterations,
            running,
            new_tokens,
            history_tokens: history(batch, iterations, new_tokens),
            prefill_tokens: std::mem::take(&mut replica.prefill_tokens),
            graph_mode: batch
                .graph
                .map(|graph| if graph { GraphMode::Graph } else { GraphMode::Eager }),
        };
        replica.steps += u64::from(iterations);
        replica.last_ns = Some(t_ns);
        replica.forward_count = batch.forward_count.or(replica.forward_count);
        let settled = match elapsed_ns {
            Some(elapsed_ns) if !fine => replica.times.push(written, elapsed_ns, line),
            _ => {
                let t_start_ns =
                    elapsed_ns.map_or(t_ns, |elapsed_ns| t_ns.saturating_sub(elapsed_ns));
                vec![(StepTime { t_start_ns, t_end_ns: t_ns, uncertainty_ns: 0 }, line)]
            }
        };
        self.counts.counted |= counted.is_some();
        self.write(rank.data.unwrap_or(0), settled, sink)?;
        metrics("decode", rank, t_ns, batch, sink)
    }

    fn write(
        &mut self,
        replica: u16,
        settled: Vec<(StepTime, DecodeLine)>,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        for (time, line) in settled {
            self.counts.decode += 1;
            self.counts.uncertainty_ns = self.counts.uncertainty_ns.max(time.uncertainty_ns);
            // A duration that follows from the printed batch may be too long where the batch changed.
            let earliest_ns = self.last_end_ns.insert(replica, time.t_end_ns).unwrap_or(i64::MIN);
            let t_start_ns = time.t_start_ns.max(earliest_ns);
            sink.step(StepRow {
                step: line.step,
                replica,
                t_start_ns: (t_start_ns < time.t_end_ns).then_some(t_start_ns),
                t_end_ns: time.t_end_ns,
                active_sequences: line.running,
                new_tokens: line.new_tokens,
                history_tokens: line.history_tokens,
                max_sequence_tokens: None,
                prefill_tokens: line.prefill_tokens,
                iterations: line.iterations,
                active_experts: None,
                graph_mode: line.graph_mode,
            })?;
        }
        Ok(())
    }

    /// The server prints its arguments as it starts.
    fn note_settings(&mut self, text: &str) {
        let Some((_, arguments)) = text.split_once("server_args=ServerArgs(") else { return };
        let number = |name: &str| {
            assigned(arguments, name).and_then(|text| text.parse::<u32>().ok()).filter(|n| *n > 0)
        };
        self.interval = number("decode_log_interval");
        self.part.engine.tensor_parallel = number("tp_size");
        self.part.engine.replicas = number("dp_size");
        if let Some(model) = assigned(arguments, "model_path") {
            model.clone_into(&mut self.part.model.name);
        }
    }

    fn finish(mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let mut overlapping = 0;
        for (id, mut replica) in std::mem::take(&mut self.replicas) {
            let settled = replica.times.finish();
            overlapping += replica.times.overlapping;
            self.write(id, settled, sink)?;
        }
        let counts = &self.counts;
        if counts.decode == 0 && counts.prefill == 0 {
            return Err(self.error(
                None,
                "holds no batch line of SGLang with a time; expected \"[2025-01-15 12:34:56] Decode batch. \
                 #running-req: …\"",
            ));
        }
        let resolution_ns = if counts.fine_stamps { SECOND_NS / 1000 } else { SECOND_NS };
        self.part.clock = self.dating.clock(resolution_ns.unsigned_abs());
        self.part.clock.uncertainty_ns = (!counts.fine_stamps).then_some(counts.uncertainty_ns);
        self.part.notes.extend(self.dating.notes());
        let interval = match (self.interval, counts.counted) {
            (_, true) => "as many iterations as its forward counts say".to_owned(),
            (Some(interval), false) => {
                format!("{interval} iterations, as the server's arguments say")
            }
            (None, false) => {
                format!("{DEFAULT_INTERVAL} iterations, the default of --decode-log-interval")
            }
        };
        let tokens = if counts.fine_stamps {
            "tokens are the printed rate times the time since the line before"
        } else {
            "tokens are the printed batch times iterations, since stamps have whole seconds \
             (SGLANG_LOG_MS=1 gives finer ones)"
        };
        self.part.notes.push(format!(
            "{} decode lines: each row covers {interval}; {tokens}; history lengths follow from #token at the \
             end of the row",
            counts.decode
        ));
        for (count, what) in [
            (
                counts.other_ranks,
                "lines of further ranks of the same replica, which repeat the first",
            ),
            (
                overlapping,
                "rows whose printed batch and rate take longer than the stamps leave room for, cut to \
                 begin where the row before ends",
            ),
            (counts.others, "other lines, not read"),
        ] {
            if count > 0 {
                self.part.notes.push(format!("{what}: {count}"));
            }
        }
        sink.end(self.part)
    }
}

/// Histories summed over the iterations of a row: `#token` is the context of all sequences after the last
/// of them, and it grew by the row's tokens, so before the tokens of iteration k of n it was
/// `#token - new_tokens * (n - k + 1) / n`; summed, `n * #token - new_tokens * (n + 1) / 2`.
fn history(batch: &Batch, iterations: u32, new_tokens: u32) -> Option<u64> {
    let context = batch.number("#token").or_else(|| batch.number("#full token"))?;
    let grown = f64::from(new_tokens) * (f64::from(iterations) + 1.0) / 2.0;
    let history = f64::from(iterations) * context - grown;
    // A batch that began within the row would come out below zero.
    (0.0..1e18).contains(&history).then_some(history.round() as u64)
}

/// Every number of a line as an engine metric.
fn metrics(
    kind: &str,
    rank: Rank,
    t_ns: i64,
    batch: &Batch,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    let labels = rank.data.map(|data| format!("dp_rank=\"{data}\""));
    for (key, number) in &batch.numbers {
        let name = format!("{kind}_{}", slug(key));
        sink.engine(EngineRow { t_ns, name, labels: labels.clone(), value: Some(*number) })?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
