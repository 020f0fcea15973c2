//! The main job, end to end through the program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::path::Path;

use support::{files_below, read_csv, run, shared_data, wattrace};

fn analyze(archive: &Path, results: &Path, more: &[&str]) -> support::Ended {
    let mut arguments: Vec<&std::ffi::OsStr> =
        vec!["analyze".as_ref(), archive.as_os_str(), "--out".as_ref(), results.as_os_str()];
    arguments.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    wattrace(arguments)
}

#[test]
fn a_sound_run_gives_the_numbers_worked_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    run("sound").write(&archive);
    let results = folder.path().join("results");
    let ended = analyze(&archive, &results, &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let rows = read_csv(&results.join("runs.csv"));
    assert_eq!(rows.len(), 1);
    let number = |column: &str| {
        rows[0][column].parse::<f64>().unwrap_or_else(|_| panic!("{column}: {rows:?}"))
    };
    let close = |column: &str, expected: f64| {
        let value = number(column);
        assert!(
            (value - expected).abs() <= 1e-9 * expected.abs(),
            "{column}: {value}, not {expected}"
        );
    };
    close("idle_power_w", 100.0);
    // 15 s at 100 W; the last tenth of a second rises from 100 to 300 W: + 0.1 s * 100 W.
    close("startup_energy_j", 1510.0);
    close("formal_energy_j", 9000.0);
    close("output_tokens", 1200.0);
    close("formal_j_per_token", 7.5);
    close("output_throughput_tok_s", 40.0);
    close("ttft_p50_ms", 50.0);
    // 19 gaps in 950 ms.
    close("tpot_p50_ms", 50.0);
    close("itl_p99_ms", 50.0);
    close("e2e_p95_ms", 1000.0);
    // Power is back at 100 W by 30.0, memory is released at 30.8: the first sample from then on.
    close("release_seconds", 0.8);
    close("release_energy_j", 80.0);
    assert_eq!(rows[0]["release_closed"], "true");
    assert_eq!(rows[0]["steady_j_per_token"], "");
    assert!(rows[0]["reasons"].contains("\"steady_j_per_token\":\"too-few-requests\""), "{rows:?}");
    assert!(ended.stdout.contains("simulated"), "synthetic runs are marked: {}", ended.stdout);
}

#[test]
fn neither_jobs_nor_the_order_of_rows_change_a_byte() {
    let folder = tempfile::tempdir().unwrap();
    let sorted = folder.path().join("sorted");
    let shuffled = folder.path().join("shuffled");
    for index in 0..5 {
        let mut run = run(&format!("run-{index}"));
        run.write(&sorted);
        // A fixed permutation: multiplication by a number without a common factor.
        let rows = run.power().rows() as u64;
        run.power().reordered(&(0..rows).map(|row| row * 7 % rows).collect::<Vec<_>>());
        let rows = run.requests().rows() as u64;
        run.requests().reordered(&(0..rows).map(|row| row * 7 % rows).collect::<Vec<_>>());
        run.write(&shuffled);
    }
    let tables = |archive: &Path, name: &str, jobs: &str| {
        let results = folder.path().join(name);
        let ended = analyze(archive, &results, &["--per-request", "--jobs", jobs]);
        assert_eq!(ended.code, 0, "{ended:?}");
        files_below(&results)
    };
    let one = tables(&sorted, "one", "1");
    assert!(
        one.contains_key("requests.parquet") && one.contains_key("runs.csv"),
        "{:?}",
        one.keys()
    );
    let two = tables(&sorted, "two", "2");
    // results.json holds the command line, which names the folder.
    let without_command = |mut files: std::collections::BTreeMap<String, Vec<u8>>| {
        files.remove("results.json");
        files
    };
    let one = without_command(one);
    assert!(one == without_command(two), "--jobs changes the result");
    let mut other_order = without_command(tables(&shuffled, "three", "2"));
    assert_eq!(one.keys().collect::<Vec<_>>(), other_order.keys().collect::<Vec<_>>());
    // The Parquet files name the digest of their archive, whose files differ.
    for (name, bytes) in one.iter().filter(|(name, _)| name.ends_with(".csv")) {
        assert!(
            Some(bytes) == other_order.remove(name).as_ref(),
            "{name} depends on the order of rows"
        );
    }
}

#[test]
fn machine_output_is_json_on_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    run("sound").write(&archive);
    let ended = analyze(&archive, &folder.path().join("results"), &["--json"]);
    let parsed: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(parsed.is_object(), "{parsed}");
    let checked = wattrace(["check".as_ref(), archive.as_os_str(), "--json".as_ref()]);
    serde_json::from_str::<serde_json::Value>(&checked.stdout).unwrap();
}

