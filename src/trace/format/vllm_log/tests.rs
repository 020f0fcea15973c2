use super::super::testing::{collect, detected, imported, manifest, nanos, options};
use super::*;

pub(crate) const MINIMAL: &[u8] = b"\
(EngineCore_DP0 pid=77) INFO 12-31 23:59:50 [core.py:133] Initializing a V1 LLM engine (v0.11.0) with config: model='m-7b', tensor_parallel_size=2, data_parallel_size=1, dtype=torch.bfloat16, enforce_eager=True
(APIServer pid=1) INFO 12-31 23:59:55 [loggers.py:199] ready soon
INFO:     Application startup complete.
(APIServer pid=1) INFO 12-31 23:59:59 [loggers.py:199] Engine 000: Iteration(7): 1 context requests, 8000 context tokens, 60 generation requests, 60 generation tokens, iteration elapsed time: 150.00 ms, GPU KV cache usage: 0.1%
(APIServer pid=1) INFO 01-01 00:00:00 [loggers.py:199] Engine 000: Iteration(8): 0 context requests, 0 context tokens, 61 generation requests, 61 generation tokens, iteration elapsed time: 20.50 ms
(APIServer pid=1) INFO 01-01 00:00:05 [loggers.py:335] Engine 000: Avg prompt throughput: 120.0 tokens/s, Avg generation throughput: 900.5 tokens/s, Running: 32 reqs, Waiting: 0 reqs, Preemptions: 0, GPU KV cache usage: 12.0%, Prefix cache hit rate: 0.0%
";

fn parsed(line: &str) -> Event<'_> {
    parse_line(line).unwrap().unwrap().event
}

#[test]
fn stat_lines_of_every_generation_are_read() {
    let values = |line: &str| match parsed(line) {
        Event::Stats(stats) | Event::SpecDecoding(stats) => {
            let values = stats.values.iter().map(|(name, value)| format!("{name}={value}"));
            format!(
                "{:?} {}",
                stats.labels.unwrap_or_default(),
                values.collect::<Vec<_>>().join(" ")
            )
        }
        other => panic!("{other:?}"),
    };
    insta::assert_snapshot!(
        values("INFO 01-15 12:34:56 [metrics.py:455] Avg prompt throughput: 120.0 tokens/s, Avg generation throughput: 900.0 tokens/s, Running: 32 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: 12.0%, CPU KV cache usage: 0.0%."),
        @r#""" avg_prompt_throughput_tokens_s=120 avg_generation_throughput_tokens_s=900 running_reqs=32 swapped_reqs=0 pending_reqs=1 gpu_kv_cache_usage_percent=12 cpu_kv_cache_usage_percent=0"#
    );
    insta::assert_snapshot!(
        values("(APIServer pid=1) INFO 01-15 12:34:56 [loggers.py:123] 2 Engines Aggregated: Avg prompt throughput: 1.0 tokens/s, Running: 3 reqs"),
        @r#""engines=\"2\"" avg_prompt_throughput_tokens_s=1 running_reqs=3"#
    );
    insta::assert_snapshot!(
        values("INFO 01-15 12:34:56 [metrics.py:86] SpecDecoding metrics: Mean acceptance length: 2.40, Accepted: 700 tokens, Per-position acceptance rate: 0.800, 0.600, Avg Draft acceptance rate: 70.0%"),
        @r#""" mean_acceptance_length=2.4 accepted_tokens=700 per_position_acceptance_rate_0=0.8 per_position_acceptance_rate_1=0.6 avg_draft_acceptance_rate_percent=70"#
    );
}

#[test]
fn iteration_lines_of_both_printers_are_read() {
    let core = "(EngineCore_DP1 pid=78) INFO 01-15 12:34:56 [core.py:343] Iteration(7): 1 context requests, 8000 context tokens, 60 generation requests, 60 generation tokens, iteration elapsed time: 150.00 ms (dummy)";
    let Event::Iteration(iteration) = parsed(core) else { panic!() };
    assert_eq!((iteration.number, iteration.elapsed_ns, iteration.dummy), (7, 150_000_000, true));
    assert_eq!((iteration.context_tokens, iteration.generation_tokens), (8000, 60));
    let coloured = "\u{1b}[36m(APIServer pid=1)\u{1b}[0m INFO 01-15 12:34:56 [loggers.py:199] Engine 003: Iteration(9): 0 context requests, 0 context tokens, 2 generation requests, 2 generation tokens, iteration elapsed time: 8.25 ms, GPU KV cache usage: 0.1%";
    let plain = plain(coloured);
    let Event::Iteration(iteration) = parsed(&plain) else { panic!() };
    assert_eq!((iteration.engine, iteration.number, iteration.elapsed_ns), (3, 9, 8_250_000));
}

#[test]
fn other_lines_have_no_stamp() {
    for line in [
        "",
        "INFO:     Application startup complete.",
        "[2025-01-15 12:34:56] Decode batch",
        "é[",
        "INFO 13 [a.py:1]",
    ] {
        assert!(parse_line(line).is_none(), "{line}");
    }
    assert_eq!(parsed("INFO 01-15 12:34:56 [x.py:1] hello"), Event::Other("hello"));
}

