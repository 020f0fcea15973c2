//! The tables of the decode energy model. An error is (predicted − observed) / observed.

mod batch_effects;
mod block_effects;
mod coefficient;
mod errors;
mod excluded_runs;
mod fit_summary;
mod fits;
mod heldout;
mod heldout_runs;
mod identified_ranges;
mod nested_tests;
mod step_breaks;
mod step_time_laws;
mod step_times;
mod substitution;
mod transfer;

use wattrace_analysis::model::ModelTables;
use wattrace_schema::Reason;

pub use step_times::step_times;

use crate::table::{ResultTable, TableBuilder};

/// Every table of the model, in the order in which they are best read.
#[must_use]
pub fn model_tables(model: &ModelTables) -> Vec<ResultTable> {
    vec![
        fits::fits(&model.fits),
        fit_summary::fit_summary(&model.fit_summary),
        heldout::heldout(&model.heldout),
        heldout_runs::heldout_runs(&model.heldout_runs),
        transfer::transfer(&model.transfer),
        substitution::substitution(&model.substitution),
        nested_tests::nested_tests(&model.nested_tests),
        block_effects::block_effects(&model.block_effects),
        batch_effects::batch_effects(&model.batch_effects),
        step_breaks::step_breaks(&model.step_breaks),
        step_time_laws::step_time_laws(&model.step_time_laws),
        identified_ranges::identified_ranges(&model.identified_ranges),
        excluded_runs::excluded_runs(&model.excluded_runs),
    ]
}

/// The `setting` column.
fn setting<'rows, R>(
    table: TableBuilder<'rows, R>,
    of: impl Fn(&'rows R) -> &'rows str,
) -> TableBuilder<'rows, R> {
    table.text("setting", "Key of the setting.", move |row| Some(of(row)))
}

/// The `reason` column.
fn reason<'rows, R>(
    table: TableBuilder<'rows, R>,
    meaning: &str,
    of: impl Fn(&'rows R) -> Option<Reason>,
) -> TableBuilder<'rows, R> {
    table.text("reason", meaning, move |row| of(row).map(Reason::code))
}

/// A count as tables hold it.
const fn count(count: usize) -> Option<u64> {
    Some(count as u64)
}
