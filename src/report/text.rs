//! Tables that people read.
