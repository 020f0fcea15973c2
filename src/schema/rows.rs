//! The rows of a run in memory, as columns, cleaned and in canonical order.
//!
//! A [`Run`] no longer depends on the order of rows in its files: power is sorted by device and time,
//! requests by sending time and id, steps by replica and time.

use crate::RunManifest;

/// Samples of one quantity of one device. `t_ns` is strictly increasing, on the run's clock; every
/// value is finite; both have the same length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Nanoseconds since the Unix epoch.
    pub t_ns: Vec<i64>,
    /// Watts or joules.
    pub value: Vec<f64>,
}

impl Series {
    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.t_ns.len()
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.t_ns.is_empty()
    }
}

/// Everything that one power source says of one device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DevicePower {
    /// Index into `manifest.power_sources`.
    pub source: usize,
    /// Name of the device within the source.
    pub device: String,
    /// Power, W.
    pub power_w: Series,
    /// Cumulative energy counter, J.
    pub energy_j: Series,
    /// Rows that shared their time with another and were merged into it.
    pub duplicate_times: usize,
    /// Values that were negative or not finite and were left out.
    pub invalid_samples: usize,
}

/// Samples of one accelerator as columns of equal length, in order of time, on the run's clock: the
/// columns of `power.parquet` that no metric is made of, but that tell whether it could do its best.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AcceleratorSamples {
    /// Name of the device.
    pub device: String,
    /// Nanoseconds since the Unix epoch.
    pub t_ns: Vec<i64>,
    /// Temperature, °C.
    pub temperature_c: Vec<Option<f32>>,
    /// Clock of the compute units, MHz.
    pub sm_clock_mhz: Vec<Option<u32>>,
    /// Bit mask of reasons for a lower clock, as NVML names them.
    pub throttle_reasons: Vec<Option<u64>>,
}

/// One metric of the engine under one set of labels, polled over time. `t_ns` does not run backwards,
/// and both columns have the same length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineMetric {
    /// Name of the metric.
    pub name: String,
    /// Its labels as one text; empty for none.
    pub labels: String,
    /// When it was polled and what it was then.
    pub samples: Series,
}

/// Part of the run that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestStage {
    /// Sent before measurement began.
    Warmup,
    /// Measured.
    Formal,
}

impl RequestStage {
    /// Every stage.
    pub const ALL: &'static [Self] = &[Self::Warmup, Self::Formal];

    /// The name in `requests.parquet`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Formal => "formal",
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the outcome that it names")]
pub enum RequestStatus {
    Ok,
    Error,
    Timeout,
    Cancelled,
}

impl RequestStatus {
    /// Every outcome.
    pub const ALL: &'static [Self] = &[Self::Ok, Self::Error, Self::Timeout, Self::Cancelled];

    /// The name in `requests.parquet`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Gaps between successive output tokens or chunks of every request, in one flat column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gaps {
    /// Request `i` owns `gap_ns[offsets[i]..offsets[i + 1]]`; one longer than the requests, or empty
    /// when no request has gaps.
    pub offsets: Vec<usize>,
    /// The gaps, ns.
    pub gap_ns: Vec<u64>,
    /// Tokens of the chunk after each gap, aligned with `gap_ns`; empty when each is 1.
    pub tokens: Vec<u32>,
}

impl Gaps {
    /// The gaps of request `index`, and the tokens of the chunk after each (empty: 1 each).
    #[must_use]
    pub fn of(&self, index: usize) -> (&[u64], &[u32]) {
        if self.offsets.is_empty() {
            return (&[], &[]);
        }
        let range = self.offsets[index]..self.offsets[index + 1];
        let tokens = if self.tokens.is_empty() { &[] } else { &self.tokens[range.clone()] };
        (&self.gap_ns[range], tokens)
    }
}

/// Requests as columns of equal length, in the order of sending time, then id.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "each field is the column of requests.parquet that it names")]
pub struct Requests {
    pub request_id: Vec<String>,
    pub stage: Vec<RequestStage>,
    pub status: Vec<RequestStatus>,
    pub t_send_ns: Vec<Option<i64>>,
    pub t_first_token_ns: Vec<Option<i64>>,
    pub t_end_ns: Vec<Option<i64>>,
    pub ttft_ns: Vec<Option<u64>>,
    pub e2e_ns: Vec<Option<u64>>,
    pub input_tokens: Vec<Option<u32>>,
    pub output_tokens: Vec<Option<u32>>,
    pub reasoning_tokens: Vec<Option<u32>>,
    pub gaps: Gaps,
    /// What failed, in the client's words.
    pub error: Vec<Option<String>>,
}

impl Requests {
    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.request_id.len()
    }

    /// Whether there is no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.request_id.is_empty()
    }

    /// Whether request `index` is a formal one.
    #[must_use]
    pub fn is_formal(&self, index: usize) -> bool {
        self.stage[index] == RequestStage::Formal
    }

    /// Output tokens of request `index` if it was successful: status ok and a count of output tokens.
    #[must_use]
    pub fn successful_tokens(&self, index: usize) -> Option<u32> {
        if self.status[index] == RequestStatus::Ok { self.output_tokens[index] } else { None }
    }
}

/// How an iteration was launched on the accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphMode {
    /// Replayed from a captured graph.
    Graph,
    /// Launched operation by operation.
    Eager,
}

impl GraphMode {
    /// Every mode.
    pub const ALL: &'static [Self] = &[Self::Graph, Self::Eager];

    /// The name in `steps.parquet`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Eager => "eager",
        }
    }
}

/// Decode iterations as columns of equal length, in the order of replica, end, number.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "each field is the column of steps.parquet that it names")]
pub struct Steps {
    pub step: Vec<u64>,
    pub replica: Vec<u16>,
    pub t_start_ns: Vec<Option<i64>>,
    pub t_end_ns: Vec<i64>,
    pub active_sequences: Vec<u32>,
    pub new_tokens: Vec<u32>,
    pub history_tokens: Vec<Option<u64>>,
    pub max_sequence_tokens: Vec<Option<u32>>,
    pub prefill_tokens: Vec<u32>,
    pub iterations: Vec<u32>,
    pub active_experts: Vec<Option<f32>>,
    pub graph_mode: Vec<Option<GraphMode>>,
}

impl Steps {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.step.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.step.is_empty()
    }
}

/// One score of an accuracy suite.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyRow {
    /// Name of the suite.
    pub suite: String,
    /// Item of the suite.
    pub item: String,
    /// Seed of the generation.
    pub seed: u32,
    /// Score of the item.
    pub score: Option<f64>,
}

/// A run whose files could be read. Tables that the run does not have are `None` or empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// `run.json`.
    pub manifest: RunManifest,
    /// One entry per source and device, in the order of source index, then device name.
    pub power: Vec<DevicePower>,
    /// Requests, if the run has a request log.
    pub requests: Option<Requests>,
    /// Decode iterations, if the run has a step log.
    pub steps: Option<Steps>,
    /// Accuracy scores; empty if the run has none or they were not asked for.
    pub accuracy: Vec<AccuracyRow>,
    /// Temperatures, clocks and throttling of each accelerator that has any, in the order of source
    /// index, then device name; empty if they were not asked for.
    pub accelerators: Vec<AcceleratorSamples>,
    /// The engine's own metrics, by name, then labels; only those that were asked for.
    pub engine_metrics: Vec<EngineMetric>,
}
