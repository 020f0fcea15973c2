use wattrace_schema::ClockBase;

use super::super::ImportOptions;
use super::super::testing::{self, collect, detected, options};

/// Two polls of which the second begins after an iteration that nobody saw.
pub(in super::super) const MINIMAL: &[u8] = br#"[{"timestamp":"01-15-2025 12:34:56.123456","iter":812,"iterLatencyMS":18.25,"numActiveRequests":64,"numQueuedRequests":0,
 "kvCacheStats":{"usedNumBlocks":1000,"tokensPerBlock":32},
 "inflightBatchingStats":{"numScheduledRequests":65,"numContextRequests":1,"numGenRequests":64,"numPausedRequests":0,"numCtxTokens":512,"microBatchId":0,"avgNumDecodedTokensPerIter":1.0}}]
[{"timestamp":"01-15-2025 12:34:56.223456","iter":814,"iterLatencyMS":20.0,"numActiveRequests":64,
 "inflightBatchingStats":{"numScheduledRequests":64,"numContextRequests":0,"numGenRequests":64,"numCtxTokens":0,"avgNumDecodedTokensPerIter":2.5,"numGenKvTokens":65536},
 "specDecodingStats":{"iterLatencyMS":1.0}}]
"#;

fn text() -> String {
    String::from_utf8(MINIMAL.to_vec()).unwrap()
}

#[test]
fn iterations_become_steps_that_end_at_their_stamp() {
    let collected = collect("trtllm-stats", MINIMAL, &options()).unwrap();
    let [first, second] = collected.steps.as_slice() else { panic!() };
    assert_eq!(first.t_end_ns, testing::nanos("2025-01-15T12:34:56.123456Z"));
    assert_eq!(first.t_start_ns, Some(first.t_end_ns - 18_250_000));
    assert_eq!(
        (first.step, first.active_sequences, first.new_tokens, first.prefill_tokens),
        (812, 64, 64, 512)
    );
    // Speculative decoding gives 2.5 tokens to each of 64 sequences.
    assert_eq!((second.new_tokens, second.history_tokens), (160, Some(65_536)));
    let part = &collected.parts[0];
    assert_eq!((part.clock.base, part.clock.zone.as_deref()), (ClockBase::Local, Some("UTC")));
    assert_eq!(
        part.notes[0],
        "iterations missing between those that were polled: 1; polls drain the statistics"
    );
}

#[test]
fn objects_may_stand_one_a_line_and_ranks_apart() {
    let line = r#"{"timestamp":"2025-01-15T12:34:56.5Z","iter":7,"iterLatencyMS":1.0,"numActiveRequests":2,"attentionDpRank":RANK,"inflightBatchingStats":{"numGenRequests":2,"numCtxTokens":0}}"#;
    let bytes = [line.replace("RANK", "0"), line.replace("RANK", "1")].join("\n");
    let collected = collect("trtllm-stats", bytes.as_bytes(), &ImportOptions::default()).unwrap();
    let replicas: Vec<u16> = collected.steps.iter().map(|step| step.replica).collect();
    assert_eq!(replicas, [0, 1]);
    // A stamp with a zone needs none to be named.
    assert_eq!(collected.parts[0].clock.base, ClockBase::Epoch);
}

#[test]
fn static_batching_counts_its_tokens() {
    let text = text().replace(
        "\"inflightBatchingStats\":{\"numScheduledRequests\":65,\"numContextRequests\":1,\"numGenRequests\":64,\"numPausedRequests\":0,\"numCtxTokens\":512,\"microBatchId\":0,\"avgNumDecodedTokensPerIter\":1.0}",
        "\"staticBatchingStats\":{\"numScheduledRequests\":9,\"numContextRequests\":1,\"numCtxTokens\":30,\"numGenTokens\":8,\"emptyGenSlots\":0}",
    );
    let collected = collect("trtllm-stats", text.as_bytes(), &options()).unwrap();
    let step = &collected.steps[0];
    assert_eq!((step.active_sequences, step.new_tokens, step.prefill_tokens), (8, 8, 30));
}

#[test]
fn broken_iterations_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let fails = |text: String| collect("trtllm-stats", text.as_bytes(), &strict).unwrap_err();
    assert_eq!(
        fails(text().replace("01-15-2025 12:34:56.223456", "")),
        "\"input\" line 2: timestamp is \"\"; expected a time such as 01-15-2025 12:34:56.123456"
    );
    assert_eq!(fails(text().replace("814", "812")), "\"input\" line 2: repeats iteration 812");
    assert_eq!(
        fails(text().replace("\"iterLatencyMS\":20.0", "\"iterLatencyMS\":-20.0")),
        "\"input\" line 2: iterLatencyMS: -20 ms is negative; expected a duration"
    );
    assert_eq!(
        fails(text().replace("inflightBatchingStats", "otherStats")),
        "\"input\" line 1: has neither inflightBatchingStats nor staticBatchingStats; expected what the \
         iteration did"
    );
    assert_eq!(
        collect("trtllm-stats", MINIMAL, &ImportOptions::default()).unwrap_err(),
        "\"input\": has local times without a zone; name the zone (--tz), such as UTC or America/Los_Angeles"
    );
    assert_eq!(fails("[]".into()), "\"input\": holds no iteration with a time");
}

#[test]
fn it_is_told_by_its_keys() {
    assert_eq!(
        detected("trtllm-stats", MINIMAL).unwrap(),
        "\"input\" has iter, iterLatencyMS, numActiveRequests of TensorRT-LLM's iterations"
    );
}
