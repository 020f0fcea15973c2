//! The decode energy model: energy per token from active bytes and time,
//! e = c + α·q_w + β·q_KV + P_τ·τ (metrics definition, section 4).
//!
//! [`Observation`]s are what the model sees of runs. [`fit_archive`] sorts them into settings, fits
//! every [`Form`], validates each on runs that it was not fitted on, and gives [`ModelTables`].
//! [`predict()`] uses a fit, [`setting_report`] prints it. α and β are local responses of one setting,
//! not constants of nature, and P_τ is not idle power.

mod analysis;
mod effects;
mod errors;
mod fit;
mod form;
mod loco;
mod observation;
mod predict;
mod report;
mod rows;
mod setting;
mod solution;
mod step_break;
mod step_time;
mod substitution;
mod tabulate;
#[cfg(test)]
mod tests;

pub use analysis::{FormOutcome, ModelAnalysis, SettingFit, fit_archive};
pub use fit::{FitOptions, FittedForm, RELATIVE_RANGE_LIMIT, VARIANCE_INFLATION_LIMIT};
pub use form::{CONSTANT, CONSTANT_UNIT, FORMS, FULL, Form, Regressor};
pub use observation::{Coordinates, Measured, ModelBytes, Observation, ObservedRun};
pub use predict::{EnergyPrediction, PredictError, TauSource, WhatIf, predict};
pub use report::{form_report, setting_report};
pub use rows::{
    BatchEffectRow, BlockEffectRow, CellErrorRow, CoefficientRow, ExcludedRunRow, FitRow,
    FitSummaryRow, HeldoutRow, HeldoutRunRow, IdentifiedRangeRow, ModelTables, NestedTestRow,
    StepBreakRow, StepTimeLawRow, SubstitutionRow, TransferRow,
};
pub use solution::FitMethod;
pub use step_time::{STEP_TIME_COEFFICIENTS, StepTimeLaw};
pub use substitution::{SUBSTITUTIONS, Substitution};
