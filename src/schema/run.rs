//! `run.json`: what a run is, in the archive's own words.
//!
//! Only `run_id`, `kind`, `model.name` and `hardware` must be known; what a source does not say is
//! null, and whatever needs it is null with a reason. Unknown keys are ignored.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TimestampNs;

/// The format version that this code reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

/// What kind of measurement a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// A service lifecycle with requests.
    Serving,
    /// A decode-only measurement for the energy model.
    Decode,
    /// Only published totals (claims), no raw rows.
    Summary,
}

impl RunKind {
    /// The name in `run.json` and in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Decode => "decode",
            Self::Summary => "summary",
        }
    }
}

/// Which side of the validation a run is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// The coefficients are fitted on this run.
    Fit,
    /// The run is predicted, never fitted.
    Heldout,
}

impl Split {
    /// The side of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fit, Self::Heldout].into_iter().find(|split| split.name() == name)
    }

    /// The name in `run.json` and in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Heldout => "heldout",
        }
    }
}

/// What a power source measures. Scopes nest, so values of different scopes are never added.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One accelerator board.
    GpuBoard,
    /// A module that holds the accelerator with its CPU or memory (a superchip).
    GpuModule,
    /// The whole node, at its power supplies' input.
    Node,
    /// A CPU package.
    Cpu,
    /// Main memory.
    Dram,
    /// An outlet of a power distribution unit.
    Pdu,
}

impl Scope {
    /// The name in `run.json` and in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GpuBoard => "gpu-board",
            Self::GpuModule => "gpu-module",
            Self::Node => "node",
            Self::Cpu => "cpu",
            Self::Dram => "dram",
            Self::Pdu => "pdu",
        }
    }

    /// Power above which one device's reading, or a counter step, is taken for an error, in watts.
    /// Set at about three times the largest published limit of its class: 1.4 kW boards, 2.7 kW
    /// superchip modules, 15 kW eight-accelerator nodes.
    #[must_use]
    pub const fn power_ceiling_w(self) -> f64 {
        match self {
            Self::GpuBoard => 4_000.0,
            Self::GpuModule => 8_000.0,
            Self::Node | Self::Pdu => 50_000.0,
            Self::Cpu | Self::Dram => 3_000.0,
        }
    }
}

/// Whether a power reading is of an instant or a trailing average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Power at the time of the sample.
    Instant,
    /// Mean power over `averaging_window_ms` before the sample.
    Average,
}

/// How power runs between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// A straight line between neighbours.
    #[default]
    Linear,
    /// A step: the last value holds until the next sample (loggers that drop repeated values).
    Hold,
}

impl Interpolation {
    /// The name in `run.json` and in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Hold => "hold",
        }
    }
}

/// How the energy of a stage is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyMethod {
    /// The integral of sampled power.
    Trapezoid,
    /// The difference of a cumulative energy counter.
    Counter,
}

impl EnergyMethod {
    /// The name in `run.json` and in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trapezoid => "trapezoid",
            Self::Counter => "counter",
        }
    }
}

/// The numbers that fix how many bytes a decode iteration reads.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// Name as published, such as `Qwen/Qwen2.5-7B-Instruct`.
    pub name: String,
    /// Revision of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// All parameters.
    #[serde(default)]
    pub total_params: Option<u64>,
    /// Parameters active for one token, where that differs from the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_params: Option<u64>,
    /// Type of the weights, such as `bfloat16`.
    #[serde(default)]
    pub dtype: Option<String>,
    /// Transformer layers.
    #[serde(default)]
    pub layers: Option<u32>,
    /// Width of the residual stream.
    #[serde(default)]
    pub hidden_size: Option<u32>,
    /// Width of the feed-forward layer.
    #[serde(default)]
    pub intermediate_size: Option<u32>,
    /// Query heads.
    #[serde(default)]
    pub attention_heads: Option<u32>,
    /// Key-value heads.
    #[serde(default)]
    pub kv_heads: Option<u32>,
    /// Width of one head.
    #[serde(default)]
    pub head_dim: Option<u32>,
    /// Entries of the vocabulary.
    #[serde(default)]
    pub vocab_size: Option<u32>,
    /// Whether the output head shares the embedding's weights.
    #[serde(default)]
    pub tied_embeddings: Option<bool>,
    /// Bytes of one stored weight.
    #[serde(default)]
    pub weight_bytes_per_param: Option<f64>,
    /// Bytes of one stored key or value.
    #[serde(default)]
    pub kv_bytes_per_value: Option<f64>,
    /// Bytes of all weights that one decode iteration reads, where known part by part; it replaces the
    /// value derived from `total_params`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_weight_bytes: Option<u64>,
    /// Sliding attention window in tokens, where some layers have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<u32>,
    /// Present for a mixture of experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moe: Option<MoeGeometry>,
}

