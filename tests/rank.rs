//! Rankings through the program, over an archive and over its results.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::path::{Path, PathBuf};

use support::{Ended, analyzed, read_csv, run, sample_archive, wattrace};

fn sample() -> PathBuf {
    sample_archive().join("serving")
}

fn analyze(archive: &Path, results: &Path) {
    analyzed(archive, results, &["--bootstrap", "500"]);
}

fn rank(input: &Path, more: &[&str]) -> Ended {
    let mut arguments: Vec<&std::ffi::OsStr> = vec!["rank".as_ref(), input.as_os_str()];
    arguments.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    wattrace(arguments)
}

#[test]
fn the_sample_archive_has_a_swap_and_names_what_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    analyze(&sample(), &results);
    let ended = rank(&results, &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    // Names may break over lines; words are what counts.
    let words = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "swap: chat (small) on simulated-engine-a: mistralai/Mistral-7B-Instruct-v0.3 costs less than \
         Qwen/Qwen2.5-7B-Instruct in steady state and more over the lifecycle",
        "never-released: no lifecycle_j_per_token, release-not-closed: Power did not return",
        "monitor-ends-early, never-steady, second-release: no steady_j_per_token, steady-not-reached",
        "* simulated data",
    ] {
        assert!(words.contains(expected), "{expected}\n{}", ended.stdout);
    }

    // One swap of neighbours among four: rho = 0.8, 8 of 24 orders at least as far from zero.
    let rows = read_csv(&results.join("rank.csv"));
    let row = rows
        .iter()
        .find(|row| row["task"] == "chat" && row["engine"] == "simulated-engine-a")
        .unwrap();
    assert_eq!((row["n"].as_str(), row["p_method"].as_str()), ("4", "exact"));
    assert!((row["spearman_rho"].parse::<f64>().unwrap() - 0.8).abs() < 1e-12);
    assert!((row["p_value"].parse::<f64>().unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(
        row["swapped_pairs"],
        "mistralai/Mistral-7B-Instruct-v0.3 <-> Qwen/Qwen2.5-7B-Instruct"
    );
    assert!(row["flags"].contains("synthetic"), "{row:?}");
    let code = rows.iter().find(|row| row["task"] == "code").unwrap();
    assert_eq!(code["reason"], "too-few-models");
}

#[test]
fn an_archive_and_its_results_rank_alike() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    analyze(&sample(), &results);
    let of_archive = rank(&sample(), &["--json", "--bootstrap", "500"]);
    // The results know how many resamples they were made with.
    let of_results = rank(&results, &["--json"]);
    assert_eq!((of_archive.code, of_results.code), (0, 0));
    assert!(of_archive.stdout == of_results.stdout, "{of_archive:?}\n{of_results:?}");
    let tables: serde_json::Value = serde_json::from_str(&of_results.stdout).unwrap();
    let stored = read_csv(&results.join("rank.csv"));
    for (printed, stored) in tables["rank"].as_array().unwrap().iter().zip(&stored) {
        let printed = printed["ci_low"].as_f64();
        assert_eq!(printed, stored["ci_low"].parse().ok(), "{stored:?}");
    }
}

#[test]
fn amortisation_follows_from_the_columns_of_runs() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    analyze(&sample(), &results);
    let runs = read_csv(&results.join("runs.csv"));
    let id = "chat-qwen2.5-7b-instruct-a";
    let run = runs.iter().find(|run| run["run_id"] == id).unwrap();
    let number = |column: &str| run[column].parse::<f64>().unwrap();
    let fixed_j = number("startup_energy_j") + number("release_energy_j");
    let successful = number("requests_total") - number("requests_failed");
    let per_request_j = number("steady_j_per_token") * number("output_tokens") / successful;
    let rows = read_csv(&results.join("amortisation.csv"));
    let of_run: Vec<_> = rows.iter().filter(|row| row["run_id"] == id).collect();
    assert_eq!(of_run.len(), 19);
    for row in of_run {
        let requests: f64 = row["requests"].parse().unwrap();
        let energy_j: f64 = row["energy_j"].parse().unwrap();
        let expected_j = fixed_j + requests * per_request_j;
        assert!((energy_j - expected_j).abs() <= 1e-12 * expected_j, "{row:?}");
        let share: f64 = row["fixed_share"].parse().unwrap();
        let under_1_percent = requests >= number("requests_to_fixed_share_1_percent");
        assert_eq!(share < 0.01, under_1_percent, "{row:?}");
    }
    // A run without a value has one row that says why.
    let unsteady: Vec<_> = rows.iter().filter(|row| row["run_id"] == "never-steady").collect();
    assert_eq!(unsteady.len(), 1);
    assert_eq!(unsteady[0]["reason"], "steady-not-reached");
}

#[test]
fn results_of_another_definition_of_the_metrics_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    run("sound").write(&archive);
    let results = folder.path().join("results");
    analyze(&archive, &results);
    assert_eq!(rank(&results, &[]).code, 0);
    let path = results.join("results.json");
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest["metric_definitions_version"] = 0.into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    let ended = rank(&results, &[]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.stderr.contains("was written with version 0 of the metric definitions"),
        "{ended:?}"
    );
}

#[test]
fn without_serving_runs_there_is_no_usable_input() {
    let decode = sample_archive().join("decode");
    let ended = rank(&decode, &[]);
    assert_eq!(ended.code, 3);
    assert!(ended.stderr.contains("holds no serving run"), "{ended:?}");
    assert_eq!(rank(Path::new("/nowhere"), &[]).code, 3);
}

#[test]
fn a_run_that_cannot_be_read_is_left_out_by_name() {
    let folder = tempfile::tempdir().unwrap();
    run("sound").write(folder.path());
    let mut broken = run("broken");
    broken.raw.insert("power.parquet".into(), b"no Parquet".to_vec());
    broken.write(folder.path());
    let ended = rank(folder.path(), &["--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("broken"), "{ended:?}");
    let tables: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let excluded = tables["rank_excluded"].as_array().unwrap();
    let reason = excluded.iter().find(|row| row["run_id"] == "broken").unwrap();
    assert_eq!(reason["reason"], "invalid-run");
}
