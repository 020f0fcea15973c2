//! Energy and power of the whole node: never mixed with the accelerators' values.

use wattrace_schema::{EnergyMethod, Flag, Interval, Reason};

use super::energy::mean_power;
use super::{BENCHMARK, Context, DeviceEnergy, MetricRow, Stage, claimed_token_rate, declare};
use crate::outcome::{Outcome, Value};
use crate::series::{self, DeviceSet, window_energy};

/// Where the sample-mean rule comes from.
const MLPERF: &str = "MLPerf Power";

declare! {
    NODE_ENERGY_J "node_energy_j" F64 Joule Node BENCHMARK,
        "Energy of the node over [formal_start, formal_end] by trapezoid.";
    NODE_POWER_W "node_power_w" F64 Watt Node BENCHMARK,
        "Node energy divided by the duration of the formal window.";
    NODE_J_PER_TOKEN "node_j_per_token" F64 JoulePerToken NodeAndClient BENCHMARK,
        "Node energy divided by the output tokens of successful formal requests; without a request log, by the claimed token rate times the duration.";
    NODE_SAMPLE_MEAN_POWER_W "node_sample_mean_power_w" F64 Watt Node MLPERF,
        "Plain mean of the node's samples with formal_start <= t <= formal_end; several node devices are added.";
    NODE_SAMPLE_MEAN_J_PER_TOKEN "node_sample_mean_j_per_token" F64 JoulePerToken NodeAndClient MLPERF,
        "Sample mean of node power divided by the output token rate, measured or, without a request log, claimed.";
}

pub(super) fn fill(context: &Context<'_>, row: &mut MetricRow) {
    let node = series::node(context.run);
    let energy = context.formal.and_then(|formal| {
        let node = node.as_ref().map_err(|reason| *reason)?;
        window_energy(node, formal, EnergyMethod::Trapezoid)
    });
    let energy = match energy {
        Ok(energy) => {
            let rows = DeviceEnergy::of_window(Stage::Node, &energy, EnergyMethod::Trapezoid);
            row.device_energies.extend(rows);
            energy.outcome()
        }
        Err(reason) => Outcome::missing(node.as_ref().err().copied().unwrap_or(reason)),
    };
    row.set(&NODE_ENERGY_J, energy);
    row.set(&NODE_POWER_W, mean_power(energy));

    let (rate, claimed) = token_rate(context);
    let tokens = rate.and_then(|rate| Ok(rate * context.formal?.duration_s()));
    let per_token = energy.divided_by(tokens).flag_if(claimed, Flag::ClaimedTokens);
    row.set(&NODE_J_PER_TOKEN, per_token.with_flags(context.log.flags));

    let mean = node.and_then(|node| sample_mean(&node, context.formal?));
    let mean = mean.unwrap_or_else(Outcome::missing);
    row.set(&NODE_SAMPLE_MEAN_POWER_W, mean);
    let per_token = mean.divided_by(rate).flag_if(claimed, Flag::ClaimedTokens);
    row.set(&NODE_SAMPLE_MEAN_J_PER_TOKEN, per_token.with_flags(context.log.flags));
}

/// Output tokens per second of the formal window, and whether they are only claimed.
fn token_rate(context: &Context<'_>) -> (Result<f64, Reason>, bool) {
    let measured =
        context.log.tokens_for_ratio().and_then(|tokens| Ok(tokens / context.formal?.duration_s()));
    if measured != Err(Reason::NoRequests) {
        return (measured, false);
    }
    let claimed = claimed_token_rate(&context.run.manifest.claims).ok_or(Reason::NoRequests);
    (claimed, claimed.is_ok())
}

fn sample_mean(node: &DeviceSet<'_>, formal: Interval) -> Result<Outcome, Reason> {
    let mut total_w = 0.0;
    let mut samples = 0;
    for (device, _) in &node.devices {
        let t_ns = &device.power_w.t_ns;
        let first = t_ns.partition_point(|t| *t < formal.start_ns);
        let past = t_ns.partition_point(|t| *t <= formal.end_ns);
        let inside = &device.power_w.value[first..past];
        if inside.is_empty() {
            return Err(Reason::NotCovered);
        }
        total_w += inside.iter().sum::<f64>() / inside.len() as f64;
        samples += inside.len();
    }
    Ok(Outcome::of(Value::F64(total_w)).with_flags(node.flags).over(formal).from_rows(samples))
}
