//! Spec-driven reports, end to end through the program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use support::{Ended, read_csv, shared_data, wattrace};
use wattrace_schema::{RequestStage, RequestStatus, RunManifest};
use wattrace_trace::{EngineRow, PowerRow, RequestRow, RunWriter, StepRow, find_runs};

const SECOND: i64 = support::SECOND;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn command(words: &[&str], paths: &[(&str, &Path)]) -> Ended {
    let mut arguments: Vec<&std::ffi::OsStr> = words.iter().map(AsRef::as_ref).collect();
    for (option, path) in paths {
        if !option.is_empty() {
            arguments.push(option.as_ref());
        }
        arguments.push(path.as_os_str());
    }
    wattrace(arguments)
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// The sweep of the committed plan, simulated once for all tests of this file.
fn sweep() -> &'static Path {
    static SWEEP: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, archive) = SWEEP.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("sweep");
        let plan = repository("sample-data/sweep.plan.toml");
        let ended = command(&["simulate", "--quiet"], &[("", &plan), ("--out", &archive)]);
        assert_eq!(ended.code, 0, "{ended:?}");
        (folder, archive)
    });
    archive
}

/// What the simulator knows of one run: truth.json, with configuration and rate of run.json.
struct Truth {
    configuration: String,
    rate: f64,
    truth: Value,
}

fn truths(archive: &Path) -> Vec<Truth> {
    let read =
        |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    find_runs(archive)
        .unwrap()
        .iter()
        .map(|run| {
            let manifest = read(run.folder.join("run.json"));
            Truth {
                configuration: manifest["configuration"].as_str().unwrap().to_owned(),
                rate: manifest["workload"]["request_rate"].as_f64().unwrap(),
                truth: read(run.folder.join("truth.json")),
            }
        })
        .collect()
}

/// The middle of five values.
fn middle(mut values: Vec<f64>) -> f64 {
    assert_eq!(values.len(), 5);
    values.sort_by(f64::total_cmp);
    values[2]
}

/// One rate of one configuration by the simulator's truth.
struct Point {
    rate: f64,
    output_tok_s: f64,
    node_power_w: f64,
    tokens_per_joule: f64,
    meets: bool,
    failed: u64,
}

fn points(truths: &[Truth], configuration: &str) -> Vec<Point> {
    let mut rates: Vec<f64> = truths
        .iter()
        .filter(|run| run.configuration == configuration)
        .map(|run| run.rate)
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
        .into_iter()
        .map(|rate| {
            let runs: Vec<&Value> = truths
                .iter()
                .filter(|run| run.configuration == configuration && run.rate == rate)
                .map(|run| &run.truth["window"])
                .collect();
            // A percentile that failures make infinite is null.
            let median = |name: &str| {
                middle(runs.iter().map(|run| run[name].as_f64().unwrap_or(f64::INFINITY)).collect())
            };
            Point {
                rate,
                output_tok_s: median("output_tok_s"),
                node_power_w: median("node_power_w"),
                tokens_per_joule: median("tokens_per_joule"),
                meets: median("ttft_p99_ms") <= 500.0 && median("tpot_p99_ms") <= 60.0,
                failed: runs.iter().map(|run| run["failed"].as_u64().unwrap()).sum(),
            }
        })
        .collect()
}

fn best(points: &[Point]) -> &Point {
    points.iter().rfind(|point| point.meets).unwrap()
}

#[track_caller]
fn assert_near(value: &Value, expected: f64, share: f64) {
    let value = value.as_f64().unwrap_or_else(|| panic!("no number: {value}"));
    assert!((value - expected).abs() <= share * expected.abs(), "{value} is not {expected}");
}

fn row<'rows>(rows: &'rows Value, configuration: &str) -> &'rows Value {
    let rows = rows.as_array().unwrap();
    rows.iter().find(|row| row["configuration"] == configuration).unwrap()
}

