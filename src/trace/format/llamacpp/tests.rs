use wattrace_schema::{ClockBase, RequestStatus};

use super::super::testing::{self, collect, detected, options};
use super::super::{Anchor, ImportOptions};

pub(in super::super) const RESPONSES: &[u8] = br#"{"id":"chatcmpl-a","model":"m","choices":[],"usage":{"completion_tokens":3},"timings":{"cache_n":10,"prompt_n":20,"prompt_ms":100.5,"prompt_per_second":199.0,"predicted_n":3,"predicted_ms":40.25,"predicted_per_second":74.5}}
{"id":"chatcmpl-b","model":"m","timings":{"prompt_n":20,"prompt_ms":90.0,"predicted_n":1,"predicted_ms":0.5}}
"#;

/// Three requests: one with every token, one without, one that was cancelled. The stamps are minutes,
/// seconds, milliseconds, microseconds since the start.
pub(in super::super) const LOG: &[u8] = b"0.00.001.842 I srv          init: build_info: b4567-abc1234
0.00.003.938 I srv    load_model: loading model 'models/tiny.gguf'
0.00.180.000 I print_info: n_layer               = 30
0.00.180.001 I print_info: n_head_kv             = 3
0.00.180.002 I print_info: model params          = 134.52 M
0.01.000.000 I slot launch_slot_: id  0 | task 1 | processing task, is_child = 0
0.01.000.100 D slot update_slots: id  0 | task 1 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 12
0.01.050.000 D slot process_toke: id  0 | task 1 | n_gen = 1, n_remaining = 2, next token:   100 'a'
0.01.060.000 D slot process_toke: id  0 | task 1 | n_gen = 2, n_remaining = 1, next token:   101 'b'
0.01.071.500 D slot process_toke: id  0 | task 1 | n_gen = 3, n_remaining = 0, next token:   102 'c'
0.01.071.600 I slot print_timing: id  0 | task 1 | prompt eval time =      50.00 ms /    12 tokens (    4.17 ms per token,   240.00 tokens per second)
0.01.071.601 I slot print_timing: id  0 | task 1 |        eval time =      21.50 ms /     3 tokens (    7.17 ms per token,   139.53 tokens per second)
0.01.071.602 I slot print_timing: id  0 | task 1 |       total time =      71.50 ms /    15 tokens
0.01.071.700 I slot      release: id  0 | task 1 | stop processing: n_tokens = 15, truncated = 0
1.02.000.000 I slot launch_slot_: id  1 | task 5 | processing task, is_child = 0
1.02.000.001 I slot print_timing: id  1 | task 5 | prompt eval time =     200.00 ms /    30 tokens (    6.67 ms per token,   150.00 tokens per second)
1.02.700.000 I slot print_timing: id  1 | task 5 |        eval time =     500.00 ms /    40 tokens (   12.50 ms per token,    80.00 tokens per second)
1.02.700.100 I slot      release: id  1 | task 5 | stop processing: n_tokens = 70, truncated = 0
1.03.000.000 I slot launch_slot_: id  0 | task 9 | processing task, is_child = 0
1.03.000.001 D slot update_slots: id  0 | task 9 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 8
1.03.100.000 W srv          stop: cancel task, id_task = 9
1.03.100.100 I slot      release: id  0 | task 9 | stop processing: n_tokens = 8, truncated = 0
1.03.200.000 I srv  update_slots: all slots are idle
";

#[test]
fn responses_have_durations() {
    let collected = collect("llamacpp", RESPONSES, &options()).unwrap();
    let [a, b] = collected.requests.as_slice() else { panic!() };
    // What the cache held was part of the prompt.
    assert_eq!((a.input_tokens, a.output_tokens), (Some(30), Some(3)));
    assert_eq!((a.ttft_ns, a.e2e_ns), (Some(100_500_000), Some(140_750_000)));
    assert_eq!((a.t_send_ns, b.input_tokens), (None, Some(20)));
    let part = &collected.parts[0];
    assert_eq!((part.model.name.as_str(), part.clock.base), ("m", ClockBase::None));
    // One response, or a list of them, reads the same.
    let list =
        format!("[{}]", String::from_utf8(RESPONSES.to_vec()).unwrap().trim().replace('\n', ","));
    assert_eq!(
        collect("llamacpp", list.as_bytes(), &options()).unwrap().requests,
        collected.requests
    );
}

