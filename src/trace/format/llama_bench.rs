//! llama-bench: one test a row of CSV, a line of JSON or an element of a JSON list. Tests are means over
//! repetitions, so each becomes a `summary` run with claims; what the file says of the model's size and
//! of the depth of the context is kept.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Deserialize;
use wattrace_schema::{Claim, Engine, Model, RunKind, Unit};

use super::delimited::{Dialect, Header, Rows};
use super::json::{self, Failure};
use super::json_objects::OneOrMany;
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "llama-bench",
    title: "llama-bench: JSON, JSONL or CSV",
    recovers: "claimed token rates and times per token, bytes of the weights, depth of the context",
    lacks: "raw rows, energy, geometry of layers",
    reader: Reader::Parts { detect, read },
};

/// What every layout has, as keys or as columns.
const KEYS: [&str; 4] = ["build_commit", "model_filename", "n_prompt", "avg_ts"];

fn detect(head: &Head) -> Option<String> {
    let path = head.path().display();
    let keys = KEYS.join(", ");
    if head.has_json_paths(&KEYS) {
        return Some(format!("\"{path}\" has the keys {keys} of llama-bench"));
    }
    let line = head.lines().next()?;
    let names: Vec<&str> = line.split(',').map(|name| name.trim().trim_matches('"')).collect();
    KEYS.iter()
        .all(|key| names.contains(key))
        .then(|| format!("\"{path}\" has the columns {keys} of llama-bench"))
}

#[derive(Debug, Deserialize)]
struct Test {
    build_commit: Option<String>,
    build_number: Option<u64>,
    cpu_info: Option<String>,
    gpu_info: Option<String>,
    backends: Option<String>,
    model_filename: Option<String>,
    model_type: Option<String>,
    model_size: Option<u64>,
    model_n_params: Option<u64>,
    type_k: Option<String>,
    type_v: Option<String>,
    n_batch: Option<u64>,
    n_ubatch: Option<u64>,
    n_gpu_layers: Option<i64>,
    n_prompt: u64,
    n_gen: u64,
    #[serde(default)]
    n_depth: u64,
    test_time: Option<String>,
    avg_ns: f64,
    stddev_ns: Option<f64>,
    avg_ts: f64,
    stddev_ts: Option<f64>,
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let mut emit = Emit { input, options, sink, tests: 0, unread: Part::default() };
    if input.head().is_json() {
        let failure = Failure::default();
        let shared = RefCell::new(&mut emit);
        json::documents(input, &failure, |_| {
            OneOrMany::new(&failure, |test| {
                let mut emit = shared.borrow_mut();
                let number = emit.tests + emit.unread.skipped.count() + 1;
                emit.test(number, &format!("test {number}"), Ok(test))
            })
        })?;
    } else {
        read_table(input, &mut emit)?;
    }
    if emit.tests > 0 {
        return Ok(());
    }
    let mut message = "holds no test of llama-bench".to_owned();
    for note in emit.unread.skipped.notes(input.path()) {
        message += &format!("; {note}");
    }
    Err(input.error(None, message))
}

fn read_table(input: &Input, emit: &mut Emit<'_>) -> Result<(), TraceError> {
    let mut rows = Rows::open(input, Dialect::COMMA)?;
    let Some(first) = rows.next_row()? else {
        return Err(input.error(None, "is empty; expected tests of llama-bench"));
    };
    let header = Header::new(&first);
    for key in KEYS {
        header.require(key).map_err(|message| input.error(Some(first.line), message))?;
    }
    while let Some(row) = rows.next_row()? {
        // Outputs of several calls stand in one file, each with its header.
        if header.repeats(&row) {
            continue;
        }
        let cells: BTreeMap<&str, &str> = header
            .names()
            .iter()
            .map(String::as_str)
            .zip(row.cells.iter().map(String::as_str))
            .collect();
        let test = if row.cells.len() < header.names().len() {
            Err(format!(
                "has {} cells of {}; expected a whole row",
                row.cells.len(),
                header.names().len()
            ))
        } else {
            Test::of_cells(&cells)
        };
        emit.test(row.line, &format!("line {}", row.line), test)?;
    }
    Ok(())
}

