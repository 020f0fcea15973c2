//! `transfer`: coefficients of one setting on the cells of another.

use wattrace_analysis::model::TransferRow;

use super::errors::cell_errors;
use crate::table::ResultTable;

pub(super) fn transfer(rows: &[TransferRow]) -> ResultTable {
    let table = ResultTable::of(
        "transfer",
        "one cell of a target setting under the unchanged coefficients of a source setting",
        rows,
    )
    .text("source_setting", "Setting whose coefficients are used.", |row: &TransferRow| {
        Some(row.source_setting.as_str())
    })
    .text("target_setting", "Setting whose runs are predicted.", |row| {
        Some(row.target_setting.as_str())
    })
    .text("form", "Name of the form.", |row| Some(row.form));
    cell_errors(table, |row| &row.errors).build()
}
