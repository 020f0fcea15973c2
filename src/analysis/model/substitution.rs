//! What goes wrong when a simpler quantity stands in for a coordinate: the full form's coefficients
//! stay, the observed time stays, one coordinate is replaced.

use super::errors::{of_cells, of_runs};
use super::fit::FittedForm;
use super::observation::Coordinates;
use super::rows::SubstitutionRow;
use super::setting::{ModelRun, SettingRuns};

/// One stand-in for a coordinate.
#[derive(Debug, Clone, Copy)]
pub struct Substitution {
    /// Name in result tables.
    pub name: &'static str,
    /// What it tries.
    pub question: &'static str,
    /// The run's coordinates with the stand-in; `None` where the run does not know it.
    substitute: fn(&ModelRun<'_>) -> Option<Coordinates>,
}

/// Every substitution.
pub const SUBSTITUTIONS: &[Substitution] = &[
    Substitution {
        name: "initial-cohort",
        question: "Does the batch at the start of a draining run do for its effective batch?",
        substitute: |run| {
            let cohort = run.observation.initial_cohort.filter(|cohort| *cohort > 0)?;
            let measured = run.coordinates();
            let replaced = substituted(run, f64::from(cohort), measured.mean_history_tokens);
            Some(Coordinates { q_kv_gb: measured.q_kv_gb, ..replaced })
        },
    },
    Substitution {
        name: "request-mean-history",
        question: "Does the plain mean of the requests' histories do for the mean over tokens?",
        substitute: |run| {
            let history = run.observation.mean_request_history_tokens?;
            let measured = run.coordinates();
            let replaced = substituted(run, measured.b_eff, Some(history));
            Some(Coordinates { q_w_gb: measured.q_w_gb, ..replaced })
        },
    },
];

fn substituted(run: &ModelRun<'_>, b_eff: f64, history: Option<f64>) -> Coordinates {
    Coordinates::new(b_eff, history, run.coordinates().tau_s, run.measured.bytes)
}

/// Errors of every substitution on the held-out cells, beside those with the measured coordinates; on
/// the fit cells where nothing is held out.
pub(super) fn substitutions(setting: &SettingRuns<'_>, full: &FittedForm) -> Vec<SubstitutionRow> {
    let runs = if setting.heldout.is_empty() { &setting.fit } else { &setting.heldout };
    SUBSTITUTIONS
        .iter()
        .flat_map(|substitution| {
            let (measured, replaced): (Vec<ModelRun<'_>>, Vec<ModelRun<'_>>) = runs
                .iter()
                .filter_map(|run| Some((*run, run.at((substitution.substitute)(run)?))))
                .unzip();
            let with_measured = of_cells(full, &of_runs(full, &measured));
            let with_replaced = of_cells(full, &of_runs(full, &replaced));
            with_replaced.into_iter().zip(with_measured).map(|(errors, measured)| SubstitutionRow {
                setting: setting.name.clone(),
                substitution: substitution.name,
                errors,
                measured_abs_error: measured.abs_error,
            })
        })
        .collect()
}
