//! How start-up and release spread over more and more requests.

use crate::draw::axis::{Axis, number, range};
use crate::draw::page::{Key, Page, rule};
use crate::draw::scene::MM;
use crate::draw::style::{DASHED, GREY, Look};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "amortisation",
    title: "Energy against the number of requests over which start-up and release are spread",
    needs: "table amortisation",
};

/// A run that serves a number of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AmortisationPoint {
    /// Requests.
    pub requests: f64,
    /// Energy a token, fixed energies included, J/token.
    pub j_per_token: f64,
    /// Share of start-up and release in the whole energy, 0 to 1.
    pub fixed_share: f64,
}

/// From how many requests on the fixed share is below a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShareMark {
    /// The limit, 0 to 1.
    pub share: f64,
    /// Requests.
    pub requests: f64,
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct AmortisationCurve {
    /// The run, or what distinguishes it.
    pub name: String,
    /// Points in the order of requests.
    pub points: Vec<AmortisationPoint>,
    /// Where the fixed share falls below its limits.
    pub marks: Vec<ShareMark>,
}

/// Energy against the number of requests, for some runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Amortisation {
    /// What the runs have in common.
    pub subject: String,
    /// Whether one of the runs is simulated.
    pub synthetic: bool,
    /// The runs.
    pub curves: Vec<AmortisationCurve>,
}

const HEIGHT: f64 = 30.0 * MM;
/// Where the fixed share is marked.
const LIMITS: [f64; 3] = [0.1, 0.05, 0.01];

impl Amortisation {
    fn points(&self) -> impl Iterator<Item = &AmortisationPoint> {
        self.curves.iter().flat_map(|curve| &curve.points)
    }

    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.points().next().is_none() {
            return Err(check.missing("runs with start-up, steady and release energy"));
        }
        for curve in &self.curves {
            for point in &curve.points {
                let what = |value: &str| format!("{value} of \"{}\"", curve.name);
                check.positive(|| what("number of requests"), point.requests)?;
                check.positive(|| what("energy per token"), point.j_per_token)?;
                check.positive(|| what("fixed share"), point.fixed_share)?;
            }
            for mark in &curve.marks {
                let what = || format!("number of requests of a mark of \"{}\"", curve.name);
                check.positive(what, mark.requests)?;
                check.positive(what, mark.share)?;
            }
        }
        Ok(())
    }

    /// Number of requests, energy, fixed share in per cent.
    fn axes(&self) -> [Axis; 3] {
        // `check` has seen that there are points.
        let of = |value: fn(&AmortisationPoint) -> f64| {
            range(self.points().map(value)).unwrap_or((1.0, 1.0))
        };
        let requests = of(|point| point.requests);
        let share = of(|point| 100.0 * point.fixed_share);
        let share = (share.0.min(1.0), share.1.max(10.0));
        [
            Axis::logarithmic("Requests served by one start, N", "", requests, 8),
            Axis::logarithmic(
                "Energy per token, start-up and release included",
                "J/token",
                of(|point| point.j_per_token),
                6,
            ),
            Axis::logarithmic("Share of start-up and release", "%", share, 6),
        ]
    }
}

impl Figure for Amortisation {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        let [x, energy, share] = self.axes();
        let left = Page::left_of(&[&energy, &share]);
        let mut page = Page::new(&KIND, &self.subject, self.synthetic);
        let looks: Vec<Look> = (0..self.curves.len()).map(Look::of).collect();
        let entries: Vec<_> = self
            .curves
            .iter()
            .zip(&looks)
            .map(|(curve, look)| (Key::LineAndMarker(*look), curve.name.clone()))
            .collect();
        page.legend(&entries);
        let limits: Vec<String> = LIMITS.iter().map(|limit| number(100.0 * limit)).collect();
        page.note(&format!(
            "Markers: start-up and release fall under {} % of the energy.",
            limits.join(", ")
        ));

        let upper = page.panel(left, HEIGHT, x.clone(), energy, false);
        let scene = &mut page.scene;
        for (curve, look) in self.curves.iter().zip(&looks) {
            let points: Vec<_> =
                curve.points.iter().map(|point| (point.requests, point.j_per_token)).collect();
            upper.line(scene, &points, look.stroke());
            if let [only] = points[..] {
                upper.marker(scene, only, (look.marker, look.colour), false);
            }
            for mark in curve.marks.iter().filter(|mark| within(&upper.x, mark.requests)) {
                if let Some(energy) = between(&points, mark.requests) {
                    upper.marker(scene, (mark.requests, energy), (look.marker, look.colour), true);
                }
            }
        }
        upper.axes(scene, false);

        let lower = page.panel(left, HEIGHT, x, share, true);
        let scene = &mut page.scene;
        for limit in LIMITS {
            lower.across(scene, 100.0 * limit, rule(GREY, DASHED));
        }
        for (curve, look) in self.curves.iter().zip(&looks) {
            let points: Vec<_> = curve
                .points
                .iter()
                .map(|point| (point.requests, 100.0 * point.fixed_share))
                .collect();
            lower.line(scene, &points, look.stroke());
            if let [only] = points[..] {
                lower.marker(scene, only, (look.marker, look.colour), false);
            }
            for mark in curve.marks.iter().filter(|mark| within(&lower.x, mark.requests)) {
                let at = (mark.requests, lower.y.clamp(100.0 * mark.share));
                lower.marker(scene, at, (look.marker, look.colour), true);
            }
        }
        lower.axes(scene, true);
        Ok(page.finish())
    }
}

fn within(axis: &Axis, value: f64) -> bool {
    (axis.low..=axis.high).contains(&value)
}

/// The height at `x` of the line that the logarithmic axes show between points.
fn between(points: &[(f64, f64)], x: f64) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        if x < x0 || x > x1 || x0 == x1 {
            return None;
        }
        let share = (x / x0).ln() / (x1 / x0).ln();
        Some(y0 * (y1 / y0).powf(share))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lies_on_the_drawn_line() {
        // Half way from 1 to 100 in logarithms is 10; half way from 8 to 2 is 4.
        assert!((between(&[(1.0, 8.0), (100.0, 2.0)], 10.0).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(between(&[(1.0, 8.0), (100.0, 2.0)], 200.0), None);
    }
}
