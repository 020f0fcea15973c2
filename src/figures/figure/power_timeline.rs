//! Power over a run's time, with its stages and the steady window.

use crate::draw::axis::{Axis, range};
use crate::draw::font;
use crate::draw::page::{Entry, Key, MARGIN, Page, rule};
use crate::draw::panel::Panel;
use crate::draw::scene::{Anchor, MM, Point, Rect, Scene, Stroke, WIDTH};
use crate::draw::style::{
    BLUE, Colour, DASHED, DATA_LINE, GREEN, GREY, HAIRLINE, INK, ORANGE, PURPLE, SMALL, VERMILION,
};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "power-timeline",
    title: "Power over time with the stages and the steady window of a run",
    needs: "tables power_timeline and stages",
};

/// Power within a short time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerBin {
    /// Begin, seconds from the start of the timeline.
    pub start_s: f64,
    /// End, seconds from the start of the timeline.
    pub end_s: f64,
    /// Time-weighted mean, W.
    pub mean_w: f64,
    /// Lowest power, W.
    pub min_w: f64,
    /// Highest power, W.
    pub max_w: f64,
}

/// A stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageName {
    /// The baseline before the service starts.
    Idle,
    /// From launch to the first formal request.
    Startup,
    /// The measured requests.
    Formal,
    /// The decode window of a decode run.
    Decode,
    /// From the last formal request to idle power.
    Release,
    /// The part of the formal stage in steady state.
    Steady,
}

impl StageName {
    /// Every stage.
    pub const ALL: &'static [Self] =
        &[Self::Idle, Self::Startup, Self::Formal, Self::Decode, Self::Release, Self::Steady];

    /// Its name in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Startup => "startup",
            Self::Formal => "formal",
            Self::Decode => "decode",
            Self::Release => "release",
            Self::Steady => "steady",
        }
    }

    const fn colour(self) -> Colour {
        match self {
            Self::Idle => GREY,
            Self::Startup => ORANGE,
            Self::Formal | Self::Decode => BLUE,
            Self::Release => PURPLE,
            Self::Steady => GREEN,
        }
    }
}

/// When a stage was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageSpan {
    /// Which stage.
    pub stage: StageName,
    /// Begin, seconds from the start of the timeline.
    pub start_s: f64,
    /// End, seconds from the start of the timeline.
    pub end_s: f64,
}

/// Power over a run's time. Boards and node are measured apart and never added.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerTimeline {
    /// The run.
    pub run_id: String,
    /// Whether the run is simulated.
    pub synthetic: bool,
    /// All accelerators together, in the order of time; empty if they were not measured.
    pub boards: Vec<PowerBin>,
    /// The node, in the order of time; empty if it was not measured.
    pub node: Vec<PowerBin>,
    /// The stages that the run has stamps of.
    pub stages: Vec<StageSpan>,
}

const HEIGHT: f64 = 40.0 * MM;
const STRIP: f64 = 1.6 * MM;

impl PowerTimeline {
    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.boards.is_empty() && self.node.is_empty() {
            return Err(check.missing("power samples of the accelerators or the node"));
        }
        for (source, bins) in [("boards", &self.boards), ("node", &self.node)] {
            for (index, bin) in bins.iter().enumerate() {
                for value in [bin.start_s, bin.end_s, bin.mean_w, bin.min_w, bin.max_w] {
                    check.finite(|| format!("bin {index} of the {source}"), value)?;
                }
            }
        }
        for span in &self.stages {
            for value in [span.start_s, span.end_s] {
                check.finite(|| format!("the time of stage {}", span.stage.name()), value)?;
            }
        }
        Ok(())
    }

    fn axes(&self, unit: &TimeUnit) -> (Axis, Axis) {
        let bins = || self.boards.iter().chain(&self.node);
        let times = bins().flat_map(|bin| [bin.start_s, bin.end_s]).map(|time| time / unit.seconds);
        let highest = bins().map(|bin| bin.max_w).fold(0.0, f64::max);
        let lowest = bins().map(|bin| bin.min_w).fold(0.0, f64::min);
        // `check` has seen that there are bins.
        let times = range(times).unwrap_or((0.0, 1.0));
        let x = Axis::tight("Time since the first sample", unit.name, times, 6);
        (x, Axis::linear("Power", "W", (lowest, highest), 5))
    }

    fn legend(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if !self.boards.is_empty() {
            entries.push((Key::Line(BOARDS), "accelerator boards together".to_owned()));
        }
        if !self.node.is_empty() {
            entries.push((Key::Line(NODE), "node".to_owned()));
        }
        let range = if self.boards.is_empty() { NODE_RANGE } else { BOARDS_RANGE };
        entries.push((Key::Swatch(range), "pale: lowest to highest".to_owned()));
        if self.stages.iter().any(|span| span.stage == StageName::Steady) {
            entries.push((Key::Swatch(STEADY_BAND), "steady window".to_owned()));
        }
        entries
    }
}

