//! The columns of one cell's errors, shared by every table of predictions.

use wattrace_analysis::model::CellErrorRow;
use wattrace_schema::Unit;

use super::count;
use crate::record::flag_codes;
use crate::table::TableBuilder;

/// Adds the columns of one cell's errors.
pub(super) fn cell_errors<'rows, R>(
    table: TableBuilder<'rows, R>,
    of: impl Fn(&'rows R) -> &'rows CellErrorRow + Copy,
) -> TableBuilder<'rows, R> {
    table
        .text("cell", "Name of the cell.", move |row| Some(of(row).cell.as_str()))
        .text("split", "Side of the validation that the cell is on: fit or heldout.", move |row| {
            Some(of(row).split)
        })
        .count("n_runs", Unit::Count, "Runs of the cell.", move |row| count(of(row).n_runs))
        .number("signed_error", Unit::Ratio, "Mean of the runs' signed errors.", move |row| {
            Some(of(row).signed_error)
        })
        .number(
            "abs_error",
            Unit::Ratio,
            "Error of the cell mean: absolute value of the mean signed error.",
            move |row| Some(of(row).abs_error),
        )
        .number("mean_abs_error", Unit::Ratio, "Mean of the runs' absolute errors.", move |row| {
            Some(of(row).mean_abs_error)
        })
        .boolean(
            "extrapolated",
            "Whether a run of the cell lies outside the range that the fit has seen.",
            move |row| Some(of(row).extrapolated),
        )
        .text_list("extrapolated_coordinates", "Coordinates outside that range.", move |row| {
            Some(names(&of(row).extrapolated_coordinates))
        })
        .text_list("flags", "What a reader must know.", move |row| Some(flag_codes(of(row).flags)))
}

/// Names as a list column holds them.
pub(super) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
