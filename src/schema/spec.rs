//! `spec.yaml`: the locked specification of a spec-driven report.
//!
//! A spec says what is measured, how, and what counts as good, before anyone measures. Its content is
//! canonicalised (sorted keys, exact numbers; comments, order and spelling fall away) and hashed with
//! SHA-256: two runs belong to one report when their specs have one hash. Fields that this code does
//! not know are kept and hashed like the others.
//!
//! ```
//! use wattrace_schema::spec::LockedSpec;
//!
//! let text = "
//! hardware: {accelerator: H200-SXM-141GB, vendor: nvidia, count: 1, hbm_bandwidth_gb_s: 4800}
//! engine: {name: vllm}
//! model: {name: Qwen/Qwen2.5-7B-Instruct, dtype: bf16}
//! slo:
//!   ttft_p99_ms: 500
//!   tpot_p99_ms: 60
//! workload: {request_rates: [1, 2, 4, null], warmup_s: 30, window_s: 300}
//! runs: {repeats: 5}
//! ";
//! let spec = LockedSpec::parse(text)?;
//! assert_eq!(spec.fields().slo.ttft_p99_ms.get(), 500.0);
//! let same = LockedSpec::parse(&text.replace("500", "5.0e2 # half a second"))?;
//! assert_eq!(spec.hash(), same.hash());
//! let other = LockedSpec::parse(&text.replace("500", "600"))?;
//! assert_eq!(spec.changes_to(&other)[0].to_string(), "slo.ttft_p99_ms: 500 -> 600");
//! # Ok::<(), wattrace_schema::spec::SpecErrors>(())
//! ```

mod decimal;
mod error;
mod field;
mod node;
mod value;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use schemars::transform::{RecursiveTransform, Transform};
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use decimal::Decimal;
pub use error::{SpecError, SpecErrors};
pub use field::{NonNegative, Positive};
pub use value::{FieldChange, Value};

use field::{Field, Findings, Section};
use node::Node;

/// Declares a section: the type, how it is read, and its part of the JSON Schema are one list.
macro_rules! section {
    ($(#[$doc:meta])* $section:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        pub struct $section { $($(#[$field_doc])* pub $field: $kind,)+ }

        impl Field for $section {
            fn expected() -> String {
                "a section with its fields".into()
            }

            fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
                let mut section = Section::open(node, path, findings)?;
                $(let $field = section.read(stringify!($field));)+
                section.close();
                Some(Self { $($field: $field?,)+ })
            }
        }
    };
}

section! {
    /// The whole spec.
    Spec {
        /// The accelerators.
        hardware: HardwareSpec,
        /// The serving engine.
        engine: EngineSpec,
        /// The model.
        model: ModelSpec,
        /// What counts as good service.
        slo: Slo,
        /// What is asked of the service.
        workload: WorkloadSpec,
        /// The accuracy that a configuration must keep.
        accuracy: Option<AccuracySpec>,
        /// How power is measured.
        power: Option<PowerSpec>,
        /// How often and of what runs are made.
        runs: RunsSpec,
    }
}

section! {
    /// The accelerators.
    HardwareSpec {
        /// Name of the accelerator, such as `H200-SXM-141GB`.
        accelerator: String,
        /// Who makes it. Reports of different vendors are compared on request only.
        vendor: String,
        /// How many of them.
        count: NonZeroU32,
        /// Rated memory bandwidth of one accelerator, 1 GB = 1e9 B.
        hbm_bandwidth_gb_s: Positive,
        /// Node or system.
        node: Option<String>,
        /// Driver version.
        driver: Option<String>,
    }
}

section! {
    /// The serving engine. What differs between configurations stands in `runs.configurations`.
    EngineSpec {
        /// Name, such as `vllm`.
        name: String,
        /// Version, in quotes where it looks like a number.
        version: Option<String>,
        /// Digest of the container image.
        image_digest: Option<String>,
        /// Accelerators that one replica is spread over.
        tensor_parallel: Option<NonZeroU32>,
        /// Replicas that serve together.
        replicas: Option<NonZeroU32>,
        /// Command-line flags or options.
        flags: Option<Value>,
    }
}

