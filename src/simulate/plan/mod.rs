//! Plans: which runs to simulate, in TOML.
//!
//! The text is read into tables whose values check themselves, names are looked up, and every entry is
//! spread out into its runs. The syntax is described at [`Plan`].

mod decode;
mod parts;
mod quantity;
mod serving;
mod spec;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use wattrace_schema::{TomlFault, line_of};

pub(crate) use decode::{DecodeRun, EnergyLaw, Group};
pub(crate) use parts::{EnginePlan, HardwarePlan, ModelPlan, SensorPlan};
pub(crate) use serving::{Arrival, FailurePlan, ReleasePlan, ServingRun, StagePlan, TransientPlan};
pub(crate) use spec::{AccuracyPlan, PlannedSpec};
pub(crate) use value::Lengths;

use crate::{PlanError, SimulateError};
use parts::WorkloadPlan;
use value::{OneOrMany, Start};

/// Runs that one plan may have; each begins an hour after the one before.
const MAX_RUNS: usize = 100_000;

/// A valid plan: every run with its parts.
///
/// A plan is TOML. It names parts once and combines them in entries; a key takes one value unless a list
/// is mentioned. Unknown keys and values out of range are errors that name file, line, key and what is
/// expected.
///
/// ```toml
/// seed = 7                              # same seed, same bytes
/// start = "2026-01-31T12:00:00Z"        # of the first run; the others follow an hour apart
/// notes = ["copied to every run"]       # optional
///
/// [models."Qwen/Qwen2.5-7B"]            # geometry, with the keys of run.json
/// [hardware.NAME]                       # accelerator, count, hbm_bandwidth_gb_s, node?, driver?
/// [hardware.NAME.power]                 # of a board: idle_w, loading_w, compiling_w, ready_w, active_w,
///                                       #   limit_w, weight_j_per_gb, kv_j_per_gb, prefill_j_per_token,
///                                       #   board_spread_percent
/// [hardware.NAME.node_power]            # base_w, fans_and_losses_percent
/// [engines.NAME]                        # name, version, max_batch, prefill_chunk_tokens,
///                                       #   bandwidth_efficiency, step_overhead_ms, sequence_overhead_us,
///                                       #   prefill_tokens_per_s, step_jitter_percent, graph_limit_tokens?,
///                                       #   eager_extra_ms, load_gb_per_s, compile_s
/// [workloads.NAME]                      # task, dataset?, input_tokens and output_tokens (a number,
///                                       #   { min, max } or { min, max, median, sigma }), and
///                                       #   concurrency (closed loop), request_rate (Poisson) or trace:
///                                       #   a file beside the plan (Azure CSV, Mooncake JSONL) with
///                                       #   the arrivals and lengths of the formal requests
/// [sensors.NAME]                        # scope, reading, averaging_window_ms, interval_ms,
///                                       #   interval_outside_formal_ms?, jitter_ms, lost_percent, noise_w,
///                                       #   noise_percent, resolution_w, gain_error_percent,
///                                       #   counter? = { refresh_ms, resolution_j, wrap_j? },
///                                       #   clock_offset_ms (declared), clock_error_ms (not declared),
///                                       #   accuracy_percent?
///
/// [specs]
/// NAME = """…"""                        # text of a spec.yaml, for entries that name it
///
/// [[serving]]                           # a run for every combination of the lists, times repeat
/// id = "chat"
/// model = ["…", "…"]                    # lists: model, hardware, engine, workload, concurrency,
/// hardware = "…"                        #   request_rate; sensors is a list too, all in each run
/// engine = "…"
/// workload = "…"
/// sensors = ["…"]
/// requests = 400                        # or seconds, or both: whichever comes first ends the sending;
///                                       #   a trace needs neither
/// # configuration?, repeat, concurrency?, request_rate?, ramp_s, idle_s, tokens_per_chunk, token_times,
/// # steps, true_requests, spec? (of [specs]; written into each run)
/// # accuracy? = { suite, items, seeds, right }: scores in the first run of the entry, `right` of the
/// #   items right under each seed
/// # warmup = { requests, concurrency }
/// # transient = { power_percent, step_time_percent, time_constant_s }
/// # failures = { error_percent, timeout_percent, timeout_s, cancelled_percent }
/// # release = { exit_s, memory_s, decay_s, residual_w, monitor_s, bump? = { after_s, seconds, power_w } }
/// # gaps = [{ sensor?, stage, after_s, seconds }], counter_resets = [{ stage, after_s }]
///
/// [[decode]]                            # one setting of the energy model
/// id = "7b"                             # setting?, configuration?, model, hardware, engine, sensors
/// energy = { c_j_per_token = 0.004, alpha_j_per_gb = 0.12, beta_j_per_gb = 0.24, p_tau_w = 152 }
/// noise = { run_percent = 0.7 }         # run_j_per_token, cell_percent, block_percent
/// [[decode.cells]]                      # a cell for every batch and history …
/// split = "fit"                         # or "heldout"
/// batch = [4, 16]
/// history = [1024, 4096]
/// steps = 256
/// # … or name and cohort = [{ requests, tokens, history }, …], which drains
/// # name?, repeat, blocks, cell_delay_percent (list), run_delay_percent (list)
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) file_name: String,
    /// Where the files that the plan names lie.
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) start_ns: i64,
    pub(crate) notes: Vec<String>,
    pub(crate) runs: Vec<PlannedRun>,
}

