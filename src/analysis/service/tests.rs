//! Runs, sweeps and fleets worked by hand.

mod accuracy;
mod archive;
mod comparison;
mod coverage;
mod measurement;
mod sweep;
mod traffic;

use wattrace_schema::{Reason, Run, Scope};

use super::*;
use crate::outcome::{Outcome, Value};
use crate::test_run::{add_device, serving};

#[track_caller]
fn assert_close(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{value} is not {expected}"
    );
}

/// Constant power, sampled each second from 0 to `seconds`.
fn add_flat(run: &mut Run, scope: Scope, name: &str, seconds: i32, power_w: f64) {
    let samples: Vec<_> = (0..=seconds).map(|t| (f64::from(t), power_w)).collect();
    add_device(run, scope, name, &samples, &[]);
}

const OBJECTIVE: Objective = Objective { ttft_p99_ms: 500.0, tpot_p99_ms: 60.0 };

fn rules() -> ServiceRules {
    ServiceRules {
        spec_hash: Some("5bec".into()),
        objective: Some(OBJECTIVE),
        ..ServiceRules::default()
    }
}

/// A measured run, known by its results: output rate, p99 TTFT and p99 TPOT (infinite: unbounded).
fn measured(
    configuration: &str,
    request_rate: Option<f64>,
    repeat: usize,
    [output_tok_s, ttft_ms, tpot_ms]: [f64; 3],
) -> RunMeasurement {
    let percentile = |value: f64| {
        if value.is_finite() {
            Outcome::of(Value::F64(value))
        } else {
            Outcome::missing(Reason::P99Unbounded)
        }
    };
    RunMeasurement {
        run_id: format!("{configuration}-{request_rate:?}-{repeat}"),
        configuration: Some(configuration.into()),
        request_rate,
        output_tok_s: Outcome::of(Value::F64(output_tok_s)),
        ttft_p99_ms: percentile(ttft_ms),
        tpot_p99_ms: percentile(tpot_ms),
        sent: Ok(100),
        failed: Ok(0),
        ..measure(&serving(10), &rules())
    }
}

/// Five repeats at one rate, of output rates around `output_tok_s` and one TTFT each.
fn repeats(
    configuration: &str,
    request_rate: Option<f64>,
    output_tok_s: f64,
    ttft_ms: [f64; 5],
) -> Vec<RunMeasurement> {
    ttft_ms
        .iter()
        .enumerate()
        .map(|(repeat, ttft_ms)| {
            let output_tok_s = output_tok_s + repeat as f64;
            measured(configuration, request_rate, repeat, [output_tok_s, *ttft_ms, 40.0])
        })
        .collect()
}
