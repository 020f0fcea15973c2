//! Tables that people read: what `analyze`, `fit`, `rank`, `explain` and the commands of spec-driven
//! reports print.
//!
//! Columns that say the same in every row move into the caption, columns without any value into the
//! notes below, and columns that do not fit the width are named there. A missing value is `–`, and the
//! notes say why.

mod explain;
mod fits;
mod grid;
mod number;
mod rank;
mod runs;
mod service;
mod wrap;

pub use explain::{explanation, metric_list};
pub use fits::fits_overview;
pub(crate) use grid::Entry;
pub use number::significant;
pub use rank::ranking_overview;
pub use runs::runs_overview;
pub use service::{capacity_overview, comparison_overview, coverage_overview, goodput_overview};
pub(crate) use wrap::{few, printable};

/// How wide, how long and how colourful text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Characters of a line.
    pub width: usize,
    /// Rows of a table before the rest is only counted.
    pub max_rows: usize,
    /// Whether to use terminal colours.
    pub colour: bool,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { width: 100, max_rows: 60, colour: false }
    }
}
