//! What cannot be fitted says why.

use wattrace_schema::{Flag, Reason, Split};

use super::*;
use crate::model::{FORMS, FitRow, fit_archive};

fn fits(runs: &[Observation]) -> Vec<FitRow> {
    fit_archive(runs, &NO_BOOTSTRAP).tables.fits
}

fn reason_of(fits: &[FitRow], form: &str) -> Option<Reason> {
    fits.iter().find(|row| row.form == form).unwrap().reason
}

#[test]
fn a_cell_on_both_sides_refuses_the_setting() {
    let mut runs = design();
    runs.iter_mut().filter(|run| run.run_id == "b2-h1024-1").for_each(|run| {
        run.split = Some(Split::Fit);
    });
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    assert!(tables.fits.iter().all(|row| row.reason == Some(Reason::CellOnBothSides)));
    insta::assert_snapshot!(
        tables.fits[0].detail.as_ref().unwrap(),
        @r#"cells on both sides of the validation: "b2-h1024""#
    );
    assert!(tables.heldout.is_empty());
    assert_eq!(tables.fit_summary.len(), FORMS.len());
    assert_eq!(tables.fit_summary[0].reason, Some(Reason::CellOnBothSides));
}

#[test]
fn too_few_runs_are_told_form_by_form() {
    let mut runs = design();
    // Four fit runs: enough for two terms and a constant, not for three.
    let keep = ["b1-h512-0", "b4-h2048-1", "b16-h8192-2", "b64-h512-1"];
    runs.retain(|run| run.split == Some(Split::Heldout) || keep.contains(&run.run_id.as_str()));
    let fits = fits(&runs);
    assert_eq!(reason_of(&fits, "full"), Some(Reason::TooFewRuns));
    assert_eq!(reason_of(&fits, "merged-bytes"), None);
    insta::assert_snapshot!(
        fits[0].detail.as_ref().unwrap(),
        @"4 rows fit 4 coefficients (c, alpha, beta, p_tau_w) exactly and leave no error to estimate"
    );
}

#[test]
fn a_setting_with_held_out_runs_only_has_no_fit() {
    let mut runs = design();
    runs.retain(|run| run.split == Some(Split::Heldout));
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    assert!(tables.fits.iter().all(|row| row.reason == Some(Reason::TooFewRuns)));
    assert_eq!(tables.step_time_laws[0].reason, Some(Reason::TooFewRuns));
}

#[test]
fn a_constant_coordinate_stops_only_the_forms_that_use_it() {
    let mut runs = design();
    runs.retain(|run| run.cell.ends_with("-h512"));
    let fits = fits(&runs);
    assert_eq!(reason_of(&fits, "full"), Some(Reason::ConstantCoordinate));
    assert_eq!(reason_of(&fits, "no-kv"), None);
    insta::assert_snapshot!(
        fits[0].detail.as_ref().unwrap(),
        @r#"term "beta" has the same value, 0.029417472, in every row"#
    );
}

#[test]
fn time_that_is_a_combination_of_bytes_is_rank_deficient() {
    let mut runs = design();
    runs.retain(|run| run.run_id.ends_with("-0"));
    // τ = t_w · q_w + t_kv · q_KV without any delay.
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    assert_eq!(reason_of(&tables.fits, "full"), Some(Reason::RankDeficient));
    assert_eq!(reason_of(&tables.fits, "no-time"), None);
    assert!(tables.nested_tests.iter().all(|row| row.reason == Some(Reason::RankDeficient)));
}

