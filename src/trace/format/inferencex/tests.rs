use std::fs;

use super::super::testing;
use super::*;
use crate::{ReadOptions, find_runs, read_run};

pub(in super::super) const AMD: &str = "\
timestamp,gpu,socket_power
1736944496,0,500
1736944496,1,600
1736944497,0,510
1736944497,1,610
1736944498,0,520
1736944498,1,620
";

pub(in super::super) const VALIDATION: &str = r#"{"schema_version": 1, "power_valid": true, "reasons": [], "telemetry_source": "amd-smi",
  "benchmark_window": {"start_time_unix": 1736944496.5, "end_time_unix": 1736944498.0},
  "expected_gpu_count": 2, "observed_gpu_count": 2, "per_gpu_energy_j": {"0": 768.75, "1": 918.75},
  "accumulator_check": {"relative_error": 0.2, "tolerance": 0.05}, "metrics": {}}"#;

const SAMPLES: &str = "\
schema_version,timestamp_unix,scrape_seq,hostname,gpu_index,gpu_uuid,power_w
1,1736944496.25,0,a,0,GPU-a,500.0
1,1736944496.5,0,b,0,GPU-b,0.0
1,1736944597.25,1,a,0,GPU-a,510.0
1,1736944597.5,1,b,0,GPU-b,410.0
";

/// Imports files of those names and texts; gives manifests, notes and failures.
fn imported(
    files: &[(&str, &str)],
    options: &ImportOptions,
) -> (Vec<RunManifest>, Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("mi355x");
    for (name, text) in files {
        let path = input.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let archive = folder.path().join("archive");
    let summary = match import(&input, &archive, options) {
        Ok(summary) => summary,
        Err(error) => ImportSummary { failed: vec![error.to_string()], ..ImportSummary::default() },
    };
    let runs = find_runs(&archive).unwrap_or_default();
    let manifests = runs
        .iter()
        .map(|run| read_run(run, ReadOptions::default()).unwrap().run.manifest)
        .collect();
    let path = format!("{}{}", input.display(), std::path::MAIN_SEPARATOR);
    let clean = |texts: Vec<String>| texts.iter().map(|text| text.replace(&path, "")).collect();
    (manifests, clean(summary.notes), clean(summary.failed))
}

#[test]
fn the_validation_gives_the_window_and_the_claim() {
    let identity = r#"{"gpu_data": [{"gpu": 0, "asic": {"market_name": "MI355X"}, "driver": {"version": "6.16"}},
        {"gpu": 1, "asic": {"market_name": "MI355X"}, "driver": {"version": "6.16"}}]}"#;
    let start = "\ngpu,total_energy_consumption\n0,1000.0\n1,2000.0\n";
    let end = "\ngpu,total_energy_consumption\n0,2100.5\n1,3200.0\n";
    let (manifests, notes, failed) = imported(
        &[
            ("gpu_metrics.csv", AMD),
            ("power_validation_conc8.json", VALIDATION),
            ("gpu_metrics_identity.json", identity),
            ("gpu_metrics_energy_start.csv", start),
            ("gpu_metrics_energy_end.csv", end),
        ],
        &testing::options(),
    );
    assert_eq!(failed, [""; 0]);
    let manifest = &manifests[0];
    assert_eq!(manifest.run_id, "mi355x");
    assert_eq!(manifest.hardware.label(), "MI355X x 2");
    assert_eq!(manifest.hardware.driver.as_deref(), Some("6.16"));
    assert_eq!(manifest.stages.formal_start.unwrap().to_string(), "2025-01-15T12:34:56.5Z");
    let claims: Vec<(&str, f64)> =
        manifest.claims.iter().map(|claim| (claim.metric.as_str(), claim.value)).collect();
    // 768.75 + 918.75, and (2100.5 - 1000) + (3200 - 2000).
    assert_eq!(claims, [("formal_energy_j", 1687.5), ("accumulator_delta_j", 2300.5)]);
    insta::assert_snapshot!(notes.join("\n"), @r#"
    mi355x: amd-smi stamps whole seconds: each time is uncertain by one second
    mi355x: power_validation_conc8.json names the telemetry "amd-smi"
    mi355x: power_validation_conc8.json: the boards' accumulators differ from the integral by 0.2, more than 0.05
    mi355x: the model is not named: model.name is "unknown"
    "#);
    assert!(
        manifest
            .provenance
            .imported_from
            .as_ref()
            .unwrap()
            .contains("gpu_metrics_energy_end.csv (SHA-256 ")
    );
}