/// Models are compared within groups of similar size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeGroup {
    /// At most 50e9 parameters.
    Small,
    /// More than 50e9 and less than 200e9 parameters.
    Medium,
    /// 200e9 parameters or more.
    Large,
}

impl SizeGroup {
    /// Every group.
    pub const ALL: &'static [Self] = &[Self::Small, Self::Medium, Self::Large];

    /// The group of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|group| group.name() == name)
    }

    /// The name in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

impl Model {
    /// The size group by total parameters, where they are known.
    #[must_use]
    pub fn size_group(&self) -> Option<SizeGroup> {
        self.total_params.map(|params| match params {
            0..=50_000_000_000 => SizeGroup::Small,
            50_000_000_001..200_000_000_000 => SizeGroup::Medium,
            _ => SizeGroup::Large,
        })
    }
}

/// Geometry of a mixture of experts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MoeGeometry {
    /// Routed experts of a layer.
    #[serde(default)]
    pub experts: Option<u32>,
    /// Routed experts of one token.
    #[serde(default)]
    pub experts_per_token: Option<u32>,
    /// Experts that every token passes.
    #[serde(default)]
    pub shared_experts: Option<u32>,
    /// Width of one expert's feed-forward layer.
    #[serde(default)]
    pub moe_intermediate_size: Option<u32>,
    /// Layers without experts.
    #[serde(default)]
    pub dense_layers: Option<u32>,
}

/// The accelerators of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    /// Name of the accelerator, such as `H200-SXM-141GB`.
    pub accelerator: String,
    /// How many of them.
    pub count: u32,
    /// Rated memory bandwidth of one accelerator, 1 GB = 1e9 B.
    #[serde(default)]
    pub hbm_bandwidth_gb_s: Option<f64>,
    /// Name of the node or system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Driver version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

impl Hardware {
    /// The accelerators, such as `H200-SXM-141GB x 8`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} x {}", self.accelerator, self.count)
    }
}

/// The serving engine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Engine {
    /// Name, such as `vllm`.
    #[serde(default)]
    pub name: Option<String>,
    /// Version.
    #[serde(default)]
    pub version: Option<String>,
    /// Digest of the container image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Command-line flags or options, as the source wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<serde_json::Value>,
    /// Accelerators that one replica is spread over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_parallel: Option<u32>,
    /// Replicas of the model that serve together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
}

/// What was asked of the service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Task, such as `chat`.
    #[serde(default)]
    pub task: Option<String>,
    /// Data set of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Trace that was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Requests per second; null means as fast as the service takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<f64>,
}

/// Stamps of the lifecycle, each null if it did not happen or was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each stamp is the event that it names")]
pub struct Stages {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_start: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_end: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_start: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formal_start: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formal_end: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_exit: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_released: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor_end: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_start: Option<TimestampNs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_end: Option<TimestampNs>,
}

impl Stages {
    /// The stamps in the order in which they must not run backwards, with their keys.
    #[must_use]
    pub fn in_order(&self) -> [(&'static str, Option<TimestampNs>); 12] {
        [
            ("idle_start", self.idle_start),
            ("idle_end", self.idle_end),
            ("launch", self.launch),
            ("ready", self.ready),
            ("warmup_start", self.warmup_start),
            ("formal_start", self.formal_start),
            ("decode_start", self.decode_start),
            ("decode_end", self.decode_end),
            ("formal_end", self.formal_end),
            ("process_exit", self.process_exit),
            ("memory_released", self.memory_released),
            ("monitor_end", self.monitor_end),
        ]
    }
}

/// One stream of power readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerSource {
    /// Name that `power.parquet` refers to.
    pub id: String,
    /// What it measures.
    pub scope: Scope,
    /// Instant or trailing average.
    pub reading: Reading,
    /// Length of the trailing average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaging_window_ms: Option<f64>,
    /// Intended time between samples.
    pub nominal_interval_ms: f64,
    /// Range after which the energy counter starts again from zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_wrap_j: Option<f64>,
    /// Time between updates of the energy counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_refresh_ms: Option<f64>,
    /// Accuracy that the maker states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_percent: Option<f64>,
    /// Add this to the source's times to get the run's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_ns: Option<i64>,
    /// Uncertainty of that offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_uncertainty_ns: Option<u64>,
    /// How power runs between samples.
    #[serde(default, deserialize_with = "null_as_default")]
    pub interpolation: Interpolation,
}

