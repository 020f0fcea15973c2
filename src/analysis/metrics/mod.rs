//! The metrics of a run: one family a file, one list of all of them.
//!
//! A family declares its metrics with `declare!` and fills them in one function; [`catalogue`] lists
//! them in the order in which they stand in result tables.

mod amortisation;
mod attribution;
mod claims;
mod decode;
mod device_energy;
mod energy;
mod latency;
mod node;
mod recipe;
mod release;
mod requests;
mod steady;
mod timeline;
mod windows;

use wattrace_schema::{Flag, FlagSet, Interval, Reason, Run, RunKind};

use crate::options::Options;
use crate::outcome::{Metric, Outcome};
use crate::series::{self, DeviceSet, StageEnergy};

pub use amortisation::Amortisation;
pub(crate) use attribution::TokenTimes;
pub use attribution::{Attribution, RequestEnergy};
pub use claims::ClaimComparison;
pub(crate) use claims::claimed_token_rate;
#[cfg(test)]
pub(crate) use decode::tests as decode_tests;
pub(crate) use decode::{BYTES_PER_GB, Place, place};
pub use decode::{StepTiming, step_timings};
pub use device_energy::{DeviceEnergy, Stage};
pub use recipe::{Recipe, RowsRule, recipe};
pub(crate) use requests::{tpot_ms, ttft_ms};
pub use timeline::{StageWindow, TIMELINE_BINS, Timeline, timeline};

/// Version of the definitions: raised whenever a published number could change.
pub const DEFINITIONS_VERSION: u32 = 1;

/// Declares the metrics of a family: a constant each, and the list `METRICS`.
macro_rules! declare {
    ($($constant:ident $name:literal $kind:ident $unit:ident $boundary:ident $source:expr, $definition:expr;)+) => {
        $(pub(crate) const $constant: crate::Metric = crate::Metric {
            name: $name,
            unit: wattrace_schema::Unit::$unit,
            kind: crate::ValueKind::$kind,
            boundary: crate::Boundary::$boundary,
            definition: $definition,
            source: $source,
        };)+

        /// The metrics of this family.
        pub(super) const METRICS: &[crate::Metric] = &[$($constant,)+];
    };
}
use declare;

/// Where most definitions come from.
const BENCHMARK: &str = "Benchmark 1.5 serving lifecycle";
/// Definitions of our own, for cross-checks.
const PROJECT: &str = "Wattrace";

const FAMILIES: &[&[Metric]] = &[
    energy::METRICS,
    steady::METRICS,
    release::METRICS,
    requests::METRICS,
    &latency::TTFT,
    &latency::TPOT,
    &latency::ITL,
    &latency::E2E,
    amortisation::METRICS,
    node::METRICS,
    decode::METRICS,
];

/// Every metric of a run, in the order of result tables.
#[must_use]
pub fn catalogue() -> Vec<Metric> {
    FAMILIES.iter().flat_map(|family| family.iter().copied()).collect()
}

/// The outcomes of one run, one for each metric of the [`catalogue`].
#[derive(Debug, Clone)]
pub struct MetricRow {
    metrics: Vec<Metric>,
    outcomes: Vec<Option<Outcome>>,
    device_energies: Vec<DeviceEnergy>,
}

impl MetricRow {
    fn new() -> Self {
        let metrics = catalogue();
        let outcomes = vec![None; metrics.len()];
        Self { metrics, outcomes, device_energies: Vec::new() }
    }

    /// A row in which every metric is missing for one reason.
    #[must_use]
    pub fn missing(reason: Reason) -> Self {
        let mut row = Self::new();
        row.fill_missing(reason);
        row
    }

    fn fill_missing(&mut self, reason: Reason) {
        for outcome in &mut self.outcomes {
            outcome.get_or_insert_with(|| Outcome::missing(reason));
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }

    pub(crate) fn set(&mut self, metric: &Metric, outcome: Outcome) {
        let position = self.position(metric.name);
        // Every metric is declared through `declare!` in a family that stands in FAMILIES.
        let position = position.expect("a family that sets a metric is listed in FAMILIES");
        self.outcomes[position] = Some(outcome);
    }

    /// The outcome of the metric of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Outcome> {
        self.position(name).and_then(|position| self.outcomes[position].as_ref())
    }

