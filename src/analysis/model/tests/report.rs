//! The text that people read.

use super::*;
use crate::model::{fit_archive, form_report, setting_report};

#[test]
fn a_fit_reads_like_a_statistics_package() {
    let setting = fit_archive(&noisy_design(0.5, 4), &NO_BOOTSTRAP).settings.remove(0);
    insta::assert_snapshot!(form_report(&setting, &setting.forms[0]), @r"
    full: j_per_token = c + alpha q_w_gb + beta q_kv_gb + p_tau_w tau_s
    What do weight bytes, key-value bytes and time each cost?
      Setting       s
      Model         m
      Method        ordinary least squares
      Runs          36 in 12 cells; 32 residual degrees of freedom
      R-squared     0.99998
      Residual std  0.0036455 J/token
      Condition no. 3.9959
               estimate   std error       t   95% low  95% high  cluster se     VIF  unit
      c        0.050260   0.0010297  48.811  0.048163  0.052358  0.00056368       -  J/token
      alpha    0.060731  0.00023291  260.75  0.060256  0.061205  0.00052252  4.5050  J/GB
      beta      0.15136   0.0031972  47.341   0.14485   0.15787   0.0024302  1.0025  J/GB
      p_tau_w    138.55     0.31957  433.55    137.90    139.20     0.73994  4.5075  W
      [1] p_tau_w is not idle power: it is the energy that goes with a second per token at given bytes.
      [2] alpha and beta are local responses of this setting over the ranges measured, not constants of nature.
      [3] Standard errors are classical: they assume independent errors of equal variance.
      [4] Cluster-robust errors are CR1 over 12 clusters, t with 11 degrees of freedom.
      [5] With fewer than 20 clusters, cluster-robust errors tend to be too small.
      [6] synthetic: The run is simulated.
    ");
}

#[test]
fn published_totals_say_what_they_cannot_identify() {
    let mut runs = noisy_design(1.0, 8);
    for run in &mut runs {
        let measured = measured(run);
        let at = measured.coordinates;
        let history = 1000.0 + at.mean_history_tokens.unwrap() / 8192.0 * 40.0;
        measured.coordinates = Coordinates::new(at.b_eff, Some(history), at.tau_s, BYTES);
        run.claimed = true;
        run.flags = FlagSet::from_iter([Flag::Claimed, Flag::HistoryApproximate]);
    }
    let setting = fit_archive(&runs, &NO_BOOTSTRAP).settings.remove(0);
    let text = form_report(&setting, &setting.forms[0]);
    let notes: Vec<&str> = text.lines().skip(14).collect();
    insta::assert_snapshot!(notes[5..].join("\n"), @r"
      [6] beta (*) is not identified: its coordinate hardly varies, by 3.7% of its mean where 5% are needed; history was not measured, only approximated.
      [7] claimed: The value comes from published totals, not from raw rows.
      [8] history-approximate: History is half the published mean output length: prompts and the spread of lengths are not in the published table.
    ");
}

#[test]
fn a_form_without_a_fit_says_why() {
    let mut runs = design();
    runs.retain(|run| run.cell.ends_with("-h512"));
    let setting = fit_archive(&runs, &NO_BOOTSTRAP).settings.remove(0);
    insta::assert_snapshot!(form_report(&setting, &setting.forms[0]), @r#"
    full: j_per_token = c + alpha q_w_gb + beta q_kv_gb + p_tau_w tau_s
    What do weight bytes, key-value bytes and time each cost?
      Setting       s
      Model         m
      No fit        term "beta" has the same value, 0.029417472, in every row (constant-coordinate)
    "#);
}

#[test]
fn every_form_has_its_part() {
    let setting = fit_archive(&design(), &NO_BOOTSTRAP).settings.remove(0);
    let text = setting_report(&setting);
    for form in crate::model::FORMS {
        assert!(text.contains(&format!("{}: j_per_token = c + ", form.name)), "{}", form.name);
    }
}
