//! Figures of results written for the purpose.

use serde_json::json;
use wattrace_analysis::Options;
use wattrace_analysis::metrics::DEFINITIONS_VERSION;
use wattrace_schema::Unit;

use super::*;
use crate::table::ResultTable;
use crate::{
    Provenance, ResultsManifest, RunCounts, SyntheticShare, fixtures, tables, write_table,
};

/// A results folder with the runs of the fixtures and these tables.
fn results(more: &[ResultTable]) -> (tempfile::TempDir, Results) {
    let dir = tempfile::tempdir().unwrap();
    let records = vec![fixtures::serving("serving-b"), fixtures::decode("decode-a", "b4-h100")];
    let provenance = Provenance {
        tool_version: "0.1.0".into(),
        metric_definitions_version: DEFINITIONS_VERSION,
        options: json!({ "metrics": Options::default() }),
        archive_sha256: None,
        synthetic: SyntheticShare::Some,
    };
    let mut manifest = ResultsManifest::new(&provenance, vec![], RunCounts::of(&records));
    for table in [tables::runs(&records)].iter().chain(more) {
        manifest.tables.push(write_table(dir.path(), table, &provenance).unwrap());
    }
    manifest.write(dir.path()).unwrap();
    let results = Results::open(dir.path()).unwrap();
    (dir, results)
}

fn kind(name: &str) -> &'static FigureKind {
    FIGURES.iter().find(|kind| kind.name == name).unwrap()
}

/// The only figure of a kind as SVG, and the name of its files.
fn only(results: &Results, name: &str) -> (String, String) {
    let mut set = figures(results, kind(name), &[]).unwrap();
    assert_eq!(set.figures.len(), 1, "{set:?}");
    let figure = set.figures.remove(0);
    (figure.stem, figure.figure.draw().unwrap().to_svg())
}

fn refusal(results: &Results, name: &str, runs: &[&str]) -> String {
    let runs: Vec<String> = runs.iter().map(|run_id| (*run_id).to_owned()).collect();
    figures(results, kind(name), &runs).unwrap_err().to_string()
}

#[test]
fn every_figure_has_its_source() {
    let names: Vec<&str> = FIGURES.iter().map(|kind| kind.name).collect();
    assert_eq!(names, EXTRACTS.map(|(name, _)| name));
}

#[test]
fn a_missing_table_is_named_with_what_makes_it() {
    let (_dir, results) = results(&[]);
    assert_eq!(
        refusal(&results, "request-energy", &[]),
        "needs table requests (wattrace analyze --per-request); the results have no table \"requests\""
    );
    assert_eq!(
        refusal(&results, "power-timeline", &["nobody"]),
        "the results have no run \"nobody\""
    );
    // The serving run of the fixtures neither reaches steady state nor is released.
    assert!(
        refusal(&results, "steady-lifecycle", &[])
            .ends_with("no serving run reached steady state and released")
    );
}

#[test]
fn decode_runs_give_energy_against_batch() {
    let (_dir, results) = results(&[]);
    let (stem, svg) = only(&results, "energy-batch-history");
    assert_eq!(stem, "energy-batch-history-qwen-h200");
    // 400 tokens of history over 4 tokens.
    assert!(svg.contains("history 100 tokens"), "{svg}");
    assert!(!svg.contains("synthetic data"));
}

#[test]
fn amortisation_takes_its_marks_from_the_runs() {
    // Fixed 100 J, 10 J a request of 1 token: E(N)/N is 110, 20, 11 for N = 1, 10, 100.
    let rows = [(1_u64, 110.0, 100.0 / 110.0), (10, 20.0, 0.5), (100, 11.0, 100.0 / 1100.0)];
    let table = ResultTable::of("amortisation", "one run answering one number of requests", &rows)
        .text("run_id", "Run.", |_| Some("serving-b"))
        .count("requests", Unit::Count, "N.", |row| Some(row.0))
        .number("j_per_token", Unit::JoulePerToken, "E(N)/(N*tokens).", |row| Some(row.1))
        .number("fixed_share", Unit::Ratio, "Share.", |row| Some(row.2))
        .build();
    let (_dir, results) = results(&[table]);
    let (stem, svg) = only(&results, "amortisation");
    assert_eq!(stem, "amortisation-chat-vllm");
    assert!(svg.contains("Qwen2.5-7B (serving-b)"), "{svg}");
}

