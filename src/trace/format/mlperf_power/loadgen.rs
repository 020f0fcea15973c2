//! What MLPerf's load generator writes: `mlperf_log_detail.txt` and `mlperf_log_summary.txt`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use wattrace_schema::{Claim, Unit};

use super::super::lines::Lines;
use super::super::local_time::LoggedTime;
use super::super::{Skipped, file_name};
use crate::TraceError;

/// Keys of the detail log that are of use here.
const DETAIL_KEYS: &[&str] = &[
    "power_begin",
    "power_end",
    "effective_scenario",
    "effective_test_mode",
    "effective_target_qps",
    "result_validity",
    "result_token_throughput",
    "result_completed_tokens_per_second",
    "result_tokens_per_second",
];

/// The detail log: the last value of each key of use, with its line.
#[derive(Debug)]
pub(super) struct Detail {
    pub(super) path: PathBuf,
    values: BTreeMap<&'static str, (u64, Value)>,
    pub(super) skipped: Skipped,
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    value: Value,
}

impl Detail {
    /// Reads `mlperf_log_detail.txt`. Lines of other programs between its own are no matter.
    ///
    /// # Errors
    /// When the file cannot be read, a boundary of the measurement stands in it twice, or, if `strict`,
    /// when a line of the load generator is broken.
    pub(super) fn read(path: &Path, strict: bool) -> Result<Self, TraceError> {
        let mut detail =
            Self { path: path.to_owned(), values: BTreeMap::new(), skipped: Skipped::default() };
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next_line()? {
            let Some(json) = line.text.ok().and_then(|text| text.strip_prefix(":::MLLOG ")) else {
                continue;
            };
            match serde_json::from_str::<Entry>(json) {
                Ok(entry) => detail.add(line.number, entry)?,
                Err(error) => {
                    let message = format!("is no entry of the load generator: {error}");
                    detail.skipped.add(strict, path, line.number, "lines", message)?;
                }
            }
        }
        Ok(detail)
    }

    fn add(&mut self, line: u64, entry: Entry) -> Result<(), TraceError> {
        let Some(key) = DETAIL_KEYS.iter().find(|key| **key == entry.key) else { return Ok(()) };
        let earlier = self.values.insert(key, (line, entry.value));
        match earlier {
            Some((first, _)) if key.starts_with("power_") => self.error(
                Some(line),
                format!("\"{key}\" stands on line {first} already; expected one measurement a log"),
            ),
            _ => Ok(()),
        }
    }

    fn error<T>(&self, line: Option<u64>, message: String) -> Result<T, TraceError> {
        Err(TraceError::Format { path: self.path.clone(), line, message })
    }

