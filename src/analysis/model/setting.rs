//! Runs sorted into settings and sides of the validation.

use std::collections::{BTreeMap, BTreeSet};

use wattrace_schema::{FlagSet, Reason, Split};

use super::form::Form;
use super::observation::{Coordinates, Measured, ModelBytes, Observation};
use crate::stats::{FitFailure, MAGNITUDE_LIMIT};

/// A run that a setting can use.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelRun<'a> {
    pub(super) observation: &'a Observation,
    pub(super) measured: Measured,
}

impl<'a> ModelRun<'a> {
    pub(super) fn cell(&self) -> &'a str {
        &self.observation.cell
    }

    pub(super) const fn j_per_token(&self) -> f64 {
        self.measured.j_per_token
    }

    pub(super) const fn coordinates(&self) -> &Coordinates {
        &self.measured.coordinates
    }

    /// The values of a form's terms; `None` where one needs a history that is not known.
    pub(super) fn values(&self, form: &Form) -> Option<Vec<f64>> {
        form.values(self.coordinates())
    }

    /// The same run as if it lay elsewhere.
    pub(super) fn at(mut self, coordinates: Coordinates) -> Self {
        self.measured.coordinates = coordinates;
        self
    }
}

/// The runs of one setting, sorted by cell, then run.
#[derive(Debug, Clone)]
pub(super) struct SettingRuns<'a> {
    pub(super) name: String,
    /// Name of the model; of the first, should a setting mix several.
    pub(super) model: &'a str,
    pub(super) claimed: bool,
    pub(super) fit: Vec<ModelRun<'a>>,
    pub(super) heldout: Vec<ModelRun<'a>>,
    pub(super) excluded: Vec<(&'a Observation, Reason)>,
    /// Why nothing can be fitted, whatever the form.
    pub(super) refusal: Option<FitFailure>,
}

/// What joins runs into a setting: published totals never mix with measurements.
type Key<'a> = (&'a str, bool);

/// Sorts observations into settings. The order of the observations does not matter.
pub(super) fn group(observations: &[Observation]) -> Vec<SettingRuns<'_>> {
    let mut by_setting: BTreeMap<Key<'_>, Vec<&Observation>> = BTreeMap::new();
    for observation in observations {
        by_setting
            .entry((&observation.setting, observation.claimed))
            .or_default()
            .push(observation);
    }
    let measured: BTreeSet<&str> =
        by_setting.keys().filter(|(_, claimed)| !claimed).map(|(setting, _)| *setting).collect();
    by_setting
        .iter()
        .map(|((setting, claimed), runs)| {
            let name = if *claimed && measured.contains(setting) {
                format!("{setting} (claimed)")
            } else {
                (*setting).to_owned()
            };
            SettingRuns::new(name, *claimed, runs.clone())
        })
        .collect()
}

impl<'a> SettingRuns<'a> {
    fn new(name: String, claimed: bool, mut runs: Vec<&'a Observation>) -> Self {
        runs.sort_by(|a, b| {
            (&a.cell, &a.run_id).cmp(&(&b.cell, &b.run_id)).then_with(|| order_of_values(a, b))
        });
        let model = runs.first().map_or("", |run| run.model.as_str());
        let mut setting = Self {
            name,
            model,
            claimed,
            fit: Vec::new(),
            heldout: Vec::new(),
            excluded: Vec::new(),
            refusal: None,
        };
        let has_history = |run: &Observation| {
            run.measured.is_ok_and(|measured| measured.coordinates.q_kv_gb.is_some())
        };
        let any_history = runs.iter().any(|run| has_history(run));
        // Where nobody names a side, there is nothing to hold out.
        let any_split = runs.iter().any(|run| run.split.is_some());
        for observation in runs {
            match observation.measured.and_then(within_limits) {
                Err(reason) => setting.excluded.push((observation, reason)),
                Ok(_) if any_history && !has_history(observation) => {
                    setting.excluded.push((observation, Reason::NoHistory));
                }
                Ok(measured) => {
                    let run = ModelRun { observation, measured };
                    match observation.split {
                        Some(Split::Heldout) => setting.heldout.push(run),
                        None if any_split => setting.excluded.push((observation, Reason::NoSplit)),
                        Some(Split::Fit) | None => setting.fit.push(run),
                    }
                }
            }
        }
        setting.refusal = setting.find_refusal();
        setting
    }

    fn find_refusal(&self) -> Option<FitFailure> {
        let cells = |runs: &[ModelRun<'a>]| -> BTreeSet<&'a str> {
            runs.iter().map(ModelRun::cell).collect()
        };
        let (fit, heldout) = (cells(&self.fit), cells(&self.heldout));
        let both: Vec<String> =
            fit.intersection(&heldout).map(|cell| format!("\"{cell}\"")).collect();
        if !both.is_empty() {
            return Some(FitFailure {
                reason: Reason::CellOnBothSides,
                message: format!("cells on both sides of the validation: {}", both.join(", ")),
            });
        }
        let (observation, reason) = self.excluded.first()?;
        let all_for_one_reason = self.fit.is_empty()
            && self.heldout.is_empty()
            && self.excluded.iter().all(|(_, other)| other == reason);
        all_for_one_reason.then(|| FitFailure {
            reason: *reason,
            message: format!(
                "no run of model \"{}\" can be used: {}",
                observation.model,
                reason.meaning()
            ),
        })
    }

    /// The runs of both sides.
    pub(super) fn usable(&self) -> impl Iterator<Item = &ModelRun<'a>> {
        self.fit.iter().chain(&self.heldout)
    }

    /// What a reader must know of every number of the setting.
    pub(super) fn flags(&self) -> FlagSet {
        flags_of(&self.fit)
    }

    /// The bytes of the model, where all runs agree on them.
    pub(super) fn bytes(&self) -> Option<ModelBytes> {
        let mut all = self.usable().map(|run| run.measured.bytes);
        let first = all.next()?;
        all.all(|bytes| bytes == first).then_some(first)
    }
}

/// A measurement that statistics can work with: every number above zero, none absurdly small or large.
fn within_limits(measured: Measured) -> Result<Measured, Reason> {
    let Coordinates { b_eff, mean_history_tokens, q_w_gb, q_kv_gb, tau_s } = measured.coordinates;
    let sizes = 1.0 / MAGNITUDE_LIMIT..=MAGNITUDE_LIMIT;
    let positive = [Some(measured.j_per_token), Some(b_eff), Some(q_w_gb), q_kv_gb, Some(tau_s)];
    let usable = positive.into_iter().flatten().all(|value| sizes.contains(&value))
        && mean_history_tokens.is_none_or(|history| (0.0..=MAGNITUDE_LIMIT).contains(&history));
    if usable { Ok(measured) } else { Err(Reason::InvalidInput) }
}

/// The flags of all runs together.
pub(super) fn flags_of(runs: &[ModelRun<'_>]) -> FlagSet {
    runs.iter().fold(FlagSet::EMPTY, |flags, run| flags.union(run.observation.flags))
}

/// Distinguishes runs that share their name, so that even they have one order.
fn order_of_values(a: &Observation, b: &Observation) -> std::cmp::Ordering {
    let key = |run: &Observation| {
        run.measured.map_or([0.0; 3], |measured| {
            [measured.j_per_token, measured.coordinates.tau_s, measured.coordinates.b_eff]
        })
    };
    let pairs = key(a).into_iter().zip(key(b));
    pairs.fold(std::cmp::Ordering::Equal, |order, (a, b)| order.then(a.total_cmp(&b)))
}
