//! Reads the files of a run into [`Run`]: the only reader of Parquet.

mod accuracy;
mod column;
mod engine;
pub(crate) mod file;
mod health;
pub(crate) mod power;
pub(crate) mod requests;
pub(crate) mod steps;

use std::cmp::Ordering;
use std::fs;

use arrow_array::StringArray;
use wattrace_schema::tables::{ACCURACY, ENGINE, POWER, REQUESTS, STEPS};
use wattrace_schema::{Run, RunManifest, Table};

use crate::finding::FILE_NOT_HASHED;
use crate::manifest::{MAX_RUN_JSON_BYTES, RUN_JSON, parse_manifest};
use crate::{Finding, RunLocation, Severity, TraceError};
use column::Values;
use file::TableFile;

/// What to read.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// Compare each file's SHA-256 and row count with run.json.
    pub verify: bool,
    /// Read `accuracy.parquet` too.
    pub accuracy: bool,
    /// Read temperatures, clocks and throttle reasons too.
    pub health: bool,
    /// Metrics to be read from `engine.parquet`, by name.
    pub engine_metrics: &'static [&'static str],
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { verify: true, accuracy: false, health: false, engine_metrics: &[] }
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
/// When the file cannot be read or is not valid, or lies outside the archive.
pub fn read_manifest(location: &RunLocation) -> Result<RunManifest, TraceError> {
    let path = location.file(RUN_JSON)?;
    let bytes = fs::metadata(&path).map_err(TraceError::io("read", &path))?.len();
    if bytes > MAX_RUN_JSON_BYTES {
        return Err(TraceError::Manifest {
            path,
            message: format!("it has {bytes} bytes; expected at most {MAX_RUN_JSON_BYTES}"),
        });
    }
    let bytes = fs::read(&path).map_err(TraceError::io("read", &path))?;
    parse_manifest(&path, &bytes)
}

/// Reads a whole run: each file once, its bytes compared with run.json and then decoded.
///
/// The result does not depend on the order of rows in the files. Requests without a sending time come
/// first; power values that are negative or not finite are left out, counted and found.
///
/// # Errors
/// When a file cannot be read or breaks the contract in a way that leaves no honest value.
pub fn read_run(location: &RunLocation, options: ReadOptions) -> Result<LoadedRun, TraceError> {
    let manifest = read_manifest(location)?;
    let mut findings = Vec::new();
    let mut open = |table: &'static Table| {
        let entry = manifest.files.get(table.file);
        let file = TableFile::open(location, table, entry, options.verify)?;
        if file.is_some() && entry.is_none() {
            findings.push(not_hashed(table.file));
        }
        Ok::<_, TraceError>(file)
    };
    let mut accelerators = Vec::new();
    let power = match open(&POWER)? {
        Some(file) => {
            if options.health {
                accelerators = health::read_health(&file, &manifest)?;
            }
            power::read_power(&file, location, &manifest, false)?
        }
        None => power::PowerRows::default(),
    };
    let requests = match open(&REQUESTS)? {
        Some(file) => Some(requests::sort_requests(requests::read_requests(&file)?)),
        None => None,
    };
    let steps = match open(&STEPS)? {
        Some(file) => Some(steps::sort_steps(steps::read_steps(&file)?)),
        None => None,
    };
    let accuracy = match options.accuracy.then(|| open(&ACCURACY)).transpose()?.flatten() {
        Some(file) => accuracy::read_accuracy(&file)?,
        None => Vec::new(),
    };
    let wants_engine = !options.engine_metrics.is_empty();
    let engine_metrics = match wants_engine.then(|| open(&ENGINE)).transpose()?.flatten() {
        Some(file) => engine::read_engine_metrics(&file, options.engine_metrics)?,
        None => Vec::new(),
    };
    findings.extend(power.findings.iter().cloned());
    let power = power.into_devices();
    let run = Run { manifest, power, requests, steps, accuracy, accelerators, engine_metrics };
    Ok(LoadedRun { run, findings })
}

/// The finding that a file has no digest to be compared with.
pub(crate) fn not_hashed(file: &str) -> Finding {
    Finding {
        check: FILE_NOT_HASHED,
        severity: Severity::Warning,
        file: file.to_owned(),
        column: None,
        row: None,
        message: "run.json does not list this file, so its content could not be verified; \
                  expected its SHA-256 and row count under \"files\""
            .to_owned(),
    }
}

/// Appends a column that may hold nulls or be absent.
fn extend_options<T: Copy>(
    target: &mut Vec<Option<T>>,
    rows: usize,
    values: Option<Values<'_, T>>,
) {
    match values {
        Some(values) if values.nulls.is_none() => {
            target.extend(values.values.iter().map(|value| Some(*value)));
        }
        Some(values) => target.extend(values.options()),
        None => target.resize(target.len() + rows, None),
    }
}

/// Appends a column of texts that may be null or absent.
fn extend_texts(target: &mut Vec<Option<String>>, rows: usize, texts: Option<&StringArray>) {
    match texts {
        Some(texts) => target.extend(texts.iter().map(|text| text.map(str::to_owned))),
        None => target.resize(target.len() + rows, None),
    }
}

/// The order that sorts `rows` rows; `None` when they are sorted already.
fn sorted_order(rows: usize, compare: impl Fn(usize, usize) -> Ordering) -> Option<Vec<usize>> {
    if (1..rows).all(|row| compare(row - 1, row) != Ordering::Greater) {
        return None;
    }
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by(|a, b| compare(*a, *b));
    Some(order)
}

/// `values` in the order of `order`.
fn permuted<T: Copy>(values: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|index| values[*index]).collect()
}

#[cfg(test)]
mod tests;
