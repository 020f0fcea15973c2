//! The accuracy gate: does a configuration answer as well as the reference?

use std::collections::{BTreeMap, BTreeSet};

use wattrace_schema::spec::AccuracySpec;
use wattrace_schema::{AccuracyRow, Flag, FlagSet, Reason};

use super::resample::interval;
use crate::stats::mean;
use crate::stats::random::Stream;

/// Points of a suite in which every item is right.
const FULL_POINTS: f64 = 100.0;
/// Points by which rounding may carry a drop over its threshold: sums of a million scores stay within.
const ROUNDING_POINTS: f64 = 1e-9;

/// What the configurations are held against.
#[derive(Debug, Clone, PartialEq)]
pub enum AccuracyReference {
    /// A published score, points.
    Score(f64),
    /// The measured score of a configuration.
    Configuration(String),
}

/// The gate that a spec sets.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyRule {
    /// The suite.
    pub suite: String,
    /// Seeds that count; scores under others are left aside.
    pub seeds: BTreeSet<u32>,
    /// What the configurations are held against.
    pub reference: AccuracyReference,
    /// Largest drop that passes, points.
    pub max_drop_points: f64,
    /// Score of an item that is wholly right.
    pub full_score: f64,
}

impl AccuracyRule {
    /// The gate of a spec.
    ///
    /// # Errors
    /// [`Reason::NoReference`] for one that has not been read from text, where this is checked.
    pub fn of(spec: &AccuracySpec) -> Result<Self, Reason> {
        let reference = match (&spec.reference_configuration, spec.reference_score_points) {
            (Some(name), _) => AccuracyReference::Configuration(name.clone()),
            (None, Some(points)) => AccuracyReference::Score(points.get()),
            (None, None) => return Err(Reason::NoReference),
        };
        Ok(Self {
            suite: spec.suite.clone(),
            seeds: spec.seeds.iter().copied().collect(),
            reference,
            max_drop_points: spec.max_drop_points.get(),
            full_score: spec.full_score.map_or(1.0, |score| score.get()),
        })
    }
}

/// All scores of one configuration, from any of its runs.
#[derive(Debug, Clone)]
pub struct Scores<'run> {
    /// What is compared.
    pub configuration: Option<String>,
    /// The rows, of any suite.
    pub rows: Vec<&'run AccuracyRow>,
}

/// The gate applied to one configuration; scores and drops in points.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyGateRow {
    /// Hash of the spec.
    pub spec_hash: Option<String>,
    /// What is compared.
    pub configuration: Option<String>,
    /// The suite.
    pub suite: String,
    /// Mean over seeds of the reference's mean score, or the published score.
    pub reference_score: Result<f64, Reason>,
    /// Mean over seeds of the mean score.
    pub score: Result<f64, Reason>,
    /// Mean score under each seed.
    pub seed_scores: Vec<(u32, f64)>,
    /// Reference minus configuration.
    pub drop_points: Result<f64, Reason>,
    /// Lower end of the 95% bootstrap interval of the drop.
    pub ci_low: Result<f64, Reason>,
    /// Upper end.
    pub ci_high: Result<f64, Reason>,
    /// Largest minus smallest score of a seed.
    pub seed_spread: Result<f64, Reason>,
    /// Largest drop that passes.
    pub max_drop_points: f64,
    /// Whether the drop is not above it.
    pub passes: Result<bool, Reason>,
    /// Items behind the scores.
    pub n_items: usize,
    /// Seeds behind them.
    pub n_seeds: usize,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// Applies the gate to every configuration, with intervals from `seed`.
