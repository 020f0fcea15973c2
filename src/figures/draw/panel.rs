//! One plot area with its axes.

use super::axis::Axis;
use super::font;
use super::scene::{Anchor, MM, Point, Rect, Scene, Stroke};
use super::style::{AXIS_LINE, GRID, HAIRLINE, INK, Marker, SMALL, TEXT};

/// Length of a tick.
const TICK: f64 = 0.7 * MM;
/// Between a tick and its label.
const TICK_GAP: f64 = 0.5 * MM;

/// A plot area with two axes.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) area: Rect,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
}

/// What the labels of a vertical axis need, ticks included.
pub(crate) fn gutter(axis: &Axis) -> f64 {
    let widest = axis.ticks.iter().map(|tick| font::width(&tick.label, SMALL)).fold(0.0, f64::max);
    widest + TICK + TICK_GAP
}

/// What the labels under a horizontal axis need, ticks and title included.
pub(crate) const FOOT: f64 = TICK + TICK_GAP + 1.3 * SMALL + 1.35 * TEXT;
/// The same without labels.
pub(crate) const BARE_FOOT: f64 = TICK + 0.8 * MM;

impl Panel {
    /// The place of a value on the horizontal axis.
    pub(crate) fn at_x(&self, x: f64) -> f64 {
        self.area.left + self.x.share(x) * (self.area.right - self.area.left)
    }

    /// The place of a value on the vertical axis.
    pub(crate) fn at_y(&self, y: f64) -> f64 {
        self.area.bottom - self.y.share(y) * (self.area.bottom - self.area.top)
    }

    /// The place of a point.
    pub(crate) fn at(&self, x: f64, y: f64) -> Point {
        Point::new(self.at_x(x), self.at_y(y))
    }

    /// Draws the grid, to lie under the data.
    pub(crate) fn grid(&self, scene: &mut Scene) {
        let Rect { left, top, right, bottom } = self.area;
        let line = Stroke::solid(GRID, HAIRLINE);
        for tick in &self.x.ticks {
            let x = self.at_x(tick.value);
            scene.line(vec![Point::new(x, top), Point::new(x, bottom)], line);
        }
        for tick in &self.y.ticks {
            let y = self.at_y(tick.value);
            scene.line(vec![Point::new(left, y), Point::new(right, y)], line);
        }
    }

    /// Draws both axes over the data; the horizontal one with labels and title only if `labelled`.
    pub(crate) fn axes(&self, scene: &mut Scene, labelled: bool) {
        let Rect { left, top, right, bottom } = self.area;
        let line = Stroke::solid(INK, AXIS_LINE);
        scene.line(vec![Point::new(left, top), Point::new(left, bottom)], line);
        scene.line(vec![Point::new(left, bottom), Point::new(right, bottom)], line);
        for tick in &self.x.ticks {
            let x = self.at_x(tick.value);
            scene.line(vec![Point::new(x, bottom), Point::new(x, bottom + TICK)], line);
        }
        for tick in &self.y.ticks {
            let y = self.at_y(tick.value);
            scene.line(vec![Point::new(left - TICK, y), Point::new(left, y)], line);
        }
        self.y_labels(scene);
        if labelled {
            self.x_labels(scene);
        }
    }

    fn y_labels(&self, scene: &mut Scene) {
        let places: Vec<f64> = self.y.ticks.iter().map(|tick| self.at_y(tick.value)).collect();
        let half = 0.6 * SMALL;
        let boxes: Vec<(f64, f64)> = places.iter().rev().map(|y| (y - half, y + half)).collect();
        let every = thinning(&boxes, 0.0);
        for (tick, y) in self.y.ticks.iter().zip(places).step_by(every) {
            // Digits are about 0.7 em high: their middle stands at the tick.
            let at = Point::new(self.area.left - TICK - TICK_GAP, y + 0.35 * SMALL);
            scene.text(&tick.label, at, Anchor::End, SMALL, INK);
        }
    }

    fn x_labels(&self, scene: &mut Scene) {
        let Rect { left, right, bottom, .. } = self.area;
        let boxes: Vec<(f64, f64)> = self
            .x
            .ticks
            .iter()
            .map(|tick| {
                let (x, half) = (self.at_x(tick.value), font::width(&tick.label, SMALL) / 2.0);
                (x - half, x + half)
            })
            .collect();
        let every = thinning(&boxes, 0.6 * SMALL);
        let baseline = bottom + TICK + TICK_GAP + 0.9 * SMALL;
        for tick in self.x.ticks.iter().step_by(every) {
            let at = Point::new(self.at_x(tick.value), baseline);
            scene.text(&tick.label, at, Anchor::Middle, SMALL, INK);
        }
        let at = Point::new((left + right) / 2.0, baseline + 1.3 * TEXT);
        scene.text(&self.x.title, at, Anchor::Middle, TEXT, INK);
    }

    /// Draws a line through points inside the area.
    pub(crate) fn line(&self, scene: &mut Scene, points: &[(f64, f64)], stroke: Stroke) {
        scene.line(points.iter().map(|(x, y)| self.at(*x, *y)).collect(), stroke);
    }

    /// Draws a marker at a point.
    pub(crate) fn marker(
        &self,
        scene: &mut Scene,
        (x, y): (f64, f64),
        (marker, colour): (Marker, super::style::Colour),
        filled: bool,
    ) {
        scene.marker(self.at(x, y), marker, colour, filled);
    }

    /// Draws a line across the area at one height.
    pub(crate) fn across(&self, scene: &mut Scene, y: f64, stroke: Stroke) {
        self.line(scene, &[(self.x.low, y), (self.x.high, y)], stroke);
    }

    /// Draws a line from bottom to top at one place.
    pub(crate) fn upright(&self, scene: &mut Scene, x: f64, stroke: Stroke) {
        self.line(scene, &[(x, self.y.low), (x, self.y.high)], stroke);
    }

    /// Fills the area between two places on the horizontal axis.
    pub(crate) fn band(&self, scene: &mut Scene, from: f64, to: f64, colour: super::style::Colour) {
        let Rect { top, bottom, .. } = self.area;
        let (left, right) = (self.at_x(self.x.clamp(from)), self.at_x(self.x.clamp(to)));
        scene.rect(Rect { left, top, right, bottom }, colour);
    }
}

/// The smallest n for which every n-th of the ordered `boxes` keeps `gap` to the next.
fn thinning(boxes: &[(f64, f64)], gap: f64) -> usize {
    let clear = |every: &usize| {
        let kept: Vec<_> = boxes.iter().step_by(*every).collect();
        kept.windows(2).all(|pair| pair[0].1 + gap <= pair[1].0)
    };
    (1..boxes.len()).find(clear).unwrap_or(boxes.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_thinned_until_they_keep_apart() {
        let boxes = [(0.0, 8.0), (10.0, 18.0), (20.0, 28.0), (30.0, 38.0)];
        assert_eq!(thinning(&boxes, 1.0), 1);
        assert_eq!(thinning(&boxes, 5.0), 2);
        assert_eq!(thinning(&boxes, 100.0), 4);
        assert_eq!(thinning(&[], 1.0), 1);
    }
}
