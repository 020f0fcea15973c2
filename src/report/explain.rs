//! How one number of a results folder came about: everything that a sceptic needs to compute it again.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use wattrace_analysis::metrics::{Recipe, Stage, catalogue, recipe};
use wattrace_analysis::{Metric, ValueKind};
use wattrace_schema::{Flag, Interval, Reason, TimestampNs};

use crate::error::ReportError;
use crate::results::{Results, ResultsManifest, StoredTable};
use crate::stored_row::StoredRow;

/// A code and what it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Word {
    /// The code in result tables.
    pub code: String,
    /// What it means.
    pub meaning: String,
}

/// A window of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowUsed {
    /// First instant, RFC 3339.
    pub start: String,
    /// Last instant, RFC 3339.
    pub end: String,
    /// Its length.
    pub seconds: f64,
}

/// A metric that went into the explained one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// Name of the metric.
    pub metric: String,
    /// Its value: a number, a boolean or a time; null if it is missing.
    pub value: Value,
    /// Its unit.
    pub unit: String,
    /// Why it is missing.
    pub reason: Option<Word>,
}

/// Rows that were read, and where they lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowsUsed {
    /// File below the archive's folder.
    pub file: String,
    /// Which of its rows.
    pub filter: String,
    /// Which of its columns.
    pub columns: Vec<String>,
}

/// One device over one stage by one method, as the table `device_energies` has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceUsed {
    /// Name of the stage.
    pub stage: String,
    /// trapezoid or counter.
    pub method: String,
    /// Whether the stage's energy is that of this method.
    pub counts: bool,
    /// Id of the power source.
    pub source: String,
    /// Name of the device within the source.
    pub device: String,
    /// How power runs between samples: linear or hold.
    pub interpolation: String,
    /// What is added to the file's times to get the run's clock, s.
    pub clock_offset_s: f64,
    /// First instant of the window, RFC 3339.
    pub window_start: String,
    /// Last instant of the window, RFC 3339.
    pub window_end: String,
    /// Energy, J.
    pub energy_j: f64,
    /// Samples inside the window.
    pub samples: u64,
    /// Time of the first sample read, RFC 3339.
    pub first_sample: String,
    /// Time of the last sample read, RFC 3339.
    pub last_sample: String,
    /// Power (W) or unwrapped counter (J) at the window's start.
    pub value_at_start: f64,
    /// Power (W) or unwrapped counter (J) at the window's end.
    pub value_at_end: f64,
    /// Longest distance between samples that counts as ordinary, s.
    pub max_gap_s: f64,
    /// Time of the window in sampling gaps, s.
    pub gap_s: f64,
    /// Time of the window in which the counter was reset, s.
    pub counter_lost_s: f64,
    /// Codes of its flags.
    pub flags: Vec<String>,
}

/// Both methods of a stage beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BothMethods {
    /// Name of the stage.
    pub stage: String,
    /// The window and the devices in words.
    pub meaning: String,
    /// The method whose energy counts; null if that method has no value.
    pub counts: Option<String>,
    /// Energy of all devices by the integral of power, J.
    pub trapezoid_j: Option<f64>,
    /// Energy of all devices by their counters, J.
    pub counter_j: Option<f64>,
    /// (counter − trapezoid) / trapezoid.
    pub difference: Option<f64>,
}

/// A published value of the same metric that came with the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimBeside {
    /// The value as published.
    pub claimed: f64,
    /// Its unit.
    pub unit: String,
    /// Where it stands in the source.
    pub source: String,
    /// The value from the raw rows in the claim's unit.
    pub recomputed: Option<f64>,
    /// (recomputed − claimed) / claimed.
    pub relative_difference: Option<f64>,
    /// Whether the recomputed value rounds to the claimed one at its digits.
    pub agrees_as_printed: Option<bool>,
    /// Why there is no recomputed value.
    pub reason: Option<Word>,
}

