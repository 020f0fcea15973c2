use std::fs;
use std::path::Path;

use proptest::prelude::*;
use wattrace_schema::{NANOS_PER_SECOND, Run};

use super::*;
use crate::{ReadOptions, find_runs, read_run};

/// The files of a small run: ten samples, 09:00:00 to 09:00:09 UTC on 17 July 2024, of 1000 W, 1001 W, …;
/// the window is from 09:00:02.5 to 09:00:06.
#[derive(Clone)]
struct Case {
    spl: String,
    detail: String,
    summary: String,
    client: String,
}

pub(in super::super) const DETAIL: &str = r#"loading libraries
:::MLLOG {"key": "effective_scenario", "value": "Server", "time_ms": 0.1, "metadata": {}}
:::MLLOG {"key": "effective_target_qps", "value": 12.5, "time_ms": 0.1, "metadata": {}}
:::MLLOG {"key": "power_begin", "value": "07-17-2024 09:00:02.500", "time_ms": 9.5, "metadata": {}}
:::MLLOG {"key": "power_end", "value": "07-17-2024 09:00:06.000", "time_ms": 9.5, "metadata": {}}
:::MLLOG {"key": "result_token_throughput", "value": 5e-09, "time_ms": 9.6, "metadata": {}}
:::MLLOG {"key": "result_completed_tokens_per_second", "value": 250.04, "time_ms": 9.6, "metadata": {}}
"#;

pub(in super::super) const SUMMARY: &str = "MLPerf Results Summary
SUT name : some-SUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 5.5
Completed tokens per second: 250
Result is : VALID
Mean latency (ns)               : 4000000000
99.00 percentile latency (ns)   : 5000000000
Completed tokens per second                 : 251
50.00 percentile first token latency (ns)   : 204724131
99.00 percentile time to output token (ns)   : 158802079
";

/// 1721206790 is 08:59:50 UTC on 17 July 2024.
pub(in super::super) const CLIENT: &str = r#"{"timezone": 25200, "session_name": "2024-07-17_02-00-00", "phases": {
    "ranging": [[1721206000.5, 1.0]], "testing": [[1721206790.5, 10.0], [1721206820.0, 40.0]]},
    "ptd_messages": [
    {"cmd": "Identify", "reply": "Some,1000,version=1.10,MAKER;TYPE1;SERIAL;F1"},
    {"cmd": "Go,500,0,2024-07-17_02-00-00_testing", "reply": "Starting"},
    {"cmd": "Uncertainty", "reply": "Uncertainty,0.003121,0.0028,0.005,10,0,10,0"},
    {"cmd": "Watts", "reply": "Watts,1004.500000,1000.0,1009.0,10,0,10"}]}"#;

fn sample(second: u32, watts: &str) -> String {
    format!(
        "Time,07-17-2024 09:00:{second:02}.000,Watts,{watts},Volts,230.0,Amps,5.0,PF,0.99,Mark,\
         2024-07-17_02-00-00_testing\n"
    )
}

impl Case {
    fn new() -> Self {
        Self {
            spl: (0..10).map(|second| sample(second, &format!("{}.0", 1000 + second))).collect(),
            detail: DETAIL.into(),
            summary: SUMMARY.into(),
            client: CLIENT.into(),
        }
    }

    /// Writes the files flat into `folder`; an empty text is an absent file.
    fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in [
            ("run_1_spl.txt", &self.spl),
            ("run_1_mlperf_log_detail.txt", &self.detail),
            ("run_1_mlperf_log_summary.txt", &self.summary),
            ("power_client.json", &self.client),
        ] {
            if !text.is_empty() {
                fs::write(folder.join(name), text).unwrap();
            }
        }
    }

    fn import_with(&self, options: &ImportOptions) -> (Result<Run, String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("tiny-99_Server");
        self.write(&input);
        let archive = folder.path().join("archive");
        let summary = import(&input, &archive, options).unwrap();
        let path = format!("{}{}", input.display(), std::path::MAIN_SEPARATOR);
        match summary.failed.first() {
            Some(message) => (Err(message.replace(&path, "")), summary.notes),
            None => (Ok(only_run(&archive)), summary.notes),
        }
    }

    fn import(&self) -> (Result<Run, String>, Vec<String>) {
        self.import_with(&ImportOptions::default())
    }

    fn error(&self) -> String {
        self.import().0.unwrap_err()
    }
}

