//! Two configurations side by side, and what may be said of the difference.

use wattrace_schema::{Flag, FlagSet, Reason};

use super::FEWEST_REPEATS;
use super::accuracy::AccuracyGateRow;
use super::measurement::RunMeasurement;
use super::resample::{draw, interval};
use super::sweep::{RatePoint, Spread, Sweep, by_rate};
use crate::outcome::Outcome;
use crate::stats::median;
use crate::stats::random::Stream;

/// One configuration with all that is compared.
#[derive(Debug, Clone)]
pub struct Subject<'run> {
    /// Its runs.
    pub sweep: &'run Sweep<'run>,
    /// Its accuracy, if a gate was set.
    pub accuracy: Option<&'run AccuracyGateRow>,
    /// Who makes the accelerators, by the spec.
    pub vendor: Option<&'run str>,
    /// Name of the accelerator, by the runs.
    pub accelerator: Option<&'run str>,
}

/// Comparisons that are made only when asked for, and labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed {
    /// Of reports with different specs.
    pub unequal_specs: bool,
    /// Of accelerators of different vendors.
    pub cross_vendor: bool,
}

/// Why two configurations are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// The specs differ, or there is none.
    #[error(
        "\"{first}\" and \"{second}\" were not measured under one spec ({first_hash} and {second_hash}); \
         allow unequal specs to compare them all the same, labelled so"
    )]
    UnequalSpecs {
        /// The reference.
        first: String,
        /// The other.
        second: String,
        /// Spec of the reference.
        first_hash: String,
        /// Spec of the other.
        second_hash: String,
    },
    /// The vendors differ, or are not known to be one.
    #[error(
        "\"{first}\" runs on {first_accelerator} and \"{second}\" on {second_accelerator}, which are not \
         known to be of one vendor; allow cross-vendor to compare them all the same, labelled so"
    )]
    CrossVendor {
        /// The reference.
        first: String,
        /// The other.
        second: String,
        /// Accelerator of the reference.
        first_accelerator: String,
        /// Accelerator of the other.
        second_accelerator: String,
    },
}

/// What may be said of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The configuration is better than the reference.
    Better,
    /// It is worse.
    Worse,
    /// The data do not say.
    Inconclusive,
}

impl Verdict {
    /// The name in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// The verdict on a difference of known sign, where more is better or worse.
    const fn of(more: bool, more_is_better: bool) -> Self {
        if more == more_is_better { Self::Better } else { Self::Worse }
    }
}

/// One side of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// Median over runs; for accuracy the score.
    pub median: Result<f64, Reason>,
    /// Smallest value of a run; for accuracy of a seed.
    pub low: Result<f64, Reason>,
    /// Largest value.
    pub high: Result<f64, Reason>,
    /// (max − min) / median.
    pub variance_band: Result<f64, Reason>,
    /// Runs, or seeds, behind it.
    pub n: usize,
}

/// One metric of one configuration against the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonRow {
    /// Hash of the reference's spec.
    pub reference_spec_hash: Option<String>,
    /// Hash of the configuration's spec.
    pub spec_hash: Option<String>,
    /// The reference.
    pub reference: Option<String>,
    /// The configuration.
    pub configuration: Option<String>,
    /// The metric.
    pub metric: &'static str,
    /// Whether a larger value is better.
    pub more_is_better: bool,
    /// Request rate at which each side was measured; `None` for accuracy.
    pub request_rates: Option<[Option<f64>; 2]>,
    /// The reference's side.
    pub reference_side: Side,
    /// The configuration's side.
    pub side: Side,
    /// Configuration minus reference, of medians.
    pub difference: Result<f64, Reason>,
    /// Lower end of its 95% bootstrap interval.
    pub ci_low: Result<f64, Reason>,
    /// Upper end.
    pub ci_high: Result<f64, Reason>,
    /// What may be said.
    pub verdict: Verdict,
    /// Why nothing may be said, where that is not for overlap alone.
    pub reason: Option<Reason>,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// Where a metric is read off.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// At each side's own goodput rate.
    OwnGoodputRate,
    /// At the reference's goodput rate on both sides: latencies of different rates say nothing of each
    /// other.
    ReferenceRate,
}

