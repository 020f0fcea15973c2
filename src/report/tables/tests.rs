//! Known answers for the tables, made from the small runs of [`crate::fixtures`].

use serde_json::{Value, json};
use wattrace_analysis::metrics::{RequestEnergy, catalogue};
use wattrace_analysis::model::{CoefficientRow, FitRow};
use wattrace_analysis::ranking::{RankOptions, rank};
use wattrace_schema::{Flag, Unit};

use super::*;
use crate::RunRecord;
use crate::fixtures;
use crate::table::ColumnValues;

fn archive() -> Vec<RunRecord> {
    vec![
        fixtures::unreadable("runs/broken", "\"run.json\" is missing"),
        fixtures::serving("serving-b"),
        fixtures::node_only("node-a"),
    ]
}

fn text(table: &ResultTable, column: &str) -> Vec<Option<String>> {
    match &table.column(column).unwrap().values {
        ColumnValues::Text(values) => values.clone(),
        other => panic!("{column} is {}", other.type_name()),
    }
}

fn numbers(table: &ResultTable, column: &str) -> Vec<Option<f64>> {
    match &table.column(column).unwrap().values {
        ColumnValues::F64(values) => values.clone(),
        other => panic!("{column} is {}", other.type_name()),
    }
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[test]
fn runs_hold_every_metric_in_order_of_run_ids() {
    let table = runs(&archive());
    assert_eq!(text(&table, "run_id"), some(&["node-a", "runs/broken", "serving-b"]));
    assert_eq!(
        text(&table, "size_group"),
        [Some("small".to_owned()), None, Some("small".to_owned())]
    );
    // serving-b: 10 s at 500 W over 100 + 150 tokens is 20 J/token; node-a has no boards.
    assert_eq!(numbers(&table, "formal_j_per_token"), [None, None, Some(20.0)]);
    // node-a: 6000 W over the claimed 2000 tok/s is 3 J/token.
    assert_eq!(numbers(&table, "node_j_per_token"), [Some(3.0), None, None]);
    let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
    let metrics: Vec<&str> = catalogue().iter().map(|metric| metric.name).collect();
    assert_eq!(names[16..names.len() - 4], metrics);
}

#[test]
fn every_missing_metric_of_a_run_has_its_reason() {
    let table = runs(&archive());
    let reasons: Vec<Value> = text(&table, "reasons")
        .iter()
        .map(|reasons| serde_json::from_str(reasons.as_ref().unwrap()).unwrap())
        .collect();
    for metric in catalogue() {
        let column = &table.column(metric.name).unwrap().values;
        for (row, reasons) in reasons.iter().enumerate() {
            let missing = match column {
                ColumnValues::F64(values) => values[row].is_none(),
                ColumnValues::U64(values) => values[row].is_none(),
                ColumnValues::Bool(values) => values[row].is_none(),
                ColumnValues::Time(values) => values[row].is_none(),
                ColumnValues::Text(_) | ColumnValues::TextList(_) => panic!("{}", metric.name),
            };
            assert_eq!(reasons.get(metric.name).is_some(), missing, "{} row {row}", metric.name);
        }
    }
    assert_eq!(reasons[0]["formal_j_per_token"], json!("no-gpu-power"));
    assert_eq!(reasons[1]["formal_j_per_token"], json!("invalid-run"));
    assert_eq!(text(&table, "error")[1].as_deref(), Some("\"run.json\" is missing"));
}

#[test]
fn the_order_of_computation_does_not_show() {
    let mut backwards = archive();
    backwards.reverse();
    assert_eq!(runs(&backwards), runs(&archive()));
    assert_eq!(metrics(&backwards), metrics(&archive()));
    assert_eq!(claims(&backwards), claims(&archive()));
}

#[test]
fn metrics_carry_what_is_behind_each_number() {
    let table = metrics(&archive());
    assert_eq!(table.rows(), 3 * catalogue().len());
    let row = (0..table.rows())
        .find(|row| {
            text(&table, "run_id")[*row].as_deref() == Some("serving-b")
                && text(&table, "metric")[*row].as_deref() == Some("formal_energy_j")
        })
        .unwrap();
    assert_eq!(numbers(&table, "value")[row], Some(5000.0));
    assert_eq!(text(&table, "unit")[row].as_deref(), Some("J"));
    assert_eq!(text(&table, "method")[row].as_deref(), Some("trapezoid"));
    assert_eq!(text(&table, "boundary")[row].as_deref(), Some("accelerators"));
    let ColumnValues::Time(starts) = &table.column("window_start").unwrap().values else {
        panic!("window_start is no time");
    };
    // 2026-01-31T12:00:10Z
    assert_eq!(starts[row], Some(1_769_860_810_000_000_000));
}

#[test]
fn claims_stand_beside_what_was_recomputed() {
    let table = claims(&archive());
    assert_eq!(
        text(&table, "metric"),
        some(&["output_throughput_tok_s", "node_sample_mean_power_w"])
    );
    assert_eq!(numbers(&table, "recomputed"), [None, Some(6000.0)]);
    assert_eq!(numbers(&table, "difference"), [None, Some(-100.5)]);
    assert_eq!(text(&table, "reason"), [Some("no-requests".to_owned()), None]);
    assert_eq!(
        table.column("agrees_as_printed").unwrap().values,
        ColumnValues::Bool(vec![None, Some(false)])
    );
}

#[test]
fn claims_of_an_unreadable_run_are_still_shown() {
    let mut record = fixtures::node_only("node-a");
    record.analysis = Err("truncated".to_owned());
    let table = claims(&[record]);
    assert_eq!(text(&table, "reason"), some(&["invalid-run", "invalid-run"]));
}

#[test]
fn requests_keep_their_energy_and_order() {
    let energies = [RequestEnergy {
        request: 1,
        tokens: 150,
        energy_j: Some(3000.0),
        j_per_token: Some(20.0),
        order: Some(0),
        window_cv: None,
    }];
    let table = requests("serving-b", &fixtures::requests(), &energies);
    // The requests without energy follow, the failed one among them.
    assert_eq!(text(&table, "request_id"), some(&["r1", "r0", "r2"]));
    assert_eq!(text(&table, "status"), some(&["ok", "ok", "error"]));
    assert_eq!(numbers(&table, "energy_j"), [Some(3000.0), None, None]);
    assert_eq!(table.column("order").unwrap().values, ColumnValues::U64(vec![Some(0), None, None]));
}

#[test]
fn a_coefficient_has_its_estimate_errors_and_intervals() {
    let coefficient = CoefficientRow {
        value: 2.0,
        se: Some(0.5),
        low: Some(1.0),
        high: Some(3.0),
        cluster_se: Some(0.75),
        cluster_low: None,
        cluster_high: None,
        bootstrap_low: None,
        bootstrap_high: None,
        not_identified: true,
    };
    let row = FitRow {
        setting: "qwen-h200".into(),
        form: "no-weights",
        method: "ols",
        n_runs: 30,
        n_cells: 10,
        c: None,
        alpha: None,
        beta: Some(coefficient),
        gamma: None,
        p_tau_w: None,
        inverse_batch_j: None,
        r2: Some(0.9),
        residual_std: None,
        condition_number: Some(f64::INFINITY),
        max_vif: None,
        flags: [Flag::NotIdentified].into_iter().collect(),
        reason: None,
        detail: None,
    };
    let tables = model_tables(&ModelTables { fits: vec![row], ..ModelTables::default() });
    let fits = tables.iter().find(|table| table.name() == "fits").unwrap();
    for (column, expected) in [
        ("alpha", None),
        ("beta", Some(2.0)),
        ("beta_se", Some(0.5)),
        ("beta_low", Some(1.0)),
        ("beta_high", Some(3.0)),
        ("beta_cluster_se", Some(0.75)),
        ("beta_cluster_low", None),
        ("condition_number", None),
    ] {
        assert_eq!(numbers(fits, column), [expected], "{column}");
    }
    assert_eq!(
        fits.column("beta_not_identified").unwrap().values,
        ColumnValues::Bool(vec![Some(true)])
    );
    assert_eq!(fits.column("beta").unwrap().unit, Unit::JoulePerGigabyte);
    assert_eq!(
        fits.column("flags").unwrap().values,
        ColumnValues::TextList(vec![Some(vec!["not-identified".to_owned()])])
    );
}

#[test]
fn device_energies_say_which_samples_to_read() {
    let table = device_energies(&archive());
    // serving-b: one board without a counter, formal alone; node-a: the node over its formal window.
    assert_eq!(text(&table, "run_id"), some(&["node-a", "serving-b"]));
    assert_eq!(text(&table, "stage"), some(&["formal-node", "formal"]));
    assert_eq!(numbers(&table, "energy_j"), [Some(60_000.0), Some(5000.0)]);
    assert_eq!(numbers(&table, "value_at_start"), [Some(6000.0), Some(500.0)]);
    // Both edges of [10 s, 20 s] fall on a sample: eleven of them.
    assert_eq!(
        table.column("samples").unwrap().values,
        ColumnValues::U64(vec![Some(11), Some(11)])
    );
    let ColumnValues::Time(first) = &table.column("first_sample").unwrap().values else {
        panic!("first_sample is no time");
    };
    assert_eq!(first[1], Some(1_769_860_810_000_000_000));
    assert_eq!(
        table.column("counts").unwrap().values,
        ColumnValues::Bool(vec![Some(true), Some(true)])
    );
}

#[test]
fn a_ranking_has_its_columns_and_reasons() {
    let runs = crate::serving_runs(&archive());
    let ranking = rank(&runs, &RankOptions::default());
    let tables = ranking_tables(&ranking);
    let names: Vec<&str> = tables.iter().map(ResultTable::name).collect();
    assert_eq!(
        names,
        ["rank", "ranked_models", "scenarios", "pairs", "amortisation", "rank_excluded"]
    );
    let columns: Vec<&str> =
        tables[0].columns().iter().map(|column| column.name.as_str()).take(12).collect();
    assert_eq!(
        columns,
        [
            "task",
            "size_group",
            "engine",
            "n",
            "spearman_rho",
            "p_value",
            "p_method",
            "kendall_tau_b",
            "ci_low",
            "ci_high",
            "swapped_pairs",
            "reason"
        ]
    );
    // Neither run has a steady value, so the one group has no model.
    assert_eq!(text(&tables[0], "reason"), some(&["too-few-models"]));
    assert_eq!(numbers(&tables[0], "spearman_rho"), [None]);
    assert_eq!(text(&tables[2], "reason"), some(&["no-eligible-runs"]));
    assert_eq!(text(&tables[4], "reason"), some(&["no-gpu-power", "no-stamp"]));
    assert_eq!(
        text(&tables[5], "reason"),
        some(&["no-gpu-power", "no-gpu-power", "too-few-requests", "no-stamp"])
    );
}

#[test]
fn every_table_is_declared_with_a_meaning_for_every_column() {
    let mut names = std::collections::BTreeSet::new();
    for table in declarations() {
        assert!(names.insert(table.name().to_owned()), "{} is declared twice", table.name());
        let mut columns = std::collections::BTreeSet::new();
        for column in table.columns() {
            assert!(column.meaning.ends_with('.'), "{}.{}", table.name(), column.name);
            assert!(columns.insert(&column.name), "{}.{}", table.name(), column.name);
        }
    }
}
