//! `nested_tests`: F tests of the full form against its ablations.

use wattrace_analysis::model::NestedTestRow;
use wattrace_schema::Unit;

use super::{count, reason, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn nested_tests(rows: &[NestedTestRow]) -> ResultTable {
    let table = ResultTable::of("nested_tests", "the full form against one ablation", rows);
    let table = setting(table, |row: &NestedTestRow| &row.setting)
        .text("form", "Name of the ablation.", |row| Some(row.form))
        .text("question", "The question that the ablation answers.", |row| Some(row.question))
        .count("df_numerator", Unit::Count, "Coefficients that the ablation gives up.", |row| {
            row.df_numerator.and_then(count)
        })
        .count(
            "df_denominator",
            Unit::Count,
            "Residual degrees of freedom of the full form.",
            |row| row.df_denominator.and_then(count),
        )
        .number("f_statistic", Unit::Ratio, "F statistic.", |row| row.f_statistic)
        .number(
            "p_value",
            Unit::Ratio,
            "Probability of an F at least as large if the ablation were true.",
            |row| row.p_value,
        )
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)));
    reason(table, "Why there is no test.", |row| row.reason).build()
}
