//! `predicted-measured`: table `heldout_runs`.

use std::collections::BTreeMap;

use wattrace_figures::{CellPrediction, PredictedMeasured, SettingPredictions};

use super::{FigureDataError, Found, Source, mean};

/// The form that is shown.
const FORM: &str = "full";

#[derive(Default)]
struct Cell {
    measured: Vec<f64>,
    errors: Vec<f64>,
    extrapolated: bool,
}

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let table = source.table("heldout_runs")?;
    let [setting, form, cell, run_id] =
        [table.text("setting")?, table.text("form")?, table.text("cell")?, table.text("run_id")?];
    let (measured, error) = (table.numbers("observed_j_per_token")?, table.numbers("error")?);
    let extrapolated = table.booleans("extrapolated")?;
    let mut synthetic = false;
    let mut settings: BTreeMap<&str, BTreeMap<&str, Cell>> = BTreeMap::new();
    for row in (0..table.rows).filter(|row| form[*row].as_deref() == Some(FORM)) {
        let (Some(setting), Some(cell), Some(measured), Some(error)) =
            (&setting[row], &cell[row], measured[row], error[row])
        else {
            continue;
        };
        let cell = settings.entry(setting).or_default().entry(cell).or_default();
        cell.measured.push(measured);
        cell.errors.push(error);
        cell.extrapolated |= extrapolated[row].unwrap_or(false);
        synthetic |= run_id[row].as_ref().is_some_and(|run_id| source.runs.is_synthetic(run_id));
    }
    if settings.is_empty() {
        return Err(source.lacking("no form predicts a held-out run"));
    }
    let settings = settings
        .into_iter()
        .map(|(setting, cells)| SettingPredictions {
            setting: setting.to_owned(),
            cells: cells.values().filter_map(Cell::prediction).collect(),
        })
        .collect();
    let figure = PredictedMeasured { form: FORM.to_owned(), synthetic, settings };
    Ok(vec![(String::new(), Box::new(figure) as _)].into())
}

impl Cell {
    /// The means over the runs; the error of a cell is the mean of its runs' errors.
    fn prediction(&self) -> Option<CellPrediction> {
        let measured_j_per_token = mean(self.measured.iter().copied())?;
        let error = mean(self.errors.iter().copied())?;
        Some(CellPrediction {
            measured_j_per_token,
            predicted_j_per_token: measured_j_per_token * (1.0 + error),
            extrapolated: self.extrapolated,
        })
    }
}
