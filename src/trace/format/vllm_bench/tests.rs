use wattrace_schema::{ClockBase, RequestStatus, RunKind};

use super::super::testing::{collect, detected, imported, manifest, nanos, options};
use super::super::{Anchor, ImportOptions};

/// Three requests, the last of which timed out and kept its slot with zeros.
pub(crate) const MINIMAL: &[u8] = br#"{"date": "20250115-123456", "endpoint_type": "openai", "backend": "vllm",
 "label": null, "model_id": "m-7b", "tokenizer_id": "m-7b", "num_prompts": 3, "request_rate": "inf",
 "burstiness": 1.0, "max_concurrency": 2, "duration": 0.5, "completed": 2, "failed": 1,
 "total_input_tokens": 992, "total_output_tokens": 5, "request_throughput": 4.0, "request_goodput": null,
 "output_throughput": 10.0, "mean_ttft_ms": 230.0, "median_ttft_ms": 230.0, "std_ttft_ms": 20.0,
 "p99_ttft_ms": 249.6, "mean_e2el_ms": 265.0,
 "input_lens": [512, 480, 512], "output_lens": [3, 2, 0], "ttfts": [0.21, 0.25, 0.0],
 "itls": [[0.02, 0.02], [0.03], []], "start_times": [1001.5, 1001.6, 1001.7],
 "generated_texts": ["a b c", "d e", ""], "errors": ["", "", "timeout"]}
"#;

fn anchored(text: &str) -> ImportOptions {
    ImportOptions { anchor: Some(Anchor::parse(text).unwrap()), ..ImportOptions::default() }
}

#[test]
fn an_anchor_ties_monotonic_times() {
    let options = anchored("zero=2025-01-15T12:00:00Z±1ms");
    let collected = collect("vllm-bench", MINIMAL, &options).unwrap();
    let first = &collected.requests[0];
    // Zero of the clock is noon, so the first was sent 1001.5 s later, at 12:16:41.5.
    assert_eq!(first.t_send_ns, Some(nanos("2025-01-15T12:16:41.5Z")));
    assert_eq!(first.t_first_token_ns, Some(nanos("2025-01-15T12:16:41.71Z")));
    // Without latencies the end is the first token and the gaps: 0.21 + 0.02 + 0.02.
    assert_eq!(first.t_end_ns, Some(nanos("2025-01-15T12:16:41.75Z")));
    assert_eq!((first.ttft_ns, first.e2e_ns), (None, None));
    assert_eq!(first.itl_ns.as_deref(), Some(&[20_000_000, 20_000_000][..]));
    let part = &collected.parts[0];
    assert_eq!(part.clock.base, ClockBase::Monotonic);
    assert_eq!(part.clock.uncertainty_ns, Some(1_000_000));
    // The last end is 12:16:41.88, and the benchmark took 0.5 s.
    let stamps =
        [part.stages.formal_start, part.stages.formal_end].map(|stamp| stamp.unwrap().to_string());
    assert_eq!(stamps, ["2025-01-15T12:16:41.38Z", "2025-01-15T12:16:41.88Z"]);
}

#[test]
fn failed_slots_of_zeros_are_no_measurements() {
    let collected = collect("vllm-bench", MINIMAL, &anchored("zero=0")).unwrap();
    let failed = &collected.requests[2];
    assert_eq!(failed.status, RequestStatus::Timeout);
    assert_eq!(failed.error.as_deref(), Some("timeout"));
    assert_eq!((failed.output_tokens, failed.ttft_ns, failed.e2e_ns), (None, None, None));
    assert_eq!((failed.t_first_token_ns, failed.t_end_ns, &failed.itl_ns), (None, None, &None));
    assert!(failed.t_send_ns.is_some() && failed.input_tokens == Some(512));
}

