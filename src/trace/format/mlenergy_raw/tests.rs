use wattrace_schema::{Interpolation, RequestStatus};

use super::super::ImportOptions;
use super::super::testing::{self, collect, detected, options};

/// Two boards for a second, a request that succeeded and one that failed with zeros in place of times.
pub(in super::super) const RESULTS: &[u8] = br#"{"model_id":"Qwen/Qwen3-8B","gpu_model":"H100","num_gpus":2,"max_num_seqs":16,"num_prompts":2,"completed":1,
 "duration":10.0,"steady_state_duration":5.0,"steady_state_energy":3000.0,"steady_state_energy_per_token":0.25,
 "output_throughput":400.0,"median_itl_ms":20.0,"std_ttft_ms":3.0,"p99_e2el_ms":900.0,"p25_itl_ms":19.0,
 "steady_state_measurement":{"time":5.0,"gpu_energy":{"0":1400.0,"1":1600.0},"cpu_energy":null},
 "entire_benchmark_measurement":{"time":10.0,"gpu_energy":{"0":2800.0,"1":3200.0}},
 "timeline":{"benchmark_start_time":1736944496.0,"benchmark_end_time":1736944506.0,
  "steady_state_start_time":1736944498.0,"steady_state_end_time":1736944503.0,
  "power":{"device_instant":{"0":[[1736944496.0,300.0],[1736944496.5,310.0]],"1":[[1736944496.0,290.0],[1736944496.25,0.0]]},
           "device_average":{"0":[[1736944496.0,301.0]]},
           "memory_average":{"0":[[1736944496.0,50.0]]}},
  "temperature":{"0":[[1736944496.0,55]]}},
 "results":[
  {"prompt":"p","output_text":"o","reasoning_output_text":"","input_len":10,"output_len":3,"dataset_output_len":3,
   "latency":0.3,"ttft":0.2,"itl":[0.06,0.04],"success":true,"error":"","energy":0.75},
  {"prompt":"p","output_text":"","input_len":10,"output_len":0,"latency":0.0,"ttft":0.0,"itl":[],"success":false,"error":"read timeout","energy":0.0}]}
"#;

/// Two scrapes with a histogram, a label that holds a brace, and a value that is no number.
pub(in super::super) const PROMETHEUS: &[u8] = br##"{"collection_interval":1.0,"timeline":[
 {"timestamp":1736944496.5,"metrics":"# HELP vllm:num_requests_running n\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"a{b\"} 4.0\nprocess_cpu_seconds_total 12.5\n"},
 {"timestamp":1736944497.5,"metrics":"vllm:num_requests_running{engine=\"0\",model_name=\"a{b\"} NaN\n"}],
 "steady_state_stats":{}}
"##;

fn text() -> String {
    String::from_utf8(RESULTS.to_vec()).unwrap()
}

#[test]
fn requests_have_durations_and_failures_no_zeros() {
    let collected = collect("mlenergy-raw", RESULTS, &options()).unwrap();
    let [ok, failed] = collected.requests.as_slice() else { panic!() };
    assert_eq!((ok.t_send_ns, ok.ttft_ns, ok.e2e_ns), (None, Some(200_000_000), Some(300_000_000)));
    assert_eq!(ok.itl_ns, Some(vec![60_000_000, 40_000_000]));
    assert_eq!((ok.input_tokens, ok.output_tokens), (Some(10), Some(3)));
    assert_eq!(
        (failed.status, failed.error.as_deref()),
        (RequestStatus::Timeout, Some("read timeout"))
    );
    assert_eq!((failed.ttft_ns, failed.e2e_ns, failed.output_tokens), (None, None, None));
}

