//! Colours, markers and sizes. The colours are those of Okabe and Ito ("Color universal design", 2008),
//! which people with any colour vision can tell apart; yellow is left out, too pale for lines on paper.
//! Nothing is told by colour alone: lines differ by dashes, points by shape.

use super::scene::{MM, POINT, Point, Scene, Stroke};

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Colour {
    /// The colour mixed with white: 0 is white, 1 the colour itself.
    pub(crate) fn tint(self, share: f64) -> Self {
        // Between two bytes, so that the result is one.
        let mix = |part: u8| (255.0 - (255.0 - f64::from(part)) * share).round() as u8;
        Self(mix(self.0), mix(self.1), mix(self.2))
    }
}

pub(crate) const WHITE: Colour = Colour(255, 255, 255);
pub(crate) const BLACK: Colour = Colour(0, 0, 0);
pub(crate) const ORANGE: Colour = Colour(230, 159, 0);
pub(crate) const SKY: Colour = Colour(86, 180, 233);
pub(crate) const GREEN: Colour = Colour(0, 158, 115);
pub(crate) const BLUE: Colour = Colour(0, 114, 178);
pub(crate) const VERMILION: Colour = Colour(213, 94, 0);
pub(crate) const PURPLE: Colour = Colour(204, 121, 167);
/// Texts and axes.
pub(crate) const INK: Colour = Colour(30, 30, 30);
/// What is less important than the data.
pub(crate) const GREY: Colour = Colour(110, 110, 110);
/// Grid lines.
pub(crate) const GRID: Colour = Colour(222, 222, 222);

/// Size of titles and legends.
pub(crate) const TEXT: f64 = 6.8 * POINT;
/// Size of tick labels and notes.
pub(crate) const SMALL: f64 = 6.0 * POINT;
/// Distance between two lines of text.
pub(crate) const LINE_HEIGHT: f64 = 1.35 * TEXT;

pub(crate) const HAIRLINE: f64 = 0.12 * MM;
pub(crate) const AXIS_LINE: f64 = 0.2 * MM;
pub(crate) const DATA_LINE: f64 = 0.32 * MM;
/// Half the size of a marker.
pub(crate) const MARKER: f64 = 0.75 * MM;

pub(crate) const DASHED: &[f64] = &[1.6 * MM, 0.9 * MM];
pub(crate) const DOTTED: &[f64] = &[0.5 * MM, 0.6 * MM];
const DASH_DOTTED: &[f64] = &[1.8 * MM, 0.6 * MM, 0.5 * MM, 0.6 * MM];
const DASHES: [&[f64]; 4] = [&[], DASHED, DASH_DOTTED, DOTTED];

const COLOURS: [Colour; 7] = [BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK];

/// Shape of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Plus,
    TriangleDown,
    Cross,
}

const MARKERS: [Marker; 7] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Plus,
    Marker::TriangleDown,
    Marker::Cross,
];

/// How one of several series looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Look {
    pub(crate) colour: Colour,
    pub(crate) marker: Marker,
    pub(crate) dash: &'static [f64],
}

impl Look {
    /// The look of series `index`; seven colours and markers and four dashes give 28 different ones.
    pub(crate) fn of(index: usize) -> Self {
        let round = index / COLOURS.len();
        Self {
            colour: COLOURS[index % COLOURS.len()],
            marker: MARKERS[(index + 3 * round) % MARKERS.len()],
            dash: DASHES[(index + round) % DASHES.len()],
        }
    }

    pub(crate) const fn stroke(self) -> Stroke {
        Stroke { colour: self.colour, width: DATA_LINE, dash: self.dash }
    }
}

impl Scene {
    /// Draws a marker, hollow ones white inside.
    pub(crate) fn marker(&mut self, at: Point, marker: Marker, colour: Colour, filled: bool) {
        let r = MARKER;
        let to = |dx: f64, dy: f64| Point::new(at.x + dx * r, at.y + dy * r);
        let corners: Vec<Point> = match marker {
            Marker::Circle => {
                self.disc(at, r, colour);
                if !filled {
                    self.disc(at, r - DATA_LINE, WHITE);
                }
                return;
            }
            Marker::Plus | Marker::Cross => {
                let ends = match marker {
                    Marker::Plus => [(1.1, 0.0), (0.0, 1.1)],
                    _ => [(0.85, 0.85), (0.85, -0.85)],
                };
                // A hollow cross is a thin one.
                let width = if filled { 1.7 * DATA_LINE } else { 0.6 * DATA_LINE };
                for (dx, dy) in ends {
                    self.line(vec![to(-dx, -dy), to(dx, dy)], Stroke::solid(colour, width));
                }
                return;
            }
            Marker::Square => vec![to(-0.9, -0.9), to(0.9, -0.9), to(0.9, 0.9), to(-0.9, 0.9)],
            Marker::Diamond => vec![to(0.0, -1.3), to(1.3, 0.0), to(0.0, 1.3), to(-1.3, 0.0)],
            Marker::Triangle => vec![to(0.0, -1.2), to(1.15, 0.8), to(-1.15, 0.8)],
            Marker::TriangleDown => vec![to(0.0, 1.2), to(1.15, -0.8), to(-1.15, -0.8)],
        };
        if filled {
            self.area(corners, colour);
        } else {
            self.area(corners.clone(), WHITE);
            let closed = corners.iter().chain(&corners[..2]).copied().collect();
            self.line(closed, Stroke::solid(colour, 0.8 * DATA_LINE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_differ_for_as_many_series_as_a_figure_has() {
        let looks: Vec<Look> = (0..28).map(Look::of).collect();
        for (index, look) in looks.iter().enumerate() {
            assert!(!looks[..index].contains(look), "series {index}");
        }
    }
}
