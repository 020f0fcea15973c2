use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use serde_json::json;
use wattrace_schema::Reason;

use super::*;
use crate::{find_runs, read_manifest};

/// One configuration of a dense model with round numbers: 100 W at 50 tok/s are 2 J/token.
fn configuration() -> Value {
    json!({
        "model_id": "Qwen/Qwen3-8B", "architecture": "Dense Transformer", "gpu_model": "H100",
        "num_gpus": 2, "tensor_parallel": 2, "data_parallel": 1, "expert_parallel": 1,
        "weight_precision": "bfloat16", "total_params_billions": 8.0, "activated_params_billions": 8.0,
        "max_num_seqs": 16, "avg_batch_size": 15.5, "avg_output_len": 640.0, "avg_power_watts": 100.0,
        "output_throughput_tokens_per_sec": 50.0, "energy_per_token_joules": 2.0,
        "energy_per_request_joules": 1280.0, "median_itl_ms": 20.0, "p90_itl_ms": 21.0,
        "p95_itl_ms": 22.0, "p99_itl_ms": 23.0
    })
}

fn with(changes: &Value) -> Value {
    let mut configuration = configuration();
    for (key, value) in changes.as_object().unwrap() {
        configuration[key] = value.clone();
    }
    configuration
}

fn table(configurations: &[Value]) -> String {
    json!({"task": "lm-arena-chat", "configurations": configurations}).to_string()
}

/// Imports one file; gives the manifests by id and the summary, with the folder cut from its messages.
fn import_text(text: &str, options: &ImportOptions) -> (Vec<RunManifest>, ImportSummary) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task_chat.json");
    fs::write(&path, text).unwrap();
    let archive = folder.path().join("archive");
    let mut summary = match import(&path, &archive, options) {
        Ok(summary) => summary,
        Err(error) => ImportSummary { failed: vec![error.to_string()], ..Default::default() },
    };
    let prefix = format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR);
    for message in &mut summary.failed {
        *message = message.replace(&prefix, "");
    }
    (manifests(&archive), summary)
}

fn manifests(archive: &Path) -> Vec<RunManifest> {
    let runs = find_runs(archive).unwrap_or_default();
    runs.iter().map(|run| read_manifest(run).unwrap()).collect()
}

fn import_one(configuration: Value) -> RunManifest {
    let (runs, summary) = import_text(&table(&[configuration]), &ImportOptions::default());
    assert_eq!(summary.failed, [""; 0]);
    runs.into_iter().next().unwrap()
}

fn failure(text: &str) -> String {
    let (runs, summary) = import_text(text, &ImportOptions::default());
    assert_eq!((runs.len(), summary.failed.len()), (0, 1), "{:?}", summary.failed);
    summary.failed[0].clone()
}

