//! The rows of the decode model's result tables.
//!
//! One struct a table, one field a column. Energies are in J, times in s, errors are relative:
//! (predicted − observed) / observed. An interval is a 95% interval.

use wattrace_schema::{FlagSet, Reason};

use crate::stats::Estimate;

/// One coefficient of one fit.
#[derive(Debug, Clone, PartialEq)]
pub struct CoefficientRow {
    /// The estimate.
    pub value: f64,
    /// Its standard error; absent where it was held at a bound.
    pub se: Option<f64>,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Cell-cluster-robust standard error.
    pub cluster_se: Option<f64>,
    /// Lower end of the cluster-robust interval.
    pub cluster_low: Option<f64>,
    /// Upper end of the cluster-robust interval.
    pub cluster_high: Option<f64>,
    /// Lower end of the cell-bootstrap interval.
    pub bootstrap_low: Option<f64>,
    /// Upper end of the cell-bootstrap interval.
    pub bootstrap_high: Option<f64>,
    /// The data cannot tell this coefficient from the others.
    pub not_identified: bool,
}

impl CoefficientRow {
    /// The row of an estimate with the intervals of other kinds that there are.
    pub(super) fn new(
        estimate: &Estimate,
        cluster_robust: Option<&Estimate>,
        bootstrap: Option<(f64, f64)>,
        not_identified: bool,
    ) -> Self {
        Self {
            value: estimate.value,
            se: estimate.std_error,
            low: estimate.low,
            high: estimate.high,
            cluster_se: cluster_robust.and_then(|robust| robust.std_error),
            cluster_low: cluster_robust.and_then(|robust| robust.low),
            cluster_high: cluster_robust.and_then(|robust| robust.high),
            bootstrap_low: bootstrap.map(|(low, _)| low),
            bootstrap_high: bootstrap.map(|(_, high)| high),
            not_identified,
        }
    }
}

/// A row of `fits`: one setting × form.
#[derive(Debug, Clone, PartialEq)]
pub struct FitRow {
    /// Key of the setting.
    pub setting: String,
    /// Name of the form.
    pub form: &'static str,
    /// How it was fitted: `ols`, `huber`, `non-negative`.
    pub method: &'static str,
    /// Runs of the fit.
    pub n_runs: usize,
    /// Cells of the fit.
    pub n_cells: usize,
    /// Constant, J/token.
    pub c: Option<CoefficientRow>,
    /// Of weight bytes, J/GB.
    pub alpha: Option<CoefficientRow>,
    /// Of key and value bytes, J/GB.
    pub beta: Option<CoefficientRow>,
    /// Of all bytes together, J/GB.
    pub gamma: Option<CoefficientRow>,
    /// Of time per token, W. Not idle power.
    pub p_tau_w: Option<CoefficientRow>,
    /// Of 1/B_eff, J per iteration (`inverse-batch` only).
    pub inverse_batch_j: Option<CoefficientRow>,
    /// Share of the energies' variation that the fit explains.
    pub r2: Option<f64>,
    /// Residual standard deviation, J/token.
    pub residual_std: Option<f64>,
    /// Condition number of the standardised columns.
    pub condition_number: Option<f64>,
    /// Largest variance inflation factor.
    pub max_vif: Option<f64>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Why there is no fit.
    pub reason: Option<Reason>,
    /// The reason in words, with names.
    pub detail: Option<String>,
}

/// Errors of one cell under one set of coefficients.
#[derive(Debug, Clone, PartialEq)]
pub struct CellErrorRow {
    /// Name of the cell.
    pub cell: String,
    /// Side of the validation that the cell is on: `fit` or `heldout`.
    pub split: &'static str,
    /// Runs of the cell.
    pub n_runs: usize,
    /// Mean of the runs' signed errors.
    pub signed_error: f64,
    /// Its absolute value: the error of the cell mean.
    pub abs_error: f64,
    /// Mean of the runs' absolute errors.
    pub mean_abs_error: f64,
    /// A run of the cell lies outside the identified range.
    pub extrapolated: bool,
    /// Columns of the coordinates that do.
    pub extrapolated_coordinates: Vec<&'static str>,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// A row of `heldout`: one setting × form × held-out cell.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldoutRow {
    /// Key of the setting.
    pub setting: String,
    /// Name of the form.
    pub form: &'static str,
    /// The cell's errors.
    pub errors: CellErrorRow,
    /// Lower end of the signed error's cell-bootstrap interval.
    pub signed_error_low: Option<f64>,
    /// Upper end of the signed error's cell-bootstrap interval.
    pub signed_error_high: Option<f64>,
}

