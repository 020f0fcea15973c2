//! `steady-lifecycle`: table `runs`, and `rank` where it is there.

use std::collections::BTreeMap;

use wattrace_figures::{ModelEnergy, SteadyLifecycle};

use super::{FigureDataError, Found, Keyed, Source};
use crate::error::ReportError;

/// Task, size group, engine: models of one group compare.
type Group = [String; 3];

#[derive(Default)]
struct Values {
    steady: Vec<f64>,
    lifecycle: Vec<f64>,
    synthetic: bool,
}

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let groups = by_group(source)?;
    let correlations = correlations(source)?;
    let figures: Vec<Keyed> = groups
        .into_iter()
        .map(|(group, models)| {
            let key = group.join(" ");
            let correlation = correlations.get(&group).copied();
            let figure = figure(&group, &models, correlation);
            (key, Box::new(figure) as _)
        })
        .collect();
    source.some(figures, "no serving run reached steady state and released")
}

/// Runs of each model that hold both values. Runs that did not reach steady state or did not release
/// lack one.
fn by_group(source: &Source<'_>) -> Result<BTreeMap<Group, BTreeMap<String, Values>>, ReportError> {
    let runs = &source.runs.table;
    let steady = runs.numbers("steady_j_per_token")?;
    let lifecycle = runs.numbers("lifecycle_j_per_token")?;
    let synthetic = runs.booleans("synthetic")?;
    let models = runs.text("model")?;
    let [task, size_group, engine] =
        [runs.text("task")?, runs.text("size_group")?, runs.text("engine")?];
    let mut groups: BTreeMap<Group, BTreeMap<String, Values>> = BTreeMap::new();
    for row in 0..runs.rows {
        let (Some(model), Some(steady), Some(lifecycle)) =
            (&models[row], steady[row], lifecycle[row])
        else {
            continue;
        };
        let name = |column: &[Option<String>], what: &str| {
            column[row].clone().unwrap_or_else(|| format!("unnamed {what}"))
        };
        let group = [name(task, "task"), name(size_group, "size"), name(engine, "engine")];
        let values = groups.entry(group).or_default().entry(model.clone()).or_default();
        values.steady.push(steady);
        values.lifecycle.push(lifecycle);
        values.synthetic |= synthetic[row].unwrap_or(false);
    }
    Ok(groups)
}

/// Spearman's rho of each group that has one.
fn correlations(source: &Source<'_>) -> Result<BTreeMap<Group, f64>, ReportError> {
    if !source.results.has_table("rank") {
        return Ok(BTreeMap::new());
    }
    let rank = source.results.table("rank")?;
    let [task, size_group, engine] =
        [rank.text("task")?, rank.text("size_group")?, rank.text("engine")?];
    let rho = rank.numbers("spearman_rho")?;
    let row = |row: usize| {
        Some(([task[row].clone()?, size_group[row].clone()?, engine[row].clone()?], rho[row]?))
    };
    Ok((0..rank.rows).filter_map(row).collect())
}

fn figure(
    [task, size_group, engine]: &Group,
    models: &BTreeMap<String, Values>,
    correlation: Option<f64>,
) -> SteadyLifecycle {
    let n = models.len();
    let agreement = correlation.map(|rho| format!(", Spearman's ρ {rho:.3}")).unwrap_or_default();
    SteadyLifecycle {
        group: format!("{task}, {size_group} models, {engine}: n = {n}{agreement}"),
        synthetic: models.values().any(|values| values.synthetic),
        models: models
            .iter()
            .map(|(model, values)| ModelEnergy {
                model: model.clone(),
                steady_j_per_token: median(&values.steady),
                lifecycle_j_per_token: median(&values.lifecycle),
            })
            .collect(),
    }
}

/// The median of at least one value.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
