use std::fs;

use wattrace_schema::{EnergyMethod, RequestStage};

use super::*;
use crate::testing::{
    SECOND, T0, TestArchive, column_names, manifest, names, power, request, stamp, step,
};
use crate::{ReadOptions, read_run};

#[test]
fn equal_rows_give_equal_bytes() {
    let archives = [TestArchive::new(), TestArchive::new()];
    let [first, second] = archives.each_ref().map(|archive| {
        let run = archive.write(manifest("a"), |writer| {
            for second in 0..100 {
                writer.power(power(second, "gpu0", 300.0 + second as f64)).unwrap();
                writer.request(request(second, &format!("r{second}"))).unwrap();
                writer.step(step(second as u64)).unwrap();
            }
        });
        names(&run.folder).into_iter().map(move |name| {
            let bytes = fs::read(run.folder.join(&name)).unwrap();
            (name, bytes)
        })
    });
    let first: Vec<_> = first.collect();
    assert_eq!(first.len(), 4);
    assert!(first.into_iter().eq(second));
}

#[test]
fn optional_columns_without_a_value_are_left_out_and_so_are_empty_tables() {
    let archive = TestArchive::new();
    let run = archive.write(manifest("a"), |writer| {
        writer.power(power(0, "gpu0", 300.0)).unwrap();
        let with_counter = PowerRow { energy_j: Some(5.0), ..power(1, "gpu0", 300.0) };
        writer.power(with_counter).unwrap();
    });
    assert_eq!(names(&run.folder), ["power.parquet", "run.json"]);
    assert_eq!(
        column_names(run.folder.join("power.parquet")),
        ["t", "source", "device", "power_w", "energy_j"]
    );
}

#[test]
fn a_column_that_begins_after_the_first_row_group_is_there_for_every_row() {
    // Two row groups of 65,536 rows and a third; the counter begins in the last row in one run. In the
    // other the same rows lie the other way round, so that it begins in the first.
    let rows: Vec<_> = (0..140_000_i64)
        .map(|second| PowerRow {
            energy_j: (second == 139_999).then_some(7.0),
            ..power(second, "gpu0", 300.0)
        })
        .collect();
    let archive = TestArchive::new();
    let late = archive.write(manifest("late"), |writer| {
        rows.iter().for_each(|row| writer.power(row.clone()).unwrap());
    });
    let early = archive.write(manifest("early"), |writer| {
        rows.iter().rev().for_each(|row| writer.power(row.clone()).unwrap());
    });
    assert_eq!(names(&late.folder), ["power.parquet", "run.json"]);
    let [late, early] =
        [late, early].map(|run| read_run(&run, ReadOptions::default()).unwrap().run);
    assert_eq!(late.power, early.power);
    assert_eq!(late.power[0].power_w.len(), 140_000);
    assert_eq!(late.power[0].energy_j.value, [7.0]);
    assert_eq!(late.manifest.files["power.parquet"].rows, 140_000);
}

