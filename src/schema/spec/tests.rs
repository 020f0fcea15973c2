//! Specs right and wrong, with the exact words.

use proptest::prelude::*;

use super::*;

const WHOLE: &str = r#"# Which of three builds serves chat best?
hardware:
  accelerator: H200-SXM-141GB
  vendor: nvidia
  count: 1
  hbm_bandwidth_gb_s: 4800
engine:
  name: vllm
  version: "0.10"
model:
  name: Qwen/Qwen2.5-7B-Instruct
  dtype: bf16
  quantisations: [bf16, fp8]
slo:
  ttft_p99_ms: 500
  tpot_p99_ms: 60
workload:
  request_rates: [1, 2.5, null]
  warmup_s: 30
  window_s: 300
  input_tokens: [1024, 8192]
accuracy:
  suite: gsm8k
  seeds: [1, 2, 3]
  max_drop_points: 1
  reference_configuration: production
power:
  node_source: redfish
  interval_ms: 1000
runs:
  repeats: 5
  configurations:
    production: {}
    candidate: {flags: --enable-x}
"#;

fn parse(text: &str) -> LockedSpec {
    LockedSpec::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The whole spec with one passage replaced.
fn with(from: &str, to: &str) -> String {
    assert!(WHOLE.contains(from), "{from:?} does not stand in the spec");
    WHOLE.replacen(from, to, 1)
}

#[test]
fn a_whole_spec_is_read() {
    let spec = parse(WHOLE);
    let fields = spec.fields();
    assert_eq!(fields.engine.version.as_deref(), Some("0.10"));
    let rates: Vec<_> =
        fields.workload.request_rates.iter().map(|rate| rate.map(Positive::get)).collect();
    assert_eq!(rates, [Some(1.0), Some(2.5), None]);
    let accuracy = fields.accuracy.as_ref().unwrap();
    assert_eq!(accuracy.seeds, [1, 2, 3]);
    assert_eq!(accuracy.reference_score_points, None);
    let configurations = fields.runs.configurations.as_ref().unwrap();
    assert_eq!(configurations.keys().collect::<Vec<_>>(), ["candidate", "production"]);
    assert!(spec.unknown_fields().is_empty());
    assert_eq!(spec.hash().len(), 64);
}

#[test]
fn the_hash_is_sha256_of_canonical_json() {
    let text = "runs: {repeats: 5.0}\nslo: {tpot_p99_ms: 6e1, ttft_p99_ms: 500}\n\
        workload: {warmup_s: 0, window_s: 60, request_rates: [1, ~]}\nengine: {name: vllm}\n\
        model: {name: m, dtype: bf16}\n\
        hardware: {accelerator: x, vendor: v, count: 1, hbm_bandwidth_gb_s: 4.0e3}\n";
    let spec = parse(text);
    let canonical = r#"{"engine":{"name":"vllm"},"hardware":{"accelerator":"x","count":1,"hbm_bandwidth_gb_s":4000,"vendor":"v"},"model":{"dtype":"bf16","name":"m"},"runs":{"repeats":5},"slo":{"tpot_p99_ms":60,"ttft_p99_ms":500},"workload":{"request_rates":[1,null],"warmup_s":0,"window_s":60}}"#;
    assert_eq!(spec.canonical_json(), canonical);
    // By hashlib of Python.
    assert_eq!(spec.hash(), "efb324faab6611745f453e9165dd65127de800bb23a1d78077963880c6fd60bf");
}

#[test]
fn layout_comments_order_and_spelling_of_numbers_do_not_change_the_hash() {
    let hash = parse(WHOLE).hash().to_owned();
    for same in [
        with("# Which of three builds serves chat best?\n", ""),
        with("count: 1", "count: 1.0"),
        with("ttft_p99_ms: 500", "ttft_p99_ms: 5e2   # half a second"),
        with("  ttft_p99_ms: 500\n  tpot_p99_ms: 60\n", "  tpot_p99_ms: 60\n  ttft_p99_ms: 500\n"),
        with(
            "slo:\n  ttft_p99_ms: 500\n  tpot_p99_ms: 60\n",
            "slo: {ttft_p99_ms: 500, tpot_p99_ms: 60}\n",
        ),
        with("vendor: nvidia", "vendor: 'nvidia'"),
        with("[1, 2.5, null]", "[1, 2.50, ~]"),
        WHOLE.replace('\n', "\r\n"),
        format!("\u{feff}---\n{WHOLE}...\n"),
    ] {
        assert_eq!(parse(&same).hash(), hash, "{same}");
    }
}

#[test]
fn any_changed_field_changes_the_hash_and_is_named() {
    let whole = parse(WHOLE);
    let changed = |text: &str| {
        let other = parse(text);
        assert_ne!(whole.hash(), other.hash());
        whole.changes_to(&other).iter().map(FieldChange::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(changed(&with("count: 1", "count: 2")), "hardware.count: 1 -> 2");
    assert_eq!(changed(&with("\"0.10\"", "\"0.1\"")), "engine.version: \"0.10\" -> \"0.1\"");
    assert_eq!(
        changed(&with("[1, 2.5, null]", "[2.5, 1, null]")),
        "workload.request_rates: [1,2.5,null] -> [2.5,1,null]"
    );
    assert_eq!(
        changed(&with("power:\n  node_source: redfish\n  interval_ms: 1000\n", "")),
        "power.interval_ms: 1000 -> absent\npower.node_source: \"redfish\" -> absent"
    );
    assert_eq!(
        changed(&with("    production: {}", "    production: {driver: \"570.1\"}\n    old: {}")),
        "runs.configurations.old: absent -> {}\n\
         runs.configurations.production.driver: absent -> \"570.1\""
    );
    assert!(whole.changes_to(&whole).is_empty());
}

#[test]
fn unknown_fields_are_kept_hashed_and_listed() {
    let text = with("slo:\n", "note: [a, {b: 1.50}]\nslo:\n  ttft_p95_ms: 300\n");
    let spec = parse(&text);
    assert_eq!(spec.unknown_fields(), ["slo.ttft_p95_ms", "note"]);
    assert_ne!(spec.hash(), parse(WHOLE).hash());
    assert!(spec.canonical_json().contains(r#""note":["a",{"b":1.5}]"#));
}

#[test]
fn broken_specs_are_told_line_field_and_what_is_expected() {
    let broken = [
        "".to_owned(),
        "just text".to_owned(),
        with("slo:\n", "slo\n"),
        with("count: 1\n", "count: [1\n"),
        format!("{WHOLE}---\n{WHOLE}"),
        with("  count: 1\n", "  count: 1\n  count: 2\n"),
        with("slo:\n", "slo: &limits\n"),
        with("power:\n", "spare: *limits\npower:\n"),
        with("count: 1", "count: !!str 1"),
        with("power:\n", "[a, b]: 1\npower:\n"),
        with("power:\n", ": 1\npower:\n"),
        with("  vendor: nvidia\n", ""),
        with("slo:\n  ttft_p99_ms: 500\n  tpot_p99_ms: 60\n", ""),
        with("slo:\n  ttft_p99_ms: 500\n  tpot_p99_ms: 60\n", "slo: 500\n"),
        with("ttft_p99_ms: 500", "ttft_p99_ms: fast"),
        with("ttft_p99_ms: 500", "ttft_p99_ms: 500 ms"),
        with("tpot_p99_ms: 60", "tpot_p99_ms: -60"),
        with("tpot_p99_ms: 60", "tpot_p99_ms: .inf"),
        with("tpot_p99_ms: 60", "tpot_p99_ms: 1e400"),
        with("warmup_s: 30", "warmup_s: -1"),
        with("window_s: 300", "window_s:"),
        with("count: 1", "count: 1.5"),
        with("count: 1", "count: 0"),
        with("repeats: 5", "repeats: five"),
        with("\"0.10\"", "0.10"),
        with("dtype: bf16", "dtype: \"\""),
        with("[1, 2.5, null]", "[]"),
        with("[1, 2.5, null]", "[1, 2.5, inf]"),
        with("[1, 2.5, null]", "[1, 2.5, 1.0]"),
        with("[1, 2.5, null]", "4"),
        with("[1, 2, 3]", "[1, 4294967296]"),
        with("  reference_configuration: production\n", ""),
        with("max_drop_points: 1", "max_drop_points: 1\n  reference_score_points: 70"),
        with("reference_configuration: production", "reference_configuration: baseline"),
        with("repeats: 5", "repeats: 5\n  reference: baseline"),
        with("node_source: redfish", "node_source: 700 W TDP"),
        with("    production: {}\n    candidate: {flags: --enable-x}\n", "    - production\n"),
        format!("x: {}{}\n", "[".repeat(40), "]".repeat(40)),
        with("ttft_p99_ms: 500", "ttft_p99_ms: fast").replace("count: 1", "count: none"),
    ];
    let messages: Vec<_> =
        broken.iter().map(|text| LockedSpec::parse(text).expect_err(text).to_string()).collect();
    insta::assert_snapshot!(messages.join("\n\n"), @r#"
    line 1: found an empty document; expected a spec with its sections

    line 1: found the text "just text"; expected a section with its fields

    line 15: found broken YAML in column 14 (simple key expect ':'); expected YAML; the slip may stand on an earlier line

    line 6: found broken YAML in column 21 (illegal placement of ':' indicator); expected YAML; the slip may stand on an earlier line

    line 35: found a second document; expected one document

    line 6, field "hardware.count": found the field again (first on line 5); expected each field once

    line 14, field "slo": found an anchor (&); expected the value alone

    line 27: found broken YAML in column 8 (while parsing node, found unknown anchor); expected YAML; the slip may stand on an earlier line

    line 5, field "hardware.count": found a tag (!); expected the value alone

    line 27: found a field without a name; expected a name, then ":"

    line 27: found a field without a name; expected a name, then ":"

    line 2, field "hardware.vendor": found nothing; expected text

    line 2, field "slo": found nothing; expected a section with its fields

    line 14, field "slo": found the number 500; expected a section with its fields

    line 15, field "slo.ttft_p99_ms": found the text "fast"; expected a number above 0

    line 15, field "slo.ttft_p99_ms": found the text "500 ms"; expected a number above 0

    line 16, field "slo.tpot_p99_ms": found the number -60; expected a number above 0

    line 16, field "slo.tpot_p99_ms": found .inf; expected a finite number

    line 16, field "slo.tpot_p99_ms": found 1e400; expected a finite number

    line 19, field "workload.warmup_s": found the number -1; expected a number of at least 0

    line 20, field "workload.window_s": found null; expected a number above 0

    line 5, field "hardware.count": found the number 1.5; expected a whole number from 1 to 4294967295

    line 5, field "hardware.count": found the number 0; expected a whole number from 1 to 4294967295

    line 31, field "runs.repeats": found the text "five"; expected a whole number from 1 to 4294967295

    line 9, field "engine.version": found the number 0.10; expected text, in quotes, or null

    line 12, field "model.dtype": found the text ""; expected text

    line 18, field "workload.request_rates": found an empty list; expected a list, each entry a number above 0, or null

    line 18, field "workload.request_rates[2]": found the text "inf"; expected a number above 0, or null

    line 18, field "workload.request_rates[2]": found the number 1.0 again; expected each entry once

    line 18, field "workload.request_rates": found the number 4; expected a list, each entry a number above 0, or null

    line 24, field "accuracy.seeds[1]": found the number 4294967296; expected a whole number from 0 to 4294967295

    line 22, field "accuracy": found neither reference_score_points nor reference_configuration; expected one of the two

    line 22, field "accuracy": found both reference_score_points and reference_configuration; expected one of the two

    line 26, field "accuracy.reference_configuration": found the text "baseline"; expected a name in runs.configurations: candidate, production

    line 32, field "runs.reference": found the text "baseline"; expected a name in runs.configurations: candidate, production

    line 28, field "power.node_source": found the text "700 W TDP"; expected a source that measures; rated power is never used

    line 32, field "runs.configurations": found a list; expected a section with a field for each name, or null

    line 1: found deeper nesting; expected at most 32 levels

    line 5, field "hardware.count": found the text "none"; expected a whole number from 1 to 4294967295
    line 15, field "slo.ttft_p99_ms": found the text "fast"; expected a number above 0
    "#);
}

#[test]
fn a_text_beyond_any_spec_is_refused_unread() {
    let message = LockedSpec::parse(&"#".repeat(2_000_000)).unwrap_err().to_string();
    assert_eq!(message, "line 1: found 2000000 bytes; expected a spec of at most 1048576 bytes");
}

#[test]
fn the_json_schema_names_every_field_that_is_read() {
    // Reading `{}` in each section's place reports every required field; the schema must require the
    // same ones.
    let schema = spec_json_schema();
    let errors = LockedSpec::parse("{}").unwrap_err();
    let missing: Vec<_> = errors.0.iter().map(|error| error.field.as_str()).collect();
    let required: Vec<_> =
        schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(missing, required);

    let slo = &schema["$defs"]["Slo"];
    assert_eq!(slo["properties"]["ttft_p99_ms"]["exclusiveMinimum"], 0);
    assert_eq!(slo["required"].as_array().unwrap().len(), 2);
    assert_eq!(schema["$defs"]["AccuracySpec"]["required"].as_array().unwrap().len(), 3);
    let rates = &schema["$defs"]["WorkloadSpec"]["properties"]["request_rates"];
    assert_eq!((&rates["minItems"], &rates["uniqueItems"]), (&1.into(), &true.into()));
}

#[test]
fn a_monstrous_value_does_not_drown_its_message() {
    for value in ["9".repeat(500_000), "x".repeat(500_000)] {
        let errors = LockedSpec::parse(&with("count: 1", &format!("count: {value}"))).unwrap_err();
        assert!(errors.to_string().len() < 200, "{errors}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".*") {
        let _ = LockedSpec::parse(&text);
    }

    #[test]
    fn damage_never_panics(at in 0..WHOLE.len(), piece in "[-\\[\\]{}&*!|>%@`:#,?'\"\\\\ \\n\\t0-9a-z]{0,6}") {
        let _ = LockedSpec::parse(&format!("{}{piece}{}", &WHOLE[..at], &WHOLE[at..]));
    }
}
