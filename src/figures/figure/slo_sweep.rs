//! Latencies and output rate against the request rate, with the limits of the service level.

use crate::draw::axis::{Axis, Tick, range};
use crate::draw::page::{Entry, Key, Page, rule};
use crate::draw::panel::Panel;
use crate::draw::scene::{MM, Point, Scene, Stroke};
use crate::draw::style::{BLACK, DASHED, DOTTED, GREY, Look};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "slo-sweep",
    title: "p99 latencies and output rate against the request rate, with the service-level objectives",
    needs: "tables sweep and goodput (wattrace goodput)",
};

/// One request rate of a sweep. A value that could not be had is `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SweepPoint {
    /// Request rate, req/s; `None` where requests were sent without a limit.
    pub request_rate: Option<f64>,
    /// p99 time to first token, ms; `None` if unbounded.
    pub ttft_p99_ms: Option<f64>,
    /// p99 time per output token, ms; `None` if unbounded.
    pub tpot_p99_ms: Option<f64>,
    /// Output rate, tok/s.
    pub output_tok_s: Option<f64>,
}

/// The sweep of one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepLine {
    /// Name of the configuration.
    pub configuration: String,
    /// Points in the order of rates, an unlimited one last.
    pub points: Vec<SweepPoint>,
    /// Index of the point whose rate is the goodput's; `None` if no rate meets the objectives.
    pub chosen: Option<usize>,
}

/// Sweeps under one spec.
#[derive(Debug, Clone, PartialEq)]
pub struct SloSweep {
    /// What the sweeps have in common.
    pub subject: String,
    /// Whether one of the runs is simulated.
    pub synthetic: bool,
    /// Limit of the p99 time to first token, ms.
    pub ttft_limit_ms: Option<f64>,
    /// Limit of the p99 time per output token, ms.
    pub tpot_limit_ms: Option<f64>,
    /// One line a configuration.
    pub lines: Vec<SweepLine>,
}

const HEIGHT: f64 = 22.0 * MM;
/// From the top of a panel up to the markers of chosen rates, clear of those on the top.
const CHOSEN: f64 = 2.2 * MM;
/// Room for them between a panel and its name.
const HEAD: f64 = 2.0 * MM;
/// Between markers at one rate, and what all of them may take.
const MARKER_GAP: f64 = 2.2 * MM;
const MARKERS_WIDTH: f64 = 7.0 * MM;

/// One of the three panels.
struct Quantity {
    title: (&'static str, &'static str),
    value: fn(&SweepPoint) -> Option<f64>,
    limit: Option<f64>,
    /// Whether a missing value means that it has no bound.
    unbounded: bool,
}

impl SloSweep {
    fn points(&self) -> impl Iterator<Item = &SweepPoint> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn quantities(&self) -> [Quantity; 3] {
        [
            Quantity {
                title: ("p99 time to first token", "ms"),
                value: |point| point.ttft_p99_ms,
                limit: self.ttft_limit_ms,
                unbounded: true,
            },
            Quantity {
                title: ("p99 time per output token", "ms"),
                value: |point| point.tpot_p99_ms,
                limit: self.tpot_limit_ms,
                unbounded: true,
            },
            Quantity {
                title: ("Output rate", "tok/s"),
                value: |point| point.output_tok_s,
                limit: None,
                unbounded: false,
            },
        ]
    }

    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.points().next().is_none() {
            return Err(check.missing("configurations measured at some request rate"));
        }
        for line in &self.lines {
            for point in &line.points {
                let what = |value: &str| format!("{value} of \"{}\"", line.configuration);
                check.positive(|| what("request rate"), point.request_rate.unwrap_or(1.0))?;
                for value in [point.ttft_p99_ms, point.tpot_p99_ms] {
                    check.positive(|| what("a latency"), value.unwrap_or(1.0))?;
                }
                check.finite(|| what("output rate"), point.output_tok_s.unwrap_or(0.0))?;
            }
        }
        for limit in [self.ttft_limit_ms, self.tpot_limit_ms] {
            check.positive(|| "a limit".to_owned(), limit.unwrap_or(1.0))?;
        }
        Ok(())
    }

    /// The axis of rates; an unlimited one has a place of its own beyond the highest.
    fn rate_axis(&self) -> (Axis, f64) {
        let rates = range(self.points().filter_map(|point| point.request_rate));
        let unlimited = self.points().any(|point| point.request_rate.is_none());
        let (_, high) = rates.unwrap_or((1.0, 1.0));
        let mut axis = Axis::linear("Request rate", "req/s", (0.0, high), 6);
        let beyond = axis.high * 1.12;
        if unlimited {
            axis.ticks.push(Tick { value: beyond, label: "max".to_owned() });
            axis.high *= 1.16;
            axis.title.push_str("; max: sent without a limit");
        }
        (axis.padded(), beyond)
    }

    fn legend(&self, looks: &[Look]) -> Vec<Entry> {
        let lines = self.lines.iter().zip(looks);
        let mut entries: Vec<Entry> = lines
            .map(|(line, look)| (Key::LineAndMarker(*look), line.configuration.clone()))
            .collect();
        if self.ttft_limit_ms.is_some() || self.tpot_limit_ms.is_some() {
            entries.push((Key::Line(rule(BLACK, DASHED)), "objective".to_owned()));
        }
        // A sample has the marker of the first configuration that it stands for.
        let first = |has: fn(&SweepLine) -> bool| {
            self.lines.iter().zip(looks).find(|(line, _)| has(line)).map(|(_, look)| look.marker)
        };
        if let Some(marker) = first(|line| line.chosen.is_some()) {
            let look = Look { colour: GREY, marker, dash: DOTTED };
            entries.push((Key::LineAndMarker(look), "highest rate that meets both".to_owned()));
        }
        if let Some(marker) = first(SweepLine::lacks_a_bound) {
            let key = Key::Marker { marker, colour: GREY, filled: false };
            entries.push((key, "no bound (hollow, at the top)".to_owned()));
        }
        entries
    }
}

