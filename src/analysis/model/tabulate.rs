//! From fits to the rows of every table.

use rayon::prelude::*;
use wattrace_schema::{Flag, FlagSet, Reason};

use super::analysis::{FormOutcome, SettingFit};
use super::errors::{RunError, of_cells, of_runs};
use super::fit::{FittedForm, cells, design};
use super::form::{FORMS, FULL, Form};
use super::loco::{LeaveOneCellOut, leave_one_cell_out};
use super::observation::Observation;
use super::rows::{
    CoefficientRow, ExcludedRunRow, FitRow, FitSummaryRow, HeldoutRow, HeldoutRunRow, ModelTables,
    NestedTestRow, StepTimeLawRow, TransferRow,
};
use super::setting::{ModelRun, SettingRuns};
use super::solution::FitMethod;
use super::step_time::StepTimeLaw;
use super::{effects, step_break, substitution};
use crate::stats::{FitFailure, Resamples, median, nested_f_test};

/// Every table of one setting but `transfer`.
pub(super) fn tables_of(
    runs: &SettingRuns<'_>,
    setting: &SettingFit,
    method: FitMethod,
) -> ModelTables {
    let mut tables = ModelTables {
        fits: setting.forms.iter().map(|outcome| fit_row(runs, outcome, method)).collect(),
        excluded_runs: runs
            .excluded
            .iter()
            .map(|(run, reason)| excluded(runs, run, *reason))
            .collect(),
        ..ModelTables::default()
    };
    if runs.refusal.is_some() {
        tables.fit_summary = setting
            .forms
            .iter()
            .map(|outcome| FormValidation::default().summary(runs, outcome))
            .collect();
        return tables;
    }
    let validations: Vec<FormValidation> =
        setting.forms.par_iter().map(|outcome| FormValidation::of(runs, outcome)).collect();
    for (outcome, validation) in setting.forms.iter().zip(validations) {
        tables.fit_summary.push(validation.summary(runs, outcome));
        tables.heldout.extend(validation.heldout);
        tables.heldout_runs.extend(validation.heldout_runs);
    }
    tables.nested_tests =
        FORMS.iter().filter(|form| form.nested).map(|form| nested_test(runs, form)).collect();
    let full = setting.full();
    tables.substitution =
        full.map(|full| substitution::substitutions(runs, full)).unwrap_or_default();
    tables.block_effects = effects::block_effects(runs).into_iter().collect();
    tables.batch_effects = effects::batch_effects(runs);
    tables.step_breaks = if runs.claimed { Vec::new() } else { vec![step_break::find(runs)] };
    tables.identified_ranges = effects::identified_ranges(runs, full);
    tables.step_time_laws = vec![step_time_row(runs, &setting.step_time)];
    tables
}

fn excluded(runs: &SettingRuns<'_>, observation: &Observation, reason: Reason) -> ExcludedRunRow {
    ExcludedRunRow {
        run_id: observation.run_id.clone(),
        setting: runs.name.clone(),
        model: observation.model.clone(),
        reason,
    }
}

fn fit_row(runs: &SettingRuns<'_>, outcome: &FormOutcome, method: FitMethod) -> FitRow {
    let fitted = outcome.fitted.as_ref().ok();
    let failure = outcome.fitted.as_ref().err();
    let coefficient = |name| fitted.and_then(|fitted| fitted.coefficient(name)).cloned();
    FitRow {
        setting: runs.name.clone(),
        form: outcome.form.name,
        method: method.name(),
        n_runs: runs.fit.len(),
        n_cells: cells(&runs.fit).len(),
        c: coefficient("c"),
        alpha: coefficient("alpha"),
        beta: coefficient("beta"),
        gamma: coefficient("gamma"),
        p_tau_w: coefficient("p_tau_w"),
        inverse_batch_j: coefficient("inverse_batch_j"),
        r2: fitted.and_then(|fitted| fitted.r2),
        residual_std: fitted.map(|fitted| fitted.residual_std),
        condition_number: fitted.map(|fitted| fitted.condition_number),
        max_vif: fitted.and_then(FittedForm::max_variance_inflation),
        flags: fitted.map_or_else(|| runs.flags(), |fitted| fitted.flags),
        reason: failure.map(|failure| failure.reason),
        detail: failure.map(|failure| failure.message.clone()),
    }
}

/// Errors of one form on runs that it was not fitted on.
#[derive(Debug, Default)]
struct FormValidation {
    heldout: Vec<HeldoutRow>,
    heldout_runs: Vec<HeldoutRunRow>,
    max_interval: Option<(f64, f64)>,
    median_interval: Option<(f64, f64)>,
    loco: Option<Result<LeaveOneCellOut, FitFailure>>,
}