/// One run of a plan.
#[derive(Debug, Clone)]
pub(crate) struct PlannedRun {
    pub(crate) run_id: String,
    /// Place in the plan, which picks the run's random numbers and start.
    pub(crate) index: usize,
    pub(crate) kind: PlannedKind,
}

#[derive(Debug, Clone)]
pub(crate) enum PlannedKind {
    Serving(Box<ServingRun>),
    Decode(Box<DecodeRun>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    seed: u64,
    start: Start,
    /// Copied to the provenance of every run.
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    models: BTreeMap<String, ModelPlan>,
    #[serde(default)]
    hardware: BTreeMap<String, HardwarePlan>,
    #[serde(default)]
    engines: BTreeMap<String, EnginePlan>,
    #[serde(default)]
    workloads: BTreeMap<String, WorkloadPlan>,
    #[serde(default)]
    sensors: BTreeMap<String, SensorPlan>,
    /// Texts of `spec.yaml`.
    #[serde(default)]
    specs: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    serving: Vec<Spanned<serving::ServingPlan>>,
    #[serde(default)]
    decode: Vec<Spanned<decode::DecodePlan>>,
}

impl Plan {
    /// Reads a plan from its file.
    ///
    /// # Errors
    /// When the file cannot be read or is not a valid plan.
    pub fn read(path: &Path) -> Result<Self, SimulateError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SimulateError::Read { path: path.to_owned(), source })?;
        Ok(Self::parse(&text, path)?)
    }

    /// Parses the text of a plan; `path` is what messages call it, and request traces lie beside it. They
    /// are read when their runs are simulated.
    ///
    /// # Errors
    /// [`PlanError`] names the line, the key, what was found and what is expected.
    pub fn parse(text: &str, path: &Path) -> Result<Self, PlanError> {
        let file: PlanFile =
            toml::from_str(text).map_err(|error| syntax_error(text, path, error))?;
        let runs = file.expand().map_err(|fault| fault.into_error(text, path))?;
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let start_ns = file.start.nanos();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { file_name, folder, seed: file.seed, start_ns, notes: file.notes, runs })
    }

    /// The ids of the runs, in order.
    pub fn run_ids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.runs.iter().map(|run| run.run_id.as_str())
    }
}

impl PlanFile {
    fn read_specs(&self) -> Result<BTreeMap<String, Arc<PlannedSpec>>, Fault> {
        self.specs
            .iter()
            .map(|(name, text)| match PlannedSpec::read(text.get_ref()) {
                Ok(spec) => Ok((name.clone(), Arc::new(spec))),
                Err(message) => Err(Fault::new(text.span(), &format!("specs.{name}"), &message)),
            })
            .collect()
    }

    fn expand(&self) -> Result<Vec<PlannedRun>, Fault> {
        let parts = Parts { file: self, seed: self.seed, specs: self.read_specs()? };
        let mut runs: Vec<PlannedRun> = Vec::new();
        let mut ids = BTreeSet::new();
        let mut add = |run_id: String, kind: PlannedKind, span: Range<usize>, section: &str| {
            if !ids.insert(run_id.clone()) {
                let message = format!("two runs have the id \"{run_id}\"; expected every id once");
                return Err(Fault::new(span, section, &message));
            }
            if runs.len() == MAX_RUNS {
                let message = format!("the plan has more runs than {MAX_RUNS}; expected fewer");
                return Err(Fault::new(span, section, &message));
            }
            runs.push(PlannedRun { run_id, index: runs.len(), kind });
            Ok(())
        };
        for entry in &self.serving {
            for (id, run) in serving::ServingPlan::expand(entry, &parts)? {
                add(id, PlannedKind::Serving(Box::new(run)), entry.span(), "serving")?;
            }
        }
        for (index, entry) in self.decode.iter().enumerate() {
            for (id, run) in decode::DecodePlan::expand(entry, index, &parts)? {
                add(id, PlannedKind::Decode(Box::new(run)), entry.span(), "decode")?;
            }
        }
        if runs.is_empty() {
            let message =
                "the plan has no run; expected at least one [[serving]] or [[decode]] entry";
            return Err(Fault { span: None, key: None, message: message.to_owned() });
        }
        Ok(runs)
    }
}

/// The named parts, for look-up by the entries.
struct Parts<'a> {
    file: &'a PlanFile,
    seed: u64,
    specs: BTreeMap<String, Arc<PlannedSpec>>,
}