/// The energy method of each stage; a stage that is absent takes its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each key is the stage that it names")]
pub struct EnergyMethods {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<EnergyMethod>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formal: Option<EnergyMethod>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<EnergyMethod>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<EnergyMethod>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<EnergyMethod>,
}

/// A published value that came with the data: shown beside the recomputed one, never used as a
/// measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// A column of the metrics catalogue where one fits, else the source's own name.
    pub metric: String,
    /// The value as published.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where it stands in the source.
    pub source: String,
}

/// Digest and length of one Parquet file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// SHA-256 of the file's bytes, 64 hexadecimal digits.
    pub sha256: String,
    /// Rows in the file.
    pub rows: u64,
}

/// Who made the run's files, and from what.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// Program that wrote the archive.
    #[serde(default)]
    pub recorder: Option<String>,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// Its command line.
    #[serde(default)]
    pub command: Option<String>,
    /// Format and files that the run was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_from: Option<String>,
    /// Each input of an import, with its clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub inputs: Vec<ImportedInput>,
    /// What the importer decided, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub notes: Vec<String>,
}

/// One file that a run was imported from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ImportedInput {
    /// What it gave to the run, where it was joined with others: `power`, `requests`, `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Name of its format.
    pub format: String,
    /// Name of the file.
    pub file: String,
    /// SHA-256 of its bytes as they were, compressed or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How its times were read.
    #[serde(default, deserialize_with = "null_as_default")]
    pub clock: InputClock,
    /// Rows or lines that were left out.
    #[serde(default, deserialize_with = "null_as_default")]
    pub skipped: u64,
}

/// What the times of an input count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockBase {
    /// Since 1970, UTC.
    Epoch,
    /// Wall time without a zone.
    Local,
    /// A clock that counts from an unknown instant.
    Monotonic,
    /// Relative to an event of the run.
    Relative,
    /// The input has no times.
    #[default]
    None,
}

impl ClockBase {
    /// The name in `run.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoch => "epoch",
            Self::Local => "local",
            Self::Monotonic => "monotonic",
            Self::Relative => "relative",
            Self::None => "none",
        }
    }
}

/// How the times of an input became times of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct InputClock {
    /// What they count from.
    #[serde(default, deserialize_with = "null_as_default")]
    pub base: ClockBase,
    /// Zone that local times were read in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Instant that a monotonic or relative clock was tied to, and who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Nanoseconds that were added to the input's times to get the run's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_ns: Option<i64>,
    /// Uncertainty of that offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty_ns: Option<u64>,
    /// Step between two times that the input can tell apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_ns: Option<u64>,
}

/// A key may be absent or null: both mean its default.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Notes may be one string or a list of them.
fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
        Nothing(()),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(note) => vec![note],
        OneOrMany::Many(notes) => notes,
        OneOrMany::Nothing(()) => Vec::new(),
    })
}

/// `run.json`, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunManifest {
    /// Format version, 1.
    pub schema_version: u32,
    /// Unique in the archive.
    pub run_id: String,
    /// What kind of measurement this is.
    pub kind: RunKind,
    /// True for anything simulated.
    #[serde(default, deserialize_with = "null_as_default")]
    pub synthetic: bool,
    /// What is compared, such as `production` or `candidate`.
    #[serde(default)]
    pub configuration: Option<String>,
    /// The model served.
    pub model: Model,
    /// The accelerators it ran on.
    pub hardware: Hardware,
    /// The engine that served it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub engine: Engine,
    /// What was asked of it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub workload: Workload,
    /// Key of one energy-model fit; see [`RunManifest::setting_or_default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// Experimental cell within the setting; repeats share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Side of the validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Time block of a repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// Requests active at the start of a draining decode run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_cohort: Option<u32>,
    /// Stamps of the lifecycle.
    #[serde(default, deserialize_with = "null_as_default")]
    pub stages: Stages,
    /// Streams of power readings.
    #[serde(default, deserialize_with = "null_as_default")]
    pub power_sources: Vec<PowerSource>,
    /// Energy method of each stage.
    #[serde(default, deserialize_with = "null_as_default")]
    pub energy_method: EnergyMethods,
    /// File name of the spec in the run's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// Published values that came with the data.
    #[serde(default, deserialize_with = "null_as_default")]
    pub claims: Vec<Claim>,
    /// Digests and row counts of the Parquet files.
    #[serde(default, deserialize_with = "null_as_default")]
    pub files: BTreeMap<String, FileEntry>,
    /// Steps of the wall clock that the recorder saw.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clock_events: Vec<serde_json::Value>,
    /// What the recorder itself used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder_cost: Option<serde_json::Value>,
    /// Who made the files, and from what.
    #[serde(default, deserialize_with = "null_as_default")]
    pub provenance: Provenance,
}