/// How the results were made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MadeBy {
    /// The program and its version.
    pub tool: String,
    /// Version of the metric definitions.
    pub metric_definitions_version: u32,
    /// The command line.
    pub command_line: Vec<String>,
    /// Options that values depend on.
    pub options: Value,
    /// Digest of the archive.
    pub archive_sha256: Option<String>,
}

/// One number of one run and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Id of the run.
    pub run_id: String,
    /// Folder of the run within the archive.
    pub path: String,
    /// serving, decode or summary; null where run.json could not be read.
    pub kind: Option<String>,
    /// Whether the run is simulated.
    pub synthetic: bool,
    /// Name of the metric.
    pub metric: String,
    /// The value: a number, a boolean or a time; null if it is missing.
    pub value: Value,
    /// Its unit.
    pub unit: String,
    /// Why it is missing.
    pub reason: Option<Word>,
    /// Why the run could not be read.
    pub error: Option<String>,
    /// Numerator, denominator, window, and what is excluded.
    pub definition: String,
    /// Where the definition comes from.
    pub source: String,
    /// What is measured or counted.
    pub boundary: String,
    /// The arithmetic.
    pub formula: String,
    /// trapezoid or counter, where energy went in.
    pub method: Option<String>,
    /// The window, where it has one.
    pub window: Option<WindowUsed>,
    /// Samples, requests or steps behind the value.
    pub row_count: Option<u64>,
    /// Share of the window that lies in sampling gaps.
    pub gap_share: Option<f64>,
    /// Time of the window in which a counter was reset, over all devices.
    pub counter_lost_s: Option<f64>,
    /// Metrics that went in.
    pub inputs: Vec<Input>,
    /// Rows that were read, here and by the inputs.
    pub rows: Vec<RowsUsed>,
    /// Both energy methods of the stages that went in.
    pub both_methods: Vec<BothMethods>,
    /// The devices of these stages.
    pub devices: Vec<DeviceUsed>,
    /// What a reader must know.
    pub flags: Vec<Word>,
    /// Published values of the same metric.
    pub claims: Vec<ClaimBeside>,
    /// How the results were made.
    pub made_by: MadeBy,
}

/// Why a number cannot be explained.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the facts that the message prints")]
pub enum ExplainError {
    /// No run has that id or folder.
    #[error("there is no run \"{run}\" among the {runs} runs of the results{suggestion}")]
    NoRun { run: String, runs: usize, suggestion: String },
    /// Several runs have that id, so rows cannot be told apart.
    #[error("run id \"{run}\" is used by {folders}; expected one run an id")]
    Repeated { run: String, folders: String },
    /// There is no such metric.
    #[error("there is no metric \"{metric}\"{suggestion}; `wattrace explain --list` names all")]
    NoMetric { metric: String, suggestion: String },
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] ReportError),
}

/// Explains numbers of one results folder, whose tables it has read.
#[derive(Debug)]
pub struct Explainer {
    manifest: ResultsManifest,
    runs: StoredTable,
    metrics: StoredTable,
    energies: RowsOfRuns,
    claims: RowsOfRuns,
    catalogue: Vec<Metric>,
}

/// A table whose rows are looked up by run for every number.
#[derive(Debug)]
struct RowsOfRuns {
    table: StoredTable,
    rows: BTreeMap<String, Vec<usize>>,
}

impl RowsOfRuns {
    fn new(table: StoredTable) -> Result<Self, ReportError> {
        let mut rows = BTreeMap::<String, Vec<usize>>::new();
        for (row, run_id) in table.text("run_id")?.iter().enumerate() {
            if let Some(run_id) = run_id {
                rows.entry(run_id.clone()).or_default().push(row);
            }
        }
        Ok(Self { table, rows })
    }

    /// The rows of a run, in order.
    fn of(&self, run_id: &str) -> impl Iterator<Item = usize> {
        self.rows.get(run_id).into_iter().flatten().copied()
    }
}

