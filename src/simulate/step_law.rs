//! How long an iteration of the engine takes.

use rand::RngExt;
use rand_distr::StandardNormal;
use wattrace_schema::GraphMode;

use crate::plan::{EnginePlan, HardwarePlan, ModelPlan};
use crate::random::Stream;
use crate::{MAX_RUN_SECONDS, seconds_to_ns};

/// What one iteration works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Work {
    /// Sequences that each get one token.
    pub(crate) batch: u32,
    /// Attention history before these tokens, summed over the sequences.
    pub(crate) history_tokens: u64,
    /// Longest sequence, with this step's token.
    pub(crate) max_sequence_tokens: u32,
    /// Prompt tokens processed besides.
    pub(crate) prefill_tokens: u32,
}

/// The engine's step times on one model and node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepLaw {
    overhead_s: f64,
    sequence_s: f64,
    prefill_token_s: f64,
    bytes_per_s: f64,
    jitter: f64,
    graph_limit_tokens: Option<u32>,
    eager_extra_s: f64,
    weight_bytes: f64,
    kv_bytes_per_token: f64,
}

impl StepLaw {
    pub(crate) fn new(engine: &EnginePlan, hardware: &HardwarePlan, model: &ModelPlan) -> Self {
        let boards = f64::from(hardware.count.get());
        let bandwidth = boards * hardware.hbm_bandwidth_gb_s.get() * 1e9;
        Self {
            overhead_s: engine.step_overhead_ms.get() / 1e3,
            sequence_s: engine.sequence_overhead_us.get() / 1e6,
            prefill_token_s: 1.0 / (boards * engine.prefill_tokens_per_s.get()),
            bytes_per_s: bandwidth * engine.bandwidth_efficiency.get(),
            jitter: engine.step_jitter_percent.get() / 100.0,
            graph_limit_tokens: engine.graph_limit_tokens.map(|tokens| tokens.get()),
            eager_extra_s: engine.eager_extra_ms.get() / 1e3,
            weight_bytes: model.weight_bytes(),
            kv_bytes_per_token: model.kv_bytes_per_token(),
        }
    }

    /// Gigabytes (1e9 bytes) of weights that an iteration reads.
    pub(crate) fn weight_gb(&self) -> f64 {
        self.weight_bytes / 1e9
    }

    /// Gigabytes of keys and values of one token of history.
    pub(crate) fn kv_gb_per_token(&self) -> f64 {
        self.kv_bytes_per_token / 1e9
    }

    /// Gigabytes of keys and values that an iteration reads: the history, and each new token's own.
    pub(crate) fn kv_gb(&self, work: &Work) -> f64 {
        let tokens = work.history_tokens + u64::from(work.batch);
        self.kv_bytes_per_token * tokens as f64 / 1e9
    }

    /// Whether the iteration is a captured graph.
    pub(crate) fn graph_mode(&self, work: &Work) -> GraphMode {
        match self.graph_limit_tokens {
            Some(limit) if work.max_sequence_tokens > limit => GraphMode::Eager,
            _ => GraphMode::Graph,
        }
    }

    /// Duration of an iteration, a microsecond at least and the longest run at most; `slowdown`
    /// multiplies it.
    pub(crate) fn duration_ns(&self, work: &Work, slowdown: f64, stream: &mut Stream) -> i64 {
        let read_bytes = self.weight_bytes + self.kv_gb(work) * 1e9;
        let eager_s =
            if self.graph_mode(work) == GraphMode::Eager { self.eager_extra_s } else { 0.0 };
        let nominal_s = self.overhead_s
            + self.sequence_s * f64::from(work.batch)
            + self.prefill_token_s * f64::from(work.prefill_tokens)
            + read_bytes / self.bytes_per_s
            + eager_s;
        let deviate: f64 = stream.sample(StandardNormal);
        // Four standard deviations at most, so that a wide jitter cannot turn a step around.
        let jitter = (1.0 + self.jitter * deviate.clamp(-4.0, 4.0)).max(0.1);
        seconds_to_ns((nominal_s * slowdown * jitter).min(MAX_RUN_SECONDS)).max(1_000)
    }
}
