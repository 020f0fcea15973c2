//! `[[serving]]`: service lifecycles. One entry makes a run for every combination of its lists.

use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::parts::{EnginePlan, HardwarePlan, ModelPlan, SensorPlan, WorkloadPlan};
use super::quantity::{
    Count, CountOrNone, Percent, PercentBeyond, PositiveSeconds, Repeats, RequestsPerSecond,
    Seconds, Tokens, Watts,
};
use super::value::{Name, OneOrMany};
use super::{AccuracyPlan, Fault, Parts, PlannedSpec, id_part};

/// One entry of the plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServingPlan {
    /// Beginning of the runs' ids.
    pub(crate) id: Name,
    /// `configuration` in `run.json`; the engine's name by default.
    pub(crate) configuration: Option<String>,
    model: Spanned<OneOrMany<String>>,
    hardware: Spanned<OneOrMany<String>>,
    engine: Spanned<OneOrMany<String>>,
    workload: Spanned<OneOrMany<String>>,
    sensors: Spanned<OneOrMany<String>>,
    #[serde(default = "once")]
    repeat: Repeats,
    /// Replaces what the workload says.
    concurrency: Option<OneOrMany<Count>>,
    /// Replaces what the workload says.
    request_rate: Option<OneOrMany<RequestsPerSecond>>,
    /// No request is sent after so many.
    pub(crate) requests: Option<Count>,
    /// No request is sent after so long.
    pub(crate) seconds: Option<PositiveSeconds>,
    /// Closed loop: the clients begin one after the other within this time.
    #[serde(default)]
    pub(crate) ramp_s: Seconds,
    #[serde(default = "half_a_minute")]
    pub(crate) idle_s: PositiveSeconds,
    #[serde(default)]
    pub(crate) warmup: WarmupPlan,
    #[serde(default)]
    pub(crate) transient: TransientPlan,
    #[serde(default)]
    pub(crate) failures: FailurePlan,
    #[serde(default)]
    pub(crate) release: ReleasePlan,
    #[serde(default)]
    pub(crate) gaps: Vec<GapPlan>,
    #[serde(default)]
    pub(crate) counter_resets: Vec<CounterResetPlan>,
    /// Tokens that reach the client at once, after the first.
    #[serde(default = "one_token")]
    pub(crate) tokens_per_chunk: Tokens,
    /// Whether `requests.parquet` has the gaps between tokens.
    #[serde(default = "yes")]
    pub(crate) token_times: bool,
    /// Whether the run has `steps.parquet`.
    #[serde(default)]
    pub(crate) steps: bool,
    /// Whether `truth.json` has the energy of every request.
    #[serde(default = "yes")]
    pub(crate) true_requests: bool,
    /// Name of the spec that the runs are made under.
    spec: Option<Spanned<String>>,
    /// Scores that the first run of the entry has.
    accuracy: Option<AccuracyPlan>,
}

const fn once() -> Repeats {
    Repeats::constant(1)
}

const fn half_a_minute() -> PositiveSeconds {
    PositiveSeconds::constant(30.0)
}

const fn one_token() -> Tokens {
    Tokens::constant(1)
}

const fn yes() -> bool {
    true
}

/// Requests before the formal ones, in a closed loop.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WarmupPlan {
    pub(crate) requests: CountOrNone,
    pub(crate) concurrency: Count,
}

impl Default for WarmupPlan {
    fn default() -> Self {
        Self { requests: CountOrNone::constant(8), concurrency: Count::constant(4) }
    }
}

/// What is still settling when the formal stage begins: busy power and step time start so much above
/// their final values and approach them exponentially.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TransientPlan {
    pub(crate) power_percent: PercentBeyond,
    pub(crate) step_time_percent: PercentBeyond,
    pub(crate) time_constant_s: PositiveSeconds,
}

impl Default for TransientPlan {
    fn default() -> Self {
        Self {
            power_percent: PercentBeyond::default(),
            step_time_percent: PercentBeyond::default(),
            time_constant_s: PositiveSeconds::constant(10.0),
        }
    }
}

impl TransientPlan {
    /// Time until a hundredth of the transient is left: ln(100) time constants, if there is any.
    pub(crate) fn settling_s(&self) -> f64 {
        let nothing_settles =
            self.power_percent.get() == 0.0 && self.step_time_percent.get() == 0.0;
        if nothing_settles { 0.0 } else { self.time_constant_s.get() * 100_f64.ln() }
    }
}