impl Explainer {
    /// Reads the tables behind the numbers of a results folder.
    ///
    /// # Errors
    /// When a table is missing, changed or not readable, or tables do not belong together.
    pub fn open(results: &Results) -> Result<Self, ReportError> {
        let explainer = Self {
            manifest: results.manifest().clone(),
            runs: results.table("runs")?,
            metrics: results.table("metrics")?,
            energies: RowsOfRuns::new(results.table("device_energies")?)?,
            claims: RowsOfRuns::new(results.table("claims")?)?,
            catalogue: catalogue(),
        };
        explainer.check_metrics()?;
        Ok(explainer)
    }

    /// `metrics` must hold every metric of every run, in the order of `runs` and of the catalogue, since
    /// rows are found by their place.
    fn check_metrics(&self) -> Result<(), ReportError> {
        let (runs, metrics) = (self.runs.rows, self.catalogue.len());
        let names = self.metrics.text("metric")?;
        let in_order = names.len() == runs * metrics
            && names
                .iter()
                .enumerate()
                .all(|(row, name)| name.as_deref() == Some(self.catalogue[row % metrics].name));
        if in_order {
            return Ok(());
        }
        Err(ReportError::Disagree {
            table: "metrics".to_owned(),
            found: format!("{} rows that are not those of this program's metrics", names.len()),
            expected: format!("{metrics} metrics for each of the {runs} rows of \"runs\""),
        })
    }

    /// Ids of the runs, in the order of the results.
    ///
    /// # Errors
    /// When the table `runs` lacks the column.
    pub fn run_ids(&self) -> Result<Vec<&str>, ReportError> {
        Ok(self.runs.text("run_id")?.iter().flatten().map(String::as_str).collect())
    }

    /// How `metric` of `run` (its id, or its folder within the archive) came about.
    ///
    /// # Errors
    /// When there is no such run or metric, or a table lacks a column.
    pub fn explain(&self, run: &str, metric: &str) -> Result<Explanation, ExplainError> {
        let run = self.find_run(run)?;
        let place = self.find_metric(metric)?;
        let metric = self.catalogue[place];
        // Every metric of the catalogue has a recipe: a test sees to it.
        let recipe = recipe(metric.name).ok_or_else(|| no_metric(metric.name, &self.catalogue))?;
        let about = StoredRow::new(&self.runs, run);
        let row = self.metric_row(run, place);
        let run_id = about.text("run_id")?;
        let path = about.text("path")?;
        let chain = chain(&recipe);
        let devices = self.devices(&run_id, &chain)?;
        Ok(Explanation {
            kind: about.optional_text("kind")?.map(str::to_owned),
            synthetic: about.optional_boolean("synthetic")?.unwrap_or_default(),
            metric: metric.name.to_owned(),
            value: value(row, &metric)?,
            unit: metric.unit.symbol().to_owned(),
            reason: row.optional_text("reason")?.map(reason_word),
            error: about.optional_text("error")?.map(str::to_owned),
            definition: metric.definition.to_owned(),
            source: metric.source.to_owned(),
            boundary: metric.boundary.name().to_owned(),
            formula: recipe.formula.clone(),
            method: row.optional_text("method")?.map(str::to_owned),
            window: window(
                row.optional_time_ns("window_start")?,
                row.optional_time_ns("window_end")?,
            ),
            row_count: row.optional_count("rows")?,
            gap_share: row.optional_number("gap_share")?,
            counter_lost_s: row.optional_number("counter_lost_s")?,
            inputs: self.inputs(run, &recipe)?,
            rows: rows_used(&path, &chain, &devices),
            both_methods: both_methods(&devices),
            devices,
            flags: row.list("flags")?.iter().map(|code| flag_word(code)).collect(),
            claims: self.claims_beside(&run_id, metric.name)?,
            made_by: self.made_by(),
            run_id,
            path,
        })
    }

