//! A simulated run written as the raw logs of other tools, a detailed result of `vllm bench serve` and a
//! log of `nvidia-smi`, joined again, and analysed beside the native archive: what the two formats lose is
//! stated here, and nothing else may differ.
//!
//! They lose: the stamps of start-up, idle and release; warm-up requests; the calendar, which an anchor
//! gives back; of power all digits below 0.01 W and of its times those below a millisecond.

#![expect(clippy::unwrap_used, reason = "a helper of a test panics where the test fails")]

use std::fmt::Write as _;
use std::path::Path;

use wattrace_analysis::Options;
use wattrace_analysis::metrics::{RunAnalysis, analyze};
use wattrace_schema::{RequestStatus, Requests, Run};
use wattrace_simulate::{Plan, simulate};
use wattrace_trace::format::{Anchor, ImportOptions, Join, JoinInput, Role, join};
use wattrace_trace::{ReadOptions, Severity, check_run, find_runs, read_run};

/// Boards without a counter, since `nvidia-smi` logs none; failures of every kind but one that a client of
/// vLLM does not tell apart.
const PLAN: &str = r#"
seed = 5
start = "2026-01-31T12:00:00Z"

[models.tiny]
total_params = 1_000_000_000
dtype = "bfloat16"
layers = 16
hidden_size = 1024
intermediate_size = 4096
attention_heads = 16
kv_heads = 4
head_dim = 64
vocab_size = 32000
tied_embeddings = true

[hardware.pair]
accelerator = "simulated"
count = 2
hbm_bandwidth_gb_s = 1000

[engines.e]
name = "vllm"
compile_s = 2

[workloads.chat]
task = "chat"
input_tokens = { min = 10, max = 60 }
output_tokens = { min = 1, max = 40 }

[sensors.board]
interval_ms = 100
noise_w = 0.5

[[serving]]
id = "native"
model = "tiny"
hardware = "pair"
engine = "e"
workload = "chat"
sensors = "board"
request_rate = 30
requests = 400
failures = { error_percent = 5 }
"#;

/// The monotonic clock of the client was zero so long before the formal stage.
const UPTIME_NS: i64 = 4_321_987_654_321;

fn only_run(archive: &Path) -> Run {
    let locations = find_runs(archive).unwrap();
    assert_eq!(locations.len(), 1);
    let check = check_run(&locations[0]);
    let errors: Vec<_> =
        check.findings().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    read_run(&locations[0], ReadOptions::default()).unwrap().run
}

/// Seconds as Python prints a float.
fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// The result that `vllm bench serve --save-detailed` would have saved. Failed requests keep their slots
/// with zeros.
fn vllm_result(run: &Run) -> String {
    let requests = run.requests.as_ref().unwrap();
    let stages = run.manifest.stages;
    let (start, end) = (stages.formal_start.unwrap().nanos(), stages.formal_end.unwrap().nanos());
    let formal: Vec<usize> =
        (0..requests.len()).filter(|index| requests.is_formal(*index)).collect();
    let is_ok = |index: usize| requests.status[index] == RequestStatus::Ok;
    let column = |value: &dyn Fn(usize) -> serde_json::Value| -> Vec<serde_json::Value> {
        formal.iter().map(|index| value(*index)).collect()
    };
    let first_after = |index: usize| {
        let first = requests.t_first_token_ns[index].filter(|_| is_ok(index));
        first.map_or(0.0, |first| seconds(first - requests.t_send_ns[index].unwrap()))
    };
    serde_json::json!({
        "date": "20260131-120200", "endpoint_type": "vllm", "backend": "vllm", "label": null,
        "model_id": run.manifest.model.name, "tokenizer_id": run.manifest.model.name,
        "num_prompts": formal.len(), "request_rate": 30.0, "burstiness": 1.0, "max_concurrency": null,
        "duration": seconds(end - start),
        "completed": formal.iter().filter(|index| is_ok(**index)).count(),
        "total_input_tokens": 0, "total_output_tokens": 0,
        "input_lens": column(&|index| requests.input_tokens[index].into()),
        "output_lens": column(&|index| requests.successful_tokens(index).unwrap_or(0).into()),
        "ttfts": column(&|index| first_after(index).into()),
        "itls": column(&|index| gaps_s(requests, index).into()),
        "start_times": column(&|index| {
            seconds(requests.t_send_ns[index].unwrap() - start + UPTIME_NS).into()
        }),
        "generated_texts": column(&|_| "".into()),
        "errors": column(&|index| if is_ok(index) { "".into() } else { "server error".into() }),
    })
    .to_string()
}

fn gaps_s(requests: &Requests, index: usize) -> Vec<f64> {
    if requests.status[index] != RequestStatus::Ok {
        return Vec::new();
    }
    requests.gaps.of(index).0.iter().map(|gap| seconds(*gap as i64)).collect()
}