#[test]
fn a_verbose_log_has_every_token() {
    let anchor = Some(Anchor::parse("zero=2025-01-15T12:34:56Z").unwrap());
    let collected = collect("llamacpp", LOG, &ImportOptions { anchor, ..options() }).unwrap();
    let [tokens, totals, cancelled] = collected.requests.as_slice() else {
        panic!("{:?}", collected.requests)
    };
    let zero = testing::nanos("2025-01-15T12:34:56Z");
    let ms = 1_000_000;
    assert_eq!(tokens.request_id, "task-1");
    assert_eq!(tokens.t_send_ns, Some(zero + 1000 * ms));
    assert_eq!(tokens.t_first_token_ns, Some(zero + 1050 * ms));
    assert_eq!(tokens.t_end_ns, Some(zero + 1071 * ms + 500_000));
    assert_eq!(tokens.itl_ns, Some(vec![10_000_000, 11_500_000]));
    assert_eq!((tokens.input_tokens, tokens.output_tokens), (Some(12), Some(3)));
    // A minute and two seconds after the start; only the totals are known.
    assert_eq!(totals.t_send_ns, Some(zero + 62_000 * ms));
    assert_eq!(totals.t_first_token_ns, Some(zero + 62_200 * ms));
    assert_eq!(totals.t_end_ns, Some(zero + 62_700 * ms));
    assert_eq!((totals.input_tokens, totals.output_tokens), (Some(30), Some(40)));
    assert_eq!((cancelled.status, cancelled.input_tokens), (RequestStatus::Cancelled, Some(8)));
    assert_eq!((cancelled.output_tokens, cancelled.t_first_token_ns), (None, None));
    assert_eq!(cancelled.t_end_ns, Some(zero + 63_100 * ms + 100_000));
    let part = &collected.parts[0];
    assert_eq!(
        (part.model.layers, part.model.kv_heads, part.model.total_params),
        (Some(30), Some(3), None)
    );
    assert_eq!(part.model.name, "tiny.gguf");
    assert_eq!(part.engine.version.as_deref(), Some("b4567-abc1234"));
    assert_eq!(part.clock.base, ClockBase::Relative);
}