    fn metric_row(&self, run: usize, place: usize) -> StoredRow<'_> {
        StoredRow::new(&self.metrics, run * self.catalogue.len() + place)
    }

    fn find_run(&self, wanted: &str) -> Result<usize, ExplainError> {
        let ids = self.runs.text("run_id")?;
        let paths = self.runs.text("path")?;
        let rows_with = |column: &[Option<String>]| -> Vec<usize> {
            (0..self.runs.rows).filter(|row| column[*row].as_deref() == Some(wanted)).collect()
        };
        let by_id = rows_with(ids);
        let found = if by_id.is_empty() { rows_with(paths) } else { by_id };
        match found[..] {
            [] => Err(ExplainError::NoRun {
                run: wanted.to_owned(),
                runs: self.runs.rows,
                suggestion: suggestion(wanted, ids.iter().flatten().map(String::as_str)),
            }),
            [row] => Ok(row),
            _ => {
                let folders: Vec<&str> =
                    found.iter().filter_map(|row| paths[*row].as_deref()).collect();
                let folders = folders.join(", ");
                Err(ExplainError::Repeated { run: wanted.to_owned(), folders })
            }
        }
    }

    fn find_metric(&self, wanted: &str) -> Result<usize, ExplainError> {
        let place = self.catalogue.iter().position(|metric| metric.name == wanted);
        place.ok_or_else(|| no_metric(wanted, &self.catalogue))
    }

    fn inputs(&self, run: usize, recipe: &Recipe) -> Result<Vec<Input>, ExplainError> {
        recipe
            .inputs
            .iter()
            .map(|name| {
                let place = self.find_metric(name)?;
                let metric = &self.catalogue[place];
                let row = self.metric_row(run, place);
                Ok(Input {
                    metric: (*name).to_owned(),
                    value: value(row, metric)?,
                    unit: metric.unit.symbol().to_owned(),
                    reason: row.optional_text("reason")?.map(reason_word),
                })
            })
            .collect()
    }

    /// The rows of `device_energies` of the stages that a chain of recipes names.
    fn devices(&self, run_id: &str, chain: &[Recipe]) -> Result<Vec<DeviceUsed>, ReportError> {
        let table = &self.energies.table;
        let stages = table.text("stage")?;
        let wanted = |stage: &str| {
            chain.iter().any(|recipe| recipe.stage.is_some_and(|used| used.name() == stage))
        };
        self.energies
            .of(run_id)
            .filter(|row| stages[*row].as_deref().is_some_and(wanted))
            .map(|row| device_used(StoredRow::new(table, row)))
            .collect()
    }

    fn claims_beside(&self, run_id: &str, metric: &str) -> Result<Vec<ClaimBeside>, ReportError> {
        let table = &self.claims.table;
        let metrics = table.text("metric")?;
        self.claims
            .of(run_id)
            .filter(|row| metrics[*row].as_deref() == Some(metric))
            .map(|row| claim_beside(StoredRow::new(table, row)))
            .collect()
    }

    fn made_by(&self) -> MadeBy {
        let manifest = &self.manifest;
        MadeBy {
            tool: format!("{} {}", manifest.tool, manifest.tool_version),
            metric_definitions_version: manifest.metric_definitions_version,
            command_line: manifest.command_line.clone(),
            options: manifest.options.clone(),
            archive_sha256: manifest.archive_sha256.clone(),
        }
    }
}

/// A recipe and those of its inputs, all the way down, each once.
fn chain(of: &Recipe) -> Vec<Recipe> {
    let mut chain = vec![of.clone()];
    let mut seen: Vec<&str> = Vec::new();
    let mut next = 0;
    while let Some(inputs) = chain.get(next).map(|recipe| recipe.inputs) {
        for input in
            inputs.iter().copied().filter(|input| !seen.contains(input)).collect::<Vec<_>>()
        {
            seen.push(input);
            chain.extend(recipe(input));
        }
        next += 1;
    }
    chain
}

