//! Every other table, worked by hand.

use wattrace_schema::{Flag, Reason, Split};

use super::*;
use crate::metrics::StepTiming;
use crate::model::{ModelTables, StepBreakRow, fit_archive};

fn tables(runs: &[Observation]) -> ModelTables {
    fit_archive(runs, &NO_BOOTSTRAP).tables
}

#[test]
fn held_out_errors_are_of_runs_and_of_cell_means() {
    let mut runs = design();
    // The law is recovered exactly, so a run measured at 1/(1 + x) of it errs by x.
    for (run_id, error) in [("b2-h1024-0", 0.10), ("b2-h1024-1", -0.04), ("b2-h1024-2", 0.0)] {
        let run = runs.iter_mut().find(|run| run.run_id == run_id).unwrap();
        measured(run).j_per_token /= 1.0 + error;
    }
    let tables = tables(&runs);
    let full: Vec<_> = tables.heldout_runs.iter().filter(|row| row.form == "full").collect();
    assert_eq!(full.len(), 12);
    assert_close(full[0].error, 0.10, 1e-9);
    assert_close(full[1].error, -0.04, 1e-9);
    assert_close(full[0].predicted_j_per_token, 1.1 * full[0].observed_j_per_token, 1e-9);
    let cell = &tables.heldout.iter().find(|row| row.form == "full").unwrap().errors;
    assert_eq!((cell.cell.as_str(), cell.n_runs, cell.split), ("b2-h1024", 3, "heldout"));
    // (0.10 − 0.04 + 0) / 3 = 0.02, and 0.14 / 3 of absolute values.
    assert_close(cell.signed_error, 0.02, 1e-9);
    assert_close(cell.abs_error, 0.02, 1e-9);
    assert_close(cell.mean_abs_error, 0.14 / 3.0, 1e-9);
    let summary = &tables.fit_summary[0];
    assert_close(summary.max_abs_error.unwrap(), 0.02, 1e-9);
    assert_eq!(summary.worst_cell.as_deref(), Some("b2-h1024"));
    // Of four cells one errs: the median is 0.
    assert!(summary.median_abs_error.unwrap() < 1e-9);
}

#[test]
fn leaving_a_cell_out_predicts_it_from_the_others() {
    let mut runs = design();
    // Energies far from any law in one fit cell: without it the law is exact, and the cell errs by x.
    for run in runs.iter_mut().filter(|run| run.cell == "b16-h2048") {
        measured(run).j_per_token /= 1.25;
    }
    let tables = tables(&runs);
    assert_close(tables.fit_summary[0].loco_max_abs_error.unwrap(), 0.25, 1e-9);
}

#[test]
fn runs_outside_the_fit_are_flagged_with_their_coordinates() {
    let mut runs = design();
    runs.push(run("far", "far", Split::Heldout, (4.0, 20_000.0, 0.0)));
    runs.push(run("slow", "slow", Split::Heldout, (1.0, 512.0, 0.5)));
    let tables = tables(&runs);
    let of = |cell: &str, form: &str| {
        let found = tables.heldout.iter().find(|row| row.errors.cell == cell && row.form == form);
        found.unwrap().errors.clone()
    };
    assert_eq!(of("far", "full").extrapolated_coordinates, ["q_kv_gb"]);
    assert_eq!(of("far", "no-kv").extrapolated_coordinates, [""; 0]);
    assert_eq!(of("slow", "full").extrapolated_coordinates, ["tau_s"]);
    assert!(of("far", "full").extrapolated && of("far", "full").flags.contains(Flag::Extrapolated));
    assert!(!of("b2-h1024", "full").extrapolated);
    let run = tables.heldout_runs.iter().find(|row| row.run_id == "far").unwrap();
    assert_eq!(run.extrapolated_coordinates, ["q_kv_gb"]);
}

#[test]
fn the_initial_cohort_of_a_draining_run_is_no_effective_batch() {
    let mut runs = design();
    let mut draining = run("drain", "drain", Split::Heldout, (10.0, 4000.0, 0.002));
    draining.initial_cohort = Some(20);
    draining.mean_request_history_tokens = Some(3000.0);
    let energy = draining.measured.unwrap().j_per_token;
    runs.push(draining);
    let tables = tables(&runs);
    let cohort = &tables.substitution[0];
    assert_eq!((cohort.substitution, cohort.errors.cell.as_str()), ("initial-cohort", "drain"));
    // q_w falls from 14/10 to 14/20 GB a token; time stays.
    assert_close(cohort.errors.signed_error, -TRUTH.alpha * 0.7 / energy, 1e-6);
    assert!(cohort.measured_abs_error < 1e-9);
    let history = &tables.substitution[1];
    assert_eq!(history.substitution, "request-mean-history");
    // q_KV falls by 1000 tokens.
    let expected = -TRUTH.beta * 57_344.0 * 1000.0 / 1e9 / energy;
    assert_close(history.errors.signed_error, expected, 1e-6);
    assert_eq!(tables.substitution.len(), 2);
}