/// Shares of the requests that fail.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FailurePlan {
    /// The server answers with an error once it has read the prompt.
    pub(crate) error_percent: Percent,
    /// The stream stalls, and the client gives up `timeout_s` after sending.
    pub(crate) timeout_percent: Percent,
    pub(crate) timeout_s: PositiveSeconds,
    /// The client cancels while tokens arrive.
    pub(crate) cancelled_percent: Percent,
}

impl Default for FailurePlan {
    fn default() -> Self {
        Self {
            error_percent: Percent::default(),
            timeout_percent: Percent::default(),
            timeout_s: PositiveSeconds::constant(30.0),
            cancelled_percent: Percent::default(),
        }
    }
}

/// What happens after the formal stage. Power stays at `ready_w` until the process exits, then decays
/// exponentially to idle plus `residual_w`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReleasePlan {
    /// From `formal_end` to the exit of the process.
    pub(crate) exit_s: Seconds,
    /// From there to the release of the memory.
    pub(crate) memory_s: Seconds,
    pub(crate) decay_s: PositiveSeconds,
    /// Power that never goes away, of every board.
    pub(crate) residual_w: Watts,
    /// From `formal_end` to the end of monitoring.
    pub(crate) monitor_s: Seconds,
    /// Another load that comes and goes.
    pub(crate) bump: Option<BumpPlan>,
}

impl Default for ReleasePlan {
    fn default() -> Self {
        Self {
            exit_s: Seconds::constant(2.0),
            memory_s: Seconds::constant(1.0),
            decay_s: PositiveSeconds::constant(4.0),
            residual_w: Watts::default(),
            monitor_s: Seconds::constant(75.0),
            bump: None,
        }
    }
}

/// Extra power of every board for a while.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BumpPlan {
    /// From `formal_end`.
    pub(crate) after_s: Seconds,
    pub(crate) seconds: PositiveSeconds,
    pub(crate) power_w: Watts,
}

/// A part of the lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StagePlan {
    Idle,
    Startup,
    Formal,
    Release,
}

/// Samples that are missing.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GapPlan {
    /// Of this sensor; of all of them by default.
    pub(crate) sensor: Option<String>,
    pub(crate) stage: StagePlan,
    /// From the beginning of the stage.
    pub(crate) after_s: Seconds,
    pub(crate) seconds: PositiveSeconds,
}

/// A driver reload that sets the counters to zero.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CounterResetPlan {
    pub(crate) stage: StagePlan,
    /// From the beginning of the stage.
    pub(crate) after_s: Seconds,
}

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrival {
    /// So many clients, each with one request at a time.
    Closed { concurrency: u32 },
    /// A Poisson process, requests per second.
    Poisson { rate: f64 },
    /// At the times of a request trace.
    Trace,
}

/// One run of an entry.
#[derive(Debug, Clone)]
pub(crate) struct ServingRun {
    pub(crate) entry: Arc<ServingPlan>,
    pub(crate) model_name: String,
    pub(crate) model: ModelPlan,
    pub(crate) hardware: HardwarePlan,
    pub(crate) engine: EnginePlan,
    pub(crate) workload: WorkloadPlan,
    pub(crate) arrival: Arrival,
    pub(crate) sensors: Vec<(String, SensorPlan)>,
    pub(crate) spec: Option<Arc<PlannedSpec>>,
    /// Only of the first run of the entry: a suite is run once.
    pub(crate) accuracy: Option<AccuracyPlan>,
}

