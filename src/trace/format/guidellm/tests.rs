use wattrace_schema::{RequestStage, RequestStatus};

use super::super::ImportOptions;
use super::super::testing::{self, collect, detected, options};

/// One benchmark: a request of the warm-up, a measured one, one cut off and one that failed.
pub(in super::super) const MINIMAL: &[u8] = br#"{"metadata":{"version":2,"guidellm_version":"0.6.0","python_version":"3.12","platform":"Linux"},
 "config":{},
 "benchmarks":[{"type_":"generative_benchmark",
  "config":{"backend":{"model":"m"},"strategy":{"type_":"constant","rate":2.0}},
  "scheduler_state":{},
  "scheduler_metrics":{"start_time":1736944490.0,"measure_start_time":1736944496.0,"measure_end_time":1736944506.0,
   "requests_made":{"successful":2,"incomplete":1,"errored":1,"total":4}},
  "metrics":{"request_latency":{"successful":{"mean":0.5,"count":2,"percentiles":{"p50":0.5,"p99":0.6}}},
   "time_to_first_token_ms":{"successful":{"mean":100.0,"count":2,"percentiles":{"p50":100.0}}},
   "time_per_output_token_ms":{"successful":{"mean":10.0,"count":2,"percentiles":{"p50":10.0}}},
   "inter_token_latency_ms":{"successful":{"mean":20.0,"count":0,"percentiles":{"p50":20.0}}}},
  "requests":{
   "successful":[
    {"request_id":"w","info":{"status":"completed","timings":{"request_start":1736944495.5,"first_token_iteration":1736944495.625,"request_end":1736944496.0}},
     "input_metrics":{"text_tokens":8,"total_tokens":8},"output_metrics":{"text_tokens":4,"total_tokens":4}},
    {"request_id":"a","info":{"status":"completed","timings":{"request_start":1736944497.0,"first_token_iteration":1736944497.125,"last_token_iteration":1736944497.5,"token_iterations":2,"request_end":1736944497.5}},
     "input_metrics":{"text_tokens":8,"total_tokens":8},"output_metrics":{"text_tokens":4,"total_tokens":4},"output_tokens":4}],
   "incomplete":[
    {"request_id":"b","info":{"status":"cancelled","timings":{"request_start":1736944505.5,"request_end":1736944506.0}},"input_metrics":{"total_tokens":8},"output_metrics":{"total_tokens":null}}],
   "errored":[
    {"request_id":"c","info":{"status":"errored","error":"refused","timings":{"resolve_start":1736944498.0,"resolve_end":1736944498.25}},"input_metrics":{},"output_metrics":{"total_tokens":0}}],
   "total":null}}]}
"#;

fn text() -> String {
    String::from_utf8(MINIMAL.to_vec()).unwrap()
}

#[test]
fn every_list_becomes_rows_with_its_status() {
    let collected = collect("guidellm", MINIMAL, &options()).unwrap();
    let [warmup, ok, cut, failed] = collected.requests.as_slice() else { panic!() };
    let start = testing::nanos("2025-01-15T12:34:57Z");
    assert_eq!((warmup.stage, ok.stage), (RequestStage::Warmup, RequestStage::Formal));
    assert_eq!(ok.t_send_ns, Some(start));
    assert_eq!(ok.t_first_token_ns, Some(start + 125_000_000));
    assert_eq!(ok.t_end_ns, Some(start + 500_000_000));
    assert_eq!((ok.input_tokens, ok.output_tokens, ok.itl_ns.as_ref()), (Some(8), Some(4), None));
    assert_eq!((cut.status, cut.output_tokens), (RequestStatus::Cancelled, None));
    // A failed request's zero is no count; its times are those of the scheduler.
    assert_eq!((failed.status, failed.output_tokens), (RequestStatus::Error, None));
    assert_eq!(failed.error.as_deref(), Some("refused"));
    assert_eq!(failed.t_send_ns, Some(testing::nanos("2025-01-15T12:34:58Z")));
    let part = &collected.parts[0];
    assert_eq!(part.stages.formal_start.unwrap().to_string(), "2025-01-15T12:34:56Z");
    assert_eq!(part.stages.formal_end.unwrap().to_string(), "2025-01-15T12:35:06Z");
    assert_eq!(part.configuration.as_deref(), Some("constant 2"));
    assert_eq!((part.model.name.as_str(), part.workload.request_rate), ("m", Some(2.0)));
}

