//! Memory bandwidth utilisation.

use wattrace_schema::{Flag, Interval, MoeGeometry, Steps};

use super::*;
use crate::test_run::SECOND;

/// `per_second` iterations a second for `seconds`, each of `batch` sequences with `history` tokens.
fn steps(seconds: i64, per_second: i64, batch: u32, history: u64) -> Steps {
    let count = seconds * per_second;
    let length_ns = SECOND / per_second;
    let rows = usize::try_from(count).unwrap();
    Steps {
        step: (0..rows as u64).collect(),
        replica: vec![0; rows],
        t_start_ns: (0..count).map(|step| Some(step * length_ns)).collect(),
        t_end_ns: (0..count).map(|step| (step + 1) * length_ns).collect(),
        active_sequences: vec![batch; rows],
        new_tokens: vec![batch; rows],
        history_tokens: vec![Some(u64::from(batch) * history); rows],
        max_sequence_tokens: vec![None; rows],
        prefill_tokens: vec![0; rows],
        iterations: vec![1; rows],
        active_experts: vec![None; rows],
        graph_mode: vec![None; rows],
    }
}

fn qwen2_5_7b(bandwidth_gb_s: f64) -> Run {
    let mut run = serving(10);
    let model = &mut run.manifest.model;
    model.total_params = Some(7_615_616_512);
    (model.vocab_size, model.hidden_size) = (Some(152_064), Some(3_584));
    model.tied_embeddings = Some(false);
    model.weight_bytes_per_param = Some(2.0);
    (model.layers, model.kv_heads, model.head_dim) = (Some(28), Some(4), Some(128));
    model.kv_bytes_per_value = Some(2.0);
    run.manifest.hardware.hbm_bandwidth_gb_s = Some(bandwidth_gb_s);
    run
}