#[test]
fn accumulators_that_fall_are_not_used() {
    let (manifests, notes, _) = imported(
        &[
            ("gpu_metrics.csv", AMD),
            ("gpu_metrics_energy_start.csv", "gpu,total_energy_consumption\n0,1000\n1,2000\n"),
            ("gpu_metrics_energy_end.csv", "gpu,total_energy_consumption\n0,900\n1,2100\n"),
        ],
        &testing::options(),
    );
    assert!(manifests[0].claims.is_empty() && manifests[0].stages.formal_start.is_none());
    let note = "mi355x: gpu_metrics_energy_start.csv and gpu_metrics_energy_end.csv: the counters of 1 of 2 boards fall, so the two are not of one run, or a driver was loaded again; they are not used";
    assert!(notes.iter().any(|found| found == note), "{notes:?}");
}

#[test]
fn a_window_without_samples_is_a_conflict_of_clocks() {
    let nvidia = "timestamp, index, power.draw [W]\n2025/01/15 04:34:56.500, 0, 500.00 W\n2025/01/15 04:34:57.500, 0, 500.00 W\n";
    let files = [("gpu_metrics.csv", nvidia), ("power_validation_a.json", VALIDATION)];
    let (manifests, _, failed) = imported(&files, &testing::options());
    assert!(manifests.is_empty());
    insta::assert_snapshot!(failed.join("\n"), @r#""gpu_metrics.csv": has no sample in the benchmark's window, 2025-01-15T12:34:56.5Z to 2025-01-15T12:34:58Z: its samples lie from 2025-01-15T04:34:56.5Z to 2025-01-15T04:34:57.5Z; expected samples in the window, so name the zone of the log (--tz) if its times are local"#);
    let pacific =
        ImportOptions { time_zone: Some("America/Los_Angeles".into()), ..ImportOptions::default() };
    let (manifests, notes, failed) = imported(&files, &pacific);
    assert!(manifests.len() == 1 && failed.is_empty(), "{notes:?} {failed:?}");
}

#[test]
fn several_windows_are_runs_of_their_own() {
    let later = VALIDATION
        .replace("1736944496.5", "1736944497.5")
        .replace("true", "false")
        .replace("\"reasons\": []", "\"reasons\": [\"gap\"]");
    let (manifests, notes, _) = imported(
        &[
            ("gpu_metrics.csv", AMD),
            ("power_validation_a.json", VALIDATION),
            ("power_validation_b.json", &later),
        ],
        &testing::options(),
    );
    let ids: Vec<&str> = manifests.iter().map(|manifest| manifest.run_id.as_str()).collect();
    assert_eq!(ids, ["mi355x_a", "mi355x_b"]);
    let note = "mi355x_b: power_validation_b.json does not call the power valid: gap";
    assert!(notes.iter().any(|found| found == note), "{notes:?}");
}

#[test]
fn a_package_gives_a_run_for_each_completed_window() {
    let manifest = r#"{"status": "completed", "publication_valid": false, "reason_codes": ["sample_gap_exceeded"],
        "expected_devices": [{"hostname": "a", "gpu_index": 0, "assignments": [{"worker_role": "prefill"}]},
                             {"hostname": "b", "gpu_index": 0, "assignments": [{"worker_role": "decode"}]}]}"#;
    let window = |status: &str, start: &str, end: &str| {
        format!(
            r#"{{"status": "{status}", "benchmark_start_time_unix": {start}, "benchmark_end_time_unix": {end}, "concurrency": 4}}"#
        )
    };
    let (first, second, failed_window) = (
        window("completed", "1736944496.25", "1736944497"),
        window("completed", "1736944597.25", "1736944598"),
        window("failed", "1736944597.25", "1736944598"),
    );
    let files = [
        ("power/samples.csv", SAMPLES),
        ("power/manifest.json", manifest),
        ("power/windows/c4.json", first.as_str()),
        ("power/windows/c8.json", second.as_str()),
        ("power/windows/c9.json", failed_window.as_str()),
    ];
    let (manifests, notes, failed) = imported(&files, &ImportOptions::default());
    assert_eq!(failed, [""; 0]);
    let shown: Vec<(&str, u64)> = manifests
        .iter()
        .map(|manifest| (manifest.run_id.as_str(), manifest.files["power.parquet"].rows))
        .collect();
    // The windows are 101 s apart, so each keeps the two samples about it.
    assert_eq!(shown, [("mi355x_c4", 2), ("mi355x_c8", 2)]);
    assert_eq!(manifests[0].hardware.count, 2);
    for note in [
        "mi355x_c4: c9.json left out: its status is \"failed\"",
        "mi355x_c4: boards of role \"decode\": b/0",
        "mi355x_c4: the package does not call itself valid for publication: sample_gap_exceeded",
        "mi355x_c8: c8.json: concurrency 4",
    ] {
        assert!(notes.iter().any(|found| found == note), "{note}: {notes:?}");
    }
    let changed =
        manifest.replacen('{', &format!("{{\"samples_sha256\": \"{}\", ", "0".repeat(64)), 1);
    let (_, _, failed) =
        imported(&[files[0], ("power/manifest.json", &changed)], &ImportOptions::default());
    assert!(failed[0].ends_with("as in manifest.json: the samples were changed"), "{failed:?}");
}