impl RunManifest {
    /// A run of which nothing is known but these four.
    #[must_use]
    pub fn new(run_id: String, kind: RunKind, model: Model, hardware: Hardware) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            run_id,
            kind,
            synthetic: false,
            configuration: None,
            model,
            hardware,
            engine: Engine::default(),
            workload: Workload::default(),
            setting: None,
            cell: None,
            split: None,
            block: None,
            initial_cohort: None,
            stages: Stages::default(),
            power_sources: Vec::new(),
            energy_method: EnergyMethods::default(),
            spec: None,
            claims: Vec::new(),
            files: BTreeMap::new(),
            clock_events: Vec::new(),
            recorder_cost: None,
            provenance: Provenance::default(),
        }
    }

    /// The key of the energy-model fit that this run belongs to: `setting`, or
    /// `model.name@hardware.accelerator x count / tpN`.
    #[must_use]
    pub fn setting_or_default(&self) -> String {
        self.setting.clone().unwrap_or_else(|| {
            format!(
                "{}@{} x {} / tp{}",
                self.model.name,
                self.hardware.accelerator,
                self.hardware.count,
                self.engine.tensor_parallel.unwrap_or(1)
            )
        })
    }

    /// Whether the model is a mixture of experts.
    #[must_use]
    pub const fn is_mixture_of_experts(&self) -> bool {
        self.model.moe.is_some()
    }
}

/// The JSON Schema of `run.json`.
#[must_use]
pub fn run_json_schema() -> serde_json::Value {
    schemars::schema_for!(RunManifest).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"{"schema_version": 1, "run_id": "a", "kind": "serving",
        "model": {"name": "m"}, "hardware": {"accelerator": "x", "count": 2}}"#;

    #[test]
    fn absent_keys_take_their_defaults_and_unknown_ones_are_ignored() {
        let text = MINIMAL.replacen('{', r#"{"colour": "blue", "#, 1);
        let run: RunManifest = serde_json::from_str(&text).unwrap();
        assert_eq!(run.setting_or_default(), "m@x x 2 / tp1");
        assert!(!run.synthetic && run.claims.is_empty() && run.stages == Stages::default());
    }

    #[test]
    fn a_new_manifest_is_one_whose_keys_are_absent() {
        let model = Model { name: "m".into(), ..Model::default() };
        let hardware = Hardware { accelerator: "x".into(), count: 2, ..Hardware::default() };
        let run = RunManifest::new("a".into(), RunKind::Serving, model, hardware);
        assert_eq!(run, serde_json::from_str(MINIMAL).unwrap());
    }

    #[test]
    fn a_written_manifest_reads_back_equal() {
        let mut run: RunManifest = serde_json::from_str(MINIMAL).unwrap();
        run.stages.launch = Some(TimestampNs::from_nanos(1_700_000_000_123_456_789));
        run.provenance.notes = vec!["one".into()];
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<RunManifest>(&text).unwrap(), run);
    }

    #[test]
    fn size_groups_include_their_published_edges() {
        let group = |params| Model { total_params: Some(params), ..Model::default() }.size_group();
        assert_eq!(group(50_000_000_000), Some(SizeGroup::Small));
        assert_eq!(group(50_000_000_001), Some(SizeGroup::Medium));
        assert_eq!(group(199_999_999_999), Some(SizeGroup::Medium));
        assert_eq!(group(200_000_000_000), Some(SizeGroup::Large));
        assert_eq!(Model::default().size_group(), None);
    }

    #[test]
    fn null_means_the_default() {
        let text = MINIMAL.replacen(
            '{',
            r#"{"claims": null, "files": null, "stages": null, "power_sources": null,
                "energy_method": null, "clock_events": null, "synthetic": null, "#,
            1,
        );
        let run: RunManifest = serde_json::from_str(&text).unwrap();
        assert_eq!(run, serde_json::from_str::<RunManifest>(MINIMAL).unwrap());
    }

    #[test]
    fn notes_may_be_one_string() {
        let text = MINIMAL.replacen('{', r#"{"provenance": {"notes": "by hand"}, "#, 1);
        let run: RunManifest = serde_json::from_str(&text).unwrap();
        assert_eq!(run.provenance.notes, ["by hand"]);
    }
}
