//! Small runs for the tests of this crate.

use wattrace_analysis::{Options, metrics};
use wattrace_schema::{
    DevicePower, Gaps, RequestStage, RequestStatus, Requests, Run, RunManifest, Series, Steps,
};

use crate::RunRecord;

/// 2026-01-31T12:00:00Z.
const START_NS: i64 = 1_769_860_800_000_000_000;

/// A serving run on one board at a constant 500 W, a formal window of 10 s, and two requests of 100
/// and 150 tokens; a third one fails. It ends without idle or release.
pub(crate) fn serving(run_id: &str) -> RunRecord {
    record(manifest(run_id, "gpu-board", true, ""), "gpu0", 500.0, Some(requests()), None)
}

/// A run whose node alone was measured, at 6000 W, without a request log, with the published rate of
/// 2000 tok/s and a published power of 6100.5 W.
pub(crate) fn node_only(run_id: &str) -> RunRecord {
    let claims = r#"
        {"metric": "output_throughput_tok_s", "value": 2000.0, "unit": "tok/s", "source": "summary.txt"},
        {"metric": "node_sample_mean_power_w", "value": 6100.5, "unit": "W", "source": "results page"}"#;
    record(manifest(run_id, "node", false, claims), "node", 6000.0, None, None)
}

/// A decode run: 10 s at 600 W, 5 iterations of 4 tokens each that read 100 tokens of history a
/// sequence; 1e9 weight bytes, 2 · 1 · 1 · 50 · 10 = 1000 B of keys and values a token.
pub(crate) fn decode(run_id: &str, cell: &str) -> RunRecord {
    let text = format!(
        r#"{{
            "schema_version": 1, "run_id": "{run_id}", "kind": "decode",
            "model": {{"name": "Qwen2.5-7B", "decode_weight_bytes": 1000000000, "layers": 1,
                "kv_heads": 1, "head_dim": 50, "kv_bytes_per_value": 10.0}},
            "hardware": {{"accelerator": "H200-SXM-141GB", "count": 1}},
            "setting": "qwen-h200", "cell": "{cell}", "split": "fit",
            "stages": {{"decode_start": "2026-01-31T12:00:10Z", "decode_end": "2026-01-31T12:00:20Z"}},
            "power_sources": [{{"id": "meter", "scope": "gpu-board", "reading": "instant",
                "nominal_interval_ms": 1000.0}}]
        }}"#
    );
    let steps = Steps {
        step: (0..5).collect(),
        replica: vec![0; 5],
        t_start_ns: (0..5).map(|step| Some(at_s(10 + 2 * step))).collect(),
        t_end_ns: (0..5).map(|step| at_s(12 + 2 * step)).collect(),
        active_sequences: vec![4; 5],
        new_tokens: vec![4; 5],
        history_tokens: vec![Some(400); 5],
        max_sequence_tokens: vec![None; 5],
        prefill_tokens: vec![0; 5],
        iterations: vec![1; 5],
        active_experts: vec![None; 5],
        graph_mode: vec![None; 5],
    };
    record(serde_json::from_str(&text).unwrap(), "gpu0", 600.0, None, Some(steps))
}

/// A published total of 0.5 J/token at batch 32, without raw rows.
pub(crate) fn summary(run_id: &str, model: &str) -> RunRecord {
    let text = format!(
        r#"{{
            "schema_version": 1, "run_id": "{run_id}", "kind": "summary",
            "model": {{"name": "{model}"}}, "hardware": {{"accelerator": "H100", "count": 2}},
            "claims": [
                {{"metric": "j_per_token", "value": 0.5, "unit": "J/token", "source": "table 1"}},
                {{"metric": "b_eff", "value": 32.0, "unit": "1", "source": "table 1"}}]
        }}"#
    );
    let manifest: RunManifest = serde_json::from_str(&text).unwrap();
    let run = Run {
        manifest: manifest.clone(),
        power: Vec::new(),
        requests: None,
        steps: None,
        accuracy: Vec::new(),
        accelerators: Vec::new(),
        engine_metrics: Vec::new(),
    };
    analyzed(manifest, &run)
}

/// A run that could not be read.
pub(crate) fn unreadable(path: &str, error: &str) -> RunRecord {
    RunRecord { path: path.to_owned(), manifest: None, analysis: Err(error.to_owned()) }
}

fn manifest(run_id: &str, scope: &str, synthetic: bool, claims: &str) -> RunManifest {
    let text = format!(
        r#"{{
            "schema_version": 1, "run_id": "{run_id}", "kind": "serving", "synthetic": {synthetic},
            "configuration": "candidate",
            "model": {{"name": "Qwen2.5-7B", "total_params": 7615616512}},
            "hardware": {{"accelerator": "H200-SXM-141GB", "count": 1}},
            "engine": {{"name": "vllm"}},
            "workload": {{"task": "chat"}},
            "stages": {{"formal_start": "2026-01-31T12:00:10Z", "formal_end": "2026-01-31T12:00:20Z"}},
            "power_sources": [{{"id": "meter", "scope": "{scope}", "reading": "instant",
                "nominal_interval_ms": 1000.0}}],
            "claims": [{claims}]
        }}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn record(
    manifest: RunManifest,
    device: &str,
    power_w: f64,
    requests: Option<Requests>,
    steps: Option<Steps>,
) -> RunRecord {
    let t_ns: Vec<i64> = (0..=30).map(at_s).collect();
    let value = vec![power_w; t_ns.len()];
    let power = DevicePower {
        device: device.to_owned(),
        power_w: Series { t_ns, value },
        ..DevicePower::default()
    };
    let run = Run {
        manifest: manifest.clone(),
        power: vec![power],
        requests,
        steps,
        accuracy: Vec::new(),
        accelerators: Vec::new(),
        engine_metrics: Vec::new(),
    };
    analyzed(manifest, &run)
}

fn analyzed(manifest: RunManifest, run: &Run) -> RunRecord {
    RunRecord {
        path: format!("runs/{}", manifest.run_id),
        analysis: Ok(metrics::analyze(run, &Options::default())),
        manifest: Some(manifest),
    }
}

fn at_s(seconds: i64) -> i64 {
    START_NS + seconds * 1_000_000_000
}

/// The request log of [`serving`].
pub(crate) fn requests() -> Requests {
    Requests {
        request_id: vec!["r0".into(), "r1".into(), "r2".into()],
        stage: vec![RequestStage::Formal; 3],
        status: vec![RequestStatus::Ok, RequestStatus::Ok, RequestStatus::Error],
        t_send_ns: vec![Some(at_s(10)), Some(at_s(11)), Some(at_s(12))],
        t_first_token_ns: vec![Some(at_s(11)), Some(at_s(13)), None],
        t_end_ns: vec![Some(at_s(15)), Some(at_s(19)), None],
        ttft_ns: vec![None; 3],
        e2e_ns: vec![None; 3],
        input_tokens: vec![Some(10); 3],
        output_tokens: vec![Some(100), Some(150), None],
        reasoning_tokens: vec![None; 3],
        gaps: Gaps::default(),
        error: vec![None, None, Some("connection reset".into())],
    }
}
