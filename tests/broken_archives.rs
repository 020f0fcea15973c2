//! Archives broken on purpose, one way each. Beside every broken run lies a sound one, which must be
//! analysed all the same. The messages are golden: see tests/snapshots/.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, Float32Array, Int64Array, TimestampNanosecondArray};
use serde_json::json;

use support::{
    Columns, RunBuilder, at, counts, numbers, optional_times, read_csv, run, stamp, texts, wattrace,
};

/// A way to break a run.
type Break = fn(&mut RunBuilder);

/// Every case, by name.
const CASES: &[(&str, Break)] = &[
    ("power-truncated", |run| {
        run.after_digest = Some(("power.parquet".into(), |bytes| bytes.truncate(1000)));
    }),
    ("power-truncated-with-its-digest", |run| {
        let mut bytes = run.power().parquet();
        bytes.truncate(bytes.len() / 2);
        raw_table(run, "power.parquet", bytes);
    }),
    ("power-one-byte-changed", |run| {
        run.after_digest = Some(("power.parquet".into(), |bytes| bytes[200] ^= 1));
    }),
    ("power-is-empty", |run| raw_table(run, "power.parquet", Vec::new())),
    ("power-is-text", |run| raw_table(run, "power.parquet", b"t,power_w\n1,2\n".to_vec())),
    ("power-footer-lies", |run| {
        // The footer's length field claims four gigabytes.
        let mut bytes = run.power().parquet();
        let end = bytes.len() - 8;
        bytes[end..end + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        raw_table(run, "power.parquet", bytes);
    }),
    ("power-has-no-rows", |run| {
        let rows = run.power().batch().slice(0, 0);
        let schema = rows.schema();
        let columns = schema.fields().iter().zip(rows.columns());
        let columns =
            columns.map(|(field, array)| (field.name().clone(), array.clone(), true)).collect();
        run.power = Some(Columns(columns));
    }),
    ("digest-wrong", |run| {
        run.manifest["files"] = json!({"power.parquet": {"sha256": "0".repeat(64), "rows": 1201}});
    }),
    ("digest-is-no-digest", |run| {
        run.manifest["files"] = json!({"power.parquet": {"sha256": "abc", "rows": 1201}});
    }),
    ("row-count-wrong", |run| {
        let bytes = run.power().parquet();
        raw_table(run, "power.parquet", bytes);
        run.manifest["files"]["power.parquet"]["rows"] = json!(1200);
    }),
    ("file-missing", |run| {
        let bytes = run.power().parquet();
        raw_table(run, "power.parquet", bytes);
        run.raw.clear();
        run.power = None;
    }),
    ("column-missing", |run| run.power().remove("device")),
    ("column-of-the-wrong-type", |run| {
        let rows = run.power().rows();
        run.power().set("power_w", texts(&vec!["300 W"; rows]));
    }),
    ("time-without-a-zone", |run| {
        let naive = TimestampNanosecondArray::from(vec![at(0.0); run.power().rows()]);
        run.power().set("t", Arc::new(naive));
    }),
    ("null-where-none-may-be", |run| {
        let mut t = time_values(run.power());
        t[7] = None;
        run.power().set("t", optional_times(&t));
    }),
    ("unknown-source", |run| {
        let mut sources = vec!["nvml"; run.power().rows()];
        sources[3] = "nvlm";
        run.power().set("source", texts(&sources));
    }),
    ("power-not-a-number", |run| spoil_power(run, f64::NAN)),
    ("power-infinite", |run| spoil_power(run, f64::INFINITY)),
    ("power-negative", |run| spoil_power(run, -1.0)),
    ("power-above-any-board", |run| spoil_power(run, 1e6)),
    ("power-all-null", |run| {
        let rows = run.power().rows();
        run.power().set("power_w", numbers(&vec![None; rows]));
        run.power().remove("energy_j");
    }),
    ("times-unsorted", |run| {
        let mut order: Vec<u64> = (0..run.power().rows() as u64).collect();
        order.reverse();
        run.power().reordered(&order);
    }),
    ("times-repeated", |run| {
        let mut t = time_values(run.power());
        t[601] = t[600];
        run.power().set("t", optional_times(&t));
    }),
    ("power-only-after-the-window", |run| {
        let rows: Vec<u64> = (0..run.power().rows() as u64).filter(|row| *row > 800).collect();
        run.power().reordered(&rows);
    }),
    ("power-gap-in-the-window", |run| {
        let rows: Vec<u64> =
            (0..run.power().rows() as u64).filter(|row| !(450..=550).contains(row)).collect();
        run.power().reordered(&rows);
    }),
    ("counter-falls", |run| {
        change_counter(run, |row, energy| if row > 500 { energy - 6000.0 } else { energy });
    }),
    ("counter-stalls", |run| {
        change_counter(run, |row, energy| if (450..500).contains(&row) { 9000.0 } else { energy });
    }),
    ("formal-ends-before-it-starts", |run| {
        run.manifest["stages"]["formal_end"] = json!(stamp(-1.0));
    }),
    ("stamps-out-of-order", |run| run.manifest["stages"]["ready"] = json!(stamp(20.0))),
    ("stamp-is-local-time", |run| run.manifest["stages"]["launch"] = json!("2026-01-01 00:00:00")),
    ("stamp-in-the-year-9999", |run| {
        run.manifest["stages"]["launch"] = json!("9999-01-01T00:00:00Z");
    }),
    ("request-ends-before-it-starts", |run| {
        let mut ends = request_times(run, 1.0);
        ends[5] = Some(at(-10.0));
        run.requests().set("t_end", optional_times(&ends));
    }),
    ("request-id-repeated", |run| {
        let rows = run.requests().rows();
        run.requests().set("request_id", texts(&vec!["same"; rows]));
    }),
    ("status-unknown", |run| {
        let mut status = vec!["ok"; run.requests().rows()];
        status[2] = "OK";
        run.requests().set("status", texts(&status));
    }),
    ("all-requests-failed", |run| {
        let rows = run.requests().rows();
        run.requests().set("status", texts(&vec!["error"; rows]));
    }),
    ("zero-tokens", |run| {
        let rows = run.requests().rows();
        run.requests().set("output_tokens", counts(&vec![Some(0); rows]));
    }),
    ("tokens-without-times", |run| {
        let rows = run.requests().rows();
        for column in ["t_send", "t_first_token", "t_end"] {
            run.requests().set(column, optional_times(&vec![None; rows]));
        }
    }),
    ("tokens-negative", |run| {
        let rows = run.requests().rows();
        run.requests().set("output_tokens", Arc::new(Int64Array::from(vec![-5; rows])));
    }),
    ("tokens-are-fractions", |run| {
        let rows = run.requests().rows();
        run.requests().set("output_tokens", Arc::new(Float32Array::from(vec![1.5; rows])));
    }),
    ("one-request", |run| run.requests().reordered(&[0])),
    ("no-requests", |run| run.requests().reordered(&[])),
    ("gaps-longer-than-the-request", |run| {
        let rows = run.requests().rows();
        run.requests().set("itl_ns", support::gaps(&vec![vec![u64::MAX; 19]; rows]));
    }),
    ("scopes-overlap", |run| {
        let source = run.manifest["power_sources"][0].clone();
        let mut second = source;
        second["id"] = json!("nvml-average");
        second["reading"] = json!("average");
        run.manifest["power_sources"].as_array_mut().unwrap().push(second);
        let rows = run.power().rows();
        let twice: Vec<u64> = (0..2 * rows as u64).map(|row| row % rows as u64).collect();
        run.power().reordered(&twice);
        let sources: Vec<&str> =
            (0..2 * rows).map(|row| if row < rows { "nvml" } else { "nvml-average" }).collect();
        run.power().set("source", texts(&sources));
    }),
    ("run-json-is-not-json", |run| raw_manifest(run, b"{\"schema_version\": 1,".to_vec())),
    ("run-json-is-not-utf8", |run| {
        raw_manifest(run, b"{\"schema_version\": 1, \"run_id\": \"\xff\xfe\"}".to_vec());
    }),
    ("run-json-is-empty", |run| raw_manifest(run, Vec::new())),
    ("run-json-of-another-version", |run| run.manifest["schema_version"] = json!(2)),
    ("run-json-without-a-model", |run| {
        run.manifest.as_object_mut().unwrap().remove("model");
    }),
    ("count-absurd", |run| run.manifest["hardware"]["count"] = json!(1e30)),
    ("count-zero", |run| run.manifest["hardware"]["count"] = json!(0)),
    ("more-boards-than-measured", |run| run.manifest["hardware"]["count"] = json!(8)),
    ("clock-offset-absurd", |run| {
        run.manifest["power_sources"][0]["clock_offset_ns"] = json!(i64::MAX);
    }),
    ("times-absurd", |run| {
        let mut t = time_values(run.power());
        t[0] = Some(i64::MIN);
        *t.last_mut().unwrap() = Some(i64::MAX);
        run.power().set("t", optional_times(&t));
    }),
];

fn time_values(columns: &Columns) -> Vec<Option<i64>> {
    let array = columns.get("t").as_any().downcast_ref::<TimestampNanosecondArray>().unwrap();
    array.iter().collect()
}

fn request_times(run: &mut RunBuilder, after_sending_s: f64) -> Vec<Option<i64>> {
    let sends = run.requests().get("t_send").clone();
    let sends = sends.as_any().downcast_ref::<TimestampNanosecondArray>().unwrap();
    sends.iter().map(|t| t.map(|t| t + at(after_sending_s) - at(0.0))).collect()
}

/// A file with its own digest in run.json, whatever its bytes are.
fn raw_table(run: &mut RunBuilder, name: &str, bytes: Vec<u8>) {
    use sha2::Digest as _;
    let digest: String =
        sha2::Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let rows = run.power().rows();
    run.manifest["files"] = json!({name: {"sha256": digest, "rows": rows}});
    run.raw.insert(name.into(), bytes);
}

fn raw_manifest(run: &mut RunBuilder, bytes: Vec<u8>) {
    run.raw.insert("run.json".into(), bytes);
}

/// One impossible sample in the middle of the formal window; no counter to fall back on.
fn spoil_power(run: &mut RunBuilder, value: f64) {
    let rows = run.power().rows();
    let mut power: Vec<Option<f64>> = (0..rows).map(|_| Some(100.0)).collect();
    power[500] = Some(value);
    run.power().set("power_w", numbers(&power));
    run.power().remove("energy_j");
}

fn change_counter(run: &mut RunBuilder, change: fn(usize, f64) -> f64) {
    let array = run.power().get("energy_j").clone();
    let array = array.as_any().downcast_ref::<arrow_array::Float64Array>().unwrap();
    let energy: Vec<_> = array
        .iter()
        .enumerate()
        .map(|(row, energy)| energy.map(|energy| change(row, energy)))
        .collect();
    run.power().set("energy_j", numbers(&energy));
}

/// Text without the places of this machine.
fn without_paths(text: &str, archive: &Path) -> String {
    text.replace(&archive.display().to_string(), "[ARCHIVE]")
}

#[test]
fn every_broken_run_is_named_and_the_sound_one_analysed() {
    assert!(CASES.len() >= 25);
    let mut golden = String::new();
    for (name, break_run) in CASES {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        run("sound").write(&archive);
        let mut broken = run("broken");
        break_run(&mut broken);
        broken.write(&archive);
        let results = folder.path().join("results");
        let analyzed = wattrace([
            "analyze".as_ref(),
            archive.as_os_str(),
            "--out".as_ref(),
            results.as_os_str(),
        ]);
        assert!(results.join("runs.csv").exists(), "{name}: {analyzed:?}");
        let rows = read_csv(&results.join("runs.csv"));
        let row = |id: &str| rows.iter().find(|row| row["run_id"] == id).unwrap();
        let sound = row("sound");
        assert_eq!(sound["formal_energy_j"], SOUND_FORMAL_ENERGY_J, "{name}: {sound:?}");
        assert!(matches!(analyzed.code, 0 | 1), "{name}: {analyzed:?}");
        let checked = wattrace(["check".as_ref(), archive.as_os_str(), "--quiet".as_ref()]);
        assert!(matches!(checked.code, 0 | 1), "{name}: {checked:?}");

        let broken = row("broken");
        writeln!(golden, "## {name}: analyze {}, check {}", analyzed.code, checked.code).unwrap();
        for line in without_paths(&analyzed.stderr, &archive).lines() {
            writeln!(golden, "{line}").unwrap();
        }
        for column in ["error", "formal_energy_j", "formal_j_per_token", "flags"] {
            let value = without_paths(&broken[column], &archive);
            writeln!(golden, "    {column}: {value}").unwrap();
        }
        for line in
            without_paths(&checked.stdout, &archive).lines().filter(|line| line.contains("broken"))
        {
            writeln!(golden, "    check: {}", line.trim()).unwrap();
        }
    }
    insta::assert_snapshot!("broken_archives", golden);
}

/// 30 s at 300 W, by the counter.
const SOUND_FORMAL_ENERGY_J: &str = "9000.0";

#[cfg(unix)]
#[test]
fn a_link_out_of_the_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    run("sound").write(&archive);
    let outside = run("elsewhere").write(&folder.path().join("outside"));
    let linked = run("linked").write(&archive);
    std::fs::remove_file(linked.join("power.parquet")).unwrap();
    std::os::unix::fs::symlink(outside.join("power.parquet"), linked.join("power.parquet"))
        .unwrap();
    let results = folder.path().join("results");
    let ended =
        wattrace(["analyze".as_ref(), archive.as_os_str(), "--out".as_ref(), results.as_os_str()]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let rows = read_csv(&results.join("runs.csv"));
    let error = rows.iter().find(|row| row["run_id"] == "linked").unwrap()["error"].clone();
    let error =
        error.replace(&folder.path().canonicalize().unwrap().display().to_string(), "[FOLDER]");
    let error = error.replace(&folder.path().display().to_string(), "[FOLDER]");
    assert_eq!(
        error,
        "\"[FOLDER]/archive/linked/power.parquet\" leads out of the archive to \
         \"[FOLDER]/outside/elsewhere/power.parquet\"; expected a file inside the archive"
    );
}

#[test]
fn an_archive_without_runs_is_no_usable_input() {
    let folder = tempfile::tempdir().unwrap();
    let ended = wattrace([
        "analyze".as_ref(),
        folder.path().as_os_str(),
        "--out".as_ref(),
        "results".as_ref(),
    ]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("holds no run; expected a folder with a run.json"), "{ended:?}");
    let missing = folder.path().join("nowhere");
    let ended = wattrace(["check".as_ref(), missing.as_os_str()]);
    assert_eq!(ended.code, 3, "{ended:?}");
}
