//! The published tables of the ML.ENERGY leaderboard, version 3: `tasks/*.json`, each a list of measured
//! configurations of one task.
//!
//! Every configuration that generates tokens becomes a `summary` run with claims; there are no raw rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use wattrace_schema::{
    Claim, Engine, Hardware, Model, MoeGeometry, RunKind, RunManifest, Split, Unit, Workload,
};

use super::folders;
use super::{Format, ImportOptions, ImportSummary, Reader, file_name, head, safe_run_id};
use crate::geometry::published_geometry;
use crate::{RunWriter, TraceError};

pub(super) const FORMAT: Format = Format {
    name: NAME,
    title: "ML.ENERGY leaderboard v3: tables of measured configurations (tasks/*.json)",
    recovers: "claimed J/token, batch size, time per token, output length, power, gaps between tokens",
    lacks: "raw rows, decode apart from prefill, start-up and release; geometry of any but well-known dense models",
    reader: Reader::Runs { detect, import },
};

const NAME: &str = "mlenergy-leaderboard";
/// The published tables have 300 kB at most.
const MAX_TABLE_BYTES: u64 = 64 << 20;
const ENERGY: &str = "energy_per_token_joules";
const THROUGHPUT: &str = "output_throughput_tokens_per_sec";

/// What a JSON file of the leaderboard is.
enum Page {
    /// Configurations of one task.
    Task { name: String, configurations: Vec<Value> },
    /// The list of models and tasks, or the page of one model, whose numbers stand in its tasks' tables.
    Other(&'static str),
}

/// Looks for a table of configurations with energies.
fn detect(input: &Path) -> Option<String> {
    let is_table = |path: &Path| {
        let bytes = head(path, 1 << 16);
        let text = String::from_utf8_lossy(&bytes);
        let start = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
        let keys = ["\"configurations\"", "\"energy_per_", "\"gpu_model\""];
        start && keys.iter().all(|key| text.contains(key))
    };
    let reason = |path: &Path| {
        format!("\"{}\" lists configurations with their energy and GPU model", path.display())
    };
    if input.is_file() {
        return is_table(input).then(|| reason(input));
    }
    json_files(input).ok()?.iter().find(|path| is_table(path)).map(|path| reason(path))
}

/// The files below a folder that may be tables.
fn json_files(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let folders = folders::walk(folder)?;
    let files = folders.into_iter().flat_map(|folder| {
        let json = folder.files.into_iter().filter(|file| file.ends_with(".json"));
        json.map(move |file| folder.path.join(file)).collect::<Vec<_>>()
    });
    Ok(files.collect())
}

fn import(
    input: &Path,
    archive: &Path,
    options: &ImportOptions,
) -> Result<ImportSummary, TraceError> {
    let files = if input.is_dir() { json_files(input)? } else { vec![input.to_owned()] };
    let mut summary = ImportSummary::default();
    let mut ids = RunIds::default();
    let mut tables = 0;
    for path in &files {
        match read_page(path) {
            Ok(Page::Task { name, configurations }) => {
                tables += 1;
                let table = Table { path, task: &name, options };
                table.import(&configurations, archive, &mut ids, &mut summary)?;
            }
            Ok(Page::Other(what)) if input.is_dir() => {
                summary.notes.push(format!("{} passed over: {what}", file_name(path)));
            }
            Ok(Page::Other(what)) => {
                return Err(error(path, format!("is {what}; expected the table of a task")));
            }
            Err(error) => summary.fail(&error),
        }
    }
    if tables == 0 && summary.failed.is_empty() {
        return Err(error(input, "holds no table of a task; expected tasks/*.json".into()));
    }
    Ok(summary)
}

fn error(path: &Path, message: String) -> TraceError {
    TraceError::Format { path: path.to_owned(), line: None, message }
}

fn read_page(path: &Path) -> Result<Page, TraceError> {
    let size = std::fs::metadata(path).map_err(TraceError::io("read", path))?.len();
    if size > MAX_TABLE_BYTES {
        let message = format!("has {size} bytes; expected a table of at most {MAX_TABLE_BYTES}");
        return Err(error(path, message));
    }
    let bytes = std::fs::read(path).map_err(TraceError::io("read", path))?;
    let page: Value = serde_json::from_slice(&bytes).map_err(|cause| TraceError::Format {
        path: path.to_owned(),
        line: Some(cause.line() as u64),
        message: format!("is not valid JSON: {cause}"),
    })?;
    let Value::Object(mut page) = page else {
        return Err(error(path, "is not a JSON object; expected the table of a task".into()));
    };
    if page.contains_key("model_id") {
        return Ok(Page::Other(
            "the page of one model, whose numbers stand in the tables of its tasks",
        ));
    }
    if page.contains_key("models") && page.contains_key("tasks") {
        return Ok(Page::Other("the list of models and tasks"));
    }
    let configurations = match page.remove("configurations") {
        Some(Value::Array(configurations)) => configurations,
        Some(other) => {
            return Err(error(
                path,
                format!("\"configurations\" is {}; expected a list", kind(&other)),
            ));
        }
        None => return Ok(Page::Other("no table of configurations")),
    };
    match page.remove("task") {
        Some(Value::String(name)) => Ok(Page::Task { name, configurations }),
        Some(other) => Err(error(path, format!("\"task\" is {other}; expected a name"))),
        None => Err(error(path, "has no \"task\"; expected the table of a task".into())),
    }
}

/// What kind of JSON a value is, for messages that should not print all of it.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Ids given so far: a configuration that was measured twice gets a number.
#[derive(Default)]
struct RunIds(BTreeMap<String, u32>);

impl RunIds {
    /// A new id, and which measurement of the same configuration this is.
    fn unique(&mut self, id: String) -> (String, u32) {
        let count = self.0.entry(id.clone()).or_default();
        *count += 1;
        match *count {
            1 => (id, 1),
            count => (format!("{id}_repeat_{count}"), count),
        }
    }
}

/// One table.
struct Table<'a> {
    path: &'a Path,
    task: &'a str,
    options: &'a ImportOptions,
}

