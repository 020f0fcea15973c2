//! Writes runs: rows in, Parquet files and `run.json` out.

use std::path::{Path, PathBuf};

use wattrace_schema::{GraphMode, RequestStage, RequestStatus, RunManifest};

use crate::TraceError;

/// One row of `power.parquet`.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "each field is the column that it names")]
pub struct PowerRow {
    pub t_ns: i64,
    pub source: String,
    pub device: String,
    pub power_w: Option<f64>,
    pub energy_j: Option<f64>,
    pub temperature_c: Option<f32>,
    pub sm_clock_mhz: Option<u32>,
    pub mem_clock_mhz: Option<u32>,
    pub memory_used_bytes: Option<u64>,
    pub utilization_percent: Option<f32>,
    pub throttle_reasons: Option<u64>,
    pub read_ns: Option<u64>,
}

/// One row of `requests.parquet`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is the column that it names")]
pub struct RequestRow {
    pub request_id: String,
    pub stage: RequestStage,
    pub t_send_ns: Option<i64>,
    pub t_first_token_ns: Option<i64>,
    pub t_end_ns: Option<i64>,
    pub status: RequestStatus,
    pub error: Option<String>,
    pub input_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub reasoning_tokens: Option<u32>,
    pub itl_ns: Option<Vec<u64>>,
    pub itl_tokens: Option<Vec<u32>>,
    pub ttft_ns: Option<u64>,
    pub e2e_ns: Option<u64>,
}

/// One row of `steps.parquet`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is the column that it names")]
pub struct StepRow {
    pub step: u64,
    pub replica: u16,
    pub t_start_ns: Option<i64>,
    pub t_end_ns: i64,
    pub active_sequences: u32,
    pub new_tokens: u32,
    pub history_tokens: Option<u64>,
    pub max_sequence_tokens: Option<u32>,
    pub prefill_tokens: u32,
    pub iterations: u32,
    pub active_experts: Option<f32>,
    pub graph_mode: Option<GraphMode>,
}

/// One row of `engine.parquet`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is the column that it names")]
pub struct EngineRow {
    pub t_ns: i64,
    pub name: String,
    pub labels: Option<String>,
    pub value: Option<f64>,
}

/// One row of `accuracy.parquet`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is the column that it names")]
pub struct AccuracyWriteRow {
    pub suite: String,
    pub item: String,
    pub seed: u32,
    pub score: Option<f64>,
}

/// Writes one run. Rows are buffered to row groups and written as they come, so that memory does not
/// grow with the run; nothing appears under the run's name until [`RunWriter::finish`].
#[derive(Debug)]
pub struct RunWriter {
    _folder: PathBuf,
}

impl RunWriter {
    /// Starts a run in a new folder below `archive`, named after its id.
    ///
    /// # Errors
    /// When the run exists already or the folder cannot be made.
    pub fn create(_archive: &Path, _run_id: &str) -> Result<Self, TraceError> {
        Err(TraceError::Other("not built yet".into()))
    }

    /// Appends a row to `power.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn power(&mut self, _row: PowerRow) -> Result<(), TraceError> {
        Ok(())
    }

    /// Appends a row to `requests.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn request(&mut self, _row: RequestRow) -> Result<(), TraceError> {
        Ok(())
    }

    /// Appends a row to `steps.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn step(&mut self, _row: StepRow) -> Result<(), TraceError> {
        Ok(())
    }

    /// Appends a row to `engine.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn engine(&mut self, _row: EngineRow) -> Result<(), TraceError> {
        Ok(())
    }

    /// Appends a row to `accuracy.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn accuracy(&mut self, _row: AccuracyWriteRow) -> Result<(), TraceError> {
        Ok(())
    }

    /// Writes any other file (`truth.json`, `spec.yaml`, `logs/server.log`) beside the tables.
    ///
    /// # Errors
    /// When the name leads out of the run's folder or the file cannot be written.
    pub fn extra_file(&mut self, _name: &str, _bytes: &[u8]) -> Result<(), TraceError> {
        Ok(())
    }

    /// Closes the tables, fills `manifest.files`, writes `run.json` last and gives the folder its name.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish(self, _manifest: RunManifest) -> Result<PathBuf, TraceError> {
        Err(TraceError::Other("not built yet".into()))
    }
}