impl ServingPlan {
    /// The runs of this entry and their ids: models, then hardware, engines, workloads, arrivals and
    /// repeats, the last turning fastest. Only lists of more than one value show in the ids.
    pub(super) fn expand(
        entry: &Spanned<Self>,
        parts: &Parts,
    ) -> Result<Vec<(String, ServingRun)>, Fault> {
        let plan = Arc::new(entry.get_ref().clone());
        let fault = |message: &str| Fault::new(entry.span(), "serving", message);
        let failing = plan.failures.error_percent.get()
            + plan.failures.timeout_percent.get()
            + plan.failures.cancelled_percent.get();
        if failing > 100.0 {
            let message = format!(
                "the shares of failures are {failing} percent together; expected at most 100"
            );
            return Err(fault(&message));
        }
        let sensors = parts.sensors("serving.sensors", &plan.sensors)?;
        if let Some(unknown) = plan.unknown_gap_sensor() {
            let known: Vec<String> = sensors.iter().map(|(id, _)| format!("\"{id}\"")).collect();
            let message = format!(
                "\"{unknown}\" is not one of the run's sensors; expected {}",
                known.join(" or ")
            );
            return Err(Fault::new(entry.span(), "serving.gaps.sensor", &message));
        }
        let spec = plan.spec.as_ref().map(|name| parts.spec(name)).transpose()?;
        if let Some(problem) = plan.accuracy.as_ref().and_then(AccuracyPlan::problem) {
            return Err(fault(&problem));
        }
        let mut runs: Vec<(String, ServingRun)> = Vec::new();
        for (model_name, model) in parts.models("serving.model", &plan.model)? {
            for (hardware_name, hardware) in parts.hardware("serving.hardware", &plan.hardware)? {
                for (engine_name, engine) in parts.engines("serving.engine", &plan.engine)? {
                    for (workload_name, workload) in
                        parts.workloads("serving.workload", &plan.workload)?
                    {
                        let arrivals =
                            plan.arrivals(workload).map_err(|message| fault(&message))?;
                        let ends = plan.requests.is_some() || plan.seconds.is_some();
                        if workload.trace.is_none() && !ends {
                            return Err(fault(
                                "neither \"requests\" nor \"seconds\" is given; expected one or both",
                            ));
                        }
                        for arrival in &arrivals {
                            let run = ServingRun {
                                entry: Arc::clone(&plan),
                                model_name: model_name.to_owned(),
                                model: model.clone(),
                                hardware: hardware.clone(),
                                engine: engine.clone(),
                                workload: workload.clone(),
                                arrival: *arrival,
                                sensors: sensors.clone(),
                                spec: spec.clone(),
                                accuracy: None,
                            };
                            let axes = [
                                (plan.model.get_ref().values().len(), model_name),
                                (plan.hardware.get_ref().values().len(), hardware_name),
                                (plan.engine.get_ref().values().len(), engine_name),
                                (plan.workload.get_ref().values().len(), workload_name),
                                (arrivals.len(), &arrival.id_part()),
                            ];
                            let mut id = plan.id.as_str().to_owned();
                            for (values, name) in axes {
                                if values > 1 {
                                    id.push('-');
                                    id.push_str(&id_part(name));
                                }
                            }
                            parts
                                .push_repeats(&mut runs, &id, plan.repeat.get(), |_| run.clone())
                                .map_err(|message| fault(&message))?;
                        }
                    }
                }
            }
        }
        if let Some((_, first)) = runs.first_mut() {
            first.accuracy.clone_from(&plan.accuracy);
        }
        Ok(runs)
    }

    fn unknown_gap_sensor(&self) -> Option<&str> {
        let known = self.sensors.get_ref().values();
        let named = self.gaps.iter().filter_map(|gap| gap.sensor.as_ref());
        named.filter(|sensor| !known.contains(sensor)).map(String::as_str).next()
    }

    /// The arrivals of the entry, or else of the workload.
    fn arrivals(&self, workload: &WorkloadPlan) -> Result<Vec<Arrival>, String> {
        if workload.trace.is_some() {
            let others = [
                self.concurrency.is_some() || workload.concurrency.is_some(),
                self.request_rate.is_some() || workload.request_rate.is_some(),
            ];
            return match others {
                [false, false] => Ok(vec![Arrival::Trace]),
                _ => {
                    Err("the workload has a \"trace\", which gives the arrivals; expected neither \
                          \"concurrency\" nor \"request_rate\" beside it"
                        .to_owned())
                }
            };
        }
        let closed = |concurrency: &Count| Arrival::Closed { concurrency: concurrency.get() };
        let poisson = |rate: &RequestsPerSecond| Arrival::Poisson { rate: rate.get() };
        match (&self.concurrency, &self.request_rate) {
            (Some(concurrency), None) => Ok(concurrency.values().iter().map(closed).collect()),
            (None, Some(rate)) => Ok(rate.values().iter().map(poisson).collect()),
            (None, None) => match (&workload.concurrency, &workload.request_rate) {
                (Some(concurrency), None) => Ok(vec![closed(concurrency)]),
                (None, Some(rate)) => Ok(vec![poisson(rate)]),
                _ => Err("arrivals are not given; expected one of \"concurrency\" and \
                          \"request_rate\", here or in the workload"
                    .to_owned()),
            },
            (Some(_), Some(_)) => Err("both \"concurrency\" and \"request_rate\" are given; \
                                       expected one of them"
                .to_owned()),
        }
    }
}

impl Arrival {
    fn id_part(self) -> String {
        match self {
            Self::Closed { concurrency } => format!("c{concurrency}"),
            Self::Poisson { rate } => format!("r{rate}"),
            Self::Trace => "trace".to_owned(),
        }
    }
}
