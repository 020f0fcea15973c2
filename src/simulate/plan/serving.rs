//! `[[serving]]`: service lifecycles. One entry makes a run for every combination of its lists.

use serde::Deserialize;

use super::parts::{EnginePlan, HardwarePlan, ModelPlan, SensorPlan, WorkloadPlan};
use super::quantity::{
    Count, CountOrNone, PercentBeyond, Percent, PositiveSeconds, Repeats, RequestsPerSecond,
    Seconds, Tokens, Watts,
};
use super::value::{Name, OneOrMany};
use super::{Fault, Parts};
use toml::Spanned;

/// One entry of the plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServingPlan {
    /// Beginning of the runs' ids.
    id: Name,
    /// `configuration` in `run.json`; the engine's name by default.
    configuration: Option<String>,
    model: Spanned<OneOrMany<String>>,
    hardware: Spanned<OneOrMany<String>>,
    engine: Spanned<OneOrMany<String>>,
    workload: Spanned<OneOrMany<String>>,
    sensors: Spanned<OneOrMany<String>>,
    #[serde(default = "once")]
    repeat: Repeats,
    /// Replaces the workload's own.
    concurrency: Option<OneOrMany<Count>>,
    /// Replaces the workload's own.
    request_rate: Option<OneOrMany<RequestsPerSecond>>,
    #[serde(flatten)]
    lifecycle: std::marker::PhantomData<()>,
}

const fn once() -> Repeats {
    Repeats::constant(1)
}
