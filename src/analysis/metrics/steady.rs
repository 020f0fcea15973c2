//! The steady window: from when on the energy of requests no longer wanders.

use wattrace_schema::{EnergyMethod, Flag, Interval, Reason, Requests};

use super::attribution::{Attribution, RequestEnergy};
use super::energy::{fill_both_methods, mean_power};
use super::{BENCHMARK, Context, MetricRow, PROJECT, Stage, declare};
use crate::options::{SteadyRule, SteadyWindows};
use crate::outcome::{Outcome, Value};
use crate::series::{StageEnergy, stage_energy};
use crate::stats::Moments;

declare! {
    STEADY_REACHED "steady_reached" Bool None AcceleratorsAndClient BENCHMARK,
        "Whether two consecutive non-overlapping windows of 100 successful requests, in the order of their ends, both have a coefficient of variation of energy per token below 0.03 (size, limit and count are options).";
    STEADY_START "steady_start" Time Timestamp AcceleratorsAndClient BENCHMARK,
        "End of the request before the first calm window; formal_start when that is the first request's.";
    STEADY_FIRST_REQUEST "steady_first_request" U64 None AcceleratorsAndClient BENCHMARK,
        "Place of the first calm window's first request in the order of ends, from 0.";
    STEADY_TOKENS "steady_tokens" F64 Token Client BENCHMARK,
        "Tokens of successful formal requests output after steady_start and up to formal_end; fractional where gaps between tokens were not recorded.";
    STEADY_ENERGY_J "steady_energy_j" F64 Joule Accelerators BENCHMARK,
        "Energy of all accelerators over [steady_start, formal_end].";
    STEADY_J_PER_TOKEN "steady_j_per_token" F64 JoulePerToken AcceleratorsAndClient BENCHMARK,
        "Steady energy divided by steady tokens.";
    STEADY_POWER_W "steady_power_w" F64 Watt Accelerators BENCHMARK,
        "Steady energy divided by the duration of the steady window, all accelerators together.";
    STEADY_ENERGY_TRAPEZOID_J "steady_energy_trapezoid_j" F64 Joule Accelerators PROJECT,
        "Steady energy as the integral of sampled power.";
    STEADY_ENERGY_COUNTER_J "steady_energy_counter_j" F64 Joule Accelerators PROJECT,
        "Steady energy as the rise of the energy counters.";
    STEADY_ENERGY_METHOD_DIFFERENCE "steady_energy_method_difference" F64 Ratio Accelerators PROJECT,
        "(counter - trapezoid) / trapezoid of the steady energy.";
}

/// Orders the requests, finds the steady window and fills its metrics; gives the requests in order,
/// each with the level of the window that starts at it.
pub(super) fn fill(
    context: &Context<'_>,
    attribution: Result<Attribution, Reason>,
    row: &mut MetricRow,
) -> Result<Vec<RequestEnergy>, Reason> {
    let attribution = attribution.inspect_err(|reason| missing(row, *reason))?;
    let requests = context.run.requests.as_ref().ok_or(Reason::NoRequests)?;
    let rule = &context.options.steady;
    let Attribution { requests: mut energies, tokens, flags, .. } = attribution;
    let levels = order_by_end(requests, &mut energies);
    if flags.contains(Flag::MissingEnd) {
        // Without every end there is no order of ends, and tokens would be missing from the window.
        energies.iter_mut().for_each(|energy| energy.order = None);
        missing(row, Reason::MissingEnd);
        return Ok(energies);
    }
    let window_cvs = window_cvs(&levels, rule.size);
    for (energy, window_cv) in energies.iter_mut().zip(&window_cvs) {
        energy.window_cv = Some(*window_cv).filter(|cv| cv.is_finite());
    }

    let first = first_calm_window(&window_cvs, levels.len(), rule);
    let reached = Outcome::of(Value::Bool(first.is_ok())).with_flags(flags);
    row.set(&STEADY_REACHED, reached.from_rows(levels.len()));
    row.set(&STEADY_FIRST_REQUEST, Outcome::from(first.map(|first| Value::U64(first as u64))));

    let window = first.and_then(|first| steady_window(context, requests, &energies, first));
    let start = window.map(|window| Value::Time(window.start_ns));
    row.set(&STEADY_START, Outcome::from(start));
    let steady_tokens =
        window.map(|window| tokens.tokens_in(requests, window.start_ns, window.end_ns));
    let mut tokens_outcome = Outcome::number(steady_tokens).with_flags(flags);
    tokens_outcome.window = window.ok();
    row.set(&STEADY_TOKENS, tokens_outcome);

    let named = context.run.manifest.energy_method.steady;
    let stage = match window {
        Ok(_) => stage_energy(&context.accelerators, window, named, EnergyMethod::Counter),
        Err(reason) => StageEnergy::missing(reason),
    };
    let energy = stage.outcome();
    row.set(&STEADY_ENERGY_J, energy);
    row.record(Stage::Steady, &stage);
    row.set(&STEADY_POWER_W, mean_power(energy));
    let divisor = steady_tokens
        .and_then(|tokens| if tokens > 0.0 { Ok(tokens) } else { Err(Reason::NoOutputTokens) });
    row.set(&STEADY_J_PER_TOKEN, energy.divided_by(divisor).with_flags(flags));
    fill_both_methods(
        row,
        &stage,
        [&STEADY_ENERGY_TRAPEZOID_J, &STEADY_ENERGY_COUNTER_J, &STEADY_ENERGY_METHOD_DIFFERENCE],
    );
    Ok(energies)
}