#[test]
fn published_power_logs_give_the_published_means() {
    let Some(data) = shared_data() else {
        println!("skipped: the published logs (../shared/data) are not beside this checkout");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let ended = wattrace([
        "import".as_ref(),
        "mlperf-power".as_ref(),
        data.join("mlperf_v4.1_power").as_os_str(),
        "--out".as_ref(),
        archive.as_os_str(),
    ]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let checked = wattrace(["check".as_ref(), archive.as_os_str()]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let results = folder.path().join("results");
    let ended = analyze(&archive, &results, &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let rows = read_csv(&results.join("runs.csv"));
    let row = |scenario: &str| rows.iter().find(|row| row["run_id"].contains(scenario)).unwrap();
    let value = |scenario: &str, column: &str| row(scenario)[column].parse::<f64>().unwrap();
    // The published means, from the log's own rule; 6280.2140 W / 23113.14 tok/s = 0.2717 J/token.
    assert_eq!(format!("{:.4}", value("Server", "node_sample_mean_power_w")), "6280.2140");
    assert_eq!(format!("{:.4}", value("Offline", "node_sample_mean_power_w")), "6152.9844");
    assert_eq!(format!("{:.4}", value("Server", "node_sample_mean_j_per_token")), "0.2717");
    assert_eq!(row("Server")["formal_energy_j"], "");
    assert!(row("Server")["reasons"].contains("\"formal_energy_j\":\"no-gpu-power\""));
    assert!(row("Server")["flags"].contains("claimed-tokens"));
}

#[test]
fn results_of_another_archive_do_not_stay_behind() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-data/archive/decode");
    assert!(matches!(analyze(&sample, &results, &["--bootstrap", "0"]).code, 0 | 1));
    assert!(results.join("fits.csv").exists());
    let archive = folder.path().join("archive");
    run("sound").write(&archive);
    assert_eq!(analyze(&archive, &results, &[]).code, 0);
    assert!(!results.join("fits.csv").exists(), "{:?}", files_below(&results).keys());
    // Nor do results go into the archive.
    assert_eq!(analyze(&archive, &archive, &[]).code, 2);
    assert_eq!(analyze(&archive, &archive.join("sound/results"), &[]).code, 2);
}

#[test]
fn a_release_that_ends_at_once_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let mut at_idle = run("at-idle");
    let rows = at_idle.power().rows();
    at_idle.power().set("power_w", support::numbers(&vec![Some(100.0); rows]));
    at_idle.power().remove("energy_j");
    for stamp in ["process_exit", "memory_released"] {
        at_idle.manifest["stages"][stamp] = serde_json::Value::Null;
    }
    at_idle.write(&archive);
    let results = folder.path().join("results");
    assert_eq!(analyze(&archive, &results, &[]).code, 0);
    let row = &read_csv(&results.join("runs.csv"))[0];
    assert_eq!(row["release_seconds"], "0.0");
    assert_eq!(row["release_energy_j"], "0.0");
    // 15 s of start-up and 30 s of requests at 100 W.
    assert_eq!(row["lifecycle_energy_j"], "4500.0");
    assert!(row["flags"].contains("release-stamp-missing"), "{row:?}");
}

#[test]
fn specs_are_compared_by_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
hardware: {accelerator: H200-SXM-141GB, vendor: nvidia, count: 1, hbm_bandwidth_gb_s: 4800}
engine: {name: vllm}
model: {name: Qwen/Qwen2.5-7B-Instruct, dtype: bf16}
slo: {ttft_p99_ms: 500, tpot_p99_ms: 60}
workload: {request_rates: [1, 2, 4, null], warmup_s: 30, window_s: 300}
runs: {repeats: 5}
";
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let first = write("first.yaml", text);
    let respelt = write("respelt.yaml", &text.replace("500", "5.0e2"));
    let stricter = write("stricter.yaml", &text.replace("500", "400"));
    let broken = write("broken.yaml", &text.replace("500", "fast"));
    let diff = |other: &Path| {
        wattrace(["spec".as_ref(), "diff".as_ref(), first.as_os_str(), other.as_os_str()])
    };
    assert_eq!(diff(&respelt).code, 0);
    let ended = diff(&stricter);
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.starts_with("slo.ttft_p99_ms: 500 -> 400\ntwo reports"), "{ended:?}");
    let ended = diff(&broken);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("field \"slo.ttft_p99_ms\""), "{ended:?}");
    assert_eq!(diff(&folder.path().join("nowhere.yaml")).code, 3);
}
