//! `run.json`: from bytes to a manifest that makes sense, and what makes sense.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use wattrace_schema::{PowerSource, RunManifest, SCHEMA_VERSION};

use crate::TraceError;

/// Name of the file that makes a folder a run.
pub(crate) const RUN_JSON: &str = "run.json";

/// A run.json of more bytes than this is taken for a mistake rather than read.
pub(crate) const MAX_RUN_JSON_BYTES: u64 = 64 << 20;

/// Reads a manifest from the bytes of the file at `path`.
pub(crate) fn parse_manifest(path: &Path, bytes: &[u8]) -> Result<RunManifest, TraceError> {
    let invalid = |message: String| TraceError::Manifest { path: path.to_owned(), message };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        invalid(format!("byte {} is not UTF-8; expected JSON text in UTF-8", error.valid_up_to()))
    })?;
    if !text.trim_start().starts_with('{') {
        return Err(invalid("it does not begin with \"{\"; expected a JSON object".to_owned()));
    }
    check_version(text).map_err(invalid)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let manifest: RunManifest = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // The parser writes "?" where the text ends before a key, and "." for the whole.
        let key = error.path().to_string();
        match key.trim_end_matches('?').trim_end_matches('.') {
            "" => invalid(error.inner().to_string()),
            key => invalid(format!("key \"{key}\": {}", error.inner())),
        }
    })?;
    json.end().map_err(|error| invalid(error.to_string()))?;
    validate_manifest(&manifest).map_err(invalid)?;
    Ok(manifest)
}

/// Another version may differ in every other key, so the version is looked at first. Text that is no
/// JSON object at all is left to the full parse, whose message says where.
fn check_version(text: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: Option<serde_json::Value>,
    }
    match serde_json::from_str::<Version>(text) {
        Ok(Version { schema_version: Some(found) }) if found != SCHEMA_VERSION => {
            Err(format!("key \"schema_version\" is {found}; expected {SCHEMA_VERSION}"))
        }
        _ => Ok(()),
    }
}

/// What the types of a manifest cannot say, such as that an id is not empty.
///
/// # Errors
/// A message that names the key, the value and what would be right.
pub fn validate_manifest(manifest: &RunManifest) -> Result<(), String> {
    text("run_id", &manifest.run_id)?;
    text("model.name", &manifest.model.name)?;
    text("hardware.accelerator", &manifest.hardware.accelerator)?;
    if manifest.hardware.count == 0 {
        return Err("key \"hardware.count\" is 0; expected at least 1".into());
    }
    positive("hardware.hbm_bandwidth_gb_s", manifest.hardware.hbm_bandwidth_gb_s)?;
    positive("model.weight_bytes_per_param", manifest.model.weight_bytes_per_param)?;
    positive("model.kv_bytes_per_value", manifest.model.kv_bytes_per_value)?;
    positive("workload.request_rate", manifest.workload.request_rate)?;
    for (key, count) in [
        ("engine.tensor_parallel", manifest.engine.tensor_parallel),
        ("engine.replicas", manifest.engine.replicas),
    ] {
        if count == Some(0) {
            return Err(format!("key \"{key}\" is 0; expected at least 1, or null"));
        }
    }
    let mut ids = BTreeSet::new();
    for (index, source) in manifest.power_sources.iter().enumerate() {
        validate_source(index, source)?;
        if !ids.insert(&source.id) {
            return Err(format!(
                "key \"power_sources[{index}].id\" is \"{}\", as in an earlier source; \
                 expected ids that differ",
                source.id
            ));
        }
    }
    for (index, claim) in manifest.claims.iter().enumerate() {
        text(&format!("claims[{index}].metric"), &claim.metric)?;
        if !claim.value.is_finite() {
            return Err(format!(
                "key \"claims[{index}].value\" is {}; expected a finite number",
                claim.value
            ));
        }
    }
    for (name, entry) in &manifest.files {
        let is_digest =
            entry.sha256.len() == 64 && entry.sha256.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_digest {
            return Err(format!(
                "key \"files.{}.sha256\" is \"{}\"; expected 64 hexadecimal digits",
                name.escape_debug(),
                entry.sha256.escape_debug()
            ));
        }
    }
    Ok(())
}

fn validate_source(index: usize, source: &PowerSource) -> Result<(), String> {
    let key = |name: &str| format!("power_sources[{index}].{name}");
    text(&key("id"), &source.id)?;
    positive(&key("nominal_interval_ms"), Some(source.nominal_interval_ms))?;
    positive(&key("averaging_window_ms"), source.averaging_window_ms)?;
    positive(&key("counter_wrap_j"), source.counter_wrap_j)?;
    positive(&key("counter_refresh_ms"), source.counter_refresh_ms)?;
    match source.accuracy_percent {
        Some(percent) if !(percent.is_finite() && percent >= 0.0) => Err(format!(
            "key \"{}\" is {percent}; expected a number of 0 or more",
            key("accuracy_percent")
        )),
        _ => Ok(()),
    }
}

fn text(key: &str, value: &str) -> Result<(), String> {
    if value.trim().is_empty() {
        return Err(format!("key \"{key}\" is empty; expected a name"));
    }
    if value.chars().any(char::is_control) {
        return Err(format!(
            "key \"{key}\" is \"{}\"; expected a name without control characters",
            value.escape_debug()
        ));
    }
    Ok(())
}

fn positive(key: &str, value: Option<f64>) -> Result<(), String> {
    match value {
        Some(value) if !(value.is_finite() && value > 0.0) => {
            Err(format!("key \"{key}\" is {value}; expected a number above 0"))
        }
        _ => Ok(()),
    }
}
