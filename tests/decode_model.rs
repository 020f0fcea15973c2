//! The decode energy model from archives of runs: simulated ones whose law is known, and a published
//! leaderboard.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use wattrace_analysis::Options;
use wattrace_analysis::metrics::analyze;
use wattrace_analysis::model::{
    CoefficientRow, FORMS, FitOptions, FitRow, ModelTables, Observation, fit_archive,
};
use wattrace_schema::{Flag, Reason};
use wattrace_simulate::{Plan, simulate};
use wattrace_trace::{ReadOptions, find_runs, format, read_run};

const PLAN: &str = include_str!("../sample-data/decode-full.plan.toml");

fn observations(archive: &Path) -> Vec<Observation> {
    let runs = find_runs(archive).unwrap();
    runs.par_iter()
        .filter_map(|location| {
            let run = read_run(location, ReadOptions::default()).unwrap().run;
            Observation::of(&run, &analyze(&run, &Options::default()).metrics)
        })
        .collect()
}

fn simulated(plan: &str) -> ModelTables {
    let archive = tempfile::tempdir().unwrap();
    let plan = Plan::parse(plan, Path::new("decode-full.plan.toml")).unwrap();
    simulate(&plan, archive.path(), None, &|_| {}).unwrap();
    let observations = observations(archive.path());
    assert_eq!(observations.len(), 614);
    let options = FitOptions { resamples: 200, ..FitOptions::default() };
    fit_archive(&observations, &options).tables
}

/// c, alpha, beta, p_tau_w of every setting, as the plan has them.
const LAWS: [(&str, [f64; 4]); 8] = [
    ("Qwen/Qwen2.5-14B@simulated H100-class x 1 / tp1", [0.007, 0.152, 0.305, 142.0]),
    ("Qwen/Qwen2.5-14B@simulated H200-class x 1 / tp1", [0.006, 0.125, 0.255, 158.0]),
    ("Qwen/Qwen2.5-14B@simulated H200-class x 2 / tp2", [0.01, 0.142, 0.275, 296.0]),
    ("Qwen/Qwen2.5-7B@simulated H100-class x 1 / tp1", [0.005, 0.148, 0.29, 138.0]),
    ("Qwen/Qwen2.5-7B@simulated H200-class board b", [0.0042, 0.125, 0.247, 159.0]),
    ("Qwen/Qwen2.5-7B@simulated H200-class x 1 / tp1", [0.004, 0.12, 0.24, 152.0]),
    ("mistralai/Mistral-7B-v0.3@simulated H100-class x 1 / tp1", [0.005, 0.145, 0.296, 140.0]),
    ("mistralai/Mistral-7B-v0.3@simulated H200-class x 1 / tp1", [0.004, 0.118, 0.246, 155.0]),
];

fn full_fits(tables: &ModelTables) -> Vec<&FitRow> {
    tables.fits.iter().filter(|row| row.form == "full").collect()
}

fn of_law(row: &FitRow) -> [&CoefficientRow; 4] {
    [&row.c, &row.alpha, &row.beta, &row.p_tau_w].map(|found| found.as_ref().unwrap())
}

#[test]
fn without_noise_the_law_comes_back() {
    let plan = PLAN.replace("noise = { run_percent = 0.7 }\n", "");
    let tables = simulated(&plan);
    let fits = full_fits(&tables);
    assert_eq!(fits.len(), LAWS.len());
    for (row, (setting, law)) in fits.iter().zip(LAWS) {
        assert_eq!((row.setting.as_str(), row.reason), (setting, None));
        for (found, truth) in of_law(row).iter().zip(law) {
            let relative = (found.value - truth).abs() / truth;
            assert!(relative < 1e-9, "{setting}: {} against {truth}: {relative}", found.value);
        }
    }
}

