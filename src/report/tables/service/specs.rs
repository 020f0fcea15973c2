//! `specs`: one row a spec.

use wattrace_analysis::service::SpecSummary;
use wattrace_schema::Unit;

use crate::table::ResultTable;

pub(super) fn specs(rows: &[SpecSummary]) -> ResultTable {
    ResultTable::of("specs", "one spec that runs were made under", rows)
        .text("spec_hash", "SHA-256 of the canonical spec.", |row: &SpecSummary| {
            Some(row.spec.hash())
        })
        .count("n_runs", Unit::Count, "Runs under it.", |row| Some(row.n_runs as u64))
        .text("reference", "Configuration that the others are held against.", |row| {
            row.reference.as_deref()
        })
        .text("canonical_json", "The spec as canonical JSON: what the hash is taken of.", |row| {
            Some(row.spec.canonical_json())
        })
        .build()
}