/// What `nvidia-smi --query-gpu=timestamp,index,power.draw.instant --format=csv -lms 100` would have
/// logged, tick by tick, in UTC.
fn nvidia_smi_log(run: &Run) -> String {
    let mut rows: Vec<(i64, String, f64)> = Vec::new();
    for device in &run.power {
        let index = device.device.strip_prefix("gpu").unwrap();
        let samples = device.power_w.t_ns.iter().zip(&device.power_w.value);
        rows.extend(samples.map(|(t_ns, watts)| (*t_ns, index.to_owned(), *watts)));
    }
    rows.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut log = "timestamp, index, power.draw.instant [W]\n".to_owned();
    for (t_ns, index, watts) in rows {
        writeln!(log, "{}, {index}, {watts:.2} W", stamp(t_ns)).unwrap();
    }
    log
}

/// `2026/01/31 12:34:56.789`, cut after the millisecond as the tool does.
fn stamp(t_ns: i64) -> String {
    let text = wattrace_schema::TimestampNs::from_nanos(t_ns / 1_000_000 * 1_000_000).to_string();
    let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap();
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    format!("{} {clock}.{fraction:0<3}", date.replace('-', "/"))
}

fn value(analysis: &RunAnalysis, metric: &str) -> f64 {
    let outcome = analysis.metrics.get(metric).unwrap();
    outcome.as_f64().unwrap_or_else(|reason| panic!("{metric}: {reason:?}"))
}

/// How far the energy may move: every sample comes up to a millisecond early, which moves the integral by
/// no more than the total variation of power times that, and every reading is rounded by up to 0.005 W.
fn energy_bound_j(run: &Run, duration_s: f64) -> f64 {
    run.power
        .iter()
        .map(|device| {
            let values = &device.power_w.value;
            let variation: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
            let largest = values.iter().copied().fold(0.0, f64::max);
            1e-3 * (variation + 2.0 * largest) + 0.005 * duration_s
        })
        .sum()
}

#[test]
fn raw_logs_of_a_simulated_run_come_back_to_the_same_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let native_archive = folder.path().join("native");
    let plan = Plan::parse(PLAN, Path::new("plan.toml")).unwrap();
    simulate(&plan, &native_archive, None, &|_| ()).unwrap();
    let native = only_run(&native_archive);

    let (bench, power) = (folder.path().join("bench.json"), folder.path().join("gpu.csv"));
    std::fs::write(&bench, vllm_result(&native)).unwrap();
    std::fs::write(&power, nvidia_smi_log(&native)).unwrap();
    let start = native.manifest.stages.formal_start.unwrap().nanos();
    let zero = wattrace_schema::TimestampNs::from_nanos(start - UPTIME_NS);
    let inputs = [(Role::Requests, &bench), (Role::Power, &power)].map(|(role, path)| JoinInput {
        role,
        format: None,
        path: path.clone(),
    });
    let options = ImportOptions {
        time_zone: Some("UTC".into()),
        anchor: Some(Anchor::parse(&format!("zero={zero}")).unwrap()),
        run_id: Some("joined".into()),
        ..ImportOptions::default()
    };
    let archive = folder.path().join("archive");
    join(&Join { inputs: inputs.into(), ..Join::default() }, &archive, &options).unwrap();
    let joined = only_run(&archive);

    let before = analyze(&native, &Options::default());
    let after = analyze(&joined, &Options::default());
    // Counts are the same.
    for metric in ["output_tokens", "requests_total", "requests_failed"] {
        assert_eq!(value(&after, metric), value(&before, metric), "{metric}");
    }
    // Times pass through floats of seconds: a nanosecond or two each.
    for family in ["ttft", "tpot", "itl", "e2e"] {
        for statistic in ["mean", "p50", "p90", "p95", "p99"] {
            let metric = format!("{family}_{statistic}_ms");
            let (was, is) = (value(&before, &metric), value(&after, &metric));
            assert!((is - was).abs() <= 1e-5, "{metric}: {was} became {is}");
        }
    }
    let duration_s = seconds(native.manifest.stages.formal_end.unwrap().nanos() - start);
    let (was, is) =
        (value(&before, "output_throughput_tok_s"), value(&after, "output_throughput_tok_s"));
    assert!((is / was - 1.0).abs() < 1e-7, "{was} became {is}");
    // Energy moves by what the power log loses, and by no more.
    let bound_j = energy_bound_j(&native, duration_s);
    let (was, is) = (value(&before, "formal_energy_j"), value(&after, "formal_energy_j"));
    assert!((is - was).abs() <= bound_j, "{was} J became {is} J, further than {bound_j} J");
    assert!(bound_j < 0.01 * was, "a bound of {bound_j} J of {was} J says nothing");
    let (was, is) = (value(&before, "formal_j_per_token"), value(&after, "formal_j_per_token"));
    assert!((is / was - 1.0).abs() <= bound_j / value(&before, "formal_energy_j"));
    // What they do not have is missing, with a reason.
    for metric in ["startup_energy_j", "release_energy_j", "idle_power_w"] {
        let native = &before.metrics.get(metric).unwrap().value;
        assert!(native.is_ok(), "{metric}: {native:?}");
        assert!(after.metrics.get(metric).unwrap().value.is_err(), "{metric}");
    }
}
