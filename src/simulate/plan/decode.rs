//! `[[decode]]`: decode-only runs for the energy model. One entry is one setting.

use std::sync::Arc;

use rand::RngExt;
use rand_distr::StandardNormal;
use serde::Deserialize;
use toml::Spanned;
use wattrace_schema::Split;

use super::parts::{EnginePlan, HardwarePlan, ModelPlan, SensorPlan};
use super::quantity::{
    Batch, JoulesPerGigabyte, JoulesPerToken, Percent, PercentBeyond, Repeats,
    SignedJoulesPerToken, Tokens, Watts,
};
use super::value::{Name, OneOrMany};
use super::{Fault, Parts};
use crate::random::Streams;

/// One entry of the plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecodePlan {
    /// Beginning of the runs' ids.
    pub(crate) id: Name,
    /// `configuration` in `run.json`.
    pub(crate) configuration: Option<String>,
    /// Key of the fit; by default the reader derives it from model and hardware.
    pub(crate) setting: Option<String>,
    model: Spanned<OneOrMany<String>>,
    hardware: Spanned<OneOrMany<String>>,
    engine: Spanned<OneOrMany<String>>,
    sensors: Spanned<OneOrMany<String>>,
    pub(crate) energy: EnergyLaw,
    #[serde(default)]
    noise: NoisePlan,
    cells: Vec<Spanned<CellsPlan>>,
}

/// The true energy of a token: `c + alpha·q_w + beta·q_KV + p_tau·tau`, all boards together.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnergyLaw {
    pub(crate) c_j_per_token: SignedJoulesPerToken,
    pub(crate) alpha_j_per_gb: JoulesPerGigabyte,
    pub(crate) beta_j_per_gb: JoulesPerGigabyte,
    pub(crate) p_tau_w: Watts,
}

/// What departs from the law. Shares multiply the energy; `run_j_per_token` is added to it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NoisePlan {
    run_percent: Percent,
    run_j_per_token: JoulesPerToken,
    /// Shared by the runs of a cell.
    cell_percent: Percent,
    /// Shared by the runs of a block.
    block_percent: Percent,
}

/// `[[decode.cells]]`: a cell for every combination of batch and history, or the one cell of a cohort.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellsPlan {
    split: Split,
    /// Name of a cohort's cell; beginning of the names of other cells.
    name: Option<Name>,
    batch: Option<OneOrMany<Batch>>,
    /// Tokens of history of every sequence when decoding begins.
    history: Option<OneOrMany<Tokens>>,
    /// Iterations of the decode window.
    steps: Option<Tokens>,
    /// Groups of requests that end as they finish and are not replaced.
    cohort: Option<Vec<CohortGroup>>,
    #[serde(default = "once")]
    repeat: Repeats,
    /// The repeats of a cell are dealt to so many blocks.
    #[serde(default = "once")]
    blocks: Repeats,
    /// Host delay or lower clock that lengthens every step: one value a cell, in turn.
    #[serde(default = "no_delay")]
    cell_delay_percent: OneOrMany<PercentBeyond>,
    /// The same for the runs of a cell, in turn, each cell beginning one value later.
    #[serde(default = "no_delay")]
    run_delay_percent: OneOrMany<PercentBeyond>,
}

/// Requests of a decode run.
const MAX_COHORT: u64 = 100_000;

const fn once() -> Repeats {
    Repeats::constant(1)
}

fn no_delay() -> OneOrMany<PercentBeyond> {
    OneOrMany::one(PercentBeyond::default())
}

/// Requests of equal length in a decode run.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CohortGroup {
    requests: Batch,
    /// Decode tokens, one an iteration.
    tokens: Tokens,
    /// Tokens of history when decoding begins.
    history: Tokens,
}

/// Requests of equal length in a decode run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) requests: u32,
    pub(crate) decode_tokens: u32,
    pub(crate) history_tokens: u32,
}

/// One run of a setting.
#[derive(Debug, Clone)]
pub(crate) struct DecodeRun {
    pub(crate) entry: Arc<DecodePlan>,
    pub(crate) model_name: String,
    pub(crate) model: ModelPlan,
    pub(crate) hardware: HardwarePlan,
    pub(crate) engine: EnginePlan,
    pub(crate) sensors: Vec<(String, SensorPlan)>,
    pub(crate) split: Split,
    pub(crate) cell: String,
    pub(crate) block: Option<String>,
    pub(crate) groups: Vec<Group>,
    /// Whether the groups end one after the other.
    pub(crate) draining: bool,
    /// Share by which every step takes longer.
    pub(crate) delay: f64,
    /// What the cell and the block add, as a share of the energy.
    pub(crate) shared_effect: f64,
    /// Standard deviation of the run's own departure, as a share and in joules per token.
    pub(crate) run_share_sd: f64,
    pub(crate) run_j_per_token_sd: f64,
}