/// A row of `heldout_runs`: one setting × form × held-out run.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldoutRunRow {
    /// Key of the setting.
    pub setting: String,
    /// Name of the form.
    pub form: &'static str,
    /// Name of the cell.
    pub cell: String,
    /// The run.
    pub run_id: String,
    /// Measured energy, J/token.
    pub observed_j_per_token: f64,
    /// Predicted energy, J/token.
    pub predicted_j_per_token: f64,
    /// Lower end of the prediction interval of a single run, J/token.
    pub predicted_low: Option<f64>,
    /// Upper end of the prediction interval of a single run, J/token.
    pub predicted_high: Option<f64>,
    /// (predicted − observed) / observed.
    pub error: f64,
    /// The run lies outside the identified range.
    pub extrapolated: bool,
    /// Columns of the coordinates that do.
    pub extrapolated_coordinates: Vec<&'static str>,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// A row of `fit_summary`: one setting × form.
#[derive(Debug, Clone, PartialEq)]
pub struct FitSummaryRow {
    /// Key of the setting.
    pub setting: String,
    /// Name of the form.
    pub form: &'static str,
    /// Held-out cells.
    pub n_heldout_cells: usize,
    /// Held-out runs.
    pub n_heldout_runs: usize,
    /// Largest error of a held-out cell mean.
    pub max_abs_error: Option<f64>,
    /// Lower end of its cell-bootstrap interval.
    pub max_abs_error_low: Option<f64>,
    /// Upper end of its cell-bootstrap interval.
    pub max_abs_error_high: Option<f64>,
    /// The cell that has it.
    pub worst_cell: Option<String>,
    /// Median error of held-out cell means.
    pub median_abs_error: Option<f64>,
    /// Lower end of its cell-bootstrap interval.
    pub median_abs_error_low: Option<f64>,
    /// Upper end of its cell-bootstrap interval.
    pub median_abs_error_high: Option<f64>,
    /// Largest error of a cell mean when each fit cell in turn is left out of the fit.
    pub loco_max_abs_error: Option<f64>,
    /// Median of the same errors.
    pub loco_median_abs_error: Option<f64>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Why there is no held-out error.
    pub reason: Option<Reason>,
    /// Why there is no leave-one-cell-out error.
    pub loco_reason: Option<Reason>,
}

/// A row of `transfer`: coefficients of one setting on one cell of another.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferRow {
    /// Setting whose coefficients are used.
    pub source_setting: String,
    /// Setting whose runs are predicted.
    pub target_setting: String,
    /// Name of the form.
    pub form: &'static str,
    /// The target cell's errors.
    pub errors: CellErrorRow,
}

/// A row of `substitution`: one setting × substitution × cell.
#[derive(Debug, Clone, PartialEq)]
pub struct SubstitutionRow {
    /// Key of the setting.
    pub setting: String,
    /// Name of the substitution.
    pub substitution: &'static str,
    /// The cell's errors with the substituted coordinate.
    pub errors: CellErrorRow,
    /// Error of the same cell's mean with the measured coordinate.
    pub measured_abs_error: f64,
}

/// A row of `nested_tests`: the full form against one ablation on the same fit runs.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedTestRow {
    /// Key of the setting.
    pub setting: String,
    /// The ablation.
    pub form: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// Coefficients that the ablation gives up.
    pub df_numerator: Option<usize>,
    /// Residual degrees of freedom of the full form.
    pub df_denominator: Option<usize>,
    /// F statistic.
    pub f_statistic: Option<f64>,
    /// Probability of an F at least as large if the ablation were true.
    pub p_value: Option<f64>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Why there is no test.
    pub reason: Option<Reason>,
}

/// A row of `block_effects`: whether blocks of time differ beyond the full form.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockEffectRow {
    /// Key of the setting.
    pub setting: String,
    /// Runs of the test.
    pub n_runs: usize,
    /// Blocks among them.
    pub n_blocks: usize,
    /// Block dummies, blocks − 1.
    pub df_numerator: Option<usize>,
    /// Residual degrees of freedom with the dummies.
    pub df_denominator: Option<usize>,
    /// F statistic.
    pub f_statistic: Option<f64>,
    /// Probability of an F at least as large if blocks did not differ.
    pub p_value: Option<f64>,
    /// Difference between the highest and the lowest block, J/token.
    pub largest_difference_j_per_token: Option<f64>,
    /// The same as a share of the mean energy per token.
    pub largest_relative_difference: Option<f64>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Why there is no test.
    pub reason: Option<Reason>,
}

