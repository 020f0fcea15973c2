//! Every figure over many shapes of data.

use std::collections::BTreeSet;

use super::cases;
use super::*;
use crate::draw::font;
use crate::draw::scene::WIDTH;

/// A text element of an SVG and the box that its letters fill.
#[derive(Debug, Clone)]
struct TextBox {
    text: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The value of an attribute in the opening tag of an element.
fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let start = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
    &tag[start..start + tag[start..].find('"').unwrap()]
}

fn text_boxes(svg: &str) -> Vec<TextBox> {
    svg.split("<text")
        .skip(1)
        .map(|element| {
            let (tag, rest) = element.split_once(">\n").unwrap();
            let text = rest.split_once("\n</text>").unwrap().0;
            let text = text.replace("&apos;", "'").replace("&quot;", "\"").replace("&lt;", "<");
            let text = text.replace("&gt;", ">").replace("&amp;", "&");
            let number = |name: &str| attribute(tag, name).parse::<f64>().unwrap();
            let (x, em) = (number("x"), number("font-size"));
            assert_eq!(attribute(tag, "dy"), "0.76em");
            let baseline = number("y") + 0.76 * em;
            let width = font::width(&text, em);
            let left = match attribute(tag, "text-anchor") {
                "start" => x,
                "middle" => x - width / 2.0,
                "end" => x - width,
                other => panic!("{other}"),
            };
            // Capitals and digits reach 0.72 em up, descenders 0.22 em down.
            let (top, bottom) = (baseline - 0.72 * em, baseline + 0.22 * em);
            TextBox { text, left, right: left + width, top, bottom }
        })
        .collect()
}

fn overlap(a: &TextBox, b: &TextBox) -> bool {
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

#[test]
fn no_two_texts_overlap_and_none_leaves_the_figure() {
    for (case, figure) in cases::all() {
        let drawing = figure.draw().unwrap();
        let boxes = text_boxes(&drawing.to_svg());
        assert!(boxes.len() > 3, "{case}");
        let height = drawing.height_mm() * 40.0;
        for (index, text) in boxes.iter().enumerate() {
            assert!(text.left >= 0.0 && text.right <= WIDTH, "{case}: {text:?}");
            assert!(text.top >= 0.0 && text.bottom <= height, "{case}: {text:?}");
            for other in &boxes[..index] {
                assert!(!overlap(text, other), "{case}: {text:?} and {other:?}");
            }
        }
    }
}

// SCRATCH
#[test]
#[allow(clippy::disallowed_methods)]
fn scratch_write() {
    for (case, figure) in cases::all() {
        let drawing = figure.draw().unwrap();
        std::fs::write(format!("/tmp/figures/out/{case}.png"), drawing.to_png().unwrap()).unwrap();
        std::fs::write(format!("/tmp/figures/out/{case}.svg"), drawing.to_svg()).unwrap();
    }
}
