//! `batch_effects`: what changing one coordinate does at one level of the other.

use wattrace_analysis::model::BatchEffectRow;
use wattrace_schema::Unit;

use super::{count, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn batch_effects(rows: &[BatchEffectRow]) -> ResultTable {
    let table = ResultTable::of(
        "batch_effects",
        "one level of the coordinate that stays, in one setting",
        rows,
    );
    setting(table, |row: &BatchEffectRow| &row.setting)
        .text("varied", "The coordinate that varies: b_eff or mean_history_tokens.", |row| {
            Some(row.varied)
        })
        .text("held", "The coordinate that stays: the other one.", |row| Some(row.held))
        .number("held_level", Unit::None, "Mean of the coordinate that stays.", |row| {
            Some(row.held_level)
        })
        .number("smallest", Unit::None, "Smallest level of the coordinate that varies.", |row| {
            Some(row.smallest)
        })
        .number("largest", Unit::None, "Largest level of the coordinate that varies.", |row| {
            Some(row.largest)
        })
        .count("n_runs_smallest", Unit::Count, "Runs at the smallest level.", |row| {
            count(row.n_runs_smallest)
        })
        .count("n_runs_largest", Unit::Count, "Runs at the largest level.", |row| {
            count(row.n_runs_largest)
        })
        .number(
            "j_per_token_smallest",
            Unit::JoulePerToken,
            "Mean energy at the smallest level.",
            |row| Some(row.j_per_token_smallest),
        )
        .number(
            "j_per_token_largest",
            Unit::JoulePerToken,
            "Mean energy at the largest level.",
            |row| Some(row.j_per_token_largest),
        )
        .number(
            "drop_percent",
            Unit::Percent,
            "Drop of the energy per token from the smallest to the largest level.",
            |row| Some(row.drop_percent),
        )
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)))
        .build()
}
