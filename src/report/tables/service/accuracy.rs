//! `accuracy`: one row a configuration under a spec that sets a gate.

use std::collections::BTreeMap;

use wattrace_analysis::service::AccuracyGateRow;
use wattrace_schema::Unit;

use super::parts::{CONFIGURATION, flags};
use super::reasoned::Reasoned;
use crate::table::ResultTable;

pub(super) fn accuracy(rows: &[AccuracyGateRow]) -> ResultTable {
    Reasoned::of("accuracy", "one configuration under one spec", rows)
        .plain(|table| {
            table
                .text("configuration", CONFIGURATION, |row: &AccuracyGateRow| {
                    row.configuration.as_deref()
                })
                .text("suite", "Name of the suite.", |row| Some(row.suite.as_str()))
        })
        .number(
            "reference_score",
            Unit::Point,
            "Mean over seeds of the reference's mean score, or the published score.",
            |row| row.reference_score,
        )
        .number("score", Unit::Point, "Mean over seeds of the mean score.", |row| row.score)
        .number("drop_points", Unit::Point, "Reference minus configuration.", |row| row.drop_points)
        .number(
            "ci_low",
            Unit::Point,
            "Lower end of the 95% paired bootstrap interval of the drop.",
            |row| row.ci_low,
        )
        .number("ci_high", Unit::Point, "Upper end.", |row| row.ci_high)
        .number("seed_spread", Unit::Point, "Largest minus smallest score of a seed.", |row| {
            row.seed_spread
        })
        .boolean("passes", "Whether the drop is not above `max_drop_points`.", |row| row.passes)
        .plain(|table| {
            flags(table, |row| row.flags)
                .text("spec_hash", "SHA-256 of the canonical spec.", |row| row.spec_hash.as_deref())
                .number("max_drop_points", Unit::Point, "Largest drop that passes.", |row| {
                    Some(row.max_drop_points)
                })
                .count("n_items", Unit::Count, "Items behind the scores.", |row| {
                    Some(row.n_items as u64)
                })
                .count("n_seeds", Unit::Count, "Seeds behind the scores.", |row| {
                    Some(row.n_seeds as u64)
                })
                .text("seed_scores", "JSON object: mean score of each seed.", |row| {
                    let scores: BTreeMap<_, _> = row.seed_scores.iter().copied().collect();
                    Some(serde_json::json!(scores).to_string())
                })
        })
        .build()
}