#[test]
fn time_that_is_nearly_a_combination_of_bytes_is_not_identified() {
    let mut runs = noisy_design(0.2, 2);
    for (run, normal) in runs.iter_mut().zip(normals(9)) {
        let cell = run.cell.clone();
        let (batch, history) = cell[1..].split_once("-h").unwrap();
        let at = (batch.parse().unwrap(), history.parse().unwrap(), 2e-5 * normal.abs());
        let other = super::run(&run.run_id, &cell, run.split.unwrap(), at);
        run.measured = other.measured;
    }
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    let full = &tables.fits[0];
    assert!(full.condition_number.unwrap() > 30.0);
    assert!(full.alpha.as_ref().unwrap().not_identified);
    assert!(full.p_tau_w.as_ref().unwrap().not_identified);
    assert!(!full.c.as_ref().unwrap().not_identified);
    assert!(full.flags.contains(Flag::NotIdentified));
    let range = |coordinate: &str| {
        tables.identified_ranges.iter().find(|row| row.coordinate == coordinate).unwrap()
    };
    assert_eq!(range("tau_s").identified, Some(false));
    assert_eq!(range("b_eff").identified, None);
}

#[test]
fn a_coordinate_that_hardly_varies_is_not_identified() {
    let mut runs = design();
    for run in &mut runs {
        let measured = measured(run);
        let at = measured.coordinates;
        let history = 1000.0 + at.mean_history_tokens.unwrap() / 8192.0 * 40.0;
        measured.coordinates = Coordinates::new(at.b_eff, Some(history), at.tau_s, BYTES);
    }
    let full = fits(&runs).remove(0);
    assert!(full.beta.unwrap().not_identified);
    assert!(!full.alpha.unwrap().not_identified);
    assert!(full.condition_number.unwrap() < 30.0);
}

#[test]
fn unknown_history_stops_only_the_forms_that_need_it() {
    let mut runs = design();
    for run in &mut runs {
        let coordinates = &mut measured(run).coordinates;
        coordinates.mean_history_tokens = None;
        coordinates.q_kv_gb = None;
    }
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    assert_eq!(reason_of(&tables.fits, "full"), Some(Reason::NoHistory));
    assert_eq!(reason_of(&tables.fits, "no-kv"), None);
    assert_eq!(reason_of(&tables.fits, "inverse-batch"), None);
    assert_eq!(tables.step_time_laws[0].reason, Some(Reason::NoHistory));
    // Where most runs know it, the one that does not stays out, so that all forms see the same runs.
    let mut runs = design();
    let coordinates = &mut measured(&mut runs[0]).coordinates;
    coordinates.mean_history_tokens = None;
    coordinates.q_kv_gb = None;
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    assert!(tables.fits.iter().all(|row| row.n_runs == 35 && row.reason.is_none()));
    assert_eq!(tables.excluded_runs[0].reason, Reason::NoHistory);
}

#[test]
fn excluded_runs_are_listed_and_the_rest_is_fitted() {
    let mut runs = design();
    runs[0].measured = Err(Reason::NoSteps);
    runs[1].measured = Err(Reason::TokenMismatch);
    runs[2].split = None;
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    assert!(tables.fits.iter().all(|row| row.reason.is_none() && row.n_runs == 33));
    let listed: Vec<_> =
        tables.excluded_runs.iter().map(|row| (row.run_id.as_str(), row.reason)).collect();
    assert_eq!(
        listed,
        [
            ("b1-h512-0", Reason::NoSteps),
            ("b1-h512-1", Reason::TokenMismatch),
            ("b1-h512-2", Reason::NoSplit)
        ]
    );
}

#[test]
fn a_mixture_of_experts_is_refused_by_name() {
    let mut runs = design();
    for run in &mut runs {
        run.model = "Qwen3-30B-A3B".to_owned();
        run.measured = Err(Reason::MixtureOfExperts);
    }
    let fits = fits(&runs);
    assert!(fits.iter().all(|row| row.reason == Some(Reason::MixtureOfExperts)));
    insta::assert_snapshot!(
        fits[0].detail.as_ref().unwrap(),
        @r#"no run of model "Qwen3-30B-A3B" can be used: The model is a mixture of experts: weights per token are not M_w / B_eff there."#
    );
}

#[test]
fn nothing_is_no_archive() {
    let analysis = fit_archive(&[], &FitOptions::default());
    assert!(analysis.settings.is_empty() && analysis.tables.fits.is_empty());
}