/// A row of `batch_effects`: what changing one coordinate does at one level of the other.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchEffectRow {
    /// Key of the setting.
    pub setting: String,
    /// The coordinate that varies: `b_eff` or `mean_history_tokens`.
    pub varied: &'static str,
    /// The coordinate that stays: the other one.
    pub held: &'static str,
    /// Mean of the coordinate that stays.
    pub held_level: f64,
    /// Smallest level of the coordinate that varies.
    pub smallest: f64,
    /// Largest level of the coordinate that varies.
    pub largest: f64,
    /// Runs at the smallest level.
    pub n_runs_smallest: usize,
    /// Runs at the largest level.
    pub n_runs_largest: usize,
    /// Mean energy at the smallest level, J/token.
    pub j_per_token_smallest: f64,
    /// Mean energy at the largest level, J/token.
    pub j_per_token_largest: f64,
    /// (smallest − largest) / smallest in percent: the drop of the energy per token.
    pub drop_percent: f64,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// A row of `step_breaks`: whether step time jumps at some length of the longest sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct StepBreakRow {
    /// Key of the setting.
    pub setting: String,
    /// What was compared: `within-runs` or `between-cells`.
    pub comparison: Option<&'static str>,
    /// Runs with step times.
    pub n_runs: usize,
    /// Groups of steps compared.
    pub n_groups: usize,
    /// The jump is large and clear enough to report.
    pub detected: bool,
    /// Longest sequence on the lower side of the best break.
    pub break_after_tokens: Option<u32>,
    /// Shortest sequence on the upper side of the best break.
    pub break_before_tokens: Option<u32>,
    /// Level of step time below the break, at the mean batch and history, s.
    pub step_time_below_s: Option<f64>,
    /// Level above it, at the same batch and history, s.
    pub step_time_above_s: Option<f64>,
    /// (above − below) / below.
    pub relative_jump: Option<f64>,
    /// Largest F statistic over all breaks.
    pub f_statistic: Option<f64>,
    /// Share of the squared residuals without a break that the break explains.
    pub explained_share: Option<f64>,
    /// Share of iterations below the break that were launched operation by operation.
    pub eager_share_below: Option<f64>,
    /// The same above it.
    pub eager_share_above: Option<f64>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Why there is no search.
    pub reason: Option<Reason>,
}

/// A row of `identified_ranges`: what the fit runs cover of one coordinate.
#[derive(Debug, Clone, PartialEq)]
pub struct IdentifiedRangeRow {
    /// Key of the setting.
    pub setting: String,
    /// Column of the coordinate.
    pub coordinate: &'static str,
    /// Unit of the coordinate.
    pub unit: &'static str,
    /// Fit runs.
    pub n_runs: usize,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// (max − min) / |mean|.
    pub relative_range: Option<f64>,
    /// Variance inflation factor in the full form, where it is one of its terms.
    pub vif: Option<f64>,
    /// The full form's coefficient of this coordinate is identified; absent for a coordinate that is
    /// no term of it.
    pub identified: Option<bool>,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// A row of `step_time_laws`: time of an iteration = t_0 + t_b · B_eff + t_kv · key-value bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTimeLawRow {
    /// Key of the setting.
    pub setting: String,
    /// Runs of the fit.
    pub n_runs: usize,
    /// Cells of the fit.
    pub n_cells: usize,
    /// Time of an iteration whatever its batch (weights, launches), s.
    pub t_0_s: Option<CoefficientRow>,
    /// Time of one more sequence, s.
    pub t_b_s: Option<CoefficientRow>,
    /// Time of one more gigabyte of keys and values, s/GB.
    pub t_kv_s_per_gb: Option<CoefficientRow>,
    /// Share of the variation of step time that the law explains.
    pub r2: Option<f64>,
    /// Residual standard deviation, s.
    pub residual_std_s: Option<f64>,
    /// Largest relative error of a held-out cell's mean step time.
    pub max_abs_error: Option<f64>,
    /// Median of the same errors.
    pub median_abs_error: Option<f64>,
    /// Largest error when each fit cell in turn is left out.
    pub loco_max_abs_error: Option<f64>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Why there is no law.
    pub reason: Option<Reason>,
    /// The reason in words.
    pub detail: Option<String>,
}

/// A row of `excluded_runs`: a decode or summary run that no fit uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcludedRunRow {
    /// The run.
    pub run_id: String,
    /// Its setting.
    pub setting: String,
    /// Its model.
    pub model: String,
    /// Why.
    pub reason: Reason,
}

/// Every table of the decode model, rows sorted by setting.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "each field is the table that it names")]
pub struct ModelTables {
    pub fits: Vec<FitRow>,
    pub heldout: Vec<HeldoutRow>,
    pub heldout_runs: Vec<HeldoutRunRow>,
    pub fit_summary: Vec<FitSummaryRow>,
    pub transfer: Vec<TransferRow>,
    pub substitution: Vec<SubstitutionRow>,
    pub nested_tests: Vec<NestedTestRow>,
    pub block_effects: Vec<BlockEffectRow>,
    pub batch_effects: Vec<BatchEffectRow>,
    pub step_breaks: Vec<StepBreakRow>,
    pub identified_ranges: Vec<IdentifiedRangeRow>,
    pub step_time_laws: Vec<StepTimeLawRow>,
    pub excluded_runs: Vec<ExcludedRunRow>,
}