#[test]
fn without_an_anchor_durations_are_kept_and_times_are_not_made_up() {
    let collected = collect("vllm-bench", MINIMAL, &ImportOptions::default()).unwrap();
    let first = &collected.requests[0];
    assert_eq!((first.t_send_ns, first.t_first_token_ns, first.t_end_ns), (None, None, None));
    assert_eq!((first.ttft_ns, first.e2e_ns), (Some(210_000_000), Some(250_000_000)));
    let part = &collected.parts[0];
    assert!(part.stages.formal_start.is_none() && part.clock.offset_ns.is_none());
    assert!(part.notes.iter().any(|note| note.contains("--anchor")), "{:?}", part.notes);
}

#[test]
fn the_date_is_the_end_to_a_second_in_the_zone_that_is_named() {
    let options = ImportOptions { time_zone: Some("+01:00".into()), ..ImportOptions::default() };
    let collected = collect("vllm-bench", MINIMAL, &options).unwrap();
    assert_eq!(collected.requests[1].t_end_ns, Some(nanos("2025-01-15T11:34:56Z")));
    let clock = &collected.parts[0].clock;
    assert_eq!(clock.uncertainty_ns, Some(1_000_000_000));
    assert_eq!(clock.zone.as_deref(), Some("+01:00"));
}

#[test]
fn the_epoch_window_of_a_fork_comes_before_the_date() {
    let text = String::from_utf8_lossy(MINIMAL).replacen(
        "\"label\": null",
        "\"benchmark_start_time_unix\": 1736944495.5, \"benchmark_end_time_unix\": 1736944496.25",
        1,
    );
    let collected = collect("vllm-bench", text.as_bytes(), &options()).unwrap();
    assert_eq!(collected.requests[1].t_end_ns, Some(1_736_944_496_250_000_000));
    // The benchmark took 0.5 s, its requests 0.38 s.
    assert_eq!(collected.parts[0].clock.uncertainty_ns, Some(120_000_000));
}

#[test]
fn statistics_of_the_tool_become_claims_under_our_names() {
    let collected = collect("vllm-bench", MINIMAL, &options()).unwrap();
    let claims = &collected.parts[0].claims;
    let claim = |metric: &str| {
        claims.iter().find(|claim| claim.metric == metric).map(|c| (c.value, c.unit.as_str()))
    };
    assert_eq!(claim("ttft_mean_ms"), Some((230.0, "ms")));
    assert_eq!(claim("ttft_p50_ms"), Some((230.0, "ms")));
    assert_eq!(claim("ttft_std_population_ms"), Some((20.0, "ms")));
    assert_eq!(claim("e2e_mean_ms"), Some((265.0, "ms")));
    assert_eq!(claim("output_throughput_tok_s"), Some((10.0, "tok/s")));
    assert_eq!(claim("requests_failed"), Some((1.0, "1")));
    assert_eq!(claim("request_goodput_req_s"), None);
}

#[test]
fn appended_results_are_runs_of_their_own() {
    let failed = r#"{"date": "20250115-123510", "endpoint_type": "openai", "backend": "vllm", "burstiness": 1.0,
        "request_rate": 2.0, "duration": 0.1, "completed": 0, "total_input_tokens": 0, "mean_ttft_ms": 0.0,
        "request_throughput": 0.0, "input_lens": [9, 9], "output_lens": [0, 0], "ttfts": [0.0, 0.0],
        "itls": [[], []], "start_times": [1010.0, 1010.0], "errors": ["Bad Request", "Bad Request"]}"#;
    let bytes = [MINIMAL, failed.as_bytes()].concat();
    let (runs, _, errors) = imported("vllm-bench", &bytes, &options());
    assert!(errors.is_empty(), "{errors:?}");
    let ids: Vec<&str> = runs.iter().map(|run| manifest(run).run_id.as_str()).collect();
    assert_eq!(ids, ["input", "input_2"]);
    let requests = runs[1].run.requests.as_ref().unwrap();
    assert!(requests.status.iter().all(|status| *status == RequestStatus::Error));
    // Statistics of no request are zeros in the file, and no claims here.
    assert!(manifest(&runs[1]).claims.iter().all(|claim| claim.metric != "ttft_mean_ms"));
    assert_eq!(manifest(&runs[1]).workload.request_rate, Some(2.0));
    assert_eq!(manifest(&runs[0]).workload.request_rate, None);

    let (runs, _, errors) = imported("vllm-bench", &bytes, &anchored("start=1736944495"));
    assert!(runs.is_empty());
    assert_eq!(
        errors,
        [
            "\"input\": result 1: the anchor names its start, but the file holds 2 results; name the zero of \
          their clock (--anchor zero=TIME)"
        ]
    );
}

