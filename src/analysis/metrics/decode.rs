//! Energy, tokens and coordinates of a decode-only run: what the decode energy model is fitted on.
//!
//! Over the window [decode_start, decode_end] with T tokens, S iterations of all replicas, duration D
//! and board energy E: B_eff = T/S, τ = D/T, L̄ = Σ history / T, q_w = M_w/(1e9 · B_eff),
//! q_KV = K_KV · (L̄ + 1)/1e9 (metrics definition, section 4).

mod log;
#[cfg(test)]
pub(crate) mod tests;
mod timing;

use wattrace_schema::{
    EnergyMethod, Flag, FlagSet, Interval, Model, Reason, Requests, Run, RunManifest,
};

use super::energy::fill_both_methods;
use super::{MetricRow, PROJECT, Stage, declare, windows};
use crate::outcome::{Metric, Outcome, Value};
use crate::series::{accelerators, stage_energy};
use log::StepTotals;
pub(crate) use log::{Place, place};

pub use timing::{StepTiming, step_timings};

/// Where the coordinates come from.
const DECODE_MODEL: &str = "Decode energy model (active bytes and time)";

/// Bytes of a gigabyte.
pub(crate) const BYTES_PER_GB: f64 = 1e9;

declare! {
    TOKENS "tokens" U64 Token Engine DECODE_MODEL,
        "Useful decode tokens of the steps inside [decode_start, decode_end], all replicas together; a prompt's first token comes from prefill and is not among them.";
    ITERATIONS "iterations" U64 Count Engine DECODE_MODEL,
        "Decode iterations of the steps inside [decode_start, decode_end], summed over replicas; steps without a token count too.";
    STRADDLING_STEPS "straddling_steps" U64 Count Engine PROJECT,
        "Rows of the step log that lie partly inside [decode_start, decode_end] and were left out.";
    DURATION_S "duration_s" F64 Second Engine DECODE_MODEL,
        "Time from decode_start to decode_end.";
    ENERGY_J "energy_j" F64 Joule Accelerators DECODE_MODEL,
        "Energy of all accelerators over [decode_start, decode_end]; idle power is not subtracted.";
    J_PER_TOKEN "j_per_token" F64 JoulePerToken AcceleratorsAndEngine DECODE_MODEL,
        "Decode energy divided by the useful decode tokens of the same window.";
    B_EFF "b_eff" F64 Count Engine DECODE_MODEL,
        "Useful decode tokens divided by iterations: the effective batch.";
    MEAN_HISTORY_TOKENS "mean_history_tokens" F64 Token Engine DECODE_MODEL,
        "Attention history before each decode token, averaged over tokens.";
    Q_W_GB "q_w_gb" F64 GigabytePerToken Engine DECODE_MODEL,
        "Weight bytes read for a token: the bytes of all dense weights divided by the effective batch, 1 GB = 1e9 B.";
    Q_KV_GB "q_kv_gb" F64 GigabytePerToken Engine DECODE_MODEL,
        "Key and value bytes read for a token: bytes of one token of history times (mean history + 1), 1 GB = 1e9 B.";
    TAU_S "tau_s" F64 SecondPerToken Engine DECODE_MODEL,
        "Duration of the decode window divided by its useful decode tokens.";
    MEAN_REQUEST_HISTORY_TOKENS "mean_request_history_tokens" F64 Token Client PROJECT,
        "Mean over requests, each counting once, of the request's own mean history before a decode token, input_tokens + (output_tokens - 2)/2; formal requests with at least two output tokens.";
    DECODE_ENERGY_TRAPEZOID_J "decode_energy_trapezoid_j" F64 Joule Accelerators PROJECT,
        "Decode energy as the integral of sampled power.";
    DECODE_ENERGY_COUNTER_J "decode_energy_counter_j" F64 Joule Accelerators PROJECT,
        "Decode energy as the rise of the energy counters.";
    DECODE_ENERGY_METHOD_DIFFERENCE "decode_energy_method_difference" F64 Ratio Accelerators PROJECT,
        "(counter - trapezoid) / trapezoid of the decode energy.";
}

/// Fills the decode columns of a decode run from its step log and power.
pub(super) fn fill(run: &Run, row: &mut MetricRow) {
    let manifest = &run.manifest;
    let window = windows::decode(&manifest.stages);
    let duration_s = window.map(Interval::duration_s);
    let duration = Outcome::number(duration_s);
    row.set(&DURATION_S, window.map_or(duration, |window| duration.over(window)));

    let energy = stage_energy(
        &accelerators(run),
        window,
        manifest.energy_method.decode,
        EnergyMethod::Counter,
    );
    row.set(&ENERGY_J, energy.outcome());
    row.record(Stage::Decode, &energy);
    fill_both_methods(
        row,
        &energy,
        [&DECODE_ENERGY_TRAPEZOID_J, &DECODE_ENERGY_COUNTER_J, &DECODE_ENERGY_METHOD_DIFFERENCE],
    );
    row.set(&MEAN_REQUEST_HISTORY_TOKENS, mean_request_history(run.requests.as_ref()));

    match window.and_then(|window| StepTotals::of(run, window)) {
        Ok(totals) => fill_from_steps(manifest, &totals, energy.outcome(), row),
        Err(reason) => {
            for metric in STEP_METRICS {
                row.set(metric, Outcome::missing(reason));
            }
        }
    }
}

