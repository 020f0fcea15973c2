//! The named parts that runs are made of: models, hardware, engines, workloads, sensors.

use serde::Deserialize;
use wattrace_schema::{Model, Reading, Scope};

use super::quantity::{
    Batch, Boards, BytesPerValue, Count, Dimension, Efficiency, GigabytesPerSecond,
    IntervalMilliseconds, Joules, JoulesPerGigabyte, JoulesPerToken, Microseconds, Milliseconds,
    Parameters, Percent, PositiveJoules, RequestsPerSecond, Seconds, SignedMilliseconds,
    SignedPercent, Tokens, TokensPerSecond, Watts,
};
use super::value::Lengths;

/// `[models."NAME"]`: the geometry of a dense model, as its publisher states it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelPlan {
    pub(crate) total_params: Parameters,
    pub(crate) dtype: String,
    pub(crate) layers: Dimension,
    pub(crate) hidden_size: Dimension,
    pub(crate) intermediate_size: Dimension,
    pub(crate) attention_heads: Dimension,
    pub(crate) kv_heads: Dimension,
    pub(crate) head_dim: Dimension,
    pub(crate) vocab_size: Dimension,
    pub(crate) tied_embeddings: bool,
    #[serde(default = "two_bytes")]
    pub(crate) weight_bytes_per_param: BytesPerValue,
    #[serde(default = "two_bytes")]
    pub(crate) kv_bytes_per_value: BytesPerValue,
}

const fn two_bytes() -> BytesPerValue {
    BytesPerValue::constant(2.0)
}

impl ModelPlan {
    /// Bytes of the weights that one decode iteration reads: all but an untied embedding table, which
    /// is looked up, not read.
    pub(crate) fn weight_bytes(&self) -> f64 {
        let embedding = u64::from(self.vocab_size.get()) * u64::from(self.hidden_size.get());
        let looked_up = if self.tied_embeddings { 0 } else { embedding };
        self.weight_bytes_per_param.get() * self.total_params.get().saturating_sub(looked_up) as f64
    }

    /// Bytes of keys and values of one token in all layers.
    pub(crate) fn kv_bytes_per_token(&self) -> f64 {
        2.0 * f64::from(self.layers.get())
            * f64::from(self.kv_heads.get())
            * f64::from(self.head_dim.get())
            * self.kv_bytes_per_value.get()
    }

    /// The model as `run.json` describes it.
    pub(crate) fn to_manifest(&self, name: &str) -> Model {
        Model {
            name: name.to_owned(),
            total_params: Some(self.total_params.get()),
            dtype: Some(self.dtype.clone()),
            layers: Some(self.layers.get()),
            hidden_size: Some(self.hidden_size.get()),
            intermediate_size: Some(self.intermediate_size.get()),
            attention_heads: Some(self.attention_heads.get()),
            kv_heads: Some(self.kv_heads.get()),
            head_dim: Some(self.head_dim.get()),
            vocab_size: Some(self.vocab_size.get()),
            tied_embeddings: Some(self.tied_embeddings),
            weight_bytes_per_param: Some(self.weight_bytes_per_param.get()),
            kv_bytes_per_value: Some(self.kv_bytes_per_value.get()),
            ..Model::default()
        }
    }
}

/// `[hardware.NAME]`: a node of like accelerators. Every replica spans all of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HardwarePlan {
    /// What `run.json` calls it.
    pub(crate) accelerator: String,
    pub(crate) count: Boards,
    /// Rated, of one accelerator.
    pub(crate) hbm_bandwidth_gb_s: GigabytesPerSecond,
    pub(crate) node: Option<String>,
    pub(crate) driver: Option<String>,
    #[serde(default)]
    pub(crate) power: PowerPlan,
    #[serde(default)]
    pub(crate) node_power: NodePowerPlan,
}

/// True power of one board by what the server does. A busy board draws `active_w` and the energy of
/// the bytes that it reads and the prompt tokens that it processes, up to `limit_w`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PowerPlan {
    pub(crate) idle_w: Watts,
    pub(crate) loading_w: Watts,
    pub(crate) compiling_w: Watts,
    /// The service is up and has no request.
    pub(crate) ready_w: Watts,
    pub(crate) active_w: Watts,
    pub(crate) limit_w: Watts,
    pub(crate) weight_j_per_gb: JoulesPerGigabyte,
    pub(crate) kv_j_per_gb: JoulesPerGigabyte,
    pub(crate) prefill_j_per_token: JoulesPerToken,
    /// Standard deviation of the boards' power about the nominal.
    pub(crate) board_spread_percent: Percent,
}

impl Default for PowerPlan {
    fn default() -> Self {
        Self {
            idle_w: Watts::constant(75.0),
            loading_w: Watts::constant(110.0),
            compiling_w: Watts::constant(240.0),
            ready_w: Watts::constant(118.0),
            active_w: Watts::constant(150.0),
            limit_w: Watts::constant(700.0),
            weight_j_per_gb: JoulesPerGigabyte::constant(0.15),
            kv_j_per_gb: JoulesPerGigabyte::constant(0.25),
            prefill_j_per_token: JoulesPerToken::constant(0.02),
            board_spread_percent: Percent::constant(2.0),
        }
    }
}

