//! Fits as text, for people.

use std::fmt::Write;

use wattrace_schema::Flag;

use super::analysis::{FormOutcome, SettingFit};
use super::fit::FittedForm;
use super::form::{CONSTANT, CONSTANT_UNIT, Form, Regressor};
use super::rows::CoefficientRow;

/// Significant digits of printed numbers.
const DIGITS: usize = 5;

/// Flags that the notes of a fit already explain.
const EXPLAINED: [Flag; 3] = [Flag::NotIdentified, Flag::FewClusters, Flag::AtBoundary];

/// Every form of a setting, as a statistics package would print it.
#[must_use]
pub fn setting_report(setting: &SettingFit) -> String {
    let forms = setting.forms.iter().map(|outcome| form_report(setting, outcome));
    forms.collect::<Vec<_>>().join("\n")
}

/// One form of a setting: what was fitted, the coefficients with their errors, and notes.
#[must_use]
pub fn form_report(setting: &SettingFit, outcome: &FormOutcome) -> String {
    let mut text = format!("{}: {}\n", outcome.form.name, equation(outcome.form));
    let _ = writeln!(text, "{}", outcome.form.question);
    let _ = writeln!(text, "  Setting       {}", setting.setting);
    let _ = writeln!(text, "  Model         {}", setting.model);
    match &outcome.fitted {
        Ok(fitted) => {
            text.push_str(&statistics(fitted));
            text.push_str(&coefficients(fitted));
            text.push_str(&notes(fitted));
        }
        Err(failure) => {
            let _ = writeln!(text, "  No fit        {} ({})", failure.message, failure.reason);
        }
    }
    text
}

fn equation(form: &Form) -> String {
    let terms = form.terms.iter().map(|term| match term {
        Regressor::AllBytes => format!("{} ({})", term.coefficient(), term.coordinate()),
        Regressor::InverseBatch => format!("{} / {}", term.coefficient(), term.coordinate()),
        _ => format!("{} {}", term.coefficient(), term.coordinate()),
    });
    let terms: Vec<String> = std::iter::once(CONSTANT.to_owned()).chain(terms).collect();
    format!("j_per_token = {}", terms.join(" + "))
}

fn statistics(fitted: &FittedForm) -> String {
    let rows = [
        ("Method", fitted.method.description().to_owned()),
        (
            "Runs",
            format!(
                "{} in {} cells; {} residual degrees of freedom",
                fitted.n_runs, fitted.n_cells, fitted.df_residual
            ),
        ),
        ("R-squared", fitted.r2.map_or_else(|| "-".to_owned(), significant)),
        ("Residual std", format!("{} J/token", significant(fitted.residual_std))),
        ("Condition no.", significant(fitted.condition_number)),
    ];
    rows.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "  {name:<13} {value}");
        text
    })
}

const HEADINGS: [&str; 9] =
    ["", "estimate", "std error", "t", "95% low", "95% high", "cluster se", "VIF", "unit"];

fn coefficients(fitted: &FittedForm) -> String {
    let constant = std::iter::once((CONSTANT, CONSTANT_UNIT, None));
    let terms = fitted.form.terms.iter().zip(&fitted.variance_inflation);
    let named = constant
        .chain(terms.map(|(term, vif)| (term.coefficient(), term.coefficient_unit(), Some(*vif))));
    let rows = named.zip(&fitted.coefficients).map(|((name, unit, vif), row)| {
        let mark = if row.not_identified { " *" } else { "" };
        [
            format!("{name}{mark}"),
            significant(row.value),
            optional(row.se),
            optional(t_statistic(row)),
            optional(row.low),
            optional(row.high),
            optional(row.cluster_se),
            optional(vif),
            unit.to_owned(),
        ]
    });
    table(rows.collect())
}

fn t_statistic(row: &CoefficientRow) -> Option<f64> {
    let t = row.value / row.se?;
    t.is_finite().then_some(t)
}

/// Columns as wide as they need: names to the left, numbers to the right, units to the left.
fn table(rows: Vec<[String; 9]>) -> String {
    let all: Vec<[String; 9]> =
        std::iter::once(HEADINGS.map(ToOwned::to_owned)).chain(rows).collect();
    let width =
        |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let last = HEADINGS.len() - 1;
    let mut text = String::new();
    for row in &all {
        let mut line = format!("  {:<width$}", row[0], width = widths[0]);
        for column in 1..last {
            let _ = write!(line, "  {:>width$}", row[column], width = widths[column]);
        }
        let _ = write!(line, "  {}", row[last]);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What the coefficients of a form are not.
fn cautions(form: &Form) -> Vec<String> {
    let mut cautions = Vec::new();
    if form.terms.contains(&Regressor::TimePerToken) {
        cautions.push(
            "p_tau_w is not idle power: it is the energy that goes with a second per token at given bytes."
                .to_owned(),
        );
    }
    let responses: Vec<&str> = form
        .terms
        .iter()
        .filter(|term| **term != Regressor::TimePerToken)
        .map(|term| term.coefficient())
        .collect();
    let (verb, constants) = match responses.len() {
        0 => return cautions,
        1 => ("is a local response", "a constant"),
        _ => ("are local responses", "constants"),
    };
    cautions.push(format!(
        "{} {verb} of this setting over the ranges measured, not {constants} of nature.",
        responses.join(" and ")
    ));
    cautions
}

fn notes(fitted: &FittedForm) -> String {
    let of_data = fitted
        .flags
        .iter()
        .filter(|flag| !EXPLAINED.contains(flag))
        .map(|flag| format!("{flag}: {}", flag.meaning()));
    let all = cautions(fitted.form).into_iter().chain(fitted.notes.iter().cloned()).chain(of_data);
    all.enumerate().fold(String::new(), |mut text, (index, note)| {
        let _ = writeln!(text, "  [{}] {note}", index + 1);
        text
    })
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), significant)
}

/// A number with [`DIGITS`] significant digits, in powers of ten where that is shorter to read.
fn significant(value: f64) -> String {
    let scientific = format!("{value:.*e}", DIGITS - 1);
    let exponent: i32 =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(DIGITS as i32 - 1 - exponent);
    match decimals {
        Ok(decimals) if exponent >= -4 => format!("{value:.decimals$}"),
        _ if value == 0.0 => "0".to_owned(),
        _ => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_five_digits() {
        let printed = [0.0, 1.0, -0.123_456_789, 12_345.678, 1.5e-7, 2.5e9].map(significant);
        assert_eq!(printed, ["0.0000", "1.0000", "-0.12346", "12346", "1.5000e-7", "2.5000e9"]);
    }
}
