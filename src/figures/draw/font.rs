//! The letters: DejaVu Sans, embedded, so that a PNG is the same on every machine and the places of
//! labels can be computed. It is wider than what most readers have instead, so that labels which keep
//! apart here keep apart in an SVG everywhere.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, GlyphId, PxScale, ScaleFont, point};

/// What an SVG asks for: the embedded font where it is installed, else narrower ones.
pub(crate) const FAMILY: &str = "DejaVu Sans, Noto Sans, Helvetica, Arial, sans-serif";

/// From the top of a text's box to its baseline, in em; plotters' SVG text hangs its top by as much.
pub(crate) const ASCENT_EM: f64 = 0.76;

static DEJAVU_SANS: LazyLock<FontRef<'static>> = LazyLock::new(|| {
    FontRef::try_from_slice(dejavu::sans::regular())
        .expect("the embedded font is one that tests read")
});

/// The scale at which one em is `em` pixels; ab_glyph counts from ascender to descender instead.
fn scale(em: f64) -> PxScale {
    let units_per_em = DEJAVU_SANS.units_per_em().unwrap_or(2048.0);
    PxScale::from(em as f32 * DEJAVU_SANS.height_unscaled() / units_per_em)
}

/// Each glyph of `text` with its place from the start of the text.
fn layout(text: &str, em: f64) -> (Vec<(GlyphId, f32)>, f32) {
    let font = DEJAVU_SANS.as_scaled(scale(em));
    let mut x = 0.0;
    let mut before: Option<GlyphId> = None;
    let mut glyphs = Vec::with_capacity(text.len());
    for letter in text.chars() {
        let glyph = font.glyph_id(letter);
        x += before.map_or(0.0, |before| font.kern(before, glyph));
        glyphs.push((glyph, x));
        x += font.h_advance(glyph);
        before = Some(glyph);
    }
    (glyphs, x)
}

/// Width of `text` set at `em`, in the unit of `em`.
pub(crate) fn width(text: &str, em: f64) -> f64 {
    f64::from(layout(text, em).1)
}

/// Whether the font has a glyph for `letter`.
#[cfg(test)]
pub(crate) fn has(letter: char) -> bool {
    DEJAVU_SANS.glyph_id(letter).0 != 0
}

/// Hands over every pixel that `text` covers, from its start on the baseline, with the share covered.
pub(crate) fn rasterise<E>(
    text: &str,
    em: f64,
    mut pixel: impl FnMut(i32, i32, f32) -> Result<(), E>,
) -> Result<(), E> {
    for (glyph, x) in layout(text, em).0 {
        let placed = glyph.with_scale_and_position(scale(em), point(x, 0.0));
        let Some(outline) = DEJAVU_SANS.outline_glyph(placed) else { continue };
        let corner = outline.px_bounds().min;
        let mut covered = Vec::new();
        outline.draw(|x, y, share| covered.push((x, y, share)));
        for (x, y, share) in covered {
            // Glyphs are a few hundred pixels wide and begin at whole pixels.
            let (x, y) = (corner.x as i32 + x as i32, corner.y as i32 + y as i32);
            pixel(x, y, share.clamp(0.0, 1.0))?;
        }
    }
    Ok(())
}

/// `text` if it is no wider than `limit`; else its beginning and end around an ellipsis.
pub(crate) fn elide(text: &str, em: f64, limit: f64) -> String {
    if width(text, em) <= limit {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    // Names differ at both ends: a family at the front, a size or a variant at the back.
    for kept in (2..letters.len()).rev() {
        let (front, back) = (kept.div_ceil(2), kept / 2);
        let short: String = letters[..front]
            .iter()
            .chain(['…'].iter())
            .chain(&letters[letters.len() - back..])
            .collect();
        if width(&short, em) <= limit {
            return short;
        }
    }
    "…".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_every_letter_that_figures_use() {
        for letter in "−×±%…·⁰¹²³⁴⁵⁶⁷⁸⁹⁻ρτ≤°µ".chars() {
            assert!(has(letter), "{letter}");
        }
    }

    #[test]
    fn a_text_is_as_wide_as_its_advances() {
        // DejaVu Sans: 2048 units an em, digits advance 1303 of them; 2·100·1303/2048 = 127.25.
        assert!((width("00", 100.0) - 127.25).abs() < 0.1, "{}", width("00", 100.0));
        assert_eq!(width("", 100.0), 0.0);
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let short = elide("Llama-3.1-Nemotron-Ultra-253B-v1", 10.0, 90.0);
        assert!(
            short.starts_with("Llama") && short.ends_with("v1") && short.contains('…'),
            "{short}"
        );
        assert!(width(&short, 10.0) <= 90.0);
        assert_eq!(elide("short", 10.0, 80.0), "short");
        assert_eq!(elide("ab", 10.0, 1.0), "…");
    }
}
