//! What is drawn: lines, areas and texts in the units of the canvas, whatever they end up as.

use super::font;
use super::style::Colour;

/// Canvas units in a millimetre; the canvas counts whole units, so this is also how fine it is.
pub(crate) const MM: f64 = 40.0;
/// Canvas units in a typographic point.
pub(crate) const POINT: f64 = MM * 25.4 / 72.0;
/// One column of a paper.
pub(crate) const WIDTH: f64 = 85.0 * MM;

/// A place on the canvas; `y` grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

impl Point {
    pub(crate) const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}

/// A rectangle on the canvas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Rect {
    pub(crate) const fn corners(self) -> [Point; 4] {
        [
            Point::new(self.left, self.top),
            Point::new(self.right, self.top),
            Point::new(self.right, self.bottom),
            Point::new(self.left, self.bottom),
        ]
    }
}

/// How a line is drawn: lengths of strokes and gaps in turn, none for a solid line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) colour: Colour,
    pub(crate) width: f64,
    pub(crate) dash: &'static [f64],
}

impl Stroke {
    pub(crate) const fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: &[] }
    }
}

/// Which part of a text stands at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text; its place lies on the baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) at: Point,
    pub(crate) anchor: Anchor,
    pub(crate) em: f64,
    pub(crate) colour: Colour,
}

/// One thing that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Line { points: Vec<Point>, colour: Colour, width: f64 },
    Area { points: Vec<Point>, colour: Colour },
    Disc { centre: Point, radius: f64, colour: Colour },
    Text(Text),
}

/// Shapes, later ones over earlier ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Scene {
    pub(crate) shapes: Vec<Shape>,
    pub(crate) height: f64,
}

impl Scene {
    pub(crate) fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        let Stroke { colour, width, dash } = stroke;
        if points.len() < 2 {
            return;
        }
        if dash.is_empty() {
            self.shapes.push(Shape::Line { points, colour, width });
            return;
        }
        for points in dashes(&points, dash) {
            self.shapes.push(Shape::Line { points, colour, width });
        }
    }

    pub(crate) fn area(&mut self, points: Vec<Point>, colour: Colour) {
        self.shapes.push(Shape::Area { points, colour });
    }

    pub(crate) fn rect(&mut self, rect: Rect, colour: Colour) {
        self.area(rect.corners().to_vec(), colour);
    }

    pub(crate) fn outline(&mut self, rect: Rect, stroke: Stroke) {
        let corners = rect.corners();
        let mut points = corners.to_vec();
        points.push(corners[0]);
        self.line(points, stroke);
    }

    pub(crate) fn disc(&mut self, centre: Point, radius: f64, colour: Colour) {
        self.shapes.push(Shape::Disc { centre, radius, colour });
    }

    /// Adds a text and gives its width.
    pub(crate) fn text(
        &mut self,
        text: &str,
        at: Point,
        anchor: Anchor,
        em: f64,
        colour: Colour,
    ) -> f64 {
        // XML has no place for control characters.
        let clean = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
        let text: String = text.chars().map(clean).collect();
        let width = font::width(&text, em);
        if !text.is_empty() {
            self.shapes.push(Shape::Text(Text { text, at, anchor, em, colour }));
        }
        width
    }
}

/// Cuts a line into strokes, each as long as the pattern says, round corners too.
fn dashes(points: &[Point], pattern: &[f64]) -> Vec<Vec<Point>> {
    let mut strokes = Vec::new();
    let mut current = vec![points[0]];
    let (mut place, mut left) = (0, pattern[0]);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let rest = (to.x - from.x).hypot(to.y - from.y);
            if rest <= left {
                left -= rest;
                current.push(to);
                break;
            }
            let share = left / rest;
            from = Point::new(from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share);
            current.push(from);
            let stroke = std::mem::replace(&mut current, vec![from]);
            if place % 2 == 0 {
                strokes.push(stroke);
            }
            place = (place + 1) % pattern.len();
            left = pattern[place];
        }
    }
    if place % 2 == 0 && current.len() > 1 {
        strokes.push(current);
    }
    strokes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_go_round_corners() {
        // 10 right, then 10 down; strokes of 6 and gaps of 6: [0, 6], [12, 18] of 20.
        let line = [Point::new(0.0, 0.0), Point::new(10.0, 0.0), Point::new(10.0, 10.0)];
        let strokes = dashes(&line, &[6.0, 6.0]);
        assert_eq!(strokes.len(), 2);
        assert_eq!(strokes[0], vec![Point::new(0.0, 0.0), Point::new(6.0, 0.0)]);
        assert_eq!(strokes[1], vec![Point::new(10.0, 2.0), Point::new(10.0, 8.0)]);
    }
}
