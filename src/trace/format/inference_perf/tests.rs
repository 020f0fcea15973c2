use wattrace_schema::{ClockBase, RequestStatus};

use super::super::testing::{self, collect, detected, options};
use super::super::{Anchor, ImportOptions};

/// A request with three tokens, one in the older layout, and one that timed out.
pub(in super::super) const MINIMAL: &[u8] = br#"[
 {"scheduled_time":100.0,"start_time":100.5,"end_time":100.8,"request":"{}","response":"",
  "info":{"request_metrics":{"text":{"input_tokens":12}},
          "response_metrics":{"output_tokens":2,"server_usage":{"completion_tokens":3},
                              "chunk_times":[100.6,100.7,100.75],"output_token_times":[100.6,100.7,100.75]},
          "input_tokens":12},"error":null},
 {"start_time":101.0,"end_time":101.4,"request":"{}","response":"",
  "info":{"input_tokens":7,"output_tokens":2,"output_token_times":[101.1,101.3]},"error":null},
 {"start_time":102.0,"end_time":112.0,"request":"{}","response":null,
  "info":{"input_tokens":7,"output_tokens":0,"output_token_times":[]},
  "error":{"error_type":"TimeoutError","error_msg":"no answer"}}
]
"#;

fn text() -> String {
    String::from_utf8(MINIMAL.to_vec()).unwrap()
}

#[test]
fn without_an_anchor_requests_have_durations() {
    let collected = collect("inference-perf", MINIMAL, &options()).unwrap();
    let [new, old, failed] = collected.requests.as_slice() else { panic!() };
    assert_eq!((new.t_send_ns, new.t_end_ns), (None, None));
    assert_eq!((new.ttft_ns, new.e2e_ns), (Some(100_000_000), Some(300_000_000)));
    // The server counted three tokens, the client's tokenizer two.
    assert_eq!((new.input_tokens, new.output_tokens), (Some(12), Some(3)));
    assert_eq!(new.itl_ns, Some(vec![100_000_000, 50_000_000]));
    assert_eq!((old.output_tokens, old.ttft_ns), (Some(2), Some(100_000_000)));
    assert_eq!((failed.status, failed.output_tokens), (RequestStatus::Timeout, None));
    assert_eq!(failed.error.as_deref(), Some("TimeoutError: no answer"));
    let part = &collected.parts[0];
    assert_eq!(part.clock.base, ClockBase::Monotonic);
    insta::assert_snapshot!(part.notes.join("\n"), @"
    its clock counts from an unknown instant and no anchor is named (--anchor), so requests have durations and no times
    requests whose output tokens the client recounted otherwise than the server, whose count is used: 1
    ");
}

#[test]
fn an_anchor_places_seconds_without_losing_nanoseconds() {
    let anchor = Some(Anchor::parse("start=2025-01-15T12:34:56Z±1ms").unwrap());
    let options = ImportOptions { anchor, ..options() };
    let collected = collect("inference-perf", MINIMAL, &options).unwrap();
    let start = testing::nanos("2025-01-15T12:34:56Z");
    let row = &collected.requests[0];
    // Seconds become nanoseconds before the epoch is added, or 238 ns would be lost.
    assert_eq!(row.t_send_ns, Some(start));
    assert_eq!(row.t_first_token_ns, Some(start + 100_000_000));
    assert_eq!(row.t_end_ns, Some(start + 300_000_000));
    let clock = &collected.parts[0].clock;
    assert_eq!(
        (clock.offset_ns, clock.uncertainty_ns),
        (Some(start - 100_500_000_000), Some(1_000_000))
    );
}

#[test]
fn chunks_stand_in_for_tokens_and_are_named_as_such() {
    let bytes = text().replace(",\"output_token_times\":[100.6,100.7,100.75]", "");
    let collected = collect("inference-perf", bytes.as_bytes(), &options()).unwrap();
    assert!(
        collected.parts[0]
            .notes
            .iter()
            .any(|note| note
                == "requests whose gaps are between chunks, which need not be tokens: 1")
    );
}

#[test]
fn broken_lists_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let fails = |text: &str| collect("inference-perf", text.as_bytes(), &strict).unwrap_err();
    assert_eq!(fails("[]"), "\"input\": holds no request; expected a list of requests");
    assert_eq!(
        fails(&text().replace("[101.1,101.3]", "[101.3,101.1]")),
        "\"input\" line 2: times of tokens run backwards"
    );
    assert_eq!(
        fails(&text().replace("\"end_time\":101.4", "\"end_time\":1e12")),
        "\"input\" line 2: end_time: 1000000000000 s does not fit 64-bit nanoseconds"
    );
    assert!(
        fails(&text().replace("\"output_tokens\":2,\"server", "\"output_tokens\":-2,\"server")).starts_with(
            "\"input\" line 4: is not the JSON expected: invalid value: integer `-2`, expected a whole number \
             of tokens from 0 to 4294967295"
        )
    );
}

#[test]
fn it_is_told_by_its_keys() {
    assert_eq!(
        detected("inference-perf", MINIMAL).unwrap(),
        "\"input\" lists requests with start_time, end_time, info and error of inference-perf"
    );
}
