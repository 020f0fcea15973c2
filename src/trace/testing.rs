//! Archives for this crate's tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;
use wattrace_schema::{FileEntry, RequestStage, RequestStatus, RunManifest, Table, TimestampNs};

use crate::digest::sha256_hex;
use crate::{PowerRow, RequestRow, RunLocation, RunWriter, StepRow, find_runs};

/// 2026-01-31T12:00:00Z.
pub(crate) const T0: i64 = 1_769_860_800_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000_000;

/// A serving run of two boards, with the one power source `nvml`, sampled each second.
pub(crate) fn manifest(run_id: &str) -> RunManifest {
    let mut manifest: RunManifest = serde_json::from_str(
        r#"{"schema_version": 1, "run_id": "", "kind": "serving", "model": {"name": "qwen-7b"},
            "hardware": {"accelerator": "H200", "count": 2},
            "power_sources": [{"id": "nvml", "scope": "gpu-board", "reading": "instant",
                               "nominal_interval_ms": 1000}]}"#,
    )
    .unwrap();
    manifest.run_id = run_id.to_owned();
    manifest
}

/// The time `seconds` after [`T0`].
pub(crate) fn stamp(seconds: i64) -> Option<TimestampNs> {
    Some(TimestampNs::from_nanos(T0 + seconds * SECOND))
}

pub(crate) fn power<Text>(seconds: i64, device: &str, power_w: f64) -> PowerRow<Text>
where
    Text: Default + for<'a> From<&'a str>,
{
    PowerRow {
        t_ns: T0 + seconds * SECOND,
        source: "nvml".into(),
        device: device.into(),
        power_w: Some(power_w),
        ..PowerRow::default()
    }
}

/// A successful formal request of three tokens: sent, first token after 100 ms, then two gaps of 50 ms.
pub(crate) fn request(seconds: i64, id: &str) -> RequestRow {
    let sent = T0 + seconds * SECOND;
    RequestRow {
        request_id: id.to_owned(),
        stage: RequestStage::Formal,
        t_send_ns: Some(sent),
        t_first_token_ns: Some(sent + 100_000_000),
        t_end_ns: Some(sent + 200_000_000),
        status: RequestStatus::Ok,
        error: None,
        input_tokens: Some(10),
        output_tokens: Some(3),
        reasoning_tokens: None,
        itl_ns: Some(vec![50_000_000, 50_000_000]),
        itl_tokens: None,
        ttft_ns: None,
        e2e_ns: None,
    }
}

/// The step that ends `number` + 1 seconds after [`T0`], a second long.
pub(crate) fn step(number: u64) -> StepRow {
    let start = T0 + number as i64 * SECOND;
    StepRow {
        step: number,
        replica: 0,
        t_start_ns: Some(start),
        t_end_ns: start + SECOND,
        active_sequences: 4,
        new_tokens: 4,
        history_tokens: Some(400 + number),
        max_sequence_tokens: None,
        prefill_tokens: 0,
        iterations: 1,
        active_experts: None,
        graph_mode: None,
    }
}

/// An archive in a folder that is removed at the end of the test.
pub(crate) struct TestArchive(TempDir);

impl TestArchive {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes the run `manifest.run_id`.
    pub(crate) fn write(
        &self,
        manifest: RunManifest,
        rows: impl FnOnce(&mut RunWriter),
    ) -> RunLocation {
        let mut writer = RunWriter::create(self.path(), &manifest.run_id).unwrap();
        rows(&mut writer);
        let run_id = manifest.run_id.clone();
        writer.finish(manifest).unwrap();
        self.location(&run_id)
    }

    pub(crate) fn location(&self, relative: &str) -> RunLocation {
        let runs = find_runs(self.path()).unwrap();
        runs.into_iter().find(|run| run.relative == relative).unwrap()
    }

    /// Makes a run by hand: `manifest` with an entry for each file, and the bytes of the files.
    pub(crate) fn write_files(
        &self,
        mut manifest: RunManifest,
        files: &[(&Table, Vec<u8>, u64)],
    ) -> RunLocation {
        let folder = self.path().join(&manifest.run_id);
        fs::create_dir_all(&folder).unwrap();
        for (table, bytes, rows) in files {
            fs::write(folder.join(table.file), bytes).unwrap();
            let entry = FileEntry { sha256: sha256_hex(bytes), rows: *rows };
            manifest.files.insert(table.file.to_owned(), entry);
        }
        let json = serde_json::to_string(&manifest).unwrap();
        fs::write(folder.join("run.json"), json).unwrap();
        self.location(&manifest.run_id)
    }

    /// Makes a run by hand with one table of these columns.
    pub(crate) fn write_table(
        &self,
        manifest: RunManifest,
        table: &Table,
        columns: &[(&str, ArrayRef)],
    ) -> RunLocation {
        let rows = columns.first().map_or(0, |(_, array)| array.len() as u64);
        self.write_files(manifest, &[(table, parquet_bytes(columns), rows)])
    }

    /// `text` with the archive's own path shortened to `ARCHIVE`.
    pub(crate) fn shown(&self, text: &impl ToString) -> String {
        let root = fs::canonicalize(self.path()).unwrap();
        text.to_string()
            .replace(&self.path().display().to_string(), "ARCHIVE")
            .replace(&root.display().to_string(), "ARCHIVE")
    }
}

/// A Parquet file of these columns, each nullable, as other tools write them.
pub(crate) fn parquet_bytes(columns: &[(&str, ArrayRef)]) -> Vec<u8> {
    let columns = columns.iter().map(|(name, array)| (*name, Arc::clone(array), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// Names of everything below `folder`, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Columns of a Parquet file, in order.
pub(crate) fn column_names(path: PathBuf) -> Vec<String> {
    let file = File::open(path).unwrap();
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    reader.schema().fields().iter().map(|field| field.name().clone()).collect()
}