#[test]
fn statements_become_claims_under_our_names() {
    let collected = collect("guidellm", MINIMAL, &options()).unwrap();
    let claims: Vec<String> = collected.parts[0]
        .claims
        .iter()
        .map(|claim| format!("{} {} {}", claim.metric, claim.value, claim.unit))
        .collect();
    // Seconds of latency become milliseconds; time_per_output_token includes the first token and is not
    // ours; statistics over nothing claim nothing.
    insta::assert_snapshot!(claims.join("\n"), @"
    e2e_mean_ms 500 ms
    e2e_p50_ms 500 ms
    e2e_p99_ms 600 ms
    ttft_mean_ms 100 ms
    ttft_p50_ms 100 ms
    ");
}

#[test]
fn thinned_lists_are_told() {
    let thinned = text().replace("\"successful\":2", "\"successful\":500");
    let collected = collect("guidellm", thinned.as_bytes(), &options()).unwrap();
    assert!(
        collected.parts[0].notes.iter().any(|note| note
            == "500 requests were successful, the file holds 2 of them (sample_size thins the lists), so \
                percentiles here are of those only"),
        "{:?}",
        collected.parts[0].notes
    );
}

#[test]
fn iterations_are_not_tokens() {
    let unknown = text().replace("\"text_tokens\":4,\"total_tokens\":4", "\"total_tokens\":null");
    let collected = collect("guidellm", unknown.as_bytes(), &options()).unwrap();
    assert_eq!(collected.requests[1].output_tokens, None);
    assert!(collected.parts[0].notes.iter().any(|note| note.ends_with("so it is null")));
}

#[test]
fn a_list_may_be_null_and_a_benchmark_follow_another() {
    let two = text()
        .replace("\"total\":null}}]}", "\"total\":null}},{\"requests\":{\"successful\":null}}]}");
    let collected = collect("guidellm", two.as_bytes(), &options()).unwrap();
    assert_eq!((collected.parts.len(), collected.requests.len()), (2, 4));
}

#[test]
fn other_versions_are_refused() {
    let fails = |text: String| collect("guidellm", text.as_bytes(), &options()).unwrap_err();
    assert_eq!(
        fails(text().replace("\"version\":2", "\"version\":1")),
        "\"input\": is of guidellm's schema version 1; expected version 2, which alone is read"
    );
    let old = text().replace(
        "{\"metadata\":{\"version\":2,\"guidellm_version\":\"0.6.0\",\"python_version\":\"3.12\",\"platform\":\"Linux\"},",
        "{",
    );
    assert_eq!(
        fails(old.clone()),
        "\"input\": has benchmarks without metadata.version before them; expected guidellm's schema version 2"
    );
    assert_eq!(
        detected("guidellm", old.as_bytes()).unwrap(),
        "\"input\" has generative benchmarks of guidellm"
    );
    assert_eq!(
        fails("{\"metadata\":{\"version\":2}}".into()),
        "\"input\": holds no benchmark; expected a list \"benchmarks\""
    );
}

#[test]
fn broken_requests_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let late = text().replace("\"request_end\":1736944497.5", "\"request_end\":1e200");
    let message = collect("guidellm", late.as_bytes(), &strict).unwrap_err();
    assert!(message.starts_with("\"input\" line 2: request_end: 1000000000"), "{message}");
    assert!(message.ends_with(" is no time in seconds since 1970"), "{message}");
}

#[test]
fn it_is_told_by_its_keys() {
    assert_eq!(
        detected("guidellm", MINIMAL).unwrap(),
        "\"input\" has metadata.guidellm_version of guidellm"
    );
}