#[test]
fn a_configuration_becomes_claims() {
    let run = import_one(configuration());
    assert_eq!(run.run_id, "lm-arena-chat__Qwen_Qwen3-8B__H100x2__tp2-dp1-ep1__seqs16");
    assert_eq!(run.kind, RunKind::Summary);
    assert_eq!(run.setting_or_default(), "Qwen/Qwen3-8B@H100 x 2 / tp2");
    assert_eq!(run.cell.as_deref(), Some("lm-arena-chat max_num_seqs=16"));
    assert_eq!(run.split, Some(Split::Fit));
    assert_eq!(run.configuration.as_deref(), Some("tp2-dp1-ep1 max_num_seqs=16"));
    assert_eq!((run.engine.tensor_parallel, run.engine.replicas), (Some(2), Some(1)));
    let shown: Vec<String> = run
        .claims
        .iter()
        .map(|claim| format!("{} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    j_per_token 2 J/token (task_chat.json configurations[0].energy_per_token_joules)
    b_eff 15.5 1 (task_chat.json configurations[0].avg_batch_size)
    mean_output_tokens 640 tokens (task_chat.json configurations[0].avg_output_len)
    output_throughput_tok_s 50 tok/s (task_chat.json configurations[0].output_throughput_tokens_per_sec)
    steady_power_w 100 W (task_chat.json configurations[0].avg_power_watts)
    itl_p50_ms 20 ms (task_chat.json configurations[0].median_itl_ms)
    itl_p90_ms 21 ms (task_chat.json configurations[0].p90_itl_ms)
    itl_p95_ms 22 ms (task_chat.json configurations[0].p95_itl_ms)
    itl_p99_ms 23 ms (task_chat.json configurations[0].p99_itl_ms)
    energy_per_request_joules 1280 J (task_chat.json configurations[0].energy_per_request_joules)
    tau_s 0.02 s/token (task_chat.json configurations[0].output_throughput_tokens_per_sec, inverted)
    ");
    insta::assert_snapshot!(run.provenance.notes.join("\n"), @"
    geometry from the model's public config.json; it has 8190735360 parameters, which the table rounds to 8.0 billion
    keys and values are taken to have the type of the weights; the table does not say
    ");
}

#[test]
fn geometry_of_known_models_is_exact() {
    let model = import_one(configuration()).model;
    // 8,190,735,360 parameters less the look-up 151936 x 4096, of two bytes.
    let read = (8_190_735_360_u64 - 151_936 * 4096) * 2;
    assert_eq!(model.weight_bytes_per_iteration(), Ok(read as f64));
    // 2 x 36 layers x 8 heads x 128 x 2 B
    assert_eq!(model.kv_bytes_per_token(), Ok(147_456.0));
    let unknown = import_one(with(&json!({"model_id": "someone/8B"}))).model;
    assert_eq!(unknown.total_params, Some(8_000_000_000));
    assert_eq!(unknown.weight_bytes_per_iteration(), Err(Reason::NoGeometry));
    assert_eq!(unknown.kv_bytes_per_token(), Err(Reason::NoGeometry));
    // The weights of an fp8 model take a byte; what its keys and values take is not told.
    let fp8 = import_one(with(&json!({"weight_precision": "fp8"}))).model;
    assert_eq!(fp8.weight_bytes_per_iteration(), Ok((read / 2) as f64));
    assert_eq!(fp8.kv_bytes_per_token(), Err(Reason::NoGeometry));
    let packed = import_one(with(&json!({"weight_precision": "mxfp4"}))).model;
    assert_eq!(packed.weight_bytes_per_iteration(), Err(Reason::NoGeometry));
}

#[test]
fn a_mixture_of_experts_is_marked() {
    let run = import_one(with(&json!({
        "architecture": "MoE", "model_id": "a/b", "total_params_billions": 30.5,
        "activated_params_billions": 3.3
    })));
    assert!(run.is_mixture_of_experts());
    assert_eq!(run.model.total_params, Some(30_500_000_000));
    assert_eq!(run.model.active_params, Some(3_300_000_000));
    assert_eq!(run.model.weight_bytes_per_iteration(), Err(Reason::MixtureOfExperts));
}

#[test]
fn repeated_configurations_get_numbers() {
    let (runs, summary) =
        import_text(&table(&[configuration(), configuration()]), &ImportOptions::default());
    assert_eq!(runs.len(), 2, "{:?}", summary.failed);
    assert!(runs[1].run_id.ends_with("__seqs16_repeat_2"));
    assert_eq!(runs[0].cell, runs[1].cell);
    let note = "measurement 2 of a configuration that the table lists more than once";
    assert!(runs[1].provenance.notes.iter().any(|text| text == note));
}

#[test]
fn absent_values_are_not_claimed() {
    let run = import_one(with(
        &json!({"p99_itl_ms": null, "avg_batch_size": null, "max_num_seqs": null}),
    ));
    let metrics: Vec<&str> = run.claims.iter().map(|claim| claim.metric.as_str()).collect();
    assert!(!metrics.contains(&"itl_p99_ms") && !metrics.contains(&"b_eff"), "{metrics:?}");
    assert_eq!(run.cell, None);
    assert!(run.run_id.ends_with("__seqsunknown"));
}

#[test]
fn tasks_without_tokens_are_left_out_and_counted() {
    let image = json!({"model_id": "a/b", "energy_per_image_joules": 5.0, "gpu_model": "H100"});
    let text = table(&[image.clone(), configuration(), image]);
    let (runs, summary) = import_text(&text, &ImportOptions::default());
    assert_eq!((runs.len(), summary.failed.len()), (1, 0));
    insta::assert_snapshot!(summary.notes.join("\n"), @r#"task_chat.json: configurations without "energy_per_token_joules", whose task has no tokens, left out: 2"#);
    let strict = ImportOptions { strict: true, ..ImportOptions::default() };
    let (runs, summary) = import_text(&text, &strict);
    assert_eq!((runs.len(), summary.failed.len()), (1, 1));
}

#[test]
fn one_broken_configuration_does_not_stop_the_others() {
    let text = table(&[with(&json!({"num_gpus": 0})), configuration()]);
    let (runs, summary) = import_text(&text, &ImportOptions::default());
    assert_eq!(runs.len(), 1);
    insta::assert_snapshot!(summary.failed.join("\n"), @r#""task_chat.json": configurations[0].num_gpus is 0; expected a whole number above 0"#);
}

#[test]
fn broken_tables_say_what_is_wrong() {
    let one = |changes| table(&[with(&changes)]);
    let cases = [
        (
            r#"{"task": "chat", "configurations": ["#.to_owned(),
            " line 1: is not valid JSON: EOF while parsing a list at line 1 column 36",
        ),
        ("[1]".to_owned(), ": is not a JSON object; expected the table of a task"),
        ("{}".to_owned(), ": is no table of configurations; expected the table of a task"),
        (r#"{"configurations": []}"#.to_owned(), ": has no \"task\"; expected the table of a task"),
        (r#"{"configurations": [], "task": 4}"#.to_owned(), ": \"task\" is 4; expected a name"),
        (
            r#"{"configurations": {}, "task": "x"}"#.to_owned(),
            ": \"configurations\" is an object; expected a list",
        ),
        (
            r#"{"model_id": "a/b", "configurations": []}"#.to_owned(),
            ": is the page of one model, whose numbers stand in the tables of its tasks; expected the table of a \
          task",
        ),
        (
            r#"{"models": {}, "tasks": []}"#.to_owned(),
            ": is the list of models and tasks; expected the table of a task",
        ),
        (table(&[json!(3)]), ": configurations[0] is a number; expected an object"),
        (
            one(json!({"model_id": null})),
            ": configurations[0].model_id is missing; expected a name",
        ),
        (one(json!({"gpu_model": " "})), ": configurations[0].gpu_model is \" \"; expected a name"),
        (
            one(json!({"num_gpus": 1.5})),
            ": configurations[0].num_gpus is 1.5; expected a whole number above 0",
        ),
        (
            one(json!({"num_gpus": null})),
            ": configurations[0].num_gpus is missing; expected a whole number above 0",
        ),
        (
            one(json!({"energy_per_token_joules": -1})),
            ": configurations[0].energy_per_token_joules is -1; expected a number above 0",
        ),
        (
            one(json!({"energy_per_token_joules": null})),
            ": configurations[0].energy_per_token_joules is null; expected a number above 0",
        ),
        (
            one(json!({"output_throughput_tokens_per_sec": 0})),
            ": configurations[0].output_throughput_tokens_per_sec is 0; expected a number above 0",
        ),
        (
            one(json!({"median_itl_ms": "fast"})),
            ": configurations[0].median_itl_ms is \"fast\"; expected a number above 0",
        ),
        (
            one(json!({"total_params_billions": []})),
            ": configurations[0].total_params_billions is []; expected a number above 0",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(failure(&text), format!("\"task_chat.json\"{expected}"));
    }
    let named = failure(&one(json!({"model_id": "a\u{7}"})));
    assert!(named.ends_with("expected a name without control characters"), "{named}");
}

#[test]
fn a_folder_is_searched_and_other_pages_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("index.json", r#"{"models": {}, "tasks": []}"#);
    write("other.json", "{}");
    write("models/a.json", r#"{"model_id": "a/b", "configurations": []}"#);
    assert_eq!(detect(folder.path()), None);
    let archive = folder.path().join("archive");
    let options = ImportOptions::default();
    let message = import(folder.path(), &archive, &options).unwrap_err().to_string();
    assert!(message.ends_with("holds no table of a task; expected tasks/*.json"), "{message}");
    write("tasks/chat.json", &table(&[configuration()]));
    assert!(
        detect(folder.path())
            .unwrap()
            .ends_with("lists configurations with their energy and GPU model")
    );
    let summary = import(folder.path(), &archive, &options).unwrap();
    assert_eq!((summary.runs.len(), summary.notes.len(), summary.failed.len()), (1, 3, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn mutated_tables_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = table(&[configuration()]).into_bytes();
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task_chat.json");
        fs::write(&path, bytes).unwrap();
        // An edit may also drop a key that says "this has tokens": then nothing is left to import.
        let _ = detect(&path);
        let _ = import(&path, &folder.path().join("a"), &ImportOptions::default());
    }
}

/// The published tables, read in place where they are.
#[test]
fn the_published_tables_give_enough_dense_settings() {
    let Some(input) = crate::format::tests::shared_data("mlenergy_leaderboard_v3") else { return };
    assert!(detect(&input).is_some());
    let folder = tempfile::tempdir().unwrap();
    let summary = import(&input, folder.path(), &ImportOptions::default()).unwrap();
    assert_eq!(summary.failed, [""; 0]);
    let runs = manifests(folder.path());
    assert_eq!((summary.runs.len(), runs.len()), (838, 838));
    let mixtures = runs.iter().filter(|run| run.is_mixture_of_experts()).count();
    assert_eq!(mixtures, 274 + 160 + 65);

    let mut settings: BTreeMap<String, usize> = BTreeMap::new();
    for run in &runs {
        let known = run.model.weight_bytes_per_iteration().and(run.model.kv_bytes_per_token());
        if known.is_ok() {
            *settings.entry(run.setting_or_default()).or_default() += 1;
        }
    }
    settings.retain(|_, runs| *runs >= 5);
    let shown: Vec<String> =
        settings.iter().map(|(setting, runs)| format!("{setting}: {runs}")).collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    Qwen/Qwen3-14B@B200 x 1 / tp1: 14
    Qwen/Qwen3-14B@H100 x 1 / tp1: 12
    Qwen/Qwen3-32B@B200 x 1 / tp1: 15
    Qwen/Qwen3-32B@H100 x 2 / tp2: 13
    Qwen/Qwen3-8B@B200 x 1 / tp1: 14
    Qwen/Qwen3-8B@H100 x 1 / tp1: 15
    Qwen/Qwen3-VL-32B-Instruct@B200 x 1 / tp1: 12
    Qwen/Qwen3-VL-32B-Instruct@H100 x 2 / tp2: 12
    Qwen/Qwen3-VL-8B-Instruct@B200 x 1 / tp1: 11
    Qwen/Qwen3-VL-8B-Instruct@H100 x 1 / tp1: 13
    google/gemma-3-12b-it@B200 x 1 / tp1: 14
    google/gemma-3-12b-it@H100 x 1 / tp1: 12
    google/gemma-3-27b-it@B200 x 1 / tp1: 12
    google/gemma-3-27b-it@H100 x 1 / tp1: 6
    google/gemma-3-27b-it@H100 x 2 / tp2: 14
    meta-llama/Llama-3.1-405B-Instruct@B200 x 8 / tp8: 12
    meta-llama/Llama-3.1-70B-Instruct@B200 x 2 / tp2: 10
    meta-llama/Llama-3.1-70B-Instruct@H100 x 4 / tp4: 12
    meta-llama/Llama-3.1-8B-Instruct@B200 x 1 / tp1: 9
    meta-llama/Llama-3.1-8B-Instruct@H100 x 1 / tp1: 11
    meta-llama/Llama-3.3-70B-Instruct@B200 x 2 / tp2: 8
    meta-llama/Llama-3.3-70B-Instruct@H100 x 4 / tp4: 11
    ");
}
