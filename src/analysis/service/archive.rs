//! Every table of the spec-driven reports over the runs of an archive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wattrace_schema::Reason;
use wattrace_schema::spec::LockedSpec;

use super::accuracy::{AccuracyGateRow, AccuracyRule, Scores, accuracy_gate};
use super::capacity::{Candidate, CapacityRow, capacity};
use super::compare::{Allowed, ComparisonRow, Incomparable, Subject, compare};
use super::coverage::{CoverageRow, coverage};
use super::goodput::GoodputRow;
use super::measurement::RunMeasurement;
use super::subject::ServiceRun;
use super::sweep::{Sweep, SweepRow, sweeps};

/// Configuration that the others are held against where the spec names none.
const USUAL_REFERENCE: &str = "production";

/// What the tables depend on besides the runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceOptions {
    /// Seed of the bootstrap intervals.
    pub seed: u64,
    /// Cards of the fleet whose capacity is reckoned.
    pub cards: u64,
    /// Configuration that the others are held against; absent: what the spec names, else `production`.
    pub reference: Option<String>,
    /// Comparisons that are made though they should not be.
    pub allowed: Allowed,
}

/// One spec and its share of the runs.
#[derive(Debug, Clone)]
pub struct SpecSummary {
    /// The spec.
    pub spec: Arc<LockedSpec>,
    /// Its runs.
    pub n_runs: usize,
    /// Configuration that the others are held against.
    pub reference: Option<String>,
}

/// Every table, each in the order of specs, then configurations.
#[derive(Debug, Clone, Default)]
pub struct ServiceAnalysis {
    /// The specs, in the order of their hashes.
    pub specs: Vec<SpecSummary>,
    /// The runs, in the order of spec, configuration, rate and id.
    pub runs: Vec<ServiceRun>,
    /// One row a configuration and request rate.
    pub sweep: Vec<SweepRow>,
    /// One row a configuration.
    pub goodput: Vec<GoodputRow>,
    /// One row a configuration under a spec that sets a gate.
    pub accuracy: Vec<AccuracyGateRow>,
    /// One row a configuration.
    pub capacity: Vec<CapacityRow>,
    /// One row a configuration and metric, against the reference.
    pub comparison: Vec<ComparisonRow>,
    /// One row a dimension of each spec.
    pub coverage: Vec<CoverageRow>,
    /// Why other configurations were not compared.
    pub refused: Vec<Incomparable>,
    /// What a reader must know of the inputs.
    pub warnings: Vec<String>,
}

/// Computes every table. The order of `runs` does not matter.
#[must_use]
pub fn analyze_service(mut runs: Vec<ServiceRun>, options: &ServiceOptions) -> ServiceAnalysis {
    runs.sort_by(|a, b| in_order(&a.measurement, &b.measurement));
    let measurements: Vec<RunMeasurement> =
        runs.iter().map(|run| run.measurement.clone()).collect();
    let sweeps = sweeps(&measurements);
    let specs = summaries(&runs, options.reference.as_deref());
    let accuracy = gates(&runs, &specs, options.seed);
    let goodput: Vec<_> = sweeps.iter().map(|sweep| sweep.goodput(options.seed)).collect();
    let compared = comparisons(&runs, &sweeps, &accuracy, options);
    ServiceAnalysis {
        sweep: sweeps.iter().flat_map(Sweep::rows).collect(),
        capacity: fleets(&goodput, &accuracy, &specs, options),
        comparison: compared.rows,
        refused: compared.refused,
        coverage: specs.iter().flat_map(|summary| covered(&runs, &summary.spec)).collect(),
        warnings: warnings(&runs, &sweeps),
        goodput,
        accuracy,
        specs,
        runs,
    }
}

fn in_order(a: &RunMeasurement, b: &RunMeasurement) -> std::cmp::Ordering {
    let key = |run: &RunMeasurement| (run.rules.spec_hash.clone(), run.configuration.clone());
    key(a)
        .cmp(&key(b))
        .then_with(|| super::sweep::by_rate(a.request_rate, b.request_rate))
        .then_with(|| a.run_id.cmp(&b.run_id))
}

/// The runs of one spec, or those without any.
fn of_spec<'run>(
    runs: &'run [ServiceRun],
    spec_hash: Option<&'run str>,
) -> impl Iterator<Item = &'run ServiceRun> {
    runs.iter().filter(move |run| run.measurement.rules.spec_hash.as_deref() == spec_hash)
}

fn summaries(runs: &[ServiceRun], asked_for: Option<&str>) -> Vec<SpecSummary> {
    let specs: BTreeMap<&str, &Arc<LockedSpec>> = runs
        .iter()
        .filter_map(|run| run.spec.as_ref().map(|(spec, _)| (spec.hash(), spec)))
        .collect();
    specs
        .into_iter()
        .map(|(hash, spec)| {
            let configurations: BTreeSet<&str> = of_spec(runs, Some(hash))
                .filter_map(|run| run.measurement.configuration.as_deref())
                .collect();
            let fields = spec.fields();
            let named = fields
                .runs
                .reference
                .as_deref()
                .or_else(|| fields.accuracy.as_ref()?.reference_configuration.as_deref());
            let usual = configurations.contains(USUAL_REFERENCE).then_some(USUAL_REFERENCE);
            SpecSummary {
                spec: Arc::clone(spec),
                n_runs: of_spec(runs, Some(hash)).count(),
                reference: asked_for.or(named).or(usual).map(str::to_owned),
            }
        })
        .collect()
}

