use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use wattrace_schema::{
    Claim, EnergyMethod, MoeGeometry, Reading, RequestStage, RunKind, RunManifest, Scope, tables,
};

use super::*;
use crate::testing::{
    SECOND, T0, TestArchive, manifest, parquet_bytes, power, request, stamp, step,
};
use crate::{PowerRow, RequestRow, RunLocation, StepRow, list_archive};

/// What a run is made of, to be spoiled by a test before it is written.
struct Parts {
    manifest: RunManifest,
    power: Vec<PowerRow>,
    requests: Vec<RequestRow>,
    steps: Vec<StepRow>,
}

/// Two boards at 300 W for 300 s, read each second with their counters, and ten requests in a formal
/// window from second 100 to second 200.
fn serving() -> Parts {
    let mut manifest = manifest("a");
    let stages = &mut manifest.stages;
    (stages.idle_start, stages.idle_end) = (stamp(0), stamp(60));
    (stages.launch, stages.ready, stages.warmup_start) = (stamp(60), stamp(90), stamp(95));
    (stages.formal_start, stages.formal_end) = (stamp(100), stamp(200));
    (stages.process_exit, stages.memory_released) = (stamp(210), stamp(215));
    stages.monitor_end = stamp(300);
    Parts {
        manifest,
        power: ["gpu0", "gpu1"].into_iter().flat_map(board).collect(),
        requests: (0..10).map(|i| request(110 + i, &format!("r{i}"))).collect(),
        steps: Vec::new(),
    }
}

fn board(device: &str) -> Vec<PowerRow> {
    (0..=300)
        .map(|second| PowerRow {
            energy_j: Some(300.0 * second as f64),
            ..power(second, device, 300.0)
        })
        .collect()
}

/// A hundred decode steps of a second each, between seconds 0 and 100 of the same power.
fn decode() -> Parts {
    let mut parts = serving();
    parts.requests = Vec::new();
    parts.steps = (0..100).map(step).collect();
    let manifest = &mut parts.manifest;
    manifest.kind = RunKind::Decode;
    manifest.stages = wattrace_schema::Stages {
        decode_start: stamp(0),
        decode_end: stamp(100),
        ..wattrace_schema::Stages::default()
    };
    let model = &mut manifest.model;
    (model.total_params, model.weight_bytes_per_param) = (Some(7_000_000_000), Some(2.0));
    (model.layers, model.kv_heads, model.head_dim) = (Some(28), Some(4), Some(128));
    (model.kv_bytes_per_value, model.tied_embeddings) = (Some(2.0), Some(false));
    (model.vocab_size, model.hidden_size) = (Some(152_064), Some(3584));
    parts
}

impl Parts {
    fn write(self, archive: &TestArchive) -> RunLocation {
        archive.write(self.manifest, |writer| {
            self.power.into_iter().for_each(|row| writer.power(row).unwrap());
            self.requests.into_iter().for_each(|row| writer.request(row).unwrap());
            self.steps.into_iter().for_each(|row| writer.step(row).unwrap());
        })
    }
}

fn check_all(archive: &TestArchive) -> ArchiveCheck {
    let listing = list_archive(archive.path()).unwrap();
    let runs = listing.runs.iter().map(check_run).collect();
    check_archive(&listing, runs)
}

/// Every finding as one line, with the archive's own path shortened.
fn lines(archive: &TestArchive, check: &ArchiveCheck) -> Vec<String> {
    let of_archive = check.archive.iter().flat_map(|result| &result.findings);
    of_archive
        .chain(check.runs.iter().flat_map(RunCheck::findings))
        .map(|found| {
            let column = found.column.map(|column| format!(" {column}")).unwrap_or_default();
            let row = found.row.map(|row| format!(" {row}")).unwrap_or_default();
            archive
                .shown(&format!("{} {}{column}{row}: {}", found.check, found.file, found.message))
        })
        .collect()
}

#[test]
fn sound_runs_break_no_rule_and_have_no_notes() {
    let archive = TestArchive::new();
    let mut second = decode();
    second.manifest.run_id = "b".into();
    serving().write(&archive);
    second.write(&archive);
    let check = check_all(&archive);
    assert_eq!(lines(&archive, &check), Vec::<String>::new());
    assert!(check.passes() && check.runs.len() == 2);
    let reasons: BTreeSet<_> =
        check.runs.iter().flat_map(|run| &run.checks).filter_map(|c| c.reason.clone()).collect();
    let expected = ["the run has no requests.parquet", "the run has no steps.parquet"];
    assert!(reasons.iter().map(String::as_str).eq(expected));
}

/// One way to break an archive, after a sound run was made of the parts.
type Spoil = fn(&TestArchive);
type BoxedSpoil = Box<dyn Fn(&TestArchive)>;

fn serving_with(change: fn(&mut Parts)) -> impl Fn(&TestArchive) {
    move |archive| {
        let mut parts = serving();
        change(&mut parts);
        parts.write(archive);
    }
}

fn decode_with(change: fn(&mut Parts)) -> impl Fn(&TestArchive) {
    move |archive| {
        let mut parts = decode();
        change(&mut parts);
        parts.write(archive);
    }
}