#[test]
fn a_simulated_sweep_gives_the_goodput_the_gate_and_the_capacity_of_its_truth() {
    let archive = sweep();
    let truths = truths(archive);
    assert_eq!(truths.len(), 90);
    let tables = json(&command(&["goodput", "--json"], &[("", archive)]));
    for name in ["production", "vendor-latest", "candidate"] {
        let points = points(&truths, name);
        let best = best(&points);
        let goodput = row(&tables["goodput"], name);
        assert_eq!(goodput["request_rate"], best.rate, "{name}");
        // Tokens are counted, so the rate is exact; power is what sensors make of it.
        assert_near(&goodput["goodput_tok_s"], best.output_tok_s, 1e-12);
        assert_near(&goodput["node_power_w"], best.node_power_w, 0.02);
        assert_near(&goodput["tokens_per_joule"], best.tokens_per_joule, 0.02);
        assert_eq!(goodput["n_runs"], 5);
        let flags = goodput["flags"].to_string();
        let lower_failed = points.iter().any(|point| point.rate < best.rate && !point.meets);
        assert_eq!(flags.contains("non-monotone"), lower_failed, "{name}: {flags}");
        assert_eq!(lower_failed, name == "candidate");
        assert_eq!(flags.contains("at-sweep-end"), best.rate == 12.0, "{name}: {flags}");
        assert!(flags.contains("synthetic") && !flags.contains("too-few-repeats"), "{flags}");
        let mbu = goodput["mbu"].as_f64().unwrap();
        assert!((0.05..0.7).contains(&mbu), "{mbu}");

        let sweep = tables["sweep"].as_array().unwrap();
        let rows: Vec<_> = sweep.iter().filter(|row| row["configuration"] == name).collect();
        assert_eq!(rows.len(), 6);
        for (row, point) in rows.iter().zip(&points) {
            assert_eq!(row["request_rate"], point.rate);
            assert_eq!(row["meets_slo"], point.meets, "{name} at {}", point.rate);
            assert_eq!(row["failed"], point.failed);
            assert_eq!(row["is_goodput_rate"], point.rate == best.rate);
            assert_eq!(
                (&row["slo_ttft_p99_ms"], &row["slo_tpot_p99_ms"]),
                (&500.0.into(), &60.0.into())
            );
        }
    }
    // The stall makes the median of five p99s infinite.
    let stalled = tables["sweep"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["configuration"] == "candidate" && row["request_rate"] == 4.0)
        .unwrap();
    assert_eq!(stalled["ttft_p99_ms"], Value::Null);
    assert!(stalled["reasons"].as_str().unwrap().contains("\"ttft_p99_ms\":\"p99-unbounded\""));

    // 162 + 162 + 161 of 600 items are 485 / 6 points; the spread of vendor-latest is 1.5 points, over
    // half of the threshold of one.
    for (name, score, passes) in [
        ("production", 485.0 / 6.0, true),
        ("vendor-latest", 470.0 / 6.0, false),
        ("candidate", 482.0 / 6.0, true),
    ] {
        let gate = row(&tables["accuracy"], name);
        assert_near(&gate["score"], score, 1e-12);
        assert_eq!(gate["passes"], passes, "{name}");
        let is_wide = gate["flags"].to_string().contains("wide-seed-spread");
        assert_eq!(is_wide, name == "vendor-latest");
    }

    let capacity = json(&command(&["capacity", "--cards", "1000", "--json"], &[("", archive)]));
    let t0 = best(&points(&truths, "production")).output_tok_s;
    let t1 = best(&points(&truths, "candidate")).output_tok_s;
    let candidate = row(&capacity["capacity"], "candidate");
    assert_eq!(candidate["cards_needed"], (1000.0 * t0 / t1).ceil());
    assert_eq!(row(&capacity["capacity"], "production")["cards_needed"], 1000);
    let vendor = row(&capacity["capacity"], "vendor-latest");
    assert_eq!(
        (&vendor["cards_needed"], &vendor["reason"]),
        (&Value::Null, &"accuracy-failed".into())
    );
    assert!(vendor["goodput_tok_s"].as_f64().unwrap() > t0);
}

