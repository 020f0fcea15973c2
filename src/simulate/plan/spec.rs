//! `[specs]` and the accuracy suite of an entry: what makes runs part of a spec-driven report.

use serde::Deserialize;
use wattrace_schema::spec::LockedSpec;

use super::quantity::{Count, CountOrNone};

/// A spec of the plan, as each run gets it.
#[derive(Debug, Clone)]
pub(crate) struct PlannedSpec {
    /// The text of `spec.yaml`.
    pub(crate) text: String,
    pub(crate) locked: LockedSpec,
}

impl PlannedSpec {
    /// Reads a spec; the message names every mistake with the line within the spec's text.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        match LockedSpec::parse(text) {
            Ok(locked) => Ok(Self { text: text.to_owned(), locked }),
            Err(errors) => Err(format!("the text is not a valid spec: {errors}")),
        }
    }
}

/// An accuracy suite with known scores: under each seed the first so many items are right.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccuracyPlan {
    pub(crate) suite: String,
    pub(crate) items: Count,
    pub(crate) seeds: Vec<u32>,
    /// Items that are right, a number for each seed.
    pub(crate) right: Vec<CountOrNone>,
}

impl AccuracyPlan {
    /// What is wrong with it, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        let (seeds, counts) = (self.seeds.len(), self.right.len());
        if seeds == 0 || seeds != counts {
            return Some(format!(
                "accuracy has {seeds} seeds and {counts} numbers of right items; \
                 expected as many of one as of the other, at least one"
            ));
        }
        let items = self.items.get();
        let above = self.right.iter().find(|right| right.get() > items)?;
        Some(format!(
            "accuracy.right is {} of {items} items; expected at most all of them",
            above.get()
        ))
    }

    /// Whether each item is right, with its seed.
    pub(crate) fn scores(&self) -> impl Iterator<Item = (u32, u32, bool)> + '_ {
        self.seeds.iter().zip(&self.right).flat_map(|(seed, right)| {
            (0..self.items.get()).map(move |item| (item, *seed, item < right.get()))
        })
    }

    /// Mean over seeds of the share of right items, points.
    pub(crate) fn score_points(&self) -> f64 {
        let right: f64 = self.right.iter().map(|right| f64::from(right.get())).sum();
        100.0 * right / (f64::from(self.items.get()) * self.right.len() as f64)
    }
}