type Named<'a, T> = Vec<(&'a str, &'a T)>;

impl<'a> Parts<'a> {
    fn spec(&self, name: &Spanned<String>) -> Result<Arc<PlannedSpec>, Fault> {
        self.specs.get(name.get_ref()).cloned().ok_or_else(|| {
            let known: Vec<String> =
                self.specs.keys().map(|known| format!("\"{known}\"")).collect();
            let expected = match known.as_slice() {
                [] => "a text in [specs], which the plan lacks".to_owned(),
                known => format!("one of {}", known.join(", ")),
            };
            let message = format!("\"{}\" is not in [specs]; expected {expected}", name.get_ref());
            Fault::new(name.span(), "serving.spec", &message)
        })
    }

    fn models(
        &self,
        key: &str,
        names: &'a Spanned<OneOrMany<String>>,
    ) -> Result<Named<'a, ModelPlan>, Fault> {
        look_up(&self.file.models, "models", key, names)
    }

    fn hardware(
        &self,
        key: &str,
        names: &'a Spanned<OneOrMany<String>>,
    ) -> Result<Named<'a, HardwarePlan>, Fault> {
        look_up(&self.file.hardware, "hardware", key, names)
    }

    fn engines(
        &self,
        key: &str,
        names: &'a Spanned<OneOrMany<String>>,
    ) -> Result<Named<'a, EnginePlan>, Fault> {
        look_up(&self.file.engines, "engines", key, names)
    }

    fn workloads(
        &self,
        key: &str,
        names: &'a Spanned<OneOrMany<String>>,
    ) -> Result<Named<'a, WorkloadPlan>, Fault> {
        look_up(&self.file.workloads, "workloads", key, names)
    }

    /// The sensors of a run by id, in the order of `power.parquet`.
    fn sensors(
        &self,
        key: &str,
        names: &'a Spanned<OneOrMany<String>>,
    ) -> Result<Vec<(String, SensorPlan)>, Fault> {
        let found = look_up(&self.file.sensors, "sensors", key, names)?;
        let by_id: BTreeMap<&str, &SensorPlan> = found.iter().copied().collect();
        if by_id.len() < found.len() {
            return Err(Fault::new(names.span(), key, "a sensor is listed twice; expected once"));
        }
        Ok(by_id.into_iter().map(|(id, sensor)| (id.to_owned(), sensor.clone())).collect())
    }

    /// Adds `repeat` runs; their number shows in the ids when there are several.
    fn push_repeats<R>(
        &self,
        runs: &mut Vec<(String, R)>,
        id: &str,
        repeat: u32,
        make: impl Fn(u32) -> R,
    ) -> Result<(), String> {
        let digits = repeat.to_string().len();
        for index in 0..repeat {
            if runs.len() == MAX_RUNS {
                return Err(format!("the entry has more runs than {MAX_RUNS}; expected fewer"));
            }
            let number = index + 1;
            let suffix = if repeat > 1 { format!("-{number:0digits$}") } else { String::new() };
            runs.push((format!("{id}{suffix}"), make(index)));
        }
        Ok(())
    }
}

fn look_up<'a, T>(
    table: &'a BTreeMap<String, T>,
    section: &str,
    key: &str,
    names: &'a Spanned<OneOrMany<String>>,
) -> Result<Named<'a, T>, Fault> {
    let find = |name: &'a String| {
        table.get(name).map(|part| (name.as_str(), part)).ok_or_else(|| {
            let known: Vec<String> = table.keys().map(|known| format!("\"{known}\"")).collect();
            let expected = match known.as_slice() {
                [] => format!("a [{section}.\"{name}\"] table; the plan has no [{section}] at all"),
                [one] => one.clone(),
                _ => format!("one of {}", known.join(", ")),
            };
            Fault::new(
                names.span(),
                key,
                &format!("\"{name}\" is not in [{section}]; expected {expected}"),
            )
        })
    };
    names.get_ref().values().iter().map(find).collect()
}

/// A name as part of a run's id.
fn id_part(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    last.chars().map(plain).collect()
}

/// Something wrong at a place in the plan's text.
#[derive(Debug)]
struct Fault {
    span: Option<Range<usize>>,
    key: Option<String>,
    message: String,
}

impl Fault {
    fn new(span: Range<usize>, key: &str, message: &str) -> Self {
        Self { span: Some(span), key: Some(key.to_owned()), message: message.to_owned() }
    }

    fn into_error(self, text: &str, path: &Path) -> PlanError {
        PlanError {
            path: PathBuf::from(path),
            line: self.span.map(|span| line_of(text, span.start)),
            key: self.key,
            message: self.message,
        }
    }
}

/// An error of the TOML reader.
fn syntax_error(text: &str, path: &Path, error: toml::de::Error) -> PlanError {
    let TomlFault { line, key, message } = TomlFault::new(text, error);
    PlanError { path: PathBuf::from(path), line, key, message }
}
