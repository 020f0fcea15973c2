//! Statistics: samples, linear models with their errors, resampling, ranks.
//!
//! Everything here is a function of slices. A value that cannot be had is an error with a
//! [`Reason`](wattrace_schema::Reason), never a NaN; whatever is random takes a seed, and equal
//! seeds give equal numbers on any count of threads.

mod covariance;
mod design;
mod double_double;
mod estimate;
#[cfg(test)]
mod known_answers;
mod linear;

pub use covariance::ClusterRobust;
pub use design::{Design, FitFailure, MAGNITUDE_LIMIT, Term};
pub use estimate::{CONFIDENCE_LEVEL, Estimate, t_critical};
pub use linear::{
    CONDITION_LIMIT, FEW_CLUSTERS, InformationCriteria, LinearFit, Prediction, least_squares,
};
pub mod sample;
