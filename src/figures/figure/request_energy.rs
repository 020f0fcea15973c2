//! Energy per token of each request in the order in which they ended, and how calm it is.

use crate::draw::axis::{Axis, number, range};
use crate::draw::page::{Entry, Key, Page, rule};
use crate::draw::panel::Panel;
use crate::draw::scene::{MM, Point, Scene, Stroke};
use crate::draw::style::{BLUE, Colour, DASHED, DATA_LINE, DOTTED, GREEN, Marker, VERMILION};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "request-energy",
    title: "Energy per token of each request, and its coefficient of variation over the steady-state windows",
    needs: "table requests (wattrace analyze --per-request)",
};

/// Energy per token of each request of a run, in the order of their ends.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestEnergy {
    /// The run.
    pub run_id: String,
    /// Whether the run is simulated.
    pub synthetic: bool,
    /// Energy per token of each request, J/token.
    pub j_per_token: Vec<f64>,
    /// Coefficient of variation of the window that starts at each request, where a whole one does.
    pub window_cv: Vec<Option<f64>>,
    /// Requests of a window.
    pub window_requests: u64,
    /// Below this coefficient of variation a window is calm.
    pub threshold: f64,
    /// Place of the first request of the steady window, from 0; `None` if steady state was not reached.
    pub steady_first_request: Option<u64>,
}

const ENERGY_HEIGHT: f64 = 30.0 * MM;
const CV_HEIGHT: f64 = 22.0 * MM;
/// From this many requests on, dots would hide each other (and swell the file): columns show their range.
const DOTS: usize = 4000;
const COLUMNS: usize = 400;

impl RequestEnergy {
    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.j_per_token.is_empty() {
            return Err(
                check.missing(format!("requests of run \"{}\" with energy per token", self.run_id))
            );
        }
        for (index, value) in self.j_per_token.iter().enumerate() {
            check.finite(|| format!("energy per token of request {index}"), *value)?;
        }
        for (index, value) in self.window_cv.iter().enumerate() {
            check.finite(|| format!("coefficient of variation {index}"), value.unwrap_or(0.0))?;
        }
        check.positive(|| "the threshold".to_owned(), self.threshold)
    }

    fn legend(&self) -> Vec<Entry> {
        let mut entries = vec![
            (
                Key::Marker { marker: Marker::Circle, colour: BLUE, filled: true },
                "request".to_owned(),
            ),
            (
                Key::Line(Stroke::solid(BLUE, DATA_LINE)),
                format!("CV of this and the next {}", self.window_requests.saturating_sub(1)),
            ),
            (Key::Line(rule(VERMILION, DASHED)), format!("threshold {}", number(self.threshold))),
        ];
        if self.steady_first_request.is_some() {
            entries.push((Key::Line(rule(GREEN, DOTTED)), "steady from here".to_owned()));
        }
        entries
    }

    fn cv_points(&self) -> Vec<(f64, f64)> {
        let known = |(index, cv): (usize, &Option<f64>)| Some((index as f64, (*cv)?));
        self.window_cv.iter().enumerate().filter_map(known).collect()
    }
}

impl Figure for RequestEnergy {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        let cvs = self.cv_points();
        let places = (0.0, (self.j_per_token.len() - 1).max(1) as f64);
        let x = Axis::tight("Request in the order of ends", "", places, 6).padded();
        // `check` has seen that there are energies.
        let energies = range(self.j_per_token.iter().copied()).unwrap_or((0.0, 1.0));
        let energy = Axis::either("Energy per token", "J/token", energies, 4, 20.0);
        let cv = self.cv_axis(&cvs);
        let left = Page::left_of(&[&energy, &cv]);

        let mut page = Page::new(&KIND, &self.run_id, self.synthetic);
        page.legend(&self.legend());
        let upper = page.panel(left, ENERGY_HEIGHT, x.clone(), energy, false);
        self.mark_steady(&mut page.scene, &upper);
        points(&mut page.scene, &upper, &self.j_per_token, BLUE);
        upper.axes(&mut page.scene, false);

        let lower = page.panel(left, CV_HEIGHT, x, cv, true);
        self.mark_steady(&mut page.scene, &lower);
        lower.across(&mut page.scene, self.threshold, rule(VERMILION, DASHED));
        let stroke = Stroke::solid(BLUE, DATA_LINE);
        for piece in cvs.chunk_by(|a, b| b.0 - a.0 < 1.5) {
            lower.line(&mut page.scene, piece, stroke);
        }
        lower.axes(&mut page.scene, true);
        Ok(page.finish())
    }
}

impl RequestEnergy {
    fn cv_axis(&self, cvs: &[(f64, f64)]) -> Axis {
        let values = cvs.iter().map(|(_, cv)| *cv).chain([self.threshold]);
        let (low, high) = range(values).unwrap_or((0.0, self.threshold));
        if low > 0.0 && high > 10.0 * self.threshold {
            Axis::logarithmic("Coefficient of variation", "", (low, high), 4)
        } else {
            Axis::linear("Coefficient of variation", "", (0.0, 1.1 * high), 4)
        }
    }

    fn mark_steady(&self, scene: &mut Scene, panel: &Panel) {
        if let Some(first) = self.steady_first_request {
            let x = panel.x.clamp(first as f64);
            panel.upright(scene, x, rule(GREEN, DOTTED));
        }
    }
}

/// Draws values in order as dots; a great many as columns from the lowest to the highest.
fn points(scene: &mut Scene, panel: &Panel, values: &[f64], colour: Colour) {
    if values.len() <= DOTS {
        let radius = if values.len() > 500 { 0.22 * MM } else { 0.4 * MM };
        for (index, value) in values.iter().enumerate() {
            scene.disc(panel.at(index as f64, *value), radius, colour);
        }
        return;
    }
    let size = values.len().div_ceil(COLUMNS);
    for (index, column) in values.chunks(size).enumerate() {
        let Some((low, high)) = range(column.iter().copied()) else { continue };
        let middle = (index * size) as f64 + (column.len() - 1) as f64 / 2.0;
        let (from, to) = (panel.at(middle, low), panel.at(middle, high));
        let reach = 0.15 * MM;
        let ends = vec![Point::new(from.x, from.y + reach), Point::new(to.x, to.y - reach)];
        scene.line(ends, Stroke::solid(colour, 0.22 * MM));
    }
}