section! {
    /// The model.
    ModelSpec {
        /// Name as published, such as `Qwen/Qwen2.5-7B-Instruct`.
        name: String,
        /// Revision of the weights.
        revision: Option<String>,
        /// Type of the weights as published, such as `bf16`.
        dtype: String,
        /// Types of the weights that are to be measured; absent: the published one.
        quantisations: Option<Vec<String>>,
    }
}

section! {
    /// The service-level objective.
    Slo {
        /// Highest 99th percentile of the time to first token, ms.
        ttft_p99_ms: Positive,
        /// Highest 99th percentile of the time per output token, ms.
        tpot_p99_ms: Positive,
    }
}

section! {
    /// What is asked of the service.
    WorkloadSpec {
        /// Task, such as `chat`.
        task: Option<String>,
        /// Data set of the prompts.
        dataset: Option<String>,
        /// Requests per second, one rate a sweep point; null asks as fast as the service takes them.
        request_rates: Vec<Option<Positive>>,
        /// Time from the start of the formal stage to the start of the window, s.
        warmup_s: NonNegative,
        /// Length of the window, s.
        window_s: Positive,
        /// Prompt lengths to be measured, tokens.
        input_tokens: Option<Vec<NonZeroU32>>,
        /// Output lengths to be measured, tokens.
        output_tokens: Option<Vec<NonZeroU32>>,
        /// Requests in flight to be measured.
        concurrency: Option<Vec<NonZeroU32>>,
    }
}

section! {
    /// The accuracy that a configuration must keep. Points run from 0 to 100. The reference is a
    /// published score or a configuration, one of the two.
    AccuracySpec {
        /// Name of the suite.
        suite: String,
        /// Seeds of the generation.
        seeds: Vec<u32>,
        /// Largest drop against the reference that still passes, points.
        max_drop_points: NonNegative,
        /// Published score of the reference, points.
        reference_score_points: Option<NonNegative>,
        /// Configuration whose measured score is the reference.
        reference_configuration: Option<String>,
        /// Score of an item that is wholly right; absent: 1.
        full_score: Option<Positive>,
    }
}

section! {
    /// How power is measured. Rated power is no measurement.
    PowerSpec {
        /// What measures the node: `redfish`, `ipmi`, `pdu` or another meter.
        node_source: Option<String>,
        /// What measures the boards, such as `nvml` or `amd-smi`.
        board_source: Option<String>,
        /// Intended time between samples, ms.
        interval_ms: Option<Positive>,
    }
}

section! {
    /// How often and of what runs are made.
    RunsSpec {
        /// Runs of each configuration at each rate.
        repeats: NonZeroU32,
        /// What is compared, by name, and what sets each apart.
        configurations: Option<BTreeMap<String, Value>>,
        /// Configuration that the others are compared with and that capacity starts from.
        reference: Option<String>,
    }
}

/// A spec whose content can no longer change unnoticed.
#[derive(Debug, Clone, PartialEq)]
pub struct LockedSpec {
    fields: Spec,
    content: Value,
    hash: String,
    unknown_fields: Vec<String>,
}

impl LockedSpec {
    /// Reads a spec.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with line, field, what was found and what is expected.
    pub fn parse(text: &str) -> Result<Self, SpecErrors> {
        let document = node::read(text)?;
        let mut findings = Findings::default();
        let fields = Spec::read(&document, "", &mut findings);
        if let Some(fields) = &fields {
            check_together(fields, &document, &mut findings);
        }
        match fields {
            Some(fields) if findings.errors.is_empty() => {
                let content = document.value();
                let hash = sha256_hex(&content.to_string());
                Ok(Self { fields, content, hash, unknown_fields: findings.unknown })
            }
            _ => Err(SpecErrors(findings.errors)),
        }
    }

