//! `fit_summary`: the headline errors of every form in every setting.

use wattrace_analysis::model::FitSummaryRow;
use wattrace_schema::{Reason, Unit};

use super::{count, reason, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn fit_summary(rows: &[FitSummaryRow]) -> ResultTable {
    let table = ResultTable::of("fit_summary", "one form of the model in one setting", rows);
    let table = setting(table, |row: &FitSummaryRow| &row.setting)
        .text("form", "Name of the form.", |row| Some(row.form))
        .count("n_heldout_cells", Unit::Count, "Held-out cells.", |row| count(row.n_heldout_cells))
        .count("n_heldout_runs", Unit::Count, "Held-out runs.", |row| count(row.n_heldout_runs))
        .number("max_abs_error", Unit::Ratio, "Largest error of a held-out cell mean.", |row| {
            row.max_abs_error
        })
        .number(
            "max_abs_error_low",
            Unit::Ratio,
            "Lower end of its cell-bootstrap 95% interval.",
            |row| row.max_abs_error_low,
        )
        .number(
            "max_abs_error_high",
            Unit::Ratio,
            "Upper end of its cell-bootstrap 95% interval.",
            |row| row.max_abs_error_high,
        )
        .text("worst_cell", "The cell with the largest error.", |row| row.worst_cell.as_deref())
        .number("median_abs_error", Unit::Ratio, "Median error of held-out cell means.", |row| {
            row.median_abs_error
        })
        .number(
            "median_abs_error_low",
            Unit::Ratio,
            "Lower end of its cell-bootstrap 95% interval.",
            |row| row.median_abs_error_low,
        )
        .number(
            "median_abs_error_high",
            Unit::Ratio,
            "Upper end of its cell-bootstrap 95% interval.",
            |row| row.median_abs_error_high,
        )
        .number(
            "loco_max_abs_error",
            Unit::Ratio,
            "Largest error of a cell mean when each fit cell in turn is left out of the fit.",
            |row| row.loco_max_abs_error,
        )
        .number(
            "loco_median_abs_error",
            Unit::Ratio,
            "Median error of a cell mean when each fit cell in turn is left out of the fit.",
            |row| row.loco_median_abs_error,
        )
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)));
    reason(table, "Why there is no held-out error.", |row| row.reason)
        .text("loco_reason", "Why there is no leave-one-cell-out error.", |row| {
            row.loco_reason.map(Reason::code)
        })
        .build()
}
