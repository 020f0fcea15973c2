//! Predictions, and when they are refused.

use wattrace_schema::{Flag, Reason};

use super::*;
use crate::model::{PredictError, SettingFit, TauSource, WhatIf, fit_archive, predict};

fn setting(runs: &[Observation]) -> SettingFit {
    fit_archive(runs, &NO_BOOTSTRAP).settings.remove(0)
}

const INSIDE: WhatIf = WhatIf { b_eff: 8.0, mean_history_tokens: 3000.0, tau_s: Some(0.001) };

#[test]
fn a_point_inside_the_ranges_is_predicted_with_its_interval() {
    let prediction = predict(&setting(&noisy_design(0.5, 1)), "full", &INSIDE, false).unwrap();
    // c + α · 14/8 + β · 57,344 · 3001/1e9 + P_τ · 0.001
    let expected = 0.05 + 0.06 * 1.75 + 0.15 * 0.172_089_344 + 140.0 * 0.001;
    assert!(prediction.low < expected && expected < prediction.high);
    assert_close(prediction.j_per_token, expected, 0.02);
    assert_eq!(prediction.tau_source, TauSource::Given);
    assert_eq!(prediction.coordinates.q_w_gb, 1.75);
    assert!(prediction.extrapolated.is_empty());
}

#[test]
fn time_may_come_from_the_step_time_law() {
    let setting = setting(&noisy_design(0.5, 1));
    let without_time = WhatIf { tau_s: None, ..INSIDE };
    let prediction = predict(&setting, "full", &without_time, false).unwrap();
    assert_eq!(prediction.tau_source, TauSource::StepTimeLaw);
    // Delays are 0, 4 and 9 ms: the law knows their mean, (0 + 4 + 9)/3 ms.
    let step_time_s = 14.0 / 3000.0 + 8.0 * 3001.0 * 57_344.0 / 2e12 + 0.013 / 3.0;
    assert_close(prediction.coordinates.tau_s, step_time_s / 8.0, 1e-9);
    // The law's own error, some 4 ms in 8 tokens at 140 W, makes the interval wider.
    let given = WhatIf { tau_s: Some(prediction.coordinates.tau_s), ..INSIDE };
    let narrow = predict(&setting, "full", &given, false).unwrap();
    assert_close(narrow.j_per_token, prediction.j_per_token, 1e-12);
    assert!(prediction.high - prediction.low > 2.0 * (narrow.high - narrow.low));
    let timeless = predict(&setting, "no-time", &without_time, false).unwrap();
    assert_eq!(timeless.tau_source, TauSource::NotNeeded);
}

#[test]
fn extrapolation_is_refused_unless_forced() {
    let setting = setting(&noisy_design(0.5, 1));
    let far = WhatIf { mean_history_tokens: 30_000.0, ..INSIDE };
    let error = predict(&setting, "full", &far, false).unwrap_err();
    insta::assert_snapshot!(error, @r#"setting "s", form "full": outside the fit runs lie q_kv_gb 1.720377 (fit: 0.029417 to 0.469819); force it to see it"#);
    let forced = predict(&setting, "full", &far, true).unwrap();
    assert_eq!(forced.extrapolated, ["q_kv_gb"]);
    assert!(forced.flags.contains(Flag::Extrapolated));
    let large = WhatIf { b_eff: 128.0, tau_s: None, ..INSIDE };
    let error = predict(&setting, "inverse-batch", &large, false).unwrap_err();
    insta::assert_snapshot!(error, @r#"setting "s", form "inverse-batch": outside the fit runs lie b_eff 128.000000 (fit: 1.000000 to 64.000000); force it to see it"#);
}

#[test]
fn coefficients_that_are_not_identified_are_refused_unless_forced() {
    let mut runs = design();
    for run in &mut runs {
        let measured = measured(run);
        let at = measured.coordinates;
        let history = 1000.0 + at.mean_history_tokens.unwrap() / 8192.0 * 40.0;
        measured.coordinates = Coordinates::new(at.b_eff, Some(history), at.tau_s, BYTES);
    }
    let setting = setting(&runs);
    let at = WhatIf { mean_history_tokens: 1020.0, ..INSIDE };
    let error = predict(&setting, "full", &at, false).unwrap_err();
    insta::assert_snapshot!(error, @r#"setting "s", form "full": the data do not identify beta, so a prediction can mislead; force it to see it"#);
    assert_eq!(predict(&setting, "full", &at, true).unwrap().not_identified, ["beta"]);
}

#[test]
fn what_has_no_fit_is_refused_with_its_reason() {
    let mut runs = design();
    for run in &mut runs {
        run.measured = Err(Reason::MixtureOfExperts);
    }
    let error = predict(&setting(&runs), "full", &INSIDE, true).unwrap_err();
    let PredictError::NotFitted { reason, .. } = error else { panic!("{error}") };
    assert_eq!(reason, Reason::MixtureOfExperts);

    let good = setting(&design());
    let error = predict(&good, "fullest", &INSIDE, true).unwrap_err();
    insta::assert_snapshot!(error, @r#"there is no form "fullest"; the forms are full, merged-bytes, no-time, no-bytes, no-weights, no-kv, inverse-batch"#);

    let mut runs = design();
    measured(&mut runs[0]).bytes.kv_per_token = 1.0;
    let error = predict(&setting(&runs), "full", &INSIDE, true).unwrap_err();
    insta::assert_snapshot!(error, @r#"the runs of setting "s" disagree on the bytes of their model, so a batch and history do not fix the bytes per token"#);
}

#[test]
fn impossible_inputs_are_refused() {
    let setting = setting(&design());
    let message = |at: WhatIf| predict(&setting, "full", &at, true).unwrap_err().to_string();
    insta::assert_snapshot!(message(WhatIf { b_eff: 0.0, ..INSIDE }), @"b_eff is 0; a finite number above zero is needed");
    insta::assert_snapshot!(message(WhatIf { tau_s: Some(f64::NAN), ..INSIDE }), @"tau_s is NaN; a finite number above zero is needed");
    insta::assert_snapshot!(message(WhatIf { mean_history_tokens: -1.0, ..INSIDE }), @"mean_history_tokens is -1; a finite number of zero or more is needed");
    insta::assert_snapshot!(message(WhatIf { b_eff: f64::INFINITY, ..INSIDE }), @"b_eff is inf; a finite number above zero is needed");
}
