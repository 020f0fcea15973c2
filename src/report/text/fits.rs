//! What `fit` prints over all settings: errors first, then coefficients, then what took no part.

use std::collections::BTreeMap;

use wattrace_analysis::model::{
    CoefficientRow, ExcludedRunRow, FORMS, FULL, FitRow, FitSummaryRow, ModelTables,
};
use wattrace_schema::Reason;

use super::TextStyle;
use super::grid::{Entry, Grid, GridBuilder, Place, emphasised};
use super::number::significant;
use super::wrap::{counted, few, hanging};

/// Significant digits of errors and of coefficients.
const DIGITS: usize = 3;
const SUMMARY_FILE: &str = "fit_summary.csv";
const FITS_FILE: &str = "fits.csv";
/// Stands behind a coefficient that the data cannot tell from the others.
const NOT_IDENTIFIED: &str = "?";

/// The headline errors of every form and the full form's coefficients, one row a setting.
#[must_use]
pub fn fits_overview(model: &ModelTables, style: TextStyle) -> String {
    let settings = by_setting(&model.fit_summary);
    let full: Vec<&FitRow> = model.fits.iter().filter(|row| row.form == FULL.name).collect();
    let sections = [
        errors(
            "largest error of a held-out cell mean, %",
            &settings,
            |row| row.max_abs_error,
            |row| row.reason,
        ),
        errors(
            "median error of held-out cell means, %",
            &settings,
            |row| row.median_abs_error,
            |row| row.reason,
        ),
        errors(
            "largest error of a cell mean, each fit cell left out of the fit in turn, %",
            &settings,
            |row| row.loco_max_abs_error,
            |row| row.loco_reason,
        ),
        coefficients(&full),
    ];
    let mut parts: Vec<String> = sections.into_iter().map(|grid| grid.render(style)).collect();
    if let Some(table) = parts.last_mut().filter(|table| !table.is_empty()) {
        table.push_str(&cautions(&full, style.width));
    }
    parts.push(excluded(&model.excluded_runs, style));
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        "no decode or summary runs to fit\n".to_owned()
    } else {
        parts.join("\n")
    }
}

/// The forms of one setting.
struct SettingRow<'a> {
    setting: &'a str,
    forms: BTreeMap<&'a str, &'a FitSummaryRow>,
}

fn by_setting(rows: &[FitSummaryRow]) -> Vec<SettingRow<'_>> {
    let mut settings: BTreeMap<&str, BTreeMap<&str, &FitSummaryRow>> = BTreeMap::new();
    for row in rows {
        settings.entry(&row.setting).or_default().insert(row.form, row);
    }
    settings.into_iter().map(|(setting, forms)| SettingRow { setting, forms }).collect()
}

