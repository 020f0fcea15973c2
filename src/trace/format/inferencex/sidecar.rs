//! What lies beside `gpu_metrics.csv`: the validation of a benchmark, the accumulators before and after, and
//! what boards they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use wattrace_schema::{Claim, TimestampNs, Unit};

use super::super::amd_smi::AmdSmi;
use super::super::power_log::{self, Rows, Settings};
use super::super::{ImportOptions, Input, file_name};
use super::{Window, read_json, window_of};
use crate::TraceError;

/// Whether a text is a validation.
pub(super) fn is_validation(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && ["\"power_valid\"", "\"benchmark_window\""].iter().all(|key| text.contains(key))
}

/// Whether a text says what the boards are.
pub(super) fn is_identity(text: &str) -> bool {
    text.contains("\"gpu_data\"") && text.contains("\"market_name\"")
}

/// `power_validation_BENCHMARK.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Validation {
    power_valid: Option<bool>,
    #[serde(default)]
    reasons: Vec<String>,
    telemetry_source: Option<String>,
    benchmark_window: Option<BenchmarkWindow>,
    expected_gpu_count: Option<u32>,
    observed_gpu_count: Option<u32>,
    #[serde(default)]
    per_gpu_energy_j: BTreeMap<String, f64>,
    accumulator_check: Option<AccumulatorCheck>,
    /// Where the file lies and the window was read; filled in by [`Validation::read`].
    #[serde(skip)]
    interval: Option<wattrace_schema::Interval>,
}

#[derive(Debug, Deserialize)]
struct BenchmarkWindow {
    start_time_unix: Option<f64>,
    end_time_unix: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct AccumulatorCheck {
    relative_error: Option<f64>,
    tolerance: Option<f64>,
}

impl Validation {
    pub(super) fn read(path: &Path) -> Result<Self, TraceError> {
        let mut validation: Self = read_json(path)?;
        let window = validation.benchmark_window.as_ref();
        let ends = window.and_then(|window| window.start_time_unix.zip(window.end_time_unix));
        validation.interval = ends.map(|(start, end)| window_of(path, start, end)).transpose()?;
        Ok(validation)
    }

    pub(super) fn window(self, path: &Path) -> Window {
        let file = file_name(path);
        let mut notes = Vec::new();
        if self.interval.is_none() {
            notes.push(format!("{file} states no window of the benchmark"));
        }
        if self.power_valid != Some(true) {
            let reasons = match self.reasons.as_slice() {
                [] => "no reason".to_owned(),
                reasons => reasons.join(", "),
            };
            notes.push(format!("{file} does not call the power valid: {reasons}"));
        }
        if let (Some(expected), Some(observed)) = (self.expected_gpu_count, self.observed_gpu_count)
            && expected != observed
        {
            notes.push(format!("{file} expected {expected} boards and observed {observed}"));
        }
        if let Some(source) = &self.telemetry_source {
            notes.push(format!("{file} names the telemetry \"{}\"", source.escape_debug()));
        }
        let check = self.accumulator_check.as_ref();
        if let Some((error, tolerance)) =
            check.and_then(|check| check.relative_error.zip(check.tolerance))
            && error > tolerance
        {
            notes.push(format!(
                "{file}: the boards' accumulators differ from the integral by {error}, more than \
                     {tolerance}"
            ));
        }
        let total_j: f64 = self.per_gpu_energy_j.values().sum();
        let mut claims = Vec::new();
        if total_j.is_finite() && total_j > 0.0 {
            claims.push(Claim {
                metric: "formal_energy_j".into(),
                value: total_j,
                unit: Unit::Joule.symbol().into(),
                source: format!("{file}, the sum of per_gpu_energy_j"),
            });
        }
        let stem = Input::new(path).stem();
        let name = stem.strip_prefix("power_validation_").unwrap_or(&stem).to_owned();
        Window { name, interval: self.interval, claims, notes, file: Some(path.to_owned()) }
    }
}

/// What the boards are: `amd-smi static --json`.
#[derive(Debug, Default)]
pub(super) struct Identity {
    pub(super) accelerator: Option<String>,
    pub(super) driver: Option<String>,
}

impl Identity {
    pub(super) fn read(path: &Path) -> Result<Self, TraceError> {
        let json: serde_json::Value = read_json(path)?;
        let boards = json.get("gpu_data").and_then(|list| list.as_array());
        let text = |pointer: &str| -> Option<String> {
            let mut names: Vec<&str> =
                boards?.iter().filter_map(|board| board.pointer(pointer)?.as_str()).collect();
            names.dedup();
            // Boards of several names have none in common.
            if let [name] = names.as_slice() { Some((*name).to_owned()) } else { None }
        };
        Ok(Self { accelerator: text("/asic/market_name"), driver: text("/driver/version") })
    }
}

/// The boards' counters before and after a benchmark.
#[derive(Debug, PartialEq)]
pub(super) enum Accumulators {
    /// All boards together.
    Delta { joules: f64, boards: usize },
    /// Why they say nothing.
    Broken(String),
}

impl Accumulators {
    pub(super) fn read(
        start: &Path,
        end: &Path,
        options: &ImportOptions,
    ) -> Result<Self, TraceError> {
        let before = counters(start, options)?;
        let after = counters(end, options)?;
        let files = || format!("{} and {}", file_name(start), file_name(end));
        if before.is_empty() || !before.keys().eq(after.keys()) {
            return Ok(Self::Broken(format!(
                "{} are not of the same boards, so they are not used",
                files()
            )));
        }
        let fallen = before.iter().filter(|(board, joules)| after[*board] < **joules).count();
        if fallen > 0 {
            return Ok(Self::Broken(format!(
                "{}: the counters of {fallen} of {} boards fall, so the two are not of one run, or a driver \
                 was loaded again; they are not used",
                files(),
                before.len()
            )));
        }
        let joules = after.iter().map(|(board, joules)| joules - before[board]).sum();
        Ok(Self::Delta { joules, boards: before.len() })
    }
}

/// The counter of each board in one reading without a time.
fn counters(path: &Path, options: &ImportOptions) -> Result<BTreeMap<String, f64>, TraceError> {
    let settings = Settings { anchor: Some(TimestampNs::from_nanos(0)), ..Settings::default() };
    let mut log = AmdSmi::new(settings);
    let mut counters = BTreeMap::new();
    let input = Input::new(path);
    power_log::each_line(&input, options.strict, &mut log, &mut Rows::default(), &mut |row| {
        if let Some(joules) = row.energy_j {
            counters.insert(row.device, joules);
        }
        Ok(())
    })?;
    Ok(counters)
}
