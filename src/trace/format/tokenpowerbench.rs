//! TokenPowerBench: one JSON file of aggregates, by model and batch size. There is nothing to recompute
//! from, so every entry becomes a `summary` run with claims.

use serde_json::{Map, Value};
use wattrace_schema::{Claim, Engine, Model, RunKind, Unit};

use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "tokenpowerbench",
    title: "TokenPowerBench: JSON of results by model and batch size",
    recovers: "claimed energies and powers by component, energy per token, batch size",
    lacks: "raw rows: nothing can be recomputed",
    reader: Reader::Parts { detect, read },
};

/// A file of results has some kilobytes for each entry.
const MAX_BYTES: u64 = 64 << 20;

fn detect(head: &Head) -> Option<String> {
    let paths = head.json_paths();
    // The models are the keys above, and names of models hold points.
    let has =
        |key: &str| paths.iter().any(|path| path.ends_with(&format!(".{key}")) || path == key);
    let keys = ["duration", "total_output_tokens", "gpu_energy", "gpu_avg_power"];
    keys.iter().all(|key| has(key)).then(|| {
        format!("\"{}\" has {} of TokenPowerBench", head.path().display(), keys.join(", "))
    })
}

/// Key, our name, unit. Energies are in joules, powers in watts.
const CLAIMS: &[(&str, &str, Unit)] = &[
    ("gpu_energy", "formal_energy_j", Unit::Joule),
    ("gpu_avg_power", "formal_power_w", Unit::Watt),
    ("gpu_energy_per_token", "formal_j_per_token", Unit::JoulePerToken),
    ("total_output_tokens", "output_tokens", Unit::Token),
    ("total_energy", "node_energy_j", Unit::Joule),
    ("total_avg_power", "node_power_w", Unit::Watt),
    ("energy_per_token", "node_j_per_token", Unit::JoulePerToken),
    ("cpu_energy", "cpu_energy_j", Unit::Joule),
    ("cpu_avg_power", "cpu_power_w", Unit::Watt),
    ("dram_energy", "dram_energy_j", Unit::Joule),
    ("dram_avg_power", "dram_power_w", Unit::Watt),
    ("duration", "duration_s", Unit::Second),
];

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let entries = entries(input)?;
    let mut unread = Part::default();
    let mut parts = 0;
    for (index, entry) in entries.iter().enumerate() {
        match entry.part(input) {
            Ok(mut part) => {
                part.skipped = std::mem::take(&mut unread.skipped);
                parts += 1;
                sink.begin(&input.stem())?;
                sink.end(part)?;
            }
            Err(message) => {
                let (strict, path) = (options.strict, input.path());
                unread.skipped.add(
                    strict,
                    path,
                    index as u64 + 1,
                    "results, counted from 1,",
                    message,
                )?;
            }
        }
    }
    if parts == 0 {
        let mut message = "holds no result with an energy".to_owned();
        for note in unread.skipped.notes(input.path()) {
            message += &format!("; {note}");
        }
        return Err(input.error(None, message));
    }
    Ok(())
}

struct Entry {
    /// Where it stands, for the sources of claims.
    place: String,
    /// The key that it stands below, which is the model.
    model: Option<String>,
    value: Value,
}

/// Every result: the lists below the names of models, or one plain list.
fn entries(input: &Input) -> Result<Vec<Entry>, TraceError> {
    let document = read_document(input)?;
    let mut entries = Vec::new();
    let mut add = |model: Option<&str>, list: Vec<Value>| {
        for (index, value) in list.into_iter().enumerate() {
            let place = format!("{}[{index}]", model.unwrap_or_default());
            entries.push(Entry { place, model: model.map(str::to_owned), value });
        }
    };
    match document {
        Value::Array(list) => add(None, list),
        Value::Object(models) => {
            for (model, value) in models {
                match value {
                    Value::Array(list) => add(Some(&model), list),
                    Value::Object(one) => add(Some(&model), vec![Value::Object(one)]),
                    _ => {
                        return Err(input.error(
                            None,
                            format!("\"{}\" is no list of results", model.escape_debug()),
                        ));
                    }
                }
            }
        }
        _ => return Err(input.error(None, "is no list of results by model")),
    }
    Ok(entries)
}

fn read_document(input: &Input) -> Result<Value, TraceError> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let mut reader = input.open()?.take(MAX_BYTES + 1);
    reader.read_to_end(&mut bytes).map_err(TraceError::io("read", input.path()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(
            input.error(None, format!("is larger than {MAX_BYTES} bytes; expected results"))
        );
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(bytes).map_err(|error| super::json::json_error(input, &error))
}

impl Entry {
    fn part(&self, input: &Input) -> Result<Part, String> {
        let Value::Object(fields) = &self.value else {
            return Err(format!("{} is no object; expected a result", self.place));
        };
        let mut part = Part { kind: Some(RunKind::Summary), ..Part::default() };
        for (key, metric, unit) in CLAIMS {
            let Some(value) = self.number(fields, key)? else { continue };
            part.claims.push(Claim {
                metric: (*metric).into(),
                value,
                unit: unit.symbol().into(),
                source: format!("{} {}.{key}", input.file_name(), self.place),
            });
        }
        if !part.claims.iter().any(|claim| claim.unit == Unit::Joule.symbol()) {
            return Err(format!("{} states no energy; expected gpu_energy in J", self.place));
        }
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = text("model").or_else(|| self.model.clone()).unwrap_or_default();
        part.model = Model { name, ..Model::default() };
        part.engine = Engine { name: text("engine"), ..Engine::default() };
        if let Some(batch) = fields.get("batch_size").and_then(Value::as_u64) {
            part.configuration = Some(format!("batch_size={batch}"));
        }
        if let Some(scope) = text("energy_scope") {
            part.notes.push(format!("energy_scope: {scope}"));
        }
        Ok(part)
    }

    /// A number above zero; zero stands for a sensor that there was not.
    fn number(&self, fields: &Map<String, Value>, key: &str) -> Result<Option<f64>, String> {
        let value = match fields.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value,
        };
        match value.as_f64().filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(Some(number).filter(|number| *number > 0.0)),
            None => Err(format!("{}.{key} is {value}; expected a number of 0 or more", self.place)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