const BOARDS: Stroke = Stroke::solid(BLUE, DATA_LINE);
const NODE: Stroke = Stroke { colour: VERMILION, width: DATA_LINE, dash: DASHED };
/// A tint of the sky blue.
const BOARDS_RANGE: Colour = Colour(187, 225, 246);
/// A tint of the vermilion.
const NODE_RANGE: Colour = Colour(240, 197, 163);
/// A tint of the green.
const STEADY_BAND: Colour = Colour(217, 240, 234);

impl Figure for PowerTimeline {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        let last_s = self.boards.iter().chain(&self.node).map(|bin| bin.end_s).fold(0.0, f64::max);
        let unit = TimeUnit::for_span(last_s);
        let (x, y) = self.axes(&unit);
        let mut page = Page::new(&KIND, &self.run_id, self.synthetic);
        page.legend(&self.legend());
        let left = Page::left_of(&[&y]);
        let stages = self.visible_stages(&x, &unit);
        let strip_y = page.y;
        if !stages.is_empty() {
            page.y += 1.6 * SMALL + 1.2 * MM + STRIP;
        }
        let panel = page.panel(left, HEIGHT, x, y, true);
        let scene = &mut page.scene;
        for span in stages.iter().filter(|span| span.stage == StageName::Steady) {
            panel.band(scene, span.start_s, span.end_s, STEADY_BAND);
            panel.grid(scene);
        }
        strip(scene, &panel, &stages, strip_y);
        for (bins, colour) in [(&self.boards, BOARDS_RANGE), (&self.node, NODE_RANGE)] {
            ranges(scene, &panel, bins, &unit, colour);
        }
        for (bins, stroke) in [(&self.boards, BOARDS), (&self.node, NODE)] {
            means(scene, &panel, bins, &unit, stroke);
        }
        panel.axes(scene, true);
        Ok(page.finish())
    }
}

impl PowerTimeline {
    /// The stages, in the axis' unit and cut to its ends; what lies outside is left out.
    fn visible_stages(&self, x: &Axis, unit: &TimeUnit) -> Vec<StageSpan> {
        let mut stages: Vec<StageSpan> = self
            .stages
            .iter()
            .map(|span| StageSpan {
                stage: span.stage,
                start_s: x.clamp(span.start_s / unit.seconds),
                end_s: x.clamp(span.end_s / unit.seconds),
            })
            .filter(|span| span.end_s > span.start_s)
            .collect();
        stages.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.stage.cmp(&b.stage)));
        stages
    }
}

/// A bar with the stages above the panel, each named, and their borders within the panel.
fn strip(scene: &mut Scene, panel: &Panel, stages: &[StageSpan], top: f64) {
    let named: Vec<_> = stages.iter().filter(|span| span.stage != StageName::Steady).collect();
    let bar_top = top + 1.6 * SMALL;
    let centres: Vec<f64> =
        named.iter().map(|span| panel.at_x((span.start_s + span.end_s) / 2.0)).collect();
    let widths: Vec<f64> =
        named.iter().map(|span| font::width(span.stage.name(), SMALL) + 1.0 * MM).collect();
    let places = spread(&centres, &widths, MARGIN, WIDTH - MARGIN);
    for ((span, centre), place) in named.iter().zip(&centres).zip(places) {
        let (left, right) = (panel.at_x(span.start_s), panel.at_x(span.end_s));
        let bar =
            Rect { left, top: bar_top, right: right.max(left + HAIRLINE), bottom: bar_top + STRIP };
        scene.rect(bar, span.stage.colour());
        let at = Point::new(place, top + 0.9 * SMALL);
        scene.text(span.stage.name(), at, Anchor::Middle, SMALL, INK);
        let leader = vec![Point::new(place, top + 1.2 * SMALL), Point::new(*centre, bar_top)];
        scene.line(leader, Stroke::solid(GREY, HAIRLINE));
        for border in [span.start_s, span.end_s] {
            panel.upright(scene, border, rule(GREY, crate::draw::style::DOTTED));
        }
    }
}

