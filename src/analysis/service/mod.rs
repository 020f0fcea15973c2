//! Spec-driven reports (metrics definition, section 3): what a service delivers inside its objectives,
//! per second, per joule and per card, and what nobody measured.
//!
//! The way from runs to a report:
//!
//! 1. [`measure`] reduces each [`Run`](wattrace_schema::Run) to one [`RunMeasurement`] over the window
//!    that its [`ServiceRules`] name.
//! 2. [`sweeps`] groups the measurements by spec and configuration; [`Sweep::rows`] gives a row a
//!    request rate and [`Sweep::goodput`] the one row that counts.
//! 3. [`accuracy_gate`], [`capacity()`] and [`compare()`] judge the configurations.
//! 4. [`coverage()`] and [`accelerator_health`] say what stands behind them.
//!
//! [`analyze_service`] goes the whole way for the runs of an archive.

mod accuracy;
mod archive;
mod capacity;
mod compare;
mod coverage;
mod engine_estimate;
mod goodput;
mod health;
mod measurement;
mod resample;
mod rules;
mod subject;
mod sweep;
mod traffic;

pub use accuracy::{AccuracyGateRow, AccuracyReference, AccuracyRule, Scores, accuracy_gate};
pub use archive::{
    Comparisons, ServiceAnalysis, ServiceOptions, SpecSummary, analyze_service, comparisons,
};
pub use capacity::{Candidate, CapacityRow, capacity, cards_needed};
pub use compare::{Allowed, ComparisonRow, Incomparable, Side, Subject, Verdict, compare};
pub use coverage::{CoverageRow, RunConditions, coverage};
pub use engine_estimate::ENGINE_METRICS;
pub use goodput::GoodputRow;
pub use health::{HealthRow, accelerator_health};
pub use measurement::{RunMeasurement, measure};
pub use resample::RESAMPLES;
pub use rules::{Objective, ServiceRules, WindowRule};
pub use subject::{RunOrigin, ServiceRun, SpecOrigin};
pub use sweep::{MemorySummary, RatePoint, Spread, Sweep, SweepRow, sweeps};
pub use traffic::{MemoryTraffic, memory_traffic};

/// Runs below which a configuration is flagged: five, by the definition of repeats.
pub const FEWEST_REPEATS: usize = 5;

#[cfg(test)]
mod tests;