impl Figure for SloSweep {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        let (x, beyond) = self.rate_axis();
        let quantities = self.quantities();
        let axes: Vec<Axis> = quantities.iter().map(|quantity| self.value_axis(quantity)).collect();
        let left = Page::left_of(&axes.iter().collect::<Vec<_>>());
        let looks: Vec<Look> = (0..self.lines.len()).map(Look::of).collect();
        let mut page = Page::new(&KIND, &self.subject, self.synthetic);
        page.legend(&self.legend(&looks));
        page.head = if self.lines.iter().any(|line| line.chosen.is_some()) { HEAD } else { 0.0 };
        let last = axes.len() - 1;
        for (index, (quantity, y)) in quantities.iter().zip(axes).enumerate() {
            let panel = page.panel(left, HEIGHT, x.clone(), y, index == last);
            if let Some(limit) = quantity.limit {
                panel.across(&mut page.scene, limit, rule(BLACK, DASHED));
            }
            for (line, look) in self.lines.iter().zip(&looks) {
                line.draw(&mut page.scene, &panel, quantity, *look, beyond);
            }
            if quantity.unbounded {
                let missing = |point: &SweepPoint| (quantity.value)(point).is_none();
                let groups = self.by_rate(&looks, |line| {
                    line.points.iter().filter(|point| missing(point)).collect()
                });
                for (rate, looks) in groups {
                    let at = panel.at(rate.unwrap_or(beyond), panel.y.high);
                    side_by_side(&mut page.scene, at, &looks, false);
                }
            }
            for (rate, looks) in self.by_rate(&looks, |line| line.chosen().into_iter().collect()) {
                let top = panel.at(rate.unwrap_or(beyond), panel.y.high);
                let at = Point::new(top.x, top.y - CHOSEN);
                side_by_side(&mut page.scene, at, &looks, true);
            }
            panel.axes(&mut page.scene, index == last);
        }
        Ok(page.finish())
    }
}

impl SloSweep {
    /// Looks of the configurations that have some `points`, gathered by the rate of these.
    fn by_rate<'a>(
        &'a self,
        looks: &[Look],
        points: impl Fn(&'a SweepLine) -> Vec<&'a SweepPoint>,
    ) -> Vec<(Option<f64>, Vec<Look>)> {
        let mut groups: Vec<(Option<f64>, Vec<Look>)> = Vec::new();
        for (line, look) in self.lines.iter().zip(looks) {
            for point in points(line) {
                match groups.iter_mut().find(|(rate, _)| *rate == point.request_rate) {
                    Some((_, group)) => group.push(*look),
                    None => groups.push((point.request_rate, vec![*look])),
                }
            }
        }
        groups
    }

    fn value_axis(&self, quantity: &Quantity) -> Axis {
        let (title, unit) = quantity.title;
        let values = self.points().filter_map(quantity.value).chain(quantity.limit);
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        if quantity.unbounded {
            // Latencies rise steeply behind the knee.
            let (low, high) = if low > 0.0 { (low, high) } else { (0.1, 1.0) };
            return Axis::either(title, unit, (low, 1.1 * high), 4, 10.0);
        }
        Axis::linear(title, unit, (0.0, high), 4)
    }
}

impl SweepLine {
    fn chosen(&self) -> Option<&SweepPoint> {
        self.chosen.and_then(|index| self.points.get(index))
    }

