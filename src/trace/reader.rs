//! Reads the files of a run into [`Run`]: the only reader of Parquet.

use wattrace_schema::{Run, RunManifest};

use crate::{Finding, RunLocation, TraceError};

/// What to read.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// Compare each file's SHA-256 and row count with run.json.
    pub verify: bool,
    /// Read `accuracy.parquet` too.
    pub accuracy: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { verify: true, accuracy: false }
    }
}

/// A run, and what its files said that a reader must know.
#[derive(Debug)]
pub struct LoadedRun {
    /// The rows, clean and in canonical order.
    pub run: Run,
    /// What was found while reading.
    pub findings: Vec<Finding>,
}

/// Reads `run.json` alone.
///
/// # Errors
/// When the file cannot be read or is not valid.
pub fn read_manifest(_location: &RunLocation) -> Result<RunManifest, TraceError> {
    Err(TraceError::Other("not built yet".into()))
}

/// Reads a whole run.
///
/// # Errors
/// When a file cannot be read or breaks the contract in a way that leaves no honest value.
pub fn read_run(_location: &RunLocation, _options: ReadOptions) -> Result<LoadedRun, TraceError> {
    Err(TraceError::Other("not built yet".into()))
}