impl Table<'_> {
    fn import(
        &self,
        configurations: &[Value],
        archive: &Path,
        ids: &mut RunIds,
        summary: &mut ImportSummary,
    ) -> Result<(), TraceError> {
        let mut without_tokens = 0;
        let digest = super::provenance(NAME, &[self.path], self.options, Vec::new())?;
        for (index, value) in configurations.iter().enumerate() {
            let record = match Record::new(self.path, index, value) {
                Ok(record) => record,
                Err(error) => {
                    summary.fail(&error);
                    continue;
                }
            };
            if !record.fields.contains_key(ENERGY) {
                without_tokens += 1;
                continue;
            }
            let imported = self.manifest(&record, ids).and_then(|mut manifest| {
                let notes = std::mem::take(&mut manifest.provenance.notes);
                manifest.provenance = wattrace_schema::Provenance { notes, ..digest.clone() };
                RunWriter::create(archive, &manifest.run_id)?.finish(manifest)
            });
            match imported {
                Ok(folder) => summary.runs.push(folder),
                Err(error) => summary.fail(&error),
            }
        }
        if without_tokens > 0 {
            let file = file_name(self.path);
            let message = format!("configurations without \"{ENERGY}\", whose task has no tokens");
            if self.options.strict {
                summary.fail(&error(self.path, format!("has {without_tokens} {message}")));
            } else {
                summary.notes.push(format!("{file}: {message}, left out: {without_tokens}"));
            }
        }
        Ok(())
    }

    fn manifest(&self, record: &Record<'_>, ids: &mut RunIds) -> Result<RunManifest, TraceError> {
        let mut notes = Vec::new();
        let model = record.model(&mut notes)?;
        let hardware = Hardware {
            accelerator: record.text("gpu_model")?.to_owned(),
            count: record.required_count("num_gpus")?,
            ..Hardware::default()
        };
        let parallel = Parallel::new(record)?;
        let sequences = record.count("max_num_seqs")?;
        let batch = sequences.map(|sequences| format!("max_num_seqs={sequences}"));

        let id = format!(
            "{}__{}__{}x{}__{}__{}",
            self.task,
            model.name,
            hardware.accelerator,
            hardware.count,
            parallel.text(),
            batch.as_deref().unwrap_or("max_num_seqs=unknown").replace("max_num_seqs=", "seqs")
        );
        let (run_id, repeat) = ids.unique(safe_run_id(&id));
        if repeat > 1 {
            notes.push(format!(
                "measurement {repeat} of a configuration that the table lists more than once"
            ));
        }
        let mut manifest = RunManifest::new(run_id, RunKind::Summary, model, hardware);
        manifest.configuration = Some(match &batch {
            Some(batch) => format!("{} {batch}", parallel.text()),
            None => parallel.text(),
        });
        manifest.engine = Engine {
            flags: Some(parallel.flags(sequences)),
            tensor_parallel: parallel.tensor,
            replicas: parallel.data,
            ..Engine::default()
        };
        manifest.workload = Workload { task: Some(self.task.into()), ..Workload::default() };
        manifest.cell = batch.map(|batch| format!("{} {batch}", self.task));
        manifest.split = Some(Split::Fit);
        manifest.claims = record.claims()?;
        manifest.provenance.notes = notes;
        Ok(manifest)
    }
}