impl FormValidation {
    fn of(runs: &SettingRuns<'_>, outcome: &FormOutcome) -> Self {
        let Ok(fitted) = &outcome.fitted else { return Self::default() };
        let errors = of_runs(fitted, &runs.heldout);
        let weights = cell_weights(fitted, &errors);
        let resamples = fitted.resamples.as_ref();
        let heldout = of_cells(fitted, &errors)
            .into_iter()
            .zip(&weights)
            .map(|(errors, weights)| {
                let interval = resamples.and_then(|r| r.interval(|b| cell_error(weights, b)));
                HeldoutRow {
                    setting: runs.name.clone(),
                    form: outcome.form.name,
                    errors,
                    signed_error_low: interval.map(|(low, _)| low),
                    signed_error_high: interval.map(|(_, high)| high),
                }
            })
            .collect();
        let over_cells = |statistic: fn(&mut [f64]) -> f64| {
            resamples.and_then(|resamples| interval_over_cells(resamples, &weights, statistic))
        };
        Self {
            heldout,
            heldout_runs: errors.iter().map(|error| run_row(runs, fitted, error)).collect(),
            max_interval: over_cells(|errors| errors.iter().copied().fold(0.0, f64::max)),
            median_interval: over_cells(|errors| median(errors).unwrap_or(0.0)),
            loco: Some(loco(runs, fitted)),
        }
    }

    fn summary(&self, runs: &SettingRuns<'_>, outcome: &FormOutcome) -> FitSummaryRow {
        let failure = outcome.fitted.as_ref().err().map(|failure| failure.reason);
        let worst =
            self.heldout.iter().max_by(|a, b| a.errors.abs_error.total_cmp(&b.errors.abs_error));
        let mut errors: Vec<f64> = self.heldout.iter().map(|row| row.errors.abs_error).collect();
        let no_heldout = self.heldout.is_empty().then_some(Reason::NoHeldoutRuns);
        let loco = self.loco.as_ref();
        let flags = self.heldout.iter().fold(
            outcome.fitted.as_ref().map_or(FlagSet::EMPTY, |fitted| fitted.flags),
            |flags, row| flags.union(row.errors.flags),
        );
        FitSummaryRow {
            setting: runs.name.clone(),
            form: outcome.form.name,
            n_heldout_cells: self.heldout.len(),
            n_heldout_runs: self.heldout_runs.len(),
            max_abs_error: worst.map(|row| row.errors.abs_error),
            max_abs_error_low: self.max_interval.map(|(low, _)| low),
            max_abs_error_high: self.max_interval.map(|(_, high)| high),
            worst_cell: worst.map(|row| row.errors.cell.clone()),
            median_abs_error: median(&mut errors),
            median_abs_error_low: self.median_interval.map(|(low, _)| low),
            median_abs_error_high: self.median_interval.map(|(_, high)| high),
            loco_max_abs_error: loco.and_then(|l| l.as_ref().ok()).map(|l| l.max_abs_error),
            loco_median_abs_error: loco.and_then(|l| l.as_ref().ok()).map(|l| l.median_abs_error),
            flags,
            reason: failure.or(no_heldout),
            loco_reason: failure.or_else(|| loco?.as_ref().err().map(|failure| failure.reason)),
        }
    }
}

fn run_row(runs: &SettingRuns<'_>, fitted: &FittedForm, error: &RunError<'_>) -> HeldoutRunRow {
    let run = &error.run;
    let mut flags = run.observation.flags.union(fitted.flags);
    flags.insert_if(!error.extrapolated.is_empty(), Flag::Extrapolated);
    HeldoutRunRow {
        setting: runs.name.clone(),
        form: fitted.form.name,
        cell: run.cell().to_owned(),
        run_id: run.observation.run_id.clone(),
        observed_j_per_token: run.j_per_token(),
        predicted_j_per_token: error.expected.value,
        predicted_low: Some(error.expected.interval.0),
        predicted_high: Some(error.expected.interval.1),
        error: error.error,
        extrapolated: !error.extrapolated.is_empty(),
        extrapolated_coordinates: error.extrapolated.clone(),
        flags,
    }
}

