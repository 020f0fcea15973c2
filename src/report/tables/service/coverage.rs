//! `coverage`: one row a dimension of a spec.

use wattrace_analysis::service::CoverageRow;

use crate::table::ResultTable;

pub(super) fn coverage(rows: &[CoverageRow]) -> ResultTable {
    ResultTable::of("coverage", "one dimension of one spec", rows)
        .text("dimension", "What may differ between measurements.", |row: &CoverageRow| {
            Some(row.dimension)
        })
        .text_list("measured", "Values that runs measured, named by the spec or not.", |row| {
            Some(row.measured.clone())
        })
        .text_list("not_measured", "Values that the spec names and no run measured.", |row| {
            Some(row.not_measured.clone())
        })
        .text("spec_hash", "SHA-256 of the canonical spec.", |row| row.spec_hash.as_deref())
        .build()
}
