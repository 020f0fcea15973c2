//! One run over the window of its spec.

use wattrace_schema::{EnergyMethod, Flag, FlagSet, Interval, Reason, Requests, Run};

use super::coverage::RunConditions;
use super::engine_estimate::estimated_mbu;
use super::health::{HealthRow, accelerator_health};
use super::rules::{ServiceRules, WindowRule};
use super::subject::SpecOrigin;
use super::traffic::{MemoryTraffic, memory_traffic};
use crate::metrics::{TokenTimes, claimed_token_rate, tpot_ms, ttft_ms};
use crate::outcome::Outcome;
use crate::series::{self, stage_energy};
use crate::stats::percentile;

/// Name of the claim that holds the engine's own estimate of memory bandwidth utilisation.
const MBU_CLAIM: &str = "mbu";

/// What one run gives a spec-driven report.
#[derive(Debug, Clone)]
pub struct RunMeasurement {
    /// The run.
    pub run_id: String,
    /// What is compared, such as `production`.
    pub configuration: Option<String>,
    /// Name of the model.
    pub model: String,
    /// Accelerators and how many of them.
    pub hardware: String,
    /// Requests per second; `None`: as fast as the service takes them.
    pub request_rate: Option<f64>,
    /// The rules that the run was measured by.
    pub rules: ServiceRules,
    /// The window.
    pub window: Result<Interval, Reason>,
    /// Output tokens generated in the window by successful formal requests, per second; claimed where
    /// the run has no request log.
    pub output_tok_s: Outcome,
    /// 99th percentile of the time to first token over requests sent in the window, a failed one
    /// counting as +∞.
    pub ttft_p99_ms: Outcome,
    /// 99th percentile of the time per output token over requests sent in the window, a failed one
    /// counting as +∞ and a successful one with fewer than two tokens left out.
    pub tpot_p99_ms: Outcome,
    /// Formal requests sent in the window.
    pub sent: Result<u64, Reason>,
    /// Those of them that did not succeed.
    pub failed: Result<u64, Reason>,
    /// Mean power of the node over the window: trapezoid energy divided by duration.
    pub node_power_w: Outcome,
    /// Mean power of all boards together over the window; never part of tokens per joule.
    pub board_power_w: Outcome,
    /// Output tokens per joule of the node.
    pub tokens_per_joule: Outcome,
    /// Memory traffic of the steps in the window.
    pub traffic: Result<MemoryTraffic, Reason>,
    /// Memory bandwidth utilisation.
    pub mbu: Outcome,
    /// The engine's own estimate of it, logged or claimed.
    pub engine_mbu: Result<f64, Reason>,
    /// Under which conditions the run measured.
    pub conditions: RunConditions,
    /// What each accelerator went through in the window, where that was sampled.
    pub health: Vec<HealthRow>,
}

impl RunMeasurement {
    /// Every flag of every value.
    #[must_use]
    pub fn flags(&self) -> FlagSet {
        [
            &self.output_tok_s,
            &self.ttft_p99_ms,
            &self.tpot_p99_ms,
            &self.node_power_w,
            &self.board_power_w,
            &self.mbu,
        ]
        .into_iter()
        .map(|outcome| outcome.flags)
        .chain(self.health.iter().map(|device| device.flags))
        .chain([self.origin_flags()])
        .fold(FlagSet::EMPTY, FlagSet::union)
    }

    fn origin_flags(&self) -> FlagSet {
        let given = self.rules.origin == Some(SpecOrigin::Given);
        given.then_some(Flag::SpecGiven).into_iter().collect()
    }

    /// Times at which throttling set in on any accelerator; `None` where no sample says whether it did.
    #[must_use]
    pub fn throttle_events(&self) -> Option<usize> {
        self.health.iter().filter_map(|device| device.throttle_events).reduce(|all, of| all + of)
    }
}

/// Measures one run by `rules`.
#[must_use]
pub fn measure(run: &Run, rules: &ServiceRules) -> RunMeasurement {
    let window = rules.window.window(&run.manifest.stages);
    let sent = window.and_then(|window| SentRequests::of(run, window, rules.window));
    let mut output_tok_s = token_rate(run, window, rules.window);
    output_tok_s.flags.insert_if(run.manifest.synthetic, Flag::Synthetic);
    let node_power_w = node_power_w(run, window);
    let traffic = window.and_then(|window| memory_traffic(run, window, rules.hbm_bandwidth_gb_s));
    let mbu = match &traffic {
        Ok(traffic) => Outcome::number(traffic.mbu()).with_flags(traffic.flags),
        Err(reason) => Outcome::missing(*reason),
    };
    let tokens_per_joule = match node_power_w.as_f64() {
        Ok(power_w) => output_tok_s.divided_by(Ok(power_w)).with_flags(node_power_w.flags),
        Err(reason) => Outcome::missing(reason),
    };
    RunMeasurement {
        run_id: run.manifest.run_id.clone(),
        configuration: run.manifest.configuration.clone(),
        model: run.manifest.model.name.clone(),
        hardware: run.manifest.hardware.label(),
        request_rate: run.manifest.workload.request_rate,
        rules: rules.clone(),
        window,
        output_tok_s,
        ttft_p99_ms: p99(&sent, ttft_ms),
        tpot_p99_ms: p99(&sent, tpot_ms),
        sent: sent.as_ref().map(|sent| sent.indices.len() as u64).map_err(|reason| *reason),
        failed: sent.as_ref().map(SentRequests::failed).map_err(|reason| *reason),
        node_power_w,
        board_power_w: board_power_w(run, window),
        tokens_per_joule,
        traffic,
        mbu,
        engine_mbu: engine_mbu(run, window, rules.hbm_bandwidth_gb_s),
        conditions: RunConditions::of(run, rules.window),
        health: window.map_or_else(|_| Vec::new(), |window| health(run, window)),
    }
}