/// How the accelerators share the model.
struct Parallel {
    tensor: Option<u32>,
    data: Option<u32>,
    expert: Option<u32>,
}

impl Parallel {
    fn new(record: &Record<'_>) -> Result<Self, TraceError> {
        Ok(Self {
            tensor: record.count("tensor_parallel")?,
            data: record.count("data_parallel")?,
            expert: record.count("expert_parallel")?,
        })
    }

    fn text(&self) -> String {
        let [tensor, data, expert] = [self.tensor, self.data, self.expert].map(|n| n.unwrap_or(1));
        format!("tp{tensor}-dp{data}-ep{expert}")
    }

    fn flags(&self, sequences: Option<u32>) -> Value {
        serde_json::json!({ "max_num_seqs": sequences, "expert_parallel": self.expert })
    }
}

/// One configuration, with its place for messages.
struct Record<'a> {
    path: &'a Path,
    index: usize,
    fields: &'a Map<String, Value>,
}

impl<'a> Record<'a> {
    fn new(path: &'a Path, index: usize, value: &'a Value) -> Result<Self, TraceError> {
        match value.as_object() {
            Some(fields) => Ok(Self { path, index, fields }),
            None => Err(error(
                path,
                format!("configurations[{index}] is {}; expected an object", kind(value)),
            )),
        }
    }

    fn error<T>(&self, message: &str) -> Result<T, TraceError> {
        Err(error(self.path, format!("configurations[{}].{message}", self.index)))
    }

    /// The value of a key; null is absent.
    fn value(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<&'a str, TraceError> {
        match self.value(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
            Some(other) => self.error(&format!("{key} is {other}; expected a name")),
            None => self.error(&format!("{key} is missing; expected a name")),
        }
    }