/// Writes a sound run and hands its folder over.
fn folder_with(change: fn(&std::path::Path)) -> impl Fn(&TestArchive) {
    move |archive| change(&serving().write(archive).folder)
}

/// Replaces a value in run.json by its pointer.
fn edit(folder: &std::path::Path, pointer: &str, value: serde_json::Value) {
    let path = folder.join("run.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    *json.pointer_mut(pointer).unwrap() = value;
    fs::write(path, json.to_string()).unwrap();
}

/// Replaces requests.parquet by a table of these columns, and its entry in run.json.
fn replace_requests(folder: &std::path::Path, columns: &[(&str, ArrayRef)]) {
    let bytes = parquet_bytes(columns);
    let rows = columns[0].1.len();
    let entry = serde_json::json!({"sha256": crate::digest::sha256_hex(&bytes), "rows": rows});
    fs::write(folder.join("requests.parquet"), bytes).unwrap();
    edit(folder, "/files/requests.parquet", entry);
}

/// Columns of a requests.parquet with one row, and `changes`.
fn request_columns(changes: &[(&'static str, Option<ArrayRef>)]) -> Vec<(&'static str, ArrayRef)> {
    let text = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let time = |seconds: i64| {
        let times = arrow_array::TimestampNanosecondArray::from(vec![T0 + seconds * SECOND]);
        Arc::new(times.with_timezone("UTC")) as ArrayRef
    };
    let tokens = || Arc::new(arrow_array::UInt32Array::from(vec![3])) as ArrayRef;
    let mut columns = vec![
        ("request_id", text("r")),
        ("stage", text("formal")),
        ("t_send", time(110)),
        ("t_first_token", time(111)),
        ("t_end", time(112)),
        ("status", text("ok")),
        ("input_tokens", tokens()),
        ("output_tokens", tokens()),
    ];
    for (name, array) in changes {
        columns.retain(|(column, _)| column != name);
        columns.extend(array.clone().map(|array| (*name, array)));
    }
    columns
}

/// For every rule one archive that breaks it, and as little else as can be.
#[test]
fn every_rule_has_an_archive_that_breaks_it() {
    let mut cases: Vec<(&str, BoxedSpoil)> = Vec::new();
    let mut add = |id: &'static str, spoil: BoxedSpoil| cases.push((id, spoil));
    macro_rules! case {
        ($id:literal, $spoil:expr) => {
            add($id, Box::new($spoil))
        };
    }

    let unfinished: Spoil = |archive| {
        serving().write(archive);
        let partial = archive.path().join(".b.partial");
        fs::create_dir(&partial).unwrap();
    };
    case!("run-finished", unfinished);
    let twice: Spoil = |archive| {
        serving().write(archive);
        let below = archive.path().join("again");
        crate::RunWriter::create(&below, "a").unwrap().finish(manifest("a")).unwrap();
    };
    case!("run-id-unique", twice);
    let both_sides: Spoil = |archive| {
        for (id, split) in [("a", Split::Fit), ("b", Split::Heldout)] {
            let mut parts = decode();
            parts.manifest.run_id = id.into();
            parts.manifest.cell = Some("b8".into());
            parts.manifest.split = Some(split);
            parts.write(archive);
        }
    };
    case!("cell-one-side", both_sides);

    case!(
        "manifest-valid",
        folder_with(|folder| {
            fs::write(folder.join("run.json"), "{\"schema_version\": 1").unwrap();
        })
    );
    case!(
        "file-missing",
        folder_with(|folder| {
            fs::remove_file(folder.join("requests.parquet")).unwrap();
        })
    );
    case!("file-missing", serving_with(|parts| parts.manifest.spec = Some("spec.yaml".into())));
    case!(
        "file-hash",
        folder_with(|folder| {
            edit(folder, "/files/power.parquet/sha256", "0".repeat(64).into());
        })
    );
    case!("file-rows", folder_with(|folder| edit(folder, "/files/power.parquet/rows", 3.into())));
    case!(
        "file-not-hashed",
        folder_with(|folder| {
            edit(folder, "/files", serde_json::json!({}));
        })
    );
    case!(
        "file-readable",
        folder_with(|folder| {
            let bytes = b"PAR1 but no more";
            fs::write(folder.join("requests.parquet"), bytes).unwrap();
            let entry = serde_json::json!({"sha256": crate::digest::sha256_hex(bytes), "rows": 10});
            edit(folder, "/files/requests.parquet", entry);
        })
    );
    case!(
        "file-empty",
        folder_with(|folder| {
            let columns: Vec<_> = request_columns(&[])
                .into_iter()
                .map(|(name, array)| (name, array.slice(0, 0)))
                .collect();
            replace_requests(folder, &columns);
        })
    );
    case!(
        "column-missing",
        folder_with(|folder| {
            replace_requests(folder, &request_columns(&[("status", None)]));
        })
    );
    case!(
        "column-type",
        folder_with(|folder| {
            let text: ArrayRef = Arc::new(StringArray::from(vec!["3"]));
            replace_requests(folder, &request_columns(&[("output_tokens", Some(text))]));
        })
    );
    case!(
        "value-valid",
        folder_with(|folder| {
            let text: ArrayRef = Arc::new(StringArray::from(vec!["done"]));
            replace_requests(folder, &request_columns(&[("status", Some(text))]));
        })
    );
    case!("tables-of-kind", serving_with(|parts| parts.requests.clear()));

    case!(
        "stamps-present",
        serving_with(|parts| {
            parts.manifest.stages.formal_start = None;
            parts.manifest.stages.formal_end = None;
        })
    );
    case!("stamps-lifecycle", serving_with(|parts| parts.manifest.stages.process_exit = None));
    case!("stamps-order", serving_with(|parts| parts.manifest.stages.ready = stamp(101)));
    case!("stamps-window", serving_with(|parts| parts.manifest.stages.idle_end = stamp(0)));

    case!("model-geometry", decode_with(|parts| parts.manifest.model.head_dim = None));
    case!(
        "model-dense",
        decode_with(|parts| {
            parts.manifest.model.moe = Some(MoeGeometry::default());
        })
    );
    case!(
        "claims-present",
        serving_with(|parts| {
            parts.manifest.kind = RunKind::Summary;
        })
    );
    case!(
        "claims-unit",
        serving_with(|parts| {
            parts.manifest.claims = vec![
                Claim {
                    metric: "node_sample_mean_power_w".into(),
                    value: 6.25,
                    unit: "kW".into(),
                    source: "summary".into(),
                },
                Claim {
                    metric: "runs".into(),
                    value: 3.0,
                    unit: String::new(),
                    source: "x".into(),
                },
            ];
        })
    );
    case!(
        "average-window",
        serving_with(|parts| {
            parts.manifest.power_sources[0].reading = Reading::Average;
        })
    );

    case!("power-negative", serving_with(|parts| parts.power[5].power_w = Some(-1.0)));
    case!("power-not-finite", serving_with(|parts| parts.power[5].energy_j = Some(f64::NAN)));
    case!(
        "power-absent",
        serving_with(|parts| {
            parts.power[5].power_w = None;
            parts.power[5].energy_j = None;
        })
    );
    case!("power-ceiling", serving_with(|parts| parts.power[5].power_w = Some(4000.5)));
    case!(
        "power-ceiling",
        serving_with(|parts| {
            // 300 W and 4,000 J more in one second.
            parts.power[5..=300]
                .iter_mut()
                .for_each(|row| *row.energy_j.as_mut().unwrap() += 4000.0);
        })
    );
    case!("power-order", serving_with(|parts| parts.power.swap(5, 6)));
    case!("power-order", serving_with(|parts| parts.power.rotate_left(301)));
    case!(
        "power-duplicate-time",
        serving_with(|parts| {
            let row = parts.power[5].clone();
            parts.power.insert(6, row);
        })
    );
    case!(
        "power-coverage",
        serving_with(|parts| {
            // The idle window loses its first 4 s, more than three sample intervals.
            parts.power.drain(0..4);
        })
    );
    case!(
        "power-coverage",
        serving_with(|parts| {
            // A logger in a zone seven hours behind.
            parts.manifest.power_sources[0].clock_offset_ns = Some(-7 * 3600 * SECOND);
        })
    );
    case!(
        "power-gap",
        serving_with(|parts| {
            // From second 120 to second 124.
            parts.power.drain(121..124);
        })
    );

    case!(
        "counter-falls",
        serving_with(|parts| {
            parts.power[150..=300]
                .iter_mut()
                .for_each(|row| *row.energy_j.as_mut().unwrap() -= 40_000.0);
        })
    );
    case!(
        "counter-falls",
        serving_with(|parts| {
            parts.manifest.power_sources[0].counter_wrap_j = Some(40_000.0);
            parts.power[150..=300]
                .iter_mut()
                .for_each(|row| *row.energy_j.as_mut().unwrap() -= 40_000.0);
        })
    );
    case!(
        "counter-stalls",
        serving_with(|parts| {
            parts.power[110..=114].iter_mut().for_each(|row| row.energy_j = Some(33_000.0));
        })
    );
    case!(
        "counter-asked",
        serving_with(|parts| {
            parts.manifest.energy_method.formal = Some(EnergyMethod::Counter);
            parts.power[0..=300].iter_mut().for_each(|row| row.energy_j = None);
        })
    );

    case!(
        "source-used",
        serving_with(|parts| {
            let mut node = parts.manifest.power_sources[0].clone();
            (node.id, node.scope) = ("ipmi".into(), Scope::Node);
            parts.manifest.power_sources.push(node);
        })
    );
    case!(
        "scope-overlap",
        serving_with(|parts| {
            let mut other = parts.manifest.power_sources[0].clone();
            other.id = "zeus".into();
            parts.manifest.power_sources.push(other);
            let rows =
                board("gpu0").into_iter().map(|row| PowerRow { source: "zeus".into(), ..row });
            parts.power.extend(rows);
        })
    );
    case!(
        "scope-board-and-module",
        serving_with(|parts| {
            let mut other = parts.manifest.power_sources[0].clone();
            (other.id, other.scope) = ("nvml-module".into(), Scope::GpuModule);
            parts.manifest.power_sources.push(other);
            let rows = board("gpu0")
                .into_iter()
                .map(|row| PowerRow { source: "nvml-module".into(), ..row });
            parts.power.extend(rows);
        })
    );
    case!("device-count", serving_with(|parts| parts.manifest.hardware.count = 8));

    case!("request-order", serving_with(|parts| parts.requests.swap(2, 3)));
    case!(
        "request-id-unique",
        serving_with(|parts| {
            parts.requests[3].request_id = "r2".into();
        })
    );
    case!(
        "request-times",
        serving_with(|parts| {
            parts.requests[3].t_first_token_ns = Some(T0 + 112 * SECOND);
        })
    );
    case!(
        "request-durations",
        serving_with(|parts| {
            (parts.requests[3].ttft_ns, parts.requests[3].e2e_ns) = (Some(5), Some(4));
        })
    );
    case!(
        "request-outside-formal",
        serving_with(|parts| {
            parts.manifest.stages.formal_start = stamp(111);
            parts.requests[9] = request(205, "r9");
            parts.requests[0].stage = RequestStage::Formal;
        })
    );
    case!("request-tokens-timed", serving_with(|parts| parts.requests[3].t_end_ns = None));
    case!("request-tokens-counted", serving_with(|parts| parts.requests[3].output_tokens = None));
    case!(
        "request-zero-tokens",
        serving_with(|parts| {
            parts.requests[3].output_tokens = Some(0);
            parts.requests[3].itl_ns = None;
        })
    );
    case!("request-reasoning", serving_with(|parts| parts.requests[3].reasoning_tokens = Some(4)));
    case!(
        "request-chunks",
        serving_with(|parts| {
            parts.requests[3].itl_tokens = Some(vec![1, 2]);
            parts.requests[4].output_tokens = Some(4);
        })
    );
    case!(
        "request-gap-sum",
        serving_with(|parts| {
            // 120 ms of gaps in 100 ms.
            parts.requests[3].itl_ns = Some(vec![70_000_000, 50_000_000]);
        })
    );

    case!("step-order", decode_with(|parts| parts.steps.swap(2, 3)));
    case!("step-unique", decode_with(|parts| parts.steps[3].step = 2));
    case!(
        "step-times",
        decode_with(|parts| {
            parts.steps[3].t_start_ns = Some(T0 + 5 * SECOND);
            parts.steps[4].t_start_ns = None;
        })
    );
    case!(
        "step-overlap",
        decode_with(|parts| {
            parts.steps[3].t_start_ns = Some(T0 + 2 * SECOND + SECOND / 2);
        })
    );
    case!("step-outside-decode", decode_with(|parts| parts.steps.push(step(100))));
    case!("step-iterations", decode_with(|parts| parts.steps[3].iterations = 0));
    case!("step-tokens", decode_with(|parts| parts.steps[3].new_tokens = 0));
    case!("step-prefill", decode_with(|parts| parts.steps[3].prefill_tokens = 512));
    case!("step-history", decode_with(|parts| parts.steps[3].history_tokens = None));
    case!("step-replicas", decode_with(|parts| parts.steps[99].replica = 1));

    let mut text = String::new();
    let mut broken = BTreeSet::new();
    for (id, spoil) in cases {
        let archive = TestArchive::new();
        spoil(&archive);
        let found = lines(&archive, &check_all(&archive));
        assert!(
            found.iter().any(|line| line.starts_with(&format!("{id} "))),
            "{id} was not found: {found:?}"
        );
        broken.insert(id);
        for line in found {
            let marker = if line.starts_with(&format!("{id} ")) { "" } else { "    also " };
            let word = |word: &str| match word.trim_end_matches(',') {
                digest if digest.len() == 64 => word.replace(digest, "DIGEST"),
                _ => word.to_owned(),
            };
            let line: Vec<_> = line.split(' ').map(word).collect();
            text.push_str(&format!("{marker}{}\n", line.join(" ")));
        }
    }
    // These need links or permissions, and have tests of their own.
    broken.extend(["archive-links", "archive-folders", "file-inside"]);
    let all: BTreeSet<_> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(all.len(), CHECKS.len(), "ids differ");
    assert_eq!(broken, all);
    insta::assert_snapshot!(text, @r#"
    run-finished .b.partial: the run was never finished: its writer is still at work, or was cut off; expected a run.json, written last
    run-id-unique again/a/run.json: run_id "a" is also that of the run in "a"; expected ids that differ
        also tables-of-kind power.parquet: it is missing; a serving run usually has it
        also tables-of-kind requests.parquet: it is missing; a serving run usually has it
        also stamps-present run.json: key "stages" lacks formal_start and formal_end, which would bound the measured window of a serving run
        also stamps-lifecycle run.json: key "stages" lacks idle_start, idle_end, launch, process_exit, memory_released, monitor_end, of what bounds the idle, startup, release and lifecycle values
    cell-one-side b/run.json: cell "b8" of setting "qwen-7b@H200 x 2 / tp1" is held out here and fitted in "a"; expected all of its runs on one side
    manifest-valid run.json: EOF while parsing an object at line 1 column 20
    file-missing requests.parquet: it is missing, but run.json lists it with 10 rows
        also tables-of-kind requests.parquet: it is missing; a serving run usually has it
    file-missing spec.yaml: it is missing, but run.json names it as the spec
    file-hash power.parquet: its SHA-256 is DIGEST, but run.json says DIGEST
    file-rows power.parquet: its row count is 602, but run.json says 3
    file-not-hashed power.parquet: run.json does not list this file, so its content could not be verified; expected its SHA-256 and row count under "files"
    file-not-hashed requests.parquet: run.json does not list this file, so its content could not be verified; expected its SHA-256 and row count under "files"
    file-readable requests.parquet: it does not end with PAR1, so it was cut off or is still being written
    file-empty requests.parquet: it has no rows; expected a row for one request, or no file
    column-missing requests.parquet status: the column is missing; expected string
    column-type requests.parquet output_tokens: string; expected uint32
    value-valid requests.parquet status 0: "done"; expected one of ok, error, timeout, cancelled
    tables-of-kind requests.parquet: it is missing; a serving run usually has it
    stamps-present run.json: key "stages" lacks formal_start and formal_end, which would bound the measured window of a serving run
    stamps-lifecycle run.json: key "stages" lacks process_exit, of what bounds the idle, startup, release and lifecycle values
    stamps-order run.json: "stages.warmup_start" is 2026-01-31T12:01:35Z, before "stages.ready" at 2026-01-31T12:01:41Z; expected it to follow
    stamps-window run.json: the idle window has no length: "stages.idle_start" and "stages.idle_end" are both 2026-01-31T12:00:00Z
    model-geometry run.json: key "model" lacks head_dim, of what decides how many bytes a decode iteration reads
    model-dense run.json: key "model.moe" is given; the energy model is for dense models, and leaves this run out
    claims-present run.json: key "claims" is empty; a summary run consists of its claims
    claims-unit run.json: key "claims[0].unit" of "node_sample_mean_power_w" is "kW"; expected "W"
    claims-unit run.json: key "claims[1].unit" of "runs" is ""; expected a unit, or "1" for a plain number
    average-window run.json: source "nvml" reads averages, but key "power_sources[0].averaging_window_ms" is null; expected the length of the average
    power-negative power.parquet power_w 5: 1 value is negative, the first -1 of device "gpu0"; expected a finite number of 0 or more, or null; left out
    power-not-finite power.parquet energy_j 5: 1 value is not finite, the first NaN of device "gpu0"; expected a finite number of 0 or more, or null; left out
    power-absent power.parquet 5: 1 of 301 rows of device "gpu0" of source "nvml" have no valid value; the first: neither power_w nor energy_j; expected one of both
    power-ceiling power.parquet power_w 5: 1 of 301 readings of device "gpu0" of source "nvml" are too high; the first: 4000.5 W; expected at most 4000 W of scope gpu-board
    power-ceiling power.parquet energy_j 5: 1 of 301 counter readings of device "gpu0" of source "nvml" rise too fast; the first: 4300 J in 1 s, which is 4300 W; expected at most 4000 W of scope gpu-board
    power-order power.parquet 6: rows are not sorted by source, device, t; no value depends on it
    power-order power.parquet 0: rows are not sorted by source, device, t; no value depends on it
    power-duplicate-time power.parquet t 6: 1 of 302 rows of device "gpu0" of source "nvml" repeat the time of another; the first: 2026-01-31T12:00:05Z; expected one row a time; such rows count as one, of their mean power and largest counter
    power-coverage power.parquet t: device "gpu0" of source "nvml" does not cover the idle window: the first sample comes 4 s after its start; expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu0" of source "nvml" does not cover the idle window: every sample lies before it, the last by 24900 s; expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu0" of source "nvml" does not cover the startup window: every sample lies before it, the last by 24960 s (about 7 h: is one of both in local time?); expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu0" of source "nvml" does not cover the formal window: every sample lies before it, the last by 25000 s (about 7 h: is one of both in local time?); expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu0" of source "nvml" does not cover the release window: every sample lies before it, the last by 25100 s (about 7 h: is one of both in local time?); expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu1" of source "nvml" does not cover the idle window: every sample lies before it, the last by 24900 s; expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu1" of source "nvml" does not cover the startup window: every sample lies before it, the last by 24960 s (about 7 h: is one of both in local time?); expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu1" of source "nvml" does not cover the formal window: every sample lies before it, the last by 25000 s (about 7 h: is one of both in local time?); expected samples within 3 s of both ends
    power-coverage power.parquet t: device "gpu1" of source "nvml" does not cover the release window: every sample lies before it, the last by 25100 s (about 7 h: is one of both in local time?); expected samples within 3 s of both ends
    power-gap power.parquet t 121: device "gpu0" of source "nvml" has 1 gap among 98 samples of the formal window, the longest 4 s, 4.0% of the window together; expected samples at most 3 s apart
    counter-falls power.parquet energy_j 150: 1 of 301 counter readings of device "gpu0" of source "nvml" fall; the first: from 44700 J to 5000 J; expected a counter that only rises; a range after which it starts again belongs in counter_wrap_j
    counter-falls power.parquet energy_j 150: 1 of 301 counter readings of device "gpu0" of source "nvml" fall; the first: from 44700 J to 5000 J; expected a counter that stays within counter_wrap_j, 40000 J
    counter-stalls power.parquet energy_j 110: the counter of device "gpu0" of source "nvml" has 1 standstill in the formal window, the longest 4 s, while power is above zero; expected it to rise within 3 s
    counter-asked power.parquet energy_j: key "energy_method" asks for the counter in formal, but one accelerator is without it, the first device "gpu0" of source "nvml"; expected energy_j, or "trapezoid"
    source-used power.parquet source: no row names source "ipmi"; expected rows, or no such entry in power_sources
    scope-overlap power.parquet source: device "gpu0" is measured by "nvml" and by "zeus", both of scope gpu-board; expected one source, and "nvml", listed first, is used
    scope-board-and-module run.json: both gpu-board and gpu-module are measured; boards are used, since a module contains its board
    device-count power.parquet device: 2 devices of scope gpu-board are measured, but key "hardware.count" is 8; expected as many
    request-order requests.parquet 3: rows are not sorted by t_send, request_id; no value depends on it
    request-id-unique requests.parquet request_id 3: 1 of 10 requests repeat an id; the first: "r2" was there before; expected ids that differ
    request-times requests.parquet t_end 3: 1 of 10 requests have times that run backwards; the first: "r3" has t_first_token 2026-01-31T12:01:52Z, 1 s before t_send; expected t_send <= t_first_token <= t_end
    request-durations requests.parquet ttft_ns 3: 1 of 10 requests get their first token after their end; the first: "r3" has ttft_ns 5 and e2e_ns 4; expected ttft_ns <= e2e_ns
    request-outside-formal requests.parquet stage 0: 2 of 10 requests are formal but reach outside the formal window; the first: "r0" was sent 1 s before its start; expected formal_start <= t_send and t_end <= formal_end
    request-tokens-timed requests.parquet output_tokens 3: 1 of 10 requests have output tokens but lack a time; the first: "r3" has 3 output tokens and no t_end; expected t_send, t_first_token and t_end, or ttft_ns and e2e_ns
    request-tokens-counted requests.parquet output_tokens 3: 1 of 10 requests succeeded without a count of output tokens; the first: "r3" has status ok and output_tokens null; expected a count
    request-zero-tokens requests.parquet output_tokens 3: 1 of 10 requests succeeded with zero output tokens; the first: "r3" has status ok and none; expected at least one
    request-reasoning requests.parquet reasoning_tokens 3: 1 of 10 requests have more reasoning tokens than output tokens; the first: "r3" has 4 of 3; expected output_tokens to include reasoning_tokens
    request-chunks requests.parquet itl_ns 3: 2 of 10 requests have chunks that do not add up; the first: "r3" has 3 tokens after 2 gaps and 3 output tokens; expected the tokens after the gaps (itl_tokens, or one each) to be output_tokens - 1
    request-gap-sum requests.parquet itl_ns 3: 1 of 10 requests have gaps longer than their generation; the first: "r3" has gaps of 0.12 s in 0.1 s; expected the gaps to end by t_end, within 1 ms and 1%
    step-order steps.parquet 3: rows are not sorted by replica, t_end, step; no value depends on it
    step-unique steps.parquet step 3: 1 of 100 rows repeat a step; the first: step 2 of replica 0 was there before; expected numbers that differ
    step-times steps.parquet t_end 3: 1 of 100 rows end before they start; the first: step 3 of replica 0 ends 1 s before it starts; expected t_start <= t_end
    step-overlap steps.parquet t_start 3: 1 of 100 rows overlap an earlier step; the first: step 3 of replica 0 overlaps by 0.5 s; expected steps of one replica to follow each other
    step-outside-decode steps.parquet t_end 100: 1 of 101 rows reach outside the decode window; the first: step 100 of replica 0 ends 1 s after the window; expected decode_start <= t_start and t_end <= decode_end; others are left out
    step-iterations steps.parquet iterations 3: 1 of 100 rows cover no iteration; the first: step 3 of replica 0 has iterations 0; expected at least 1
    step-tokens steps.parquet new_tokens 3: 1 of 100 rows yield no tokens; the first: step 3 of replica 0 has 4 active sequences; expected new_tokens above 0, unless they are dummy steps
    step-prefill steps.parquet prefill_tokens 3: 1 of 100 rows of the decode window prefill; the first: step 3 of replica 0 has 512 prefill tokens; expected prefill_tokens 0; the run stays out of the fits
    step-history steps.parquet history_tokens 3: 1 of 100 rows have no history; the first: step 3 of replica 0 has history_tokens null; expected history_tokens; without it the bytes of the KV cache are unknown
    step-replicas steps.parquet replica 99: 1 of 100 rows name an unknown replica; the first: step 99 of replica 1 is beyond them; expected replicas below engine.replicas, 1
    "#);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_archive_are_findings_and_nothing_behind_them_is_read() {
    use std::os::unix::fs::symlink;
    let (archive, elsewhere) = (TestArchive::new(), TestArchive::new());
    let secret = serving().write(&elsewhere);
    let run = serving().write(&archive);
    symlink(&secret.folder, archive.path().join("linked")).unwrap();
    fs::remove_file(run.folder.join("power.parquet")).unwrap();
    symlink(secret.folder.join("power.parquet"), run.folder.join("power.parquet")).unwrap();
    let check = check_all(&archive);
    let outside = fs::canonicalize(elsewhere.path()).unwrap().display().to_string();
    let text = lines(&archive, &check).join("\n").replace(&outside, "ELSEWHERE");
    insta::assert_snapshot!(text, @r#"
    archive-links linked: the link leads to "ELSEWHERE/a" and is not followed
    file-inside power.parquet: it leads out of the archive to "ELSEWHERE/a/power.parquet"
    file-inside run.json: it leads out of the archive to "ELSEWHERE/a/run.json"
    "#);
    let ids: Vec<_> =
        check.runs.iter().map(|run| (run.run.as_str(), run.run_id.as_deref())).collect();
    assert_eq!(ids, [("a", Some("a")), ("linked", None)]);
}

#[test]
fn a_folder_that_cannot_be_listed_is_a_finding() {
    let archive = TestArchive::new();
    serving().write(&archive);
    let mut listing = list_archive(archive.path()).unwrap();
    // Permissions mean nothing to the superuser, who may run the tests; so the listing says it.
    let mut closed = listing.runs[0].clone();
    closed.relative = "closed".into();
    listing.unreadable.push((closed, "Permission denied (os error 13)".into()));
    let check = check_archive(&listing, Vec::new());
    assert_eq!(
        lines(&archive, &check),
        ["archive-folders closed: cannot list the folder: Permission denied (os error 13)"]
    );
}

#[test]
fn a_counter_that_wraps_as_declared_and_one_read_more_often_than_refreshed_break_no_rule() {
    let archive = TestArchive::new();
    let mut parts = serving();
    parts.manifest.power_sources[0].counter_wrap_j = Some(50_000.0);
    for row in &mut parts.power {
        *row.energy_j.as_mut().unwrap() %= 50_000.0;
    }
    parts.write(&archive);
    // 700 W read each 5 ms from a counter that is refreshed each 100 ms: steps of 70 J.
    let mut parts = serving();
    parts.manifest.run_id = "b".into();
    parts.manifest.hardware.count = 1;
    parts.manifest.power_sources[0].counter_refresh_ms = Some(100.0);
    parts.manifest.power_sources[0].nominal_interval_ms = 5.0;
    parts.power = (0..60_001_i64)
        .map(|reading| PowerRow {
            t_ns: T0 + reading * 5_000_000,
            energy_j: Some(70.0 * (reading / 20) as f64),
            ..power(0, "gpu0", 700.0)
        })
        .collect();
    parts.write(&archive);
    assert_eq!(lines(&archive, &check_all(&archive)), Vec::<String>::new());
}

#[test]
fn absurd_values_are_findings_and_overflow_nothing() {
    let archive = TestArchive::new();
    let mut parts = serving();
    for (place, t_ns) in [(0, i64::MIN), (1, i64::MAX), (2, i64::MIN), (3, 0)] {
        parts.power[place].t_ns = t_ns;
        parts.power[place].power_w = Some(f64::MAX);
        parts.power[place].energy_j = Some(f64::MAX);
    }
    let request = &mut parts.requests[0];
    request.t_send_ns = Some(i64::MAX);
    request.t_first_token_ns = Some(i64::MIN);
    request.t_end_ns = Some(i64::MAX);
    request.itl_ns = Some(vec![u64::MAX; 3]);
    request.itl_tokens = Some(vec![u32::MAX; 3]);
    (request.output_tokens, request.reasoning_tokens) = (Some(u32::MAX), Some(u32::MAX));
    (request.ttft_ns, request.e2e_ns) = (Some(u64::MAX), Some(0));
    parts.steps = vec![step(0), step(1)];
    let step = &mut parts.steps[0];
    (step.step, step.replica, step.t_start_ns) = (u64::MAX, u16::MAX, Some(i64::MAX));
    (step.t_end_ns, step.history_tokens) = (i64::MIN, Some(u64::MAX));
    let stages = &mut parts.manifest.stages;
    stages.idle_start = Some(wattrace_schema::TimestampNs::from_nanos(i64::MIN));
    stages.monitor_end = Some(wattrace_schema::TimestampNs::from_nanos(i64::MAX));
    (stages.decode_start, stages.decode_end) = (stages.idle_start, stages.monitor_end);
    let run = parts.write(&archive);
    let found: BTreeSet<_> = check_run(&run).findings().map(|found| found.check).collect();
    for id in ["power-ceiling", "power-duplicate-time", "request-times", "step-times"] {
        assert!(found.contains(id), "{id} is not in {found:?}");
    }
    // Reading clean rows of the same run overflows nothing either.
    let loaded = crate::read_run(&run, crate::ReadOptions::default()).unwrap();
    assert_eq!(loaded.run.power[0].power_w.value[0], f64::MAX);
}

#[test]
fn what_cannot_be_read_is_not_checked_and_the_other_tables_are() {
    let archive = TestArchive::new();
    let mut parts = serving();
    parts.power[5].power_w = Some(-1.0);
    let run = parts.write(&archive);
    fs::write(run.folder.join("requests.parquet"), "not Parquet").unwrap();
    let check = check_run(&run);
    let outcome = |id: &str| {
        let result = check.checks.iter().find(|result| result.check == id).unwrap();
        (result.outcome, result.reason.as_deref())
    };
    assert_eq!(outcome("file-hash"), (Outcome::Broken, None));
    assert_eq!(outcome("file-readable"), (Outcome::Broken, None));
    assert_eq!(outcome("power-negative"), (Outcome::Broken, None));
    assert_eq!(outcome("power-gap"), (Outcome::Kept, None));
    let unread = Some("requests.parquet could not be read");
    assert_eq!(outcome("request-times"), (Outcome::NotChecked, unread));
    assert!(!check.passes());
}

#[test]
fn the_checklist_has_a_line_a_rule_and_the_findings_below() {
    let archive = TestArchive::new();
    let mut parts = serving();
    parts.power[5].power_w = Some(-1.0);
    parts.requests.swap(2, 3);
    parts.write(&archive);
    let mut second = serving();
    second.manifest.run_id = "b".into();
    second.write(&archive);
    let check = check_all(&archive);
    insta::assert_snapshot!(check.render(), @r#"
    [x] no symbolic link leads to a folder outside the archive
    [x] every folder can be listed
    [x] no run was left unfinished
    [x] every run_id is unique in the archive
    [x] no cell of a setting is both in the fit and held out
    [x] run.json can be read and makes sense
    [x] no file of a run lies outside the archive
    [x] every file that run.json names is there
    [x] every file has the SHA-256 that run.json gives
    [x] every file has as many rows as run.json says
    [x] every Parquet file is listed in run.json
    [x] every Parquet file can be decoded
    [x] no Parquet file is empty
    [x] every required column is there
    [x] every column has its declared type, or one that converts without loss
    [x] every value can be read: no null where a value is required, no unknown name, no number out of range
    [x] the run has the tables that its kind calls for
    [x] the stamps that bound the measurement are there
    [x] a serving run has the stamps of its whole lifecycle
    [x] stamps do not run backwards
    [x] every measured window has a length
    [x] a decode run has the model geometry that the energy model needs
    [x] the model of a decode run is dense
    [x] a summary run has claims
    [x] every claim has the unit that its metric is named for
    [x] a source that reads averages says over how long
    [ ] no power or counter value is negative (broken in 1 of 2 runs)
    [x] no power or counter value is NaN or infinite
    [x] every row has a power or a counter value
    [x] no power, and no step of a counter, is above what its scope can draw
    [x] power rows are sorted by source, device and time
    [x] no two rows of a device share a time
    [x] samples of every device cover every window
    [x] no two neighbouring samples in a window are further apart than three sample intervals
    [x] no energy counter falls, unless it wraps as its source declares
    [x] no energy counter stands still for more than three sample intervals while power is above zero
    [x] a stage that asks for the counter has one on every accelerator
    [x] every power source has rows
    [x] no device is measured by two sources of one scope
    [x] accelerators are measured either as boards or as modules
    [x] as many accelerators are measured as hardware.count says
    [x] requests are sorted by sending time and id
    [x] every request_id is unique in its run
    [x] no request ends before it starts or has its first token outside that time
    [x] no request has a time to first token longer than its whole time
    [x] formal requests lie inside the formal window
    [x] every successful request with output tokens has its times
    [x] every successful request has a count of output tokens
    [x] no successful request has zero output tokens
    [x] no request has more reasoning tokens than output tokens
    [x] the chunks of every successful request add up to its output tokens less the first
    [x] the gaps of a request fit between its first token and its end
    [-] steps are sorted by replica, end and number
    [-] no step of a replica is logged twice
    [-] no step ends before it starts
    [-] no two steps of a replica overlap in time
    [-] every step lies inside the decode window
    [-] every row covers at least one iteration
    [-] every step yields tokens
    [-] no step of the decode window prefills
    [-] every step says how much history it read
    [-] no step names a replica beyond engine.replicas

    error[power-negative] a/power.parquet power_w row 5: 1 value is negative, the first -1 of device "gpu0"; expected a finite number of 0 or more, or null; left out
    note[request-order] a/requests.parquet row 3: rows are not sorted by t_send, request_id; no value depends on it

    2 runs, 1 without a broken rule; 1 errors, 0 warnings, 1 notes
    "#);
    let json = serde_json::to_value(&check).unwrap();
    assert_eq!(json["runs"][0]["run_id"], "a");
    let negative = CHECKS
        .iter()
        .filter(|check| !matches!(check.test, Test::Archive(_)))
        .position(|check| check.id == "power-negative")
        .unwrap();
    insta::assert_snapshot!(json["runs"][0]["checks"][negative], @r#"{"check":"power-negative","findings":[{"check":"power-negative","column":"power_w","file":"power.parquet","message":"1 value is negative, the first -1 of device \"gpu0\"; expected a finite number of 0 or more, or null; left out","row":5,"severity":"error"}],"outcome":"broken"}"#);
}

#[test]
fn the_rules_in_machine_form_name_id_severity_and_text() {
    let json = checks_json();
    assert_eq!(json.as_array().unwrap().len(), CHECKS.len());
    insta::assert_snapshot!(json[0], @r#"{"about":"archive","id":"archive-links","rule":"no symbolic link leads to a folder outside the archive","severity":"error"}"#);
    for check in CHECKS {
        let is_kebab = check.id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(is_kebab && !check.rule.ends_with('.'), "{}", check.id);
    }
    assert_eq!(tables::POWER.file, "power.parquet");
}