fn value(row: StoredRow<'_>, metric: &Metric) -> Result<Value, ReportError> {
    let number = row.optional_number("value")?;
    Ok(match metric.kind {
        ValueKind::F64 => number.into(),
        ValueKind::U64 => number.map(|count| count as u64).into(),
        ValueKind::Bool => number.map(|yes| yes != 0.0).into(),
        ValueKind::Time => row.optional_time_ns("time")?.map(time_text).into(),
    })
}

/// The files that a chain of recipes reads, each rule once.
fn rows_used(path: &str, chain: &[Recipe], devices: &[DeviceUsed]) -> Vec<RowsUsed> {
    let mut used = Vec::new();
    if !devices.is_empty() {
        let counter = devices.iter().any(|device| device.method == "counter");
        let columns: &[&str] = if counter {
            &["t", "source", "device", "power_w", "energy_j"]
        } else {
            &["t", "source", "device", "power_w"]
        };
        used.push(RowsUsed {
            file: in_folder(path, "power.parquet"),
            filter: "source and device as listed, first sample <= t + clock offset <= last sample"
                .to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        });
    }
    for rule in chain.iter().filter_map(|recipe| recipe.rows) {
        let rows = RowsUsed {
            file: in_folder(path, rule.file),
            filter: rule.filter.to_owned(),
            columns: rule.columns.iter().map(|column| (*column).to_owned()).collect(),
        };
        if !used.contains(&rows) {
            used.push(rows);
        }
    }
    used
}

/// A file of a run; the archive's own folder has an empty path.
fn in_folder(path: &str, file: &str) -> String {
    if path.is_empty() { file.to_owned() } else { format!("{path}/{file}") }
}

/// Both methods of every stage among the devices, summed in their order.
fn both_methods(devices: &[DeviceUsed]) -> Vec<BothMethods> {
    let of_stage = |stage: &Stage| {
        let rows: Vec<&DeviceUsed> =
            devices.iter().filter(|device| device.stage == stage.name()).collect();
        let total = |method: &str| {
            let energies: Vec<f64> =
                rows.iter().filter(|row| row.method == method).map(|row| row.energy_j).collect();
            (!energies.is_empty()).then(|| energies.iter().sum::<f64>())
        };
        let (trapezoid_j, counter_j) = (total("trapezoid"), total("counter"));
        let difference = trapezoid_j.zip(counter_j).map(|(t, c)| (c - t) / t);
        let counts = rows.iter().find(|row| row.counts).map(|row| row.method.clone());
        rows.first().map(|_| BothMethods {
            stage: stage.name().to_owned(),
            meaning: stage.meaning().to_owned(),
            counts,
            trapezoid_j,
            counter_j,
            difference: difference.filter(|difference| difference.is_finite()),
        })
    };
    Stage::ALL.iter().filter_map(of_stage).collect()
}

fn no_metric(wanted: &str, catalogue: &[Metric]) -> ExplainError {
    ExplainError::NoMetric {
        metric: wanted.to_owned(),
        suggestion: suggestion(wanted, catalogue.iter().map(|metric| metric.name)),
    }
}

/// Names that someone who wrote `wanted` may have meant, as the end of a sentence; nothing if none is
/// near.
fn suggestion<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    /// Likeness (0 to 1) below which a name is no suggestion.
    const NEAR: f64 = 0.6;
    const SHOWN: usize = 3;
    let mut near: Vec<(f64, &str)> = names
        .map(|name| {
            let contained = !wanted.is_empty() && name.contains(wanted);
            let alike = strsim::normalized_damerau_levenshtein(wanted, name);
            (if contained { alike.max(NEAR) } else { alike }, name)
        })
        .filter(|(alike, _)| *alike >= NEAR)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by(|a, b| a.1 == b.1);
    let near: Vec<String> =
        near.iter().take(SHOWN).map(|(_, name)| format!("\"{name}\"")).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

fn reason_word(code: &str) -> Word {
    let meaning = Reason::from_code(code).map_or("", Reason::meaning);
    Word { code: code.to_owned(), meaning: meaning.to_owned() }
}

