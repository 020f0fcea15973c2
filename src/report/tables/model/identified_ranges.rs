//! `identified_ranges`: what the fit runs cover of every coordinate.

use wattrace_analysis::model::IdentifiedRangeRow;
use wattrace_schema::Unit;

use super::{count, setting};
use crate::record::flag_codes;
use crate::table::ResultTable;

pub(super) fn identified_ranges(rows: &[IdentifiedRangeRow]) -> ResultTable {
    let table = ResultTable::of("identified_ranges", "one coordinate in one setting", rows);
    setting(table, |row: &IdentifiedRangeRow| &row.setting)
        .text("coordinate", "Column of the coordinate.", |row| Some(row.coordinate))
        .text("unit", "Unit of the coordinate.", |row| Some(row.unit))
        .count("n_runs", Unit::Count, "Fit runs.", |row| count(row.n_runs))
        .number("min", Unit::None, "Smallest value.", |row| Some(row.min))
        .number("max", Unit::None, "Largest value.", |row| Some(row.max))
        .number("mean", Unit::None, "Mean.", |row| Some(row.mean))
        .number("relative_range", Unit::Ratio, "(max - min) / |mean|.", |row| row.relative_range)
        .number("vif", Unit::Ratio, "Variance inflation factor in the full form.", |row| row.vif)
        .boolean(
            "identified",
            "Whether the full form's coefficient of this coordinate is identified.",
            |row| row.identified,
        )
        .text_list("flags", "What a reader must know.", |row| Some(flag_codes(row.flags)))
        .build()
}
