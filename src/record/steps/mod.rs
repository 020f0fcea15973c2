//! Decode iterations from the logs of engines, read while they are written.
//!
//! A line is read by the same rules as when the log is imported later. Its stamp is of this machine's wall
//! clock, and becomes run time by the pair of clocks that is read at every look; the look also bounds when
//! the line was written, which stamps of whole seconds alone do not.

mod specification;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wattrace_trace::format::{self, Line, LogReader, Part, Seen, StepLog, detect_step_log};
use wattrace_trace::{AccuracyWriteRow, EngineRow, PowerRow, RequestRow, StepRow, TraceError};

use crate::Context;
use crate::clock::ClockPair;
use crate::http::{Address, HttpOptions};
use crate::metrics::Endpoint;

pub use specification::{LogPlace, StepsSpecification};
use tail::{Tail, TailCounts, TailLine};

/// Time between looks at a log.
const POLL_NS: i64 = 200_000_000;

/// Steps are given once this much of the log behind them is known.
const SETTLED_NS: i64 = 3_000_000_000;

/// How much of what was in a log before the recording is looked at for settings.
const HEAD_BYTES: u64 = 256 << 10;

/// What counts failures of this part.
const SOURCE: &str = "steps";

/// A log to follow, or an engine to ask.
#[derive(Debug)]
pub struct StepsSource {
    path: PathBuf,
    log: Option<&'static StepLog>,
    from: From,
}

#[derive(Debug)]
enum From {
    /// A log, and the beginning of what was in it before.
    Tail { tail: Tail, head: Vec<u8> },
    /// An engine, and the time between questions.
    Endpoint { endpoint: Endpoint, interval: Duration },
}

impl StepsSource {
    /// Follows a log of which every line belongs to the recording, such as the output of the command that
    /// is run.
    #[must_use]
    pub fn from_start(path: &Path, log: Option<&'static StepLog>) -> Self {
        let from = From::Tail { tail: Tail::from_start(path), head: Vec::new() };
        Self { path: path.to_owned(), log, from }
    }

    /// Follows a log from where it ends now, or from its start if it is not there yet.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn from_end(path: &Path, log: Option<&'static StepLog>) -> io::Result<Self> {
        let (tail, head) = Tail::from_end(path, HEAD_BYTES)?;
        Ok(Self { path: path.to_owned(), log, from: From::Tail { tail, head } })
    }

    /// Asks an engine for statistics that it gives once; nobody else may ask it then.
    ///
    /// # Errors
    /// What is wrong with the certificates to trust.
    pub fn from_address(
        address: &Address,
        http: &HttpOptions,
        interval: Duration,
        log: Option<&'static StepLog>,
    ) -> Result<Self, String> {
        let from = From::Endpoint { endpoint: Endpoint::new(address, http)?, interval };
        Ok(Self { path: address.authority().into(), log, from })
    }
}

/// Reads until the recording stops, and a last time then. The log is the one of number `index` among `of`
/// that are read; each has replicas of its own.
pub fn run(context: &Arc<Context>, source: StepsSource, index: u16, of: u16) {
    let StepsSource { path, log, from } = source;
    let mut follower = Follower::new(context, &path, log);
    follower.rows.replicas = Replicas { index, of };
    match from {
        From::Tail { tail, head } => {
            follower.take_head(&head);
            follow(context, follower, tail);
        }
        From::Endpoint { endpoint, interval } => ask(context, follower, endpoint, interval),
    }
}

fn follow(context: &Context, mut follower: Follower<'_>, mut tail: Tail) {
    let clock = context.clock.clock();
    loop {
        let next_ns = clock.monotonic_ns() + POLL_NS;
        follower.look();
        let read = tail.read(&mut |line| follower.line(line));
        follower.count_error(&read);
        if follower.hand_over().is_err() || clock.wait(&context.stop, next_ns) {
            break;
        }
    }
    follower.look();
    let read = tail.finish(&mut |line| follower.line(line));
    follower.count_error(&read);
    follower.finish(read.unwrap_or_default(), None);
}

