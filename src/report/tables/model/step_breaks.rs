//! `step_breaks`: whether step time jumps at some length of the longest sequence.

use wattrace_analysis::model::StepBreakRow;
use wattrace_schema::Unit;

use super::{count, reason, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn step_breaks(rows: &[StepBreakRow]) -> ResultTable {
    let table = ResultTable::of("step_breaks", "one setting", rows);
    let table = setting(table, |row: &StepBreakRow| &row.setting)
        .text("comparison", "What was compared: within-runs or between-runs.", |row| row.comparison)
        .count("n_runs", Unit::Count, "Runs with step times.", |row| count(row.n_runs))
        .count("n_groups", Unit::Count, "Groups of steps compared.", |row| count(row.n_groups))
        .boolean("detected", "Whether the jump is large and clear enough to report.", |row| {
            Some(row.detected)
        })
        .count(
            "break_after_tokens",
            Unit::Token,
            "Longest sequence on the lower side of the best break.",
            |row| row.break_after_tokens.map(u64::from),
        )
        .count(
            "break_before_tokens",
            Unit::Token,
            "Shortest sequence on the upper side of the best break.",
            |row| row.break_before_tokens.map(u64::from),
        )
        .number(
            "step_time_below_s",
            Unit::Second,
            "Level of step time below the break, at the mean batch and history.",
            |row| row.step_time_below_s,
        )
        .number(
            "step_time_above_s",
            Unit::Second,
            "Level of step time above the break, at the same batch and history.",
            |row| row.step_time_above_s,
        )
        .number("relative_jump", Unit::Ratio, "(above - below) / below.", |row| row.relative_jump)
        .number("f_statistic", Unit::Ratio, "Largest F statistic over all breaks.", |row| {
            row.f_statistic
        })
        .number(
            "explained_share",
            Unit::Ratio,
            "Share of the squared residuals without a break that the break explains.",
            |row| row.explained_share,
        )
        .number(
            "eager_share_below",
            Unit::Ratio,
            "Share of iterations below the break that were launched operation by operation.",
            |row| row.eager_share_below,
        )
        .number(
            "eager_share_above",
            Unit::Ratio,
            "Share of iterations above the break that were launched operation by operation.",
            |row| row.eager_share_above,
        )
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)));
    reason(table, "Why there is no search.", |row| row.reason).build()
}