impl Test {
    fn of_cells(cells: &BTreeMap<&str, &str>) -> Result<Self, String> {
        let text = |key: &str| {
            cells.get(key).filter(|cell| !cell.is_empty()).map(|cell| (*cell).to_owned())
        };
        fn number<T: std::str::FromStr>(
            cells: &BTreeMap<&str, &str>,
            key: &str,
        ) -> Result<Option<T>, String> {
            let Some(cell) = cells.get(key).filter(|cell| !cell.is_empty()) else {
                return Ok(None);
            };
            let number = cell
                .parse()
                .map_err(|_| format!("{key} is \"{}\"; expected a number", cell.escape_debug()))?;
            Ok(Some(number))
        }
        let required = |key: &str, value: Option<f64>| {
            value.ok_or_else(|| format!("{key} is empty; expected a number"))
        };
        let count = |key: &str, value: Option<u64>| {
            value.ok_or_else(|| format!("{key} is empty; expected a number of tokens"))
        };
        Ok(Self {
            build_commit: text("build_commit"),
            build_number: number(cells, "build_number")?,
            cpu_info: text("cpu_info"),
            gpu_info: text("gpu_info"),
            backends: text("backends"),
            model_filename: text("model_filename"),
            model_type: text("model_type"),
            model_size: number(cells, "model_size")?,
            model_n_params: number(cells, "model_n_params")?,
            type_k: text("type_k"),
            type_v: text("type_v"),
            n_batch: number(cells, "n_batch")?,
            n_ubatch: number(cells, "n_ubatch")?,
            n_gpu_layers: number(cells, "n_gpu_layers")?,
            n_prompt: count("n_prompt", number(cells, "n_prompt")?)?,
            n_gen: count("n_gen", number(cells, "n_gen")?)?,
            n_depth: number(cells, "n_depth")?.unwrap_or_default(),
            test_time: text("test_time"),
            avg_ns: required("avg_ns", number(cells, "avg_ns")?)?,
            stddev_ns: number(cells, "stddev_ns")?,
            avg_ts: required("avg_ts", number(cells, "avg_ts")?)?,
            stddev_ts: number(cells, "stddev_ts")?,
        })
    }

    /// What was tested, such as `pp512`, `tg128 @ d4096`.
    fn name(&self) -> String {
        let mut name = match (self.n_prompt, self.n_gen) {
            (prompt, 0) => format!("pp{prompt}"),
            (0, generated) => format!("tg{generated}"),
            (prompt, generated) => format!("pp{prompt}+tg{generated}"),
        };
        if self.n_depth > 0 {
            name += &format!(" @ d{}", self.n_depth);
        }
        name
    }