fn ask(context: &Context, mut follower: Follower<'_>, mut endpoint: Endpoint, interval: Duration) {
    let clock = context.clock.clock();
    let interval_ns = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
    loop {
        let next_ns = clock.monotonic_ns().saturating_add(interval_ns);
        follower.question(context, &mut endpoint);
        if follower.hand_over().is_err() || clock.wait(&context.stop, next_ns) {
            break;
        }
    }
    // What came since; an engine that is gone need not be waited for.
    if endpoint.is_up() {
        follower.question(context, &mut endpoint);
    }
    let summary = endpoint.summary(context, SOURCE);
    follower.finish(TailCounts::default(), Some(summary));
}

/// A log and what was read of it.
struct Follower<'a> {
    context: &'a Context,
    path: &'a Path,
    log: Option<&'static StepLog>,
    reader: Option<Box<dyn LogReader>>,
    seen: Seen,
    /// Lines so far, and how many of them came before the format was known.
    lines: u64,
    before: u64,
    too_long: u64,
    rows: RowSink,
}

impl<'a> Follower<'a> {
    fn new(context: &'a Context, path: &'a Path, log: Option<&'static StepLog>) -> Self {
        let now_ns = context.clock.now().nanos();
        Self {
            context,
            path,
            log,
            reader: log.map(|log| (log.follow)(path)),
            seen: Seen { since_ns: now_ns, at_ns: now_ns, wall_offset_ns: 0 },
            lines: 0,
            before: 0,
            too_long: 0,
            rows: RowSink::default(),
        }
    }

    /// Reads the clocks: lines that are read from here on were there by now.
    fn look(&mut self) {
        let pair = ClockPair::take(self.context.clock.clock());
        let at_ns = self.context.clock.run_time_ns(pair.monotonic_ns);
        self.seen = Seen {
            since_ns: self.seen.at_ns,
            at_ns,
            wall_offset_ns: at_ns.saturating_sub(pair.wall_ns),
        };
    }

    /// Takes settings from what was there before the recording.
    fn take_head(&mut self, head: &[u8]) {
        for line in head.split(|byte| *byte == b'\n') {
            self.find_format(line);
            if let (Some(reader), Ok(text)) = (&mut self.reader, std::str::from_utf8(line)) {
                reader.settings(text);
            }
        }
    }

    fn find_format(&mut self, line: &[u8]) {
        if self.log.is_none() {
            self.log = detect_step_log(self.path, line);
            self.reader = self.log.map(|log| (log.follow)(self.path));
        }
    }

    fn line(&mut self, line: TailLine<'_>) {
        self.lines += 1;
        let (bytes, ended) = match line {
            TailLine::Whole(bytes) => (bytes, true),
            TailLine::Cut(bytes) => (bytes, false),
            TailLine::TooLong => {
                self.too_long += 1;
                return;
            }
        };
        self.find_format(bytes);
        let Some(reader) = &mut self.reader else {
            self.before += 1;
            return;
        };
        let text = std::str::from_utf8(bytes).map(|text| text.trim_end_matches('\r'));
        let line = Line { number: self.lines, text: text.map_err(|_| "is not UTF-8 text"), ended };
        if let Err(error) = reader.line(line, self.seen, &mut self.rows) {
            self.fail(&error);
        }
    }

    /// Asks once; the answer is one line.
    fn question(&mut self, context: &Context, endpoint: &mut Endpoint) {
        let answer = endpoint.ask();
        self.look();
        match answer {
            Ok(text) => {
                endpoint.answered(context, SOURCE);
                self.line(TailLine::Whole(text.as_bytes()));
            }
            Err(cause) => endpoint.failed(cause),
        }
    }

    fn fail(&self, error: &TraceError) {
        self.context.count_failure(SOURCE, &self.name(), &error.to_string());
    }

