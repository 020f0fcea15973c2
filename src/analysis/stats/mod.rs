//! Statistics: samples, linear models with their errors, resampling, ranks.
//!
//! Everything here is a function of slices. A value that cannot be had is an error with a
//! [`Reason`](wattrace_schema::Reason), never a NaN; whatever is random takes a seed, and equal
//! seeds give equal numbers on any count of threads.

mod bootstrap;
mod covariance;
#[cfg(test)]
mod coverage;
mod design;
mod double_double;
mod estimate;
mod factor;
#[cfg(test)]
mod known_answers;
mod linear;
mod nested;
mod nonnegative;
pub(crate) mod random;
mod rank;
mod robust;
mod sample;

pub use bootstrap::{Resamples, cell_bootstrap};
pub use covariance::ClusterRobust;
pub use design::{Design, FitFailure, MAGNITUDE_LIMIT, Term};
pub use estimate::{CONFIDENCE_LEVEL, Estimate, t_critical};
pub use linear::{
    CONDITION_LIMIT, FEW_CLUSTERS, InformationCriteria, LinearFit, Prediction, least_squares,
};
pub use nested::{FTest, nested_f_test};
pub use nonnegative::{NonNegativeFit, non_negative_least_squares};
pub use rank::{
    EXACT_LIMIT, FEWEST_PAIRS, PValueMethod, RankAgreement, average_ranks, rank_agreement,
};
pub use robust::{HUBER_THRESHOLD, RobustFit, huber};
pub use sample::{Moments, mean, median, percentile, percentiles, population_std, sample_std};
