//! Whole archives: recovery, order, independence.

use proptest::prelude::*;
use wattrace_schema::{Flag, Reason, Split};

use super::*;
use crate::model::{FORMS, FitMethod, fit_archive};

#[test]
fn without_noise_every_coefficient_is_recovered() {
    let analysis = fit_archive(&design(), &NO_BOOTSTRAP);
    let full = &analysis.tables.fits[0];
    assert_eq!((full.form, full.n_runs, full.n_cells), ("full", 36, 12));
    let value = |row: &Option<crate::model::CoefficientRow>| row.as_ref().unwrap().value;
    assert_close(value(&full.c), TRUTH.c, 1e-9);
    assert_close(value(&full.alpha), TRUTH.alpha, 1e-9);
    assert_close(value(&full.beta), TRUTH.beta, 1e-9);
    assert_close(value(&full.p_tau_w), TRUTH.p_tau_w, 1e-9);
    assert!(full.gamma.is_none() && full.inverse_batch_j.is_none());
    let summary = &analysis.tables.fit_summary[0];
    assert_eq!((summary.n_heldout_cells, summary.n_heldout_runs), (4, 12));
    assert!(summary.max_abs_error.unwrap() < 1e-9);
    assert!(summary.loco_max_abs_error.unwrap() < 1e-9);
}

proptest! {
    #[test]
    fn any_law_is_recovered(
        c in 0.01..0.5f64,
        alpha in 0.01..0.5f64,
        beta in 0.01..0.5f64,
        p_tau_w in 20.0..500.0f64,
    ) {
        let truth = Truth { c, alpha, beta, p_tau_w };
        let mut runs = design();
        for run in &mut runs {
            let measured = measured(run);
            measured.j_per_token = truth.j_per_token(&measured.coordinates);
        }
        let full = &fit_archive(&runs, &NO_BOOTSTRAP).tables.fits[0];
        for (row, truth) in
            [(&full.c, c), (&full.alpha, alpha), (&full.beta, beta), (&full.p_tau_w, p_tau_w)]
        {
            prop_assert!((row.as_ref().unwrap().value - truth).abs() < 1e-9 * truth);
        }
    }

    #[test]
    fn the_order_of_runs_changes_nothing(seed in 0u64..1000) {
        let mut runs = noisy_design(1.0, 7);
        let options = FitOptions { resamples: 50, ..FitOptions::default() };
        let before = fit_archive(&runs, &options).tables;
        let mut keys: Vec<f64> = normals(seed).take(runs.len()).collect();
        for end in (1..runs.len()).rev() {
            let other = (keys[end].abs() * 1e6) as usize % (end + 1);
            runs.swap(end, other);
            keys.swap(end, other);
        }
        prop_assert_eq!(before, fit_archive(&runs, &options).tables);
    }
}

/// Numbers of any size, now and then none at all.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-3.0..3.0f64).prop_map(|exponent| 10f64.powf(exponent)),
        1 => Just(1.0),
        1 => any::<f64>(),
    ]
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let numbers = (any_number(), any_number(), any_number(), any_number());
    let labels = (0..5u8, 0..3u8, 0..2u8, 0..3u32, 0..200u32);
    (numbers, labels, any::<bool>()).prop_map(|((e, batch, history, tau_s), labels, known)| {
        let (cell, split, setting, block, longest) = labels;
        let split = [Some(Split::Fit), Some(Split::Heldout), None][usize::from(split)];
        let mut run = run("r", &format!("{split:?}{cell}"), Split::Fit, (1.0, 1.0, 0.0));
        run.split = split;
        run.setting = setting.to_string();
        run.block = (block > 0).then(|| block.to_string());
        run.initial_cohort = (block == 2).then_some(longest);
        run.mean_request_history_tokens = known.then_some(history);
        run.step_timings = vec![crate::metrics::StepTiming {
            active_sequences: block,
            max_sequence_tokens_low: longest,
            max_sequence_tokens_high: longest + 1,
            step_time_s: 0.01,
            history_tokens: known.then_some(1.0),
            iterations: 1,
            eager_share: None,
        }];
        let coordinates = Coordinates::new(batch, known.then_some(history), tau_s, BYTES);
        run.measured = Ok(Measured { j_per_token: e, coordinates, bytes: BYTES });
        run
    })
}