    /// A metric by name: its value, or why there is none, and its flags.
    pub(crate) fn value_and_flags(&self, name: &str) -> Option<(Result<f64, Reason>, FlagSet)> {
        self.get(name).map(|outcome| (outcome.as_f64(), outcome.flags))
    }

    /// The outcome of a declared metric; `not-applicable` if it was not filled.
    fn outcome(&self, metric: &Metric) -> Outcome {
        self.get(metric.name).copied().unwrap_or(Outcome::missing(Reason::NotApplicable))
    }

    fn find(&self, name: &str) -> Option<(&Metric, &Outcome)> {
        let position = self.position(name)?;
        Some((&self.metrics[position], self.outcomes[position].as_ref()?))
    }

    /// Keeps what each device contributes to a stage's energy, by both methods.
    fn record(&mut self, stage: Stage, energy: &StageEnergy) {
        self.device_energies.extend(DeviceEnergy::of_stage(stage, energy));
    }

    /// What each device contributes to each energy, stage by stage.
    #[must_use]
    pub fn device_energies(&self) -> &[DeviceEnergy] {
        &self.device_energies
    }

    /// Metrics and outcomes in catalogue order.
    pub fn iter(&self) -> impl Iterator<Item = (&Metric, &Outcome)> {
        self.metrics
            .iter()
            .zip(&self.outcomes)
            .filter_map(|(metric, outcome)| Some((metric, outcome.as_ref()?)))
    }

    /// Every flag of every metric.
    #[must_use]
    pub fn flags(&self) -> FlagSet {
        self.iter().fold(FlagSet::EMPTY, |flags, (_, outcome)| flags.union(outcome.flags))
    }
}

/// Everything that one run gives.
#[derive(Debug, Clone)]
pub struct RunAnalysis {
    /// One outcome a metric.
    pub metrics: MetricRow,
    /// Energy of each successful formal request, in the order of their ends, or why there is none.
    pub requests: Result<Vec<RequestEnergy>, Reason>,
    /// Published values beside the recomputed ones.
    pub claims: Vec<ClaimComparison>,
    /// Flags of the run: those of its metrics, and whether it is synthetic.
    pub flags: FlagSet,
}

/// What every family needs: the run, the options, the windows and the energies over them.
struct Context<'run> {
    run: &'run Run,
    options: &'run Options,
    accelerators: Result<DeviceSet<'run>, Reason>,
    formal: Result<Interval, Reason>,
    formal_energy: StageEnergy,
    log: requests::RequestLog,
}

/// Computes every metric of a run.
#[must_use]
pub fn analyze(run: &Run, options: &Options) -> RunAnalysis {
    let mut row = MetricRow::new();
    let requests = match run.manifest.kind {
        RunKind::Serving => analyze_serving(run, options, &mut row),
        RunKind::Decode => {
            decode::fill(run, &mut row);
            Err(Reason::NotApplicable)
        }
        RunKind::Summary => {
            decode::fill_claimed(&run.manifest, &mut row);
            Err(Reason::SummaryOnly)
        }
    };
    row.fill_missing(not_served(run.manifest.kind));
    let claims = claims::compare(&run.manifest.claims, &row);
    let mut flags = row.flags();
    flags.insert_if(run.manifest.synthetic, Flag::Synthetic);
    RunAnalysis { metrics: row, requests, claims, flags }
}

const fn not_served(kind: RunKind) -> Reason {
    match kind {
        RunKind::Summary => Reason::SummaryOnly,
        RunKind::Serving | RunKind::Decode => Reason::NotApplicable,
    }
}

fn analyze_serving(
    run: &Run,
    options: &Options,
    row: &mut MetricRow,
) -> Result<Vec<RequestEnergy>, Reason> {
    let accelerators = series::accelerators(run);
    let formal = windows::formal(&run.manifest.stages);
    let formal_energy = energy::formal_energy(run, &accelerators, formal);
    let context = Context {
        run,
        options,
        accelerators,
        formal,
        formal_energy,
        log: requests::RequestLog::of(run),
    };
    requests::fill(&context, row);
    latency::fill(&context, row);
    let release = release::fill(&context, row);
    energy::fill(&context, release, row);
    node::fill(&context, row);
    let attribution = attribution::attribute(&context);
    energy::fill_unattributed(&context, &attribution, row);
    let requests = steady::fill(&context, attribution, row);
    amortisation::fill(row);
    requests
}

#[cfg(test)]
mod tests;