#[test]
fn results_say_the_same_as_the_archive_they_came_from() {
    let archive = sweep();
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let ended = command(&["analyze", "--quiet"], &[("", archive), ("--out", &results)]);
    assert!(ended.code <= 1, "{ended:?}");
    assert!(ended.stdout.contains("goodput: output rate at the highest"), "{ended:?}");
    for words in [
        &["goodput"][..],
        &["goodput", "--json"],
        &["compare"],
        &["capacity", "--cards", "777"],
        &["capacity", "--cards", "777", "--reference", "candidate", "--json"],
        &["coverage"],
    ] {
        let [of_archive, of_results] =
            [archive, results.as_path()].map(|input| command(words, &[("", input)]));
        assert!(!of_archive.stdout.is_empty(), "{words:?}: {of_archive:?}");
        assert_eq!(of_archive.stdout, of_results.stdout, "{words:?}");
        assert_eq!(of_archive.code, of_results.code, "{words:?}");
    }
    // What only the runs can answer is refused.
    let ended = command(&["compare", "--allow", "unequal-specs"], &[("", &results)]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("give the archive, not results"), "{ended:?}");
    // The tables are files like any other.
    for name in ["sweep", "goodput", "accuracy", "capacity", "coverage", "comparison", "specs"] {
        assert!(results.join(format!("{name}.parquet")).is_file(), "{name}");
        assert!(!read_csv(&results.join(format!("{name}.csv"))).is_empty(), "{name}");
    }
}

