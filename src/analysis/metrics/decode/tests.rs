//! Worked by hand: two boards at 200 W, a window of one second, three steps inside it.

use wattrace_schema::{
    DevicePower, Flag, FlagSet, GraphMode, MoeGeometry, Reason, RequestStage, RequestStatus,
    Requests, Run, RunManifest, Series, Steps, TimestampNs,
};

use super::{StepTiming, step_timings};
use crate::metrics::analyze;
use crate::{Options, Outcome};

/// An epoch in ns, so that nothing works only near zero.
const EPOCH_NS: i64 = 1_700_000_000_000_000_000;

fn at(seconds: f64) -> i64 {
    EPOCH_NS + (seconds * 1e9).round() as i64
}

fn manifest() -> RunManifest {
    let mut manifest: RunManifest = serde_json::from_str(
        r#"{"schema_version": 1, "run_id": "r", "kind": "decode",
            "model": {"name": "m", "decode_weight_bytes": 14000000000, "layers": 28,
                      "kv_heads": 4, "head_dim": 128, "kv_bytes_per_value": 2},
            "hardware": {"accelerator": "x", "count": 2},
            "engine": {"tensor_parallel": 2},
            "power_sources": [{"id": "nvml", "scope": "gpu-board", "reading": "instant",
                               "nominal_interval_ms": 100}]}"#,
    )
    .unwrap();
    manifest.stages.decode_start = Some(TimestampNs::from_nanos(at(0.0)));
    manifest.stages.decode_end = Some(TimestampNs::from_nanos(at(1.0)));
    manifest
}

/// A board at `power_w` from -1 to 2 s; its counter, if it has one, runs at 205 W.
fn board(device: &str, power_w: f64, counter: bool) -> DevicePower {
    let seconds: Vec<f64> = (-10..=20).map(|tenth| f64::from(tenth) / 10.0).collect();
    let t_ns: Vec<i64> = seconds.iter().map(|t| at(*t)).collect();
    let energy_j = if counter {
        Series { t_ns: t_ns.clone(), value: seconds.iter().map(|t| 205.0 * (t + 1.0)).collect() }
    } else {
        Series::default()
    };
    DevicePower {
        device: device.to_owned(),
        power_w: Series { value: vec![power_w; t_ns.len()], t_ns },
        energy_j,
        ..DevicePower::default()
    }
}

/// (replica, start, end, tokens, history)
type Row = (u16, f64, f64, u32, u64);

fn steps(rows: &[Row]) -> Steps {
    Steps {
        step: (0..rows.len() as u64).collect(),
        replica: rows.iter().map(|row| row.0).collect(),
        t_start_ns: rows.iter().map(|row| Some(at(row.1))).collect(),
        t_end_ns: rows.iter().map(|row| at(row.2)).collect(),
        active_sequences: rows.iter().map(|row| row.3).collect(),
        new_tokens: rows.iter().map(|row| row.3).collect(),
        history_tokens: rows.iter().map(|row| Some(row.4)).collect(),
        max_sequence_tokens: vec![Some(128); rows.len()],
        prefill_tokens: vec![0; rows.len()],
        iterations: vec![1; rows.len()],
        active_experts: vec![None; rows.len()],
        graph_mode: vec![Some(GraphMode::Graph); rows.len()],
    }
}

const ROWS: [Row; 3] = [(0, 0.0, 0.3, 4, 400), (0, 0.3, 0.5, 4, 404), (0, 0.5, 0.9, 2, 210)];

/// The run that the tests begin with.
pub(crate) fn run() -> Run {
    Run {
        manifest: manifest(),
        power: vec![board("gpu0", 200.0, false), board("gpu1", 200.0, false)],
        requests: None,
        steps: Some(steps(&ROWS)),
        accuracy: Vec::new(),
        accelerators: Vec::new(),
        engine_metrics: Vec::new(),
    }
}

fn metric(run: &Run, name: &str) -> Outcome {
    *analyze(run, &Options::default()).metrics.get(name).unwrap()
}

fn value(run: &Run, name: &str) -> f64 {
    metric(run, name).as_f64().unwrap_or_else(|reason| panic!("{name}: {reason}"))
}

#[track_caller]
fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() <= 1e-12 * expected.abs(), "{actual} is not {expected}");
}

