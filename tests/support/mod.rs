//! Archives for tests, built column by column so that any column can be broken, and the program itself.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::print_stdout,
    reason = "each test program uses the part that it needs"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array,
};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub const SECOND: i64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z.
pub const EPOCH: i64 = 1_767_225_600 * SECOND;

/// A time in seconds after [`EPOCH`] as nanoseconds.
pub fn at(seconds: f64) -> i64 {
    EPOCH + (seconds * 1e9).round() as i64
}

/// The same as RFC 3339 text.
pub fn stamp(seconds: f64) -> String {
    wattrace_schema::TimestampNs::from_nanos(at(seconds)).to_string()
}

/// Columns of one Parquet file, in file order.
#[derive(Clone)]
pub struct Columns(pub Vec<(String, ArrayRef, bool)>);

impl Columns {
    pub fn set(&mut self, name: &str, array: ArrayRef) {
        let nullable = array.null_count() > 0;
        match self.0.iter_mut().find(|(known, _, _)| known == name) {
            Some(column) => (column.1, column.2) = (array, column.2 || nullable),
            None => self.0.push((name.into(), array, true)),
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _, _)| known != name);
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        for column in self.0.iter_mut().filter(|column| column.0 == from) {
            column.0 = to.into();
        }
    }

    pub fn get(&self, name: &str) -> &ArrayRef {
        &self.0.iter().find(|(known, _, _)| known == name).unwrap().1
    }

    pub fn rows(&self) -> usize {
        self.0[0].1.len()
    }

    pub fn batch(&self) -> RecordBatch {
        let fields: Vec<Field> = self
            .0
            .iter()
            .map(|(name, array, nullable)| Field::new(name, array.data_type().clone(), *nullable))
            .collect();
        let arrays = self.0.iter().map(|(_, array, _)| array.clone()).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    }

    pub fn parquet(&self) -> Vec<u8> {
        let batch = self.batch();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    }

    /// The rows in another order.
    pub fn reordered(&mut self, order: &[u64]) {
        let indices = arrow_array::UInt64Array::from(order.to_vec());
        for (_, array, _) in &mut self.0 {
            *array = arrow_select::take::take(array, &indices, None).unwrap();
        }
    }
}

pub fn times(values: &[i64]) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(values.to_vec()).with_timezone("UTC"))
}

pub fn optional_times(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(values.to_vec()).with_timezone("UTC"))
}

pub fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

