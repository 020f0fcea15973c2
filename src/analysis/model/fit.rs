//! Fitting one form to the fit runs of one setting.

use std::collections::BTreeSet;

use serde::Serialize;
use wattrace_schema::{Flag, FlagSet, Reason};

use super::form::{CONSTANT, Form};
use super::rows::CoefficientRow;
use super::setting::{ModelRun, flags_of};
use super::solution::{Expected, FitMethod, Solution};
use crate::stats::{
    CONDITION_LIMIT, Design, FitFailure, LinearFit, Resamples, Term, cell_bootstrap, least_squares,
};

/// Below this relative range of a term, its coefficient counts as not identified.
pub const RELATIVE_RANGE_LIMIT: f64 = 0.05;

/// Where the condition number is too large, the terms above this variance inflation are the ones
/// that depend on each other.
pub const VARIANCE_INFLATION_LIMIT: f64 = 10.0;

/// Options of the fits; recorded with every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FitOptions {
    /// How coefficients are estimated.
    pub method: FitMethod,
    /// Resamples of the cell bootstrap; none gives no bootstrap intervals.
    pub resamples: usize,
    /// Seed of the resamples.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { method: FitMethod::Ols, resamples: 10_000, seed: 1 }
    }
}

/// One form fitted to the fit runs of one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedForm {
    /// The form.
    pub form: &'static Form,
    /// How it was fitted.
    pub method: FitMethod,
    /// Runs.
    pub n_runs: usize,
    /// Cells.
    pub n_cells: usize,
    /// Coefficients, the constant first.
    pub coefficients: Vec<CoefficientRow>,
    /// Residual degrees of freedom.
    pub df_residual: usize,
    /// Share of the energies' variation that the fit explains; absent where all energies are equal.
    pub r2: Option<f64>,
    /// Residual standard deviation, J/token.
    pub residual_std: f64,
    /// Condition number of the standardised columns.
    pub condition_number: f64,
    /// Variance inflation of every term, without the constant.
    pub variance_inflation: Vec<f64>,
    /// Smallest and largest value of every term over the fit runs.
    pub ranges: Vec<(f64, f64)>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// The same in sentences.
    pub notes: Vec<String>,
    pub(super) resamples: Option<Resamples>,
    solution: Solution,
}

/// The design of a form on runs: one row a run, one cluster a cell.
///
/// # Errors
/// [`Reason::NoHistory`] where the form needs a history that a run does not know.
pub(super) fn design(form: &Form, runs: &[ModelRun<'_>]) -> Result<Design, FitFailure> {
    let terms = form
        .terms
        .iter()
        .map(|term| {
            let column: Option<Vec<f64>> =
                runs.iter().map(|run| term.value(run.coordinates())).collect();
            let column = column.ok_or_else(|| FitFailure {
                reason: Reason::NoHistory,
                message: format!(
                    "{} needs the history of every run, and the step logs do not tell it",
                    term.coordinate()
                ),
            })?;
            Ok(Term::new(term.coefficient(), column))
        })
        .collect::<Result<_, FitFailure>>()?;
    let energies = runs.iter().map(ModelRun::j_per_token).collect();
    Design::new(CONSTANT, energies, terms, clusters(runs))
}

/// The cell of every run as a number, in the order of cell names.
pub(super) fn clusters(runs: &[ModelRun<'_>]) -> Vec<usize> {
    let cells: Vec<&str> = cells(runs).into_iter().collect();
    runs.iter().map(|run| cells.partition_point(|cell| *cell < run.cell())).collect()
}

pub(super) fn cells<'a>(runs: &[ModelRun<'a>]) -> BTreeSet<&'a str> {
    runs.iter().map(ModelRun::cell).collect()
}

/// Asks what statistics cannot know: whether the rows are more than one cell repeated.
pub(super) fn check_cells(design: &Design) -> Result<(), FitFailure> {
    let several = design.rows() > design.coefficients();
    let distinct: BTreeSet<usize> = design.clusters().iter().copied().collect();
    if several && distinct.len() == 1 {
        return Err(FitFailure {
            reason: Reason::OneCell,
            message: format!("all {} runs lie in one cell", design.rows()),
        });
    }
    Ok(())
}