#[test]
fn sweeps_show_limits_and_the_chosen_rate() {
    struct Row(&'static str, Option<f64>, Option<f64>);
    let rows = [
        Row("base", Some(4.0), Some(900.0)),
        Row("base", Some(2.0), Some(300.0)),
        Row("base", None, None),
        Row("fast", Some(2.0), Some(100.0)),
    ];
    let hash = "0123456789abcdef";
    let sweep = ResultTable::of("sweep", "one rate", &rows)
        .text("spec_hash", "Spec.", |_| Some(hash))
        .text("configuration", "Name.", |row| Some(row.0))
        .number("request_rate", Unit::RequestPerSecond, "Rate.", |row| row.1)
        .number("output_tok_s", Unit::TokenPerSecond, "Output.", |_| Some(500.0))
        .number("ttft_p99_ms", Unit::Millisecond, "TTFT.", |row| row.2)
        .number("tpot_p99_ms", Unit::Millisecond, "TPOT.", |_| Some(20.0))
        .number("slo_ttft_p99_ms", Unit::Millisecond, "Limit.", |_| Some(500.0))
        .build();
    // "base" keeps its limits at 2 req/s; "fast" has no goodput.
    let goodputs = [("base", Some(500.0), Some(2.0)), ("fast", None, None)];
    let goodput = ResultTable::of("goodput", "one configuration", &goodputs)
        .text("spec_hash", "Spec.", |_| Some(hash))
        .text("configuration", "Name.", |row| Some(row.0))
        .number("goodput_tok_s", Unit::TokenPerSecond, "Goodput.", |row| row.1)
        .number("request_rate", Unit::RequestPerSecond, "Rate.", |row| row.2)
        .text_list("flags", "Flags.", |_| Some(vec!["synthetic".to_owned()]))
        .build();
    let (_dir, results) = results(&[sweep, goodput]);
    let (stem, svg) = only(&results, "slo-sweep");
    assert_eq!(stem, "slo-sweep-0123456789ab");
    for label in
        ["base", "fast", "objective", "highest rate that meets both", "max", "synthetic data"]
    {
        assert!(svg.contains(&format!("\n{label}\n")), "{label}: {svg}");
    }
}

#[test]
fn the_request_figure_follows_the_order_of_ends() {
    let rows = [(1_u64, 0.5, None), (0, 0.25, Some(0.2))];
    let table = ResultTable::of("requests", "one request", &rows)
        .text("run_id", "Run.", |_| Some("serving-b"))
        .number("j_per_token", Unit::JoulePerToken, "Energy.", |row| Some(row.1))
        .count("order", Unit::None, "Place.", |row| Some(row.0))
        .number("window_cv", Unit::Ratio, "CV.", |row| row.2)
        .build();
    let (_dir, results) = results(&[table]);
    let (stem, svg) = only(&results, "request-energy");
    assert_eq!(stem, "request-energy-serving-b");
    // 100 requests and 0.03 stand in results.json.
    assert!(svg.contains("CV of this and the next 99") && svg.contains("threshold 0.03"), "{svg}");
}

#[test]
fn names_of_files_are_plain_and_unique() {
    let mut taken = BTreeSet::new();
    let mut name = |key: &str| stem("step-time", key, &mut taken);
    assert_eq!(name(""), "step-time");
    assert_eq!(name("Qwen2.5-7B@H100 x 1 / tp1"), "step-time-qwen2.5-7b-h100-x-1-tp1");
    assert_eq!(name("Qwen2.5-7B@H100 x 1 \\ tp1"), "step-time-qwen2.5-7b-h100-x-1-tp1-2");
    assert_eq!(name("../ß"), "step-time-..");
}