/// Everything that needs steps.
const STEP_METRICS: [&Metric; 9] = [
    &TOKENS,
    &ITERATIONS,
    &STRADDLING_STEPS,
    &J_PER_TOKEN,
    &B_EFF,
    &MEAN_HISTORY_TOKENS,
    &Q_W_GB,
    &Q_KV_GB,
    &TAU_S,
];

fn fill_from_steps(
    manifest: &RunManifest,
    totals: &StepTotals,
    energy: Outcome,
    row: &mut MetricRow,
) {
    let of_steps = |outcome: Outcome| {
        outcome.with_flags(totals.flags).over(totals.window).from_rows(totals.rows)
    };
    let number = |value: Result<f64, Reason>| of_steps(Outcome::number(value));
    let tokens = totals.tokens_for_ratio();
    let b_eff = tokens.map(|tokens| tokens / totals.iterations as f64);
    let mean_history = tokens.and_then(|tokens| Ok(totals.history_tokens? as f64 / tokens));

    row.set(&TOKENS, of_steps(Outcome::of(Value::U64(totals.tokens))));
    row.set(&ITERATIONS, of_steps(Outcome::of(Value::U64(totals.iterations))));
    row.set(&STRADDLING_STEPS, of_steps(Outcome::of(Value::U64(totals.straddling))));
    row.set(&J_PER_TOKEN, energy.divided_by(tokens).with_flags(totals.flags));
    row.set(&B_EFF, number(b_eff));
    row.set(&TAU_S, number(tokens.map(|tokens| totals.window.duration_s() / tokens)));
    row.set(&MEAN_HISTORY_TOKENS, number(mean_history));
    row.set(&Q_W_GB, number(weight_gb_per_token(&manifest.model, b_eff)));
    let q_kv = number(kv_gb_per_token(&manifest.model, mean_history));
    row.set(&Q_KV_GB, q_kv.with_flags(model_flags(&manifest.model)));
}

fn weight_gb_per_token(model: &Model, b_eff: Result<f64, Reason>) -> Result<f64, Reason> {
    // The model's own reason comes first: it holds whatever the run has.
    let bytes = model.weight_bytes_per_iteration()?;
    Ok(bytes / (BYTES_PER_GB * b_eff?))
}

fn kv_gb_per_token(model: &Model, mean_history: Result<f64, Reason>) -> Result<f64, Reason> {
    let bytes = model.kv_bytes_per_token()?;
    Ok(bytes * (mean_history? + 1.0) / BYTES_PER_GB)
}

fn model_flags(model: &Model) -> FlagSet {
    let mut flags = FlagSet::EMPTY;
    flags.insert_if(model.sliding_window.is_some(), Flag::SlidingWindow);
    flags
}

/// Decode step k of a request (k = 1 is the first after prefill) finds input_tokens + k - 1 tokens of
/// history, and the last is k = output_tokens - 1; hence the mean.
fn mean_request_history(requests: Option<&Requests>) -> Outcome {
    let Some(requests) = requests else { return Outcome::missing(Reason::NoRequests) };
    let mut sum = 0.0;
    let mut count = 0;
    for index in (0..requests.len()).filter(|index| requests.is_formal(*index)) {
        let Some(output) = requests.successful_tokens(index).filter(|tokens| *tokens >= 2) else {
            continue;
        };
        let Some(input) = requests.input_tokens[index] else {
            return Outcome::missing(Reason::NoHistory);
        };
        sum += f64::from(input) + f64::from(output - 2) / 2.0;
        count += 1;
    }
    if count == 0 {
        return Outcome::missing(Reason::NoSuccessfulRequests);
    }
    Outcome::of(Value::F64(sum / count as f64)).from_rows(count)
}

/// Claim of a summary run that is not itself a metric.
const MEAN_OUTPUT_TOKENS: &str = "mean_output_tokens";

/// Fills the decode columns of a summary run from what its source claims, flagged so.
///
/// Published tables give the mean output length but neither prompts nor the spread of lengths; the
/// history is then taken as (mean output length - 1)/2, the mean count of output tokens before each
/// output token of a request of that length.
pub(super) fn fill_claimed(manifest: &RunManifest, row: &mut MetricRow) {
    let claimed = |name: &str| {
        let claim = manifest.claims.iter().find(|claim| claim.metric == name);
        let value = claim.map(|claim| claim.value).filter(|v| v.is_finite() && *v > 0.0);
        value.ok_or(Reason::SummaryOnly)
    };
    let number = |value: Result<f64, Reason>| {
        let outcome = Outcome::number(value);
        outcome.flag_if(value.is_ok(), Flag::Claimed)
    };
    let b_eff = claimed(B_EFF.name);
    let history = claimed(MEAN_HISTORY_TOKENS.name);
    let approximated = history.is_err();
    let history = history.or_else(|_| {
        // A mean below one token leaves no history, not a negative one.
        claimed(MEAN_OUTPUT_TOKENS).map(|length| ((length - 1.0) / 2.0).max(0.0))
    });
    let from_history = |value: Result<f64, Reason>| {
        number(value).flag_if(approximated && value.is_ok(), Flag::HistoryApproximate)
    };
    row.set(&J_PER_TOKEN, number(claimed(J_PER_TOKEN.name)));
    row.set(&B_EFF, number(b_eff));
    row.set(&TAU_S, number(claimed(TAU_S.name)));
    row.set(&MEAN_HISTORY_TOKENS, from_history(history));
    row.set(&Q_W_GB, number(weight_gb_per_token(&manifest.model, b_eff)));
    let q_kv = from_history(kv_gb_per_token(&manifest.model, history));
    row.set(&Q_KV_GB, q_kv.with_flags(model_flags(&manifest.model)));
}
