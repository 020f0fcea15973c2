//! Leave-one-cell-out validation on the fit runs.

use wattrace_schema::Reason;

use super::errors::{mean, relative_error};
use super::solution::{FitMethod, Solution};
use crate::stats::{Design, FitFailure, median};

/// Errors of the cell means when each cell in turn is left out of the fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LeaveOneCellOut {
    pub(super) max_abs_error: f64,
    pub(super) median_abs_error: f64,
}

/// Fits `design` without each cell in turn, and predicts that cell.
///
/// # Errors
/// [`Reason::TooFewRuns`] without runs, and those of the method for the first cell without which
/// there is no fit, named by `cell_name`.
pub(super) fn leave_one_cell_out(
    design: &Design,
    method: FitMethod,
    cell_name: impl Fn(usize) -> String,
) -> Result<LeaveOneCellOut, FitFailure> {
    let mut labels = design.clusters().to_vec();
    labels.sort_unstable();
    labels.dedup();
    let mut errors = labels
        .iter()
        .map(|left_out| error_without(design, method, *left_out, &cell_name))
        .collect::<Result<Vec<f64>, _>>()?;
    let max_abs_error = errors.iter().copied().fold(0.0, f64::max);
    let median_abs_error = median(&mut errors).ok_or_else(|| FitFailure {
        reason: Reason::TooFewRuns,
        message: "there is no fit run".to_owned(),
    })?;
    Ok(LeaveOneCellOut { max_abs_error, median_abs_error })
}

fn error_without(
    design: &Design,
    method: FitMethod,
    left_out: usize,
    cell_name: &impl Fn(usize) -> String,
) -> Result<f64, FitFailure> {
    let clusters = design.clusters();
    let others = design.with_rows(|row| clusters[row] != left_out);
    let solution = Solution::of(&others, method).map_err(|failure| FitFailure {
        reason: failure.reason,
        message: format!("without cell \"{}\": {}", cell_name(left_out), failure.message),
    })?;
    let errors: Vec<f64> = (0..design.rows())
        .filter(|row| clusters[*row] == left_out)
        .map(|row| {
            let at: Vec<f64> = design.terms().iter().map(|term| term.column[row]).collect();
            relative_error(solution.expect(&at).value, design.response()[row])
        })
        .collect();
    Ok(mean(errors.into_iter()).abs())
}
