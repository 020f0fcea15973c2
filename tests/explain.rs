//! `explain` says enough to compute a number again: these tests do so from the raw files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use support::{Ended, analyzed, run, sample_archive, wattrace};

fn sample() -> PathBuf {
    sample_archive().join("serving")
}

fn analyze(archive: &Path, results: &Path) {
    analyzed(archive, results, &["--bootstrap", "0"]);
}

fn explain(results: &Path, run: &str, metric: &str, more: &[&str]) -> Ended {
    let mut arguments: Vec<&std::ffi::OsStr> =
        vec!["explain".as_ref(), results.as_os_str(), run.as_ref(), metric.as_ref()];
    arguments.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    wattrace(arguments)
}

fn explained(results: &Path, run: &str, metric: &str) -> Value {
    let ended = explain(results, run, metric, &["--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn read(path: &Path) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    reader.map(Result::unwrap).collect()
}

fn text(array: &dyn Array, row: usize) -> String {
    match array.as_string_opt::<i32>() {
        Some(texts) => texts.value(row).to_owned(),
        None => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            dictionary.values().as_string::<i32>().value(key).to_owned()
        }
    }
}

/// (t, power, counter) of one device, sorted by time.
fn samples(file: &Path, source: &str, device: &str) -> Vec<(i64, Option<f64>, Option<f64>)> {
    let mut samples = Vec::new();
    for batch in read(file) {
        let t = batch["t"].as_primitive::<TimestampNanosecondType>();
        let number = |column: &str, row: usize| {
            let numbers = batch.column_by_name(column)?.as_primitive::<Float64Type>();
            (!numbers.is_null(row)).then(|| numbers.value(row))
        };
        for row in 0..batch.num_rows() {
            if text(&batch["source"], row) == source && text(&batch["device"], row) == device {
                samples.push((t.value(row), number("power_w", row), number("energy_j", row)));
            }
        }
    }
    samples.sort_by_key(|sample| sample.0);
    samples
}

fn nanos(value: &Value) -> i64 {
    wattrace_schema::TimestampNs::parse(value.as_str().unwrap()).unwrap().nanos()
}

/// The energy of one line of `devices`, from the file alone.
fn redone_j(archive: &Path, explained: &Value, device: &Value) -> f64 {
    let file = explained["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rows| rows["file"].as_str().unwrap())
        .find(|file| file.ends_with("power.parquet"))
        .unwrap();
    let all = samples(
        &archive.join(file),
        device["source"].as_str().unwrap(),
        device["device"].as_str().unwrap(),
    );
    let offset_ns = (device["clock_offset_s"].as_f64().unwrap() * 1e9).round() as i64;
    let (first, last) = (nanos(&device["first_sample"]), nanos(&device["last_sample"]));
    let (start, end) = (nanos(&device["window_start"]), nanos(&device["window_end"]));
    let counter = device["method"] == "counter";
    let curve: Vec<(i64, f64)> = all
        .iter()
        .filter_map(|(t, power, energy)| {
            let value = if counter { *energy } else { *power };
            Some((t + offset_ns, value?))
        })
        .filter(|(t, _)| (first..=last).contains(t))
        .collect();
    assert_eq!((curve[0].0, curve[curve.len() - 1].0), (first, last), "{device}");
    let at = |t: i64| {
        let after = curve.partition_point(|sample| sample.0 < t).clamp(1, curve.len() - 1);
        let ((t0, y0), (t1, y1)) = (curve[after - 1], curve[after]);
        y0 + (y1 - y0) * (t - t0) as f64 / (t1 - t0) as f64
    };
    let inside = curve.iter().filter(|(t, _)| (start..=end).contains(t)).count();
    assert_eq!(device["samples"].as_u64().unwrap() as usize, inside, "{device}");
    if counter {
        return at(end) - at(start);
    }
    let mut knots = vec![(start, at(start))];
    knots.extend(curve.iter().copied().filter(|(t, _)| *t > start && *t < end));
    knots.push((end, at(end)));
    knots.windows(2).map(|k| (k[0].1 + k[1].1) / 2.0 * (k[1].0 - k[0].0) as f64 / 1e9).sum()
}

/// Output tokens of the rows that the explanation names.
fn redone_tokens(archive: &Path, path: &str) -> u64 {
    let mut total = 0;
    for batch in read(&archive.join(path).join("requests.parquet")) {
        let tokens = batch["output_tokens"].as_primitive::<UInt32Type>();
        for row in 0..batch.num_rows() {
            let successful =
                text(&batch["stage"], row) == "formal" && text(&batch["status"], row) == "ok";
            if successful && !tokens.is_null(row) {
                total += u64::from(tokens.value(row));
            }
        }
    }
    total
}

#[track_caller]
fn assert_close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{value} is not {expected}");
}

#[test]
fn formal_energy_per_token_can_be_redone_from_what_explain_says() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    analyze(&sample(), &results);
    let explained = explained(&results, "chat-qwen2.5-7b-instruct-a", "formal_j_per_token");
    let mut total: BTreeMap<&str, f64> = BTreeMap::new();
    for device in explained["devices"].as_array().unwrap() {
        let energy_j = redone_j(&sample(), &explained, device);
        assert_close(device["energy_j"].as_f64().unwrap(), energy_j);
        *total.entry(device["method"].as_str().unwrap()).or_default() += energy_j;
    }
    assert_eq!(total.keys().copied().collect::<Vec<_>>(), ["counter", "trapezoid"]);
    let tokens = redone_tokens(&sample(), explained["path"].as_str().unwrap());
    let method = explained["method"].as_str().unwrap();
    assert_close(explained["value"].as_f64().unwrap(), total[method] / tokens as f64);
    let both = &explained["both_methods"][0];
    assert_eq!(both["counts"], method);
    let difference = (total["counter"] - total["trapezoid"]) / total["trapezoid"];
    assert!((both["difference"].as_f64().unwrap() - difference).abs() < 1e-9);
}

