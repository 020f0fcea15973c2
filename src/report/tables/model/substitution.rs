//! `substitution`: what a wrong coordinate does to the full form's predictions.

use wattrace_analysis::model::SubstitutionRow;
use wattrace_schema::Unit;

use super::errors::cell_errors;
use super::setting;
use crate::table::ResultTable;

pub(super) fn substitution(rows: &[SubstitutionRow]) -> ResultTable {
    let table =
        ResultTable::of("substitution", "one cell under one substitution of one setting", rows);
    let table = setting(table, |row: &SubstitutionRow| &row.setting).text(
        "substitution",
        "Name of the substitution.",
        |row| Some(row.substitution),
    );
    cell_errors(table, |row| &row.errors)
        .number(
            "measured_abs_error",
            Unit::Ratio,
            "Error of the same cell's mean with the measured coordinate.",
            |row| Some(row.measured_abs_error),
        )
        .build()
}
