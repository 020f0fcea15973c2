//! What the user says of a run: keys of `run.json` that no sensor knows.

use serde_json::{Map, Value};
use wattrace_schema::RunManifest;

/// Keys that a description may hold. All others are the recorder's own.
const KEYS: [&str; 11] = [
    "kind",
    "configuration",
    "model",
    "hardware",
    "engine",
    "workload",
    "setting",
    "cell",
    "split",
    "block",
    "initial_cohort",
];

/// Keys of `run.json` as the user gave them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Description(Map<String, Value>);

/// Why a description cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the description {0}")]
pub struct DescriptionError(String);

impl Description {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// When the text is no JSON object or holds a key that is not the user's to give.
    pub fn parse(text: &str) -> Result<Self, DescriptionError> {
        let value: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| DescriptionError(format!("is not a JSON object: {error}")))?;
        if let Some(key) = value.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let message = format!("has key \"{key}\"; expected {}", KEYS.join(", "));
            return Err(DescriptionError(message));
        }
        Ok(Self(value))
    }

    /// What the user says, and of `defaults`, an object of objects, what the user does not say.
    #[must_use]
    pub fn over(mut self, defaults: Value) -> Self {
        let Value::Object(defaults) = defaults else { return self };
        for (key, value) in defaults {
            match (self.0.get_mut(&key), value) {
                (Some(Value::Object(given)), Value::Object(default)) => {
                    for (key, value) in default {
                        given.entry(key).or_insert(value);
                    }
                }
                (Some(_), _) => (),
                (None, value) => drop(self.0.insert(key, value)),
            }
        }
        self
    }

    /// The manifest with what the user says; in objects, keys that are not given keep their value.
    ///
    /// # Errors
    /// When a value does not fit.
    pub fn apply(&self, manifest: RunManifest) -> Result<RunManifest, DescriptionError> {
        let unfit = |error: serde_json::Error| DescriptionError(format!("does not fit: {error}"));
        let mut whole = serde_json::to_value(manifest).map_err(unfit)?;
        for (key, given) in &self.0 {
            match (whole.get_mut(key), given) {
                (Some(Value::Object(known)), Value::Object(given)) => {
                    known.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                _ => whole[key] = given.clone(),
            }
        }
        let manifest: RunManifest = serde_json::from_value(whole).map_err(unfit)?;
        wattrace_trace::validate_manifest(&manifest).map_err(DescriptionError)?;
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use wattrace_schema::{Hardware, Model, RunKind};

    use super::*;

    fn manifest() -> RunManifest {
        let model = Model { name: "unknown".into(), ..Model::default() };
        let hardware = Hardware { accelerator: "H200".into(), count: 8, ..Hardware::default() };
        RunManifest::new("a".into(), RunKind::Serving, model, hardware)
    }

    #[test]
    fn keys_that_are_given_replace_and_the_others_stay() {
        let description = Description::parse(
            r#"{"kind": "decode", "cell": "b8", "model": {"name": "qwen"}, "hardware": {"hbm_bandwidth_gb_s": 4800}}"#,
        )
        .unwrap();
        let manifest = description.apply(manifest()).unwrap();
        assert_eq!(manifest.kind, RunKind::Decode);
        assert_eq!(manifest.cell.as_deref(), Some("b8"));
        assert_eq!((manifest.model.name.as_str(), manifest.hardware.count), ("qwen", 8));
        assert_eq!(manifest.hardware.hbm_bandwidth_gb_s, Some(4800.0));
    }

    #[test]
    fn what_the_user_says_stands_over_what_follows_from_the_options() {
        let said = Description::parse(r#"{"model": {"name": "qwen"}, "cell": "a"}"#).unwrap();
        let defaults = serde_json::json!({
            "model": {"name": "served-name", "dtype": "bf16"}, "workload": {"request_rate": 2},
        });
        let manifest = said.over(defaults).apply(manifest()).unwrap();
        assert_eq!(manifest.model.name, "qwen");
        assert_eq!(manifest.model.dtype.as_deref(), Some("bf16"));
        assert_eq!(manifest.workload.request_rate, Some(2.0));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let message = |text: &str| {
            Description::parse(text)
                .and_then(|description| description.apply(manifest()))
                .unwrap_err()
                .to_string()
        };
        assert!(message("[]").starts_with("the description is not a JSON object: "));
        insta::assert_snapshot!(
            [
                message(r#"{"stages": {}}"#),
                message(r#"{"kind": "training"}"#),
                message(r#"{"hardware": {"count": 0}}"#),
            ]
            .join("\n"),
            @r#"
            the description has key "stages"; expected kind, configuration, model, hardware, engine, workload, setting, cell, split, block, initial_cohort
            the description does not fit: unknown variant `training`, expected one of `serving`, `decode`, `summary`
            the description key "hardware.count" is 0; expected at least 1
            "#
        );
    }
}