type Metric = (&'static str, bool, At, fn(&RunMeasurement) -> &Outcome);

const METRICS: [Metric; 4] = [
    ("goodput_tok_s", true, At::OwnGoodputRate, |run| &run.output_tok_s),
    ("tokens_per_joule", true, At::OwnGoodputRate, |run| &run.tokens_per_joule),
    ("ttft_p99_ms", false, At::ReferenceRate, |run| &run.ttft_p99_ms),
    ("tpot_p99_ms", false, At::ReferenceRate, |run| &run.tpot_p99_ms),
];

/// Compares a configuration with the reference, metric by metric, with intervals from `seed`.
///
/// A verdict is better or worse when both sides have five runs, the 95% bootstrap interval of the
/// difference of medians excludes zero, and each median lies outside the other side's band (a
/// bootstrap of five runs alone would be too sure of itself). Accuracy goes by the interval of its drop.
///
/// # Errors
/// [`Incomparable`] for unequal specs or different vendors, unless allowed.
pub fn compare(
    reference: &Subject<'_>,
    subject: &Subject<'_>,
    allowed: Allowed,
    seed: u64,
) -> Result<Vec<ComparisonRow>, Incomparable> {
    let flags = check_comparable(reference, subject, allowed)?;
    let mut rows: Vec<_> = METRICS
        .iter()
        .map(|metric| service_row(reference.sweep, subject.sweep, metric, seed))
        .collect();
    rows.extend(accuracy_row(reference.accuracy, subject.accuracy));
    for row in &mut rows {
        row.reference_spec_hash.clone_from(&reference.sweep.spec_hash);
        row.spec_hash.clone_from(&subject.sweep.spec_hash);
        row.reference.clone_from(&reference.sweep.configuration);
        row.configuration.clone_from(&subject.sweep.configuration);
        row.flags.extend(flags);
    }
    Ok(rows)
}

fn check_comparable(
    reference: &Subject<'_>,
    subject: &Subject<'_>,
    allowed: Allowed,
) -> Result<FlagSet, Incomparable> {
    let text = |text: Option<&str>| text.unwrap_or("none").to_owned();
    let name = |subject: &Subject<'_>| text(subject.sweep.configuration.as_deref());
    let hashes = [&reference.sweep.spec_hash, &subject.sweep.spec_hash];
    let one_spec = hashes[0].is_some() && hashes[0] == hashes[1];
    if !one_spec && !allowed.unequal_specs {
        return Err(Incomparable::UnequalSpecs {
            first: name(reference),
            second: name(subject),
            first_hash: text(hashes[0].as_deref()),
            second_hash: text(hashes[1].as_deref()),
        });
    }
    let one_accelerator =
        reference.accelerator.is_some() && reference.accelerator == subject.accelerator;
    let one_vendor = match (reference.vendor, subject.vendor) {
        (Some(first), Some(second)) => first.eq_ignore_ascii_case(second),
        _ => one_accelerator,
    };
    if !one_vendor && !allowed.cross_vendor {
        return Err(Incomparable::CrossVendor {
            first: name(reference),
            second: name(subject),
            first_accelerator: text(reference.accelerator),
            second_accelerator: text(subject.accelerator),
        });
    }
    let mut flags = FlagSet::EMPTY;
    flags.insert_if(!one_spec, Flag::UnequalSpecs);
    flags.insert_if(!one_vendor, Flag::CrossVendor);
    Ok(flags)
}

/// What both sides of a metric say.
struct Difference {
    sides: [Spread; 2],
    value: f64,
    interval: (f64, f64),
}

impl Difference {
    fn of(values: &[Vec<f64>; 2], seed: u64) -> Result<Self, Reason> {
        let spread = |values: &[f64]| Spread::of(values).ok_or(Reason::NoValues);
        let sides = [spread(&values[0])?, spread(&values[1])?];
        let redrawn = |values: &[f64], stream: &mut Stream| {
            let mut drawn = Vec::with_capacity(values.len());
            draw(values, stream, &mut drawn);
            median(&mut drawn).unwrap_or(f64::INFINITY)
        };
        let interval = interval(seed, |stream| {
            let first = redrawn(&values[0], stream);
            let second = redrawn(&values[1], stream);
            minus(second, first)
        });
        Ok(Self { sides, value: minus(sides[1].median, sides[0].median), interval })
    }

    /// Whether the configuration has more than the reference; `None` where the data do not say.
    fn has_more(&self) -> Option<bool> {
        let [reference, other] = &self.sides;
        let outside = |median: f64, band: &Spread| median < band.low || median > band.high;
        let apart = outside(reference.median, other) && outside(other.median, reference);
        let (low, high) = self.interval;
        match (low > 0.0, high < 0.0) {
            (true, _) if apart => Some(true),
            (_, true) if apart => Some(false),
            _ => None,
        }
    }
}

/// A difference of latencies, of which both may be without bound: then there is none.
fn minus(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { a - b }
}

fn service_row(
    reference: &Sweep<'_>,
    subject: &Sweep<'_>,
    metric: &Metric,
    seed: u64,
) -> ComparisonRow {
    let (name, more_is_better, at, of_run) = metric;
    let points = points(reference, subject, *at);
    let mut row = empty_row(name, *more_is_better);
    let points = match points {
        Ok(points) => points,
        Err(reason) => return without_verdict(row, reason),
    };
    row.request_rates = Some([points[0].request_rate, points[1].request_rate]);
    row.flags = points[0].flags().union(points[1].flags());
    let reasons = points.iter().find_map(|point| point.spread(of_run).err());
    let values = [points[0].values(of_run), points[1].values(of_run)];
    let difference = match Difference::of(&values, seed) {
        Ok(difference) => difference,
        Err(reason) => return without_verdict(row, reasons.unwrap_or(reason)),
    };
    row.reference_side = side(&difference.sides[0]);
    row.side = side(&difference.sides[1]);
    row.difference = bounded(difference.value);
    row.ci_low = bounded(difference.interval.0);
    row.ci_high = bounded(difference.interval.1);
    if difference.sides.iter().any(|side| side.n < FEWEST_REPEATS) {
        row.reason = Some(Reason::TooFewRepeats);
        return row;
    }
    let Some(has_more) = difference.has_more() else { return row };
    // A goodput at the end of its sweep is only known to be at least as high.
    let may_be_higher = if has_more { reference } else { subject };
    if *at == At::OwnGoodputRate && *name == METRICS[0].0 && is_at_end(may_be_higher) {
        row.reason = Some(Reason::SweepTooShort);
        return row;
    }
    row.verdict = Verdict::of(has_more, *more_is_better);
    row
}

fn is_at_end(sweep: &Sweep<'_>) -> bool {
    sweep.best_point().is_ok_and(|best| best + 1 == sweep.points.len())
}

/// The points at which both sides are read off.
fn points<'run>(
    reference: &'run Sweep<'run>,
    subject: &'run Sweep<'run>,
    at: At,
) -> Result<[&'run RatePoint<'run>; 2], Reason> {
    let first = &reference.points[reference.best_point()?];
    let second = match at {
        At::OwnGoodputRate => &subject.points[subject.best_point()?],
        At::ReferenceRate => subject
            .points
            .iter()
            .find(|point| by_rate(point.request_rate, first.request_rate).is_eq())
            .ok_or(Reason::NoCommonRate)?,
    };
    Ok([first, second])
}

