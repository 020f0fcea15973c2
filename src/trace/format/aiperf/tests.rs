use wattrace_schema::{Reading, RequestStage, RequestStatus};

use super::super::testing::{self, collect, detected, options};

/// A successful request, one of the warm-up that failed, and one that was cancelled.
pub(in super::super) const REQUESTS: &[u8] = br#"{"metadata":{"x_request_id":"a","request_start_ns":1736944496000000000,"request_end_ns":1736944496250000000,"benchmark_phase":"profiling","was_cancelled":false},"metrics":{"time_to_first_token":{"value":210.0,"unit":"ms"},"request_latency":{"value":250.0,"unit":"ms"},"inter_chunk_latency":{"value":[20.1,19.9],"unit":"ms"},"output_sequence_length":{"value":3,"unit":"tokens"},"input_sequence_length":{"value":512,"unit":"tokens"}},"error":null}
{"metadata":{"x_request_id":"b","request_start_ns":1736944495000000000,"request_end_ns":1736944495100000000,"benchmark_phase":"warmup","was_cancelled":false},"metrics":{"input_sequence_length":{"value":100,"unit":"tokens"}},"error":{"code":503,"type":"HTTPError","message":"overloaded"}}
{"metadata":{"x_request_id":"c","request_start_ns":1736944497000000000,"request_end_ns":1736944497400000000,"benchmark_phase":"profiling","was_cancelled":true,"cancellation_time_ns":1736944497400000000},"metrics":{},"error":null}
"#;

/// Two boards at one time, with 500 J between their counters, which are in megajoules.
pub(in super::super) const TELEMETRY: &[u8] = br#"{"timestamp_ns":1736944496000000000,"dcgm_url":"http://node1:9400/metrics","gpu_index":0,"gpu_uuid":"GPU-a","gpu_model_name":"NVIDIA H200","hostname":"node1","telemetry_data":{"gpu_power_usage":412.5,"energy_consumption":1.2345,"gpu_utilization":98.0,"gpu_memory_used":70.0,"gpu_temperature":61.0}}
{"timestamp_ns":1736944496000000000,"dcgm_url":"http://node1:9400/metrics","gpu_index":1,"gpu_uuid":"GPU-b","gpu_model_name":"NVIDIA H200","hostname":"node1","telemetry_data":{"gpu_power_usage":0.0,"energy_consumption":null}}
{"timestamp_ns":1736944497000000000,"dcgm_url":"http://node1:9400/metrics","gpu_index":0,"gpu_uuid":"GPU-a","gpu_model_name":"NVIDIA H200","hostname":"node1","telemetry_data":{"nvidia_power_usage":420.0,"nvidia_energy_consumption":1.235}}
"#;

#[test]
fn requests_keep_their_times_chunks_and_outcome() {
    let collected = collect("aiperf", REQUESTS, &options()).unwrap();
    let [a, b, c] = collected.requests.as_slice() else { panic!("{:?}", collected.requests) };
    let start = testing::nanos("2025-01-15T12:34:56Z");
    assert_eq!(a.t_send_ns, Some(start));
    assert_eq!(a.t_first_token_ns, Some(start + 210_000_000));
    assert_eq!(a.t_end_ns, Some(start + 250_000_000));
    assert_eq!(a.itl_ns, Some(vec![20_100_000, 19_900_000]));
    assert_eq!((a.input_tokens, a.output_tokens), (Some(512), Some(3)));
    assert_eq!(
        (a.stage, a.status, a.error.as_deref()),
        (RequestStage::Formal, RequestStatus::Ok, None)
    );
    // A failed request has no first token and no count, not zeros.
    assert_eq!((b.stage, b.status), (RequestStage::Warmup, RequestStatus::Error));
    assert_eq!(b.error.as_deref(), Some("503 HTTPError overloaded"));
    assert_eq!((b.t_first_token_ns, b.output_tokens), (None, None));
    assert_eq!((c.status, c.output_tokens), (RequestStatus::Cancelled, None));
}

/// The same record with another value of `key`.
fn with(old: &str, new: &str) -> Vec<u8> {
    let text = std::str::from_utf8(REQUESTS).unwrap().lines().next().unwrap();
    assert!(text.contains(old), "{old}");
    (text.replace(old, new) + "\n").into_bytes()
}