#[test]
fn coordinates_of_three_steps() {
    let run = run();
    // T = 4 + 4 + 2, S = 3, D = 1 s, E = 2 boards × 200 W × 1 s, history 400 + 404 + 210 = 1014.
    assert_close(value(&run, "tokens"), 10.0);
    assert_close(value(&run, "iterations"), 3.0);
    assert_close(value(&run, "duration_s"), 1.0);
    assert_close(value(&run, "energy_j"), 400.0);
    assert_close(value(&run, "j_per_token"), 40.0);
    assert_close(value(&run, "b_eff"), 10.0 / 3.0);
    assert_close(value(&run, "tau_s"), 0.1);
    assert_close(value(&run, "mean_history_tokens"), 101.4);
    // Tensor parallel over two boards: the whole model's 14 GB once, over 10/3 tokens.
    assert_close(value(&run, "q_w_gb"), 4.2);
    // K_KV = 2 · 28 · 4 · 128 · 2 = 57,344 B; × 102.4
    assert_close(value(&run, "q_kv_gb"), 57_344.0 * 102.4 / 1e9);
    assert_eq!(analyze(&run, &Options::default()).flags, FlagSet::EMPTY);
}

#[test]
fn the_counter_counts_where_every_board_has_one() {
    let mut run = run();
    run.power = vec![board("gpu0", 200.0, true), board("gpu1", 200.0, true)];
    assert_close(value(&run, "energy_j"), 410.0);
    assert_close(value(&run, "decode_energy_trapezoid_j"), 400.0);
    assert_close(value(&run, "decode_energy_counter_j"), 410.0);
    assert_close(value(&run, "decode_energy_method_difference"), 0.025);
    run.power[1] = board("gpu1", 200.0, false);
    assert_close(value(&run, "energy_j"), 400.0);
    assert_eq!(metric(&run, "decode_energy_counter_j").value, Err(Reason::NoCounter));
}

#[test]
fn straddling_steps_are_counted_and_left_out() {
    let mut run = run();
    let mut rows = vec![(0, -0.2, 0.1, 4, 1)];
    rows.extend([(0, 0.1, 0.5, 4, 400), (0, 0.5, 1.0, 4, 404), (0, 1.0, 1.1, 4, 7)]);
    rows.push((1, 0.9, 1.1, 4, 1));
    run.steps = Some(steps(&rows));
    // [−0.2, 0.1] and [0.9, 1.1] straddle; [1.0, 1.1] only touches the window.
    assert_close(value(&run, "tokens"), 8.0);
    assert_close(value(&run, "straddling_steps"), 2.0);
    assert!(metric(&run, "j_per_token").flags.contains(Flag::StraddlingSteps));
}

#[test]
fn a_step_without_a_start_is_placed_by_its_end() {
    let mut run = run();
    let log = run.steps.as_mut().unwrap();
    log.t_start_ns = vec![None; 3];
    log.t_end_ns[0] = at(0.0);
    // The first ended at the very beginning of the window, so it ran before it.
    assert_close(value(&run, "tokens"), 6.0);
    assert!(metric(&run, "tau_s").flags.contains(Flag::StepStartMissing));
}

#[test]
fn iterations_and_empty_steps_count() {
    let mut run = run();
    let mut rows = ROWS.to_vec();
    rows.push((0, 0.9, 1.0, 0, 0));
    let mut log = steps(&rows);
    log.iterations[0] = 5;
    log.history_tokens[3] = None;
    run.steps = Some(log);
    // S = 5 + 1 + 1 + 1; the empty step needs no history.
    assert_close(value(&run, "b_eff"), 10.0 / 8.0);
    assert_close(value(&run, "mean_history_tokens"), 101.4);
}

#[test]
fn replicas_are_added_up() {
    let mut run = run();
    run.manifest.engine.replicas = Some(2);
    let mut rows = ROWS.to_vec();
    rows.extend([(1, 0.1, 0.4, 5, 500), (1, 0.4, 0.8, 5, 505)]);
    run.steps = Some(steps(&rows));
    // T = 20, S = 5, the common window of 1 s, all boards: 400 J.
    assert_close(value(&run, "b_eff"), 4.0);
    assert_close(value(&run, "tau_s"), 0.05);
    assert_close(value(&run, "j_per_token"), 20.0);
    assert_eq!(metric(&run, "b_eff").flags, FlagSet::EMPTY);
    run.manifest.engine.replicas = Some(3);
    assert!(metric(&run, "b_eff").flags.contains(Flag::ReplicaCountMismatch));
}

