//! The figures, one a file.

mod ablation_errors;
mod amortisation;
#[cfg(test)]
mod cases;
mod energy_batch_history;
mod power_timeline;
mod predicted_measured;
mod request_energy;
mod slo_sweep;
mod steady_lifecycle;
mod step_time;
#[cfg(test)]
mod tests;

use crate::draw::Drawing;
use crate::error::FigureError;

pub use ablation_errors::{AblationErrors, FormErrors, SettingErrors};
pub use amortisation::{Amortisation, AmortisationCurve, AmortisationPoint, ShareMark};
pub use energy_batch_history::{BatchPoint, EnergyBatchHistory, HistoryLine};
pub use power_timeline::{PowerBin, PowerTimeline, StageName, StageSpan};
pub use predicted_measured::{CellPrediction, PredictedMeasured, SettingPredictions};
pub use request_energy::RequestEnergy;
pub use slo_sweep::{SloSweep, SweepLine, SweepPoint};
pub use steady_lifecycle::{ModelEnergy, SteadyLifecycle};
pub use step_time::{StepBreak, StepTime, StepTimeLine, StepTimePoint};

/// What one kind of figure shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureKind {
    /// Name, of files too.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// The result tables that it is drawn from, and how to get those that are not always there.
    pub needs: &'static str,
}

/// Every kind of figure.
pub const FIGURES: &[FigureKind] = &[
    power_timeline::KIND,
    request_energy::KIND,
    steady_lifecycle::KIND,
    amortisation::KIND,
    predicted_measured::KIND,
    ablation_errors::KIND,
    energy_batch_history::KIND,
    step_time::KIND,
    slo_sweep::KIND,
];

/// The numbers of one figure.
pub trait Figure: Send + Sync {
    /// Which figure it is.
    fn kind(&self) -> &'static FigureKind;

    /// Draws it.
    ///
    /// # Errors
    /// [`FigureError::Missing`] if there is nothing to draw, [`FigureError::Value`] if a number has no
    /// place on its axis.
    fn draw(&self) -> Result<Drawing, FigureError>;
}
