//! Imports through the program: single inputs, joins, mappings; and our own captures of a real server,
//! whose benchmark printed statistics of its own.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{python_with, read_csv, shared_data, wattrace};
use wattrace_trace::{ReadOptions, Severity, check_run, list_archive, read_run};

fn captured() -> Option<PathBuf> {
    let folder = shared_data().map(|data| data.join("captured")).filter(|folder| folder.is_dir());
    if folder.is_none() {
        println!("skipped: our captures are not beside the checkout");
    }
    folder
}

/// Runs the program with blank-separated words; `{}` stands for the next path.
fn run(words: &str, paths: &[&Path]) -> support::Ended {
    let mut paths = paths.iter();
    let arguments: Vec<std::ffi::OsString> = words
        .split_whitespace()
        .map(|word| match word {
            "{}" => paths.next().unwrap().as_os_str().to_owned(),
            word => word.into(),
        })
        .collect();
    wattrace(arguments)
}

/// The one row of the runs table after an import and an analysis.
fn analysed(archive: &Path, results: &Path) -> Vec<BTreeMap<String, String>> {
    let ended = run("analyze {} --out {} --goodput ttft:500 tpot:60", &[archive, results]);
    assert!(ended.code <= 1, "{ended:?}");
    read_csv(&results.join("runs.csv"))
}

#[test]
fn recomputed_statistics_equal_those_that_the_tool_printed() {
    let Some(captured) = captured() else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["vllm_bench_detailed", "sweep_rate_1", "sweep_rate_2", "sweep_rate_3"] {
        let file = captured.join(name).with_extension("json");
        let archive = folder.path().join(name);
        let ended = run("import vllm-bench {} --tz UTC --strict --out {}", &[&file, &archive]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let rows = analysed(&archive, &folder.path().join(format!("{name}-results")));
        let printed: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let close = |column: &str, key: &str| {
            let expected = printed[key].as_f64().unwrap_or_else(|| panic!("{name}: {key}"));
            let value =
                rows[0][column].parse::<f64>().unwrap_or_else(|_| panic!("{name}: {column}"));
            // Times are rounded to nanoseconds on the way in.
            assert!(
                (value - expected).abs() <= 1e-6 * expected.abs(),
                "{name}: {column} is {value}, the tool printed {key} {expected}"
            );
        };
        for (ours, theirs) in [("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el")]
        {
            close(&format!("{ours}_mean_ms"), &format!("mean_{theirs}_ms"));
            close(&format!("{ours}_p50_ms"), &format!("median_{theirs}_ms"));
            for percentile in ["p90", "p95", "p99"] {
                close(&format!("{ours}_{percentile}_ms"), &format!("{percentile}_{theirs}_ms"));
            }
            // The tool's standard deviation is of the population; ours of the sample stands beside it.
            close(&format!("{ours}_std_population_ms"), &format!("std_{theirs}_ms"));
            let std =
                |column: &str| rows[0][&format!("{ours}_{column}_ms")].parse::<f64>().unwrap();
            assert!(std("std") > std("std_population"), "{name}: {ours}");
        }
        close("output_throughput_tok_s", "output_throughput");
        close("request_throughput_req_s", "request_throughput");
        close("request_goodput_req_s", "request_goodput");
        close("output_tokens", "total_output_tokens");
    }
}

#[test]
fn a_benchmark_and_its_servers_log_come_onto_one_clock() {
    let Some(captured) = captured() else { return };
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let ended = run(
        "import join --requests {} --steps {} --tz UTC --year 2026 --strict --run-id joined --out {}",
        &[&captured.join("vllm_bench_detailed.json"), &captured.join("vllm_server.log"), &archive],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let listing = list_archive(&archive).unwrap();
    let run = read_run(&listing.runs[0], ReadOptions::default()).unwrap().run;
    let stages = &run.manifest.stages;
    // The benchmark's date is its end to a second, so its window is widened by that.
    const SECOND_NS: i64 = 1_000_000_000;
    let window = stages.formal_start.unwrap().nanos() - SECOND_NS
        ..=stages.formal_end.unwrap().nanos() + SECOND_NS;
    let steps = run.steps.as_ref().unwrap();
    let of_window = (0..steps.len()).filter(|index| window.contains(&steps.t_end_ns[*index]));
    let (prefill, new) = of_window.fold((0_u64, 0_u64), |(prefill, new), index| {
        (prefill + u64::from(steps.prefill_tokens[index]), new + u64::from(steps.new_tokens[index]))
    });
    // 60 prompts of 60 tokens; 60 answers of 40 tokens, whose first ones prefill iterations yield.
    assert_eq!((prefill, new), (3600, 2340));
    let clocks: Vec<String> = run
        .manifest
        .provenance
        .inputs
        .iter()
        .map(|input| {
            let clock = &input.clock;
            format!(
                "{}: {} {}, to {} ms",
                input.role.as_deref().unwrap_or_default(),
                clock.base.name(),
                clock.zone.as_deref().unwrap_or_default(),
                clock.uncertainty_ns.unwrap() / 1_000_000
            )
        })
        .collect();
    println!("{clocks:?}");
    assert_eq!(clocks[0], "requests: monotonic UTC, to 1000 ms");
    assert_eq!(run.manifest.engine.version.as_deref(), Some("0.32.0"));
}

#[test]
fn appended_results_are_two_runs_and_failures_are_kept() {
    let Some(captured) = captured() else { return };
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let file = captured.join("appended.json");
    let ended = run("import vllm-bench {} --tz UTC --strict --out {}", &[&file, &archive]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.ends_with("2 imported, 0 failed\n"), "{ended:?}");
    let rows = analysed(&archive, &folder.path().join("results"));
    let counts: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["requests_total"].as_str(), row["requests_failed"].as_str()))
        .collect();
    assert_eq!(counts, [("8", "0"), ("6", "6")]);
    assert_eq!(rows[1]["ttft_mean_ms"], "", "no request, no latency");
}