fn flag_word(code: &str) -> Word {
    let meaning = Flag::from_code(code).map_or("", Flag::meaning);
    Word { code: code.to_owned(), meaning: meaning.to_owned() }
}

fn time_text(t_ns: i64) -> String {
    TimestampNs::from_nanos(t_ns).to_string()
}

fn window(start_ns: Option<i64>, end_ns: Option<i64>) -> Option<WindowUsed> {
    start_ns.zip(end_ns).map(|(start_ns, end_ns)| WindowUsed {
        start: time_text(start_ns),
        end: time_text(end_ns),
        seconds: Interval::new(start_ns, end_ns).duration_s(),
    })
}

fn device_used(row: StoredRow<'_>) -> Result<DeviceUsed, ReportError> {
    let (start_ns, end_ns) = (row.time_ns("window_start")?, row.time_ns("window_end")?);
    Ok(DeviceUsed {
        stage: row.text("stage")?,
        method: row.text("method")?,
        counts: row.boolean("counts")?,
        source: row.text("source")?,
        device: row.text("device")?,
        interpolation: row.text("interpolation")?,
        clock_offset_s: row.number("clock_offset_s")?,
        window_start: time_text(start_ns),
        window_end: time_text(end_ns),
        energy_j: row.number("energy_j")?,
        samples: row.count("samples")?,
        first_sample: time_text(row.time_ns("first_sample")?),
        last_sample: time_text(row.time_ns("last_sample")?),
        value_at_start: row.number("value_at_start")?,
        value_at_end: row.number("value_at_end")?,
        max_gap_s: row.number("max_gap_s")?,
        gap_s: row.number("gap_s")?,
        counter_lost_s: row.number("counter_lost_s")?,
        flags: row.list("flags")?,
    })
}

