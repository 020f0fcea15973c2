//! `wattrace predict`.

use std::fmt::Write as _;

use serde_json::json;
use wattrace_analysis::model::{EnergyPrediction, FULL, TauSource, WhatIf, predict};

use super::fit::{fit_of, fit_options, setting_named};
use crate::args::Predict;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Predict, output: &Output) -> Result<Exit, Failure> {
    let analysis = fit_of(&args.input, &fit_options(&args.options), output)?;
    let setting = setting_named(&analysis, &args.setting)?;
    let at = WhatIf {
        b_eff: args.batch,
        mean_history_tokens: args.history,
        tau_s: args.tau_ms.map(|ms| ms / 1e3),
    };
    let form = args.form.as_deref().unwrap_or(FULL.name);
    let predicted = predict(setting, form, &at, args.force).map_err(Failure::usage)?;
    output.data(&if output.json { as_json(&predicted) } else { as_text(&predicted) })?;
    Ok(Exit::Done)
}

const fn tau_source(source: TauSource) -> &'static str {
    match source {
        TauSource::Given => "given",
        TauSource::StepTimeLaw => "from the fitted step-time law",
        TauSource::NotNeeded => "not needed by this form",
    }
}

fn as_json(predicted: &EnergyPrediction) -> String {
    let flags: Vec<&str> = predicted.flags.iter().map(|flag| flag.code()).collect();
    let value = json!({
        "setting": predicted.setting,
        "form": predicted.form,
        "j_per_token": predicted.j_per_token,
        "low": predicted.low,
        "high": predicted.high,
        "q_w_gb": predicted.coordinates.q_w_gb,
        "q_kv_gb": predicted.coordinates.q_kv_gb,
        "tau_s": predicted.coordinates.tau_s,
        "tau_source": tau_source(predicted.tau_source),
        "extrapolated": predicted.extrapolated,
        "not_identified": predicted.not_identified,
        "flags": flags,
    });
    format!("{value:#}\n")
}

fn as_text(predicted: &EnergyPrediction) -> String {
    let at = &predicted.coordinates;
    let mut text = format!(
        "{:.6} J/token, 95% prediction interval of one run {:.6} to {:.6}\n\
         setting {}, form {}\n\
         weights {:.6} GB/token, tau {:.6} ms/token ({})\n",
        predicted.j_per_token,
        predicted.low,
        predicted.high,
        predicted.setting,
        predicted.form,
        at.q_w_gb,
        at.tau_s * 1e3,
        tau_source(predicted.tau_source),
    );
    if !predicted.extrapolated.is_empty() {
        let _ = writeln!(text, "extrapolated: {}", predicted.extrapolated.join(", "));
    }
    if !predicted.not_identified.is_empty() {
        let _ = writeln!(text, "not identified: {}", predicted.not_identified.join(", "));
    }
    if predicted.flags.contains(wattrace_schema::Flag::Synthetic) {
        text.push_str("fitted on simulated runs\n");
    }
    text
}