fn bounded(value: f64) -> Result<f64, Reason> {
    if value.is_finite() { Ok(value) } else { Err(Reason::P99Unbounded) }
}

fn side(spread: &Spread) -> Side {
    Side {
        median: bounded(spread.median),
        low: bounded(spread.low),
        high: bounded(spread.high),
        variance_band: spread.variance_band(),
        n: spread.n,
    }
}

const fn missing_side(reason: Reason) -> Side {
    Side {
        median: Err(reason),
        low: Err(reason),
        high: Err(reason),
        variance_band: Err(reason),
        n: 0,
    }
}

fn empty_row(metric: &'static str, more_is_better: bool) -> ComparisonRow {
    ComparisonRow {
        reference_spec_hash: None,
        spec_hash: None,
        reference: None,
        configuration: None,
        metric,
        more_is_better,
        request_rates: None,
        reference_side: missing_side(Reason::NoValues),
        side: missing_side(Reason::NoValues),
        difference: Err(Reason::NoValues),
        ci_low: Err(Reason::NoValues),
        ci_high: Err(Reason::NoValues),
        verdict: Verdict::Inconclusive,
        reason: None,
        flags: FlagSet::EMPTY,
    }
}

fn without_verdict(row: ComparisonRow, reason: Reason) -> ComparisonRow {
    ComparisonRow {
        reference_side: missing_side(reason),
        side: missing_side(reason),
        difference: Err(reason),
        ci_low: Err(reason),
        ci_high: Err(reason),
        reason: Some(reason),
        ..row
    }
}

/// The score against the reference's, by the interval of the drop that the gate computed; `None`
/// without a gate.
fn accuracy_row(
    reference: Option<&AccuracyGateRow>,
    subject: Option<&AccuracyGateRow>,
) -> Option<ComparisonRow> {
    let subject = subject?;
    let row = ComparisonRow { flags: subject.flags, ..empty_row("accuracy_points", true) };
    let seeds = |gate: &AccuracyGateRow| {
        let points: Vec<f64> = gate.seed_scores.iter().map(|(_, points)| *points).collect();
        let spread = Spread::of(&points).ok_or(Reason::NoScores);
        Side {
            median: gate.score,
            low: spread.map(|spread| spread.low),
            high: spread.map(|spread| spread.high),
            variance_band: spread.and_then(|spread| spread.variance_band()),
            n: points.len(),
        }
    };
    let verdict = match (subject.ci_low, subject.ci_high) {
        (Ok(low), _) if low > 0.0 => Verdict::Worse,
        (_, Ok(high)) if high < 0.0 => Verdict::Better,
        _ => Verdict::Inconclusive,
    };
    let negative = |points: Result<f64, Reason>| points.map(|points| 0.0 - points);
    Some(ComparisonRow {
        reference_side: Side {
            median: subject.reference_score,
            ..reference.map_or(missing_side(Reason::NoReference), seeds)
        },
        side: seeds(subject),
        difference: negative(subject.drop_points),
        ci_low: negative(subject.ci_high),
        ci_high: negative(subject.ci_low),
        verdict,
        reason: subject.drop_points.err(),
        ..row
    })
}