    fn claims(&self, source: &str) -> Result<Vec<Claim>, String> {
        for (key, value) in [("avg_ns", self.avg_ns), ("avg_ts", self.avg_ts)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{key} is {value}; expected a number above 0"));
            }
        }
        let mut claims = Vec::new();
        let mut add = |metric: &str, value: f64, unit: Unit, key: &str| {
            let (metric, unit) = (metric.to_owned(), unit.symbol().to_owned());
            claims.push(Claim { metric, value, unit, source: format!("{source} {key}") });
        };
        match (self.n_prompt, self.n_gen) {
            (0, 0) => return Err("n_prompt and n_gen are both 0; expected tokens".into()),
            (0, generated) => {
                add("output_throughput_tok_s", self.avg_ts, Unit::TokenPerSecond, "avg_ts");
                let tau_s = self.avg_ns / 1e9 / generated as f64;
                add("tau_s", tau_s, Unit::SecondPerToken, "avg_ns / n_gen");
                add("b_eff", 1.0, Unit::Count, "one sequence");
                // The k-th of n tokens sees the depth and k - 1 tokens before it.
                let history = self.n_depth as f64 + (generated - 1) as f64 / 2.0;
                add("mean_history_tokens", history, Unit::Token, "n_depth + (n_gen - 1) / 2");
            }
            (_, 0) => add("prompt_throughput_tok_s", self.avg_ts, Unit::TokenPerSecond, "avg_ts"),
            _ => add(
                "prompt_and_output_throughput_tok_s",
                self.avg_ts,
                Unit::TokenPerSecond,
                "avg_ts",
            ),
        }
        if let Some(deviation) = self.stddev_ts.filter(|value| value.is_finite() && *value >= 0.0) {
            add("throughput_std_tok_s", deviation, Unit::TokenPerSecond, "stddev_ts");
        }
        if let Some(deviation) = self.stddev_ns.filter(|value| value.is_finite() && *value >= 0.0) {
            add("duration_std_s", deviation / 1e9, Unit::Second, "stddev_ns");
        }
        Ok(claims)
    }

    fn model(&self, notes: &mut Vec<String>) -> Model {
        let file = self.model_filename.as_deref().unwrap_or_default();
        let name = file.rsplit(['/', '\\']).next().unwrap_or_default();
        let size = self.model_size.filter(|bytes| *bytes > 0);
        let params = self.model_n_params.filter(|params| *params > 0);
        if size.is_some() {
            notes.push(
                "decode_weight_bytes is the size of all tensors of the file; an iteration does not read the \
                 look-up table of an untied model"
                    .into(),
            );
        }
        let kv_bytes =
            self.type_k.as_deref().filter(|_| self.type_k == self.type_v).and_then(bytes_of_type);
        Model {
            name: name.to_owned(),
            total_params: params,
            dtype: self.model_type.clone(),
            weight_bytes_per_param: size
                .zip(params)
                .map(|(bytes, params)| bytes as f64 / params as f64),
            kv_bytes_per_value: kv_bytes,
            decode_weight_bytes: size,
            ..Model::default()
        }
    }

    fn part(&self, source: &str) -> Result<Part, String> {
        let mut part = Part { kind: Some(RunKind::Summary), ..Part::default() };
        part.claims = self.claims(source)?;
        part.model = self.model(&mut part.notes);
        part.configuration = Some(self.name());
        let named = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let gpu = named(&self.gpu_info).filter(|_| self.n_gpu_layers != Some(0));
        part.accelerator = gpu.or_else(|| named(&self.cpu_info));
        let build = self.build_number.map(|number| format!("b{number}"));
        let version: Vec<String> = build.into_iter().chain(named(&self.build_commit)).collect();
        part.engine = Engine {
            name: Some("llama.cpp".into()),
            version: (!version.is_empty()).then(|| version.join(" ")),
            flags: Some(serde_json::json!({
                "backends": self.backends, "n_batch": self.n_batch, "n_ubatch": self.n_ubatch,
                "n_gpu_layers": self.n_gpu_layers, "type_k": self.type_k, "type_v": self.type_v,
            })),
            ..Engine::default()
        };
        if let Some(time) = named(&self.test_time) {
            part.notes.push(format!("the test began at {time}; repetitions are not dated"));
        }
        Ok(part)
    }
}

/// Bytes of a key or value; a quantised block of 32 has a scale of two bytes.
fn bytes_of_type(name: &str) -> Option<f64> {
    match name {
        "f32" => Some(4.0),
        "f16" | "bf16" => Some(2.0),
        "q8_0" => Some(34.0 / 32.0),
        "q4_0" => Some(18.0 / 32.0),
        _ => None,
    }
}

struct Emit<'a> {
    input: &'a Input,
    options: &'a ImportOptions,
    sink: &'a mut dyn Sink,
    tests: u64,
    /// Tests left out since the last part.
    unread: Part,
}

impl Emit<'_> {
    fn test(
        &mut self,
        number: u64,
        place: &str,
        test: Result<Test, String>,
    ) -> Result<(), TraceError> {
        let source = format!("{} {place}", self.input.file_name());
        let part = test.and_then(|test| Ok((test.name(), test.part(&source)?)));
        match part {
            Ok((name, mut part)) => {
                part.skipped = std::mem::take(&mut self.unread.skipped);
                self.tests += 1;
                self.sink.begin(&format!("{} {name}", self.input.stem()))?;
                self.sink.end(part)
            }
            Err(message) => {
                let (strict, path) = (self.options.strict, self.input.path());
                self.unread.skipped.add(strict, path, number, "tests", message)
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
