//! `fits`: the coefficients of every form in every setting.

use wattrace_analysis::model::FitRow;
use wattrace_schema::Unit;

use super::coefficient::coefficient;
use super::{count, reason, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn fits(rows: &[FitRow]) -> ResultTable {
    let table = ResultTable::of("fits", "one form of the model in one setting", rows);
    let table = setting(table, |row: &FitRow| &row.setting)
        .text("form", "Name of the form.", |row| Some(row.form))
        .text("method", "How it was fitted: ols, huber or non-negative.", |row| Some(row.method))
        .count("n_runs", Unit::Count, "Runs of the fit.", |row| count(row.n_runs))
        .count("n_cells", Unit::Count, "Cells of the fit.", |row| count(row.n_cells));
    let table = coefficient(table, "c", Unit::JoulePerToken, "Constant.", |row| row.c.as_ref());
    let table = coefficient(
        table,
        "alpha",
        Unit::JoulePerGigabyte,
        "Coefficient of weight bytes: a local response, not a constant of nature.",
        |row| row.alpha.as_ref(),
    );
    let table = coefficient(
        table,
        "beta",
        Unit::JoulePerGigabyte,
        "Coefficient of key and value bytes: a local response, not a constant of nature.",
        |row| row.beta.as_ref(),
    );
    let table = coefficient(
        table,
        "gamma",
        Unit::JoulePerGigabyte,
        "Coefficient of all bytes together.",
        |row| row.gamma.as_ref(),
    );
    let table = coefficient(
        table,
        "p_tau_w",
        Unit::Watt,
        "Coefficient of time per token; it is not idle power.",
        |row| row.p_tau_w.as_ref(),
    );
    let table = coefficient(
        table,
        "inverse_batch_j",
        Unit::JoulePerIteration,
        "Coefficient of 1/B_eff.",
        |row| row.inverse_batch_j.as_ref(),
    );
    let table = table
        .number("r2", Unit::Ratio, "Share of the energies' variation that is explained.", |row| {
            row.r2
        })
        .number("residual_std", Unit::JoulePerToken, "Residual standard deviation.", |row| {
            row.residual_std
        })
        .number(
            "condition_number",
            Unit::Ratio,
            "Largest over smallest singular value of the centred, unit-variance columns.",
            |row| row.condition_number,
        )
        .number("max_vif", Unit::Ratio, "Largest variance inflation factor.", |row| row.max_vif)
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)));
    reason(table, "Why there is no fit.", |row| row.reason)
        .text("detail", "The reason in words.", |row| row.detail.as_deref())
        .build()
}
