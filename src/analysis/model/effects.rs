//! What the runs themselves show, before any model: the effect of batch and of history, of blocks of
//! time, and how far every coordinate reaches.

use std::collections::BTreeSet;

use wattrace_schema::{Flag, FlagSet, Reason, Unit};

use super::errors::mean;
use super::fit::{FittedForm, design, range, relative_range};
use super::form::FULL;
use super::observation::Coordinates;
use super::rows::{BatchEffectRow, BlockEffectRow, IdentifiedRangeRow};
use super::setting::{ModelRun, SettingRuns, flags_of};
use crate::stats::{self, Design, FTest, FitFailure, Term, least_squares, nested_f_test};

/// A coordinate as a column of `runs`.
#[derive(Clone, Copy)]
struct Coordinate {
    name: &'static str,
    unit: Unit,
    value: fn(&Coordinates) -> Option<f64>,
}

const BATCH: Coordinate =
    Coordinate { name: "b_eff", unit: Unit::Count, value: |at| Some(at.b_eff) };
const HISTORY: Coordinate = Coordinate {
    name: "mean_history_tokens",
    unit: Unit::Token,
    value: |at| at.mean_history_tokens,
};
const COORDINATES: [Coordinate; 5] = [
    BATCH,
    HISTORY,
    Coordinate { name: "q_w_gb", unit: Unit::GigabytePerToken, value: |at| Some(at.q_w_gb) },
    Coordinate { name: "q_kv_gb", unit: Unit::GigabytePerToken, value: |at| at.q_kv_gb },
    Coordinate { name: "tau_s", unit: Unit::SecondPerToken, value: |at| Some(at.tau_s) },
];

/// What the fit runs cover of every coordinate that all of them know.
pub(super) fn identified_ranges(
    setting: &SettingRuns<'_>,
    full: Option<&FittedForm>,
) -> Vec<IdentifiedRangeRow> {
    COORDINATES
        .iter()
        .filter_map(|coordinate| {
            let column: Option<Vec<f64>> =
                setting.fit.iter().map(|run| (coordinate.value)(run.coordinates())).collect();
            let column = column.filter(|column| !column.is_empty())?;
            let (min, max) = range(&column);
            let term = FULL.terms.iter().position(|term| term.coordinate() == coordinate.name);
            let of_term = |fitted: &FittedForm| {
                let term = term?;
                let identified = !fitted.coefficients[term + 1].not_identified;
                Some((fitted.variance_inflation[term], identified))
            };
            let judged = full.and_then(of_term);
            let identified = judged.map(|(_, identified)| identified);
            let mut flags = setting.flags();
            flags.insert_if(identified == Some(false), Flag::NotIdentified);
            Some(IdentifiedRangeRow {
                setting: setting.name.clone(),
                coordinate: coordinate.name,
                unit: coordinate.unit.symbol(),
                n_runs: column.len(),
                min,
                max,
                mean: stats::mean(&column)?,
                relative_range: relative_range(&column),
                vif: judged.map(|(vif, _)| vif),
                identified,
                flags,
            })
        })
        .collect()
}

/// Values within this ratio of the smallest of a level belong to it.
const LEVEL_RATIO: f64 = 1.1;

/// Runs at about the same value of a coordinate.
struct Level<'a> {
    runs: Vec<ModelRun<'a>>,
    mean: f64,
}

