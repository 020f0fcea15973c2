//! `block_effects`: whether blocks of time differ beyond the full form.

use wattrace_analysis::model::BlockEffectRow;
use wattrace_schema::Unit;

use super::{count, reason, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn block_effects(rows: &[BlockEffectRow]) -> ResultTable {
    let table = ResultTable::of("block_effects", "one setting", rows);
    let table = setting(table, |row: &BlockEffectRow| &row.setting)
        .count("n_runs", Unit::Count, "Runs of the test.", |row| count(row.n_runs))
        .count("n_blocks", Unit::Count, "Blocks among them.", |row| count(row.n_blocks))
        .count("df_numerator", Unit::Count, "Block dummies: blocks - 1.", |row| {
            row.df_numerator.and_then(count)
        })
        .count(
            "df_denominator",
            Unit::Count,
            "Residual degrees of freedom with the dummies.",
            |row| row.df_denominator.and_then(count),
        )
        .number("f_statistic", Unit::Ratio, "F statistic.", |row| row.f_statistic)
        .number(
            "p_value",
            Unit::Ratio,
            "Probability of an F at least as large if blocks did not differ.",
            |row| row.p_value,
        )
        .number(
            "largest_difference_j_per_token",
            Unit::JoulePerToken,
            "Difference between the highest and the lowest block.",
            |row| row.largest_difference_j_per_token,
        )
        .number(
            "largest_relative_difference",
            Unit::Ratio,
            "The same as a share of the mean energy per token.",
            |row| row.largest_relative_difference,
        )
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)));
    reason(table, "Why there is no test.", |row| row.reason).build()
}