    fn count(&self, key: &str) -> Result<Option<u32>, TraceError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|n| *n > 0) {
            Some(number) => Ok(Some(number)),
            None => self.error(&format!("{key} is {value}; expected a whole number above 0")),
        }
    }

    fn required_count(&self, key: &str) -> Result<u32, TraceError> {
        match self.count(key)? {
            Some(number) => Ok(number),
            None => self.error(&format!("{key} is missing; expected a whole number above 0")),
        }
    }

    fn number(&self, key: &str) -> Result<Option<f64>, TraceError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_f64().filter(|number| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(Some(number)),
            None => self.error(&format!("{key} is {value}; expected a number above 0")),
        }
    }

    /// Parameters from a key in billions.
    fn parameters(&self, key: &str) -> Result<Option<u64>, TraceError> {
        // The tables give tenths of a billion; rounding undoes what the multiplication adds.
        Ok(self.number(key)?.map(|billions| (billions * 1e9).round() as u64))
    }

    fn model(&self, notes: &mut Vec<String>) -> Result<Model, TraceError> {
        let name = self.text("model_id")?;
        let dtype = self.value("weight_precision").and_then(Value::as_str);
        let weight_bytes = dtype.and_then(bytes_of_precision);
        // Only where weights and keys have one type by default is the second known from the first.
        let kv_bytes = weight_bytes.filter(|bytes| *bytes == 2.0);
        let mut model = Model {
            name: name.to_owned(),
            total_params: self.parameters("total_params_billions")?,
            active_params: self.parameters("activated_params_billions")?,
            dtype: dtype.map(str::to_owned),
            weight_bytes_per_param: weight_bytes,
            kv_bytes_per_value: kv_bytes,
            ..Model::default()
        };
        let architecture = self.value("architecture").and_then(Value::as_str);
        if architecture == Some("MoE") {
            model.moe = Some(MoeGeometry::default());
            return Ok(model);
        }
        model.active_params = None;
        let Some(geometry) = published_geometry(name, weight_bytes, kv_bytes) else {
            notes.push(format!(
                "the table has no geometry, and that of \"{name}\" ({}) is not known here",
                architecture.unwrap_or("architecture not given")
            ));
            return Ok(model);
        };
        notes.push(format!(
            "geometry from the model's public config.json; it has {} parameters, which the table rounds to \
             {} billion",
            geometry.total_parameters(),
            self.value("total_params_billions").unwrap_or(&Value::Null)
        ));
        notes.extend(geometry.notes);
        match kv_bytes {
            Some(_) => notes.push(
                "keys and values are taken to have the type of the weights; the table does not say"
                    .into(),
            ),
            None => notes.push("the table does not give the type of keys and values".into()),
        }
        Ok(Model { name: model.name, dtype: model.dtype, ..geometry.model })
    }

    fn claims(&self) -> Result<Vec<Claim>, TraceError> {
        let mut claims = Vec::new();
        let mut add = |key: &str, metric: &str, value: f64, unit: &str| {
            claims.push(Claim {
                metric: metric.into(),
                value,
                unit: unit.into(),
                source: format!("{} configurations[{}].{key}", file_name(self.path), self.index),
            });
        };
        for (key, metric, unit) in CLAIMS {
            if let Some(value) = self.number(key)? {
                add(key, metric, value, unit.symbol());
            }
        }
        if let Some(throughput) = self.number(THROUGHPUT)? {
            // τ = D/T, the inverse of T/D.
            add(
                &format!("{THROUGHPUT}, inverted"),
                "tau_s",
                1.0 / throughput,
                Unit::SecondPerToken.symbol(),
            );
        }
        if !claims.iter().any(|claim| claim.metric == "j_per_token") {
            return self.error(&format!("{ENERGY} is null; expected a number above 0"));
        }
        Ok(claims)
    }
}

/// Keys that are metrics of ours, with their unit; the last has no counterpart and keeps its name.
const CLAIMS: &[(&str, &str, Unit)] = &[
    (ENERGY, "j_per_token", Unit::JoulePerToken),
    ("avg_batch_size", "b_eff", Unit::Count),
    ("avg_output_len", "mean_output_tokens", Unit::Token),
    (THROUGHPUT, "output_throughput_tok_s", Unit::TokenPerSecond),
    ("avg_power_watts", "steady_power_w", Unit::Watt),
    ("median_itl_ms", "itl_p50_ms", Unit::Millisecond),
    ("p90_itl_ms", "itl_p90_ms", Unit::Millisecond),
    ("p95_itl_ms", "itl_p95_ms", Unit::Millisecond),
    ("p99_itl_ms", "itl_p99_ms", Unit::Millisecond),
    ("energy_per_request_joules", "energy_per_request_joules", Unit::Joule),
];

/// Bytes of a weight. A packed four-bit format adds scales whose share the name does not tell.
fn bytes_of_precision(name: &str) -> Option<f64> {
    match name {
        "float32" => Some(4.0),
        "bfloat16" | "float16" => Some(2.0),
        "fp8" => Some(1.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