#[test]
fn three_builds_stand_side_by_side_with_a_verdict_on_each_metric() {
    let tables = json(&command(&["compare", "--json"], &[("", sweep())]));
    let rows = tables["comparison"].as_array().unwrap();
    // Two configurations against production, five metrics each.
    assert_eq!(rows.len(), 10);
    let verdict = |configuration: &str, metric: &str| {
        let row = rows
            .iter()
            .find(|row| row["configuration"] == configuration && row["metric"] == metric)
            .unwrap();
        assert_eq!(row["reference"], "production");
        row["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("candidate", "goodput_tok_s"), "better");
    assert_eq!(verdict("vendor-latest", "goodput_tok_s"), "better");
    assert_eq!(verdict("vendor-latest", "tpot_p99_ms"), "better");
    assert_eq!(verdict("vendor-latest", "accuracy_points"), "worse");
    assert_eq!(verdict("candidate", "accuracy_points"), "inconclusive");
}

#[test]
fn a_report_made_twice_is_the_same_bytes_from_archive_and_results_alike() {
    let archive = sweep();
    let folder = tempfile::tempdir().unwrap();
    let spec = archive.join("production-r2-1/spec.yaml");
    let report = |input: &Path, out: &Path| {
        let ended = command(&["report"], &[("", input), ("--spec", &spec), ("--out", out)]);
        assert!(ended.code <= 1, "{ended:?}");
    };
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second.html"));
    report(archive, &first);
    report(archive, &second);
    let page = read(first.join("report.html"));
    assert!(page == read(second.clone()), "the page differs");
    let raw = read(first.join("report.json"));
    assert!(raw == read(second.with_extension("json")), "the raw report differs");

    for said in [
        "All runs are simulated.",
        "wattrace report",
        "context length: the spec names 8192, which no run measured.",
        "quantisation: the spec names fp8, which no run measured.",
        "accuracy-failed",
        "non-monotone",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let parsed: Value = serde_json::from_str(&raw).unwrap();
    let hash = command(&["spec", "hash"], &[("", &spec)]).stdout;
    assert_eq!(parsed["spec_hash"], hash.trim());
    assert!(page.contains(hash.trim()));
    assert_eq!(parsed["tables"]["goodput"].as_array().unwrap().len(), 3);
    assert_eq!(parsed["tables"]["service_runs"].as_array().unwrap().len(), 90);

    // From results the tables are the same.
    let results = folder.path().join("results");
    command(&["analyze", "--quiet"], &[("", archive), ("--out", &results)]);
    let third = folder.path().join("third");
    report(&results, &third);
    let of_results: Value = serde_json::from_str(&read(third.join("report.json"))).unwrap();
    assert_eq!(of_results["tables"], parsed["tables"]);

    // Another spec has no runs here.
    let other = folder.path().join("other.yaml");
    std::fs::write(&other, read(spec.clone()).replace("ttft_p99_ms: 500", "ttft_p99_ms: 400"))
        .unwrap();
    let ended = command(&["report"], &[("", archive), ("--spec", &other), ("--out", &third)]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("holds no run under the spec"), "{ended:?}");
}

// Archives by hand ---------------------------------------------------------------------------------

const SPEC: &str = "
hardware: {accelerator: test-gpu, vendor: test, count: 1, hbm_bandwidth_gb_s: 1}
engine: {name: test-engine}
model: {name: test-model, dtype: bf16}
slo: {ttft_p99_ms: 500, tpot_p99_ms: 60}
workload: {request_rates: [1], warmup_s: 0, window_s: 20}
runs: {repeats: 1}
";

/// A run of 20 s: a request a second with TTFT 100 ms and TPOT 40 ms, one board at 300 W that is
/// throttled twice, ten steps a second, and the engine's own count of bytes.
fn write_run(archive: &Path, run_id: &str, configuration: &str, spec: Option<&str>) {
    let manifest: RunManifest = serde_json::from_value(serde_json::json!({
        "schema_version": 1, "run_id": run_id, "kind": "serving", "configuration": configuration,
        "model": {"name": "test-model", "dtype": "bf16", "decode_weight_bytes": 40_000_000,
                  "layers": 1, "kv_heads": 1, "head_dim": 50, "kv_bytes_per_value": 10.0},
        "hardware": {"accelerator": "test-gpu", "count": 1, "hbm_bandwidth_gb_s": 1.0},
        "engine": {"name": "test-engine", "version": "7"},
        "workload": {"request_rate": 1.0},
        "spec": spec.map(|_| "spec.yaml"),
        "stages": {"formal_start": support::stamp(0.0), "formal_end": support::stamp(20.0)},
        "power_sources": [{"id": "nvml", "scope": "gpu-board", "reading": "instant",
                           "nominal_interval_ms": 1000.0}],
    }))
    .unwrap();
    let mut writer = RunWriter::create(archive, run_id).unwrap();
    for second in 0..=20 {
        let throttled = [5, 6, 12].contains(&second);
        let power = PowerRow {
            t_ns: support::at(f64::from(second)),
            source: "nvml".into(),
            device: "gpu0".into(),
            power_w: Some(300.0),
            temperature_c: Some(60.0 + second as f32),
            sm_clock_mhz: Some(if throttled { 1200 } else { 1980 }),
            throttle_reasons: Some(if throttled { 0x20 } else { 0 }),
            ..PowerRow::default()
        };
        writer.power(power).unwrap();
    }
    for second in 0..20_i64 {
        let sent = support::EPOCH + second * SECOND;
        let request = RequestRow {
            request_id: format!("r{second:02}"),
            stage: RequestStage::Formal,
            t_send_ns: Some(sent),
            t_first_token_ns: Some(sent + SECOND / 10),
            t_end_ns: Some(sent + SECOND / 2),
            status: RequestStatus::Ok,
            error: None,
            input_tokens: Some(100),
            output_tokens: Some(11),
            reasoning_tokens: None,
            itl_ns: None,
            itl_tokens: None,
            ttft_ns: None,
            e2e_ns: None,
        };
        writer.request(request).unwrap();
    }
    for step in 0..200_i64 {
        let start = support::EPOCH + step * SECOND / 10;
        let step = StepRow {
            step: step as u64,
            replica: 0,
            t_start_ns: Some(start),
            t_end_ns: start + SECOND / 10,
            active_sequences: 4,
            new_tokens: 4,
            history_tokens: Some(4000),
            max_sequence_tokens: Some(1200),
            prefill_tokens: 0,
            iterations: 1,
            active_experts: None,
            graph_mode: None,
        };
        writer.step(step).unwrap();
    }
    for second in 0..=20_i64 {
        let sample = EngineRow {
            t_ns: support::EPOCH + second * SECOND,
            name: "vllm:estimated_read_bytes_per_gpu_total".into(),
            labels: Some("engine=0".into()),
            value: Some(second as f64 * 5e8),
        };
        writer.engine(sample).unwrap();
    }
    if let Some(spec) = spec {
        writer.extra_file("spec.yaml", spec.as_bytes()).unwrap();
    }
    writer.finish(manifest).unwrap();
}

#[test]
fn what_stands_behind_a_value_is_shown_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    write_run(&archive, "one", "production", Some(SPEC));
    let tables = json(&command(&["goodput", "--json"], &[("", &archive)]));
    let goodput = row(&tables["goodput"], "production");
    // 20 requests of 11 tokens in 20 s.
    assert_near(&goodput["goodput_tok_s"], 11.0, 1e-12);
    // 40 MB of weights and 4000 tokens of 1000 B, ten times a second, of 1 GB/s.
    assert_near(&goodput["mbu"], 0.44, 1e-12);
    // The engine counts 0.5 GB a second.
    assert_near(&goodput["engine_mbu"], 0.5, 1e-12);
    assert_near(&goodput["mean_batch"], 4.0, 1e-12);
    assert_near(&goodput["mean_history_tokens"], 1000.0, 1e-12);
    assert_near(&goodput["max_sequence_tokens"], 1200.0, 1e-12);
    assert_near(&goodput["board_power_w"], 300.0, 1e-12);
    assert_eq!(goodput["node_power_w"], Value::Null);
    let reasons: BTreeMap<String, String> =
        serde_json::from_str(goodput["reasons"].as_str().unwrap()).unwrap();
    assert_eq!(reasons["tokens_per_joule"], "no-node-power");
    assert_eq!(reasons["goodput_ci_low"], "single-value");
    let flags = goodput["flags"].to_string();
    for flag in ["throttled", "at-sweep-end", "too-few-repeats"] {
        assert!(flags.contains(flag), "{flag}: {flags}");
    }

    let text = command(&["goodput"], &[("", &archive)]).stdout;
    assert!(text.contains("No node source: board power covers the accelerators alone"), "{text}");
    let text = command(&["coverage"], &[("", &archive)]).stdout;
    assert!(text.contains("sw-thermal-slowdown") && text.contains("1200 to 1980"), "{text}");
    let tables = json(&command(&["coverage", "--json"], &[("", &archive)]));
    let health = &tables["accelerator_health"][0];
    // 5 and 6 s are one event, 12 s another.
    assert_eq!((&health["throttle_events"], &health["throttled_samples"]), (&2.into(), &3.into()));
    assert_eq!(
        (&health["sm_clock_min_mhz"], &health["sm_clock_max_mhz"]),
        (&1200.into(), &1980.into())
    );
    assert_eq!(health["temperature_max_c"], 80.0);
    assert_eq!(health["throttle_reasons"][0], "sw-thermal-slowdown");
}

#[test]
fn more_bytes_than_memory_can_deliver_are_named_as_an_input_error() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let spec = SPEC.replace("hbm_bandwidth_gb_s: 1}", "hbm_bandwidth_gb_s: 0.4}");
    write_run(&archive, "one", "production", Some(&spec));
    let path = archive.join("one/run.json");
    let manifest = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        manifest.replace("\"hbm_bandwidth_gb_s\": 1.0", "\"hbm_bandwidth_gb_s\": 0.4"),
    )
    .unwrap();
    let ended = command(&["goodput"], &[("", &archive)]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let expected = "run \"one\" memory bandwidth utilisation: (0.0400 GB weights + 0.0040 GB keys and \
                    values) x 10.000 steps/s / 0.4 GB/s = 1.1000, which no memory can deliver: check";
    assert!(ended.stderr.contains(expected), "{ended:?}");
    assert!(ended.stdout.contains("mbu-above-one"), "{ended:?}");
}

#[test]
fn a_spec_from_the_command_line_is_labelled_and_a_broken_one_costs_only_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    write_run(&archive, "own", "production", Some(SPEC));
    write_run(&archive, "none", "candidate", None);
    write_run(&archive, "broken", "vendor-latest", Some("slo: fast\n"));
    let spec = folder.path().join("given.yaml");
    std::fs::write(&spec, SPEC).unwrap();

    let ended = command(&["goodput", "--json"], &[("", &archive), ("--spec", &spec)]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("broken/spec.yaml\" is not a valid spec: line 1"), "{ended:?}");
    let tables = json(&ended);
    assert_eq!(tables["goodput"].as_array().unwrap().len(), 2);
    let flags = |name: &str| row(&tables["goodput"], name)["flags"].to_string();
    assert!(flags("candidate").contains("spec-given"), "{}", flags("candidate"));
    assert!(!flags("production").contains("spec-given"));
    assert_eq!(
        row(&tables["goodput"], "candidate")["spec_hash"],
        row(&tables["goodput"], "production")["spec_hash"]
    );

    // Without it the run has no verdict, and is not compared.
    let tables = json(&command(&["goodput", "--json"], &[("", &archive)]));
    assert_eq!(row(&tables["goodput"], "candidate")["reason"], "no-slo");
    let ended = command(&["compare"], &[("", &archive)]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("were not measured under one spec"), "{ended:?}");
    let ended = command(&["compare", "--allow", "unequal-specs", "--json"], &[("", &archive)]);
    let row = &json(&ended)["comparison"][0];
    assert!(row["flags"].to_string().contains("unequal-specs"), "{row}");
}