    /// A boundary of the measurement, `power_begin` or `power_end`, and its line.
    pub(super) fn boundary(&self, key: &str) -> Result<(LoggedTime, u64), TraceError> {
        let Some((line, value)) = self.values.get(key) else {
            return self.error(None, format!("has no \"{key}\"; expected the log of a power run"));
        };
        match value.as_str().and_then(LoggedTime::parse) {
            Some(time) => Ok((time, *line)),
            None => self.error(
                Some(*line),
                format!(
                    "\"{key}\" is {value}; expected a time such as \"01-31-2025 12:34:56.789\""
                ),
            ),
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.1.as_str()
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.values.get(key)?.1.as_f64()
    }

    /// Disagreements with the token rate that the summary states: what this log says, and where. Some
    /// versions of the load generator divide by the wrong time in one of their keys.
    pub(super) fn compare_token_rate(&self, claim: &Claim) -> Vec<String> {
        const TOLERANCE: f64 = 0.001;
        let mut notes = Vec::new();
        for key in [
            "result_token_throughput",
            "result_completed_tokens_per_second",
            "result_tokens_per_second",
        ] {
            let (Some(rate), Some((line, value))) = (self.number(key), self.values.get(key)) else {
                continue;
            };
            if (rate - claim.value).abs() > TOLERANCE * claim.value.abs() {
                notes.push(format!(
                    "{} line {line}: {key} is {value}, but {} says {} tok/s; the summary's value is the \
                     claim",
                    file_name(&self.path),
                    claim.source,
                    claim.value
                ));
            }
        }
        notes
    }
}

/// A line of the summary that states a value of ours.
struct Statement {
    key: &'static str,
    metric: &'static str,
    unit: Unit,
    /// What to divide by to get that unit.
    divisor: f64,
    /// Only true of a request by itself: with all samples in one query, as in Offline, latencies count
    /// from that query.
    per_request: bool,
}

const fn rate(key: &'static str, metric: &'static str, unit: Unit) -> Statement {
    Statement { key, metric, unit, divisor: 1.0, per_request: false }
}

const fn latency(key: &'static str, metric: &'static str) -> Statement {
    Statement { key, metric, unit: Unit::Millisecond, divisor: 1e6, per_request: true }
}

/// Statements of the summary and the metrics that they are. The load generator's "time to output token"
/// is (latency − first token) / (tokens − 1), which is TPOT.
const STATEMENTS: &[Statement] = &[
    rate("Completed tokens per second", "output_throughput_tok_s", Unit::TokenPerSecond),
    rate("Tokens per second", "output_throughput_tok_s", Unit::TokenPerSecond),
    rate("Completed samples per second", "request_throughput_req_s", Unit::RequestPerSecond),
    rate("Samples per second", "request_throughput_req_s", Unit::RequestPerSecond),
    latency("Mean First Token latency (ns)", "ttft_mean_ms"),
    latency("50.00 percentile first token latency (ns)", "ttft_p50_ms"),
    latency("90.00 percentile first token latency (ns)", "ttft_p90_ms"),
    latency("95.00 percentile first token latency (ns)", "ttft_p95_ms"),
    latency("99.00 percentile first token latency (ns)", "ttft_p99_ms"),
    latency("Mean Time to Output Token (ns)", "tpot_mean_ms"),
    latency("50.00 percentile time to output token (ns)", "tpot_p50_ms"),
    latency("90.00 percentile time to output token (ns)", "tpot_p90_ms"),
    latency("95.00 percentile time to output token (ns)", "tpot_p95_ms"),
    latency("99.00 percentile time to output token (ns)", "tpot_p99_ms"),
    latency("Mean latency (ns)", "e2e_mean_ms"),
    latency("50.00 percentile latency (ns)", "e2e_p50_ms"),
    latency("90.00 percentile latency (ns)", "e2e_p90_ms"),
    latency("95.00 percentile latency (ns)", "e2e_p95_ms"),
    latency("99.00 percentile latency (ns)", "e2e_p99_ms"),
];

/// Lines of the summary that are texts.
const SUMMARY_TEXTS: &[&str] = &["SUT name", "Scenario", "Mode", "Result is"];

/// The summary: the first value of each key of use, with its line.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) path: PathBuf,
    values: BTreeMap<&'static str, (u64, String)>,
}

impl Summary {
    /// Reads `mlperf_log_summary.txt`.
    ///
    /// # Errors
    /// When the file cannot be read or is no such summary.
    pub(super) fn read(path: &Path) -> Result<Self, TraceError> {
        let mut values = BTreeMap::new();
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next_line()? {
            let Some((key, value)) = line.text.ok().and_then(|text| text.split_once(':')) else {
                continue;
            };
            let known = STATEMENTS.iter().map(|statement| statement.key);
            let key = known.chain(SUMMARY_TEXTS.iter().copied()).find(|known| *known == key.trim());
            if let Some(key) = key {
                values.entry(key).or_insert_with(|| (line.number, value.trim().to_owned()));
            }
        }
        if values.contains_key("Scenario") {
            return Ok(Self { path: path.to_owned(), values });
        }
        let message = "has no \"Scenario\"; expected a summary of the load generator".into();
        Err(TraceError::Format { path: path.to_owned(), line: None, message })
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|(_, text)| text.as_str())
    }

    /// The values that the summary states, as claims.
    ///
    /// # Errors
    /// When a value is no number.
    pub(super) fn claims(&self) -> Result<Vec<Claim>, TraceError> {
        let offline = self.text("Scenario") == Some("Offline");
        let mut claims: Vec<Claim> = Vec::new();
        for statement in STATEMENTS {
            let Some((line, text)) = self.values.get(statement.key) else { continue };
            if statement.per_request && offline {
                continue;
            }
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            let Some(number) = number else {
                let message = format!("\"{}\" is \"{text}\"; expected a number", statement.key);
                return Err(TraceError::Format {
                    path: self.path.clone(),
                    line: Some(*line),
                    message,
                });
            };
            if claims.iter().any(|claim| claim.metric == statement.metric) {
                continue;
            }
            claims.push(Claim {
                metric: statement.metric.into(),
                value: number / statement.divisor,
                unit: statement.unit.symbol().into(),
                source: format!("{} line {line}", file_name(&self.path)),
            });
        }
        Ok(claims)
    }
}
