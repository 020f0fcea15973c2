use wattrace_schema::{RequestStatus, RunKind};

use super::super::testing::{collect, imported, manifest, options};

/// Two runs, the first with details.
pub(crate) const MINIMAL: &[u8] = br#"{"tag": "a", "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "max_concurrency": null, "duration": 2.0, "completed": 1, "total_input_tokens": 512, "total_output_tokens": 3, "total_output_tokens_retokenized": 3, "request_throughput": 0.5, "output_throughput": 1.5, "median_ttft_ms": 210.0, "p99_e2e_latency_ms": 250.0, "input_lens": [512, 480], "output_lens": [3, 0], "ttfts": [0.21, 0.0], "itls": [[0.02, 0.02], []], "generated_texts": ["a", ""], "errors": ["", "refused"]}
{"backend": "sglang-oai", "dataset_name": "random", "request_rate": Infinity, "completed": 4, "total_output_tokens": 8, "total_output_tokens_retokenized": 9, "request_throughput": 2.0, "accept_length": 2.5}
"#;

#[test]
fn requests_keep_durations_and_their_gaps() {
    let collected = collect("sglang-bench", MINIMAL, &options()).unwrap();
    let first = &collected.requests[0];
    assert_eq!(
        (first.t_send_ns, first.ttft_ns, first.e2e_ns),
        (None, Some(210_000_000), Some(250_000_000))
    );
    assert_eq!(first.itl_ns.as_deref(), Some(&[20_000_000, 20_000_000][..]));
    let failed = &collected.requests[1];
    assert_eq!(
        (failed.status, failed.output_tokens, failed.ttft_ns),
        (RequestStatus::Error, None, None)
    );
    assert_eq!(failed.error.as_deref(), Some("refused"));
}

#[test]
fn each_line_is_a_run() {
    let (runs, notes, failed) = imported("sglang-bench", MINIMAL, &options());
    assert!(failed.is_empty(), "{failed:?}");
    let ids: Vec<&str> = runs.iter().map(|run| manifest(run).run_id.as_str()).collect();
    assert_eq!(ids, ["input_a", "input"]);
    let plain = manifest(&runs[1]);
    assert_eq!(plain.kind, RunKind::Summary);
    let claim = |metric: &str| {
        plain.claims.iter().find(|claim| claim.metric == metric).map(|claim| claim.value)
    };
    // What was asked for and what the client counted differ, and both are kept.
    assert_eq!(claim("output_tokens"), Some(8.0));
    assert_eq!(claim("total_output_tokens_retokenized"), Some(9.0));
    assert!(notes.iter().any(|note| note.contains("cannot be rebuilt")), "{notes:?}");
}

#[test]
fn broken_results_say_what_is_wrong() {
    let text =
        String::from_utf8_lossy(MINIMAL).replacen("\"ttfts\": [0.21, 0.0]", "\"ttfts\": [0.21]", 1);
    assert_eq!(
        collect("sglang-bench", text.as_bytes(), &options()).unwrap_err(),
        "\"input\" line 1: ttfts has 1 entries and output_lens 2; expected one for each request"
    );
    assert_eq!(
        collect("sglang-bench", b"\n", &options()).unwrap_err(),
        "\"input\": holds no JSON; expected a result of sglang.bench_serving"
    );
    let error = collect("sglang-bench", &MINIMAL[..300], &options()).unwrap_err();
    assert!(error.starts_with("\"input\" line 1: ends inside its JSON: "), "{error}");
}