    fn count_error<T>(&self, read: &io::Result<T>) {
        if let Err(error) = read {
            self.context.count_failure(SOURCE, &self.name(), &error.kind().to_string());
        }
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Gives the steps whose times are settled to the recording.
    fn hand_over(&mut self) -> Result<(), crate::Closed> {
        if let Some(reader) = &mut self.reader {
            let horizon_ns = self.seen.at_ns.saturating_sub(SETTLED_NS);
            if let Err(error) = reader.settle(horizon_ns, &mut self.rows) {
                self.fail(&error);
            }
        }
        self.rows.hand_over(self.context)
    }

    /// Gives what is left, and says in the notes of the run what was read.
    fn finish(mut self, counts: TailCounts, summary: Option<String>) {
        let name = self.name();
        let mut notes: Vec<String> = summary.into_iter().collect();
        if let Some(reader) = self.reader.take() {
            match reader.finish(&mut self.rows) {
                Ok(()) => notes.extend(self.rows.part_notes(self.path)),
                Err(error) => notes.push(error.to_string()),
            }
        } else {
            notes.push("no line of an engine that is known was seen".to_owned());
        }
        for (count, what) in [
            (self.before, "lines before the first of a known engine, not read"),
            (self.too_long, "lines of more than 1 MiB, not read"),
            (counts.replaced, "times another file took its name and was read from its start"),
            (counts.truncated, "times it was cut and read from its start"),
        ] {
            if count > 0 {
                notes.push(format!("{what}: {count}"));
            }
        }
        // What is not taken any more was said by whoever closed the sink.
        let _ = self.rows.hand_over(self.context);
        let engine = self.log.map_or("unknown", |log| log.name);
        for note in notes {
            self.context.note(format!("steps from {name} ({engine}): {note}"));
        }
    }
}

/// Rows that wait for the end of a look.
#[derive(Debug, Default)]
struct RowSink {
    steps: Vec<StepRow>,
    engine: Vec<EngineRow>,
    part: Option<Part>,
    replicas: Replicas,
}

/// Which of several logs this is: the replicas that each of them counts from zero are told apart.
#[derive(Debug, Clone, Copy)]
struct Replicas {
    index: u16,
    of: u16,
}

impl Default for Replicas {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl Replicas {
    const fn number(self, in_log: u16) -> u16 {
        in_log.saturating_mul(self.of).saturating_add(self.index)
    }
}

impl RowSink {
    fn hand_over(&mut self, context: &Context) -> Result<(), crate::Closed> {
        if !self.steps.is_empty() {
            context.sink.steps(self.steps.drain(..))?;
        }
        if !self.engine.is_empty() {
            context.sink.engine(self.engine.drain(..))?;
        }
        Ok(())
    }

    /// What the log says besides rows.
    fn part_notes(&self, path: &Path) -> Vec<String> {
        let Some(part) = &self.part else { return Vec::new() };
        let engine = &part.engine;
        let version = engine.version.as_ref().map(|version| format!("its version is {version}"));
        version.into_iter().chain(part.skipped.notes(path)).chain(part.notes.clone()).collect()
    }
}

impl format::Sink for RowSink {
    fn begin(&mut self, _: &str) -> Result<(), TraceError> {
        Ok(())
    }

    /// Logs of engines hold none.
    fn power(&mut self, _: PowerRow) -> Result<(), TraceError> {
        Ok(())
    }

    /// Requests are recorded where they are sent, not here.
    fn request(&mut self, _: RequestRow) -> Result<(), TraceError> {
        Ok(())
    }

    fn step(&mut self, row: StepRow) -> Result<(), TraceError> {
        self.steps.push(StepRow { replica: self.replicas.number(row.replica), ..row });
        Ok(())
    }

    fn engine(&mut self, row: EngineRow) -> Result<(), TraceError> {
        self.engine.push(row);
        Ok(())
    }

    fn accuracy(&mut self, _: AccuracyWriteRow) -> Result<(), TraceError> {
        Ok(())
    }

    fn end(&mut self, part: Part) -> Result<(), TraceError> {
        self.part = Some(part);
        Ok(())
    }
}