#[test]
fn nothing_appears_under_the_name_before_the_end_and_a_dropped_writer_leaves_nothing() {
    let archive = TestArchive::new();
    let mut writer = RunWriter::create(archive.path(), "a").unwrap();
    writer.power(power(0, "gpu0", 300.0)).unwrap();
    assert_eq!(names(archive.path()), [".a.partial"]);
    let error = RunWriter::create(archive.path(), "a").unwrap_err();
    insta::assert_snapshot!(archive.shown(&error), @r#""ARCHIVE/.a.partial" exists already: another program is writing this run, or was cut off; remove the folder if none is running"#);
    drop(writer);
    assert!(names(archive.path()).is_empty());
    // An archive that was made for the run goes with it, one that holds anything does not.
    let new = archive.path().join("new");
    drop(RunWriter::create(&new, "a").unwrap());
    assert!(!new.exists());
    let writer = RunWriter::create(&new, "a").unwrap();
    fs::write(new.join("notes.txt"), "kept").unwrap();
    drop(writer);
    assert_eq!(names(&new), ["notes.txt"]);
}

#[test]
fn an_existing_run_is_never_overwritten() {
    let archive = TestArchive::new();
    let run = archive.write(manifest("a"), |_| ());
    let before = fs::read(run.folder.join("run.json")).unwrap();
    let error = RunWriter::create(archive.path(), "a").unwrap_err();
    insta::assert_snapshot!(archive.shown(&error), @r#""ARCHIVE/a" exists already; a run is never overwritten, so choose another run id"#);

    // An empty folder of that name that appears meanwhile would be replaced by a plain rename.
    let writer = RunWriter::create(archive.path(), "b").unwrap();
    fs::create_dir(archive.path().join("b")).unwrap();
    let error = writer.finish(manifest("b")).unwrap_err();
    assert!(matches!(error, TraceError::RunExists { .. }), "{error}");
    assert_eq!(names(archive.path()), ["a", "b"]);
    assert!(names(&archive.path().join("b")).is_empty());
    assert_eq!(fs::read(run.folder.join("run.json")).unwrap(), before);
}

#[test]
fn a_run_id_must_be_the_name_of_one_folder() {
    let archive = TestArchive::new();
    let long = "x".repeat(241);
    let messages: Vec<_> = ["", " ", "a/b", "a\\b", "..", ".hidden", "a\nb", &long]
        .map(|id| {
            RunWriter::create(archive.path(), id).unwrap_err().to_string().replace(&long, "x…x")
        })
        .into();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    run id "" is empty; expected the name of one folder, such as "qwen-7b_rate-4_1"
    run id " " is empty; expected the name of one folder, such as "qwen-7b_rate-4_1"
    run id "a/b" holds a path separator; expected the name of one folder, such as "qwen-7b_rate-4_1"
    run id "a\\b" holds a path separator; expected the name of one folder, such as "qwen-7b_rate-4_1"
    run id ".." starts with a dot; expected the name of one folder, such as "qwen-7b_rate-4_1"
    run id ".hidden" starts with a dot; expected the name of one folder, such as "qwen-7b_rate-4_1"
    run id "a\nb" holds a control character; expected the name of one folder, such as "qwen-7b_rate-4_1"
    run id "x…x" is longer than 240 bytes; expected the name of one folder, such as "qwen-7b_rate-4_1"
    "#);
    assert!(names(archive.path()).is_empty());
}

#[test]
fn run_json_is_pretty_and_names_each_file() {
    let archive = TestArchive::new();
    let mut manifest = manifest("a");
    manifest.stages.formal_start = stamp(0);
    manifest.energy_method.formal = Some(EnergyMethod::Counter);
    // Whatever the caller put here is replaced by what was written.
    manifest.files.insert(
        "steps.parquet".into(),
        wattrace_schema::FileEntry { sha256: "0".repeat(64), rows: 1 },
    );
    let run = archive.write(manifest, |writer| writer.request(request(0, "r")).unwrap());
    let json = fs::read_to_string(run.folder.join("run.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let files = value["files"].as_object().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["requests.parquet"]);
    let bytes = fs::read(run.folder.join("requests.parquet")).unwrap();
    assert_eq!(files["requests.parquet"]["rows"], 1);
    assert_eq!(files["requests.parquet"]["sha256"], crate::digest::sha256_hex(&bytes));
    assert!(
        json.starts_with("{\n  \"schema_version\": 1,\n  \"run_id\": \"a\",\n")
            && json.ends_with("}\n")
    );
    assert!(json.contains("\"formal_start\": \"2026-01-31T12:00:00Z\""), "{json}");
}

#[test]
fn a_manifest_that_could_not_be_read_back_is_refused_and_leaves_nothing() {
    let archive = TestArchive::new();
    let message = |change: fn(&mut RunManifest), row: Option<PowerRow>| {
        let mut writer = RunWriter::create(archive.path(), "a").unwrap();
        row.into_iter().for_each(|row| writer.power(row).unwrap());
        let mut manifest = manifest("a");
        change(&mut manifest);
        writer.finish(manifest).unwrap_err().to_string()
    };
    let other_source = PowerRow { source: "ipmi".into(), ..power(0, "node", 900.0) };
    let messages = [
        message(|m| m.run_id = "b".into(), None),
        message(|m| m.schema_version = 2, None),
        message(|m| m.hardware.count = 0, None),
        message(|_| (), Some(other_source)),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    cannot write run "a": its manifest has run_id "b"; expected the same id
    cannot write run "a": key "schema_version" is 2; expected 1
    cannot write run "a": key "hardware.count" is 0; expected at least 1
    cannot write run "a": power rows name source "ipmi", which power_sources does not list
    "#);
    assert!(names(archive.path()).is_empty());
}

#[test]
fn other_files_stay_inside_the_run_and_off_its_own_names() {
    let archive = TestArchive::new();
    let mut writer = RunWriter::create(archive.path(), "a").unwrap();
    writer.extra_file("logs/server.log", b"ready").unwrap();
    writer.extra_file("truth.json", b"{}").unwrap();
    let messages: Vec<_> =
        ["", "../b", "/etc/x", "a\\b", "run.json", "power.parquet", "logs/x.parquet"]
            .map(|name| writer.extra_file(name, b"").unwrap_err().to_string())
            .into();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    cannot write a file named "" into a run: the name is empty
    cannot write a file named "../b" into a run: the name leads out of the run's folder
    cannot write a file named "/etc/x" into a run: the name leads out of the run's folder
    cannot write a file named "a\\b" into a run: the name holds a backslash or a control character
    cannot write a file named "run.json" into a run: run.json is written by finish
    cannot write a file named "power.parquet" into a run: Parquet tables are written row by row
    cannot write a file named "logs/x.parquet" into a run: Parquet tables are written row by row
    "#);
    assert!(writer.extra_file("truth.json", b"again").is_err());
    let folder = writer.finish(manifest("a")).unwrap();
    assert_eq!(names(&folder), ["logs", "run.json", "truth.json"]);
    assert_eq!(fs::read(folder.join("truth.json")).unwrap(), b"{}");
}

#[test]
fn files_name_the_program_and_the_unit_of_each_column() {
    let archive = TestArchive::new();
    let run = archive.write(manifest("a"), |writer| {
        writer.power(power(0, "gpu0", 300.0)).unwrap();
    });
    let file = fs::File::open(run.folder.join("power.parquet")).unwrap();
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let footer = reader.metadata().file_metadata();
    assert_eq!(footer.created_by(), Some(concat!("wattrace ", env!("CARGO_PKG_VERSION"))));
    let power = reader.schema().field_with_name("power_w").unwrap();
    assert_eq!(power.metadata().get("unit").map(|unit| unit.as_str()), Some("W"));
}

#[test]
fn joined_segments_are_the_file_that_one_writer_would_have_written() {
    let archive = TestArchive::new();
    // Power of two boards in turn; their counters begin in a later segment.
    fn powers<Text: Default + for<'a> From<&'a str>>() -> Vec<PowerRow<Text>> {
        let power = |second: i64| PowerRow {
            energy_j: (second >= 30).then_some(second as f64),
            ..power(second, ["gpu0", "gpu1"][second as usize % 2], 300.0 + second as f64)
        };
        (0..60).map(power).collect()
    }
    // Requests end in another order than they were sent: r0 after all others.
    let mut requests: Vec<_> =
        (0..30_i64).map(|second| request(second, &format!("r{second:02}"))).collect();
    requests.rotate_left(1);
    requests[5].itl_tokens = Some(vec![1, 2]);
    // The second replica logs first.
    let steps: Vec<_> = (0..30_u64)
        .map(|number| StepRow { replica: u16::from(number % 2 == 0), ..step(number) })
        .collect();

    let direct = archive.write(manifest("direct"), |writer| {
        let mut powers = powers::<String>();
        powers.sort_by(|a, b| (&a.device, a.t_ns).cmp(&(&b.device, b.t_ns)));
        powers.into_iter().for_each(|row| writer.power(row).unwrap());
        let mut requests = requests.clone();
        requests.sort_by_key(|row| row.t_send_ns);
        requests.into_iter().for_each(|row| writer.request(row).unwrap());
        let mut steps = steps.clone();
        steps.sort_by_key(|row| (row.replica, row.t_end_ns));
        steps.into_iter().for_each(|row| writer.step(row).unwrap());
    });
    let segments = tempfile::tempdir().unwrap();
    let segment = |name: String, rows: SegmentRows| {
        let path = segments.path().join(name);
        let entry = write_segment(&path, rows).unwrap().unwrap();
        assert_eq!(segment_entry(&path).unwrap(), entry);
        path
    };
    let joined = archive.write(manifest("joined"), |writer| {
        let paths: Vec<_> = (powers().chunks(7).enumerate())
            .map(|(at, rows)| segment(format!("p{at}"), SegmentRows::Power(rows.to_vec())))
            .collect();
        let rows = writer.append_segments(&POWER, &paths).unwrap();
        assert_eq!(rows, JoinedRows { rows: 60, sources: vec!["nvml".to_owned()] });
        let second = T0 + 59 * SECOND;
        assert_eq!(last_power_times(&paths[8]).unwrap(), [("nvml".to_owned(), second)]);
        let paths: Vec<_> = (requests.chunks(4).enumerate())
            .map(|(at, rows)| segment(format!("r{at}"), SegmentRows::Requests(rows.to_vec())))
            .collect();
        let of_first = &requests[..4];
        let latest = of_first.iter().filter(|row| row.stage == RequestStage::Formal);
        let latest = latest.filter_map(|row| row.t_end_ns).max();
        assert_eq!(last_formal_end(&paths[0]).unwrap(), latest);
        // Merged once before makes no difference.
        let merged = segments.path().join("merged");
        let entry = merge_segments(&merged, &REQUESTS, &paths[..5]).unwrap().unwrap();
        assert_eq!((entry.rows, segment_entry(&merged).unwrap()), (20, entry.clone()));
        let paths = [vec![merged], paths[5..].to_vec()].concat();
        assert_eq!(writer.append_segments(&REQUESTS, &paths).unwrap().rows, 30);
        let paths: Vec<_> = (steps.chunks(11).enumerate())
            .map(|(at, rows)| segment(format!("s{at}"), SegmentRows::Steps(rows.to_vec())))
            .collect();
        assert_eq!(writer.append_segments(&STEPS, &paths).unwrap().rows, 30);
    });
    for name in ["power.parquet", "requests.parquet", "steps.parquet"] {
        let [direct, joined] =
            [&direct, &joined].map(|run| fs::read(run.folder.join(name)).unwrap());
        assert!(direct == joined, "{name} differs");
    }
}

#[test]
fn a_segment_without_rows_is_no_file_and_one_that_is_cut_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("power-1.parquet");
    assert_eq!(write_segment(&path, SegmentRows::Power(Vec::new())).unwrap(), None);
    assert!(!path.exists());
    write_segment(&path, SegmentRows::Power(vec![power(0, "gpu0", 1.0)])).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(segment_entry(&path), Err(TraceError::Parquet { .. })));
}