/// Two requests whose batches hold 64 tokens at most: the first with a prompt of 140 tokens in three batches,
/// the second of 2 tokens beside it.
pub(in super::super) const STEPS: &[u8] = b"0.01.000.000 I slot launch_slot_: id  1 | task 0 | processing task, is_child = 0
0.01.100.000 D srv  update_slots: posting NEXT_RESPONSE
0.01.100.001 I slot   operator(): id  1 | task 0 | new prompt, n_ctx_slot = 512, n_keep = 0, task.n_tokens = 140
0.01.100.002 I slot   operator(): id  1 | task 0 | cached n_tokens = 0, memory_seq_rm [0, end)
0.01.100.003 D srv        decode: n_batch (effective) = 64, off = 0
0.01.200.000 D srv  update_slots: posting NEXT_RESPONSE
0.01.200.001 I slot   operator(): id  0 | task 2 | new prompt, n_ctx_slot = 512, n_keep = 0, task.n_tokens = 2
0.01.200.002 I slot   operator(): id  0 | task 2 | cached n_tokens = 0, memory_seq_rm [0, end)
0.01.200.003 D No parser definition detected, assuming pure content parser.0.01.200.004 I slot   operator(): id  1 | task 0 | cached n_tokens = 64, memory_seq_rm [64, end)
0.01.200.005 D srv        decode: n_batch (effective) = 64, off = 0
0.01.280.000 D slot process_toke: id  0 | task 2 | n_gen = 1, n_remaining = 7, next token:   506 ''s'
0.01.300.000 D srv  update_slots: posting NEXT_RESPONSE
0.01.300.001 D slot handle_last_: id  0 | task 2 | slot decode token, id=506, n_ctx = 512, n_tokens = 2, truncated = 0
0.01.300.002 I slot   operator(): id  1 | task 0 | cached n_tokens = 126, memory_seq_rm [126, end)
0.01.300.003 D srv        decode: n_batch (effective) = 64, off = 0
0.01.370.000 D slot process_toke: id  0 | task 2 | n_gen = 2, n_remaining = 6, next token:   787 ' no'
0.01.380.000 D slot process_toke: id  1 | task 0 | n_gen = 1, n_remaining = 2, next token:  2229 ' word'
0.01.400.000 D srv  update_slots: posting NEXT_RESPONSE
0.01.400.001 D slot handle_last_: id  0 | task 2 | slot decode token, id=787, n_ctx = 512, n_tokens = 3, truncated = 0
0.01.400.002 D slot handle_last_: id  1 | task 0 | slot decode token, id=2229, n_ctx = 512, n_tokens = 140, truncated = 0
0.01.400.003 D srv        decode: n_batch (effective) = 64, off = 0
0.01.470.000 D slot process_toke: id  0 | task 2 | n_gen = 3, n_remaining = 5, next token:  7028 ' doubt'
0.01.480.000 D slot process_toke: id  1 | task 0 | n_gen = 2, n_remaining = 1, next token:    37 '5'
0.01.490.000 I slot print_timing: id  1 | task 0 | prompt eval time =     280.00 ms /   140 tokens (   13.83 ms per token,    72.29 tokens per second)
0.01.490.001 I slot print_timing: id  1 | task 0 |        eval time =     100.00 ms /     2 tokens (   80.27 ms per token,    12.46 tokens per second)
0.01.490.002 I slot      release: id  1 | task 0 | stop processing: n_tokens = 142, truncated = 0
0.01.500.000 I srv  update_slots: all slots are idle
";

/// A step in one line: begin and end in milliseconds, sequences, new tokens, history, longest, prefill.
fn shown(step: &crate::StepRow) -> String {
    let ms = |nanos: i64| nanos as f64 / 1e6;
    format!(
        "{} {:.3}-{:.3} {} {} {:?} {:?} {}",
        step.step,
        ms(step.t_start_ns.unwrap()),
        ms(step.t_end_ns),
        step.active_sequences,
        step.new_tokens,
        step.history_tokens.unwrap(),
        step.max_sequence_tokens,
        step.prefill_tokens
    )
}

#[test]
fn a_verbose_log_has_every_iteration() {
    let anchor = Some(Anchor::parse("zero=0").unwrap());
    let collected = collect("llamacpp", STEPS, &ImportOptions { anchor, ..options() }).unwrap();
    // 140 = 64 + 62 + 14; the second batch also took the 2 of the other prompt. First tokens come from prompts.
    let steps: Vec<String> = collected.steps.iter().map(shown).collect();
    assert_eq!(
        steps,
        [
            "0 1100.000-1200.000 1 0 0 None 64",
            "1 1200.000-1280.000 2 0 0 None 64",
            "2 1300.000-1380.000 2 1 2 Some(2) 14",
            "3 1400.000-1480.000 2 2 143 Some(140) 0",
        ]
    );
    let generated: u32 = collected.requests.iter().filter_map(|row| row.output_tokens).sum();
    assert_eq!(generated, 2 + 3);
    // Without an anchor a step has no place.
    let collected = collect("llamacpp", STEPS, &options()).unwrap();
    assert!(collected.steps.is_empty());
    let notes = &collected.parts[0].notes;
    assert!(
        notes.contains(&"steps without a time, since no anchor is named, left out: 4".into()),
        "{notes:?}"
    );
}

