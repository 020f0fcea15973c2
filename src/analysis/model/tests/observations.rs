//! What the model sees of a run.

use wattrace_schema::{Reason, RunKind};

use super::*;
use crate::Options;
use crate::metrics::{analyze, decode_tests};

fn observed(run: &wattrace_schema::Run) -> Option<Observation> {
    Observation::of(run, &analyze(run, &Options::default()).metrics)
}

#[test]
fn a_tensor_parallel_run_counts_boards_together_and_weights_once() {
    let mut run = decode_tests::run();
    run.manifest.cell = Some("b3".to_owned());
    let observation = observed(&run).unwrap();
    assert_eq!((observation.setting.as_str(), observation.cell.as_str()), ("m@x x 2 / tp2", "b3"));
    let measured = observation.measured.unwrap();
    // Two boards of 200 W for 1 s over 10 tokens; 14 GB over 10/3 tokens an iteration.
    assert_close(measured.j_per_token, 40.0, 1e-12);
    assert_close(measured.coordinates.q_w_gb, 4.2, 1e-12);
    assert_eq!(measured.bytes, BYTES);
    assert_eq!(observation.step_timings.len(), 2);
}

#[test]
fn a_run_without_a_cell_is_a_cell_of_its_own() {
    assert_eq!(observed(&decode_tests::run()).unwrap().cell, "r");
}

#[test]
fn serving_runs_are_not_observed() {
    let mut run = decode_tests::run();
    run.manifest.kind = RunKind::Serving;
    assert_eq!(observed(&run), None);
}

#[test]
fn runs_that_the_model_does_not_hold_for_stay_out() {
    let reason = |damage: fn(&mut wattrace_schema::Run)| {
        let mut run = decode_tests::run();
        damage(&mut run);
        observed(&run).unwrap().measured.err()
    };
    assert_eq!(reason(|_| ()), None);
    assert_eq!(
        reason(|run| run.manifest.model.moe = Some(wattrace_schema::MoeGeometry::default())),
        Some(Reason::MixtureOfExperts)
    );
    assert_eq!(reason(|run| run.steps = None), Some(Reason::NoSteps));
    assert_eq!(reason(|run| run.power.clear()), Some(Reason::NoGpuPower));
    assert_eq!(reason(|run| run.manifest.stages.decode_start = None), Some(Reason::NoStamp));
    assert_eq!(reason(|run| run.manifest.model.layers = None), Some(Reason::NoGeometry));
    assert_eq!(
        reason(|run| run.steps.as_mut().unwrap().prefill_tokens[0] = 1),
        Some(Reason::MixedPrefill)
    );
    assert_eq!(
        reason(|run| run.steps.as_mut().unwrap().t_start_ns[1] = Some(1_700_000_000_100_000_000)),
        Some(Reason::OverlappingSteps)
    );
    assert_eq!(
        reason(|run| run.manifest.engine.replicas = Some(2)),
        Some(Reason::ReplicaCountMismatch)
    );
    assert_eq!(
        reason(|run| run.requests = Some(decode_tests::requests(&[(10, Some(12))]))),
        Some(Reason::TokenMismatch)
    );
    // Unknown history is no reason yet: some forms need none.
    let unknown = |run: &mut wattrace_schema::Run| {
        run.steps.as_mut().unwrap().history_tokens[0] = None;
    };
    assert_eq!(reason(unknown), None);
}