#[test]
fn coefficients_of_one_board_are_tried_on_the_other() {
    let mut runs = design();
    let mut second = design();
    for run in &mut second {
        run.setting = "second board".to_owned();
        // The other board takes 10% more for everything.
        measured(run).j_per_token *= 1.1;
    }
    runs.extend(second);
    let mut other_model = design();
    for run in &mut other_model {
        run.setting = "other model".to_owned();
        run.model = "other".to_owned();
    }
    runs.extend(other_model);
    let tables = tables(&runs);
    let pairs: std::collections::BTreeSet<(&str, &str)> = tables
        .transfer
        .iter()
        .map(|row| (row.source_setting.as_str(), row.target_setting.as_str()))
        .collect();
    assert_eq!(Vec::from_iter(pairs), [("s", "second board"), ("second board", "s")]);
    // 16 cells each way, both sides of the validation.
    assert_eq!(tables.transfer.len(), 32);
    assert_eq!(tables.transfer.iter().filter(|row| row.errors.split == "heldout").count(), 8);
    for row in &tables.transfer {
        let expected = if row.source_setting == "s" { 1.0 / 1.1 - 1.0 } else { 0.1 };
        assert_close(row.errors.signed_error, expected, 1e-8);
    }
}

#[test]
fn a_warmer_block_is_found() {
    let mut runs = noisy_design(0.1, 21);
    for (index, run) in runs.iter_mut().enumerate() {
        let warm = index % 2 == 1;
        run.block = Some(if warm { "afternoon" } else { "morning" }.to_owned());
        if warm {
            measured(run).j_per_token += 0.02;
        }
    }
    let block = &tables(&runs).block_effects[0];
    assert_eq!((block.n_runs, block.n_blocks), (36, 2));
    assert_eq!((block.df_numerator, block.df_denominator), (Some(1), Some(31)));
    assert_close(block.largest_difference_j_per_token.unwrap(), 0.02, 0.05);
    assert!(block.p_value.unwrap() < 1e-6);

    for run in &mut runs {
        run.block = Some("the only one".to_owned());
    }
    assert_eq!(tables(&runs).block_effects[0].reason, Some(Reason::SingleValue));
    for run in &mut runs {
        run.block = None;
    }
    assert!(tables(&runs).block_effects.is_empty());
}

#[test]
fn batch_and_history_effects_compare_the_ends() {
    let mut runs = design();
    runs.retain(|run| run.split == Some(Split::Fit) && run.run_id.ends_with("-1"));
    for run in &mut runs {
        let measured = measured(run);
        // 1 J at batch 1, half as much at 64, whatever the history.
        measured.j_per_token = 1.0 - 0.5 * (measured.coordinates.b_eff - 1.0) / 63.0;
    }
    let mut draining = run("drain", "drain", Split::Fit, (100.0, 512.0, 0.0));
    draining.initial_cohort = Some(200);
    runs.push(draining);
    let tables = tables(&runs);
    let batch: Vec<_> = tables.batch_effects.iter().filter(|row| row.varied == "b_eff").collect();
    assert_eq!(batch.len(), 3);
    for (row, history) in batch.iter().zip([512.0, 2048.0, 8192.0]) {
        assert_eq!((row.held, row.held_level), ("mean_history_tokens", history));
        assert_eq!((row.smallest, row.largest), (1.0, 64.0));
        assert_close(row.drop_percent, 50.0, 1e-12);
    }
    let history: Vec<_> = tables.batch_effects.iter().filter(|row| row.held == "b_eff").collect();
    assert_eq!(history.len(), 4);
    assert!(history.iter().all(|row| row.drop_percent.abs() < 1e-12));
}

#[test]
fn ranges_are_those_of_the_fit_runs() {
    let tables = tables(&design());
    let names: Vec<&str> = tables.identified_ranges.iter().map(|row| row.coordinate).collect();
    assert_eq!(names, ["b_eff", "mean_history_tokens", "q_w_gb", "q_kv_gb", "tau_s"]);
    let batch = &tables.identified_ranges[0];
    assert_eq!((batch.min, batch.max, batch.mean), (1.0, 64.0, 21.25));
    assert_close(batch.relative_range.unwrap(), 63.0 / 21.25, 1e-12);
    let q_w = &tables.identified_ranges[2];
    assert_eq!((q_w.min, q_w.max, q_w.unit), (14.0 / 64.0, 14.0, "GB/token"));
    assert_eq!(q_w.identified, Some(true));
    assert!(q_w.vif.unwrap() >= 1.0);
}

