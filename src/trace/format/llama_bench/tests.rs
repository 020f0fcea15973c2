use wattrace_schema::RunKind;

use super::super::ImportOptions;
use super::super::testing::{collect, detected, options};

/// A prompt test, and a generation test at depth.
pub(in super::super) const LIST: &[u8] = br#"[
  {"build_commit": "abc1234", "build_number": 4567, "cpu_info": "CPU", "gpu_info": "NVIDIA H200", "backends": "CUDA",
   "model_filename": "models/qwen-7b-q4.gguf", "model_type": "qwen2 7B Q4_0", "model_size": 4000000000, "model_n_params": 8000000000,
   "n_batch": 2048, "n_ubatch": 512, "type_k": "f16", "type_v": "f16", "n_gpu_layers": 99,
   "n_prompt": 512, "n_gen": 0, "n_depth": 0, "test_time": "2025-01-15T12:34:56Z",
   "avg_ns": 50000000, "stddev_ns": 1000000, "avg_ts": 10240.0, "stddev_ts": 200.0, "samples_ns": [ 50000000 ], "samples_ts": [ 10240.0 ]},
  {"build_commit": "abc1234", "build_number": 4567, "cpu_info": "CPU", "gpu_info": "NVIDIA H200", "backends": "CUDA",
   "model_filename": "models/qwen-7b-q4.gguf", "model_type": "qwen2 7B Q4_0", "model_size": 4000000000, "model_n_params": 8000000000,
   "type_k": "q8_0", "type_v": "q8_0", "n_prompt": 0, "n_gen": 128, "n_depth": 4096, "test_time": "2025-01-15T12:35:56Z",
   "avg_ns": 1280000000, "avg_ts": 100.0}
]
"#;

pub(in super::super) const TABLE: &[u8] = b"build_commit,build_number,cpu_info,gpu_info,model_filename,model_size,model_n_params,type_k,type_v,n_gpu_layers,n_prompt,n_gen,n_depth,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts
\"abc1234\",\"4567\",\"CPU, old\",\"\",\"m.gguf\",\"100\",\"200\",\"f16\",\"q8_0\",\"0\",\"0\",\"128\",\"0\",\"2025-01-15T12:34:56Z\",\"1280000000\",\"0\",\"100.000000\",\"0.000000\"
";

#[test]
fn tests_become_claims_with_size_and_depth() {
    let collected = collect("llama-bench", LIST, &options()).unwrap();
    let [prompt, generation] = collected.parts.as_slice() else { panic!() };
    let shown: Vec<String> = [prompt, generation]
        .iter()
        .flat_map(|part| &part.claims)
        .map(|claim| format!("{} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source))
        .collect();
    // 1.28 s for 128 tokens is 0.01 s a token; the mean history is 4096 + 127/2.
    insta::assert_snapshot!(shown.join("\n"), @"
    prompt_throughput_tok_s 10240 tok/s (input test 1 avg_ts)
    throughput_std_tok_s 200 tok/s (input test 1 stddev_ts)
    duration_std_s 0.001 s (input test 1 stddev_ns)
    output_throughput_tok_s 100 tok/s (input test 2 avg_ts)
    tau_s 0.01 s/token (input test 2 avg_ns / n_gen)
    b_eff 1 1 (input test 2 one sequence)
    mean_history_tokens 4159.5 tokens (input test 2 n_depth + (n_gen - 1) / 2)
    ");
    assert_eq!(collected.names, ["input pp512", "input tg128 @ d4096"]);
    assert_eq!(generation.kind, Some(RunKind::Summary));
    let model = &generation.model;
    assert_eq!(
        (model.name.as_str(), model.decode_weight_bytes),
        ("qwen-7b-q4.gguf", Some(4_000_000_000))
    );
    // A block of 32 values of q8_0 has a scale of two bytes.
    assert_eq!((model.weight_bytes_per_param, model.kv_bytes_per_value), (Some(0.5), Some(1.0625)));
    assert_eq!(generation.engine.version.as_deref(), Some("b4567 abc1234"));
    assert_eq!(generation.accelerator.as_deref(), Some("NVIDIA H200"));
}

#[test]
fn lines_and_tables_say_the_same() {
    let list: Vec<serde_json::Value> = serde_json::from_slice(LIST).unwrap();
    let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
    let from_lines = collect("llama-bench", lines.join("\n").as_bytes(), &options()).unwrap();
    let from_list = collect("llama-bench", LIST, &options()).unwrap();
    for (line, element) in from_lines.parts.iter().zip(&from_list.parts) {
        assert_eq!((&line.claims, &line.model), (&element.claims, &element.model));
    }
    let table = collect("llama-bench", TABLE, &options()).unwrap();
    let part = &table.parts[0];
    assert_eq!(part.claims[1].value, 0.01);
    assert_eq!(part.claims[1].source, "input line 2 avg_ns / n_gen");
    // Keys and values of different types have no one size; without layers on a board it is the processor.
    assert_eq!(
        (part.model.kv_bytes_per_value, part.accelerator.as_deref()),
        (None, Some("CPU, old"))
    );
}

#[test]
fn broken_tests_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let fails = |bytes: &[u8], old: &str, new: &str| {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.contains(old), "{old}");
        collect("llama-bench", text.replacen(old, new, 1).as_bytes(), &strict).unwrap_err()
    };
    assert_eq!(
        fails(LIST, "\"avg_ns\": 50000000", "\"avg_ns\": 0"),
        "\"input\" line 1: avg_ns is 0; expected a number above 0"
    );
    assert_eq!(
        fails(LIST, "\"n_prompt\": 512", "\"n_prompt\": 0"),
        "\"input\" line 1: n_prompt and n_gen are both 0; expected tokens"
    );
    assert_eq!(
        fails(TABLE, "\"1280000000\"", "\"soon\""),
        "\"input\" line 2: avg_ns is \"soon\"; expected a number"
    );
    assert_eq!(
        fails(TABLE, ",\"0.000000\"", ""),
        "\"input\" line 2: has 17 cells of 18; expected a whole row"
    );
    assert_eq!(
        fails(TABLE, "\"128\"", "\"\""),
        "\"input\" line 2: n_gen is empty; expected a number of tokens"
    );
    let header = &TABLE[..TABLE.iter().position(|byte| *byte == b'\n').unwrap()];
    assert_eq!(
        collect("llama-bench", header, &options()).unwrap_err(),
        "\"input\": holds no test of llama-bench"
    );
}

#[test]
fn it_is_told_by_its_keys_or_columns() {
    assert_eq!(
        detected("llama-bench", LIST).unwrap(),
        "\"input\" has the keys build_commit, model_filename, n_prompt, avg_ts of llama-bench"
    );
    assert_eq!(
        detected("llama-bench", TABLE).unwrap(),
        "\"input\" has the columns build_commit, model_filename, n_prompt, avg_ts of llama-bench"
    );
}