/// The engine's own estimate: what the run claims, or else what the engine logged.
fn engine_mbu(
    run: &Run,
    window: Result<Interval, Reason>,
    otherwise_gb_s: Option<f64>,
) -> Result<f64, Reason> {
    let claim = run.manifest.claims.iter().find(|claim| claim.metric == MBU_CLAIM);
    match claim {
        Some(claim) => Ok(claim.value),
        None => estimated_mbu(run, window?, otherwise_gb_s),
    }
}

fn health(run: &Run, window: Interval) -> Vec<HealthRow> {
    let run_id = &run.manifest.run_id;
    run.accelerators.iter().map(|samples| accelerator_health(run_id, samples, window)).collect()
}

/// The formal requests that were sent in the window.
struct SentRequests<'run> {
    requests: &'run Requests,
    indices: Vec<usize>,
}

impl<'run> SentRequests<'run> {
    /// Requests with start <= t_send < end. Without a sending time a request is known to lie in the
    /// window only when the window is the whole formal stage.
    fn of(run: &'run Run, window: Interval, rule: WindowRule) -> Result<Self, Reason> {
        let requests = run.requests.as_ref().ok_or(Reason::NoRequests)?;
        let mut indices = Vec::new();
        for index in (0..requests.len()).filter(|index| requests.is_formal(*index)) {
            let inside = match requests.t_send_ns[index] {
                _ if rule == WindowRule::WHOLE => true,
                Some(t_ns) => t_ns >= window.start_ns && t_ns < window.end_ns,
                None => return Err(Reason::NoRequestTimes),
            };
            if inside {
                indices.push(index);
            }
        }
        Ok(Self { requests, indices })
    }

    fn succeeded(&self, index: usize) -> bool {
        self.requests.successful_tokens(index).is_some()
    }

    fn failed(&self) -> u64 {
        self.indices.iter().filter(|index| !self.succeeded(**index)).count() as u64
    }
}

/// The 99th percentile of a latency, failures counting as +∞; an infinite one is a reason.
fn p99(
    sent: &Result<SentRequests<'_>, Reason>,
    latency_ms: fn(&Requests, usize) -> Option<f64>,
) -> Outcome {
    let sent = match sent {
        Ok(sent) => sent,
        Err(reason) => return Outcome::missing(*reason),
    };
    let mut flags = FlagSet::EMPTY;
    let mut values_ms = Vec::with_capacity(sent.indices.len());
    for &index in &sent.indices {
        if !sent.succeeded(index) {
            values_ms.push(f64::INFINITY);
            continue;
        }
        flags.insert_if(ttft_ms(sent.requests, index).is_none(), Flag::NoFirstToken);
        values_ms.extend(latency_ms(sent.requests, index));
    }
    let rows = values_ms.len();
    let value = match percentile(&mut values_ms, 0.99) {
        None => Err(Reason::NoValues),
        Some(p99) if p99.is_infinite() => Err(Reason::P99Unbounded),
        Some(p99) => Ok(p99),
    };
    Outcome::number(value).with_flags(flags).from_rows(rows)
}

/// Output tokens per second of the window.
fn token_rate(run: &Run, window: Result<Interval, Reason>, rule: WindowRule) -> Outcome {
    let Some(requests) = &run.requests else {
        let claimed = claimed_token_rate(&run.manifest.claims);
        return Outcome::number(claimed.ok_or(Reason::NoRequests))
            .flag_if(claimed.is_some(), Flag::ClaimedTokens);
    };
    let window = match window {
        Ok(window) => window,
        Err(reason) => return Outcome::missing(reason),
    };
    let successful: Vec<usize> = (0..requests.len())
        .filter(|&index| requests.is_formal(index) && requests.successful_tokens(index).is_some())
        .collect();
    let all_tokens = |indices: &[usize]| -> f64 {
        indices.iter().filter_map(|index| requests.output_tokens[*index]).map(f64::from).sum()
    };
    // What has no clock times cannot be placed, but belongs to the whole formal stage.
    let (tokens, flags) = match TokenTimes::of(requests, &successful) {
        Ok((times, endless, flags)) => {
            let tokens = times.tokens_in(requests, window.start_ns, window.end_ns);
            let placed = endless.is_empty() || rule == WindowRule::WHOLE;
            let tokens =
                if placed { Ok(tokens + all_tokens(&endless)) } else { Err(Reason::MissingEnd) };
            (tokens, flags)
        }
        Err(Reason::NoRequestTimes) if rule == WindowRule::WHOLE => {
            (Ok(all_tokens(&successful)), FlagSet::EMPTY)
        }
        Err(reason) => (Err(reason), FlagSet::EMPTY),
    };
    Outcome::number(tokens)
        .divided_by(Ok(window.duration_s()))
        .with_flags(flags)
        .over(window)
        .from_rows(successful.len())
}

/// Mean power of the node: its energy is a trapezoid by definition.
fn node_power_w(run: &Run, window: Result<Interval, Reason>) -> Outcome {
    let trapezoid = EnergyMethod::Trapezoid;
    stage_energy(&series::node(run), window, Some(trapezoid), trapezoid)
        .outcome()
        .divided_by(window.map(Interval::duration_s))
}

/// Mean power of the boards: their energy follows the method of the formal stage.
fn board_power_w(run: &Run, window: Result<Interval, Reason>) -> Outcome {
    let named = run.manifest.energy_method.formal;
    stage_energy(&series::accelerators(run), window, named, EnergyMethod::Counter)
        .outcome()
        .divided_by(window.map(Interval::duration_s))
}
