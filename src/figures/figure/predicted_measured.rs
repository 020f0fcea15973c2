//! Predicted against measured energy per token of held-out cells.

use crate::draw::axis::{Axis, Scale, range};
use crate::draw::page::{Entry, Key, Page};
use crate::draw::panel::Panel;
use crate::draw::scene::{MM, Scene, Stroke};
use crate::draw::style::{AXIS_LINE, BLACK, Colour, GREY, INK, Look, Marker};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "predicted-measured",
    title: "Predicted against measured energy per token of held-out cells",
    needs: "table heldout_runs (decode runs on both sides of a split)",
};

/// A held-out cell: the means over its runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellPrediction {
    /// Measured, J/token.
    pub measured_j_per_token: f64,
    /// Predicted, J/token.
    pub predicted_j_per_token: f64,
    /// Whether a run of the cell lies outside what the fit has seen.
    pub extrapolated: bool,
}

/// The held-out cells of one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingPredictions {
    /// Name of the setting.
    pub setting: String,
    /// Its cells.
    pub cells: Vec<CellPrediction>,
}

/// Predictions of one form of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedMeasured {
    /// Form of the model.
    pub form: String,
    /// Whether one of the runs is simulated.
    pub synthetic: bool,
    /// The settings.
    pub settings: Vec<SettingPredictions>,
}

const HEIGHT: f64 = 46.0 * MM;
const ERROR_HEIGHT: f64 = 24.0 * MM;
/// Bands, %, the wider first so that the narrower lies over it.
const BANDS: [(f64, Colour); 2] = [(10.0, Colour(236, 236, 236)), (5.0, Colour(208, 208, 208))];

impl PredictedMeasured {
    fn cells(&self) -> impl Iterator<Item = &CellPrediction> {
        self.settings.iter().flat_map(|setting| &setting.cells)
    }

    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.cells().next().is_none() {
            return Err(
                check.missing(format!("held-out cells predicted by form \"{}\"", self.form))
            );
        }
        for setting in &self.settings {
            for cell in &setting.cells {
                let what = |value: &str| {
                    format!("{value} energy per token of a cell of \"{}\"", setting.setting)
                };
                check.positive(|| what("measured"), cell.measured_j_per_token)?;
                check.finite(|| what("predicted"), cell.predicted_j_per_token)?;
            }
        }
        Ok(())
    }

    fn legend(&self, looks: &[Look]) -> Vec<Entry> {
        let settings = self.settings.iter().zip(looks).map(|(setting, look)| {
            let key = Key::Marker { marker: look.marker, colour: look.colour, filled: true };
            (key, setting.setting.clone())
        });
        let mut entries: Vec<Entry> = settings.collect();
        if self.cells().any(|cell| cell.extrapolated) {
            let key = Key::Marker { marker: Marker::Circle, colour: GREY, filled: false };
            entries.push((key, "hollow: extrapolated".to_owned()));
        }
        let bands = BANDS.iter().rev();
        entries.extend(bands.map(|(band, colour)| (Key::Swatch(*colour), format!("±{band} %"))));
        entries
    }
}

impl Figure for PredictedMeasured {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        // `check` has seen that there are cells.
        let measured =
            range(self.cells().map(|cell| cell.measured_j_per_token)).unwrap_or((1.0, 1.0));
        let x = Axis::either("Measured energy per token", "J/token", measured, 6, 6.0);
        let y = self.predicted_axis(&x);
        let error = error_axis(self.cells().map(error_percent));
        let left = Page::left_of(&[&y, &error]);
        let looks: Vec<Look> = (0..self.settings.len()).map(Look::of).collect();

        let mut page =
            Page::new(&KIND, &format!("held-out cells, form {}", self.form), self.synthetic);
        page.legend(&self.legend(&looks));
        let upper = page.panel(left, HEIGHT, x.clone(), y, false);
        let scene = &mut page.scene;
        for (percent, colour) in BANDS {
            wedge(scene, &upper, percent / 100.0, colour);
        }
        diagonal(scene, &upper);
        self.markers(scene, &upper, &looks, |cell| cell.predicted_j_per_token);
        upper.axes(scene, false);