/// Per cell, the weights by which coefficients give its signed error: the mean over its runs of
/// (1, terms) / e. The error is their product with the coefficients, minus one.
fn cell_weights(fitted: &FittedForm, errors: &[RunError<'_>]) -> Vec<Vec<f64>> {
    errors
        .chunk_by(|a, b| a.run.cell() == b.run.cell())
        .map(|cell| {
            let mut weights = vec![0.0; fitted.coefficients.len()];
            for error in cell {
                let share = 1.0 / (error.run.j_per_token() * cell.len() as f64);
                weights[0] += share;
                let values = error.run.values(fitted.form).unwrap_or_default();
                for (weight, value) in weights[1..].iter_mut().zip(values) {
                    *weight += value * share;
                }
            }
            weights
        })
        .collect()
}

fn cell_error(weights: &[f64], coefficients: &[f64]) -> f64 {
    weights.iter().zip(coefficients).map(|(weight, b)| weight * b).sum::<f64>() - 1.0
}

/// The bootstrap interval of a statistic over the absolute errors of all cells. The fit's cells are
/// drawn anew; the held-out cells are the ones that were chosen, and stay.
fn interval_over_cells(
    resamples: &Resamples,
    weights: &[Vec<f64>],
    statistic: fn(&mut [f64]) -> f64,
) -> Option<(f64, f64)> {
    if weights.is_empty() {
        return None;
    }
    let mut errors = vec![0.0; weights.len()];
    resamples.interval(|coefficients| {
        for (error, weights) in errors.iter_mut().zip(weights) {
            *error = cell_error(weights, coefficients).abs();
        }
        statistic(&mut errors)
    })
}

fn loco(runs: &SettingRuns<'_>, fitted: &FittedForm) -> Result<LeaveOneCellOut, FitFailure> {
    let names: Vec<&str> = cells(&runs.fit).into_iter().collect();
    let design = design(fitted.form, &runs.fit)?;
    leave_one_cell_out(&design, fitted.method, |cell| names[cell].to_owned())
}

fn nested_test(runs: &SettingRuns<'_>, form: &Form) -> NestedTestRow {
    let tested =
        design(&FULL, &runs.fit).and_then(|full| nested_f_test(&full, &design(form, &runs.fit)?));
    let test = tested.as_ref().ok();
    NestedTestRow {
        setting: runs.name.clone(),
        form: form.name,
        question: form.question,
        df_numerator: test.map(|test| test.df_numerator),
        df_denominator: test.map(|test| test.df_denominator),
        f_statistic: test.map(|test| test.f_statistic),
        p_value: test.map(|test| test.p_value),
        flags: runs.flags(),
        reason: tested.as_ref().err().map(|failure| failure.reason),
    }
}

fn step_time_row(runs: &SettingRuns<'_>, law: &Result<StepTimeLaw, FitFailure>) -> StepTimeLawRow {
    let fitted = law.as_ref().ok();
    let coefficient = |index: usize| {
        let fit = &fitted?.fit;
        let estimate = &fit.coefficients[index];
        let robust = fit.cluster_robust.as_ref().ok().map(|robust| &robust.coefficients[index]);
        Some(CoefficientRow::new(estimate, robust, None, false))
    };
    StepTimeLawRow {
        setting: runs.name.clone(),
        n_runs: runs.fit.len(),
        n_cells: cells(&runs.fit).len(),
        t_0_s: coefficient(0),
        t_b_s: coefficient(1),
        t_kv_s_per_gb: coefficient(2),
        r2: fitted.and_then(|law| law.fit.r_squared),
        residual_std_s: fitted.map(|law| law.fit.residual_std),
        max_abs_error: fitted.and_then(|law| Some(law.heldout?.0)),
        median_abs_error: fitted.and_then(|law| Some(law.heldout?.1)),
        loco_max_abs_error: fitted.and_then(|law| Some(law.loco.as_ref().ok()?.max_abs_error)),
        flags: fitted.map_or_else(|| runs.flags(), |law| law.flags),
        reason: law.as_ref().err().map(|failure| failure.reason),
        detail: law.as_ref().err().map(|failure| failure.message.clone()),
    }
}

/// The full form's coefficients of every setting on the runs of every other setting of the same model,
/// unchanged. Published totals and measurements do not mix.
pub(super) fn transfer(runs: &[SettingRuns<'_>], settings: &[SettingFit]) -> Vec<TransferRow> {
    let mut rows = Vec::new();
    for (source_runs, source) in runs.iter().zip(settings) {
        let Some(full) = source.full() else { continue };
        for target in runs {
            let comparable = target.model == source_runs.model
                && target.claimed == source_runs.claimed
                && target.name != source_runs.name
                && target.refusal.is_none();
            if !comparable {
                continue;
            }
            let mut all: Vec<ModelRun<'_>> = target.usable().copied().collect();
            all.sort_by(|a, b| a.cell().cmp(b.cell()));
            rows.extend(of_cells(full, &of_runs(full, &all)).into_iter().map(|errors| {
                TransferRow {
                    source_setting: source_runs.name.clone(),
                    target_setting: target.name.clone(),
                    form: FULL.name,
                    errors,
                }
            }));
        }
    }
    rows
}
