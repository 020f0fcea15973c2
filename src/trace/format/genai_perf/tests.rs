use wattrace_schema::{ClockBase, RequestStatus};

use super::super::testing::{self, collect, detected, options};
use super::super::{Anchor, ImportOptions};
use super::Response;

/// Two requests of one experiment: one with a usage chunk and an end mark, one without any response.
pub(in super::super) const MINIMAL: &[u8] = br#"{"experiments":[{"experiment":{"mode":"concurrency","value":8},
 "requests":[
  {"timestamp":1736944496000000000,"request_inputs":{},
   "response_timestamps":[1736944496200000000,1736944496230000000,1736944496231000000,1736944496231500000],
   "response_outputs":[{"response":"data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}"},
     {"response":"data: {\"choices\":[{\"delta\":{\"content\":\"b c\"}}]}"},
     {"response":"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}"},
     {"response":"data: [DONE]\n\n"}]},
  {"timestamp":1736944496100000000,"response_timestamps":[],"response_outputs":[]}],
 "window_boundaries":[1736944496000000000]}],"version":"0.0.8","service_kind":"openai","endpoint":"v1/chat/completions"}
"#;

fn text() -> String {
    String::from_utf8(MINIMAL.to_vec()).unwrap()
}

#[test]
fn chunks_give_times_and_the_last_one_gives_counts() {
    let collected = collect("genai-perf", MINIMAL, &options()).unwrap();
    let [request, silent] = collected.requests.as_slice() else { panic!() };
    let start = testing::nanos("2025-01-15T12:34:56Z");
    assert_eq!(request.t_send_ns, Some(start));
    assert_eq!(request.t_first_token_ns, Some(start + 200_000_000));
    // The usage chunk and the end mark are no output.
    assert_eq!(request.t_end_ns, Some(start + 230_000_000));
    assert_eq!(request.itl_ns, Some(vec![30_000_000]));
    assert_eq!((request.input_tokens, request.output_tokens), (Some(9), Some(3)));
    assert_eq!(
        (silent.status, silent.error.as_deref()),
        (RequestStatus::Error, Some("no response"))
    );
    let part = &collected.parts[0];
    assert_eq!(
        (part.configuration.as_deref(), part.model.name.as_str()),
        (Some("concurrency 8"), "m")
    );
    assert_eq!(part.clock.base, ClockBase::Epoch);
}

#[test]
fn without_usage_only_chunks_are_known() {
    let bytes = text().replace(r#",\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}"#, "");
    let collected = collect("genai-perf", bytes.as_bytes(), &options()).unwrap();
    assert_eq!(collected.requests[0].output_tokens, None);
    assert_eq!(
        collected.parts[0].notes,
        [
            "requests without a count of tokens (no usage in their last responses), 2 of 2: chunks are not \
          tokens, so output_tokens is null"
        ]
    );
}

#[test]
fn small_times_are_of_a_monotonic_clock() {
    let bytes = text().replace("1736944", "");
    let collected = collect("genai-perf", bytes.as_bytes(), &options()).unwrap();
    let row = &collected.requests[0];
    assert_eq!(
        (row.t_send_ns, row.ttft_ns, row.e2e_ns),
        (None, Some(200_000_000), Some(230_000_000))
    );
    assert_eq!(collected.parts[0].clock.base, ClockBase::Monotonic);
    // An anchor puts the first sending where it is said to be.
    let anchor = Some(Anchor::parse("start=2025-01-15T12:34:56Z").unwrap());
    let collected =
        collect("genai-perf", bytes.as_bytes(), &ImportOptions { anchor, ..options() }).unwrap();
    assert_eq!(collected.requests[0].t_send_ns, Some(testing::nanos("2025-01-15T12:34:56Z")));
}

#[test]
fn every_experiment_is_a_run() {
    let one = text();
    let experiment = &one[one.find("{\"experiment\"").unwrap()..one.find("],\"version\"").unwrap()];
    let two = one.replace("],\"version\"", &format!(",{experiment}],\"version\""));
    let collected = collect("genai-perf", two.as_bytes(), &options()).unwrap();
    assert_eq!((collected.parts.len(), collected.requests.len()), (2, 4));
}

#[test]
fn broken_exports_say_what_is_wrong() {
    let fails = |text: String| collect("genai-perf", text.as_bytes(), &options()).unwrap_err();
    assert_eq!(
        fails("{}".into()),
        "\"input\": holds no experiment; expected a list \"experiments\""
    );
    assert!(fails(text().replacen("1736944496000000000", "\"now\"", 1)).starts_with(
        "\"input\" line 3: is not the JSON expected: invalid type: string \"now\", expected i64"
    ));
    let backward = text().replace("1736944496230000000", "1736944496130000000");
    let strict = ImportOptions { strict: true, ..options() };
    assert_eq!(
        collect("genai-perf", backward.as_bytes(), &strict).unwrap_err(),
        "\"input\" line 1: response_timestamps run back from 1736944496200000000 to 1736944496130000000"
    );
    let cut = &MINIMAL[..400];
    let message = collect("genai-perf", cut, &options()).unwrap_err();
    assert!(message.starts_with("\"input\" line 5: ends inside its JSON: "), "{message}");
}

#[test]
fn responses_are_told_from_counts_and_end_marks() {
    assert!(Response::parse("data: [DONE]\n\n") == Response::default());
    assert!(Response::parse("plain words").is_output);
    let counts = Response::parse(
        "data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]",
    );
    assert_eq!((counts.is_output, counts.output_tokens), (false, Some(3)));
}

#[test]
fn it_is_told_by_its_keys() {
    assert_eq!(
        detected("genai-perf", MINIMAL).unwrap(),
        "\"input\" has experiments whose requests have response_timestamps"
    );
}
