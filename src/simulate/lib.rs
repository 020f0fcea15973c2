//! Synthetic archives with known truth.
//!
//! A [`Plan`] says which runs to make; [`simulate`] makes them. Everything is marked as synthetic, and
//! beside the rows of each run lies `truth.json`: what a perfect instrument would say of it. The same
//! plan gives the same bytes on one kind of machine, however many threads work on it (another
//! mathematics library may round the last digit differently).
//!
//! - **Serving runs** live through idle, start-up, warm-up, formal requests and release. A server with
//!   continuous batching is simulated iteration by iteration; true power follows from what each
//!   iteration does, and sensors see it with their intervals, averages, counters, noise and clocks.
//! - **Decode runs** draw their energy from the energy model, at the coordinates of their own step log.
//!
//! ```
//! use std::path::Path;
//! use wattrace_simulate::Plan;
//!
//! let error = Plan::parse("seed = 1\nstrat = 2\n", Path::new("plan.toml")).unwrap_err();
//! assert!(error.to_string().starts_with("plan \"plan.toml\" line 2: unknown key \"strat\""));
//! ```

mod decode;
mod error;
mod plan;
mod profile;
mod random;
mod sensor;
mod serving;
mod step_law;
mod time;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use wattrace_schema::Provenance;
use wattrace_trace::{RunWriter, TraceError};

pub use error::{PlanError, SimulateError};
pub use plan::Plan;
use plan::{PlannedKind, PlannedRun};
pub(crate) use time::{MAX_RUN_SECONDS, milliseconds_to_ns, nanoseconds_to_seconds, seconds_to_ns};

/// Time between the beginnings of one run and the next.
const RUN_SPACING_NS: i64 = 3_600_000_000_000;

/// How far a simulation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Runs that are complete.
    pub done: usize,
    /// Runs of the plan.
    pub total: usize,
    /// The run that was completed last.
    pub run_id: &'a str,
}

/// What a simulation made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulateSummary {
    /// Folders of the runs, in the order of the plan.
    pub runs: Vec<PathBuf>,
}

/// Simulates every run of `plan` into `archive` and calls `progress` after each. `threads` limits the
/// threads that work; without it the current rayon pool does. Neither changes a byte of the result.
///
/// # Errors
/// The first run, in the order of the plan, that exists already, leads nowhere or cannot be written.
/// Runs that were complete by then stay.
pub fn simulate(
    plan: &Plan,
    archive: &Path,
    threads: Option<NonZeroUsize>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<SimulateSummary, SimulateError> {
    let all_runs = || simulate_runs(plan, archive, progress);
    let Some(threads) = threads else { return all_runs() };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .build()
        .map_err(|source| SimulateError::Threads { threads: threads.get(), source })?
        .install(all_runs)
}

fn simulate_runs(
    plan: &Plan,
    archive: &Path,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<SimulateSummary, SimulateError> {
    let done = AtomicUsize::new(0);
    let folders: Vec<Result<PathBuf, SimulateError>> = plan
        .runs
        .par_iter()
        .map(|run| {
            let folder = simulate_run(plan, run, archive)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Progress { done, total: plan.runs.len(), run_id: &run.run_id });
            Ok(folder)
        })
        .collect();
    Ok(SimulateSummary { runs: folders.into_iter().collect::<Result<_, _>>()? })
}

fn simulate_run(plan: &Plan, run: &PlannedRun, archive: &Path) -> Result<PathBuf, SimulateError> {
    let context = Context {
        seed: plan.seed,
        run_index: run.index,
        run_id: &run.run_id,
        start_ns: plan.start_ns + RUN_SPACING_NS * run.index as i64,
        plan_file: &plan.file_name,
        plan_folder: &plan.folder,
        notes: &plan.notes,
    };
    let simulated =
        RunWriter::create(archive, &run.run_id).map_err(RunError::Write).and_then(|writer| {
            match &run.kind {
                PlannedKind::Serving(serving) => serving::simulate(&context, serving, writer),
                PlannedKind::Decode(decode) => decode::simulate(&context, decode, writer),
            }
        });
    simulated.map_err(|error| error.of_run(&run.run_id))
}

/// What every run needs to know besides its own part of the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) seed: u64,
    pub(crate) run_index: usize,
    pub(crate) run_id: &'a str,
    pub(crate) start_ns: i64,
    pub(crate) plan_file: &'a str,
    pub(crate) plan_folder: &'a Path,
    pub(crate) notes: &'a [String],
}

impl Context<'_> {
    /// Who made the run, marked as simulated in every line that can say so.
    pub(crate) fn provenance<const N: usize>(&self, notes: [String; N]) -> Provenance {
        let mut all = vec![format!(
            "synthetic: simulated with seed {} as run {} of the plan; the true values are in truth.json",
            self.seed, self.run_index
        )];
        all.extend(notes);
        all.extend_from_slice(self.notes);
        Provenance {
            recorder: Some("wattrace simulate".to_owned()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            command: Some(format!("wattrace simulate {}", self.plan_file)),
            imported_from: None,
            inputs: Vec::new(),
            notes: all,
        }
    }

    pub(crate) fn truth_json<T: serde::Serialize>(&self, truth: &T) -> Result<Vec<u8>, RunError> {
        let mut json = serde_json::to_vec(truth)
            .map_err(|error| RunError::Message(format!("truth.json cannot be written: {error}")))?;
        json.push(b'\n');
        Ok(json)
    }
}

/// Why one run failed.
#[derive(Debug)]
pub(crate) enum RunError {
    /// The numbers lead nowhere.
    Message(String),
    /// The writer failed.
    Write(TraceError),
}

impl RunError {
    fn too_long() -> Self {
        let days = MAX_RUN_SECONDS / 86_400.0;
        Self::Message(format!("the run lasts longer than {days} days; expected less"))
    }

    fn of_run(self, run_id: &str) -> SimulateError {
        let run_id = run_id.to_owned();
        match self {
            Self::Message(message) => SimulateError::Run { run_id, message },
            Self::Write(source) => SimulateError::Write { run_id, source },
        }
    }
}

impl From<TraceError> for RunError {
    fn from(source: TraceError) -> Self {
        Self::Write(source)
    }
}
