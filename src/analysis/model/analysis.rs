//! The whole analysis: settings, and the forms of each.

use rayon::prelude::*;

use super::fit::{FitOptions, FittedForm, fit_form};
use super::form::{FORMS, FULL, Form};
use super::observation::{ModelBytes, Observation};
use super::rows::ModelTables;
use super::setting::{SettingRuns, group};
use super::step_time::StepTimeLaw;
use super::tabulate::{tables_of, transfer};
use crate::stats::FitFailure;

/// One setting with its forms.
#[derive(Debug, Clone)]
pub struct SettingFit {
    /// Key of the setting.
    pub setting: String,
    /// Name of its model.
    pub model: String,
    /// Its values are published totals.
    pub claimed: bool,
    /// Bytes of its model, where all runs agree on them.
    pub bytes: Option<ModelBytes>,
    /// Every form, in the order of [`FORMS`].
    pub forms: Vec<FormOutcome>,
    /// The law for the time of an iteration.
    pub step_time: Result<StepTimeLaw, FitFailure>,
}

/// One form of a setting: the fit, or why there is none.
#[derive(Debug, Clone)]
pub struct FormOutcome {
    /// The form.
    pub form: &'static Form,
    /// The fit, or why there is none.
    pub fitted: Result<FittedForm, FitFailure>,
}

impl SettingFit {
    /// The outcome of the form of that name.
    #[must_use]
    pub fn form(&self, name: &str) -> Option<&FormOutcome> {
        self.forms.iter().find(|outcome| outcome.form.name == name)
    }

    /// The full form, where it could be fitted.
    pub(super) fn full(&self) -> Option<&FittedForm> {
        self.form(FULL.name).and_then(|outcome| outcome.fitted.as_ref().ok())
    }
}

/// Fits and tables of an archive.
#[derive(Debug, Clone)]
pub struct ModelAnalysis {
    /// Every setting, sorted by name.
    pub settings: Vec<SettingFit>,
    /// Every table.
    pub tables: ModelTables,
}

/// Fits every form to every setting and computes every table. Settings are independent: one that
/// cannot be fitted has a reason, and the others are fitted. The order of the observations does not
/// matter, nor does the number of threads.
#[must_use]
pub fn fit_archive(observations: &[Observation], options: &FitOptions) -> ModelAnalysis {
    let runs = group(observations);
    let analyzed: Vec<(SettingFit, ModelTables)> =
        runs.par_iter().map(|setting| analyze_setting(setting, options)).collect();
    let (settings, parts): (Vec<SettingFit>, Vec<ModelTables>) = analyzed.into_iter().unzip();
    let mut tables = ModelTables::default();
    for part in parts {
        append(&mut tables, part);
    }
    tables.transfer = transfer(&runs, &settings);
    ModelAnalysis { settings, tables }
}

fn append(tables: &mut ModelTables, mut part: ModelTables) {
    tables.fits.append(&mut part.fits);
    tables.heldout.append(&mut part.heldout);
    tables.heldout_runs.append(&mut part.heldout_runs);
    tables.fit_summary.append(&mut part.fit_summary);
    tables.transfer.append(&mut part.transfer);
    tables.substitution.append(&mut part.substitution);
    tables.nested_tests.append(&mut part.nested_tests);
    tables.block_effects.append(&mut part.block_effects);
    tables.batch_effects.append(&mut part.batch_effects);
    tables.step_breaks.append(&mut part.step_breaks);
    tables.identified_ranges.append(&mut part.identified_ranges);
    tables.step_time_laws.append(&mut part.step_time_laws);
    tables.excluded_runs.append(&mut part.excluded_runs);
}

fn analyze_setting(runs: &SettingRuns<'_>, options: &FitOptions) -> (SettingFit, ModelTables) {
    let forms: Vec<FormOutcome> = FORMS
        .par_iter()
        .map(|form| FormOutcome {
            form,
            fitted: match &runs.refusal {
                Some(failure) => Err(failure.clone()),
                None => fit_form(form, &runs.fit, options),
            },
        })
        .collect();
    let step_time = match &runs.refusal {
        Some(failure) => Err(failure.clone()),
        None => StepTimeLaw::of(runs),
    };
    let mut setting = SettingFit {
        setting: runs.name.clone(),
        model: runs.model.to_owned(),
        claimed: runs.claimed,
        bytes: runs.bytes(),
        forms,
        step_time,
    };
    let tables = tables_of(runs, &setting, options.method);
    for outcome in &mut setting.forms {
        if let Ok(fitted) = &mut outcome.fitted {
            // Every interval has been read off them, and of all settings together they are large.
            fitted.resamples = None;
        }
    }
    (setting, tables)
}