#[test]
fn every_capture_is_told_by_its_content() {
    let Some(captured) = captured() else { return };
    for (file, format) in [
        ("vllm_bench_detailed.json", "vllm-bench"),
        ("appended.json", "vllm-bench"),
        ("vllm_server.log", "vllm-log"),
    ] {
        let ended = run("import --detect {}", &[&captured.join(file)]);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stdout.starts_with(&format!("{format}: ")), "{file}: {ended:?}");
    }
}

const MAP: &str = r#"
table = "power"
source = { id = "meter", scope = "node", reading = "instant", nominal_interval_ms = 1000 }
[columns]
t = { column = "time", unit = "s" }
power_w = { column = "power", unit = "kW" }
device = { constant = "node" }
"#;

#[test]
fn a_mapped_table_becomes_a_run_and_skipped_rows_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let map = file("map.toml", MAP);
    let table =
        file("meter.csv", "time,power\n1736944496,1.5\n1736944497,broken\n1736944498,1.7\n");
    let archive = folder.path().join("archive");
    let stages =
        "--stage formal_start=2025-01-15T12:34:56Z --stage formal_end=2025-01-15T12:34:58Z";
    let ended =
        run(&format!("import --map {{}} {{}} {stages} --out {{}}"), &[&map, &table, &archive]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("meter.csv line 3 skipped: column \"power\": \"broken\" is no number"),
        "{ended:?}"
    );
    assert_eq!(run("check {}", &[&archive]).code, 0);
    let strict = folder.path().join("strict");
    let ended = run("import --map {} {} --strict --out {}", &[&map, &table, &strict]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("line 3: column \"power\""), "{ended:?}");
}

