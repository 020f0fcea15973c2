//! Small runs for tests, built sentence by sentence.

use wattrace_schema::{
    DevicePower, PowerSource, RequestStage, RequestStatus, Requests, Run, RunManifest, Scope,
    Series, TimestampNs,
};

pub(crate) const SECOND: i64 = 1_000_000_000;

/// A serving run whose formal window is [0, `formal_s`] seconds.
pub(crate) fn serving(formal_s: i64) -> Run {
    let manifest: RunManifest = serde_json::from_value(serde_json::json!({
        "schema_version": 1, "run_id": "test", "kind": "serving",
        "model": {"name": "m"}, "hardware": {"accelerator": "x", "count": 1},
    }))
    .unwrap();
    let mut run = Run {
        manifest,
        power: Vec::new(),
        requests: None,
        steps: None,
        accuracy: Vec::new(),
        accelerators: Vec::new(),
        engine_metrics: Vec::new(),
    };
    run.manifest.stages.formal_start = Some(TimestampNs::from_nanos(0));
    run.manifest.stages.formal_end = Some(TimestampNs::from_nanos(formal_s * SECOND));
    run
}

/// A time given in seconds.
pub(crate) fn stamp(seconds: f64) -> Option<TimestampNs> {
    Some(TimestampNs::from_nanos((seconds * 1e9).round() as i64))
}

/// Samples given as (seconds, value).
pub(crate) fn series(samples: &[(f64, f64)]) -> Series {
    Series {
        t_ns: samples.iter().map(|(t, _)| (t * 1e9).round() as i64).collect(),
        value: samples.iter().map(|(_, value)| *value).collect(),
    }
}

/// A power source of the given scope, sampled once a second.
pub(crate) fn source(id: &str, scope: Scope) -> PowerSource {
    serde_json::from_value(serde_json::json!({
        "id": id, "scope": scope, "reading": "instant", "nominal_interval_ms": 1000.0,
    }))
    .unwrap()
}

/// Adds a device with power samples and, if any, counter samples, on a source of its own scope.
pub(crate) fn add_device(
    run: &mut Run,
    scope: Scope,
    name: &str,
    power: &[(f64, f64)],
    energy: &[(f64, f64)],
) {
    let known = run.manifest.power_sources.iter().position(|source| source.scope == scope);
    let index = known.unwrap_or_else(|| {
        run.manifest.power_sources.push(source(&format!("{}-source", scope.name()), scope));
        run.manifest.power_sources.len() - 1
    });
    run.power.push(DevicePower {
        source: index,
        device: name.into(),
        power_w: series(power),
        energy_j: series(energy),
        duplicate_times: 0,
        invalid_samples: 0,
    });
}

/// One request: times in seconds, gaps in milliseconds (empty: not recorded).
#[derive(Debug, Clone)]
pub(crate) struct TestRequest {
    pub(crate) send: f64,
    pub(crate) first: Option<f64>,
    pub(crate) end: Option<f64>,
    pub(crate) tokens: u32,
    pub(crate) gaps_ms: Vec<u64>,
}

pub(crate) fn request(send: f64, first: f64, end: f64, tokens: u32) -> TestRequest {
    TestRequest { send, first: Some(first), end: Some(end), tokens, gaps_ms: Vec::new() }
}

/// Sets the run's requests, all successful and formal.
pub(crate) fn set_requests(run: &mut Run, requests: &[TestRequest]) {
    let nanos = |seconds: f64| (seconds * 1e9).round() as i64;
    let count = requests.len();
    let mut table = Requests {
        request_id: (0..count).map(|index| format!("r{index:05}")).collect(),
        stage: vec![RequestStage::Formal; count],
        status: vec![RequestStatus::Ok; count],
        t_send_ns: requests.iter().map(|r| Some(nanos(r.send))).collect(),
        t_first_token_ns: requests.iter().map(|r| r.first.map(nanos)).collect(),
        t_end_ns: requests.iter().map(|r| r.end.map(nanos)).collect(),
        ttft_ns: vec![None; count],
        e2e_ns: vec![None; count],
        input_tokens: vec![Some(10); count],
        output_tokens: requests.iter().map(|r| Some(r.tokens)).collect(),
        reasoning_tokens: vec![None; count],
        error: vec![None; count],
        ..Requests::default()
    };
    table.gaps.offsets.push(0);
    for request in requests {
        table.gaps.gap_ns.extend(request.gaps_ms.iter().map(|ms| ms * 1_000_000));
        table.gaps.offsets.push(table.gaps.gap_ns.len());
    }
    run.requests = Some(table);
}
