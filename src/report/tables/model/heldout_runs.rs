//! `heldout_runs`: the prediction of every form for every held-out run.

use wattrace_analysis::model::HeldoutRunRow;
use wattrace_schema::Unit;

use super::errors::names;
use super::setting;
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn heldout_runs(rows: &[HeldoutRunRow]) -> ResultTable {
    let table =
        ResultTable::of("heldout_runs", "one held-out run under one form of one setting", rows);
    setting(table, |row: &HeldoutRunRow| &row.setting)
        .text("form", "Name of the form.", |row| Some(row.form))
        .text("cell", "Name of the cell.", |row| Some(row.cell.as_str()))
        .text("run_id", "Id of the run.", |row| Some(row.run_id.as_str()))
        .number("observed_j_per_token", Unit::JoulePerToken, "Measured energy.", |row| {
            Some(row.observed_j_per_token)
        })
        .number("predicted_j_per_token", Unit::JoulePerToken, "Predicted energy.", |row| {
            Some(row.predicted_j_per_token)
        })
        .number(
            "predicted_low",
            Unit::JoulePerToken,
            "Lower end of the 95% prediction interval of a single run.",
            |row| row.predicted_low,
        )
        .number(
            "predicted_high",
            Unit::JoulePerToken,
            "Upper end of the 95% prediction interval of a single run.",
            |row| row.predicted_high,
        )
        .number("error", Unit::Ratio, "(predicted - observed) / observed.", |row| Some(row.error))
        .boolean(
            "extrapolated",
            "Whether the run lies outside the range that the fit has seen.",
            |row| Some(row.extrapolated),
        )
        .text_list("extrapolated_coordinates", "Coordinates outside that range.", |row| {
            Some(names(&row.extrapolated_coordinates))
        })
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)))
        .build()
}