/// The accuracy gate of every spec that sets one.
fn gates(runs: &[ServiceRun], specs: &[SpecSummary], seed: u64) -> Vec<AccuracyGateRow> {
    let of_one = |summary: &SpecSummary| {
        let rule = AccuracyRule::of(summary.spec.fields().accuracy.as_ref()?).ok()?;
        let mut scores: BTreeMap<Option<String>, Vec<_>> = BTreeMap::new();
        for run in of_spec(runs, Some(summary.spec.hash())) {
            let rows = scores.entry(run.measurement.configuration.clone()).or_default();
            rows.extend(&run.accuracy);
        }
        let scores: Vec<_> = scores
            .into_iter()
            .map(|(configuration, rows)| Scores { configuration, rows })
            .collect();
        Some(accuracy_gate(&rule, Some(summary.spec.hash()), &scores, seed))
    };
    specs.iter().filter_map(of_one).flatten().collect()
}

/// Capacity within each spec. Configurations without a spec have no goodput to reckon with.
fn fleets(
    goodput: &[GoodputRow],
    gates: &[AccuracyGateRow],
    specs: &[SpecSummary],
    options: &ServiceOptions,
) -> Vec<CapacityRow> {
    specs
        .iter()
        .flat_map(|summary| {
            let candidates: Vec<_> = goodput
                .iter()
                .filter(|row| row.spec_hash.as_deref() == Some(summary.spec.hash()))
                .map(|row| Candidate::of(row, gates))
                .collect();
            capacity(options.cards, summary.reference.as_deref(), &candidates)
        })
        .collect()
}

fn covered(runs: &[ServiceRun], spec: &LockedSpec) -> Vec<CoverageRow> {
    let conditions: Vec<_> =
        of_spec(runs, Some(spec.hash())).map(|run| run.measurement.conditions.clone()).collect();
    coverage(Some(spec.hash()), spec.fields(), &conditions)
}

/// Comparisons that were made, and those that were refused.
#[derive(Debug, Clone, Default)]
pub struct Comparisons {
    /// One row a configuration and metric.
    pub rows: Vec<ComparisonRow>,
    /// Why the other configurations have none.
    pub refused: Vec<Incomparable>,
}

/// Compares every configuration with the reference of its spec, or, where comparing across specs is
/// allowed or the spec has no reference, with the first reference there is.
#[must_use]
pub fn comparisons(
    runs: &[ServiceRun],
    sweeps: &[Sweep<'_>],
    gates: &[AccuracyGateRow],
    options: &ServiceOptions,
) -> Comparisons {
    let specs = summaries(runs, options.reference.as_deref());
    let subjects: Vec<_> = sweeps.iter().map(|sweep| subject(sweep, runs, &specs, gates)).collect();
    let is_reference = |index: usize| {
        let sweep = subjects[index].sweep;
        let named = specs
            .iter()
            .find(|summary| Some(summary.spec.hash()) == sweep.spec_hash.as_deref())
            .map_or(options.reference.as_deref(), |summary| summary.reference.as_deref());
        named.is_some() && sweep.configuration.as_deref() == named
    };
    let references: Vec<usize> = (0..subjects.len()).filter(|index| is_reference(*index)).collect();
    let first = references.first().copied();
    let mut made = Comparisons::default();
    for (index, candidate) in subjects.iter().enumerate() {
        let own = references.iter().copied().find(|reference| {
            subjects[*reference].sweep.spec_hash == candidate.sweep.spec_hash
                && candidate.sweep.spec_hash.is_some()
        });
        let reference = if options.allowed.unequal_specs { first } else { own.or(first) };
        let Some(reference) = reference.filter(|reference| *reference != index) else { continue };
        match compare(&subjects[reference], candidate, options.allowed, options.seed) {
            Ok(rows) => made.rows.extend(rows),
            Err(refused) => made.refused.push(refused),
        }
    }
    made
}

fn subject<'run>(
    sweep: &'run Sweep<'run>,
    runs: &'run [ServiceRun],
    specs: &'run [SpecSummary],
    gates: &'run [AccuracyGateRow],
) -> Subject<'run> {
    let of_sweep = |spec_hash: &Option<String>, configuration: &Option<String>| {
        *spec_hash == sweep.spec_hash && *configuration == sweep.configuration
    };
    let run = runs.iter().find(|run| {
        of_sweep(&run.measurement.rules.spec_hash, &run.measurement.configuration)
            && run.measurement.hardware == sweep.hardware
    });
    Subject {
        sweep,
        accuracy: gates.iter().find(|gate| of_sweep(&gate.spec_hash, &gate.configuration)),
        vendor: specs
            .iter()
            .find(|summary| Some(summary.spec.hash()) == sweep.spec_hash.as_deref())
            .map(|summary| summary.spec.fields().hardware.vendor.as_str()),
        accelerator: run.map(|run| run.origin.accelerator.as_str()),
    }
}

/// Inputs that cannot be right, or that do not belong together.
fn warnings(runs: &[ServiceRun], sweeps: &[Sweep<'_>]) -> Vec<String> {
    let impossible = runs.iter().filter_map(|run| {
        let measured = &run.measurement;
        let above_one = measured.mbu.value == Err(Reason::MbuAboveOne);
        let traffic = measured.traffic.as_ref().ok().filter(|_| above_one)?;
        Some(format!("run \"{}\" memory bandwidth utilisation: {traffic}", measured.run_id))
    });
    let mixed = sweeps.iter().filter(|sweep| sweep.is_mixed()).map(|sweep| {
        format!(
            "configuration \"{}\" mixes runs of different models or hardware under one spec; \
             expected one of each",
            sweep.configuration.as_deref().unwrap_or_default()
        )
    });
    impossible.chain(mixed).collect()
}