impl DecodePlan {
    /// The runs of this setting and their ids. `entry_index` picks the random numbers of what cells and
    /// blocks have in common.
    pub(super) fn expand(
        entry: &Spanned<Self>,
        entry_index: usize,
        parts: &Parts,
    ) -> Result<Vec<(String, DecodeRun)>, Fault> {
        let plan = Arc::new(entry.get_ref().clone());
        let (model_name, model) = only(&parts.models("decode.model", &plan.model)?, &plan.model)?;
        let (_, hardware) =
            only(&parts.hardware("decode.hardware", &plan.hardware)?, &plan.hardware)?;
        let (_, engine) = only(&parts.engines("decode.engine", &plan.engine)?, &plan.engine)?;
        let sensors = parts.sensors("decode.sensors", &plan.sensors)?;
        let mut effects = Streams::shared_by_entry(parts.seed, entry_index);
        let mut normal = |percent: Percent| {
            let deviate: f64 = effects.sample(StandardNormal);
            deviate * percent.get() / 100.0
        };
        let blocks = plan.cells.iter().map(|cells| cells.get_ref().blocks.get()).max().unwrap_or(1);
        let block_effects: Vec<f64> =
            (0..blocks).map(|_| normal(plan.noise.block_percent)).collect();

        let mut runs = Vec::new();
        for spanned in &plan.cells {
            let cells = spanned.get_ref();
            let fault = |message: String| Fault::new(spanned.span(), "decode.cells", &message);
            for (index, (cell, groups)) in cells.cells().map_err(fault)?.into_iter().enumerate() {
                let cell_effect = normal(plan.noise.cell_percent);
                let id = format!("{}-{cell}", plan.id.as_str());
                let make = |repeat: u32| {
                    let block = (repeat % cells.blocks.get()) as usize;
                    DecodeRun {
                        entry: Arc::clone(&plan),
                        model_name: model_name.to_owned(),
                        model: model.clone(),
                        hardware: hardware.clone(),
                        engine: engine.clone(),
                        sensors: sensors.clone(),
                        split: cells.split,
                        cell: cell.clone(),
                        block: (blocks > 1).then(|| format!("block-{}", block + 1)),
                        groups: groups.clone(),
                        draining: cells.cohort.is_some(),
                        delay: cells.delay(index, repeat as usize),
                        shared_effect: cell_effect + block_effects[block],
                        run_share_sd: plan.noise.run_percent.get() / 100.0,
                        run_j_per_token_sd: plan.noise.run_j_per_token.get(),
                    }
                };
                parts.push_repeats(&mut runs, &id, cells.repeat.get(), make).map_err(fault)?;
            }
        }
        Ok(runs)
    }
}

/// The one value of a key that takes no list here.
fn only<'a, T>(
    found: &[(&'a str, &'a T)],
    key: &Spanned<OneOrMany<String>>,
) -> Result<(&'a str, &'a T), Fault> {
    match found {
        [one] => Ok(*one),
        _ => Err(Fault::new(
            key.span(),
            "decode",
            "a list of several values; expected one, because one entry is one setting",
        )),
    }
}

impl CellsPlan {
    /// Names and requests of the cells.
    fn cells(&self) -> Result<Vec<(String, Vec<Group>)>, String> {
        match (&self.cohort, &self.batch, &self.history, self.steps) {
            (Some(cohort), None, None, None) => {
                let name = self.name.as_ref().ok_or("a cohort has no \"name\"; expected one")?;
                let requests: u64 = cohort.iter().map(|g| u64::from(g.requests.get())).sum();
                if !(1..=MAX_COHORT).contains(&requests) {
                    return Err(format!(
                        "\"cohort\" has {requests} requests; expected 1 to {MAX_COHORT}"
                    ));
                }
                let group = |group: &CohortGroup| Group {
                    requests: group.requests.get(),
                    decode_tokens: group.tokens.get(),
                    history_tokens: group.history.get(),
                };
                Ok(vec![(name.as_str().to_owned(), cohort.iter().map(group).collect())])
            }
            (None, Some(batch), Some(history), Some(steps)) => {
                let prefix = self.name.as_ref().map(|name| format!("{}-", name.as_str()));
                let prefix = prefix.unwrap_or_default();
                let mut cells = Vec::new();
                for requests in batch.values().iter().map(|batch| batch.get()) {
                    for history_tokens in history.values().iter().map(|history| history.get()) {
                        let group = Group { requests, decode_tokens: steps.get(), history_tokens };
                        cells.push((format!("{prefix}b{requests}-h{history_tokens}"), vec![group]));
                    }
                }
                Ok(cells)
            }
            _ => Err("expected either \"cohort\" or all of \"batch\", \"history\" and \"steps\""
                .to_owned()),
        }
    }

    /// Share by which the steps of one run take longer.
    fn delay(&self, cell: usize, repeat: usize) -> f64 {
        let cell_delays = self.cell_delay_percent.values();
        let run_delays = self.run_delay_percent.values();
        let percent = cell_delays[cell % cell_delays.len()].get()
            + run_delays[(cell + repeat) % run_delays.len()].get();
        percent / 100.0
    }
}
