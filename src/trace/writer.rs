//! Writes runs: rows in, Parquet files and `run.json` out.

mod segment;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use wattrace_schema::tables::{ACCURACY, ENGINE, POWER, REQUESTS, STEPS};
use wattrace_schema::{GraphMode, RequestStage, RequestStatus, RunManifest, SCHEMA_VERSION, Table};

use crate::TraceError;
use crate::manifest::{RUN_JSON, validate_manifest};
use table::{Cell, TableWriter};

pub use segment::{
    JoinedRows, SegmentRows, last_formal_end, last_power_times, merge_segments, segment_entry,
    write_segment,
};

/// One row of `power.parquet`. Whoever makes rows of a few devices for days lets them share their names
/// (`Text` is then `Arc<str>`).
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "each field is the column that it names")]
pub struct PowerRow<Text = String> {
    pub t_ns: i64,
    pub source: Text,
    pub device: Text,
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

impl<Text: AsRef<str>> PowerRow<Text> {
    /// The cells in the order of the table's columns.
    fn cells(&self) -> [Cell<'_>; 12] {
        [
            Cell::Time(Some(self.t_ns)),
            Cell::Text(Some(self.source.as_ref())),
            Cell::Text(Some(self.device.as_ref())),
            Cell::F64(self.power_w),
            Cell::F64(self.energy_j),
            Cell::F32(self.temperature_c),
            Cell::U32(self.sm_clock_mhz),
            Cell::U32(self.mem_clock_mhz),
            Cell::U64(self.memory_used_bytes),
            Cell::F32(self.utilization_percent),
            Cell::U64(self.throttle_reasons),
            Cell::U64(self.read_ns),
        ]
    }
}

impl RequestRow {
    /// The cells in the order of the table's columns.
    fn cells(&self) -> [Cell<'_>; 14] {
        [
            Cell::Text(Some(&self.request_id)),
            Cell::Text(Some(self.stage.name())),
            Cell::Time(self.t_send_ns),
            Cell::Time(self.t_first_token_ns),
            Cell::Time(self.t_end_ns),
            Cell::Text(Some(self.status.name())),
            Cell::Text(self.error.as_deref()),
            Cell::U32(self.input_tokens),
            Cell::U32(self.output_tokens),
            Cell::U32(self.reasoning_tokens),
            Cell::ListU64(self.itl_ns.as_deref()),
            Cell::ListU32(self.itl_tokens.as_deref()),
            Cell::U64(self.ttft_ns),
            Cell::U64(self.e2e_ns),
        ]
    }
}

impl StepRow {
    /// The cells in the order of the table's columns.
    fn cells(&self) -> [Cell<'_>; 12] {
        [
            Cell::U64(Some(self.step)),
            Cell::U16(self.replica),
            Cell::Time(self.t_start_ns),
            Cell::Time(Some(self.t_end_ns)),
            Cell::U32(Some(self.active_sequences)),
            Cell::U32(Some(self.new_tokens)),
            Cell::U64(self.history_tokens),
            Cell::U32(self.max_sequence_tokens),
            Cell::U32(Some(self.prefill_tokens)),
            // One iteration a row is the default, which an absent column says as well.
            Cell::U32((self.iterations != 1).then_some(self.iterations)),
            Cell::F32(self.active_experts),
            Cell::Text(self.graph_mode.map(GraphMode::name)),
        ]
    }
}

impl EngineRow {
    /// The cells in the order of the table's columns.
    fn cells(&self) -> [Cell<'_>; 4] {
        [
            Cell::Time(Some(self.t_ns)),
            Cell::Text(Some(&self.name)),
            Cell::Text(self.labels.as_deref()),
            Cell::F64(self.value),
        ]
    }
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
/// grow with the run; nothing appears under the run's name until [`RunWriter::finish`]. Until then the
/// files lie in a folder `.RUN_ID.partial` beside it, which is removed when the writer is dropped.
///
/// Equal rows give equal bytes: no file holds a date. Optional columns that never had a value are left
/// out, and so are tables without a row.
#[derive(Debug)]
pub struct RunWriter {
    run_id: String,
    folder: PathBuf,
    partial: PartialFolder,
    power: TableWriter,
    requests: TableWriter,
    steps: TableWriter,
    engine: TableWriter,
    accuracy: TableWriter,
    /// Sources that power rows named; each must be in run.json.
    sources: BTreeSet<String>,
}

/// A folder that is removed with whatever is in it, unless it was given its final name.
#[derive(Debug)]
struct PartialFolder {
    path: PathBuf,
    /// The archive, where it was made for this run.
    new_archive: Option<PathBuf>,
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        // After `finish` the folder has another name and there is nothing to remove; a failure to
        // remove leaves a folder that `check` reports as unfinished.
        let _ = fs::remove_dir_all(&self.path);
        // An archive that holds anything stays: only an empty folder can be removed so.
        if let Some(archive) = &self.new_archive {
            let _ = fs::remove_dir(archive);
        }
    }
}

impl RunWriter {
    /// Starts a run in a new folder below `archive`, named after its id.
    ///
    /// # Errors
    /// When the run exists already or the folder cannot be made.
    pub fn create(archive: &Path, run_id: &str) -> Result<Self, TraceError> {
        check_run_id(run_id)?;
        let folder = archive.join(run_id);
        if fs::symlink_metadata(&folder).is_ok() {
            return Err(TraceError::RunExists { path: folder });
        }
        let new_archive = (!archive.exists()).then(|| archive.to_owned());
        fs::create_dir_all(archive).map_err(TraceError::io("create folder", archive))?;
        let partial = archive.join(format!(".{run_id}{PARTIAL_SUFFIX}"));
        fs::create_dir(&partial).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => {
                TraceError::PartialExists { path: partial.clone() }
            }
            _ => TraceError::io("create folder", &partial)(source),
        })?;
        let table = |table| TableWriter::new(table, &partial);
        Ok(Self {
            run_id: run_id.to_owned(),
            folder,
            power: table(&POWER),
            requests: table(&REQUESTS),
            steps: table(&STEPS),
            engine: table(&ENGINE),
            accuracy: table(&ACCURACY),
            partial: PartialFolder { path: partial, new_archive },
            sources: BTreeSet::new(),
        })
    }

    /// Takes less memory for requests whose gaps are known one by one, of which fewer go into a row group.
    #[must_use]
    pub const fn sparing_memory(mut self) -> Self {
        self.requests.spare_memory();
        self
    }

    /// Appends a row to `power.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::needless_pass_by_value, reason = "rows are handed over, as to any sink")]
    pub fn power(&mut self, row: PowerRow) -> Result<(), TraceError> {
        if !self.sources.contains(&row.source) {
            self.sources.insert(row.source.clone());
        }
        self.power.append(&row.cells())
    }

    /// Appends a row to `requests.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::needless_pass_by_value, reason = "rows are handed over, as to any sink")]
    pub fn request(&mut self, row: RequestRow) -> Result<(), TraceError> {
        self.requests.append(&row.cells())
    }

    /// Appends a row to `steps.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::needless_pass_by_value, reason = "rows are handed over, as to any sink")]
    pub fn step(&mut self, row: StepRow) -> Result<(), TraceError> {
        self.steps.append(&row.cells())
    }

    /// Appends a row to `engine.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::needless_pass_by_value, reason = "rows are handed over, as to any sink")]
    pub fn engine(&mut self, row: EngineRow) -> Result<(), TraceError> {
        self.engine.append(&row.cells())
    }

    /// Appends a row to `accuracy.parquet`.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::needless_pass_by_value, reason = "rows are handed over, as to any sink")]
    pub fn accuracy(&mut self, row: AccuracyWriteRow) -> Result<(), TraceError> {
        self.accuracy.append(&[
            Cell::Text(Some(&row.suite)),
            Cell::Text(Some(&row.item)),
            Cell::U32(Some(row.seed)),
            Cell::F64(row.score),
        ])
    }

    /// Writes any other file (`truth.json`, `spec.yaml`, `logs/server.log`) beside the tables.
    ///
    /// # Errors
    /// When the name leads out of the run's folder, is one of the run's own or was written already, or
    /// when the file cannot be written.
    pub fn extra_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), TraceError> {
        if let Some(problem) = file_name_problem(name) {
            return Err(TraceError::FileName { name: name.to_owned(), problem });
        }
        let path = self.partial.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(TraceError::io("create folder", parent))?;
        }
        let mut file = fs::File::create_new(&path).map_err(TraceError::io("create", &path))?;
        std::io::Write::write_all(&mut file, bytes).map_err(TraceError::io("write", &path))
    }

    /// Copies a file of any size to `name` beside the tables.
    ///
    /// # Errors
    /// As for [`RunWriter::extra_file`], and when `from` cannot be read.
    pub fn copy_extra_file(&mut self, name: &str, from: &Path) -> Result<(), TraceError> {
        // Made empty first, which settles whether the name can be used.
        self.extra_file(name, b"")?;
        fs::copy(from, self.partial.path.join(name)).map_err(TraceError::io("copy", from))?;
        Ok(())
    }

    /// Appends the rows of several files of one table that [`write_segment`] wrote, in the order of the
    /// table's sort key. Files are given in the order in which they were written;
    /// memory is needed for one file at a time and for the rows that are out of order.
    ///
    /// # Errors
    /// When a file cannot be read or the run's cannot be written.
    pub fn append_segments(
        &mut self,
        table: &'static Table,
        segments: &[PathBuf],
    ) -> Result<JoinedRows, TraceError> {
        let writer = match table.name {
            name if name == POWER.name => &mut self.power,
            name if name == REQUESTS.name => &mut self.requests,
            name if name == STEPS.name => &mut self.steps,
            name if name == ENGINE.name => &mut self.engine,
            _ => &mut self.accuracy,
        };
        let joined = segment::join(table, segments, writer)?;
        self.sources.extend(joined.sources.iter().cloned());
        Ok(joined)
    }

    /// Closes the tables, fills `manifest.files`, writes `run.json` last and gives the folder its name.
    ///
    /// # Errors
    /// When the manifest is not one that can be read back (a power source that rows name is missing, an
    /// id is repeated), when the run exists by now, or when a file cannot be written.
    pub fn finish(self, mut manifest: RunManifest) -> Result<PathBuf, TraceError> {
        self.check_manifest(&manifest)?;
        manifest.files = BTreeMap::new();
        for table in [self.power, self.requests, self.steps, self.engine, self.accuracy] {
            let name = table.file_name();
            if let Some(entry) = table.finish()? {
                manifest.files.insert(name.to_owned(), entry);
            }
        }
        let path = self.partial.path.join(RUN_JSON);
        let mut json = serde_json::to_string_pretty(&manifest).map_err(|error| {
            TraceError::Manifest { path: path.clone(), message: error.to_string() }
        })?;
        json.push('\n');
        fs::write(&path, json).map_err(TraceError::io("write", &path))?;
        // A rename replaces an empty folder without a word, so look once more.
        if fs::symlink_metadata(&self.folder).is_ok() {
            return Err(TraceError::RunExists { path: self.folder });
        }
        fs::rename(&self.partial.path, &self.folder)
            .map_err(TraceError::io("rename to its final name", &self.partial.path))?;
        Ok(self.folder)
    }

    fn check_manifest(&self, manifest: &RunManifest) -> Result<(), TraceError> {
        let unwritable =
            |message: String| TraceError::Unwritable { run_id: self.run_id.clone(), message };
        if manifest.run_id != self.run_id {
            return Err(unwritable(format!(
                "its manifest has run_id \"{}\"; expected the same id",
                manifest.run_id.escape_debug()
            )));
        }
        if manifest.schema_version != SCHEMA_VERSION {
            return Err(unwritable(format!(
                "key \"schema_version\" is {}; expected {SCHEMA_VERSION}",
                manifest.schema_version
            )));
        }
        validate_manifest(manifest).map_err(unwritable)?;
        for source in &self.sources {
            if !manifest.power_sources.iter().any(|declared| declared.id == *source) {
                return Err(unwritable(format!(
                    "power rows name source \"{}\", which power_sources does not list",
                    source.escape_debug()
                )));
            }
        }
        Ok(())
    }
}