#[test]
fn every_stage_of_the_lifecycle_and_the_node_can_be_redone() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    analyze(&sample(), &results);
    let id = "chat-qwen2.5-3b-instruct-b";
    let lifecycle = explained(&results, id, "lifecycle_energy_j");
    let mut total_j = 0.0;
    for device in lifecycle["devices"].as_array().unwrap() {
        if device["counts"] == true {
            total_j += redone_j(&sample(), &lifecycle, device);
        }
    }
    assert_close(lifecycle["value"].as_f64().unwrap(), total_j);
    // The node's clock runs 1.84 s behind; what explain prints is on the run's clock.
    let node = explained(&results, id, "node_energy_j");
    let [device] = &node["devices"].as_array().unwrap()[..] else { panic!("{node}") };
    assert!(device["clock_offset_s"].as_f64().unwrap() != 0.0, "{device}");
    assert_close(node["value"].as_f64().unwrap(), redone_j(&sample(), &node, device));
}

#[test]
fn a_missing_value_is_explained_by_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    analyze(&sample(), &results);
    let ended = explain(&results, "never-released", "lifecycle_j_per_token", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for expected in [
        "lifecycle_j_per_token of run \"never-released\" (simulated): missing, release-not-closed",
        "release-not-closed: Power did not return to the idle baseline",
        "formula    lifecycle_energy_j / output_tokens",
        "lifecycle_energy_j: missing, release-not-closed",
    ] {
        assert!(ended.stdout.contains(expected), "{expected}\n{}", ended.stdout);
    }
}

#[test]
fn what_is_not_there_is_answered_with_what_is_near() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    run("sound").write(&archive);
    let results = folder.path().join("results");
    analyze(&archive, &results);
    let no_run = explain(&results, "sund", "formal_energy_j", &[]);
    assert_eq!(no_run.code, 2);
    insta::assert_snapshot!(no_run.stderr.trim_end(), @r#"error: there is no run "sund" among the 1 runs of the results; did you mean "sound"?"#);
    let no_metric = explain(&results, "sound", "formal_j_per_tok", &[]);
    assert_eq!(no_metric.code, 2);
    insta::assert_snapshot!(no_metric.stderr.trim_end(), @r#"error: there is no metric "formal_j_per_tok"; did you mean "formal_j_per_token" or "formal_power_w"?; `wattrace explain --list` names all"#);
    let nowhere = explain(&archive, "sound", "formal_energy_j", &[]);
    assert_eq!(nowhere.code, 3);
    assert!(nowhere.stderr.contains("holds no results.json"), "{nowhere:?}");
    let list = wattrace(["explain", "--list"]);
    assert_eq!(list.code, 0);
    assert!(list.stdout.contains("formal_j_per_token (J/token)\n    Formal energy divided by"));
    assert_eq!(wattrace(["explain"]).code, 2);
}

#[test]
fn a_claim_stands_beside_the_number() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let mut claimed = run("claimed");
    claimed.manifest["claims"] = serde_json::json!([
        {"metric": "formal_j_per_token", "value": 7.4, "unit": "J/token", "source": "table 2"},
    ]);
    claimed.write(&archive);
    let results = folder.path().join("results");
    analyze(&archive, &results);
    let ended = explain(&results, "claimed", "formal_j_per_token", &[]);
    let line = ended.stdout.lines().find(|line| line.contains("published 7.4")).unwrap();
    // 9000 J over 1200 tokens.
    assert!(line.contains("published 7.4 J/token (table 2); recomputed 7.5"), "{line}");
    assert!(ended.stdout.contains("differs in the printed digits"), "{}", ended.stdout);
}