fn only_run(archive: &Path) -> Run {
    let runs = find_runs(archive).unwrap();
    assert_eq!(runs.len(), 1);
    read_run(&runs[0], ReadOptions::default()).unwrap().run
}

/// MLPerf's rule: the plain mean of the samples in the formal window.
fn sample_mean_power_w(run: &Run) -> f64 {
    let stages = run.manifest.stages;
    let window = stages.formal_start.unwrap().nanos()..=stages.formal_end.unwrap().nanos();
    let power = &run.power[0].power_w;
    let inside: Vec<f64> = power
        .t_ns
        .iter()
        .zip(&power.value)
        .filter(|(time, _)| window.contains(time))
        .map(|(_, watts)| *watts)
        .collect();
    inside.iter().sum::<f64>() / inside.len() as f64
}

fn claim<'a>(run: &'a Run, metric: &str) -> Option<&'a Claim> {
    run.manifest.claims.iter().find(|claim| claim.metric == metric)
}

#[test]
fn a_run_has_node_power_a_window_and_claims() {
    let (run, notes) = Case::new().import();
    let run = run.unwrap();
    let manifest = &run.manifest;
    assert_eq!(manifest.run_id, "tiny-99_Server");
    assert_eq!(manifest.kind, RunKind::Serving);
    assert_eq!(manifest.configuration.as_deref(), Some("Server"));
    assert_eq!(manifest.model, Model { name: "tiny-99".into(), ..Model::default() });
    assert_eq!(manifest.workload.request_rate, Some(12.5));
    assert_eq!(manifest.stages.formal_start.unwrap().to_string(), "2024-07-17T09:00:02.5Z");
    assert_eq!(manifest.stages.formal_end.unwrap().to_string(), "2024-07-17T09:00:06Z");
    let source = &manifest.power_sources[0];
    assert_eq!((source.scope, source.reading), (Scope::Node, Reading::Average));
    assert_eq!((source.nominal_interval_ms, source.accuracy_percent), (500.0, Some(0.3121)));
    assert_eq!(run.power[0].power_w.len(), 10);
    // The samples at 3, 4, 5 and 6 s: (1003 + 1004 + 1005 + 1006) / 4; the one at 2 s is outside.
    assert_eq!(sample_mean_power_w(&run), 1004.5);
    let shown: Vec<String> = manifest
        .claims
        .iter()
        .map(|claim| format!("{} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    output_throughput_tok_s 250 tok/s (run_1_mlperf_log_summary.txt line 6)
    request_throughput_req_s 5.5 req/s (run_1_mlperf_log_summary.txt line 5)
    ttft_p50_ms 204.724131 ms (run_1_mlperf_log_summary.txt line 11)
    tpot_p99_ms 158.802079 ms (run_1_mlperf_log_summary.txt line 12)
    e2e_mean_ms 4000 ms (run_1_mlperf_log_summary.txt line 8)
    e2e_p99_ms 5000 ms (run_1_mlperf_log_summary.txt line 9)
    ");
    insta::assert_snapshot!(notes.join("\n"), @r#"
    tiny-99_Server: the times of run_1_spl.txt are UTC: read so, they lie in the session's testing phase; dates are month first
    tiny-99_Server: power_begin and power_end are UTC: read so, they lie in the session's testing phase; dates are month first
    tiny-99_Server: run_1_mlperf_log_detail.txt line 6: result_token_throughput is 5e-9, but run_1_mlperf_log_summary.txt line 6 says 250 tok/s; the summary's value is the claim
    tiny-99_Server: neither path nor logs name the accelerators: hardware.accelerator is "unknown" and its count, 1, stands for the node that was measured
    tiny-99_Server: wall power by MAKER TYPE1, averaged over each interval; accuracy_percent is the mean uncertainty that PTDaemon computed for the session
    "#);
    assert_eq!(manifest.provenance.notes.len(), notes.len());
    let from = manifest.provenance.imported_from.as_ref().unwrap();
    assert!(from.starts_with("mlperf-power: run_1_spl.txt (SHA-256 "), "{from}");
}

#[test]
fn the_published_layout_names_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new();
    let flat = folder.path().join("flat");
    case.write(&flat);
    let scenario = folder.path().join("results/H200-SXM-141GBx8_TRT/tiny-99/Server");
    for (from, to) in [
        ("run_1_spl.txt", "performance/run_1/spl.txt"),
        ("run_1_mlperf_log_detail.txt", "performance/run_1/mlperf_log_detail.txt"),
        ("run_1_mlperf_log_summary.txt", "performance/run_1/mlperf_log_summary.txt"),
        ("power_client.json", "performance/power/client.json"),
        ("run_1_spl.txt", "performance/ranging/spl.txt"),
    ] {
        let to = scenario.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(flat.join(from), to).unwrap();
    }
    let archive = folder.path().join("archive");
    let summary = import(&scenario, &archive, &ImportOptions::default()).unwrap();
    assert!(summary.notes[0].ends_with("passed over: the ranging run"), "{:?}", summary.notes);
    let manifest = only_run(&archive).manifest;
    assert_eq!(manifest.run_id, "H200-SXM-141GBx8_TRT_tiny-99_Server");
    assert_eq!(manifest.hardware.accelerator, "H200-SXM-141GB");
    assert_eq!(manifest.hardware.count, 8);
    assert_eq!(manifest.hardware.node.as_deref(), Some("H200-SXM-141GBx8_TRT"));
    // A second import into the same archive changes nothing and says so.
    let again = import(&scenario, &archive, &ImportOptions::default()).unwrap();
    assert!(again.failed[0].contains("exists already"), "{:?}", again.failed);
}

#[test]
fn offline_latencies_are_not_those_of_requests() {
    let mut case = Case::new();
    case.detail = DETAIL.replace("Server", "Offline");
    case.summary = SUMMARY
        .replace("Scenario : Server", "Scenario : Offline")
        .replace("Completed tokens", "Tokens")
        .replace("Completed samples", "Samples");
    let (run, notes) = case.import();
    let run = run.unwrap();
    assert_eq!(claim(&run, "output_throughput_tok_s").unwrap().value, 250.0);
    assert!(claim(&run, "e2e_p99_ms").is_none());
    assert_eq!(run.manifest.workload.request_rate, None);
    assert!(notes.iter().any(|note| note.contains("count from the one query")));
}

#[test]
fn readings_that_are_none_become_null_and_are_counted() {
    let mut case = Case::new();
    case.spl =
        case.spl.replace("Watts,1004.0", "Watts,-1.000000").replace("Watts,1007.0", "Watts,0.0");
    let (run, notes) = case.import();
    let run = run.unwrap();
    assert_eq!(run.power[0].power_w.len(), 8);
    // (1003 + 1005 + 1006) / 3
    assert_eq!(sample_mean_power_w(&run), 3014.0 / 3.0);
    let note =
        "readings of no valid power (zero, negative or not a number), null: 2, the first on line 5";
    assert!(notes.iter().any(|text| text.ends_with(note)), "{notes:?}");
    assert!(
        notes.iter().any(|text| text.contains("PTDaemon counted 10 of 1004.5000 W")),
        "{notes:?}"
    );
}

#[test]
fn only_the_testing_session_belongs_to_the_run() {
    let mut case = Case::new();
    let ranging = sample(0, "5").replace("_testing", "_ranging");
    let other = sample(1, "6").replace("02-00-00", "01-00-00");
    let unmarked = "Time,07-17-2024 09:00:09.500,Watts,1010.0\n";
    case.spl = format!("{ranging}{other}{}\n  \n{unmarked}", case.spl);
    let (run, notes) = case.import();
    assert_eq!(run.unwrap().power[0].power_w.len(), 11);
    for what in
        ["the ranging run, left out: 1", "other sessions, left out: 1", "without a mark, kept: 1"]
    {
        assert!(notes.iter().any(|note| note.contains(what)), "{what}: {notes:?}");
    }
    // Without the session's name, a second session is an error.
    case.client = case.client.replace("\"session_name\": \"2024-07-17_02-00-00\", ", "");
    insta::assert_snapshot!(case.error(), @r#""run_1_spl.txt" line 3: "Mark" is "2024-07-17_02-00-00_testing" after "2024-07-17_01-00-00_testing"; expected one session, or the client.json or server.json that says which"#);
}

#[test]
fn channels_that_do_not_add_up_are_noted() {
    let mut case = Case::new();
    case.spl = case.spl.replacen("_testing\n", "_testing,Ch1,Watts,500.0,Ch2,Watts,490.0\n", 1);
    let (run, notes) = case.import();
    assert_eq!(run.unwrap().power[0].power_w.value[0], 1000.0);
    let note =
        "samples whose channels do not add up to the total, which is used: 1, the first on line 1";
    assert!(notes.iter().any(|text| text.ends_with(note)), "{notes:?}");
}

#[test]
fn local_times_are_recognised_or_named() {
    let mut case = Case::new();
    case.spl = case.spl.replace(" 09:", " 02:");
    let (run, notes) = case.import();
    let first = run.unwrap().power[0].power_w.t_ns[0];
    assert_eq!(TimestampNs::from_nanos(first).to_string(), "2024-07-17T09:00:00Z");
    assert!(notes.iter().any(|note| note.contains("run_1_spl.txt are local time (UTC-07:00)")));
    assert!(notes.iter().any(|note| note.contains("power_begin and power_end are UTC")));

    // Without the session's files the zone must be named, and then holds for all times.
    let mut case = Case::new();
    case.client.clear();
    insta::assert_snapshot!(case.error(), @r#""run_1_spl.txt": the times of run_1_spl.txt have no zone, and there is no client.json or server.json whose "testing" phase could tell it; name the zone (--tz), such as UTC"#);
    let in_zone =
        |zone: &str| ImportOptions { time_zone: Some(zone.into()), ..ImportOptions::default() };
    let (run, notes) = case.import_with(&in_zone("America/Los_Angeles"));
    let start = run.unwrap().manifest.stages.formal_start.unwrap();
    assert_eq!(start.to_string(), "2024-07-17T16:00:02.5Z");
    assert!(notes.iter().any(|note| note.contains("are in the zone that the import names")));
    let (run, _) = case.import_with(&in_zone("Nowhere"));
    assert!(run.unwrap_err().starts_with("\"Nowhere\" is no time zone"));
    // The window and the samples in two zones: nothing is in the window.
    case.spl = case.spl.replace(" 09:", " 02:");
    insta::assert_snapshot!(case.import_with(&in_zone("UTC")).0.unwrap_err(), @r#""run_1_mlperf_log_detail.txt" line 4: power_begin to power_end is 2024-07-17T09:00:02.5Z to 2024-07-17T09:00:06Z, but the samples lie from 2024-07-17T02:00:00Z to 2024-07-17T02:00:09Z; expected samples in the window, so name the zone of the logs (--tz)"#);
}

#[test]
fn a_day_first_log_is_read_day_first() {
    let mut case = Case::new();
    case.spl = case.spl.replace("07-17-2024", "17-07-2024");
    let (run, notes) = case.import();
    assert_eq!(sample_mean_power_w(&run.unwrap()), 1004.5);
    assert!(notes.iter().any(|note| note.ends_with("dates are day first")), "{notes:?}");
}

#[test]
fn cut_off_and_broken_lines_are_counted_or_refused() {
    let mut case = Case::new();
    case.spl.truncate(case.spl.len() - 60);
    case.detail.push_str(":::MLLOG {\"key\": \"result_val");
    let (run, notes) = case.import();
    assert_eq!(run.unwrap().power[0].power_w.len(), 9);
    let note =
        "run_1_spl.txt line 10 skipped: was cut off: it has 5 cells, the sample before it 12";
    assert!(notes.iter().any(|text| text.ends_with(note)), "{notes:?}");
    assert!(
        notes.iter().any(|text| text.contains("detail.txt line 8 skipped: is no entry")),
        "{notes:?}"
    );
    let strict = ImportOptions { strict: true, ..ImportOptions::default() };
    let message = case.import_with(&strict).0.unwrap_err();
    assert!(
        message.contains("detail.txt\" line 8: is no entry of the load generator"),
        "{message}"
    );
    case.detail = DETAIL.into();
    let message = case.import_with(&strict).0.unwrap_err();
    insta::assert_snapshot!(message, @r#""run_1_spl.txt" line 10: was cut off: it has 5 cells, the sample before it 12"#);

    let mut case = Case::new();
    case.spl = format!("{}rubbish\n\u{fffd}\n{}", sample(0, "1000.0"), case.spl);
    let (_, notes) = case.import();
    let note = "run_1_spl.txt: 2 lines skipped, 2, 3; line 2: does not start with \"Time,\"; \
                expected a PTDaemon sample";
    assert!(notes.iter().any(|text| text.ends_with(note)), "{notes:?}");
}

/// One way to break the files.
type Damage = fn(&mut Case);

#[test]
fn broken_runs_say_what_is_wrong() {
    let cases: &[(Damage, &str)] = &[
        (
            |case| case.detail.clear(),
            "cannot read \"run_1_mlperf_log_detail.txt\": No such file or directory (os error 2)",
        ),
        (|case| case.spl.insert_str(0, "x\n"), ""),
        (
            |case| case.spl = "x\n\n".into(),
            "\"run_1_spl.txt\": holds no sample of session \"2024-07-17_02-00-00_testing\"; run_1_spl.txt line 1 \
          skipped: does not start with \"Time,\"; expected a PTDaemon sample",
        ),
        (
            |case| case.spl = case.spl.replace("_testing", "_ranging"),
            "\"run_1_spl.txt\": holds no sample of session \"2024-07-17_02-00-00_testing\", but 10 of the ranging \
          run and 0 of other sessions",
        ),
        (
            |case| case.detail = DETAIL.replace("power_begin", "power_other"),
            "\"run_1_mlperf_log_detail.txt\": has no \"power_begin\"; expected the log of a power run",
        ),
        (
            |case| case.detail = DETAIL.replace("power_end", "power_begin"),
            "\"run_1_mlperf_log_detail.txt\" line 5: \"power_begin\" stands on line 4 already; expected one \
          measurement a log",
        ),
        (
            |case| case.detail = DETAIL.replace("\"07-17-2024 09:00:06.000\"", "17"),
            "\"run_1_mlperf_log_detail.txt\" line 5: \"power_end\" is 17; expected a time such as \"01-31-2025 \
          12:34:56.789\"",
        ),
        (
            |case| case.detail = DETAIL.replace("09:00:06", "09:00:01"),
            "\"run_1_mlperf_log_detail.txt\" line 5: \"power_end\" is 2024-07-17T09:00:01Z; expected a time after \
          \"power_begin\", 2024-07-17T09:00:02.5Z",
        ),
        (
            |case| case.detail = DETAIL.replace("Server", "Offline"),
            "\"run_1_mlperf_log_detail.txt\": is of scenario \"Offline\", the summary beside it of \"Server\"; \
          expected the logs of one run",
        ),
        (
            |case| {
                (case.detail, case.summary) = (DETAIL.replace("effective_s", "s"), String::new());
            },
            "\"run_1_mlperf_log_detail.txt\": has no \"effective_scenario\"; expected a detail log of the load \
          generator",
        ),
        (
            |case| case.summary = "some text".into(),
            "\"run_1_mlperf_log_summary.txt\": has no \"Scenario\"; expected a summary of the load generator",
        ),
        (
            |case| case.summary = SUMMARY.replace(": 250\n", ": many\n"),
            "\"run_1_mlperf_log_summary.txt\" line 6: \"Completed tokens per second\" is \"many\"; expected a number",
        ),
        (
            |case| case.client.truncate(40),
            "\"power_client.json\" line 1: is not a power session: EOF while parsing a string at line 1 column 40",
        ),
        (
            |case| case.spl = case.spl.replace("07-17-2024", "07-18-2024"),
            "\"run_1_spl.txt\": the times of run_1_spl.txt, 2024-07-18T09:00:00 to 2024-07-18T09:00:09, lie outside \
          the session's testing phase, 2024-07-17T08:59:50.5Z to 2024-07-17T09:00:20Z, read as UTC, \
          local time (UTC-07:00), local summer time (UTC-06:00); name the zone (--tz)",
        ),
        (
            |case| case.spl = case.spl.replacen("07-17-2024", "17-07-2024", 1),
            "\"run_1_spl.txt\": the times of run_1_spl.txt have no order of day and month in which all dates exist",
        ),
    ];
    for (number, (damage, expected)) in cases.iter().enumerate() {
        let mut case = Case::new();
        damage(&mut case);
        match case.import().0 {
            Err(message) => assert_eq!(message, *expected, "case {number}"),
            Ok(_) => assert_eq!(*expected, "", "case {number} was imported"),
        }
    }
}

#[test]
fn the_two_files_of_a_session_must_agree() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("tiny-99_Server");
    Case::new().write(&input);
    let other = CLIENT.replace("02-00-00\", \"phases", "03-00-00\", \"phases");
    fs::write(input.join("power_server.json"), other).unwrap();
    let summary = import(&input, &folder.path().join("a"), &ImportOptions::default()).unwrap();
    let expected =
        "is of session \"2024-07-17_03-00-00\", the other file of \"2024-07-17_02-00-00\"";
    assert!(summary.failed[0].ends_with(expected), "{:?}", summary.failed);
}

#[test]
fn one_broken_run_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    Case::new().write(&input.join("good_Server"));
    Case { detail: String::new(), ..Case::new() }.write(&input.join("bad_Server"));
    let summary = import(&input, &folder.path().join("a"), &ImportOptions::default()).unwrap();
    assert_eq!((summary.runs.len(), summary.failed.len()), (1, 1));
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let message = import(&empty, &folder.path().join("a"), &ImportOptions::default()).unwrap_err();
    let expected = "holds no spl.txt of a measured run; expected the folder of a power result";
    assert!(message.to_string().ends_with(expected), "{message}");
}

#[test]
fn it_is_recognised_by_its_samples() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("samples.dat");
    fs::write(&file, format!("\n{}", sample(1, "3"))).unwrap();
    assert!(detect(&file).unwrap().ends_with("samples.dat\" is a sample of PTDaemon"));
    assert!(detect(folder.path()).is_some());
    fs::write(&file, "time,watts\n").unwrap();
    assert_eq!(detect(&file), None);
    assert_eq!(detect(folder.path()), None);
    assert_eq!(detect(&folder.path().join("nothing")), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any byte of any file may be any other: the import ends with a run or with a reason.
    #[test]
    fn mutated_files_never_panic(
        which in 0_usize..4,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let case = Case::new();
        let texts = [&case.spl, &case.detail, &case.summary, &case.client];
        let mut bytes = texts[which].clone().into_bytes();
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("tiny-99_Server");
        case.write(&input);
        let names = ["run_1_spl.txt", "run_1_mlperf_log_detail.txt", "run_1_mlperf_log_summary.txt",
            "power_client.json"];
        fs::write(input.join(names[which]), bytes).unwrap();
        let summary = import(&input, &folder.path().join("a"), &ImportOptions::default()).unwrap();
        prop_assert_eq!(summary.runs.len() + summary.failed.len(), 1);
    }
}

/// The published logs, read in place where they are.
#[test]
fn the_published_runs_give_the_published_power() {
    let Some(input) = crate::format::tests::shared_data("mlperf_v4.1_power") else { return };
    assert!(detect(&input).is_some());
    let folder = tempfile::tempdir().unwrap();
    let summary = import(&input, folder.path(), &ImportOptions::default()).unwrap();
    assert_eq!(summary.failed, [""; 0]);
    assert_eq!(summary.runs.len(), 2);
    let runs = find_runs(folder.path()).unwrap();
    let mut means = Vec::new();
    for location in &runs {
        let loaded = read_run(location, ReadOptions::default()).unwrap();
        let run = loaded.run;
        let seconds = run.power[0].power_w.len();
        assert!((3000..4000).contains(&seconds), "{seconds}");
        let rate = claim(&run, "output_throughput_tok_s").unwrap().value;
        let formal = run.manifest.stages;
        let span = formal.formal_end.unwrap().nanos() - formal.formal_start.unwrap().nanos();
        means.push(format!(
            "{}: {:.4} W over {:.3} s, {rate} tok/s, {:.3} J/token",
            run.manifest.run_id,
            sample_mean_power_w(&run),
            span as f64 / NANOS_PER_SECOND,
            sample_mean_power_w(&run) / rate
        ));
    }
    // Means and rates as the publisher's checker has them, to four decimals.
    insta::assert_snapshot!(means.join("\n"), @"
    llama2-70b-99_Offline: 6152.9844 W over 3116.735 s, 25262.1 tok/s, 0.244 J/token
    llama2-70b-99_Server: 6280.2140 W over 2500.052 s, 23113.14 tok/s, 0.272 J/token
    ");
    insta::assert_snapshot!(summary.notes.join("\n"), @r#"
    llama2-70b-99_Offline: the times of run_1_spl.txt are UTC: read so, they lie in the session's testing phase; dates are month first
    llama2-70b-99_Offline: power_begin and power_end are UTC: read so, they lie in the session's testing phase; dates are month first
    llama2-70b-99_Offline: latencies of the Offline scenario count from the one query that holds all samples, so they are not claimed for requests
    llama2-70b-99_Offline: neither path nor logs name the accelerators: hardware.accelerator is "unknown" and its count, 1, stands for the node that was measured
    llama2-70b-99_Offline: wall power by YOKOGAWA WT333E, averaged over each interval; accuracy_percent is the mean uncertainty that PTDaemon computed for the session
    llama2-70b-99_Server: the times of run_1_spl.txt are UTC: read so, they lie in the session's testing phase; dates are month first
    llama2-70b-99_Server: power_begin and power_end are UTC: read so, they lie in the session's testing phase; dates are month first
    llama2-70b-99_Server: run_1_mlperf_log_detail.txt line 109: result_token_throughput is 7.33705e-9, but run_1_mlperf_log_summary.txt line 8 says 23113.14 tok/s; the summary's value is the claim
    llama2-70b-99_Server: neither path nor logs name the accelerators: hardware.accelerator is "unknown" and its count, 1, stands for the node that was measured
    llama2-70b-99_Server: wall power by YOKOGAWA WT333E, averaged over each interval; accuracy_percent is the mean uncertainty that PTDaemon computed for the session
    "#);
}
