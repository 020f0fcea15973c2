//! `excluded_runs`: decode and summary runs that no fit uses.

use wattrace_analysis::model::ExcludedRunRow;

use super::{reason, setting};
use crate::table::ResultTable;

pub(super) fn excluded_runs(rows: &[ExcludedRunRow]) -> ResultTable {
    let table = ResultTable::of("excluded_runs", "one run that no fit uses", rows).text(
        "run_id",
        "Id of the run.",
        |row| Some(row.run_id.as_str()),
    );
    let table = setting(table, |row: &ExcludedRunRow| &row.setting).text(
        "model",
        "Name of the model.",
        |row| Some(row.model.as_str()),
    );
    reason(table, "Why no fit uses it.", |row| Some(row.reason)).build()
}