/// An independent reader of JSON Schema (Python's jsonschema) takes and refuses mappings as the program
/// does.
#[test]
fn the_schema_of_mappings_takes_what_the_program_takes() {
    let Some(python) = python_with("jsonschema, tomllib") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (map, table) = (folder.path().join("map.toml"), folder.path().join("table.csv"));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/mapping.schema.json");
    let validates = "import json, jsonschema, sys, tomllib\n\
        mapping = tomllib.load(open(sys.argv[2], 'rb'))\n\
        schema = json.load(open(sys.argv[1]))\n\
        jsonschema.Draft202012Validator.check_schema(schema)\n\
        sys.exit(0 if jsonschema.Draft202012Validator(schema).is_valid(mapping) else 9)";
    std::fs::write(&table, "time,power,power_total_W,relative_time_s\n1736944496,1.5,1,0\n")
        .unwrap();
    for (text, is_sound) in [
        (MAP.to_owned(), true),
        (OPENG2G_MAP.to_owned(), true),
        (MAP.replace("source =", "sources ="), false),
        (MAP.replace("source =", "#"), false),
        (MAP.replace("\"power\"\n", "\"requests\"\n"), false),
        (MAP.replace("power_w =", "power ="), false),
        (MAP.replace("t = {", "#"), false),
        (MAP.replace("column = \"time\"", "columns = \"time\""), false),
    ] {
        std::fs::write(&map, &text).unwrap();
        let status = std::process::Command::new(&python)
            .args(["-c", validates])
            .args([&schema, &map])
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(if is_sound { 0 } else { 9 }), "{text}");
        let archive = folder.path().join("archive");
        let words = "import --map {} {} --anchor zero=2026-01-31T12:00:00Z --out {}";
        let ended = run(words, &[&map, &table, &archive]);
        assert_eq!(ended.code, if is_sound { 0 } else { 2 }, "{text}: {ended:?}");
        std::fs::remove_dir_all(&archive).ok();
    }
}

#[test]
fn bad_usage_names_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    for (words, message) in [
        ("import join --requests x --out {}", "--run-id"),
        ("import join --run-id r --out {}", "--power, --requests or --steps"),
        ("import nothing x --out {}", "no format is called \"nothing\""),
        ("import vllm-bench --out {}", "needs a file or a folder"),
        ("import vllm-bench x --anchor noon --out {}", "is no time of an anchor"),
        ("import vllm-bench x --stage formal_start --out {}", "expected a stage and a time"),
        ("import vllm-bench x --run-id ../up --out {}", "expected letters, digits"),
        ("import --map {} x --out y", "cannot read"),
    ] {
        let ended = run(words, &[out]);
        assert_eq!(ended.code, 2, "{words}: {ended:?}");
        assert!(ended.stderr.contains(message), "{words}: {ended:?}");
    }
}

/// The real logs: a name, the words of the import before `--out`, and the folder or file below the shared
/// data that INPUTS stands for; empty for the polls that the test writes.
const REAL_LOGS: &[(&str, &str, &str)] = &[
    ("vllm-bench", "import vllm-bench INPUTS --tz UTC --strict", "captured"),
    (
        "vllm-log",
        "import vllm-log INPUTS --tz UTC --year 2026 --strict",
        "captured/vllm_server.log",
    ),
    (
        "vllm-log-of-amd",
        "import vllm-log INPUTS --tz UTC --year 2026",
        "inferencex_history/mi355x_aiperf_conc1/server.log",
    ),
    ("aiperf", "import aiperf INPUTS", "inferencex_history"),
    ("sglang-log", "import sglang-log INPUTS --tz UTC", "inferencex_history/mi355x_sglang"),
    ("inferencex", "import inferencex INPUTS", "inferencex_history/mi355x_amdsmi"),
    (
        "amd-smi",
        "import amd-smi INPUTS --anchor start=2026-06-05T00:00:00Z",
        "inferencex_history/mi355x_amdsmi",
    ),
    ("wattameter", "import wattameter INPUTS --tz UTC", "wattameter_logs"),
    ("mlperf-power", "import mlperf-power INPUTS", "mlperf_v4.1_power"),
    ("redfish", "import redfish INPUTS", ""),
    (
        "openg2g",
        "import --map {} INPUTS --strict --anchor zero=2026-01-31T12:00:00Z",
        "openg2g_mlenergy_power_traces/traces",
    ),
    ("mlenergy-leaderboard", "import mlenergy-leaderboard INPUTS", "mlenergy_leaderboard_v3"),
    ("codecarbon", "import codecarbon INPUTS --tz UTC", "codecarbon"),
    (
        "llm-inference-bench",
        "import llm-inference-bench INPUTS --strict",
        "argonne_llm_inference_bench",
    ),
    ("splitwise", "import splitwise INPUTS --strict", "splitwise_sim"),
];