/// Suffix of the folder of a run that is being written.
pub(crate) const PARTIAL_SUFFIX: &str = ".partial";

/// File systems allow 255 bytes; the partial folder's name takes nine more than the id.
const MAX_RUN_ID_BYTES: usize = 240;

fn check_run_id(run_id: &str) -> Result<(), TraceError> {
    let problem = if run_id.trim().is_empty() {
        "is empty"
    } else if run_id.contains(['/', '\\']) {
        "holds a path separator"
    } else if run_id.starts_with('.') {
        "starts with a dot"
    } else if run_id.chars().any(char::is_control) {
        "holds a control character"
    } else if run_id.len() > MAX_RUN_ID_BYTES {
        "is longer than 240 bytes"
    } else {
        return Ok(());
    };
    Err(TraceError::RunId { run_id: run_id.to_owned(), problem })
}

fn file_name_problem(name: &str) -> Option<&'static str> {
    let path = Path::new(name);
    if name.is_empty() {
        Some("the name is empty")
    } else if name.contains('\\') || name.chars().any(char::is_control) {
        Some("the name holds a backslash or a control character")
    } else if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        Some("the name leads out of the run's folder")
    } else if path.file_name().is_some_and(|file| file == RUN_JSON) {
        Some("run.json is written by finish")
    } else if path.extension().is_some_and(|extension| extension == "parquet") {
        Some("Parquet tables are written row by row")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
