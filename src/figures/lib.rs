//! Figures of energy measurements, as SVG text and PNG bytes.
//!
//! A figure is a plain data structure that implements [`Figure`]; [`FIGURES`] lists their kinds. Nothing
//! is read or written: numbers go in, a [`Drawing`] comes out, and equal numbers give equal bytes. Every
//! figure is one column of a paper (85 mm) wide. A missing value is an empty place, never a zero; data
//! that leave nothing to draw are a [`FigureError`] that says what is missing. Synthetic data are stamped
//! inside the figure.
//!
//! ```
//! use wattrace_figures::{BatchPoint, EnergyBatchHistory, Figure, HistoryLine};
//!
//! let point = |b_eff, j_per_token| BatchPoint { b_eff, j_per_token };
//! let figure = EnergyBatchHistory {
//!     setting: "Qwen2.5-7B@H100 x 1 / tp1".to_owned(),
//!     synthetic: false,
//!     lines: vec![HistoryLine {
//!         history_tokens: 1024.0,
//!         points: vec![point(4.0, 0.61), point(16.0, 0.22), point(64.0, 0.13)],
//!     }],
//! };
//! let drawing = figure.draw()?;
//! assert!(drawing.to_svg().contains("history 1024 tokens"));
//! assert_eq!(&drawing.to_png()[1..4], b"PNG");
//! # Ok::<(), wattrace_figures::FigureError>(())
//! ```

mod draw;
mod error;
mod figure;

pub use draw::Drawing;
pub use error::FigureError;
pub use figure::{
    AblationErrors, Amortisation, AmortisationCurve, AmortisationPoint, BatchPoint, CellPrediction,
    EnergyBatchHistory, FIGURES, Figure, FigureKind, FormErrors, HistoryLine, ModelEnergy,
    PowerBin, PowerTimeline, PredictedMeasured, RequestEnergy, SettingErrors, SettingPredictions,
    ShareMark, SloSweep, StageName, StageSpan, SteadyLifecycle, StepBreak, StepTime, StepTimeLine,
    StepTimePoint, SweepLine, SweepPoint,
};