#[test]
fn the_whole_design_orders_the_forms_in_every_setting() {
    let tables = simulated(PLAN);
    let fits = full_fits(&tables);
    let mut heldout_runs = 0;
    for (row, (setting, law)) in fits.iter().zip(LAWS) {
        assert_eq!((row.setting.as_str(), row.n_runs, row.n_cells), (setting, 30, 15));
        assert!(row.condition_number.unwrap() < 30.0);
        assert!(row.flags.contains(Flag::Synthetic) && !row.flags.contains(Flag::NotIdentified));
        for (found, truth) in of_law(row).iter().zip(law) {
            // Four standard errors: with 32 coefficients, 3 are reached by chance in one of 10 plans.
            assert!((found.value - truth).abs() < 4.0 * found.cluster_se.unwrap(), "{setting}");
        }
        let worst: BTreeMap<&str, f64> = tables
            .fit_summary
            .iter()
            .filter(|row| row.setting == setting)
            .map(|row| (row.form, row.max_abs_error.unwrap()))
            .collect();
        assert!(worst["full"] < worst["merged-bytes"], "{setting}: {worst:?}");
        assert!(worst["merged-bytes"] < worst["no-time"], "{setting}: {worst:?}");
        assert!(worst["merged-bytes"] < worst["no-bytes"], "{setting}: {worst:?}");
        heldout_runs += tables
            .fit_summary
            .iter()
            .find(|row| row.setting == setting)
            .map_or(0, |row| row.n_heldout_runs);
    }
    assert_eq!(heldout_runs, 374);

    // Draining: both stand-ins are worse than what was measured, in all eight cells.
    let draining: Vec<_> =
        tables.substitution.iter().filter(|row| row.errors.cell.starts_with("drain-")).collect();
    assert_eq!(draining.len(), 2 * 8);
    for row in draining {
        let cell = (&row.errors.cell, row.substitution);
        assert!(row.errors.abs_error > 2.0 * row.measured_abs_error, "{cell:?}");
    }

    // Graphs are captured up to 8192 tokens; eager iterations take 5 ms longer.
    for row in &tables.step_breaks {
        assert!(row.detected, "{row:?}");
        assert_eq!((row.break_after_tokens, row.break_before_tokens), (Some(8192), Some(8193)));
        assert_eq!((row.eager_share_below, row.eager_share_above), (Some(0.0), Some(1.0)));
    }

    // Two models with two or three settings each, one with three, in both directions.
    let pairs: std::collections::BTreeSet<(&str, &str)> = tables
        .transfer
        .iter()
        .map(|row| (row.source_setting.as_str(), row.target_setting.as_str()))
        .collect();
    assert_eq!(pairs.len(), 6 + 6 + 2);
}

/// A folder of real logs beside the checkout (or where `WATTRACE_SHARED_DATA` says), read in place;
/// `None` where it is not there.
fn shared_data(folder: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = std::env::var_os("WATTRACE_SHARED_DATA").map_or(beside, PathBuf::from);
    let found = root.join(folder);
    if found.is_dir() {
        return Some(found);
    }
    println!("skipped: {} is not there", found.display());
    None
}

#[test]
fn a_published_leaderboard_is_refitted_with_what_it_cannot_identify() {
    let Some(folder) = shared_data("mlenergy_leaderboard_v3") else { return };
    let archive = tempfile::tempdir().unwrap();
    let tables: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("task_"))
        .collect();
    let options = format::ImportOptions::default();
    format::import("mlenergy-leaderboard", &tables, archive.path(), &options).unwrap();
    let tables = fit_archive(&observations(archive.path()), &FitOptions::default()).tables;

    let full = full_fits(&tables);
    let fitted: Vec<_> = full.iter().filter(|row| row.reason.is_none()).collect();
    assert!(fitted.len() >= 12, "{}", fitted.len());
    for row in &fitted {
        assert!(row.beta.as_ref().unwrap().not_identified, "{}", row.setting);
        assert!(row.flags.contains(Flag::Claimed), "{}", row.setting);
        let with_loco = tables.fit_summary.iter().filter(|summary| {
            summary.setting == row.setting && summary.loco_max_abs_error.is_some()
        });
        assert_eq!(with_loco.count(), FORMS.len(), "{}", row.setting);
    }
    let refused: Vec<_> =
        full.iter().filter(|row| row.reason == Some(Reason::MixtureOfExperts)).collect();
    assert!(refused.len() > 10);
    let named = |row: &FitRow, model: &str| row.detail.as_ref().unwrap().contains(model);
    assert!(refused.iter().any(|row| named(row, "\"deepseek-ai/DeepSeek-R1-0528\"")));
    assert!(refused.iter().any(|row| named(row, "\"Qwen/Qwen3-30B-A3B-Instruct-2507\"")));
}
