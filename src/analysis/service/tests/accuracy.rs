//! The accuracy gate.

use std::collections::BTreeSet;

use wattrace_schema::{AccuracyRow, Flag};

use super::*;

/// Scores that own their rows.
pub(super) struct OwnedScores {
    configuration: String,
    rows: Vec<AccuracyRow>,
}

impl OwnedScores {
    pub(super) fn view(&self) -> Scores<'_> {
        Scores { configuration: Some(self.configuration.clone()), rows: self.rows.iter().collect() }
    }
}

/// 100 items under seeds 1, 2, ...; under each seed the first so many are right.
pub(super) fn scores(configuration: &str, right_by_seed: &[usize]) -> OwnedScores {
    let rows = right_by_seed
        .iter()
        .zip(1..)
        .flat_map(|(right, seed)| {
            (0..100).map(move |item| AccuracyRow {
                suite: "gsm8k".into(),
                item: format!("q{item:03}"),
                seed,
                score: Some(if item < *right { 1.0 } else { 0.0 }),
            })
        })
        .collect();
    OwnedScores { configuration: configuration.into(), rows }
}

/// One point of drop, against `production`.
pub(super) fn rule() -> AccuracyRule {
    AccuracyRule {
        suite: "gsm8k".into(),
        seeds: BTreeSet::from([1, 2, 3]),
        reference: AccuracyReference::Configuration("production".into()),
        max_drop_points: 1.0,
        full_score: 1.0,
    }
}

fn gate(rule: &AccuracyRule, scores: &[OwnedScores]) -> Vec<AccuracyGateRow> {
    let views: Vec<_> = scores.iter().map(OwnedScores::view).collect();
    accuracy_gate(rule, Some("5bec"), &views, 42)
}

#[test]
fn a_drop_at_the_threshold_passes_and_one_above_it_fails() {
    let rows = gate(
        &rule(),
        &[
            scores("production", &[80, 80, 80]),
            // Means 79, 78, 80: 79 points, drop 1.
            scores("candidate", &[79, 78, 80]),
            // Means 78, 79, 79: 78 2/3 points.
            scores("worse", &[78, 79, 79]),
        ],
    );
    assert_eq!((rows[0].drop_points, rows[0].passes), (Ok(0.0), Ok(true)));
    assert_eq!(rows[1].seed_scores, [(1, 79.0), (2, 78.0), (3, 80.0)]);
    assert_close(rows[1].drop_points.unwrap(), 1.0);
    assert_eq!((rows[1].passes, rows[1].seed_spread), (Ok(true), Ok(2.0)));
    assert!(rows[1].flags.contains(Flag::WideSeedSpread));
    assert_close(rows[2].drop_points.unwrap(), 4.0 / 3.0);
    assert_eq!((rows[2].passes, rows[2].n_items, rows[2].n_seeds), (Ok(false), 100, 3));
    assert_eq!(rows[2].spec_hash.as_deref(), Some("5bec"));
}

#[test]
fn the_interval_is_paired_by_item() {
    // The same items are right on both sides, so whatever items are drawn the drop is zero; drawn apart
    // the two would differ by ±11 points.
    let rows = gate(&rule(), &[scores("production", &[80; 3]), scores("same", &[80; 3])]);
    assert_eq!((rows[1].ci_low, rows[1].ci_high), (Ok(0.0), Ok(0.0)));
    assert!(rows[1].flags.is_empty());
}

#[test]
fn against_a_published_score_the_interval_is_that_of_a_share() {
    // 80 of 100 right: standard error √(0.8 · 0.2 / 100) = 4 points, so the drop from 82 points is
    // 2 ± 7.84; whole points only, hence the tolerance of one.
    let rule = AccuracyRule {
        seeds: BTreeSet::from([1]),
        reference: AccuracyReference::Score(82.0),
        max_drop_points: 2.0,
        ..rule()
    };
    let row = &gate(&rule, &[scores("c", &[80])])[0];
    assert_eq!((row.reference_score, row.score), (Ok(82.0), Ok(80.0)));
    assert_eq!((row.drop_points, row.passes), (Ok(2.0), Ok(true)));
    let (low, high) = (row.ci_low.unwrap(), row.ci_high.unwrap());
    assert!((low + 5.84).abs() <= 1.0 && (high - 9.84).abs() <= 1.0, "{low} to {high}");
    assert_eq!(row.seed_spread, Err(Reason::SingleValue));
}

#[test]
fn the_interval_widens_with_the_seeds() {
    // Every item is right under seeds 1 and 2 and wrong under seed 3: only the seeds matter. A draw of
    // three seeds misses seed 3 with probability 8/27 and is nothing else with 1/27 = 3.7%.
    let rule = AccuracyRule { reference: AccuracyReference::Score(100.0), ..rule() };
    let row = &gate(&rule, &[scores("c", &[100, 100, 0])])[0];
    assert_close(row.drop_points.unwrap(), 100.0 / 3.0);
    assert_eq!((row.ci_low, row.ci_high), (Ok(0.0), Ok(100.0)));
}

#[test]
fn scores_on_another_scale_become_points() {
    let mut ten = scores("c", &[80]);
    for row in &mut ten.rows {
        row.score = row.score.map(|score| 10.0 * score);
    }
    let rule =
        AccuracyRule { reference: AccuracyReference::Score(80.0), full_score: 10.0, ..rule() };
    let row = &gate(&rule, &[ten])[0];
    assert_eq!(row.score, Ok(80.0));
    assert!(row.flags.contains(Flag::SeedsMissing));
}

#[test]
fn an_item_without_a_score_leaves_both_sides() {
    let mut candidate = scores("candidate", &[80; 3]);
    // Item 0 (right) loses its score under seed 2; item 99 (wrong) is not there at all.
    candidate.rows.retain(|row| row.item != "q099");
    candidate.rows.iter_mut().find(|row| row.item == "q000" && row.seed == 2).unwrap().score = None;
    let rows = gate(&rule(), &[scores("production", &[80; 3]), candidate]);
    assert_eq!(rows[1].n_items, 98);
    assert_close(rows[1].score.unwrap(), 7900.0 / 98.0);
    assert_close(rows[1].reference_score.unwrap(), 7900.0 / 98.0);
    assert!(rows[1].flags.contains(Flag::ItemsLeftOut));
    assert!(!rows[0].flags.contains(Flag::ItemsLeftOut));
}

#[test]
fn several_runs_of_one_item_and_seed_are_averaged_and_other_suites_and_seeds_ignored() {
    let mut twice = scores("production", &[80; 3]);
    twice.rows.extend(scores("", &[60; 3]).rows);
    for seed in [1, 9] {
        let suite = if seed == 1 { "mmlu" } else { "gsm8k" };
        twice.rows.push(AccuracyRow {
            suite: suite.into(),
            item: "q000".into(),
            seed,
            score: Some(0.0),
        });
    }
    let row = &gate(&rule(), &[twice])[0];
    assert_eq!((row.score, row.n_seeds, row.n_items), (Ok(70.0), 3, 100));
}

#[test]
fn what_cannot_be_judged_has_a_reason() {
    let rows = gate(&rule(), &[scores("candidate", &[80; 3])]);
    assert_eq!(rows[0].passes, Err(Reason::NoReference));
    let rows = gate(&rule(), &[scores("production", &[80; 3]), scores("candidate", &[])]);
    assert_eq!(rows[1].passes, Err(Reason::NoScores));
    assert_eq!(rows[0].passes, Ok(true));
}
