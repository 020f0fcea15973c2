//! `step_time_laws`: time of an iteration from batch and history, a model of its own.

use wattrace_analysis::model::StepTimeLawRow;
use wattrace_schema::Unit;

use super::coefficient::coefficient;
use super::{count, reason, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn step_time_laws(rows: &[StepTimeLawRow]) -> ResultTable {
    let table = ResultTable::of("step_time_laws", "one setting", rows);
    let table = setting(table, |row: &StepTimeLawRow| &row.setting)
        .count("n_runs", Unit::Count, "Runs of the fit.", |row| count(row.n_runs))
        .count("n_cells", Unit::Count, "Cells of the fit.", |row| count(row.n_cells));
    let table = coefficient(
        table,
        "t_0_s",
        Unit::Second,
        "Time of an iteration whatever its batch.",
        |row| row.t_0_s.as_ref(),
    );
    let table = coefficient(table, "t_b_s", Unit::Second, "Time of one more sequence.", |row| {
        row.t_b_s.as_ref()
    });
    let table = coefficient(
        table,
        "t_kv_s_per_gb",
        Unit::SecondPerGigabyte,
        "Time of one more gigabyte of keys and values.",
        |row| row.t_kv_s_per_gb.as_ref(),
    );
    let table = table
        .number("r2", Unit::Ratio, "Share of the variation that is explained.", |row| row.r2)
        .number("residual_std_s", Unit::Second, "Residual standard deviation.", |row| {
            row.residual_std_s
        })
        .number(
            "max_abs_error",
            Unit::Ratio,
            "Largest error of a held-out cell's mean step time.",
            |row| row.max_abs_error,
        )
        .number(
            "median_abs_error",
            Unit::Ratio,
            "Median error of held-out cells' mean step times.",
            |row| row.median_abs_error,
        )
        .number(
            "loco_max_abs_error",
            Unit::Ratio,
            "Largest error when each fit cell in turn is left out of the fit.",
            |row| row.loco_max_abs_error,
        )
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)));
    reason(table, "Why there is no law.", |row| row.reason)
        .text("detail", "The reason in words.", |row| row.detail.as_deref())
        .build()
}