#[test]
fn without_an_anchor_a_log_gives_durations() {
    let collected = collect("llamacpp", LOG, &options()).unwrap();
    let row = &collected.requests[0];
    assert_eq!(
        (row.t_send_ns, row.ttft_ns, row.e2e_ns),
        (None, Some(50_000_000), Some(71_500_000))
    );
    assert!(collected.parts[0].notes[0].contains("no anchor is named"));
}

#[test]
fn a_log_without_stamps_has_its_times_below_the_task() {
    let old = b"slot launch_slot_: id  0 | task 0 | processing task
slot print_timing: id  0 | task 0 |
prompt eval time =     990.30 ms /    33 tokens (   30.01 ms per token,    33.32 tokens per second)
       eval time =   19521.92 ms /   710 tokens (   27.50 ms per token,    36.37 tokens per second)
      total time =   20512.22 ms /   743 tokens
slot      release: id  0 | task 0 | stop processing: n_past = 742, truncated = 0
";
    let collected = collect("llamacpp", old, &options()).unwrap();
    let row = &collected.requests[0];
    assert_eq!((row.input_tokens, row.output_tokens), (Some(33), Some(710)));
    assert_eq!((row.ttft_ns, row.e2e_ns), (Some(990_300_000), Some(20_512_220_000)));
}

#[test]
fn a_request_that_the_log_does_not_end_stays_as_one() {
    let cut =
        &LOG[..LOG.windows(20).position(|window| window.starts_with(b"0.01.071.600")).unwrap()];
    let collected = collect("llamacpp", cut, &options()).unwrap();
    let [row] = collected.requests.as_slice() else { panic!() };
    assert_eq!((row.status, row.output_tokens), (RequestStatus::Cancelled, Some(3)));
    assert_eq!(row.error.as_deref(), Some("the log ends before the request does"));
}

#[test]
fn broken_inputs_say_what_is_wrong() {
    let backward = String::from_utf8(LOG.to_vec()).unwrap().replace("0.01.060.000", "0.01.040.000");
    let strict = ImportOptions { strict: true, ..options() };
    assert_eq!(
        collect("llamacpp", backward.as_bytes(), &strict).unwrap_err(),
        "\"input\" line 14: times of tokens run backwards"
    );
    let text = String::from_utf8(RESPONSES.to_vec()).unwrap();
    let fails = |text: &str| collect("llamacpp", text.as_bytes(), &strict).unwrap_err();
    assert_eq!(
        fails(&text.replace("\"prompt_ms\":90.0", "\"prompt_ms\":-90.0")),
        "\"input\" line 2: time of the prompt: -90 ms is negative; expected a duration"
    );
    assert_eq!(
        fails("{\"timings\":{\"prompt_ms\":1,\"predicted_ms\":2}} {\"id\":\"b\"}"),
        "\"input\" line 2: has no timings; expected prompt_ms and predicted_ms"
    );
}

#[test]
fn they_are_told_by_their_words() {
    assert_eq!(
        detected("llamacpp", RESPONSES).unwrap(),
        "\"input\" has timings with prompt_ms and predicted_ms of llama.cpp"
    );
    assert_eq!(
        detected("llamacpp", LOG).unwrap(),
        "\"input\" has lines with \"slot print_timing: id\" of llama.cpp's server"
    );
}

/// Our own capture is the head of a log: the server loads its model, and no request comes before it ends.
#[test]
fn the_captured_head_is_recognised_and_says_what_it_lacks() {
    let Some(folder) = super::super::tests::shared_data("captured") else { return };
    let bytes = std::fs::read(folder.join("llamacpp_verbose_head.log")).unwrap();
    assert_eq!(
        detected("llamacpp", &bytes).unwrap(),
        "\"input\" has lines with \"llama_model_loader: \" of llama.cpp's server"
    );
    assert_eq!(
        collect("llamacpp", &bytes, &options()).unwrap_err(),
        "\"input\": holds no request: none was processed by line 2578, the last; expected lines with \"slot \
         print_timing\""
    );
}