#[test]
fn iterations_become_steps_across_new_year() {
    let (runs, notes, failed) = imported("vllm-log", MINIMAL, &options());
    assert!(failed.is_empty(), "{failed:?}");
    let manifest = manifest(&runs[0]);
    assert_eq!(manifest.engine.version.as_deref(), Some("0.11.0"));
    assert_eq!((manifest.engine.tensor_parallel, manifest.model.name.as_str()), (Some(2), "m-7b"));
    assert_eq!(manifest.model.dtype.as_deref(), Some("bfloat16"));
    assert_eq!(manifest.stages.ready.unwrap().to_string(), "2025-12-31T23:59:55Z");
    let steps = runs[0].run.steps.as_ref().unwrap();
    assert_eq!(
        (steps.step.as_slice(), steps.prefill_tokens.as_slice()),
        (&[7, 8][..], &[8000, 0][..])
    );
    assert_eq!(steps.new_tokens, [60, 61]);
    // The first ended within [23:59:59, 24:00:00), the second within the next second and no earlier than
    // 20.5 ms after it, which bounds neither: the middles are half past.
    assert_eq!(steps.t_end_ns[0], nanos("2025-12-31T23:59:59.499999999Z"));
    assert_eq!(steps.t_end_ns[1], nanos("2026-01-01T00:00:00.499999999Z"));
    assert_eq!(steps.t_start_ns[1].unwrap(), steps.t_end_ns[1] - 20_500_000);
    assert!(notes.iter().any(|note| note.ends_with("other lines, not read: 3")), "{notes:?}");
    let clock = &manifest.provenance.inputs[0].clock;
    assert_eq!(
        (clock.resolution_ns, clock.uncertainty_ns),
        (Some(1_000_000_000), Some(500_000_000))
    );
}

#[test]
fn dummy_iterations_keep_their_time_without_tokens() {
    let line = b"INFO 01-15 12:34:56 [core.py:343] Iteration(7): 0 context requests, 0 context tokens, 1 generation requests, 1 generation tokens, iteration elapsed time: 1.00 ms (dummy)\n";
    let collected = collect("vllm-log", line, &options()).unwrap();
    assert_eq!((collected.steps[0].new_tokens, collected.steps[0].active_sequences), (0, 0));
    assert!(detected("vllm-log", line).is_some());
}

#[test]
fn broken_logs_say_what_is_wrong() {
    let without_zone = ImportOptions { time_zone: None, ..options() };
    assert_eq!(
        collect("vllm-log", MINIMAL, &without_zone).unwrap_err(),
        "\"input\": has local times without a zone; name the zone (--tz), such as UTC or America/Los_Angeles"
    );
    assert_eq!(
        collect("vllm-log", b"nothing\n", &options()).unwrap_err(),
        "\"input\": holds no stat line and no iteration line of vLLM; expected \"Avg prompt throughput: …\" or, \
         with --enable-logging-iteration-details, \"Iteration(N): …\""
    );
    let strict = ImportOptions { strict: true, ..options() };
    let text = String::from_utf8_lossy(MINIMAL).replacen("150.00 ms", "150.00 mm", 1);
    assert_eq!(
        collect("vllm-log", text.as_bytes(), &strict).unwrap_err(),
        "\"input\" line 4: has iteration elapsed time \"150.00 mm\": \"mm\" is no unit of time; expected one of \
         ns, us, µs, ms, s, sec, min, h"
    );
    let text = String::from_utf8_lossy(MINIMAL).replacen(" 60 generation tokens,", "", 1);
    assert_eq!(
        collect("vllm-log", text.as_bytes(), &strict).unwrap_err(),
        "\"input\" line 4: is an iteration line without generation tokens; expected \"Iteration(N): … \
         iteration elapsed time: X ms\""
    );
    // Without strict the other lines are read, and what was left out is counted.
    let collected = collect("vllm-log", text.as_bytes(), &options()).unwrap();
    assert_eq!((collected.steps.len(), collected.parts[0].skipped.count()), (1, 1));
}

/// Our own capture of a real server.
#[test]
fn the_captured_log_gives_every_iteration() {
    let Some(folder) = super::super::tests::shared_data("captured") else { return };
    let options = ImportOptions { year: Some(2026), strict: true, ..options() };
    let bytes = std::fs::read(folder.join("vllm_server.log")).unwrap();
    let collected = collect("vllm-log", &bytes, &options).unwrap();
    // grep -c 'Iteration(' counts as many.
    assert_eq!(collected.steps.len(), 3796);
    let bench = nanos("2026-11-30T04:42:10Z")..nanos("2026-11-30T04:43:00Z");
    let of_bench = collected.steps.iter().filter(|step| bench.contains(&step.t_end_ns));
    let sums = of_bench.fold((0, 0), |(prefill, new), step| {
        (prefill + step.prefill_tokens, new + step.new_tokens)
    });
    assert_eq!(sums, (3600, 2340));
    println!("{:?} {:?}", collected.parts[0].clock, collected.parts[0].notes);
}