    fn lacks_a_bound(&self) -> bool {
        self.points.iter().any(|point| point.ttft_p99_ms.is_none() || point.tpot_p99_ms.is_none())
    }

    fn draw(&self, scene: &mut Scene, panel: &Panel, quantity: &Quantity, look: Look, beyond: f64) {
        let at = |point: &SweepPoint| point.request_rate.unwrap_or(beyond);
        if let Some(point) = self.chosen() {
            let stroke = Stroke { colour: look.colour, ..rule(GREY, DOTTED) };
            let (from, to) = (panel.at(at(point), panel.y.low), panel.at(at(point), panel.y.high));
            scene.line(vec![from, Point::new(to.x, to.y - CHOSEN)], stroke);
        }
        let known: Vec<Option<(f64, f64)>> =
            self.points.iter().map(|point| Some((at(point), (quantity.value)(point)?))).collect();
        for piece in known.split(Option::is_none) {
            let points: Vec<_> = piece.iter().flatten().copied().collect();
            panel.line(scene, &points, look.stroke());
        }
        for place in known.iter().flatten() {
            panel.marker(scene, *place, (look.marker, look.colour), true);
        }
    }
}

/// Draws the markers of several configurations at one rate beside each other, centred at `at`.
fn side_by_side(scene: &mut Scene, at: Point, looks: &[Look], filled: bool) {
    for (x, look) in offsets(looks.len()).zip(looks) {
        scene.marker(Point::new(at.x + x, at.y), look.marker, look.colour, filled);
    }
}

/// Places of `count` markers around their middle.
fn offsets(count: usize) -> impl Iterator<Item = f64> {
    let gap = MARKER_GAP.min(MARKERS_WIDTH / count.max(1) as f64);
    (0..count).map(move |index| gap * (index as f64 - (count as f64 - 1.0) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rates: &[Option<f64>], chosen: Option<usize>) -> SweepLine {
        let point = |rate: &Option<f64>| SweepPoint {
            request_rate: *rate,
            ttft_p99_ms: Some(100.0),
            tpot_p99_ms: None,
            output_tok_s: Some(1.0),
        };
        SweepLine { configuration: "c".into(), points: rates.iter().map(point).collect(), chosen }
    }

    fn sweep(lines: Vec<SweepLine>) -> SloSweep {
        SloSweep {
            subject: String::new(),
            synthetic: false,
            ttft_limit_ms: None,
            tpot_limit_ms: None,
            lines,
        }
    }

    #[test]
    fn each_configuration_marks_its_chosen_rate_with_its_own_marker() {
        let rates = [Some(1.0), Some(2.0), None];
        let sweep =
            sweep(vec![line(&rates, Some(1)), line(&rates, Some(0)), line(&rates, Some(1))]);
        let looks: Vec<Look> = (0..3).map(Look::of).collect();
        let groups = sweep.by_rate(&looks, |line| line.chosen().into_iter().collect());
        assert_eq!(groups, [(Some(2.0), vec![looks[0], looks[2]]), (Some(1.0), vec![looks[1]])]);
    }

    #[test]
    fn markers_at_one_rate_stand_beside_each_other() {
        assert_eq!(offsets(1).collect::<Vec<_>>(), [0.0]);
        assert_eq!(offsets(2).collect::<Vec<_>>(), [-MARKER_GAP / 2.0, MARKER_GAP / 2.0]);
        let many: Vec<f64> = offsets(12).collect();
        assert!(many.is_sorted() && many[11] - many[0] < MARKERS_WIDTH, "{many:?}");
    }

    #[test]
    fn samples_of_the_legend_have_the_markers_of_the_configurations() {
        let bounded = |mut line: SweepLine| {
            line.points.iter_mut().for_each(|point| point.tpot_p99_ms = Some(1.0));
            line
        };
        let sweep = sweep(vec![bounded(line(&[Some(1.0)], None)), line(&[Some(1.0)], None)]);
        let looks: Vec<Look> = (0..2).map(Look::of).collect();
        let (key, text) = sweep.legend(&looks).pop().unwrap();
        assert_eq!(text, "no bound (hollow, at the top)");
        assert!(
            matches!(key, Key::Marker { marker, filled: false, .. } if marker == looks[1].marker)
        );
    }

    #[test]
    fn rates_keep_off_the_frame_without_a_negative_tick() {
        let (axis, beyond) = sweep(vec![line(&[Some(1.0), Some(4.0), None], None)]).rate_axis();
        assert!(axis.low < 0.0 && axis.high > beyond);
        assert!(axis.ticks.iter().all(|tick| tick.value >= 0.0));
    }
}