/// Every number that the runs of an archive hold, and which findings `check` has on them; none may be an
/// error.
fn yielded(archive: &Path) -> String {
    let listing = list_archive(archive).unwrap();
    let (mut readings, mut requests, mut steps, mut claims) = (0, 0, 0, 0);
    let mut findings: BTreeMap<String, u32> = BTreeMap::new();
    for location in &listing.runs {
        let check = check_run(location);
        for finding in check.findings() {
            assert!(finding.severity != Severity::Error, "{finding:?}");
            if finding.severity == Severity::Warning {
                *findings.entry(finding.check.to_string()).or_default() += 1;
            }
        }
        let run = read_run(location, ReadOptions::default()).unwrap().run;
        let devices = run.power.iter();
        readings +=
            devices.map(|device| device.power_w.len().max(device.energy_j.len())).sum::<usize>();
        requests += run.requests.as_ref().map_or(0, |requests| requests.len());
        steps += run.steps.as_ref().map_or(0, |steps| steps.len());
        claims += run.manifest.claims.len();
    }
    let warnings: Vec<String> =
        findings.iter().map(|(check, count)| format!("{check} {count}")).collect();
    let warnings = if warnings.is_empty() { "none".into() } else { warnings.join(", ") };
    format!(
        "{} runs: {readings} power readings, {requests} requests, {steps} steps, {claims} claims; warnings: \
         {warnings}",
        listing.runs.len()
    )
}

/// A log of two polls for each page that has power or energy of a chassis or a processor, ten seconds
/// apart, as a poller would have written it: the pages themselves have no time. Those of one supply of
/// several are no node's.
fn redfish_polls(data: &Path, folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    for page in ["EnvironmentMetrics", "Power", "Sensors_CPU1Power", "Sensors_TotalEnergy"] {
        let name = format!("Chassis_1U_{page}.json");
        let bytes = std::fs::read(data.join("redfish_mockup").join(&name)).unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        let poll = |t: u64| format!("{}\n", serde_json::json!({ "t": t, "body": body }));
        std::fs::write(folder.join(name), poll(1_736_944_496) + &poll(1_736_944_506)).unwrap();
    }
}

/// The files of a folder, by name.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Power of all boards of a node together, resampled to tenths of a second; only an anchor places it.
const OPENG2G_MAP: &str = r#"
table = "power"
source = { id = "boards", scope = "gpu-board", reading = "average", averaging_window_ms = 100, nominal_interval_ms = 100 }
run = { accelerator = "H100" }
[columns]
t = { column = "relative_time_s", unit = "s", since = "anchor" }
power_w = { column = "power_total_W", unit = "W" }
device = { constant = "all boards" }
"#;

#[test]
fn every_real_log_imports_and_breaks_no_rule() {
    let Some(data) = shared_data() else {
        println!("skipped: the real logs are not beside the checkout");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (polls, map) = (folder.path().join("polls"), folder.path().join("map.toml"));
    redfish_polls(&data, &polls);
    std::fs::write(&map, OPENG2G_MAP).unwrap();
    let mut shown = Vec::new();
    for (name, words, input) in REAL_LOGS {
        let input = if input.is_empty() { polls.clone() } else { data.join(input) };
        let archive = folder.path().join(name);
        // A mapping is of files; formats find theirs in a folder.
        let files = if words.contains("--map") { files_of(&input) } else { vec![input] };
        let mut paths: Vec<&Path> = Vec::new();
        if words.contains("--map") {
            paths.push(&map);
        }
        paths.extend(files.iter().map(PathBuf::as_path));
        paths.push(&archive);
        let words = words.replace("INPUTS", &"{} ".repeat(files.len()));
        let ended = run(&format!("{words} --out {{}}"), &paths);
        assert_eq!(ended.code, 0, "{name}: {ended:?}");
        assert!(run("check {}", &[&archive]).code <= 1, "{name}");
        shown.push(format!("{name}: {}", yielded(&archive)));
    }
    println!("{}", shown.join("\n"));
}

#[test]
fn a_capture_cut_before_its_first_request_says_so() {
    let Some(captured) = captured() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("archive");
    let ended = run(
        "import llamacpp {} --anchor zero=2026-11-30T05:00:00Z --out {}",
        &[&captured.join("llamacpp_verbose_head.log"), &out],
    );
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("holds no request: none was processed by line"), "{ended:?}");
}
