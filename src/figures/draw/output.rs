//! A finished figure, as SVG and as PNG.

use std::convert::Infallible;

use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontFamily,
};
use plotters_svg::SVGBackend;

use super::font;
use super::raster;
use super::scene::{Anchor, MM, Point, Scene, Shape, Text, WIDTH};
use super::style::Colour;

/// plotters sets a text of size s at s/1.24 em.
const PLOTTERS_SIZE: f64 = 1.24;

/// A finished figure, one column (85 mm) wide.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    scene: Scene,
    title: &'static str,
}

impl Drawing {
    pub(crate) const fn new(scene: Scene, title: &'static str) -> Self {
        Self { scene, title }
    }

    /// Size in canvas units; positions are whole ones, far below what an eye can see.
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, self.scene.height.ceil() as u32)
    }

    /// Width in millimetres.
    #[must_use]
    pub fn width_mm(&self) -> f64 {
        f64::from(self.size().0) / MM
    }

    /// Height in millimetres.
    #[must_use]
    pub fn height_mm(&self) -> f64 {
        f64::from(self.size().1) / MM
    }

    /// The figure as SVG with its size in millimetres; texts stay texts, in the reader's sans-serif.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let size = self.size();
        let mut svg = String::new();
        {
            let mut backend = SVGBackend::with_string(&mut svg, size);
            // Nothing is written to a file, so nothing can fail.
            let drawn = paint(&self.scene, &mut backend).and_then(|()| backend.present());
            debug_assert!(drawn.is_ok());
        }
        let (width, height) = size;
        let pixels = format!("<svg width=\"{width}\" height=\"{height}\" ");
        let millimetres = format!(
            "<svg width=\"{}mm\" height=\"{}mm\" role=\"img\" ",
            self.width_mm(),
            self.height_mm()
        );
        let svg = svg.replacen(&pixels, &millimetres, 1);
        svg.replacen(">\n", &format!(">\n<title>{}</title>\n", self.title), 1)
    }

    /// The figure as PNG, 20 pixels a millimetre (508 dpi), which the file says.
    #[must_use]
    pub fn to_png(&self) -> Vec<u8> {
        raster::draw(self.size(), |backend| paint(&self.scene, backend))
    }
}

fn paint<B: DrawingBackend>(
    scene: &Scene,
    backend: &mut B,
) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    let (width, height) = backend.get_size();
    // Canvases are a few thousand units wide and high.
    let (width, height) = (width as i32, height as i32);
    backend.draw_rect((0, 0), (width, height), &rgb(Colour(255, 255, 255)), true)?;
    for shape in &scene.shapes {
        match shape {
            Shape::Line { points, colour, width } => {
                let style = Pen { colour: *colour, width: *width };
                backend.draw_path(points.iter().map(|point| place(*point)), &style)?;
            }
            Shape::Area { points, colour } => {
                backend.fill_polygon(points.iter().map(|point| place(*point)), &rgb(*colour))?;
            }
            Shape::Disc { centre, radius, colour } => {
                let radius = radius.round().max(1.0) as u32;
                backend.draw_circle(place(*centre), radius, &rgb(*colour), true)?;
            }
            Shape::Text(text) => {
                let top = Point::new(text.at.x, text.at.y - font::ASCENT_EM * text.em);
                backend.draw_text(&text.text, &Letters(text), place(top))?;
            }
        }
    }
    Ok(())
}

fn place(point: Point) -> BackendCoord {
    (point.x.round() as i32, point.y.round() as i32)
}

const fn rgb(colour: Colour) -> BackendColor {
    BackendColor { alpha: 1.0, rgb: (colour.0, colour.1, colour.2) }
}

struct Pen {
    colour: Colour,
    width: f64,
}

impl BackendStyle for Pen {
    fn color(&self) -> BackendColor {
        rgb(self.colour)
    }

    fn stroke_width(&self) -> u32 {
        self.width.round().max(1.0) as u32
    }
}

/// A text as plotters asks for it: SVG takes its words, a bitmap its pixels.
struct Letters<'a>(&'a Text);

impl BackendTextStyle for Letters<'_> {
    type FontError = Infallible;

    fn color(&self) -> BackendColor {
        rgb(self.0.colour)
    }

    fn size(&self) -> f64 {
        self.0.em * PLOTTERS_SIZE
    }

    fn anchor(&self) -> Pos {
        let horizontal = match self.0.anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        Pos::new(horizontal, VPos::Top)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::Name(font::FAMILY)
    }

    fn layout_box(&self, text: &str) -> Result<(BackendCoord, BackendCoord), Infallible> {
        let width = font::width(text, self.0.em).round() as i32;
        Ok(((0, 0), (width, self.0.em.round() as i32)))
    }

    fn draw<E, F: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        text: &str,
        (left, top): BackendCoord,
        mut draw: F,
    ) -> Result<Result<(), E>, Infallible> {
        let baseline = top + (font::ASCENT_EM * self.0.em).round() as i32;
        let colour = rgb(self.0.colour);
        Ok(font::rasterise(text, self.0.em, |x, y, share| {
            draw(left + x, baseline + y, colour.mix(f64::from(share)))
        }))
    }
}
