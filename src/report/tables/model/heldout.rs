//! `heldout`: the error of every form on every held-out cell.

use wattrace_analysis::model::HeldoutRow;
use wattrace_schema::Unit;

use super::errors::cell_errors;
use super::setting;
use crate::table::ResultTable;

pub(super) fn heldout(rows: &[HeldoutRow]) -> ResultTable {
    let table = ResultTable::of("heldout", "one held-out cell under one form of one setting", rows);
    let table =
        setting(table, |row: &HeldoutRow| &row.setting)
            .text("form", "Name of the form.", |row| Some(row.form));
    cell_errors(table, |row| &row.errors)
        .number(
            "signed_error_low",
            Unit::Ratio,
            "Lower end of the signed error's cell-bootstrap 95% interval.",
            |row| row.signed_error_low,
        )
        .number(
            "signed_error_high",
            Unit::Ratio,
            "Upper end of the signed error's cell-bootstrap 95% interval.",
            |row| row.signed_error_high,
        )
        .build()
}