pub fn numbers(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

pub fn counts(values: &[Option<u32>]) -> ArrayRef {
    Arc::new(UInt32Array::from(values.to_vec()))
}

pub fn gaps(values: &[Vec<u64>]) -> ArrayRef {
    let mut builder = ListBuilder::new(UInt64Builder::new());
    for row in values {
        builder.append_value(row.iter().map(|gap| Some(*gap)));
    }
    Arc::new(builder.finish())
}

/// Changes the bytes of a file.
pub type ChangeBytes = fn(&mut Vec<u8>);

/// One run that can be broken before it is written.
pub struct RunBuilder {
    pub manifest: Value,
    pub power: Option<Columns>,
    pub requests: Option<Columns>,
    /// Bytes written as they are instead of a table or of run.json; no digest is taken of them.
    pub raw: BTreeMap<String, Vec<u8>>,
    /// Changes bytes after their digest was taken.
    pub after_digest: Option<(String, ChangeBytes)>,
}

/// Power of the run that [`run`] builds, at a time in seconds.
pub fn true_power_w(t: f64) -> f64 {
    if (0.0..30.0).contains(&t) { 300.0 } else { 100.0 }
}

/// A small sound run: idle from -40 s, launch at -15 s, formal from 0 to 30 s at 300 W on one board with
/// a counter, 60 requests of 20 tokens in a row of two at a time, release back to 100 W by 31 s.
pub fn run(run_id: &str) -> RunBuilder {
    let ticks: Vec<f64> = (-400..=800).map(|tick| f64::from(tick) / 10.0).collect();
    let t: Vec<i64> = ticks.iter().map(|t| at(*t)).collect();
    let power: Vec<Option<f64>> = ticks.iter().map(|t| Some(true_power_w(*t))).collect();
    let mut total = 5000.0;
    let energy: Vec<Option<f64>> = ticks
        .iter()
        .map(|t| {
            total += true_power_w(*t - 0.05) * 0.1;
            Some(total)
        })
        .collect();
    let rows = ticks.len();
    let power = Columns(vec![
        ("t".into(), times(&t), false),
        ("source".into(), texts(&vec!["nvml"; rows]), false),
        ("device".into(), texts(&vec!["gpu0"; rows]), false),
        ("power_w".into(), numbers(&power), true),
        ("energy_j".into(), numbers(&energy), true),
    ]);

    let sends: Vec<f64> = (0..60).map(|i| f64::from(i / 2)).collect();
    let count = sends.len();
    let ids: Vec<String> = (0..count).map(|i| format!("request-{i:03}")).collect();
    let shifted = |by: f64| sends.iter().map(|t| Some(at(t + by))).collect::<Vec<_>>();
    let requests = Columns(vec![
        ("request_id".into(), texts(&ids.iter().map(String::as_str).collect::<Vec<_>>()), false),
        ("stage".into(), texts(&vec!["formal"; count]), false),
        ("t_send".into(), optional_times(&shifted(0.0)), true),
        ("t_first_token".into(), optional_times(&shifted(0.05)), true),
        ("t_end".into(), optional_times(&shifted(1.0)), true),
        ("status".into(), texts(&vec!["ok"; count]), false),
        ("input_tokens".into(), counts(&vec![Some(100); count]), true),
        ("output_tokens".into(), counts(&vec![Some(20); count]), true),
        ("itl_ns".into(), gaps(&vec![vec![50_000_000; 19]; count]), true),
    ]);
    let manifest = json!({
        "schema_version": 1,
        "run_id": run_id,
        "kind": "serving",
        "synthetic": true,
        "configuration": "test",
        "model": {"name": "test-7b", "total_params": 7_000_000_000_u64, "dtype": "bfloat16"},
        "hardware": {"accelerator": "test-gpu", "count": 1, "hbm_bandwidth_gb_s": 4000.0},
        "engine": {"name": "test-engine", "version": "1"},
        "workload": {"task": "chat"},
        "stages": {
            "idle_start": stamp(-40.0), "idle_end": stamp(-16.0), "launch": stamp(-15.0),
            "ready": stamp(-5.0), "warmup_start": stamp(-4.0),
            "formal_start": stamp(0.0), "formal_end": stamp(30.0),
            "process_exit": stamp(30.5), "memory_released": stamp(30.8), "monitor_end": stamp(80.0),
        },
        "power_sources": [{
            "id": "nvml", "scope": "gpu-board", "reading": "instant", "nominal_interval_ms": 100.0,
        }],
    });
    RunBuilder {
        manifest,
        power: Some(power),
        requests: Some(requests),
        raw: BTreeMap::new(),
        after_digest: None,
    }
}

impl RunBuilder {
    pub fn power(&mut self) -> &mut Columns {
        self.power.as_mut().unwrap()
    }

    pub fn requests(&mut self) -> &mut Columns {
        self.requests.as_mut().unwrap()
    }

    /// Writes the run below `archive`, in a folder named after its id.
    pub fn write(&self, archive: &Path) -> PathBuf {
        let folder = archive.join(self.manifest["run_id"].as_str().unwrap_or("unnamed"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut files = BTreeMap::new();
        let mut entries = serde_json::Map::new();
        for (name, columns) in
            [("power.parquet", &self.power), ("requests.parquet", &self.requests)]
        {
            if let Some(columns) = columns {
                let mut bytes = columns.parquet();
                let digest = format!("{:x}", HexDigest(&bytes));
                entries.insert(name.into(), json!({"sha256": digest, "rows": columns.rows()}));
                if let Some((file, change)) = &self.after_digest
                    && file == name
                {
                    change(&mut bytes);
                }
                files.insert(name.to_owned(), bytes);
            }
        }
        let mut manifest = self.manifest.clone();
        if let Some(object) = manifest.as_object_mut()
            && !object.contains_key("files")
        {
            object.insert("files".into(), Value::Object(entries));
        }
        files.insert("run.json".into(), serde_json::to_vec_pretty(&manifest).unwrap());
        for (name, bytes) in &self.raw {
            files.insert(name.clone(), bytes.clone());
        }
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        folder
    }
}

struct HexDigest<'a>(&'a [u8]);

impl std::fmt::LowerHex for HexDigest<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Sha256::digest(self.0).iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// How the program ended and what it said.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program.
pub fn wattrace<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(arguments: I) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_wattrace"))
        .args(arguments)
        .env("COLUMNS", "120")
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    Ended {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The committed sample archive.
pub fn sample_archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-data/archive")
}

/// Writes the results of an archive; findings are no failure.
pub fn analyzed(archive: &Path, results: &Path, more: &[&str]) {
    let (archive, results) = (archive.to_str().unwrap(), results.to_str().unwrap());
    let mut arguments = vec!["analyze", archive, "--out", results];
    arguments.extend(more);
    let ended = wattrace(arguments);
    assert!(matches!(ended.code, 0 | 1), "{ended:?}");
}

/// Every file below a folder with its bytes, by relative path.
pub fn files_below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The published logs beside the checkout, if they are there.
pub fn shared_data() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("WATTRACE_SHARED_DATA").map_or_else(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// A Python that can import all of `modules`, if there is one; without one the test says that it is skipped.
pub fn python_with(modules: &str) -> Option<PathBuf> {
    let python =
        std::env::var_os("WATTRACE_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let imports = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if imports.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    println!("skipped: no Python with {modules}; `make test` makes one");
    None
}

/// The rows of a CSV file as maps from column name to text. Enough for the tables that we write: quoted
/// cells may hold commas and doubled quotes.
pub fn read_csv(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(split_csv_line);
    let header = lines.next().unwrap();
    lines.map(|cells| header.iter().cloned().zip(cells).collect()).collect()
}

fn split_csv_line(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut().unwrap();
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => cell.push(character),
        }
    }
    cells
}
