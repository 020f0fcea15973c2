//! Prediction errors of runs and of cells.

use wattrace_schema::{Flag, Split};

use super::fit::FittedForm;
use super::rows::CellErrorRow;
use super::setting::{ModelRun, flags_of};
use super::solution::Expected;

/// A run under a form's coefficients.
#[derive(Debug, Clone)]
pub(super) struct RunError<'a> {
    pub(super) run: ModelRun<'a>,
    /// Energy per token, J.
    pub(super) expected: Expected,
    /// (predicted − observed) / observed.
    pub(super) error: f64,
    pub(super) extrapolated: Vec<&'static str>,
}

/// The errors of `runs`, in their order; runs that do not know what the form needs are left out.
pub(super) fn of_runs<'a>(fitted: &FittedForm, runs: &[ModelRun<'a>]) -> Vec<RunError<'a>> {
    runs.iter()
        .filter_map(|run| {
            let values = run.values(fitted.form)?;
            let expected = fitted.expect(&values);
            let error = relative_error(expected.value, run.j_per_token());
            Some(RunError {
                run: *run,
                expected,
                error,
                extrapolated: fitted.extrapolated(&values),
            })
        })
        .collect()
}

pub(super) fn relative_error(predicted: f64, observed: f64) -> f64 {
    (predicted - observed) / observed
}

/// The errors of every cell; `errors` is sorted by cell.
pub(super) fn of_cells(fitted: &FittedForm, errors: &[RunError<'_>]) -> Vec<CellErrorRow> {
    errors
        .chunk_by(|a, b| a.run.cell() == b.run.cell())
        .map(|cell| {
            let runs: Vec<ModelRun<'_>> = cell.iter().map(|error| error.run).collect();
            let signed_error = mean(cell.iter().map(|error| error.error));
            let mut extrapolated: Vec<&'static str> =
                cell.iter().flat_map(|error| error.extrapolated.iter().copied()).collect();
            extrapolated.sort_unstable();
            extrapolated.dedup();
            let mut flags = flags_of(&runs).union(fitted.flags);
            flags.insert_if(!extrapolated.is_empty(), Flag::Extrapolated);
            CellErrorRow {
                cell: cell[0].run.cell().to_owned(),
                split: cell[0].run.observation.split.unwrap_or(Split::Fit).name(),
                n_runs: cell.len(),
                signed_error,
                abs_error: signed_error.abs(),
                mean_abs_error: mean(cell.iter().map(|error| error.error.abs())),
                extrapolated: !extrapolated.is_empty(),
                extrapolated_coordinates: extrapolated,
                flags,
            }
        })
        .collect()
}

/// Mean of at least one number.
pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