#[test]
fn history_that_is_not_logged_leaves_only_its_own_columns_empty() {
    let mut run = run();
    run.steps.as_mut().unwrap().history_tokens[1] = None;
    assert_eq!(metric(&run, "mean_history_tokens").value, Err(Reason::NoHistory));
    assert_eq!(metric(&run, "q_kv_gb").value, Err(Reason::NoHistory));
    assert_close(value(&run, "q_w_gb"), 4.2);
}

#[test]
fn prompts_among_the_steps_are_flagged_even_where_they_straddle() {
    let mut run = run();
    let mut rows = ROWS.to_vec();
    rows.push((0, 0.95, 1.2, 2, 9));
    let mut log = steps(&rows);
    log.prefill_tokens[3] = 512;
    run.steps = Some(log);
    assert!(metric(&run, "b_eff").flags.contains(Flag::MixedPrefill));
}

#[test]
fn overlapping_steps_are_flagged_within_a_replica_only() {
    let mut run = run();
    run.steps = Some(steps(&[(0, 0.0, 0.3, 4, 400), (1, 0.2, 0.5, 4, 404)]));
    assert!(!metric(&run, "b_eff").flags.contains(Flag::OverlappingSteps));
    run.steps = Some(steps(&[(0, 0.0, 0.3, 4, 400), (0, 0.299, 0.5, 4, 404)]));
    assert!(metric(&run, "b_eff").flags.contains(Flag::OverlappingSteps));
}

#[test]
fn a_mixture_of_experts_has_no_weight_bytes_per_token() {
    let mut run = run();
    run.manifest.model.moe = Some(MoeGeometry::default());
    assert_eq!(metric(&run, "q_w_gb").value, Err(Reason::MixtureOfExperts));
    assert_close(value(&run, "j_per_token"), 40.0);
}

#[test]
fn what_is_missing_is_a_reason() {
    let mut without_steps = run();
    without_steps.steps = None;
    assert_eq!(metric(&without_steps, "b_eff").value, Err(Reason::NoSteps));
    assert_close(value(&without_steps, "energy_j"), 400.0);
    without_steps.steps = Some(Steps::default());
    assert_eq!(metric(&without_steps, "tokens").value, Err(Reason::NoSteps));
    without_steps.steps = Some(steps(&[(0, 0.1, 0.2, 0, 0)]));
    assert_eq!(metric(&without_steps, "j_per_token").value, Err(Reason::NoOutputTokens));

    let mut without_window = run();
    without_window.manifest.stages.decode_end = None;
    for name in ["tokens", "energy_j", "duration_s", "tau_s"] {
        assert_eq!(metric(&without_window, name).value, Err(Reason::NoStamp), "{name}");
    }

    let mut without_power = run();
    without_power.power.clear();
    assert_eq!(metric(&without_power, "j_per_token").value, Err(Reason::NoGpuPower));
    assert_close(value(&without_power, "tau_s"), 0.1);

    let mut without_geometry = run();
    without_geometry.manifest.model.kv_heads = None;
    assert_eq!(metric(&without_geometry, "q_kv_gb").value, Err(Reason::NoGeometry));
}

#[test]
fn serving_columns_do_not_apply_to_decode_runs() {
    assert_eq!(metric(&run(), "formal_energy_j").value, Err(Reason::NotApplicable));
}

/// Requests as (input tokens, output tokens).
pub(crate) fn requests(lengths: &[(u32, Option<u32>)]) -> Requests {
    let count = lengths.len();
    Requests {
        request_id: (0..count).map(|index| format!("q{index}")).collect(),
        stage: vec![RequestStage::Formal; count],
        status: vec![RequestStatus::Ok; count],
        t_send_ns: vec![None; count],
        t_first_token_ns: vec![None; count],
        t_end_ns: vec![None; count],
        ttft_ns: vec![None; count],
        e2e_ns: vec![None; count],
        input_tokens: lengths.iter().map(|(input, _)| Some(*input)).collect(),
        output_tokens: lengths.iter().map(|(_, output)| *output).collect(),
        reasoning_tokens: vec![None; count],
        error: vec![None; count],
        ..Requests::default()
    }
}

#[test]
fn tokens_of_steps_and_requests_must_agree() {
    let mut run = run();
    // Each request's first token comes from prefill: 4 + 4 + 2 decode tokens.
    run.requests = Some(requests(&[(100, Some(5)), (100, Some(5)), (100, Some(3))]));
    assert!(!metric(&run, "b_eff").flags.contains(Flag::TokenMismatch));
    run.requests = Some(requests(&[(100, Some(5)), (100, Some(5)), (100, Some(4))]));
    assert!(metric(&run, "b_eff").flags.contains(Flag::TokenMismatch));
    run.requests = Some(requests(&[(100, Some(5)), (100, None)]));
    assert!(!metric(&run, "b_eff").flags.contains(Flag::TokenMismatch));
}