fn claim_beside(row: StoredRow<'_>) -> Result<ClaimBeside, ReportError> {
    Ok(ClaimBeside {
        claimed: row.number("claimed")?,
        unit: row.text("unit")?,
        source: row.text("source")?,
        recomputed: row.optional_number("recomputed")?,
        relative_difference: row.optional_number("relative_difference")?,
        agrees_as_printed: row.optional_boolean("agrees_as_printed")?,
        reason: row.optional_text("reason")?.map(reason_word),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wattrace_analysis::metrics::DEFINITIONS_VERSION;

    use super::*;
    use crate::text::{TextStyle, explanation};
    use crate::{Provenance, RunCounts, RunRecord, SyntheticShare, fixtures, tables, write_table};

    fn results_of(records: &[RunRecord], dir: &std::path::Path) -> Results {
        let provenance = Provenance {
            tool_version: "0.1.0".into(),
            metric_definitions_version: DEFINITIONS_VERSION,
            options: json!({"verify": true}),
            archive_sha256: Some("ab".repeat(32)),
            synthetic: SyntheticShare::Some,
        };
        let command = ["wattrace", "analyze", "archive", "--out", "results"];
        let command = command.map(str::to_owned).to_vec();
        let mut manifest = ResultsManifest::new(&provenance, command, RunCounts::of(records));
        for table in [
            tables::runs(records),
            tables::metrics(records),
            tables::device_energies(records),
            tables::claims(records),
        ] {
            manifest.tables.push(write_table(dir, &table, &provenance).unwrap());
        }
        manifest.write(dir).unwrap();
        Results::open(dir).unwrap()
    }

    fn archive() -> Vec<RunRecord> {
        vec![
            fixtures::serving("serving-a"),
            fixtures::node_only("node-a"),
            fixtures::decode("decode-a", "b4"),
            fixtures::summary("summary-a", "m"),
            fixtures::unreadable("runs/broken", "\"run.json\" is missing"),
        ]
    }

    #[test]
    fn every_number_of_every_run_is_explained() {
        let dir = tempfile::tempdir().unwrap();
        let records = archive();
        let explainer = Explainer::open(&results_of(&records, dir.path())).unwrap();
        let runs = explainer.run_ids().unwrap();
        assert_eq!(runs.len(), records.len());
        for run in runs {
            for metric in catalogue() {
                let explained = explainer.explain(run, metric.name).unwrap();
                let record = records.iter().find(|record| record.run_id() == run).unwrap();
                let outcome =
                    record.analysis.as_ref().ok().and_then(|a| a.metrics.get(metric.name));
                let expected = outcome.and_then(|outcome| outcome.as_f64().ok());
                match (&explained.value, expected) {
                    (Value::Number(found), Some(expected)) => {
                        assert_eq!(found.as_f64(), Some(expected), "{run} {}", metric.name);
                    }
                    (Value::Bool(found), Some(expected)) => assert_eq!(f64::from(*found), expected),
                    (Value::String(_), Some(_)) => assert_eq!(metric.kind, ValueKind::Time),
                    (Value::Null, None) => assert!(explained.reason.is_some()),
                    other => panic!("{run} {}: {other:?}", metric.name),
                }
                let text = explanation(&explained, TextStyle::default());
                assert!(text.contains(&explained.formula[..10]), "{text}");
            }
        }
    }

    #[test]
    fn an_explanation_reads_from_number_to_rows() {
        let dir = tempfile::tempdir().unwrap();
        let explainer = Explainer::open(&results_of(&archive(), dir.path())).unwrap();
        let explained = explainer.explain("serving-a", "formal_j_per_token").unwrap();
        let text = explanation(&explained, TextStyle::default());
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // 10 s at 500 W over 100 + 150 tokens.
        for expected in [
            "formal_j_per_token of run \"serving-a\" (simulated): 20.0 J/token",
            "formula formal_energy_j / output_tokens",
            "window 2026-01-31T12:00:10Z to 2026-01-31T12:00:20Z, 10 s",
            "formal_energy_j = 5000.0 J",
            "output_tokens = 250 tokens",
            "counter no value, trapezoid 5000 J (counts)",
            "source meter device gpu0: 5000 J",
            "runs/serving-a/power.parquet: source and device as listed",
            "runs/serving-a/requests.parquet: stage = formal, status = ok",
        ] {
            assert!(words.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn a_missing_number_and_a_claim_are_explained() {
        let dir = tempfile::tempdir().unwrap();
        let explainer = Explainer::open(&results_of(&archive(), dir.path())).unwrap();
        let explained = explainer.explain("runs/node-a", "node_sample_mean_power_w").unwrap();
        assert_eq!(explained.run_id, "node-a");
        assert_eq!(explained.value, json!(6000.0));
        let [claim] = &explained.claims[..] else { panic!("{:?}", explained.claims) };
        assert_eq!((claim.claimed, claim.agrees_as_printed), (6100.5, Some(false)));
        let broken = explainer.explain("runs/broken", "formal_energy_j").unwrap();
        assert_eq!(broken.reason.unwrap().code, "invalid-run");
        assert_eq!(broken.error.as_deref(), Some("\"run.json\" is missing"));
    }

    #[test]
    fn two_runs_of_one_id_cannot_be_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let mut copy = fixtures::serving("serving-a");
        copy.path = "copies/serving-a".into();
        let records = [fixtures::serving("serving-a"), copy];
        let explainer = Explainer::open(&results_of(&records, dir.path())).unwrap();
        let message = explainer.explain("serving-a", "energy_j").unwrap_err().to_string();
        assert_eq!(
            message,
            "run id \"serving-a\" is used by copies/serving-a, runs/serving-a; \
             expected one run an id"
        );
    }

    #[test]
    fn what_is_near_is_suggested() {
        let near = |wanted: &str| suggestion(wanted, ["chat-a", "chat-b", "code-long"].into_iter());
        assert_eq!(near("chat-c"), "; did you mean \"chat-a\" or \"chat-b\"?");
        assert_eq!(near("long"), "; did you mean \"code-long\"?");
        assert_eq!(near("something else"), "");
    }
}
