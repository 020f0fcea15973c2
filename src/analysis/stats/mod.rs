//! Statistics.
pub mod sample;
