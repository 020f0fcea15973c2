//! What a perfect instrument would say of a serving run.

use serde::Serialize;
use wattrace_schema::TimestampNs;

use super::window::WindowTruth;

/// `truth.json` of a serving run. A value carries the name of the result column that it is the truth
/// of; null where the column is null too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ServingTruth {
    pub(super) synthetic: bool,
    pub(super) kind: &'static str,
    pub(super) plan: String,
    pub(super) seed: u64,
    pub(super) run_index: usize,
    pub(super) idle_power_w: f64,
    pub(super) startup_energy_j: f64,
    pub(super) formal_energy_j: f64,
    pub(super) release_energy_j: Option<f64>,
    pub(super) lifecycle_energy_j: Option<f64>,
    pub(super) output_tokens: u64,
    pub(super) formal_j_per_token: Option<f64>,
    pub(super) steady_j_per_token: Option<f64>,
    pub(super) lifecycle_j_per_token: Option<f64>,
    pub(super) output_throughput_tok_s: f64,
    pub(super) formal_power_w: f64,
    pub(super) requests_total: usize,
    pub(super) requests_failed: usize,
    pub(super) node_energy_j: f64,
    pub(super) node_power_w: f64,
    pub(super) node_j_per_token: Option<f64>,
    pub(super) unattributed_energy_j: f64,
    pub(super) steady_reached: bool,
    pub(super) steady_start: Option<TimestampNs>,
    pub(super) steady_first_request: Option<usize>,
    pub(super) steady_tokens: Option<u64>,
    pub(super) steady_energy_j: Option<f64>,
    pub(super) steady_power_w: Option<f64>,
    pub(super) release_closed: bool,
    /// In continuous time; sampled power shows it at the next sample at the earliest.
    pub(super) release_end: Option<TimestampNs>,
    pub(super) release_seconds: Option<f64>,
    pub(super) settled: SettledTruth,
    pub(super) devices: Vec<DeviceTruth>,
    /// Energy of each formal request in the order of sending, J; null for failed ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_energy_j: Option<Vec<Option<f64>>>,
    /// The window of the spec that the run was made under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<WindowTruth>,
    /// Score of the run's accuracy suite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) accuracy_points: Option<f64>,
}

/// The part of the formal stage in which less than a hundredth of the plan's transient is left,
/// whatever the steady-state rule makes of the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SettledTruth {
    pub(super) start: TimestampNs,
    pub(super) energy_j: f64,
    pub(super) tokens: u64,
    pub(super) j_per_token: Option<f64>,
}

/// One board, or the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DeviceTruth {
    pub(super) device: String,
    pub(super) idle_power_w: f64,
    pub(super) startup_energy_j: f64,
    pub(super) formal_energy_j: f64,
    pub(super) release_energy_j: Option<f64>,
}

/// `numerator / denominator`, unless there is nothing to divide by.
pub(super) fn ratio(numerator: f64, denominator: u64) -> Option<f64> {
    (denominator > 0).then(|| numerator / denominator as f64)
}
