//! Pure computation of every metric from the rows of a run.
//!
//! Nothing here reads files, the environment or the clock (a lint sees to it): a result is a function
//! of the rows and the options.

pub mod metrics;
pub mod model;
mod options;
mod outcome;
pub mod ranking;
pub mod series;
pub mod service;
pub mod stats;
#[cfg(test)]
mod test_run;

pub use options::{Options, ServiceLevel, SteadyRule, SteadyWindows};
pub use outcome::{Boundary, Evidence, Metric, Outcome, Value, ValueKind};
