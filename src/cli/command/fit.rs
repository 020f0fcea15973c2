//! `wattrace fit`.

use std::path::Path;

use wattrace_analysis::Options;
use wattrace_analysis::model::{
    FORMS, FitMethod, FitOptions, Form, ModelAnalysis, SettingFit, fit_archive, form_report,
    setting_report,
};
use wattrace_trace::ReadOptions;

use crate::args::{self, Fit};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::pipeline::{Plan, each_run, runs_of};

pub(crate) fn run(args: &Fit, output: &Output) -> Result<Exit, Failure> {
    if let Some(form) = &args.form
        && Form::named(form).is_none()
    {
        let names: Vec<&str> = FORMS.iter().map(|form| form.name).collect();
        let names = names.join(", ");
        return Err(Failure::usage(anyhow::anyhow!(
            "there is no form \"{form}\"; the forms are {names}"
        )));
    }
    let analysis = fit_of(&args.archive, &options(&args.options), output)?;
    let settings = match &args.setting {
        Some(name) => vec![setting_named(&analysis, name)?],
        None => analysis.settings.iter().collect(),
    };
    if output.json {
        output.data("{}")?;
    } else {
        for setting in &settings {
            output.data(&match args.form.as_deref().and_then(|form| setting.form(form)) {
                Some(form) => form_report(setting, form),
                None => setting_report(setting),
            })?;
        }
    }
    let unfitted = |setting: &&SettingFit| setting.forms.iter().all(|form| form.fitted.is_err());
    Ok(Exit::findings_if(settings.iter().any(unfitted)))
}

/// The options of a fit as the analysis takes them.
pub(crate) fn options(args: &args::FitOptions) -> FitOptions {
    let method = if args.robust {
        FitMethod::Huber
    } else if args.non_negative {
        FitMethod::NonNegative
    } else {
        FitMethod::Ols
    };
    FitOptions { method, resamples: args.bootstrap as usize, seed: args.seed }
}

/// Reads the runs of an archive and fits the model to them.
pub(crate) fn fit_of(
    archive: &Path,
    options: &FitOptions,
    output: &Output,
) -> Result<ModelAnalysis, Failure> {
    let locations = runs_of(archive)?;
    let plan =
        Plan { read: ReadOptions::default(), options: Options::default(), per_request: false };
    let progress = output.progress(locations.len(), "reading");
    let mut observations = Vec::new();
    each_run(&locations, &plan, &progress, |done| {
        if let Err(error) = &done.record.analysis {
            output.error(&format!("run \"{}\": {error}", done.record.run_id()));
        }
        done.warnings.iter().for_each(|warning| output.warn(warning));
        observations.extend(done.observation);
        Ok(())
    })?;
    if observations.is_empty() {
        let archive = archive.display();
        return Err(Failure::no_input(anyhow::anyhow!(
            "\"{archive}\" holds no decode or summary run; expected runs with kind \"decode\" or \"summary\""
        )));
    }
    let analysis = fit_archive(&observations, options);
    for excluded in &analysis.tables.excluded_runs {
        output.warn(&format!("run \"{}\" is in no fit: {}", excluded.run_id, excluded.reason));
    }
    Ok(analysis)
}

/// The setting of that name.
pub(crate) fn setting_named<'analysis>(
    analysis: &'analysis ModelAnalysis,
    name: &str,
) -> Result<&'analysis SettingFit, Failure> {
    analysis.settings.iter().find(|setting| setting.setting == name).ok_or_else(|| {
        let names: Vec<String> =
            analysis.settings.iter().map(|setting| format!("\"{}\"", setting.setting)).collect();
        let names = names.join(", ");
        Failure::usage(anyhow::anyhow!("there is no setting \"{name}\"; the archive has {names}"))
    })
}