/// Places as near to `wanted` (in order) as widths and limits allow, so that nothing overlaps.
fn spread(wanted: &[f64], widths: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    let mut next = low;
    for (place, width) in places.iter_mut().zip(widths) {
        *place = place.max(next + width / 2.0);
        next = *place + width / 2.0;
    }
    let mut next = high;
    for (place, width) in places.iter_mut().zip(widths).rev() {
        *place = place.min(next - width / 2.0);
        next = *place - width / 2.0;
    }
    places
}

/// Bins that follow each other without a gap.
fn pieces(bins: &[PowerBin]) -> impl Iterator<Item = &[PowerBin]> {
    bins.chunk_by(|a, b| (b.start_s - a.end_s).abs() <= 0.01 * (a.end_s - a.start_s).abs())
}

fn ranges(scene: &mut Scene, panel: &Panel, bins: &[PowerBin], unit: &TimeUnit, colour: Colour) {
    for piece in pieces(bins) {
        let edge = |value: fn(&PowerBin) -> f64| {
            piece.iter().flat_map(move |bin| {
                [bin.start_s, bin.end_s].map(|time| panel.at(time / unit.seconds, value(bin)))
            })
        };
        let mut points: Vec<Point> = edge(|bin| bin.max_w).collect();
        points.extend(edge(|bin| bin.min_w).collect::<Vec<_>>().into_iter().rev());
        scene.area(points, colour);
    }
}

fn means(scene: &mut Scene, panel: &Panel, bins: &[PowerBin], unit: &TimeUnit, stroke: Stroke) {
    for piece in pieces(bins) {
        let edges =
            |bin: &PowerBin| [bin.start_s, bin.end_s].map(|time| (time / unit.seconds, bin.mean_w));
        let middle = |bin: &PowerBin| ((bin.start_s + bin.end_s) / 2.0 / unit.seconds, bin.mean_w);
        let points: Vec<(f64, f64)> = match piece {
            // A single bin has no neighbour to draw a line to.
            [bin] => edges(bin).to_vec(),
            bins => bins.iter().map(middle).collect(),
        };
        panel.line(scene, &points, stroke);
    }
}

/// The unit of a time axis.
struct TimeUnit {
    name: &'static str,
    seconds: f64,
}

impl TimeUnit {
    const fn for_span(span_s: f64) -> Self {
        if span_s <= 900.0 {
            Self { name: "s", seconds: 1.0 }
        } else if span_s <= 4.0 * 3600.0 {
            Self { name: "min", seconds: 60.0 }
        } else {
            Self { name: "h", seconds: 3600.0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::style::SKY;

    #[test]
    fn labels_move_apart_and_stay_inside() {
        let places = spread(&[10.0, 11.0, 12.0], &[4.0, 4.0, 4.0], 0.0, 100.0);
        assert_eq!(places, [10.0, 14.0, 18.0]);
        let places = spread(&[98.0, 99.0], &[4.0, 4.0], 0.0, 100.0);
        assert_eq!(places, [94.0, 98.0]);
    }

    #[test]
    fn bins_with_a_gap_between_them_are_not_joined() {
        let bin = |start_s| PowerBin {
            start_s,
            end_s: start_s + 1.0,
            mean_w: 1.0,
            min_w: 1.0,
            max_w: 1.0,
        };
        let bins = [bin(0.0), bin(1.0), bin(5.0)];
        assert_eq!(pieces(&bins).map(<[_]>::len).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn every_stage_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            StageName::ALL.iter().map(|stage| stage.name()).collect();
        assert_eq!(names.len(), StageName::ALL.len());
    }

    #[test]
    fn pale_colours_are_tints() {
        assert_eq!(BOARDS_RANGE, SKY.tint(0.4));
        assert_eq!(NODE_RANGE, VERMILION.tint(0.36));
        assert_eq!(STEADY_BAND, GREEN.tint(0.15));
    }
}
