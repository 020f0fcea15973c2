//! PNG: drawn at the canvas' own fineness, then each two by two units averaged to one pixel.

use super::png::{self, CHANNELS};
use super::scene::MM;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, DrawingBackend, DrawingErrorKind,
};
use plotters_bitmap::BitMapBackend;

/// Canvas units along the side of one pixel.
const UNITS: usize = 2;

/// Pixels in a metre, for the file to say how large it is meant.
const PIXELS_PER_METRE: u32 = (MM as u32) * 1000 / (UNITS as u32);

/// Draws on a bitmap of `size` canvas units and encodes it.
pub(super) fn draw(
    size: (u32, u32),
    paint: impl FnOnce(&mut Raster<'_>) -> Result<(), DrawingErrorKind<Error>>,
) -> Vec<u8> {
    // Whole pixels only.
    let step = UNITS as u32;
    let (width, height) = (size.0.next_multiple_of(step), size.1.next_multiple_of(step));
    let mut canvas = vec![255; width as usize * height as usize * CHANNELS];
    // A bitmap in memory refuses nothing: plotters' error type is that of files.
    let painted = paint(&mut Raster(BitMapBackend::with_buffer(&mut canvas, (width, height))));
    debug_assert!(painted.is_ok());
    let pixels = averaged(&canvas, width as usize);
    png::encode(&pixels, width / step, height / step, PIXELS_PER_METRE)
}

/// The mean of every two by two units.
fn averaged(canvas: &[u8], width: usize) -> Vec<u8> {
    let row_bytes = width * CHANNELS;
    let mut pixels = Vec::with_capacity(canvas.len() / (UNITS * UNITS));
    for rows in canvas.chunks_exact(row_bytes * UNITS) {
        for x in (0..row_bytes).step_by(CHANNELS * UNITS) {
            for channel in 0..CHANNELS {
                let sum: u32 = (0..UNITS)
                    .flat_map(|dy| (0..UNITS).map(move |dx| (dy, dx)))
                    .map(|(dy, dx)| u32::from(rows[dy * row_bytes + x + dx * CHANNELS + channel]))
                    .sum();
                let mean = (sum + 2) / (UNITS * UNITS) as u32;
                // The mean of bytes is a byte.
                pixels.push(mean as u8);
            }
        }
    }
    pixels
}

type Error = <BitMapBackend<'static> as DrawingBackend>::ErrorType;

/// plotters' bitmap with lines of its own: plotters fills the outline of a whole thick line, which
/// tears where a line folds back on itself, as measured power does.
pub(super) struct Raster<'a>(BitMapBackend<'a>);

impl DrawingBackend for Raster<'_> {
    type ErrorType = Error;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Error>> {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Error>> {
        self.0.present()
    }

    fn draw_pixel(
        &mut self,
        point: BackendCoord,
        color: BackendColor,
    ) -> Result<(), DrawingErrorKind<Error>> {
        self.0.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Error>> {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Error>> {
        self.0.draw_rect(upper_left, bottom_right, style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Error>> {
        let path: Vec<BackendCoord> = path.into_iter().collect();
        let half = f64::from(style.stroke_width()) / 2.0;
        for pair in path.windows(2) {
            if let Some(quad) = thick(pair[0], pair[1], half) {
                self.fill_polygon(quad, &style.color())?;
            }
        }
        // Round joints; ends stay flat, as in the SVG.
        for joint in path.get(1..path.len().saturating_sub(1)).unwrap_or_default() {
            self.draw_circle(*joint, half.round() as u32, &style.color(), true)?;
        }
        Ok(())
    }
}

/// The corners of a straight line `half` wide to both sides; `None` for one without a length.
fn thick(from: BackendCoord, to: BackendCoord, half: f64) -> Option<[BackendCoord; 4]> {
    let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let length = dx.hypot(dy);
    if length == 0.0 {
        return None;
    }
    let (across_x, across_y) = (-dy / length * half, dx / length * half);
    let corner = |at: BackendCoord, side: f64| {
        let x = f64::from(at.0) + side * across_x;
        let y = f64::from(at.1) + side * across_y;
        (x.round() as i32, y.round() as i32)
    };
    Some([corner(from, 1.0), corner(to, 1.0), corner(to, -1.0), corner(from, -1.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_by_two_units_become_their_mean() {
        // Two pixels: all black, and half black half white: (0 + 0 + 255 + 255) / 4 = 127.5, up to 128.
        let row = [[0; 3], [0; 3], [0; 3], [255; 3]].concat();
        let canvas = [row.clone(), row].concat();
        assert_eq!(averaged(&canvas, 4), [[0; 3], [128; 3]].concat());
    }

    #[test]
    fn a_line_is_as_wide_as_its_stroke() {
        assert_eq!(thick((0, 0), (10, 0), 2.0), Some([(0, 2), (10, 2), (10, -2), (0, -2)]));
        assert_eq!(thick((3, 3), (3, 3), 2.0), None);
    }
}
