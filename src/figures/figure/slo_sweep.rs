//! Latencies and output rate against the request rate, with the limits of the service level.

use crate::draw::axis::{Axis, Tick, range};
use crate::draw::page::{Entry, Key, Page, rule};
use crate::draw::panel::Panel;
use crate::draw::scene::{MM, Scene, Stroke};
use crate::draw::style::{BLACK, DASHED, DOTTED, GREY, Look, Marker};
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
        (axis, beyond)
    }

    fn legend(&self, looks: &[Look]) -> Vec<Entry> {
        let lines = self.lines.iter().zip(looks);
        let mut entries: Vec<Entry> = lines
            .map(|(line, look)| (Key::LineAndMarker(*look), line.configuration.clone()))
            .collect();
        if self.ttft_limit_ms.is_some() || self.tpot_limit_ms.is_some() {
            entries.push((Key::Line(rule(BLACK, DASHED)), "objective".to_owned()));
        }
        if self.lines.iter().any(|line| line.chosen.is_some()) {
            entries
                .push((Key::Line(rule(GREY, DOTTED)), "highest rate that meets both".to_owned()));
        }
        let unbounded =
            |point: &SweepPoint| point.ttft_p99_ms.is_none() || point.tpot_p99_ms.is_none();
        if self.points().any(unbounded) {
            let key = Key::Marker { marker: Marker::Triangle, colour: GREY, filled: false };
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
        let last = axes.len() - 1;
        for (index, (quantity, y)) in quantities.iter().zip(axes).enumerate() {
            let panel = page.panel(left, HEIGHT, x.clone(), y, index == last);
            if let Some(limit) = quantity.limit {
                panel.across(&mut page.scene, limit, rule(BLACK, DASHED));
            }
            for (line, look) in self.lines.iter().zip(&looks) {
                line.draw(&mut page.scene, &panel, quantity, *look, beyond);
            }
            panel.axes(&mut page.scene, index == last);
        }
        Ok(page.finish())
    }
}

impl SloSweep {
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
    fn draw(&self, scene: &mut Scene, panel: &Panel, quantity: &Quantity, look: Look, beyond: f64) {
        let at = |point: &SweepPoint| point.request_rate.unwrap_or(beyond);
        if let Some(point) = self.chosen.and_then(|index| self.points.get(index)) {
            let stroke = Stroke { colour: look.colour, ..rule(GREY, DOTTED) };
            panel.upright(scene, at(point), stroke);
        }
        let known: Vec<Option<(f64, f64)>> =
            self.points.iter().map(|point| Some((at(point), (quantity.value)(point)?))).collect();
        for piece in known.split(Option::is_none) {
            let points: Vec<_> = piece.iter().flatten().copied().collect();
            panel.line(scene, &points, look.stroke());
        }
        for (point, known) in self.points.iter().zip(&known) {
            match known {
                Some(place) => panel.marker(scene, *place, (look.marker, look.colour), true),
                None if quantity.unbounded => {
                    panel.marker(
                        scene,
                        (at(point), panel.y.high),
                        (Marker::Triangle, look.colour),
                        false,
                    );
                }
                None => (),
            }
        }
    }
}