/// Fits `form` to `runs`.
///
/// # Errors
/// [`Reason::NoHistory`], [`Reason::OneCell`], and those of the method.
pub(super) fn fit_form(
    form: &'static Form,
    runs: &[ModelRun<'_>],
    options: &FitOptions,
) -> Result<FittedForm, FitFailure> {
    let design = design(form, runs)?;
    check_cells(&design)?;
    let solution = Solution::of(&design, options.method)?;
    // Condition and variance inflation are properties of the design, whatever the method.
    let linear = least_squares(&design)?;
    let resamples = (options.resamples > 0 && options.method == FitMethod::Ols)
        .then(|| cell_bootstrap(&design, options.resamples, options.seed))
        .transpose()?;
    let mut flags = flags_of(runs).union(solution.flags());
    let causes = causes(form, &design, &linear, flags);
    let not_identified: Vec<bool> = causes.iter().map(|causes| !causes.is_empty()).collect();
    flags.insert_if(not_identified.iter().any(|not| *not), Flag::NotIdentified);
    Ok(FittedForm {
        form,
        method: options.method,
        n_runs: design.rows(),
        n_cells: cells(runs).len(),
        coefficients: coefficients(&solution, &not_identified, resamples.as_ref()),
        df_residual: solution.df_residual(),
        r2: solution.r_squared(),
        residual_std: solution.residual_std(),
        condition_number: linear.condition_number,
        variance_inflation: linear.variance_inflation,
        ranges: design.terms().iter().map(|term| range(&term.column)).collect(),
        flags,
        notes: notes(form, &solution, &causes, resamples.as_ref()),
        resamples,
        solution,
    })
}

impl FittedForm {
    /// What the form expects at one value per term.
    pub(super) fn expect(&self, values: &[f64]) -> Expected {
        self.solution.expect(values)
    }

    /// Names of the coordinates in which `values` lie outside the fit runs.
    pub(super) fn extrapolated(&self, values: &[f64]) -> Vec<&'static str> {
        let terms = self.form.terms.iter().zip(values).zip(&self.ranges);
        terms
            .filter(|((_, value), range)| outside(**value, **range))
            .map(|((term, _), _)| term.coordinate())
            .collect()
    }

    /// Names of the coefficients that the data cannot tell apart.
    #[must_use]
    pub fn not_identified(&self) -> Vec<&'static str> {
        let terms = self.form.terms.iter().zip(&self.coefficients[1..]);
        terms.filter(|(_, row)| row.not_identified).map(|(term, _)| term.coefficient()).collect()
    }

    /// The coefficient of that name; `None` where the form has none.
    #[must_use]
    pub fn coefficient(&self, name: &str) -> Option<&CoefficientRow> {
        if name == CONSTANT {
            return self.coefficients.first();
        }
        let place = self.form.terms.iter().position(|term| term.coefficient() == name)?;
        self.coefficients.get(place + 1)
    }

    /// The largest variance inflation of a term.
    #[must_use]
    pub fn max_variance_inflation(&self) -> Option<f64> {
        self.variance_inflation.iter().copied().reduce(f64::max)
    }
}

/// Smallest and largest value; a column has at least one.
pub(super) fn range(column: &[f64]) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    column.iter().fold(ends, |(low, high), value| (low.min(*value), high.max(*value)))
}

/// Whether a value lies outside a range by more than the rounding of a coordinate.
pub(super) fn outside(value: f64, (low, high): (f64, f64)) -> bool {
    let rounding = 1e-9 * low.abs().max(high.abs());
    value < low - rounding || value > high + rounding
}

/// (max − min) / |mean|; `None` where the mean is zero.
pub(super) fn relative_range(column: &[f64]) -> Option<f64> {
    let (low, high) = range(column);
    let mean = crate::stats::mean(column)?;
    let relative = (high - low) / mean.abs();
    relative.is_finite().then_some(relative)
}

/// Why the data cannot tell the coefficient of each term from the others; empty where they can. A
/// term that hardly varies carries nothing; where the standardised design is nearly singular, the
/// terms that the others explain share their effects; and an approximate history varies with the
/// tasks that it was guessed from.
fn causes(form: &Form, design: &Design, fit: &LinearFit, flags: FlagSet) -> Vec<Vec<String>> {
    let condition = fit.condition_number;
    let cause = |term: usize| {
        let mut causes = Vec::new();
        let relative = relative_range(&design.terms()[term].column);
        if let Some(relative) = relative.filter(|relative| *relative < RELATIVE_RANGE_LIMIT) {
            causes.push(format!(
                "its coordinate hardly varies, by {:.1}% of its mean where {:.0}% are needed",
                100.0 * relative,
                100.0 * RELATIVE_RANGE_LIMIT
            ));
        }
        let inflation = fit.variance_inflation[term];
        if condition > CONDITION_LIMIT && inflation > VARIANCE_INFLATION_LIMIT {
            causes.push(format!(
                "the other coordinates explain it, at a condition number of {condition:.0} (limit {CONDITION_LIMIT:.0}) and a variance inflation of {inflation:.0} (limit {VARIANCE_INFLATION_LIMIT:.0})"
            ));
        }
        if form.terms[term].needs_history() && flags.contains(Flag::HistoryApproximate) {
            causes.push("history was not measured, only approximated".to_owned());
        }
        causes
    };
    (0..form.terms.len()).map(cause).collect()
}

fn coefficients(
    solution: &Solution,
    not_identified: &[bool],
    resamples: Option<&Resamples>,
) -> Vec<CoefficientRow> {
    solution
        .estimates()
        .iter()
        .enumerate()
        .map(|(index, estimate)| {
            let bootstrap = resamples
                .and_then(|resamples| resamples.interval(|coefficients| coefficients[index]));
            let not_identified = index > 0 && not_identified[index - 1];
            let robust = solution.cluster_robust(&estimate.name);
            CoefficientRow::new(estimate, robust, bootstrap, not_identified)
        })
        .collect()
}

fn notes(
    form: &Form,
    solution: &Solution,
    causes: &[Vec<String>],
    resamples: Option<&Resamples>,
) -> Vec<String> {
    let mut notes = solution.notes().to_vec();
    for (term, causes) in form.terms.iter().zip(causes).filter(|(_, causes)| !causes.is_empty()) {
        notes.push(format!("{} (*) is not identified: {}.", term.coefficient(), causes.join("; ")));
    }
    if let Some(resamples) = resamples {
        let undetermined = resamples.undetermined();
        if undetermined > 0 {
            notes.push(format!(
                "{undetermined} of {} resamples of cells do not determine the coefficients and are left out of the bootstrap intervals.",
                resamples.requested()
            ));
        }
    }
    notes
}
