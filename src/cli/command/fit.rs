//! `wattrace fit`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use wattrace_analysis::model::{
    FORMS, FitMethod, FitOptions, Form, ModelAnalysis, Observation, SettingFit, fit_archive,
    form_report, setting_report,
};
use wattrace_report::tables::model_tables;
use wattrace_report::{Results, stored_observations};
use wattrace_schema::Reason;

use crate::args::{self, Fit};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::pipeline::{each_run_of, is_results};

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
    let analysis = fit_of(&args.input, &fit_options(&args.options), output)?;
    let settings = match &args.setting {
        Some(name) => vec![setting_named(&analysis, name)?],
        None => analysis.settings.iter().collect(),
    };
    if output.json {
        output.data(&as_json(&analysis, args.setting.as_deref()))?;
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
pub(crate) fn fit_options(args: &args::FitOptions) -> FitOptions {
    let method = if args.robust {
        FitMethod::Huber
    } else if args.non_negative {
        FitMethod::NonNegative
    } else {
        FitMethod::Ols
    };
    FitOptions { method, resamples: args.bootstrap as usize, seed: args.seed }
}

/// Reads the runs of an archive, or what a results folder holds of them, and fits the model to them.
pub(crate) fn fit_of(
    input: &Path,
    options: &FitOptions,
    output: &Output,
) -> Result<ModelAnalysis, Failure> {
    let observations = if is_results(input) {
        let results = Results::open(input).map_err(Failure::no_input)?;
        let stored = stored_observations(&results).map_err(Failure::no_input)?;
        for (run_id, error) in &stored.failures {
            output.error(&format!("run \"{run_id}\": {error}"));
        }
        stored.observations
    } else {
        let mut observations = Vec::new();
        each_run_of(input, output, |done| add_observation(&mut observations, done.observation))?;
        observations
    };
    if observations.is_empty() {
        let input = input.display();
        return Err(Failure::no_input(anyhow::anyhow!(
            "\"{input}\" holds no decode or summary run; expected runs with kind \"decode\" or \"summary\""
        )));
    }
    let analysis = fit_archive(&observations, options);
    excluded(&analysis).iter().for_each(|warning| output.warn(warning));
    Ok(analysis)
}

/// Adds a run to those that are fitted, unless one of its id is among them: a copy would count twice.
pub(crate) fn add_observation(observations: &mut Vec<Observation>, run: Option<Observation>) {
    observations
        .extend(run.filter(|run| observations.iter().all(|known| known.run_id != run.run_id)));
}

/// Runs that are in no fit, together where setting and reason are the same.
pub(crate) fn excluded(analysis: &ModelAnalysis) -> Vec<String> {
    let mut groups: BTreeMap<(&str, Reason), Vec<&str>> = BTreeMap::new();
    for run in &analysis.tables.excluded_runs {
        groups.entry((&run.setting, run.reason)).or_default().push(&run.run_id);
    }
    groups
        .into_iter()
        .map(|((setting, reason), runs)| {
            let more = runs.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "setting \"{setting}\": \"{}\"{more} in no fit ({reason}): {}",
                runs[0],
                reason.meaning()
            )
        })
        .collect()
}

/// Every table of the model, by name; with `setting`, only its rows.
fn as_json(analysis: &ModelAnalysis, setting: Option<&str>) -> String {
    let of_setting = |row: &Value| match (setting, row.get("setting")) {
        (Some(wanted), Some(found)) => found == wanted,
        _ => true,
    };
    let tables: Map<String, Value> = model_tables(&analysis.tables)
        .iter()
        .map(|table| {
            let rows = table.to_json().into_iter().filter(of_setting).collect();
            (table.name().to_owned(), Value::Array(rows))
        })
        .collect();
    format!("{:#}\n", Value::Object(tables))
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
        Failure::usage(anyhow::anyhow!("there is no setting \"{name}\"; there are {names}"))
    })
}
