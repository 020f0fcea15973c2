//! The server's log, read while it is written.

use std::path::{Path, PathBuf};

use super::super::dating::Uptime;
use super::super::follow::LogReader;
use super::super::log_line::plain;
use super::super::{Line, Part, Seen, Sink};
use super::log::{self, Facts};
use super::steps::StepScan;
use crate::{StepRow, TraceError};

/// A stamp that lies further than this before the one ahead of it is of another start of the server.
const RESTART_NS: i64 = 1_000_000_000;

/// Reads a log while it is written.
pub(in super::super) fn follow(path: &Path) -> Box<dyn LogReader> {
    Box::new(Log {
        path: path.to_owned(),
        scan: StepScan::default(),
        uptime: Uptime::default(),
        uncertainty_ns: 0,
        restarts: 0,
        last_ns: 0,
        held: Vec::new(),
        last_end_ns: i64::MIN,
        facts: Facts::default(),
        part: Part::default(),
        steps: 0,
        unstamped: 0,
    })
}

struct Log {
    path: PathBuf,
    scan: StepScan,
    uptime: Uptime,
    /// How far the starts before this one may be misplaced.
    uncertainty_ns: u64,
    /// How often the server was started again.
    restarts: u64,
    /// Time of the last line, on the clock of the log.
    last_ns: i64,
    /// Steps on the clock of the log, whose place is known better by the lines after them.
    held: Vec<StepRow>,
    last_end_ns: i64,
    facts: Facts,
    part: Part,
    steps: u64,
    unstamped: u64,
}

impl Log {
    /// The server was started again and counts from zero: what was read belongs to the start before.
    fn restart(&mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        self.held.extend(self.scan.end(self.last_ns));
        self.write(self.held.len(), sink)?;
        self.scan = self.scan.of_next_start();
        self.uncertainty_ns = self.uncertainty_ns.max(self.uptime.uncertainty_ns());
        self.uptime = Uptime::default();
        self.restarts += 1;
        Ok(())
    }

    fn write(&mut self, count: usize, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let offset_ns = self.uptime.offset_ns();
        for mut row in self.held.drain(..count) {
            // Where the clock of the log lies is known a little better with every line.
            let end_ns = row.t_end_ns.saturating_add(offset_ns).max(self.last_end_ns);
            let start_ns = row.t_start_ns.map(|start| start.saturating_add(offset_ns));
            row.t_start_ns = start_ns.map(|start| start.max(self.last_end_ns));
            row.t_end_ns = end_ns;
            self.last_end_ns = end_ns;
            self.steps += 1;
            sink.step(row)?;
        }
        Ok(())
    }
}

impl LogReader for Log {
    fn settings(&mut self, text: &str) {
        self.facts.take(log::Line::parse(text).body);
    }

    fn line(&mut self, line: Line<'_>, seen: Seen, sink: &mut dyn Sink) -> Result<(), TraceError> {
        // Prompts are printed as they are; bytes that are no text hold no timing.
        let Ok(text) = line.text else { return Ok(()) };
        let text = plain(text);
        let parsed = log::Line::parse(&text);
        self.facts.take(parsed.body);
        let Some(uptime_ns) = parsed.uptime_ns else {
            self.unstamped += 1;
            return Ok(());
        };
        // Threads print in turn, so that stamps may step back a little.
        if uptime_ns < self.last_ns.saturating_sub(RESTART_NS) {
            self.restart(sink)?;
        }
        self.uptime.see(uptime_ns, seen);
        self.last_ns = uptime_ns;
        self.held.extend(self.scan.line(parsed, uptime_ns));
        Ok(())
    }

    fn settle(&mut self, horizon_ns: i64, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let offset_ns = self.uptime.offset_ns();
        let is_before = |row: &&StepRow| row.t_end_ns.saturating_add(offset_ns) < horizon_ns;
        self.write(self.held.iter().take_while(is_before).count(), sink)
    }

    fn finish(mut self: Box<Self>, sink: &mut dyn Sink) -> Result<(), TraceError> {
        self.held.extend(self.scan.end(self.last_ns));
        self.write(self.held.len(), sink)?;
        if self.steps == 0 {
            return Err(TraceError::Format {
                path: self.path,
                line: None,
                message: "holds no decode iteration of llama.cpp; expected lines of high verbosity, such \
                          as \"srv update_slots: posting NEXT_RESPONSE\""
                    .into(),
            });
        }
        let mut part = self.part;
        part.engine.name = Some("llama.cpp".into());
        part.engine.version = self.facts.version;
        part.model = self.facts.model;
        part.notes.push(format!(
            "{} steps; stamps count from the server's start, which was placed to {} ms by when lines were \
             seen",
            self.steps,
            self.uncertainty_ns.max(self.uptime.uncertainty_ns()).div_ceil(1_000_000)
        ));
        if self.restarts > 0 {
            part.notes.push(format!(
                "the server was started again while its log was followed: {} times; the steps of each start \
                 are placed by the lines of that start",
                self.restarts
            ));
        }
        if self.unstamped > 0 {
            part.notes.push(format!("lines without a stamp, not read: {}", self.unstamped));
        }
        sink.end(part)
    }
}