#[test]
fn broken_packages_say_what_is_wrong() {
    let broken = format!(
        "{SAMPLES}2,1736944597.5,1,b,0,GPU-b,410.0\n1,soon,1,b,0,GPU-b,410.0\n1,1736944597.5,1,b\n1,1736944597.5,1,b,x,GPU-b,1\n1,1736944597.5,1,b,0,GPU-b,41"
    );
    let (_, notes, failed) = imported(&[("samples.csv", &broken)], &ImportOptions::default());
    assert_eq!(failed, [""; 0]);
    insta::assert_snapshot!(notes[0], @r#"mi355x: samples.csv: 5 lines skipped, 6, 7, 8, 9, 10; line 6: "schema_version" is "2"; expected "1""#);
    let backwards = VALIDATION.replace("1736944498.0", "1736944490.0");
    let (_, _, failed) =
        imported(&[("gpu_metrics.csv", AMD), ("v.json", &backwards)], &ImportOptions::default());
    insta::assert_snapshot!(failed[0], @r#""v.json": its window ends at 1736944490; expected a time after its start, 1736944496.5"#);
    let (_, _, failed) = imported(&[("a.txt", "x")], &ImportOptions::default());
    assert!(failed[0].ends_with(
        "holds no gpu_metrics.csv with its sidecars and no samples.csv of a power package"
    ));
}

#[test]
fn packages_and_sidecars_are_recognised_by_content() {
    for (text, reason) in [
        (SAMPLES, "its header is that of a power package's samples.csv"),
        (VALIDATION, "it has \"power_valid\" and \"benchmark_window\""),
    ] {
        assert_eq!(testing::detected(NAME, text.as_bytes()).unwrap(), reason);
    }
    assert_eq!(testing::detected(NAME, AMD.as_bytes()), None);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..proptest::prelude::ProptestConfig::default()
    })]

    #[test]
    fn damaged_files_never_panic(
        which in 0..3_usize,
        place: proptest::sample::Index,
        with in "[\\PC\\n]{0,3}",
        cut: bool,
    ) {
        let mut texts = [AMD.to_owned(), VALIDATION.to_owned(), SAMPLES.to_owned()];
        let text = &mut texts[which];
        let at = place.index(text.len());
        text.replace_range(at..=at, &with);
        if cut {
            text.truncate(at);
        }
        let [log, validation, samples] = texts;
        imported(
            &[("gpu_metrics.csv", &log), ("power_validation_a.json", &validation), ("power/samples.csv", &samples)],
            &testing::options(),
        );
    }
}