/// True power at the wall: `base_w` and the boards' power with its share of fans and losses.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NodePowerPlan {
    pub(crate) base_w: Watts,
    pub(crate) fans_and_losses_percent: Percent,
}

impl Default for NodePowerPlan {
    fn default() -> Self {
        Self { base_w: Watts::constant(420.0), fans_and_losses_percent: Percent::constant(14.0) }
    }
}

/// `[engines.NAME]`: how long the server takes. An iteration takes
///
/// `step_overhead + sequence_overhead · batch + bytes / (boards · bandwidth · efficiency)
/// + prefill tokens / rate`, and `eager_extra` more once its longest sequence is past the captured graphs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnginePlan {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) max_batch: Batch,
    pub(crate) prefill_chunk_tokens: Tokens,
    pub(crate) bandwidth_efficiency: Efficiency,
    pub(crate) step_overhead_ms: Milliseconds,
    pub(crate) sequence_overhead_us: Microseconds,
    /// Of one board.
    pub(crate) prefill_tokens_per_s: TokensPerSecond,
    pub(crate) step_jitter_percent: Percent,
    pub(crate) graph_limit_tokens: Option<Tokens>,
    pub(crate) eager_extra_ms: Milliseconds,
    pub(crate) load_gb_per_s: GigabytesPerSecond,
    pub(crate) compile_s: Seconds,
}

impl Default for EnginePlan {
    fn default() -> Self {
        Self {
            name: "simulated-engine".to_owned(),
            version: "0".to_owned(),
            max_batch: Batch::constant(256),
            prefill_chunk_tokens: Tokens::constant(2048),
            bandwidth_efficiency: Efficiency::constant(0.7),
            step_overhead_ms: Milliseconds::constant(2.0),
            sequence_overhead_us: Microseconds::constant(10.0),
            prefill_tokens_per_s: TokensPerSecond::constant(20_000.0),
            step_jitter_percent: Percent::constant(1.0),
            graph_limit_tokens: None,
            eager_extra_ms: Milliseconds::constant(0.0),
            load_gb_per_s: GigabytesPerSecond::constant(1.5),
            compile_s: Seconds::constant(15.0),
        }
    }
}

/// `[workloads.NAME]`: what is asked of the service, and how fast.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkloadPlan {
    pub(crate) task: String,
    pub(crate) dataset: Option<String>,
    /// File of a request trace, beside the plan: when formal requests arrive, and their lengths.
    pub(crate) trace: Option<String>,
    pub(crate) input_tokens: Lengths,
    pub(crate) output_tokens: Lengths,
    /// Closed loop: so many clients, each sending its next request when the last one ended.
    pub(crate) concurrency: Option<Count>,
    /// Open loop: requests arrive as a Poisson process.
    pub(crate) request_rate: Option<RequestsPerSecond>,
}

/// `[sensors.NAME]`: a power source and what keeps it from being perfect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SensorPlan {
    #[serde(default = "gpu_board")]
    pub(crate) scope: Scope,
    #[serde(default = "instant")]
    pub(crate) reading: Reading,
    /// Of the trailing average.
    #[serde(default = "one_second")]
    pub(crate) averaging_window_ms: IntervalMilliseconds,
    pub(crate) interval_ms: IntervalMilliseconds,
    /// Outside the formal stage and a second on either side of it, where it differs.
    pub(crate) interval_outside_formal_ms: Option<IntervalMilliseconds>,
    /// Standard deviation of a sample's time about its due time.
    #[serde(default)]
    pub(crate) jitter_ms: Milliseconds,
    /// Share of samples that never arrive.
    #[serde(default)]
    pub(crate) lost_percent: Percent,
    /// Standard deviation of a power reading, in watts and as a share of the power.
    #[serde(default)]
    pub(crate) noise_w: Watts,
    #[serde(default)]
    pub(crate) noise_percent: Percent,
    /// Readings are rounded to multiples of this; 0 leaves them as they are.
    #[serde(default)]
    pub(crate) resolution_w: Watts,
    /// Readings and counter are too high by this share.
    #[serde(default)]
    pub(crate) gain_error_percent: SignedPercent,
    pub(crate) counter: Option<CounterPlan>,
    /// Offset of the source's clock that `run.json` declares.
    #[serde(default)]
    pub(crate) clock_offset_ms: SignedMilliseconds,
    /// Offset that it does not know of.
    #[serde(default)]
    pub(crate) clock_error_ms: SignedMilliseconds,
    pub(crate) accuracy_percent: Option<Percent>,
}

/// A cumulative energy counter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CounterPlan {
    /// Time between updates of its value; 0 for a counter that is always up to date.
    #[serde(default)]
    pub(crate) refresh_ms: Milliseconds,
    #[serde(default)]
    pub(crate) resolution_j: Joules,
    /// It starts again from zero at this value.
    pub(crate) wrap_j: Option<PositiveJoules>,
}

const fn gpu_board() -> Scope {
    Scope::GpuBoard
}

const fn instant() -> Reading {
    Reading::Instant
}

const fn one_second() -> IntervalMilliseconds {
    IntervalMilliseconds::constant(1000.0)
}
