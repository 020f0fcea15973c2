//! Logs of decode iterations that are read while an engine writes them. The rules are those of the
//! importers: the same readers, fed line by line, which date lines by when they were seen.

use std::path::Path;

use super::{Format, Head, Line, Reader, Seen, Sink, llamacpp, sglang_log, vllm_log};
use crate::TraceError;

/// Reads a log line by line. Steps whose times are not settled yet are held back.
pub trait LogReader: Send {
    /// Takes from a line that was written before the recording what it says of the engine's settings; no
    /// row comes of it.
    fn settings(&mut self, text: &str);

    /// Takes a line that was just written.
    ///
    /// # Errors
    /// Those of `sink`.
    fn line(&mut self, line: Line<'_>, seen: Seen, sink: &mut dyn Sink) -> Result<(), TraceError>;

    /// Gives the steps that ended before `horizon_ns`, which should lie a few seconds back.
    ///
    /// # Errors
    /// Those of `sink`.
    fn settle(&mut self, horizon_ns: i64, sink: &mut dyn Sink) -> Result<(), TraceError>;

    /// Gives what was held back, and ends the part that the caller need not have begun.
    ///
    /// # Errors
    /// Those of `sink`, and a message if the log held nothing of its format.
    fn finish(self: Box<Self>, sink: &mut dyn Sink) -> Result<(), TraceError>;
}

/// A log of decode iterations.
#[derive(Debug, Clone, Copy)]
pub struct StepLog {
    /// The engine that writes it, as the command line names it.
    pub name: &'static str,
    /// Its importer.
    pub format: &'static Format,
    /// Begins to read the log at a path, which is for messages only.
    pub follow: fn(path: &Path) -> Box<dyn LogReader>,
}

/// Every such log, by name.
pub const STEP_LOGS: &[StepLog] = &[
    StepLog { name: "llamacpp", format: &llamacpp::FORMAT, follow: llamacpp::follow },
    StepLog { name: "sglang", format: &sglang_log::FORMAT, follow: sglang_log::follow },
    StepLog { name: "vllm", format: &vllm_log::FORMAT, follow: vllm_log::follow },
];

/// The log of that engine.
#[must_use]
pub fn find_step_log(name: &str) -> Option<&'static StepLog> {
    STEP_LOGS.iter().find(|log| log.name == name)
}

/// The log that `bytes`, whole lines of the file at `path`, are of.
#[must_use]
pub fn detect_step_log(path: &Path, bytes: &[u8]) -> Option<&'static StepLog> {
    let head = Head::new(path, bytes.to_vec());
    STEP_LOGS.iter().find(|log| match log.format.reader {
        Reader::Parts { detect, .. } => detect(&head).is_some(),
        Reader::Runs { .. } => false,
    })
}
