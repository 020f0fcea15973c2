//! From shapes to SVG text and PNG bytes, both through the backends of plotters.

pub(crate) mod axis;
pub(crate) mod font;
mod output;
pub(crate) mod page;
pub(crate) mod panel;
mod png;
mod raster;
pub(crate) mod scene;
pub(crate) mod style;

pub use output::Drawing;
