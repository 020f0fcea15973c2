use wattrace_schema::RunKind;

use super::super::ImportOptions;
use super::super::testing::{collect, detected, options};

/// One model with two batch sizes; the second node had no meter.
pub(in super::super) const MINIMAL: &[u8] = br#"{"Llama-3.1-8B": [
 {"duration": 10.0, "total_output_tokens": 1000, "responses": 8, "gpu_avg_power": 300.0, "gpu_energy": 3000.0,
  "gpu_energy_per_token": 3.0, "cpu_avg_power": 50.0, "cpu_energy": 500.0, "total_avg_power": 500.0,
  "total_energy": 5000.0, "energy_per_token": 5.0, "model": "Llama-3.1-8B", "batch_size": 8, "engine": "vllm"},
 {"duration": 20.0, "total_output_tokens": 4000, "gpu_avg_power": 400.0, "gpu_energy": 8000.0,
  "total_energy": 0, "energy_per_token": null, "batch_size": 32, "engine": "vllm"}]}
"#;

#[test]
fn every_result_is_a_summary_of_claims() {
    let collected = collect("tokenpowerbench", MINIMAL, &options()).unwrap();
    let [first, second] = collected.parts.as_slice() else { panic!() };
    let shown: Vec<String> = first
        .claims
        .iter()
        .map(|claim| format!("{} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    formal_energy_j 3000 J (input Llama-3.1-8B[0].gpu_energy)
    formal_power_w 300 W (input Llama-3.1-8B[0].gpu_avg_power)
    formal_j_per_token 3 J/token (input Llama-3.1-8B[0].gpu_energy_per_token)
    output_tokens 1000 tokens (input Llama-3.1-8B[0].total_output_tokens)
    node_energy_j 5000 J (input Llama-3.1-8B[0].total_energy)
    node_power_w 500 W (input Llama-3.1-8B[0].total_avg_power)
    node_j_per_token 5 J/token (input Llama-3.1-8B[0].energy_per_token)
    cpu_energy_j 500 J (input Llama-3.1-8B[0].cpu_energy)
    cpu_power_w 50 W (input Llama-3.1-8B[0].cpu_avg_power)
    duration_s 10 s (input Llama-3.1-8B[0].duration)
    ");
    assert_eq!(
        (first.kind, first.configuration.as_deref()),
        (Some(RunKind::Summary), Some("batch_size=8"))
    );
    // A node energy of zero is a meter that there was not.
    assert!(!second.claims.iter().any(|claim| claim.metric.starts_with("node")));
    assert_eq!(second.model.name, "Llama-3.1-8B");
    assert!(collected.requests.is_empty() && collected.power.is_empty());
}

#[test]
fn broken_results_say_what_is_wrong() {
    let text = String::from_utf8(MINIMAL.to_vec()).unwrap();
    let strict = ImportOptions { strict: true, ..options() };
    let fails = |text: &str| collect("tokenpowerbench", text.as_bytes(), &strict).unwrap_err();
    assert_eq!(
        fails(&text.replace("\"gpu_energy\": 8000.0", "\"gpu_energy\": \"8000 J\"")),
        "\"input\" line 2: Llama-3.1-8B[1].gpu_energy is \"8000 J\"; expected a number of 0 or more"
    );
    assert_eq!(fails("{\"m\": 4}"), "\"input\": \"m\" is no list of results");
    assert_eq!(fails("4"), "\"input\": is no list of results by model");
    assert_eq!(fails("[{}]"), "\"input\" line 1: [0] states no energy; expected gpu_energy in J");
    assert_eq!(fails("{}"), "\"input\": holds no result with an energy");
    assert!(fails("{\"m\": [").starts_with("\"input\" line 1: ends inside its JSON: "));
}

#[test]
fn it_is_told_by_its_keys() {
    assert_eq!(
        detected("tokenpowerbench", MINIMAL).unwrap(),
        "\"input\" has duration, total_output_tokens, gpu_energy, gpu_avg_power of TokenPowerBench"
    );
}