///
/// Only items with a score under each of a side's seeds count, and with a measured reference only those
/// that both sides have. The interval redraws items, the same ones on both sides (paired), and seeds:
/// the same ones where both sides have the same, else apart.
#[must_use]
pub fn accuracy_gate(
    rule: &AccuracyRule,
    spec_hash: Option<&str>,
    configurations: &[Scores<'_>],
    seed: u64,
) -> Vec<AccuracyGateRow> {
    let reference = match &rule.reference {
        AccuracyReference::Score(points) => Ok(Reference::Score(*points)),
        AccuracyReference::Configuration(name) => configurations
            .iter()
            .find(|scores| scores.configuration.as_ref() == Some(name))
            .ok_or(Reason::NoReference)
            .and_then(|scores| Ok(Reference::Measured(Items::of(rule, &scores.rows)?))),
    };
    configurations
        .iter()
        .map(|scores| {
            let compared = compare(rule, &reference, &scores.rows, seed);
            let mut row = match compared {
                Ok(compared) => compared.row(rule),
                Err(reason) => missing(rule, reason),
            };
            row.spec_hash = spec_hash.map(str::to_owned);
            row.configuration.clone_from(&scores.configuration);
            row
        })
        .collect()
}

enum Reference {
    Score(f64),
    Measured(Items),
}

/// Score of every complete item, points, by item and seed.
#[derive(Clone)]
struct Items {
    seeds: Vec<u32>,
    /// One entry a seed, in the order of `seeds`.
    points: BTreeMap<String, Vec<f64>>,
    /// Whether an item lacked a score under a seed.
    incomplete: bool,
}

impl Items {
    /// Scores of the suite under the rule's seeds; several scores of one item and seed (from several
    /// runs) are averaged.
    fn of(rule: &AccuracyRule, rows: &[&AccuracyRow]) -> Result<Self, Reason> {
        let mut cells: BTreeMap<&str, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        let mut seeds = BTreeSet::new();
        for row in
            rows.iter().filter(|row| row.suite == rule.suite && rule.seeds.contains(&row.seed))
        {
            let cell = cells.entry(&row.item).or_default().entry(row.seed).or_default();
            cell.extend(row.score.filter(|score| score.is_finite()));
            seeds.insert(row.seed);
        }
        let found = cells.len();
        let points: BTreeMap<String, Vec<f64>> = cells
            .into_iter()
            .filter_map(|(item, by_seed)| {
                let of_seed = |seed| {
                    let score = mean(by_seed.get(seed)?)?;
                    Some(score / rule.full_score * FULL_POINTS)
                };
                Some((item.to_owned(), seeds.iter().map(of_seed).collect::<Option<_>>()?))
            })
            .collect();
        if points.is_empty() {
            return Err(Reason::NoScores);
        }
        let incomplete = points.len() < found;
        Ok(Self { seeds: seeds.into_iter().collect(), points, incomplete })
    }

    /// Keeps only the items that `other` has too.
    fn keep_shared(&mut self, other: &Self) {
        let before = self.points.len();
        self.points.retain(|item, _| other.points.contains_key(item));
        self.incomplete |= self.points.len() < before;
    }

    fn seed_scores(&self) -> Vec<(u32, f64)> {
        let items = self.points.len() as f64;
        let of_seed = |(index, seed): (usize, &u32)| {
            (*seed, self.points.values().map(|points| points[index]).sum::<f64>() / items)
        };
        self.seeds.iter().enumerate().map(of_seed).collect()
    }

    fn score(&self) -> f64 {
        let scores = self.seed_scores();
        scores.iter().map(|(_, score)| score).sum::<f64>() / scores.len() as f64
    }
}

/// The score with only the drawn items (rows) and seeds (columns), each as often as it was drawn.
fn redrawn_score(points: &[&[f64]], items: &[usize], seeds: &[usize]) -> f64 {
    let of_item = |item: &usize| seeds.iter().map(|seed| points[*item][*seed]).sum::<f64>();
    items.iter().map(of_item).sum::<f64>() / (items.len() * seeds.len()) as f64
}

/// A configuration beside its reference, on the items that count.
struct Compared {
    scores: Items,
    reference_score: f64,
    drop_interval: (f64, f64),
}

fn compare(
    rule: &AccuracyRule,
    reference: &Result<Reference, Reason>,
    rows: &[&AccuracyRow],
    seed: u64,
) -> Result<Compared, Reason> {
    let mut scores = Items::of(rule, rows)?;
    match reference.as_ref().map_err(|reason| *reason)? {
        Reference::Score(points) => {
            let drop_interval = drop_interval(&scores, None, *points, seed);
            Ok(Compared { scores, reference_score: *points, drop_interval })
        }
        Reference::Measured(measured) => {
            let mut measured = measured.clone();
            scores.keep_shared(&measured);
            measured.keep_shared(&scores);
            if scores.points.is_empty() {
                return Err(Reason::NoScores);
            }
            scores.incomplete |= measured.incomplete;
            let reference_score = measured.score();
            let drop_interval = drop_interval(&scores, Some(&measured), reference_score, seed);
            Ok(Compared { scores, reference_score, drop_interval })
        }
    }
}

/// The 95% interval of the drop: items and seeds redrawn (the pigeonhole bootstrap of Owen, "The
/// pigeonhole bootstrap", Annals of Applied Statistics 1, 2007, for data crossed in two ways).
fn drop_interval(
    scores: &Items,
    measured: Option<&Items>,
    reference_score: f64,
    seed: u64,
) -> (f64, f64) {
    fn points(items: &Items) -> Vec<&[f64]> {
        items.points.values().map(Vec::as_slice).collect()
    }
    fn drawn(count: usize, stream: &mut Stream) -> Vec<usize> {
        (0..count).map(|_| stream.below(count)).collect()
    }
    let own = points(scores);
    let others = measured.map(|measured| (points(measured), &measured.seeds));
    interval(seed, |stream| {
        let items = drawn(own.len(), stream);
        let seeds = drawn(scores.seeds.len(), stream);
        let reference = match &others {
            None => reference_score,
            Some((others, of_others)) if **of_others == scores.seeds => {
                redrawn_score(others, &items, &seeds)
            }
            Some((others, of_others)) => {
                redrawn_score(others, &items, &drawn(of_others.len(), stream))
            }
        };
        reference - redrawn_score(&own, &items, &seeds)
    })
}

impl Compared {
    fn row(&self, rule: &AccuracyRule) -> AccuracyGateRow {
        let score = self.scores.score();
        let seed_scores = self.scores.seed_scores();
        let drop_points = self.reference_score - score;
        let seed_spread = spread(&seed_scores);
        let mut flags = FlagSet::EMPTY;
        let wide = seed_spread.is_ok_and(|points| points > rule.max_drop_points / 2.0);
        flags.insert_if(wide, Flag::WideSeedSpread);
        flags.insert_if(self.scores.incomplete, Flag::ItemsLeftOut);
        let missing = rule.seeds.iter().any(|seed| !self.scores.seeds.contains(seed));
        flags.insert_if(missing, Flag::SeedsMissing);
        AccuracyGateRow {
            reference_score: Ok(self.reference_score),
            score: Ok(score),
            n_seeds: seed_scores.len(),
            seed_scores,
            drop_points: Ok(drop_points),
            ci_low: Ok(self.drop_interval.0),
            ci_high: Ok(self.drop_interval.1),
            seed_spread,
            passes: Ok(drop_points <= rule.max_drop_points + ROUNDING_POINTS),
            n_items: self.scores.points.len(),
            flags,
            ..missing_row(rule)
        }
    }
}

/// Largest minus smallest score of a seed.
fn spread(seed_scores: &[(u32, f64)]) -> Result<f64, Reason> {
    if seed_scores.len() < 2 {
        return Err(Reason::SingleValue);
    }
    let points = || seed_scores.iter().map(|(_, points)| *points);
    Ok(points().fold(f64::NEG_INFINITY, f64::max) - points().fold(f64::INFINITY, f64::min))
}

fn missing_row(rule: &AccuracyRule) -> AccuracyGateRow {
    missing(rule, Reason::NoScores)
}

/// A row in which everything is missing for one reason.
fn missing(rule: &AccuracyRule, reason: Reason) -> AccuracyGateRow {
    AccuracyGateRow {
        spec_hash: None,
        configuration: None,
        suite: rule.suite.clone(),
        reference_score: match &rule.reference {
            AccuracyReference::Score(points) => Ok(*points),
            AccuracyReference::Configuration(_) => Err(reason),
        },
        score: Err(reason),
        seed_scores: Vec::new(),
        drop_points: Err(reason),
        ci_low: Err(reason),
        ci_high: Err(reason),
        seed_spread: Err(reason),
        max_drop_points: rule.max_drop_points,
        passes: Err(reason),
        n_items: 0,
        n_seeds: 0,
        flags: FlagSet::EMPTY,
    }
}