/// Sorts runs into levels of a coordinate; runs that do not know it are left out.
fn levels<'a>(runs: &[ModelRun<'a>], coordinate: Coordinate) -> Vec<Level<'a>> {
    let mut known: Vec<(f64, ModelRun<'a>)> = runs
        .iter()
        .filter_map(|run| Some(((coordinate.value)(run.coordinates())?, *run)))
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut levels: Vec<Vec<(f64, ModelRun<'a>)>> = Vec::new();
    for (value, run) in known {
        match levels.last_mut() {
            Some(level) if value <= LEVEL_RATIO * level[0].0 => level.push((value, run)),
            _ => levels.push(vec![(value, run)]),
        }
    }
    levels
        .into_iter()
        .map(|level| Level {
            mean: mean(level.iter().map(|(value, _)| *value)),
            runs: level.into_iter().map(|(_, run)| run).collect(),
        })
        .collect()
}

/// What batch does at every level of history, and history at every level of batch, over the runs of
/// both sides. Draining runs are left out: their batch is a mean of many.
pub(super) fn batch_effects(setting: &SettingRuns<'_>) -> Vec<BatchEffectRow> {
    let runs: Vec<ModelRun<'_>> =
        setting.usable().filter(|run| run.observation.initial_cohort.is_none()).copied().collect();
    let of = |varied: Coordinate, held: Coordinate| {
        let name = setting.name.clone();
        levels(&runs, held).into_iter().filter_map(move |level| effect(&name, varied, held, &level))
    };
    of(BATCH, HISTORY).chain(of(HISTORY, BATCH)).collect()
}

fn effect(
    setting: &str,
    varied: Coordinate,
    held: Coordinate,
    level: &Level<'_>,
) -> Option<BatchEffectRow> {
    let steps = levels(&level.runs, varied);
    let [smallest, .., largest] = steps.as_slice() else { return None };
    let energy = |level: &Level<'_>| mean(level.runs.iter().map(ModelRun::j_per_token));
    let (at_smallest, at_largest) = (energy(smallest), energy(largest));
    Some(BatchEffectRow {
        setting: setting.to_owned(),
        varied: varied.name,
        held: held.name,
        held_level: level.mean,
        smallest: smallest.mean,
        largest: largest.mean,
        n_runs_smallest: smallest.runs.len(),
        n_runs_largest: largest.runs.len(),
        j_per_token_smallest: at_smallest,
        j_per_token_largest: at_largest,
        drop_percent: 100.0 * (at_smallest - at_largest) / at_smallest,
        flags: flags_of(&level.runs),
    })
}

/// Whether blocks of time differ beyond the full form: an F test of one dummy a block. Over the fit
/// runs, or over all runs where the fit runs lie in one block. `None` where no run names a block.
pub(super) fn block_effects(setting: &SettingRuns<'_>) -> Option<BlockEffectRow> {
    let names_block = |run: &ModelRun<'_>| run.observation.block.is_some();
    let mut runs = setting.fit.clone();
    runs.retain(names_block);
    if blocks(&runs).len() < 2 {
        runs = setting.usable().copied().collect();
        runs.retain(names_block);
    }
    if runs.is_empty() {
        return None;
    }
    let tested = block_test(&runs);
    let (test, difference) = match &tested {
        Ok((test, difference)) => (Some(test), Some(*difference)),
        Err(_) => (None, None),
    };
    let level = mean(runs.iter().map(ModelRun::j_per_token));
    Some(BlockEffectRow {
        setting: setting.name.clone(),
        n_runs: runs.len(),
        n_blocks: blocks(&runs).len(),
        df_numerator: test.map(|test| test.df_numerator),
        df_denominator: test.map(|test| test.df_denominator),
        f_statistic: test.map(|test| test.f_statistic),
        p_value: test.map(|test| test.p_value),
        largest_difference_j_per_token: difference,
        largest_relative_difference: difference.map(|difference| difference / level),
        flags: if tested.is_ok() { flags_of(&runs) } else { FlagSet::EMPTY },
        reason: tested.err().map(|failure| failure.reason),
    })
}

fn blocks<'a>(runs: &[ModelRun<'a>]) -> BTreeSet<&'a str> {
    runs.iter().filter_map(|run| run.observation.block.as_deref()).collect()
}

fn block_test(runs: &[ModelRun<'_>]) -> Result<(FTest, f64), FitFailure> {
    let names = blocks(runs);
    if names.len() < 2 {
        return Err(FitFailure {
            reason: Reason::SingleValue,
            message: "all runs lie in one block".to_owned(),
        });
    }
    let without = design(&FULL, runs)?;
    let dummies = names.iter().skip(1).map(|name| {
        let column = runs
            .iter()
            .map(|run| f64::from(u8::from(run.observation.block.as_deref() == Some(*name))));
        Term::new(format!("block {name}"), column.collect())
    });
    let terms = without.terms().iter().cloned().chain(dummies).collect();
    let with = Design::new(
        super::form::CONSTANT,
        without.response().to_vec(),
        terms,
        without.clusters().to_vec(),
    )?;
    let test = nested_f_test(&with, &without)?;
    let fit = least_squares(&with)?;
    // The first block is the zero from which the others are counted.
    let effects: Vec<f64> = std::iter::once(0.0)
        .chain(fit.coefficients[without.coefficients()..].iter().map(|effect| effect.value))
        .collect();
    let (lowest, highest) = range(&effects);
    Ok((test, highest - lowest))
}
