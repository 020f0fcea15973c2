//! The page of a figure: a heading, a legend and panels, one under the other.

use super::axis::Axis;
use super::font;
use super::output::Drawing;
use super::panel::{BARE_FOOT, FOOT, Panel, gutter};
use super::scene::{Anchor, MM, Point, Rect, Scene, Stroke, WIDTH};
use super::style::{
    AXIS_LINE, Colour, DATA_LINE, GREY, INK, LINE_HEIGHT, Look, Marker, SMALL, TEXT, VERMILION,
};
use crate::FigureKind;

/// What simulated data are marked with.
pub(crate) const STAMP: &str = "synthetic data";

pub(crate) const MARGIN: f64 = 1.0 * MM;
/// Right of a panel, at least.
const RIGHT: f64 = 2.0 * MM;
/// Width of a sample in a legend.
const KEY: f64 = 4.5 * MM;
const KEY_GAP: f64 = 1.0 * MM;
const ENTRY_GAP: f64 = 3.0 * MM;

/// A sample of a legend.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    Line(Stroke),
    LineAndMarker(Look),
    Marker { marker: Marker, colour: Colour, filled: bool },
    Swatch(Colour),
}

/// What a legend says.
pub(crate) type Entry = (Key, String);

/// A figure that grows from top to bottom.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) scene: Scene,
    /// Where the next thing begins.
    pub(crate) y: f64,
    /// Room between the name of a panel and its area, for marks above the area.
    pub(crate) head: f64,
    title: &'static str,
}

impl Page {
    /// Starts a figure: what it is about on the left, the stamp of synthetic data on the right.
    pub(crate) fn new(kind: &FigureKind, subject: &str, synthetic: bool) -> Self {
        let mut page = Self { scene: Scene::default(), y: MARGIN, head: 0.0, title: kind.title };
        let stamp = if synthetic { page.stamp() } else { 0.0 };
        let baseline = page.y + 0.9 * SMALL;
        let subject = font::elide(subject, SMALL, WIDTH - 2.0 * MARGIN - stamp);
        page.scene.text(&subject, Point::new(MARGIN, baseline), Anchor::Start, SMALL, GREY);
        if synthetic || !subject.is_empty() {
            page.y += 1.5 * SMALL;
        }
        page
    }

    /// A framed word in the corner; gives the width that it takes.
    fn stamp(&mut self) -> f64 {
        let width = font::width(STAMP, SMALL);
        let right = WIDTH - MARGIN;
        let (left, pad) = (right - width - 1.6 * MM, 0.8 * MM);
        let frame = Rect { left, top: self.y, right, bottom: self.y + 1.35 * SMALL };
        self.scene.outline(frame, Stroke::solid(VERMILION, AXIS_LINE));
        let at = Point::new(left + pad, self.y + 0.93 * SMALL);
        self.scene.text(STAMP, at, Anchor::Start, SMALL, VERMILION);
        right - left + 2.0 * MM
    }

    /// Adds a legend, as many entries on a line as fit.
    pub(crate) fn legend(&mut self, entries: &[Entry]) {
        let limit = WIDTH - 2.0 * MARGIN - KEY - KEY_GAP;
        let mut x = MARGIN;
        let mut baseline = self.y + 0.95 * TEXT;
        for (key, text) in entries {
            let text = font::elide(text, SMALL, limit);
            let width = KEY + KEY_GAP + font::width(&text, SMALL);
            if x > MARGIN && x + width > WIDTH - MARGIN {
                x = MARGIN;
                baseline += LINE_HEIGHT;
            }
            self.key(*key, Point::new(x, baseline - 0.33 * SMALL));
            let at = Point::new(x + KEY + KEY_GAP, baseline);
            self.scene.text(&text, at, Anchor::Start, SMALL, INK);
            x += width + ENTRY_GAP;
        }
        if !entries.is_empty() {
            self.y = baseline + 0.7 * TEXT;
        }
    }

    /// Draws a sample whose left end is `at`.
    fn key(&mut self, key: Key, at: Point) {
        let scene = &mut self.scene;
        let ends = vec![at, Point::new(at.x + KEY, at.y)];
        let middle = Point::new(at.x + KEY / 2.0, at.y);
        match key {
            Key::Line(stroke) => scene.line(ends, stroke),
            Key::LineAndMarker(look) => {
                scene.line(ends, look.stroke());
                scene.marker(middle, look.marker, look.colour, true);
            }
            Key::Marker { marker, colour, filled } => scene.marker(middle, marker, colour, filled),
            Key::Swatch(colour) => {
                let (left, right) = (at.x + 0.6 * MM, at.x + KEY - 0.2 * MM);
                let swatch = Rect { left, top: at.y - 0.9 * MM, right, bottom: at.y + 0.9 * MM };
                scene.rect(swatch, colour);
            }
        }
    }

    /// Adds lines of small grey text.
    pub(crate) fn note(&mut self, text: &str) {
        for line in wrapped(text, SMALL, WIDTH - 2.0 * MARGIN) {
            let at = Point::new(MARGIN, self.y + 0.9 * SMALL);
            self.scene.text(&line, at, Anchor::Start, SMALL, GREY);
            self.y += 1.3 * SMALL;
        }
    }

    /// The left end of panels whose vertical axes are these.
    pub(crate) fn left_of(axes: &[&Axis]) -> f64 {
        MARGIN + axes.iter().map(|axis| gutter(axis)).fold(0.0, f64::max)
    }

    /// Adds an empty panel `height` high that begins at `left`, its vertical axis named above it.
    pub(crate) fn panel(
        &mut self,
        left: f64,
        height: f64,
        x: Axis,
        y: Axis,
        labelled: bool,
    ) -> Panel {
        let at = Point::new(MARGIN, self.y + 0.9 * TEXT);
        let title = font::elide(&y.title, TEXT, WIDTH - 2.0 * MARGIN);
        self.scene.text(&title, at, Anchor::Start, TEXT, INK);
        let top = self.y + self.head + if title.is_empty() { 0.5 } else { 1.7 } * TEXT;
        // The last label stands in the middle under its tick, which may be the end of the axis.
        let last = x.ticks.last().map_or(0.0, |tick| font::width(&tick.label, SMALL) / 2.0);
        let right = WIDTH - RIGHT.max(MARGIN + last);
        let area = Rect { left, top, right, bottom: top + height };
        self.y = area.bottom + if labelled { FOOT } else { BARE_FOOT };
        let panel = Panel { area, x, y };
        panel.grid(&mut self.scene);
        panel
    }

    /// The finished figure.
    pub(crate) fn finish(mut self) -> Drawing {
        self.scene.height = self.y + MARGIN;
        Drawing::new(self.scene, self.title)
    }
}

/// Breaks a text between words so that no line is wider than `limit`; a longer word is shortened.
fn wrapped(text: &str, em: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer.filter(|longer| font::width(longer, em) <= limit) {
            Some(longer) => {
                lines.pop();
                lines.push(longer);
            }
            None => lines.push(font::elide(word, em, limit)),
        }
    }
    lines
}

/// A thin upright or level line that marks a place.
pub(crate) const fn rule(colour: Colour, dash: &'static [f64]) -> Stroke {
    Stroke { colour, width: 0.75 * DATA_LINE, dash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_breaks_between_words() {
        let lines = wrapped("one two three", 10.0, font::width("one two", 10.0) + 0.1);
        assert_eq!(lines, ["one two", "three"]);
    }
}