#[test]
fn a_window_cut_from_a_longer_log_agrees_with_the_whole_log() {
    let mut run = run();
    let mut rows = ROWS.to_vec();
    rows.push((0, 2.0, 2.1, 2, 9));
    run.steps = Some(steps(&rows));
    run.requests = Some(requests(&[(100, Some(13))]));
    assert!(!metric(&run, "b_eff").flags.contains(Flag::TokenMismatch));
    run.requests = Some(requests(&[(100, Some(12))]));
    assert!(metric(&run, "b_eff").flags.contains(Flag::TokenMismatch));
}

#[test]
fn histories_of_requests_count_once_each() {
    let mut run = run();
    // Output 5: decode steps find 100, 101, 102, 103 tokens, mean 101.5. Output 3: 20, 21, mean 20.5.
    // Output 1 has no decode step.
    run.requests = Some(requests(&[(100, Some(5)), (20, Some(3)), (7, Some(1))]));
    assert_close(value(&run, "mean_request_history_tokens"), (101.5 + 20.5) / 2.0);
    run.requests.as_mut().unwrap().input_tokens[0] = None;
    assert_eq!(metric(&run, "mean_request_history_tokens").value, Err(Reason::NoHistory));
}

#[test]
fn a_summary_run_takes_its_coordinates_from_its_claims() {
    let mut run = run();
    run.manifest.kind = wattrace_schema::RunKind::Summary;
    run.steps = None;
    run.power.clear();
    let claim = |metric: &str, value: f64| wattrace_schema::Claim {
        metric: metric.to_owned(),
        value,
        unit: String::new(),
        source: "table".to_owned(),
    };
    run.manifest.claims = vec![
        claim("j_per_token", 0.5),
        claim("b_eff", 70.0),
        claim("tau_s", 0.001),
        claim("mean_output_tokens", 1001.0),
    ];
    assert_close(value(&run, "j_per_token"), 0.5);
    assert_close(value(&run, "q_w_gb"), 0.2);
    assert_close(value(&run, "mean_history_tokens"), 500.0);
    assert_close(value(&run, "q_kv_gb"), 57_344.0 * 501.0 / 1e9);
    assert!(metric(&run, "b_eff").flags.contains(Flag::Claimed));
    assert!(metric(&run, "q_kv_gb").flags.contains(Flag::HistoryApproximate));
    assert!(!metric(&run, "q_w_gb").flags.contains(Flag::HistoryApproximate));
    // A claim is never shown as its own recomputation.
    let analysis = analyze(&run, &Options::default());
    assert!(analysis.claims.iter().all(|claim| claim.recomputed.is_err()));
    run.manifest.claims[1].value = f64::NAN;
    assert_eq!(metric(&run, "q_w_gb").value, Err(Reason::SummaryOnly));
}

#[test]
fn step_times_are_taken_together_by_batch_and_length() {
    let mut run = run();
    let mut log = steps(&[
        (0, 0.0, 0.1, 4, 400),
        (0, 0.1, 0.4, 4, 404),
        (0, 0.4, 0.5, 4, 408),
        (0, 0.5, 0.6, 2, 210),
        (0, 0.6, 0.7, 2, 212),
        (0, 0.7, 0.8, 2, 214),
    ]);
    log.max_sequence_tokens = [127, 128, 129, 129, 129, 129].map(Some).to_vec();
    log.iterations[2] = 2;
    log.graph_mode[2] = Some(GraphMode::Eager);
    log.prefill_tokens[4] = 1;
    log.t_start_ns[5] = None;
    run.steps = Some(log);
    let timing =
        |active_sequences, low, high, step_time_s, history, iterations, eager| StepTiming {
            active_sequences,
            max_sequence_tokens_low: low,
            max_sequence_tokens_high: high,
            step_time_s,
            history_tokens: Some(history),
            iterations,
            eager_share: Some(eager),
        };
    // The range of 128 ends with it; the third row holds two iterations in 0.1 s.
    assert_eq!(
        step_timings(&run),
        [
            timing(2, 129, 129, 0.1, 210.0, 1, 0.0),
            timing(4, 127, 128, 0.2, 402.0, 2, 0.0),
            timing(4, 129, 129, 0.05, 204.0, 2, 1.0),
        ]
    );
}