#[test]
fn power_is_a_step_function_of_each_board() {
    let collected = collect("mlenergy-raw", RESULTS, &options()).unwrap();
    let start = testing::nanos("2025-01-15T12:34:56Z");
    let rows: Vec<_> = collected
        .power
        .iter()
        .map(|row| (row.source.as_str(), row.device.as_str(), row.t_ns - start, row.power_w))
        .collect();
    assert_eq!(
        rows,
        [
            ("device_instant", "gpu0", 0, Some(300.0)),
            ("device_instant", "gpu0", 500_000_000, Some(310.0)),
            ("device_instant", "gpu1", 0, Some(290.0)),
            // Zero watts is no reading.
            ("device_instant", "gpu1", 250_000_000, None),
            ("device_instant", "gpu0", 0, None),
        ]
    );
    assert_eq!(collected.power[4].temperature_c, Some(55.0));
    let part = &collected.parts[0];
    let [source] = part.power_sources.as_slice() else { panic!("{:?}", part.power_sources) };
    assert_eq!((source.id.as_str(), source.interpolation), ("device_instant", Interpolation::Hold));
    assert_eq!(part.stages.formal_end.unwrap().to_string(), "2025-01-15T12:35:06Z");
    insta::assert_snapshot!(part.notes.join("\n"), @r#"
    requests have no times, only durations; their "energy" is derived from the steady energy per token, so it is not taken
    the power monitor drops repeated readings: power holds until the next
    timeline.power.device_average left out: it measures the same boards, or a part of them
    timeline.power.memory_average left out: it measures the same boards, or a part of them
    readings of no power (null, zero or negative), null: 1
    "#);
}

#[test]
fn totals_become_claims() {
    let collected = collect("mlenergy-raw", RESULTS, &options()).unwrap();
    let part = &collected.parts[0];
    let claims: Vec<String> = part
        .claims
        .iter()
        .map(|claim| format!("{} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source))
        .collect();
    insta::assert_snapshot!(claims.join("\n"), @"
    steady_energy_j 3000 J (input steady_state_energy)
    steady_j_per_token 0.25 J/token (input steady_state_energy_per_token)
    output_throughput_tok_s 400 tok/s (input output_throughput)
    itl_p50_ms 20 ms (input median_itl_ms)
    ttft_std_population_ms 3 ms (input std_ttft_ms)
    e2e_p99_ms 900 ms (input p99_e2el_ms)
    formal_energy_j 6000 J (input entire_benchmark_measurement.gpu_energy, summed)
    steady_power_w 600 W (input steady_state_measurement.gpu_energy / time)
    ");
    assert_eq!((part.accelerator.as_deref(), part.accelerators), (Some("H100"), Some(2)));
    assert_eq!(part.model.name, "Qwen/Qwen3-8B");
    assert_eq!(part.configuration.as_deref(), Some("max_num_seqs=16"));
}

#[test]
fn the_older_key_and_nested_temperatures_are_read() {
    let older = text().replace("\"timeline\"", "\"power_timeline\"").replace(
        "\"temperature\":{\"0\":[[1736944496.0,55]]}",
        "\"temperature\":{\"device\":{\"0\":[[1736944496.0,55]]}}",
    );
    let collected = collect("mlenergy-raw", older.as_bytes(), &options()).unwrap();
    assert_eq!(collected.power.len(), 5);
    assert_eq!(collected.power[4].device, "gpu0");
}

#[test]
fn averages_are_taken_where_there_is_nothing_else() {
    let text = text().replace("device_instant", "other");
    let collected = collect("mlenergy-raw", text.as_bytes(), &options()).unwrap();
    let source = &collected.parts[0].power_sources[0];
    assert_eq!((source.id.as_str(), source.averaging_window_ms), ("device_average", Some(1000.0)));
    assert_eq!(collected.power[0].power_w, Some(301.0));
}

#[test]
fn broken_results_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let fails = |text: String| collect("mlenergy-raw", text.as_bytes(), &strict).unwrap_err();
    assert_eq!(
        fails(text().replace("\"ttft\":0.2", "\"ttft\":-0.2")),
        "\"input\" line 1: ttft: -0.2 s is negative; expected a duration"
    );
    assert_eq!(
        fails(text().replace("[[1736944496.0,300.0]", "[[1e12,300.0]")),
        "\"input\": timeline.power.device_instant.0: 1000000000000 is no time in seconds since 1970"
    );
    assert_eq!(
        fails("{\"steady_state_energy\": 1}".into()),
        "\"input\": holds neither requests nor power; expected \"results\" and \"timeline\""
    );
    assert_eq!(fails(text() + "{}"), "\"input\": holds 2 JSON documents; expected one object");
    assert!(
        fails(text().replace("\"power\":{", "\"power\":{\"x\":5,"))
            .starts_with("\"input\" line 8: is not the JSON expected: invalid type: integer `5`, expected lists of [seconds, value], by board")
    );
}

#[test]
fn disagreement_with_the_count_is_told() {
    let text = text().replace("\"completed\":1", "\"completed\":2");
    let collected = collect("mlenergy-raw", text.as_bytes(), &options()).unwrap();
    assert!(
        collected.parts[0]
            .notes
            .iter()
            .any(|note| note == "\"completed\" is 2, but 1 requests of 2 succeeded")
    );
}

#[test]
fn scrapes_become_values_of_metrics() {
    let collected = collect("mlenergy-raw", PROMETHEUS, &options()).unwrap();
    let rows: Vec<_> = collected
        .engine
        .iter()
        .map(|row| (row.name.as_str(), row.labels.as_deref(), row.value))
        .collect();
    let labels = Some("engine=\"0\",model_name=\"a{b\"");
    assert_eq!(
        rows,
        [
            ("vllm:num_requests_running", labels, Some(4.0)),
            ("process_cpu_seconds_total", None, Some(12.5)),
            ("vllm:num_requests_running", labels, None),
        ]
    );
    assert_eq!(collected.engine[0].t_ns, testing::nanos("2025-01-15T12:34:56.5Z"));
    let broken = String::from_utf8(PROMETHEUS.to_vec()).unwrap().replace("12.5", "many");
    let collected = collect("mlenergy-raw", broken.as_bytes(), &options()).unwrap();
    assert_eq!(
        collected.parts[0].skipped.notes(std::path::Path::new("input")),
        ["input line 1 skipped: \"process_cpu_seconds_total many\" is no value of a metric"]
    );
    assert_eq!(
        collect(
            "mlenergy-raw",
            b"{\"collection_interval\":1,\"timeline\":[{\"timestamp\":1e9,\"metrics\":\"\"}]}",
            &options()
        )
        .unwrap_err(),
        "\"input\": holds no value of a metric; expected a timeline of scrapes"
    );
}

#[test]
fn both_files_are_told_by_their_keys() {
    assert_eq!(
        detected("mlenergy-raw", RESULTS).unwrap(),
        "\"input\" has the steady-state energy and requests of ML.ENERGY"
    );
    assert_eq!(
        detected("mlenergy-raw", PROMETHEUS).unwrap(),
        "\"input\" has collection_interval and a timeline of metrics of ML.ENERGY"
    );
}
