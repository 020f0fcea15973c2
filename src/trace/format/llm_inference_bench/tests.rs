use wattrace_schema::RunKind;

use super::super::ImportOptions;
use super::super::testing::{self, collect, detected, options};

/// A table of power, with the blank line behind the header that published ones have. The second row's
/// throughput counts its output tokens alone.
pub(in super::super) const POWER: &[u8] = b"Hardware,Num of Hardware,Framework,Model,Input Output Length,Batch Size,Latency,Throughput,avg_power\n\nA100,1,vLLM,llama-7b,512,4,8.0,512.0,250000.0\nA100,2,TensorRT-LLM,llama-7b,512,4,8.0,256.0,300000.0\n";

/// A table of times; the last cell of the second row was not measured.
pub(in super::super) const TIMES: &[u8] = b"Hardware,Num of Hardware,Framework,Model,Input Length,Output Length,Batch Size,TTFT Latency,end_latency \nA100,1,vLLM,llama-7b,1024,1,16,0.5,14.5\nH100,1,vLLM,llama-7b,1024,1,16,0.25\n";

fn shown(bytes: &[u8]) -> String {
    let collected = collect("llm-inference-bench", bytes, &options()).unwrap();
    let mut lines = Vec::new();
    for part in &collected.parts {
        assert_eq!(part.kind, Some(RunKind::Summary));
        let accelerators = (part.accelerator.as_deref(), part.accelerators);
        let engine = part.engine.name.as_deref().unwrap_or_default();
        lines.push(format!("{accelerators:?} {} {engine}", part.model.name));
        lines.extend(part.claims.iter().map(|claim| {
            format!("  {} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source)
        }));
        lines.extend(part.notes.iter().map(|note| format!("  {note}")));
    }
    lines.join("\n")
}

#[test]
fn every_batch_is_a_summary_of_claims() {
    // 4 x (512 + 512) tokens in 8 s are 512 tokens a second.
    insta::assert_snapshot!(shown(POWER), @r#"
    (Some("A100"), Some(1)) llama-7b vLLM
      formal_power_w 250 W (input line 3 avg_power)
      duration_s 8 s (input line 3 Latency)
      prompt_and_output_throughput_tok_s 512 tok/s (input line 3 Throughput)
      one batch of 4 requests, 512 prompt and 512 output tokens each
    (Some("A100"), Some(2)) llama-7b TensorRT-LLM
      formal_power_w 300 W (input line 4 avg_power)
      duration_s 8 s (input line 4 Latency)
      prompt_and_output_throughput_tok_s 256 tok/s (input line 4 Throughput)
      Throughput is 256, but 4096 prompt and output tokens in Latency are 512.000000
      one batch of 4 requests, 512 prompt and 512 output tokens each
    "#);
    insta::assert_snapshot!(shown(TIMES), @r#"
    (Some("A100"), Some(1)) llama-7b vLLM
      ttft_mean_ms 500 ms (input line 2 TTFT Latency)
      e2e_mean_ms 14500 ms (input line 2 end_latency)
      one batch of 16 requests, 1024 prompt and 1 output tokens each
    (Some("H100"), Some(1)) llama-7b vLLM
      ttft_mean_ms 250 ms (input line 3 TTFT Latency)
      one batch of 16 requests, 1024 prompt and 1 output tokens each
    "#);
}

#[test]
fn broken_rows_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let text = String::from_utf8(POWER.to_vec()).unwrap();
    let fails = |text: String| {
        collect("llm-inference-bench", text.as_bytes(), &strict).map(|_| ()).unwrap_err()
    };
    assert_eq!(
        fails(text.replace("250000.0", "250 W")),
        "\"input\" line 3: avg_power is \"250 W\"; expected a number"
    );
    assert_eq!(
        fails(text.replace("512,4,8.0,512.0", "512,0,8.0,512.0")),
        "\"input\" line 3: Batch Size is \"0\"; expected a whole number of 1 or more"
    );
    assert_eq!(
        fails(text.replace("8.0,256.0,300000.0", "")),
        "\"input\" line 4: has 7 cells of 9; expected a whole row"
    );
    assert_eq!(
        fails(text.replace("8.0,256.0,300000.0", ",,0")),
        "\"input\" line 4: states neither power nor times; expected avg_power in mW or seconds"
    );
    assert_eq!(
        fails(text.replace("Batch Size", "Batch")),
        "\"input\" line 1: has no column \"Batch Size\"; its columns are \"Hardware\", \"Num of Hardware\", \
         \"Framework\", \"Model\", \"Input Output Length\", \"Batch\", \"Latency\", \"Throughput\", \"avg_power\""
    );
    assert_eq!(fails(text.lines().next().unwrap().into()), "\"input\": holds no row with a claim");
}

#[test]
fn it_is_told_by_its_columns() {
    for bytes in [POWER, TIMES] {
        assert_eq!(
            detected("llm-inference-bench", bytes).unwrap(),
            "\"input\" has the columns Hardware, Num of Hardware, Framework, Model, Batch Size of \
             LLM-Inference-Bench"
        );
    }
}

/// The published tables, read in place where they are: 1 A100 at batch 1 drew 222,122.27 mW.
#[test]
fn the_published_tables_load_as_claims() {
    let Some(folder) = super::super::tests::shared_data("argonne_llm_inference_bench") else {
        return;
    };
    for (name, rows) in [
        ("Plots_Fig_16_a_b_power_results.csv", 48),
        ("Plots_Fig_16_a_power_results.csv", 40),
        ("Plots_Fig_22_all_results_TTFT_ITL.csv", 30),
    ] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let (runs, notes, failed) = testing::imported("llm-inference-bench", &bytes, &options());
        assert_eq!((failed.len(), runs.len()), (0, rows), "{name}: {notes:?}");
        let first = &testing::manifest(&runs[0]).claims[0];
        if name.contains("power") {
            assert_eq!(
                (first.metric.as_str(), first.value),
                ("formal_power_w", 222_122.271_186_440_7 / 1e3)
            );
        }
    }
}
