//! Energy per token at a batch, history and time that nobody measured.

use wattrace_schema::{Flag, FlagSet, Reason};

use super::analysis::SettingFit;
use super::fit::FittedForm;
use super::form::{FORMS, Regressor};
use super::observation::Coordinates;
use crate::stats::t_critical;

/// What to predict for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WhatIf {
    /// Effective batch, above zero.
    pub b_eff: f64,
    /// Mean history before a token, zero or more.
    pub mean_history_tokens: f64,
    /// Time per token, s; without it the setting's step-time law gives one.
    pub tau_s: Option<f64>,
}

/// Where the time per token of a prediction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TauSource {
    /// It was given.
    Given,
    /// The setting's step-time law; its error is part of the interval.
    StepTimeLaw,
    /// The form has no time in it.
    NotNeeded,
}

/// A predicted energy.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyPrediction {
    /// Setting whose coefficients were used.
    pub setting: String,
    /// Form of the model.
    pub form: &'static str,
    /// Expected energy, J/token.
    pub j_per_token: f64,
    /// Lower end of the 95% prediction interval of a single run, J/token.
    pub low: f64,
    /// Upper end of the same.
    pub high: f64,
    /// Where the prediction lies; τ is zero where the form needs none and none was given.
    pub coordinates: Coordinates,
    /// Where the time per token comes from.
    pub tau_source: TauSource,
    /// Coordinates outside the range of the fit runs; only when forced.
    pub extrapolated: Vec<&'static str>,
    /// Coefficients that the data cannot tell from the others; only when forced.
    pub not_identified: Vec<&'static str>,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// An input that no run can have.
    #[error("{name} is {value}; a finite number {bound} is needed")]
    Input {
        /// The input.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What it must satisfy.
        bound: &'static str,
    },
    /// A form that does not exist.
    #[error("there is no form \"{name}\"; the forms are {}", form_names())]
    UnknownForm {
        /// The name that was given.
        name: String,
    },
    /// The setting has no fit of that form; a mixture of experts never has one.
    #[error("setting \"{setting}\" has no fit of form \"{form}\": {detail}")]
    NotFitted {
        /// The setting.
        setting: String,
        /// The form.
        form: &'static str,
        /// The reason in result tables.
        reason: Reason,
        /// The reason in words.
        detail: String,
    },
    /// Runs of the setting disagree on the bytes of the model.
    #[error(
        "the runs of setting \"{setting}\" disagree on the bytes of their model, so a batch and history do not fix the bytes per token"
    )]
    SeveralModels {
        /// The setting.
        setting: String,
    },
    /// No time was given, and the setting has no law for it.
    #[error(
        "no time per token was given, and setting \"{setting}\" has no step-time law: {detail}; give tau_s"
    )]
    NoTime {
        /// The setting.
        setting: String,
        /// Why there is no law.
        detail: String,
    },
    /// The fit cannot tell some coefficients from the others.
    #[error("setting \"{setting}\", form \"{form}\": the data do not identify {}, so a prediction can mislead; force it to see it", coefficients.join(", "))]
    NotIdentified {
        /// The setting.
        setting: String,
        /// The form.
        form: &'static str,
        /// The coefficients.
        coefficients: Vec<&'static str>,
    },
    /// The point lies outside the fit runs.
    #[error("setting \"{setting}\", form \"{form}\": outside the fit runs lie {}; force it to see it", ranges.join(", "))]
    Extrapolated {
        /// The setting.
        setting: String,
        /// The form.
        form: &'static str,
        /// The coordinates, each with its value and the range of the fit runs.
        ranges: Vec<String>,
    },
}

fn form_names() -> String {
    let names: Vec<&str> = FORMS.iter().map(|form| form.name).collect();
    names.join(", ")
}