#[test]
fn units_are_read_from_the_record() {
    let seconds = with(r#""value":210.0,"unit":"ms""#, r#""value":0.21,"unit":"s""#);
    let collected = collect("aiperf", &seconds, &options()).unwrap();
    let row = &collected.requests[0];
    assert_eq!(row.t_first_token_ns.unwrap() - row.t_send_ns.unwrap(), 210_000_000);
}

#[test]
fn chunks_are_not_tokens() {
    // Five tokens came in three chunks: the gaps stay those of the chunks.
    let bytes = with(r#""value":3,"#, r#""value":5.0,"#);
    let collected = collect("aiperf", &bytes, &options()).unwrap();
    let row = &collected.requests[0];
    assert_eq!((row.output_tokens, row.itl_ns.as_ref().unwrap().len()), (Some(5), 2));
    assert_eq!(row.itl_tokens, None);
}

#[test]
fn broken_records_say_what_is_wrong() {
    let cases = [
        (
            with(r#""unit":"ms"},"request"#, r#""unit":"fortnights"},"request"#),
            "metrics.time_to_first_token: \"fortnights\" is no unit of time; expected one of ns, us, µs, ms, s, sec, min, h",
        ),
        (
            with("[20.1,19.9]", "[20.1,-19.9]"),
            "metrics.inter_chunk_latency: -19.9 ms is negative; expected a duration",
        ),
        (
            with("profiling", "cooldown"),
            "metadata.benchmark_phase is \"cooldown\"; expected \"profiling\" or \"warmup\"",
        ),
        (
            with(r#""request_start_ns":1736944496000000000"#, r#""request_start_ns":null"#),
            "metadata.request_start_ns is null; expected nanoseconds since 1970",
        ),
    ];
    for (bytes, message) in cases {
        assert_eq!(
            collect("aiperf", &bytes, &options()).unwrap_err(),
            format!("\"input\": holds no request of AIPerf; input line 1 skipped: {message}")
        );
    }
}

#[test]
fn lines_left_out_are_counted_and_strict_refuses_them() {
    let cut = &REQUESTS[..REQUESTS.len() - 40];
    let collected = collect("aiperf", cut, &options()).unwrap();
    assert_eq!((collected.requests.len(), collected.parts[0].skipped.count()), (2, 1));
    let strict = super::super::ImportOptions { strict: true, ..options() };
    assert_eq!(
        collect("aiperf", cut, &strict).unwrap_err(),
        "\"input\" line 3: was cut off; expected a line of JSON"
    );
}

#[test]
fn telemetry_becomes_power_and_counters_in_joules() {
    let collected = collect("aiperf", TELEMETRY, &options()).unwrap();
    let power: Vec<_> = collected
        .power
        .iter()
        .map(|row| (row.device.as_str(), row.power_w, row.energy_j))
        .collect();
    assert_eq!(
        power,
        [
            ("gpu0", Some(412.5), Some(1_234_500.0)),
            // Zero watts is a board without a sensor.
            ("gpu1", None, None),
            ("gpu0", Some(420.0), Some(1_235_000.0)),
        ]
    );
    assert_eq!(collected.power[0].memory_used_bytes, Some(70_000_000_000));
    let part = &collected.parts[0];
    assert_eq!(part.accelerator.as_deref(), Some("NVIDIA H200"));
    assert_eq!((part.accelerators, part.node.as_deref()), (Some(2), Some("node1")));
    let [source] = part.power_sources.as_slice() else { panic!("{:?}", part.power_sources) };
    assert_eq!((source.id.as_str(), source.reading), ("dcgm", Reading::Average));
    assert_eq!(source.nominal_interval_ms, 1000.0);
    insta::assert_snapshot!(part.notes.join("\n"), @"
    power of dcgm is taken for an average of the second before, as usual for NVIDIA H200; the file does not say
    readings of power that are zero or negative, null: 1
    ");
}

#[test]
fn a_second_host_keeps_its_boards_apart() {
    let other = std::str::from_utf8(TELEMETRY).unwrap().replace("node1", "node2");
    let both = [TELEMETRY, other.as_bytes()].concat();
    let collected = collect("aiperf", &both, &options()).unwrap();
    assert_eq!(collected.power[3].device, "node2/gpu0");
    assert_eq!(collected.parts[0].accelerators, Some(4));
}

#[test]
fn broken_telemetry_says_what_is_wrong() {
    assert_eq!(
        collect(
            "aiperf",
            b"{\"timestamp_ns\":\"soon\",\"gpu_index\":0,\"telemetry_data\":{}}\n",
            &options()
        )
        .unwrap_err(),
        "\"input\": holds no telemetry of AIPerf; input line 1 skipped: is not the JSON expected: invalid \
         type: string \"soon\", expected i64 at line 1 column 22"
    );
}

#[test]
fn both_files_are_told_by_their_keys() {
    assert_eq!(
        detected("aiperf", REQUESTS).unwrap(),
        "\"input\" has the metadata and metrics of AIPerf's requests"
    );
    assert_eq!(
        detected("aiperf", TELEMETRY).unwrap(),
        "\"input\" has timestamp_ns, gpu_index and telemetry_data of AIPerf"
    );
}

/// The published export, read in place where it is: 120 formal requests and one of the warm-up.
#[test]
fn a_published_export_imports_whole_and_passes_its_check() {
    let Some(folder) = super::super::tests::shared_data("inferencex_history") else { return };
    let path = folder.join("mi355x_aiperf_conc1/profile_export_head.jsonl");
    let archive = tempfile::tempdir().unwrap();
    let summary = super::super::import("aiperf", &[path], archive.path(), &options()).unwrap();
    assert_eq!(summary.failed, [""; 0]);
    let location = crate::find_runs(archive.path()).unwrap().remove(0);
    let run = crate::read_run(&location, crate::ReadOptions::default()).unwrap().run;
    let requests = run.requests.as_ref().unwrap();
    let formal = (0..requests.len()).filter(|index| requests.is_formal(*index)).count();
    assert_eq!((requests.len(), formal), (121, 120));
    // The client states 39641.874684999995 ms for the first; its two times differ by this.
    let first = (0..requests.len()).find(|index| !requests.is_formal(*index)).unwrap();
    let e2e = requests.t_end_ns[first].unwrap() - requests.t_send_ns[first].unwrap();
    assert_eq!(e2e, 39_641_874_685);
    let check = crate::check_run(&location);
    let findings: Vec<String> =
        check.findings().map(|finding| format!("{}: {}", finding.check, finding.message)).collect();
    println!("aiperf: 121 requests; {findings:#?} {:#?}", summary.notes);
    assert!(
        check.findings().all(|finding| finding.severity != crate::Severity::Error),
        "{findings:?}"
    );
}
