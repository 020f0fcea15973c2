//! `schemas/` says what the code declares.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use wattrace_schema::tables::TABLES;
use wattrace_schema::{Flag, Reason};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

/// Every file of `schemas/` by name, as the code declares it.
fn declared() -> BTreeMap<String, serde_json::Value> {
    let mut files = BTreeMap::new();
    files.insert("run.schema.json".to_owned(), wattrace_schema::run_json_schema());
    for table in TABLES {
        files.insert(format!("{}.json", table.name), table.to_json());
    }
    files.insert("spec.schema.json".to_owned(), wattrace_schema::spec::spec_json_schema());
    files.insert("paper.schema.json".to_owned(), wattrace_report::paper::paper_json_schema());
    files.insert("mapping.schema.json".to_owned(), wattrace_trace::format::mapping_json_schema());
    files.insert("metrics.json".to_owned(), wattrace_report::metrics_json());
    files.insert("result-tables.json".to_owned(), wattrace_report::tables_json());
    files.insert("checks.json".to_owned(), wattrace_trace::checks_json());
    let reasons: Vec<_> = Reason::ALL
        .iter()
        .map(|reason| serde_json::json!({"code": reason.code(), "meaning": reason.meaning()}))
        .collect();
    let flags: Vec<_> = Flag::ALL
        .iter()
        .map(|flag| serde_json::json!({"code": flag.code(), "meaning": flag.meaning()}))
        .collect();
    files.insert(
        "vocabulary.json".to_owned(),
        serde_json::json!({"reasons": reasons, "flags": flags}),
    );
    files
}

#[test]
fn the_committed_schemas_are_those_of_the_code() {
    let update = std::env::var_os("UPDATE_SCHEMAS").is_some();
    let mut declared = declared();
    let mut stale = Vec::new();
    for (name, value) in &declared {
        let text = format!("{value:#}\n");
        let path = folder().join(name);
        if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            if update {
                std::fs::write(&path, text).unwrap();
            }
            stale.push(name.clone());
        }
    }
    for entry in std::fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if declared.remove(&name).is_none() {
            if update {
                std::fs::remove_file(entry.path()).unwrap();
            }
            stale.push(format!("{name} (declared nowhere)"));
        }
    }
    assert!(
        update || stale.is_empty(),
        "schemas/ differs from the code in: {}. Run `make schemas` and review the diff.",
        stale.join(", ")
    );
}