fn missing(row: &mut MetricRow, reason: Reason) {
    for metric in METRICS {
        row.set(metric, Outcome::missing(reason));
    }
}

/// Sorts by end, then sending time, then id; requests without energy per token go last and get no
/// place. Gives the energies per token in order.
fn order_by_end(requests: &Requests, energies: &mut [RequestEnergy]) -> Vec<f64> {
    energies.sort_by(|a, b| {
        let key = |energy: &RequestEnergy| {
            let index = energy.request;
            let without = energy.j_per_token.is_none();
            (without, requests.t_end_ns[index], requests.t_send_ns[index])
        };
        key(a)
            .cmp(&key(b))
            .then_with(|| requests.request_id[a.request].cmp(&requests.request_id[b.request]))
    });
    let mut levels = Vec::with_capacity(energies.len());
    for (order, energy) in energies.iter_mut().enumerate() {
        if let Some(level) = energy.j_per_token {
            energy.order = Some(order);
            levels.push(level);
        }
    }
    levels
}

/// Coefficient of variation of every window of `size` values: window i holds values i to i + size - 1.
/// A window whose mean is zero has no level and counts as unsteady.
fn window_cvs(levels: &[f64], size: usize) -> Vec<f64> {
    if size == 0 {
        return Vec::new();
    }
    levels
        .windows(size)
        .map(|window| {
            let level = Moments::of(window).filter(|level| level.mean > 0.0);
            level.and_then(|level| Some(level.sample_std()? / level.mean)).unwrap_or(f64::INFINITY)
        })
        .collect()
}

/// The first window i for which windows i, i + size, … are calm, as many as the rule asks.
fn first_calm_window(
    window_cvs: &[f64],
    requests: usize,
    rule: &SteadyRule,
) -> Result<usize, Reason> {
    if requests < rule.requests_needed() {
        return Err(Reason::TooFewRequests);
    }
    let calm = |first: usize, windows: usize| {
        (0..windows).all(|k| window_cvs.get(first + k * rule.size).is_some_and(|cv| *cv < rule.cv))
    };
    (0..=requests - rule.requests_needed())
        .find(|first| {
            let windows = match rule.windows {
                SteadyWindows::Count(count) => count,
                SteadyWindows::All => (requests - first) / rule.size,
            };
            calm(*first, windows)
        })
        .ok_or(Reason::SteadyNotReached)
}

/// [end of the request before the window, formal_end]; formal_start before the first request.
fn steady_window(
    context: &Context<'_>,
    requests: &Requests,
    energies: &[RequestEnergy],
    first: usize,
) -> Result<Interval, Reason> {
    let formal = context.formal?;
    let start_ns = match first.checked_sub(1) {
        None => formal.start_ns,
        Some(before) => requests.t_end_ns[energies[before].request].ok_or(Reason::MissingEnd)?,
    };
    if start_ns >= formal.end_ns {
        return Err(Reason::EmptyWindow);
    }
    Ok(Interval::new(start_ns.max(formal.start_ns), formal.end_ns))
}