#[test]
fn a_plain_result_is_claims_only() {
    let plain = br#"{"date": "20250115-123456", "endpoint_type": "openai", "backend": "openai", "model_id": "m",
        "request_rate": 4, "burstiness": 1.0, "total_input_tokens": 9, "duration": 2.0, "mean_itl_ms": 20.5}"#;
    let (runs, notes, _) = imported("vllm-bench", plain, &options());
    assert_eq!(manifest(&runs[0]).kind, RunKind::Summary);
    assert!(runs[0].run.requests.is_none());
    assert!(
        notes.iter().any(|note| note.ends_with("without --save-detailed: there are only claims"))
    );
    assert!(detected("vllm-bench", plain).is_some());
}

#[test]
fn broken_results_say_what_is_wrong() {
    let broken = |from: &str, to: &str| {
        let text = String::from_utf8_lossy(MINIMAL).replacen(from, to, 1);
        assert_ne!(text.as_bytes(), MINIMAL, "{from} is there");
        collect("vllm-bench", text.as_bytes(), &options()).unwrap_err()
    };
    assert_eq!(
        broken("\"ttfts\": [0.21, ", "\"ttfts\": ["),
        "\"input\": ttfts has 2 entries and input_lens 3; expected one for each request"
    );
    assert_eq!(
        broken("\"output_lens\": [3", "\"output_lens\": [3.5"),
        "\"input\": request 0: output_lens is 3.5; expected a number of tokens"
    );
    assert_eq!(
        broken("\"ttfts\": [0.21", "\"ttfts\": [-0.21"),
        "\"input\": request 0: ttfts is -0.21; expected a time in seconds"
    );
    assert_eq!(
        broken("20250115-123456", "yesterday"),
        "\"input\": date is \"yesterday\"; expected a time such as \"20250115-123456\""
    );
    assert_eq!(
        broken("\"itls\": [[0.02, 0.02]", "\"itls\": [[0.02, \"x\"]"),
        "\"input\" line 8: is not the JSON expected: invalid type: string \"x\", expected f64 at line 8 column 20"
    );
    assert_eq!(
        collect("vllm-bench", b"  ", &options()).unwrap_err(),
        "\"input\": holds no JSON; expected a result of vllm bench serve"
    );
    let cut = &MINIMAL[..MINIMAL.len() - 20];
    let error = collect("vllm-bench", cut, &options()).unwrap_err();
    assert!(error.starts_with("\"input\" line 9: ends inside its JSON: "), "{error}");
}

#[test]
fn what_is_no_number_is_counted_and_a_negative_statistic_is_not_claimed() {
    let text = String::from_utf8(MINIMAL.to_vec()).unwrap();
    let text =
        text.replace("[0.21, 0.25", "[NaN, 0.25").replace("\"duration\": 0.5", "\"duration\": -5");
    let collected = collect("vllm-bench", text.as_bytes(), &anchored("zero=0")).unwrap();
    assert_eq!(collected.requests[0].ttft_ns, None);
    let part = &collected.parts[0];
    assert!(!part.claims.iter().any(|claim| claim.metric == "duration_s"));
    for note in ["ttfts: 1 of 3 are no numbers", "duration is -5; expected 0 or more: not claimed"]
    {
        assert!(part.notes.iter().any(|known| known == note), "{note}: {:?}", part.notes);
    }
}