        let lower = page.panel(left, ERROR_HEIGHT, x, error, true);
        let scene = &mut page.scene;
        for (percent, colour) in BANDS {
            level_band(scene, &lower, percent, colour);
        }
        lower.across(scene, 0.0, Stroke::solid(INK, AXIS_LINE));
        self.markers(scene, &lower, &looks, error_percent);
        lower.axes(scene, true);
        Ok(page.finish())
    }
}

impl PredictedMeasured {
    /// The axis of predictions: that of the measurements, wider where a prediction lies outside.
    fn predicted_axis(&self, x: &Axis) -> Axis {
        let values = self.cells().map(|cell| cell.predicted_j_per_token).chain([x.low, x.high]);
        let (low, high) = range(values).unwrap_or((x.low, x.high));
        let inside = low >= x.low && high <= x.high;
        let title = ("Predicted energy per token", "J/token");
        match x.scale {
            _ if inside => Axis { title: format!("{} ({})", title.0, title.1), ..x.clone() },
            Scale::Logarithmic if low > 0.0 => Axis::logarithmic(title.0, title.1, (low, high), 6),
            _ => Axis::linear(title.0, title.1, (low, high), 6),
        }
    }

    fn markers(
        &self,
        scene: &mut Scene,
        panel: &Panel,
        looks: &[Look],
        y: impl Fn(&CellPrediction) -> f64,
    ) {
        for (setting, look) in self.settings.iter().zip(looks) {
            for cell in &setting.cells {
                let at = (cell.measured_j_per_token, y(cell));
                panel.marker(scene, at, (look.marker, look.colour), !cell.extrapolated);
            }
        }
    }
}

fn error_percent(cell: &CellPrediction) -> f64 {
    100.0 * (cell.predicted_j_per_token - cell.measured_j_per_token) / cell.measured_j_per_token
}

/// An axis of errors around zero that shows both bands, unless the errors are far smaller.
fn error_axis(errors: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = range(errors).unwrap_or((0.0, 0.0));
    let reach = low.abs().max(high.abs()).max(12.0);
    let (low, high) = (low.min(-12.0), high.max(12.0));
    Axis::linear("Error: (predicted − measured)/measured", "%", (low.max(-reach), high), 5)
}

/// The points of a straight line y = factor·x through the panel, cut to its area.
fn ray(panel: &Panel, factor: f64) -> Vec<(f64, f64)> {
    const STEPS: u32 = 64;
    (0..=STEPS)
        .map(|step| {
            let share = f64::from(step) / f64::from(STEPS);
            let x = match panel.x.scale {
                Scale::Linear => panel.x.low + share * (panel.x.high - panel.x.low),
                Scale::Logarithmic => panel.x.low * (panel.x.high / panel.x.low).powf(share),
            };
            (x, factor * x)
        })
        .collect()
}

fn wedge(scene: &mut Scene, panel: &Panel, share: f64, colour: Colour) {
    let clamped =
        |factor: f64| ray(panel, factor).into_iter().map(|(x, y)| panel.at(x, panel.y.clamp(y)));
    let mut points: Vec<_> = clamped(1.0 + share).collect();
    points.extend(clamped(1.0 - share).collect::<Vec<_>>().into_iter().rev());
    scene.area(points, colour);
}

fn diagonal(scene: &mut Scene, panel: &Panel) {
    let inside = |(_, y): &(f64, f64)| (panel.y.low..=panel.y.high).contains(y);
    let points: Vec<_> = ray(panel, 1.0).into_iter().filter(inside).collect();
    panel.line(scene, &points, Stroke::solid(BLACK, AXIS_LINE));
}

fn level_band(scene: &mut Scene, panel: &Panel, percent: f64, colour: Colour) {
    let corners = [
        (panel.x.low, percent),
        (panel.x.high, percent),
        (panel.x.high, -percent),
        (panel.x.low, -percent),
    ];
    let at = |(x, y): (f64, f64)| panel.at(x, panel.y.clamp(y));
    scene.area(corners.into_iter().map(at).collect(), colour);
}
