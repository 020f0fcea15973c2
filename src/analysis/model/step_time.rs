//! A law for the time of an iteration, to predict where no time is given: time per iteration
//! = t_0 + t_b · B_eff + t_kv · key and value gigabytes per iteration.
//!
//! It is a model of its own, with its own validation: the energy model takes time as measured. The time
//! per iteration is τ · B_eff = D/S; with several replicas that is an iteration's time divided by
//! their number.

use wattrace_schema::{FlagSet, Reason};

use super::errors::{mean, relative_error};
use super::fit::{cells, check_cells, clusters, outside, range};
use super::loco::{LeaveOneCellOut, leave_one_cell_out};
use super::observation::Coordinates;
use super::setting::{ModelRun, SettingRuns};
use super::solution::FitMethod;
use crate::stats::{Design, FitFailure, LinearFit, Term, least_squares, median};

/// Names and units of the law's coefficients, the constant first.
pub const STEP_TIME_COEFFICIENTS: [(&str, &str); 3] =
    [("t_0_s", "s"), ("t_b_s", "s"), ("t_kv_s_per_gb", "s/GB")];

/// The law fitted to the fit runs of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTimeLaw {
    /// The fit: response in s, coefficients as [`STEP_TIME_COEFFICIENTS`].
    pub fit: LinearFit,
    /// Cells of the fit.
    pub n_cells: usize,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Largest and median error of held-out cell means; `None` without held-out runs.
    pub(super) heldout: Option<(f64, f64)>,
    pub(super) loco: Result<LeaveOneCellOut, FitFailure>,
    ranges: [(f64, f64); 2],
}

/// A predicted time per token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ExpectedTime {
    pub(super) tau_s: f64,
    /// Standard error for a single new run, s/token.
    pub(super) std_error: f64,
}

/// B_eff and the gigabytes of keys and values that an iteration reads.
fn terms(at: &Coordinates) -> Option<[f64; 2]> {
    Some([at.b_eff, at.q_kv_gb? * at.b_eff])
}

fn step_time_s(run: &ModelRun<'_>) -> f64 {
    run.coordinates().tau_s * run.coordinates().b_eff
}

impl StepTimeLaw {
    /// Fits the law to the fit runs of a setting.
    ///
    /// # Errors
    /// [`Reason::NoHistory`], [`Reason::OneCell`] and those of least squares.
    pub(super) fn of(setting: &SettingRuns<'_>) -> Result<Self, FitFailure> {
        let columns: Option<Vec<[f64; 2]>> =
            setting.fit.iter().map(|run| terms(run.coordinates())).collect();
        let columns = columns.ok_or_else(|| FitFailure {
            reason: Reason::NoHistory,
            message: "the step-time law needs the history of every run".to_owned(),
        })?;
        let column = |term: usize| -> Vec<f64> { columns.iter().map(|row| row[term]).collect() };
        let [constant, per_sequence, per_gb] = STEP_TIME_COEFFICIENTS.map(|(name, _)| name);
        let design = Design::new(
            constant,
            setting.fit.iter().map(step_time_s).collect(),
            vec![Term::new(per_sequence, column(0)), Term::new(per_gb, column(1))],
            clusters(&setting.fit),
        )?;
        check_cells(&design)?;
        let fit = least_squares(&design)?;
        let cells: Vec<&str> = cells(&setting.fit).into_iter().collect();
        Ok(Self {
            heldout: heldout_errors(&fit, &setting.heldout),
            loco: leave_one_cell_out(&design, FitMethod::Ols, |cell| cells[cell].to_owned()),
            flags: setting.flags().union(fit.flags),
            n_cells: cells.len(),
            ranges: [range(&column(0)), range(&column(1))],
            fit,
        })
    }

    /// The time per token at a batch and history; the time in `at` is not read. `None` where history is
    /// not known, or the law gives no positive time.
    pub(super) fn expect(&self, at: &Coordinates) -> Option<ExpectedTime> {
        let prediction = self.fit.predict(&terms(at)?);
        (prediction.value > 0.0).then(|| ExpectedTime {
            tau_s: prediction.value / at.b_eff,
            std_error: prediction.std_error / at.b_eff,
        })
    }

    /// Whether the law is used outside its fit runs.
    pub(super) fn extrapolates(&self, at: &Coordinates) -> bool {
        terms(at).is_none_or(|terms| {
            terms.into_iter().zip(self.ranges).any(|(value, range)| outside(value, range))
        })
    }
}

/// Largest and median error of the held-out cells' mean step times.
fn heldout_errors(fit: &LinearFit, heldout: &[ModelRun<'_>]) -> Option<(f64, f64)> {
    let mut errors: Vec<f64> = heldout
        .chunk_by(|a, b| a.cell() == b.cell())
        .filter_map(|cell| {
            let errors: Option<Vec<f64>> = cell
                .iter()
                .map(|run| {
                    let predicted = fit.predict(&terms(run.coordinates())?).value;
                    Some(relative_error(predicted, step_time_s(run)))
                })
                .collect();
            errors.map(|errors| mean(errors.into_iter()).abs())
        })
        .collect();
    let largest = errors.iter().copied().fold(0.0, f64::max);
    Some((largest, median(&mut errors)?))
}