    /// The fields that this code knows.
    #[must_use]
    pub const fn fields(&self) -> &Spec {
        &self.fields
    }

    /// Everything that the spec says, known or not.
    #[must_use]
    pub const fn content(&self) -> &Value {
        &self.content
    }

    /// The content as canonical JSON: what the hash is taken of.
    #[must_use]
    pub fn canonical_json(&self) -> String {
        self.content.to_string()
    }

    /// SHA-256 of the canonical content, 64 hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Paths of fields that this code does not know: kept and hashed, and worth a look for typing
    /// errors.
    #[must_use]
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown_fields
    }

    /// Every field that `other` changes; empty for specs of one hash.
    #[must_use]
    pub fn changes_to(&self, other: &Self) -> Vec<FieldChange> {
        value::changes(&self.content, &other.content)
    }
}

/// Rules between fields.
fn check_together(spec: &Spec, document: &Node, findings: &mut Findings) {
    if let Some(accuracy) = &spec.accuracy {
        let given = (accuracy.reference_score_points, &accuracy.reference_configuration);
        let found = match given {
            (None, None) => Some("neither reference_score_points nor reference_configuration"),
            (Some(_), Some(_)) => Some("both reference_score_points and reference_configuration"),
            _ => None,
        };
        if let Some(found) = found {
            findings.refuse(document.line_at("accuracy"), "accuracy", found, "one of the two");
        }
    }
    if let Some(power) = &spec.power {
        for (field, source) in
            [("power.node_source", &power.node_source), ("power.board_source", &power.board_source)]
        {
            if let Some(source) = source.as_ref().filter(|source| is_rated_power(source)) {
                let expected = "a source that measures; rated power is never used";
                findings.refuse(
                    document.line_at(field),
                    field,
                    &format!("the text {source:?}"),
                    expected,
                );
            }
        }
    }
    check_names(spec, document, findings);
}

/// Names of configurations must be declared where any are.
fn check_names(spec: &Spec, document: &Node, findings: &mut Findings) {
    let Some(configurations) = &spec.runs.configurations else { return };
    let of_accuracy = spec.accuracy.as_ref().and_then(|a| a.reference_configuration.as_ref());
    for (field, name) in [
        ("accuracy.reference_configuration", of_accuracy),
        ("runs.reference", spec.runs.reference.as_ref()),
    ] {
        if let Some(name) = name.filter(|name| !configurations.contains_key(*name)) {
            let known: Vec<_> = configurations.keys().map(String::as_str).collect();
            let expected = format!("a name in runs.configurations: {}", known.join(", "));
            findings.refuse(
                document.line_at(field),
                field,
                &format!("the text {name:?}"),
                &expected,
            );
        }
    }
}

/// Whether a source is a figure from a data sheet.
fn is_rated_power(source: &str) -> bool {
    let source = source.to_ascii_lowercase();
    source
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| ["tdp", "nameplate", "rated"].contains(&word))
}

fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The JSON Schema of `spec.yaml`. Fields that it does not name are allowed.
#[must_use]
pub fn spec_json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Spec);
    RecursiveTransform(say_what_lists_and_texts_hold).transform(&mut schema);
    schema.to_value()
}

/// Every list of a spec has an entry and none twice, and no text is empty; types alone do not say so.
fn say_what_lists_and_texts_hold(schema: &mut schemars::Schema) {
    let holds = |schema: &schemars::Schema, kind: &str| match schema.get("type") {
        Some(serde_json::Value::String(only)) => only == kind,
        Some(serde_json::Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    };
    if holds(schema, "array") {
        schema.insert("minItems".into(), 1.into());
        schema.insert("uniqueItems".into(), true.into());
    }
    if holds(schema, "string") {
        schema.insert("minLength".into(), 1.into());
    }
}

#[cfg(test)]
mod tests;