/// Predicts the energy per token of a run of `setting` at `at` by the form named `form`.
///
/// The interval is for a single new run. With time from the step-time law, that law's error is
/// added as if independent of the energy model's.
///
/// # Errors
/// [`PredictError`]. With `force`, extrapolation and coefficients that are not identified are no
/// errors but stand in the prediction.
pub fn predict(
    setting: &SettingFit,
    form: &str,
    at: &WhatIf,
    force: bool,
) -> Result<EnergyPrediction, PredictError> {
    check(at)?;
    let outcome =
        setting.form(form).ok_or_else(|| PredictError::UnknownForm { name: form.to_owned() })?;
    let form = outcome.form.name;
    let fitted = outcome.fitted.as_ref().map_err(|failure| PredictError::NotFitted {
        setting: setting.setting.clone(),
        form,
        reason: failure.reason,
        detail: failure.message.clone(),
    })?;
    let bytes = setting
        .bytes
        .ok_or_else(|| PredictError::SeveralModels { setting: setting.setting.clone() })?;
    let timeless = Coordinates::new(at.b_eff, Some(at.mean_history_tokens), 0.0, bytes);
    let time = time_per_token(setting, fitted, at, &timeless)?;
    let coordinates = Coordinates { tau_s: time.tau_s, ..timeless };
    // History is known here, so every term has a value.
    let values = outcome.form.values(&coordinates).unwrap_or_default();

    let mut extrapolated = fitted.extrapolated(&values);
    if time.extrapolates {
        extrapolated.push("step time");
    }
    let not_identified = fitted.not_identified();
    if !force && !not_identified.is_empty() {
        return Err(PredictError::NotIdentified {
            setting: setting.setting.clone(),
            form,
            coefficients: not_identified,
        });
    }
    if !force && !extrapolated.is_empty() {
        let mut ranges = described(fitted, &values);
        if time.extrapolates {
            ranges.push("batch and history of the step-time law".to_owned());
        }
        return Err(PredictError::Extrapolated { setting: setting.setting.clone(), form, ranges });
    }
    let expected = fitted.expect(&values);
    let of_time =
        fitted.coefficient(Regressor::TimePerToken.coefficient()).map_or(0.0, |p| p.value);
    let std_error = expected.std_error.hypot(of_time * time.std_error);
    let half_width = t_critical(fitted.df_residual) * std_error;
    if !expected.value.is_finite() || !half_width.is_finite() {
        // Inputs that are numbers themselves may still be too large to compute with.
        return Err(PredictError::Input {
            name: "b_eff and mean_history_tokens",
            value: at.b_eff.max(at.mean_history_tokens),
            bound: "that can be computed with",
        });
    }
    let mut flags = fitted.flags;
    flags.insert_if(!extrapolated.is_empty(), Flag::Extrapolated);
    Ok(EnergyPrediction {
        setting: setting.setting.clone(),
        form,
        j_per_token: expected.value,
        low: expected.value - half_width,
        high: expected.value + half_width,
        coordinates,
        tau_source: time.source,
        extrapolated,
        not_identified,
        flags,
    })
}

fn check(at: &WhatIf) -> Result<(), PredictError> {
    let positive = "above zero";
    let inputs = [
        ("b_eff", at.b_eff, at.b_eff > 0.0, positive),
        (
            "mean_history_tokens",
            at.mean_history_tokens,
            at.mean_history_tokens >= 0.0,
            "of zero or more",
        ),
        ("tau_s", at.tau_s.unwrap_or(1.0), at.tau_s.is_none_or(|tau_s| tau_s > 0.0), positive),
    ];
    for (name, value, within, bound) in inputs {
        if !within || !value.is_finite() {
            return Err(PredictError::Input { name, value, bound });
        }
    }
    Ok(())
}

struct Time {
    tau_s: f64,
    std_error: f64,
    source: TauSource,
    extrapolates: bool,
}

fn time_per_token(
    setting: &SettingFit,
    fitted: &FittedForm,
    at: &WhatIf,
    coordinates: &Coordinates,
) -> Result<Time, PredictError> {
    let exact = |tau_s, source| Time { tau_s, std_error: 0.0, source, extrapolates: false };
    if !fitted.form.terms.contains(&Regressor::TimePerToken) {
        return Ok(exact(at.tau_s.unwrap_or(0.0), TauSource::NotNeeded));
    }
    if let Some(tau_s) = at.tau_s {
        return Ok(exact(tau_s, TauSource::Given));
    }
    let no_time =
        |detail: String| PredictError::NoTime { setting: setting.setting.clone(), detail };
    let law = setting.step_time.as_ref().map_err(|failure| no_time(failure.message.clone()))?;
    let expected = law.expect(coordinates).ok_or_else(|| {
        no_time("at this batch and history it gives no time above zero".to_owned())
    })?;
    Ok(Time {
        tau_s: expected.tau_s,
        std_error: expected.std_error,
        source: TauSource::StepTimeLaw,
        extrapolates: law.extrapolates(coordinates),
    })
}

/// The coordinates outside the fit runs in words, each with their range.
fn described(fitted: &FittedForm, values: &[f64]) -> Vec<String> {
    let outside = fitted.extrapolated(values);
    let terms = fitted.form.terms.iter().zip(values).zip(&fitted.ranges);
    terms
        .filter(|((term, _), _)| outside.contains(&term.coordinate()))
        .map(|((term, value), (low, high))| {
            // The range of a batch is kept as that of 1/B.
            let (value, low, high) = match term {
                Regressor::InverseBatch => (1.0 / value, 1.0 / high, 1.0 / low),
                _ => (*value, *low, *high),
            };
            format!("{} {value:.6} (fit: {low:.6} to {high:.6})", term.coordinate())
        })
        .collect()
}