#[test]
fn a_law_of_step_time_is_fitted_and_validated_on_its_own() {
    // Without delays, time per iteration is 14/3000 + kv bytes / 2 TB/s: in the law's span.
    let mut runs = design();
    runs.retain(|run| run.run_id.ends_with("-0"));
    let law = &tables(&runs).step_time_laws[0];
    assert_close(law.t_0_s.as_ref().unwrap().value, 14.0 / 3000.0, 1e-9);
    assert!(law.t_b_s.as_ref().unwrap().value.abs() < 1e-12);
    assert_close(law.t_kv_s_per_gb.as_ref().unwrap().value, 1.0 / 2000.0, 1e-9);
    assert!(law.loco_max_abs_error.unwrap() < 1e-9);
    // The held-out runs of batch 2 and history 1024 take 9 ms longer than the law knows: 64% of all.
    let known_s = 14.0 / 3000.0 + 2.0 * 1025.0 * 57_344.0 / 2e12;
    assert_close(law.max_abs_error.unwrap(), 0.009 / (known_s + 0.009), 1e-9);
}

/// Step times of a run whose sequences grow from `history` by 1024 tokens; iterations whose longest
/// sequence exceeds 8192 take `jump_s` longer.
fn grow(run: &mut Observation, batch: u32, history: u32, jump_s: f64) {
    run.step_timings = (0..16)
        .map(|range| {
            let low = history + range * 64 + 1;
            let longest = history + (range + 1) * 64;
            let history_tokens = f64::from(batch) * f64::from(low + 31);
            let eager = low > 8192;
            StepTiming {
                active_sequences: batch,
                max_sequence_tokens_low: low,
                max_sequence_tokens_high: longest,
                step_time_s: 0.005 + 3e-8 * history_tokens + if eager { jump_s } else { 0.0 },
                history_tokens: Some(history_tokens),
                iterations: 64,
                eager_share: Some(if eager { 1.0 } else { 0.0 }),
            }
        })
        .collect();
}

fn step_break(histories: &[u32], jump_s: f64, noise_s: f64) -> StepBreakRow {
    let mut runs = design();
    let mut noise = normals(17);
    for (index, run) in runs.iter_mut().enumerate() {
        let history = histories[index % histories.len()];
        let batch = [1, 8, 32][index % 3];
        run.cell = format!("b{batch}-h{history}");
        run.split = Some(Split::Fit);
        grow(run, batch, history, jump_s);
        // Runs differ by their host, iterations by chance.
        let delay_s = 5.0 * noise_s * noise.next().unwrap();
        for timing in &mut run.step_timings {
            timing.step_time_s += delay_s + noise_s * noise.next().unwrap();
        }
    }
    tables(&runs).step_breaks.remove(0)
}

#[test]
fn a_jump_that_runs_cross_is_located_within_them() {
    let row = step_break(&[1024, 7680, 4096, 12_288], 0.001, 2e-5);
    assert_eq!((row.comparison, row.detected), (Some("within-runs"), true));
    assert_eq!((row.break_after_tokens, row.break_before_tokens), (Some(8192), Some(8193)));
    let jump_s = row.step_time_above_s.unwrap() - row.step_time_below_s.unwrap();
    assert_close(jump_s, 0.001, 0.02);
    assert_eq!((row.eager_share_below, row.eager_share_above), (Some(0.0), Some(1.0)));
    assert_eq!((row.n_runs, row.n_groups), (48, 48));
}

#[test]
fn a_jump_that_no_run_crosses_is_located_between_them() {
    let row = step_break(&[1024, 2048, 4096, 9216, 12_288], 0.003, 1e-6);
    assert_eq!((row.comparison, row.detected), (Some("between-cells"), true));
    // Known only as well as the runs lie: those from 4096 stay below, those from 9216 begin above.
    let (after, before) = (row.break_after_tokens.unwrap(), row.break_before_tokens.unwrap());
    assert!(after < 8192 && before > 8192, "{after} {before}");
    assert_close(row.step_time_above_s.unwrap() - row.step_time_below_s.unwrap(), 0.003, 0.1);
}

#[test]
fn growth_with_history_is_no_jump() {
    let row = step_break(&[1024, 7680, 4096, 12_288], 0.0, 2e-5);
    assert!(!row.detected, "{row:?}");
    assert_eq!(row.reason, None);
}

#[test]
fn an_exact_jump_needs_no_statistic() {
    let row = step_break(&[7680], 0.001, 0.0);
    assert!(row.detected);
    assert_eq!(row.break_after_tokens, Some(8192));
    assert!(row.explained_share.unwrap() > 0.999_999);
}

#[test]
fn runs_without_step_times_have_no_jump() {
    assert_eq!(tables(&design()).step_breaks[0].reason, Some(Reason::NoSteps));
    let mut runs = design();
    grow(&mut runs[0], 4, 1024, 0.0);
    runs[0].step_timings.truncate(1);
    assert_eq!(tables(&runs).step_breaks[0].reason, Some(Reason::NoValues));
}
