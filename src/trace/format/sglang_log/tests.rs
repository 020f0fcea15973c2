use super::super::testing::{collect, imported, manifest, nanos, options};
use super::*;

pub(crate) const MINIMAL: &[u8] = b"\
[2025-01-15 12:34:50.000] server_args=ServerArgs(model_path='m-7b', tp_size=2, dp_size=1, decode_log_interval=10)
[2025-01-15 12:34:51.000 TP0] The server is fired up and ready to roll!
[2025-01-15 12:34:52.250 TP0] Prefill batch. #new-seq: 8, #new-token: 2048, #cached-token: 0, token usage: 0.01, #running-req: 0, #queue-req: 0, 
[2025-01-15 12:34:52.500 TP0] Decode batch. #running-req: 8, #token: 2128, token usage: 0.02, cuda graph: True, gen throughput (token/s): 160.00, #queue-req: 0, 
[2025-01-15 12:34:53.000 TP0] Decode batch. #running-req: 8, #token: 2208, token usage: 0.02, cuda graph: True, gen throughput (token/s): 160.00, #queue-req: 0, 
[2025-01-15 12:34:53.001 TP1] Decode batch. #running-req: 8, #token: 2208, token usage: 0.02, cuda graph: True, gen throughput (token/s): 160.00, #queue-req: 0, 
";

fn batch(line: &str) -> (LogLine, Batch) {
    let parsed = parse_line(line).unwrap();
    match parsed.event.clone() {
        Event::Decode(batch) | Event::Prefill(batch) | Event::Retracted(batch) => (parsed, batch),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_generation_of_decode_lines_is_read() {
    let lines = [
        "[gpu_id=0] Decode batch. #running-req: 8, #token: 9021, token usage: 0.02, gen throughput (token/s): 512.30, #queue-req: 0",
        "[2025-01-15 12:34:56] Decode batch. #running-req: 8, #token: 9021, token usage: 0.02, accept len: 2.91, gen throughput (token/s): 512.30, #queue-req: 0, ",
        "[2025-01-15 12:34:56 TP0] Decode batch. #running-req: 8, #token: 9021, token usage: 0.02, pre-allocated usage: 0.00, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 512.30, #queue-req: 0, ",
        "[2025-01-15 12:34:56,789 DP0 TP0 EP0] Decode batch [1234], #running-req: 8, #token: 9021, token usage: 0.02, cuda graph: False, gen throughput (token/s): 512.30, #queue-req: 0",
        "server-1  | [2025-01-15 12:34:56 PP0] Decode batch, #running-req: 8, #full token: 9021, full token usage: 0.02, gen throughput (token/s): 512.30, #queue-req: 0, #running-req per DP: [4, 4], timestamp: 2025-01-15T12:34:56.123456",
    ];
    for line in lines {
        let (_, batch) = batch(line);
        assert_eq!(batch.count("#running-req"), Some(8), "{line}");
        assert_eq!(batch.number("gen throughput (token/s)"), Some(512.3), "{line}");
        let tokens = batch.number("#token").or_else(|| batch.number("#full token"));
        assert_eq!(tokens, Some(9021.0), "{line}");
    }
    let time = |line: &str| batch(line).0.local.map(|local| local.to_string());
    assert_eq!(time(lines[0]), None);
    assert_eq!(time(lines[3]).as_deref(), Some("2025-01-15T12:34:56.789"));
    assert_eq!(time(lines[4]).as_deref(), Some("2025-01-15T12:34:56.123456"));
    let (line, with_count) = batch(lines[3]);
    assert_eq!(line.rank, Rank { data: Some(0), pipeline: None, tensor: Some(0), expert: Some(0) });
    assert_eq!((with_count.forward_count, with_count.graph), (Some(1234), Some(false)));
    assert_eq!(batch(lines[2]).1.graph, Some(true));
}

#[test]
fn rows_cover_the_iterations_between_two_lines() {
    let (runs, notes, failed) = imported("sglang-log", MINIMAL, &options());
    assert!(failed.is_empty(), "{failed:?}");
    let manifest = manifest(&runs[0]);
    assert_eq!(manifest.stages.ready.unwrap().to_string(), "2025-01-15T12:34:51Z");
    assert_eq!((manifest.engine.tensor_parallel, manifest.model.name.as_str()), (Some(2), "m-7b"));
    let steps = runs[0].run.steps.as_ref().unwrap();
    assert_eq!(steps.iterations, [10, 10]);
    // 160 tokens/s for 0.5 s are 80 tokens, 10 iterations of a batch of 8.
    assert_eq!(steps.new_tokens, [80, 80]);
    assert_eq!(steps.t_start_ns[1], Some(nanos("2025-01-15T12:34:52.5Z")));
    assert_eq!(steps.prefill_tokens, [2048, 0]);
    // Before the tokens of its iterations the context was 2208 - 80, 2208 - 72, …, 2208 - 8: in sum
    // 10 * 2208 - 8 * (10 + 9 + … + 1) = 22080 - 440.
    assert_eq!(steps.history_tokens[1], Some(21_640));
    assert!(notes.iter().any(|note| note.ends_with("which repeat the first: 1")), "{notes:?}");
}

#[test]
fn whole_seconds_take_the_batch_as_printed() {
    let text = String::from_utf8_lossy(MINIMAL)
        .replace(".000", "")
        .replace(".250", "")
        .replace(".500", "")
        .replace(".001", "");
    let collected = collect("sglang-log", text.as_bytes(), &options()).unwrap();
    let rows: Vec<_> = collected
        .steps
        .iter()
        .map(|row| (row.new_tokens, row.t_end_ns - row.t_start_ns.unwrap()))
        .collect();
    assert_eq!(rows, [(80, 500_000_000), (80, 500_000_000)]);
    assert!(collected.parts[0].clock.uncertainty_ns.is_some());
}

#[test]
fn broken_lines_are_counted_and_named() {
    let strict = ImportOptions { strict: true, ..options() };
    let text = String::from_utf8_lossy(MINIMAL);
    let error = |text: String| collect("sglang-log", text.as_bytes(), &strict).unwrap_err();
    assert_eq!(
        error(text.replacen("#token: 2208", "#token: many", 1)),
        "\"input\" line 5: has \"#token\" of \"many\" is no number; expected a number"
    );
    assert_eq!(
        error(text.replacen("#running-req: 8", "#walking-req: 8", 1)),
        "\"input\" line 4: has no \"#running-req\" or no \"gen throughput (token/s)\"; expected both"
    );
    assert_eq!(
        error("Decode batch. #running-req: 8, gen throughput (token/s): 1.0\n".into()),
        "\"input\" line 1: has no time; expected \"[2025-01-15 12:34:56] …\""
    );
    assert_eq!(
        error("nothing\n".into()),
        "\"input\": holds no batch line of SGLang with a time; expected \"[2025-01-15 12:34:56] Decode batch. \
         #running-req: …\""
    );
    let cut = &MINIMAL[..MINIMAL.len() - 60];
    let collected = collect("sglang-log", cut, &options()).unwrap();
    assert_eq!((collected.steps.len(), collected.parts[0].skipped.count()), (2, 1));
}