fn errors(
    title: &str,
    settings: &[SettingRow<'_>],
    error: impl Fn(&FitSummaryRow) -> Option<f64>,
    reason: impl Fn(&FitSummaryRow) -> Option<Reason>,
) -> Grid {
    let grid = GridBuilder::new(title, SUMMARY_FILE, settings, |row| row.setting.to_owned())
        .column("setting", "setting", Place::Text, |row| Entry::Text(row.setting.to_owned()));
    FORMS
        .iter()
        .enumerate()
        .fold(grid, |grid, (index, form)| {
            let rank = u8::try_from(index).unwrap_or(u8::MAX);
            grid.column(form.name, form.name, Place::Number { rank }, |row| {
                let Some(summary) = row.forms.get(form.name) else { return Entry::Blank };
                match (error(summary), reason(summary)) {
                    (Some(error), _) => Entry::Text(significant(error * 100.0, DIGITS)),
                    (None, Some(reason)) => Entry::Missing(reason),
                    (None, None) => Entry::Blank,
                }
            })
        })
        .build()
}

fn coefficients(rows: &[&FitRow]) -> Grid {
    let coefficient =
        |of: fn(&FitRow) -> &Option<CoefficientRow>| move |row: &&FitRow| estimate(row, of(row));
    let number = |of: fn(&FitRow) -> Option<f64>| {
        move |row: &&FitRow| Entry::text(of(row).map(|value| significant(value, DIGITS)))
    };
    GridBuilder::new("coefficients of the full form ± standard error", FITS_FILE, rows, |row| {
        row.setting.clone()
    })
    .column("setting", "setting", Place::Text, |row| Entry::Text(row.setting.clone()))
    .column("runs", "runs", Place::Number { rank: 2 }, |row| Entry::Text(row.n_runs.to_string()))
    .column("cells", "cells", Place::Number { rank: 3 }, |row| Entry::Text(row.n_cells.to_string()))
    .column("c", "c\nJ/token", Place::Number { rank: 0 }, coefficient(|row| &row.c))
    .column("alpha", "alpha\nJ/GB", Place::Number { rank: 0 }, coefficient(|row| &row.alpha))
    .column("beta", "beta\nJ/GB", Place::Number { rank: 0 }, coefficient(|row| &row.beta))
    .column("P_tau", "P_tau\nW", Place::Number { rank: 0 }, coefficient(|row| &row.p_tau_w))
    .column("R²", "R²", Place::Number { rank: 4 }, number(|row| row.r2))
    .column(
        "condition number",
        "condition\nnumber",
        Place::Number { rank: 1 },
        number(|row| row.condition_number),
    )
    .build()
}

fn estimate(row: &FitRow, coefficient: &Option<CoefficientRow>) -> Entry {
    let Some(found) = coefficient else {
        return row.reason.map_or(Entry::Blank, Entry::Missing);
    };
    let mark = if found.not_identified { NOT_IDENTIFIED } else { "" };
    let value = significant(found.value, DIGITS);
    Entry::Text(match found.se {
        Some(se) => format!("{value} ± {}{mark}", significant(se, 2)),
        None => format!("{value}{mark}"),
    })
}

/// What the coefficients are not.
fn cautions(rows: &[&FitRow], width: usize) -> String {
    let mut out = String::new();
    let unidentified = rows.iter().any(|row| {
        [&row.c, &row.alpha, &row.beta, &row.p_tau_w]
            .into_iter()
            .flatten()
            .any(|found| found.not_identified)
    });
    if unidentified {
        let note = "not identified: the data cannot tell this coefficient from the others";
        out.push_str(&hanging(&format!("{NOT_IDENTIFIED} "), note, width));
    }
    out.push_str(&hanging(
        "",
        "P_tau is not idle power; alpha and beta are local responses of a setting, not constants of nature.",
        width,
    ));
    out
}

/// The runs that no fit uses, by reason, with the names of their models.
fn excluded(rows: &[ExcludedRunRow], style: TextStyle) -> String {
    let mut by_reason: BTreeMap<Reason, Vec<&ExcludedRunRow>> = BTreeMap::new();
    for row in rows {
        by_reason.entry(row.reason).or_default().push(row);
    }
    if by_reason.is_empty() {
        return String::new();
    }
    let title = format!("in no fit: {}", counted(rows.len(), "run"));
    let mut out = format!("{}\n", emphasised(&title, style.colour));
    for (reason, rows) in by_reason {
        // A refused kind of model is named in full; for other reasons a few names are enough.
        let mut models: Vec<&str> = rows.iter().map(|row| row.model.as_str()).collect();
        models.sort_unstable();
        models.dedup();
        let named =
            if reason == Reason::MixtureOfExperts { models.join(", ") } else { few(&models) };
        let note =
            format!("{reason}, {}: {} ({named})", counted(rows.len(), "run"), reason.meaning());
        out.push_str(&hanging("  ", &note, style.width));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattrace_schema::FlagSet;

    fn coefficient(value: f64, se: f64) -> Option<CoefficientRow> {
        Some(CoefficientRow {
            value,
            se: Some(se),
            low: None,
            high: None,
            cluster_se: None,
            cluster_low: None,
            cluster_high: None,
            bootstrap_low: None,
            bootstrap_high: None,
            not_identified: value < 0.0,
        })
    }

    fn fit(setting: &str, reason: Option<Reason>) -> FitRow {
        let fitted = reason.is_none();
        FitRow {
            setting: setting.to_owned(),
            form: "full",
            method: "ols",
            n_runs: 30,
            n_cells: 10,
            c: coefficient(0.0123, 0.0045).filter(|_| fitted),
            alpha: coefficient(0.456, 0.0123).filter(|_| fitted),
            beta: coefficient(-1.5, 2.0).filter(|_| fitted),
            gamma: None,
            p_tau_w: coefficient(212.0, 3.25).filter(|_| fitted),
            inverse_batch_j: None,
            r2: Some(0.9987).filter(|_| fitted),
            residual_std: Some(0.001).filter(|_| fitted),
            condition_number: Some(12.34).filter(|_| fitted),
            max_vif: Some(4.0).filter(|_| fitted),
            flags: FlagSet::EMPTY,
            reason,
            detail: None,
        }
    }

    fn summary(setting: &str, form: &'static str, max: Option<f64>) -> FitSummaryRow {
        FitSummaryRow {
            setting: setting.to_owned(),
            form,
            n_heldout_cells: 5,
            n_heldout_runs: 15,
            max_abs_error: max,
            max_abs_error_low: None,
            max_abs_error_high: None,
            worst_cell: None,
            median_abs_error: max.map(|max| max / 2.0),
            median_abs_error_low: None,
            median_abs_error_high: None,
            loco_max_abs_error: None,
            loco_median_abs_error: None,
            flags: FlagSet::EMPTY,
            reason: max.is_none().then_some(Reason::NoHeldoutRuns),
            loco_reason: Some(Reason::OneCell),
        }
    }

    #[test]
    fn errors_come_first_and_coefficients_say_what_they_are_not() {
        let (a, b) = ("Qwen2.5-7B@H200 x 1 / tp1", "Mixtral@H200 x 2 / tp2");
        let model = ModelTables {
            fits: vec![fit(b, Some(Reason::TooFewRuns)), fit(a, None)],
            fit_summary: vec![
                summary(a, "full", Some(0.0213)),
                summary(a, "no-time", Some(0.345)),
                summary(b, "full", None),
                summary(b, "no-time", None),
            ],
            excluded_runs: vec![ExcludedRunRow {
                run_id: "m1".into(),
                setting: b.into(),
                model: "Mixtral-8x7B".into(),
                reason: Reason::MixtureOfExperts,
            }],
            ..ModelTables::default()
        };
        insta::assert_snapshot!(fits_overview(&model, TextStyle::default()), @r#"
        largest error of a held-out cell mean, %
        setting                    full  no-time
        ─────────────────────────────────────────
        Mixtral@H200 x 2 / tp2        –        –
        Qwen2.5-7B@H200 x 1 / tp1  2.13     34.5
        – full, no-time: no-heldout-runs (Mixtral@H200 x 2 / tp2)

        median error of held-out cell means, %
        setting                    full  no-time
        ─────────────────────────────────────────
        Mixtral@H200 x 2 / tp2        –        –
        Qwen2.5-7B@H200 x 1 / tp1  1.06     17.2
        – full, no-time: no-heldout-runs (Mixtral@H200 x 2 / tp2)

        largest error of a cell mean, each fit cell left out of the fit in turn, %
        – full, no-time: one-cell (every row)

        coefficients of the full form ± standard error
        setting                    runs                c          alpha          beta      P_tau  condition
                                                 J/token           J/GB          J/GB          W     number
        ────────────────────────────────────────────────────────────────────────────────────────────────────
        Mixtral@H200 x 2 / tp2       30                –              –             –          –
        Qwen2.5-7B@H200 x 1 / tp1    30  0.0123 ± 0.0045  0.456 ± 0.012  -1.50 ± 2.0?  212 ± 3.2       12.3
        not shown at this width: cells, R² (in fits.csv)
        – c, alpha, beta, P_tau: too-few-runs (Mixtral@H200 x 2 / tp2)
        ? not identified: the data cannot tell this coefficient from the others
        P_tau is not idle power; alpha and beta are local responses of a setting, not constants of nature.

        in no fit: 1 run
          mixture-of-experts, 1 run: The model is a mixture of experts: weights per token are not M_w /
          B_eff there. (Mixtral-8x7B)
        "#);
    }

    #[test]
    fn an_archive_without_fits_says_so() {
        let text = fits_overview(&ModelTables::default(), TextStyle::default());
        assert_eq!(text, "no decode or summary runs to fit\n");
    }
}
