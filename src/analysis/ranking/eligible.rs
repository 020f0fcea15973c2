//! Which runs take part, and the value of a model: the median over its eligible runs.

use std::collections::BTreeMap;

use wattrace_schema::{FlagSet, Reason};

use super::{ExcludedRun, ServingRun};
use crate::stats::median;

/// Every run once: of those with one id the first counts, the others are excluded.
pub(super) fn unique(runs: &[ServingRun]) -> (Vec<&ServingRun>, Vec<ExcludedRun>) {
    let mut by_id: BTreeMap<&str, &ServingRun> = BTreeMap::new();
    let mut repeated = Vec::new();
    for run in runs {
        let id = run.identity.run_id.as_str();
        if by_id.contains_key(id) {
            repeated.push(excluded(run, "run_id", Reason::RepeatedRunId));
        } else {
            by_id.insert(id, run);
        }
    }
    (by_id.into_values().collect(), repeated)
}

/// What keeps a run out of the ranking, one entry a value that it lacks.
pub(super) fn missing(run: &ServingRun) -> Vec<ExcludedRun> {
    let identity = &run.identity;
    let lacks = [
        ("steady_j_per_token", run.values.steady_j_per_token.err()),
        ("lifecycle_j_per_token", run.values.lifecycle_j_per_token.err()),
        ("task", identity.task.is_none().then_some(Reason::NotRecorded)),
        ("size_group", identity.size_group.is_none().then_some(Reason::NotRecorded)),
        ("engine", identity.engine.is_none().then_some(Reason::NotRecorded)),
    ];
    lacks
        .into_iter()
        .filter_map(|(missing, reason)| Some(excluded(run, missing, reason?)))
        .collect()
}

fn excluded(run: &ServingRun, missing: &'static str, reason: Reason) -> ExcludedRun {
    ExcludedRun { run: run.identity.clone(), missing, reason }
}

/// Runs by a key, in the order of keys; runs without a key are left out.
pub(super) fn by_key<'run, K: Ord>(
    runs: &[&'run ServingRun],
    key: impl Fn(&'run ServingRun) -> Option<K>,
) -> BTreeMap<K, Vec<&'run ServingRun>> {
    let mut groups: BTreeMap<K, Vec<&ServingRun>> = BTreeMap::new();
    for run in runs {
        if let Some(key) = key(run) {
            groups.entry(key).or_default().push(run);
        }
    }
    groups
}

/// A model's values in one group of runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelValue {
    pub(super) model: String,
    pub(super) n_runs: usize,
    pub(super) steady_j_per_token: f64,
    pub(super) lifecycle_j_per_token: f64,
}

/// The models of a group that have an eligible run, by name.
pub(super) fn model_values(runs: &[&ServingRun]) -> Vec<ModelValue> {
    by_key(runs, |run| run.both().map(|_| run.identity.model.as_str()))
        .into_iter()
        .filter_map(|(model, runs)| {
            let (mut steady, mut lifecycle): (Vec<f64>, Vec<f64>) =
                runs.iter().filter_map(|run| run.both()).unzip();
            Some(ModelValue {
                model: model.to_owned(),
                n_runs: runs.len(),
                steady_j_per_token: median(&mut steady)?,
                lifecycle_j_per_token: median(&mut lifecycle)?,
            })
        })
        .collect()
}

/// The distinct hardware of the eligible runs, sorted.
pub(super) fn hardware(runs: &[&ServingRun]) -> Vec<String> {
    let eligible = by_key(runs, |run| run.both().map(|_| run.identity.hardware.clone()));
    eligible.into_keys().collect()
}

/// The flags of the eligible runs.
pub(super) fn flags(runs: &[&ServingRun]) -> FlagSet {
    let eligible = runs.iter().filter(|run| run.both().is_some());
    eligible.fold(FlagSet::EMPTY, |flags, run| flags.union(run.flags()))
}