#[test]
fn published_power_logs_give_tokens_per_joule_at_the_wall() {
    let Some(data) = shared_data() else {
        println!("skipped: the published logs (../shared/data) are not beside this checkout");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let input = data.join("mlperf_v4.1_power");
    let ended = command(&["import", "mlperf-power"], &[("", &input), ("--out", &archive)]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let tables = json(&command(&["goodput", "--json"], &[("", &archive)]));
    for (scenario, joules_per_token) in [("Server", 0.272), ("Offline", 0.244)] {
        let row = row(&tables["goodput"], scenario);
        let tokens_per_joule = row["tokens_per_joule"].as_f64().unwrap();
        // The published figures have three digits.
        assert_eq!(format!("{:.3}", 1.0 / tokens_per_joule), format!("{joules_per_token:.3}"));
        assert!(row["flags"].to_string().contains("claimed-tokens"), "{row}");
        let reasons: BTreeMap<String, String> =
            serde_json::from_str(row["reasons"].as_str().unwrap()).unwrap();
        assert_eq!(reasons["board_power_w"], "no-gpu-power");
        assert_eq!(reasons["goodput_tok_s"], "no-slo");
    }
}

/// The number at position 0.99 (n - 1) of the sorted values, between its neighbours.
fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = 0.99 * (values.len() - 1) as f64;
    let lower = position as usize;
    let upper = (lower + 1).min(values.len() - 1);
    values[lower] + (values[upper] - values[lower]) * (position - lower as f64)
}

#[test]
fn a_captured_vllm_sweep_yields_its_goodput_and_says_what_was_not_measured() {
    let Some(data) = shared_data() else {
        println!("skipped: the published logs (../shared/data) are not beside this checkout");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let spec = folder.path().join("spec.yaml");
    let text = SPEC.replace("name: test-model", "name: smollm2").replace(
        "request_rates: [1], warmup_s: 0, window_s: 20",
        "request_rates: [1, 2, 3], warmup_s: 0, window_s: 30",
    );
    std::fs::write(&spec, text).unwrap();
    let rates = [1, 2, 3];
    let inputs = rates.map(|rate| data.join(format!("captured/sweep_rate_{rate}.json")));
    let [one, two, three] = &inputs;
    let ended = command(
        &["import", "vllm-bench", "--tz", "UTC"],
        &[("", one), ("", two), ("", three), ("--out", &archive)],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = command(&["goodput", "--json"], &[("", &archive), ("--spec", &spec)]);
    let tables = json(&ended);
    let sweep = tables["sweep"].as_array().unwrap();
    assert_eq!(sweep.len(), 3);

    // The same from the file itself: requests sent and tokens generated in the first 30 s.
    let mut good = Vec::new();
    for ((rate, input), row) in rates.iter().zip(&inputs).zip(sweep) {
        let file: Value = serde_json::from_slice(&std::fs::read(input).unwrap()).unwrap();
        let numbers = |value: &Value| -> Vec<f64> {
            value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        let (sent, ttfts) = (numbers(&file["start_times"]), numbers(&file["ttfts"]));
        // The tool's own duration ends with the last request; the window begins where it begins.
        let ends = (0..sent.len()).map(|index| {
            sent[index] + ttfts[index] + numbers(&file["itls"][index]).iter().sum::<f64>()
        });
        let start = ends.fold(f64::NEG_INFINITY, f64::max) - file["duration"].as_f64().unwrap();
        let (mut tokens, mut ttft_ms, mut tpot_ms) = (0, Vec::new(), Vec::new());
        for index in 0..sent.len() {
            let gaps = numbers(&file["itls"][index]);
            let mut t = sent[index] - start + ttfts[index];
            let times = std::iter::once(t).chain(gaps.iter().map(|gap| {
                t += gap;
                t
            }));
            tokens += times.filter(|t| *t <= 30.0).count();
            if sent[index] - start < 30.0 {
                ttft_ms.push(ttfts[index] * 1e3);
                tpot_ms.push(gaps.iter().sum::<f64>() / gaps.len() as f64 * 1e3);
            }
        }
        assert_eq!(row["request_rate"], f64::from(*rate));
        assert_near(&row["output_tok_s"], tokens as f64 / 30.0, 1e-9);
        let (ttft_ms, tpot_ms) = (p99(ttft_ms), p99(tpot_ms));
        assert_near(&row["ttft_p99_ms"], ttft_ms, 1e-5);
        assert_near(&row["tpot_p99_ms"], tpot_ms, 1e-5);
        let meets = ttft_ms <= 500.0 && tpot_ms <= 60.0;
        assert_eq!(row["meets_slo"], meets, "{row}");
        good.push(meets);
    }
    // At 3 requests per second the p99 time to first token is above two seconds.
    assert_eq!(good, [true, true, false]);
    let goodput = &tables["goodput"][0];
    assert_eq!(goodput["request_rate"], 2.0);
    assert_eq!(goodput["goodput_tok_s"], sweep[1]["output_tok_s"]);
    let flags = goodput["flags"].to_string();
    assert!(!flags.contains("at-sweep-end") && !flags.contains("non-monotone"), "{flags}");
    assert!(flags.contains("too-few-repeats") && flags.contains("spec-given"), "{flags}");
    let reasons: BTreeMap<String, String> =
        serde_json::from_str(goodput["reasons"].as_str().unwrap()).unwrap();
    assert_eq!(reasons["board_power_w"], "no-gpu-power");
    assert_eq!(reasons["node_power_w"], "no-node-power");
    assert_eq!(reasons["tokens_per_joule"], "no-node-power");
    assert_eq!(reasons["mbu"], "no-steps");
}