proptest! {
    #[test]
    fn whatever_the_runs_say_numbers_are_finite(
        runs in proptest::collection::vec(any_observation(), 0..40),
        method in 0..3usize,
    ) {
        let method = [FitMethod::Ols, FitMethod::Huber, FitMethod::NonNegative][method];
        let options = FitOptions { resamples: 20, method, ..FitOptions::default() };
        let analysis = fit_archive(&runs, &options);
        let text = format!("{:?}", analysis.tables);
        prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{}", text);
        for setting in &analysis.settings {
            prop_assert!(!crate::model::setting_report(setting).contains("NaN"));
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let runs = noisy_design(1.0, 3);
    let options = FitOptions { resamples: 500, ..FitOptions::default() };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit_archive(&runs, &options).tables)
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn forms_are_ordered_as_the_law_has_it() {
    let analysis = fit_archive(&noisy_design(0.5, 11), &NO_BOOTSTRAP);
    let worst = |form: &str| {
        let summary = &analysis.tables.fit_summary;
        summary.iter().find(|row| row.form == form).unwrap().max_abs_error.unwrap()
    };
    assert!(worst("full") < worst("merged-bytes"));
    assert!(worst("merged-bytes") < worst("no-time"));
    assert!(worst("merged-bytes") < worst("no-bytes"));
    assert!(worst("full") < worst("no-weights") && worst("full") < worst("no-kv"));
    assert!(worst("no-kv") < worst("inverse-batch"));
    // And every restriction is rejected, since every term is real.
    assert_eq!(analysis.tables.nested_tests.len(), 5);
    assert!(analysis.tables.nested_tests.iter().all(|row| row.p_value.unwrap() < 1e-6));
    let merged = &analysis.tables.nested_tests[0];
    assert_eq!(
        (merged.form, merged.df_numerator, merged.df_denominator),
        ("merged-bytes", Some(1), Some(32))
    );
}

#[test]
fn bootstrap_intervals_hold_the_estimates_and_the_truth() {
    let runs = noisy_design(1.0, 5);
    let options = FitOptions { resamples: 2000, ..FitOptions::default() };
    let tables = fit_archive(&runs, &options).tables;
    let full = &tables.fits[0];
    let beta = full.beta.as_ref().unwrap();
    let (low, high) = (beta.bootstrap_low.unwrap(), beta.bootstrap_high.unwrap());
    assert!(low < beta.value && beta.value < high);
    assert!(low < TRUTH.beta && TRUTH.beta < high, "{low} {high}");
    for row in tables.heldout.iter().filter(|row| row.form == "full") {
        let (low, high) = (row.signed_error_low.unwrap(), row.signed_error_high.unwrap());
        assert!(low < row.errors.signed_error && row.errors.signed_error < high);
    }
    let summary = &tables.fit_summary[0];
    assert!(summary.max_abs_error_low.unwrap() < summary.max_abs_error_high.unwrap());
    assert!(summary.median_abs_error_low.unwrap() <= summary.median_abs_error.unwrap());
}

#[test]
fn settings_are_independent() {
    let mut runs = design();
    let mut one_cell: Vec<Observation> = design();
    for run in &mut one_cell {
        run.setting = "one cell".to_owned();
        run.cell = "the cell".to_owned();
        run.split = Some(Split::Fit);
    }
    runs.extend(one_cell);
    let tables = fit_archive(&runs, &NO_BOOTSTRAP).tables;
    let of = |setting: &str| tables.fits.iter().filter(|row| row.setting == setting).count();
    assert_eq!((of("s"), of("one cell")), (FORMS.len(), FORMS.len()));
    for row in &tables.fits {
        let expected = (row.setting == "one cell").then_some(Reason::OneCell);
        assert_eq!(row.reason, expected, "{} {}", row.setting, row.form);
    }
}

#[test]
fn published_totals_form_settings_of_their_own() {
    let mut runs = design();
    let mut claims = design();
    for run in &mut claims {
        run.claimed = true;
        run.split = None;
        run.flags.insert(Flag::Claimed);
    }
    runs.extend(claims);
    let analysis = fit_archive(&runs, &NO_BOOTSTRAP);
    let names: Vec<&str> = analysis.settings.iter().map(|s| s.setting.as_str()).collect();
    assert_eq!(names, ["s", "s (claimed)"]);
    let claimed = &analysis.tables.fits[FORMS.len()];
    // Nobody names a side there, so all 48 runs are fitted and only left-out cells validate.
    assert_eq!(claimed.n_runs, 48);
    assert!(claimed.flags.contains(Flag::Claimed));
    let summary = &analysis.tables.fit_summary[FORMS.len()];
    assert_eq!(summary.reason, Some(Reason::NoHeldoutRuns));
    assert!(summary.loco_max_abs_error.unwrap() < 1e-9);
    assert!(analysis.tables.transfer.is_empty());
}

#[test]
fn robust_and_non_negative_fits_have_errors_of_their_own() {
    let mut runs = noisy_design(0.5, 13);
    // One run of the largest batch is far off.
    let index = runs.iter().position(|run| run.cell == "b64-h8192").unwrap();
    measured(&mut runs[index]).j_per_token *= 1.5;
    let with = |method| {
        let options = FitOptions { method, ..NO_BOOTSTRAP };
        fit_archive(&runs, &options).tables.fits[0].clone()
    };
    let [ols, huber] = [FitMethod::Ols, FitMethod::Huber].map(with);
    let miss = |row: &crate::model::FitRow| (row.beta.as_ref().unwrap().value - TRUTH.beta).abs();
    assert!(miss(&huber) < 0.5 * miss(&ols), "{} {}", miss(&huber), miss(&ols));
    assert_eq!(huber.method, "huber");
    let beta = huber.beta.unwrap();
    assert!(beta.se.is_some() && beta.cluster_se.is_none());

    // A law in which keys and values cost less than nothing.
    for run in &mut runs {
        let measured = measured(run);
        let law = Truth { beta: -0.02, ..TRUTH };
        measured.j_per_token = law.j_per_token(&measured.coordinates);
    }
    let options = FitOptions { method: FitMethod::NonNegative, ..NO_BOOTSTRAP };
    let bounded = fit_archive(&runs, &options).tables.fits[0].clone();
    let beta = bounded.beta.unwrap();
    assert_eq!((beta.value, beta.se), (0.0, None));
    assert!(bounded.alpha.unwrap().se.is_some());
    assert!(bounded.flags.contains(Flag::AtBoundary));
}