#[test]
fn qwen2_5_7b_at_batch_12_and_10240_tokens_of_history() {
    // Weights: (7,615,616,512 - 152,064 · 3,584) · 2 B = 7,070,619,136 · 2 B = 14,141,238,272 B.
    // Keys and values: 2 · 28 · 4 · 128 · 2 B = 57,344 B a token; 12 · 10,240 tokens: 7,046,430,720 B.
    // Together 21,187,668,992 B a step. At 125 steps/s: 2.648458624e12 B/s.
    // Of 4.0e12 B/s: 0.662114656.
    let mut run = qwen2_5_7b(4000.0);
    run.steps = Some(steps(10, 125, 12, 10_240));
    let measured = measure(&run, &rules());
    assert_close(measured.mbu.as_f64().unwrap(), 0.662_114_656);
    let traffic = measured.traffic.unwrap();
    assert_close(traffic.weight_bytes_per_step, 14_141_238_272.0);
    assert_close(traffic.kv_bytes_per_step, 7_046_430_720.0);
    assert_close(traffic.steps_per_s, 125.0);
    assert_close(traffic.mean_batch, 12.0);
    assert_close(traffic.mean_history_tokens, 10_240.0);
    insta::assert_snapshot!(traffic, @r#"(14.1412 GB weights + 7.0464 GB keys and values) x 125.000 steps/s / 4000.0 GB/s = 0.6621"#);
}

#[test]
fn more_than_memory_can_deliver_is_an_error_in_the_inputs() {
    let mut run = qwen2_5_7b(2000.0);
    run.steps = Some(steps(10, 125, 12, 10_240));
    let measured = measure(&run, &rules());
    assert_eq!(measured.mbu.value, Err(Reason::MbuAboveOne));
    insta::assert_snapshot!(measured.traffic.unwrap(), @r#"(14.1412 GB weights + 7.0464 GB keys and values) x 125.000 steps/s / 2000.0 GB/s = 1.3242, which no memory can deliver: check the geometry in run.json (model.*), the steps (history_tokens, iterations, active_experts) and hardware.hbm_bandwidth_gb_s"#);
}

#[test]
fn a_mixture_reads_the_distinct_experts_of_the_step() {
    // 4 layers of 64 experts, 8 a token, hidden 1,024, expert width 512: 3 · 1,024 · 512 = 1,572,864
    // parameters an expert, 402,653,184 in all experts. Vocabulary 32,000 · 1,024 = 32,768,000,
    // looked up. 500,000,000 parameters: 500,000,000 - 32,768,000 - 402,653,184 = 64,578,816 dense.
    // Steps of 16 sequences route to 50 distinct experts a layer in one half of the window and to 60 in
    // the other, mean 55: 64,578,816 + 4 · 55 · 1,572,864 = 410,608,896 parameters of 1 B.
    let mut run = serving(10);
    let model = &mut run.manifest.model;
    model.total_params = Some(500_000_000);
    (model.vocab_size, model.hidden_size) = (Some(32_000), Some(1_024));
    model.tied_embeddings = Some(false);
    model.weight_bytes_per_param = Some(1.0);
    (model.layers, model.kv_heads, model.head_dim) = (Some(4), Some(2), Some(64));
    model.kv_bytes_per_value = Some(2.0);
    model.moe = Some(MoeGeometry {
        experts: Some(64),
        experts_per_token: Some(8),
        moe_intermediate_size: Some(512),
        ..MoeGeometry::default()
    });
    run.manifest.hardware.hbm_bandwidth_gb_s = Some(1000.0);
    let mut log = steps(10, 100, 16, 1000);
    log.active_experts = (0..1000).map(|step| Some(if step < 500 { 50.0 } else { 60.0 })).collect();
    run.steps = Some(log);
    let traffic = measure(&run, &rules()).traffic.unwrap();
    assert_eq!(traffic.active_experts, Some(55.0));
    assert_close(traffic.weight_bytes_per_step, 410_608_896.0);
    // 2 · 4 · 2 · 64 · 2 B = 2,048 B a token, 16,000 tokens: 32,768,000 B.
    // (410,608,896 + 32,768,000) · 100 / 1e12 = 0.0443376896.
    assert_close(traffic.mbu().unwrap(), 0.044_337_689_6);

    let log = run.steps.as_mut().unwrap();
    log.active_experts[..500].fill(None);
    let sampled = measure(&run, &rules()).traffic.unwrap();
    assert_eq!(sampled.active_experts, Some(60.0));
    assert!(sampled.flags.contains(Flag::ExpertsSampled));

    let log = run.steps.as_mut().unwrap();
    log.active_experts.fill(None);
    assert_eq!(measure(&run, &rules()).mbu.value, Err(Reason::NoActiveExperts));
    run.steps.as_mut().unwrap().active_experts.fill(Some(65.0));
    assert_eq!(measure(&run, &rules()).mbu.value, Err(Reason::InvalidInput));
}

#[test]
fn replicas_add_up_and_a_row_may_hold_several_iterations() {
    // One row of 10 iterations: 10 times the history of one. Two replicas on two parts: twice the
    // steps, twice the bandwidth.
    let mut run = qwen2_5_7b(4000.0);
    let mut log = steps(10, 5, 12, 0);
    log.iterations.fill(10);
    log.history_tokens.fill(Some(10 * 12 * 10_240));
    let one = log.clone();
    run.steps = Some(log);
    let single = measure(&run, &rules());
    assert_close(single.traffic.unwrap().kv_bytes_per_step, 7_046_430_720.0);
    // 50 steps/s: 21,187,668,992 · 50 / 4e12.
    assert_close(single.mbu.as_f64().unwrap(), 0.264_845_862_4);

    let log = run.steps.as_mut().unwrap();
    for column in 0..one.len() {
        log.step.push(one.step[column]);
        log.replica.push(1);
        log.t_start_ns.push(one.t_start_ns[column]);
        log.t_end_ns.push(one.t_end_ns[column]);
        log.active_sequences.push(12);
        log.new_tokens.push(12);
        log.history_tokens.push(one.history_tokens[column]);
        log.max_sequence_tokens.push(None);
        log.prefill_tokens.push(0);
        log.iterations.push(10);
        log.active_experts.push(None);
    }
    run.manifest.hardware.count = 2;
    let both = measure(&run, &rules());
    assert_close(both.traffic.unwrap().steps_per_s, 100.0);
    assert_close(both.mbu.as_f64().unwrap(), 0.264_845_862_4);
}

#[test]
fn the_engines_own_estimate_stands_beside_it() {
    // Two ranks read 1.2e12 and 1.4e12 bytes a second and GPU: mean 1.3e12 of 4e12 B/s.
    let mut run = qwen2_5_7b(4000.0);
    let counter = |labels: &str, bytes_per_s: f64| wattrace_schema::EngineMetric {
        name: ENGINE_METRICS[0].into(),
        labels: labels.into(),
        samples: crate::test_run::series(&[(-1.0, -bytes_per_s), (11.0, 11.0 * bytes_per_s)]),
    };
    run.engine_metrics = vec![counter("rank 0", 1.2e12), counter("rank 1", 1.4e12)];
    assert_close(measure(&run, &rules()).engine_mbu.unwrap(), 0.325);

    // A counter that was never switched on stands still; one that restarts cannot be read across.
    run.engine_metrics = vec![counter("rank 0", 0.0)];
    assert_eq!(measure(&run, &rules()).engine_mbu, Err(Reason::NoEngineEstimate));
    run.engine_metrics = vec![counter("rank 0", 1.2e12)];
    run.engine_metrics[0].samples.t_ns.insert(1, 5 * SECOND);
    run.engine_metrics[0].samples.value.insert(1, 1e14);
    assert_eq!(measure(&run, &rules()).engine_mbu, Err(Reason::NoEngineEstimate));
    // Polled inside the window only.
    run.engine_metrics = vec![counter("rank 0", 1.2e12)];
    run.engine_metrics[0].samples.t_ns = vec![SECOND, 11 * SECOND];
    assert_eq!(measure(&run, &rules()).engine_mbu, Err(Reason::NotCovered));
    run.engine_metrics.clear();
    assert_eq!(measure(&run, &rules()).engine_mbu, Err(Reason::NoEngineEstimate));
}

#[test]
fn steps_across_the_edge_are_left_out_and_missing_inputs_are_reasons() {
    let mut run = qwen2_5_7b(4000.0);
    run.steps = Some(steps(10, 1, 12, 100));
    let window = Interval::new(SECOND / 2, 5 * SECOND);
    let traffic = memory_traffic(&run, window, None).unwrap();
    assert_eq!(traffic.iterations, 4);
    assert!(traffic.flags.contains(Flag::StraddlingSteps));

    let whole = Interval::new(0, 10 * SECOND);
    let reason = |run: &Run| memory_traffic(run, whole, None).unwrap_err();
    run.steps.as_mut().unwrap().history_tokens[3] = None;
    assert_eq!(reason(&run), Reason::NoHistory);
    run.steps = Some(steps(10, 1, 12, 100));
    run.manifest.hardware.hbm_bandwidth_gb_s = None;
    assert_eq!(reason(&run), Reason::NoBandwidth);
    assert!(memory_traffic(&run, whole, Some(4000.0)).is_ok());
    run.manifest.hardware.hbm_bandwidth_gb_s = Some(4000.0);
    run.manifest.model.kv_heads = None;
    assert_eq!(reason(&run), Reason::NoGeometry);
    run.steps = None;
    assert_eq!(reason(&run), Reason::NoSteps);
}
