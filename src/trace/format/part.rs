//! What an input gives to a run: rows, and what it knows for `run.json`.

use std::path::Path;

use wattrace_schema::{
    Claim, Engine, ImportedInput, InputClock, Model, PowerSource, RequestStage, RunKind, Stages,
    Workload,
};

use super::{Input, Skipped};
use crate::{AccuracyWriteRow, EngineRow, PowerRow, RequestRow, StepRow, TraceError};

/// Takes what importers read, row by row. A part is begun, gets its rows in any order, and is ended with
/// what else is known of it; an input may hold several parts, one after the other, each a run of its own.
pub trait Sink {
    /// Begins a part. `name` is what its run is called unless the caller names it; see [`Input::stem`].
    ///
    /// # Errors
    /// When the run cannot be begun, or another part is open.
    fn begin(&mut self, name: &str) -> Result<(), TraceError>;
    /// Takes a power reading.
    ///
    /// # Errors
    /// When it cannot be written.
    fn power(&mut self, row: PowerRow) -> Result<(), TraceError>;
    /// Takes a request.
    ///
    /// # Errors
    /// When it cannot be written.
    fn request(&mut self, row: RequestRow) -> Result<(), TraceError>;
    /// Takes an engine step.
    ///
    /// # Errors
    /// When it cannot be written.
    fn step(&mut self, row: StepRow) -> Result<(), TraceError>;
    /// Takes a value of one of the engine's metrics.
    ///
    /// # Errors
    /// When it cannot be written.
    fn engine(&mut self, row: EngineRow) -> Result<(), TraceError>;
    /// Takes an accuracy score.
    ///
    /// # Errors
    /// When it cannot be written.
    fn accuracy(&mut self, row: AccuracyWriteRow) -> Result<(), TraceError>;
    /// Ends the part that was begun last.
    ///
    /// # Errors
    /// When the run cannot be written, or the part contradicts its rows.
    fn end(&mut self, part: Part) -> Result<(), TraceError>;
}

/// What an input says of a run besides its rows. What it does not say stays empty.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// [`RunKind::Summary`] where there are only claims; a serving run by default.
    pub kind: Option<RunKind>,
    /// What is compared, such as the scenario of a benchmark.
    pub configuration: Option<String>,
    /// The model; its name may be empty.
    pub model: Model,
    /// Name of the accelerator.
    pub accelerator: Option<String>,
    /// How many of them.
    pub accelerators: Option<u32>,
    /// Name of the node.
    pub node: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// The engine.
    pub engine: Engine,
    /// What was asked of it.
    pub workload: Workload,
    /// Stamps that the input states. Without a formal window in any input, the first sending to the last
    /// end of formal requests is taken, and a note says so.
    pub stages: Stages,
    /// One for every source id that the power rows name.
    pub power_sources: Vec<PowerSource>,
    /// Published values that the rows may not allow to recompute.
    pub claims: Vec<Claim>,
    /// What was decided on the way, and why.
    pub notes: Vec<String>,
    /// What was left out.
    pub skipped: Skipped,
    /// How the times were read.
    pub clock: InputClock,
}

impl Part {
    /// Notes with those about what was left out of `input`.
    pub(super) fn all_notes(&self, path: &Path) -> Vec<String> {
        self.skipped.notes(path).into_iter().chain(self.notes.iter().cloned()).collect()
    }

    /// The entry of `provenance.inputs`.
    pub(super) fn imported_input(
        &self,
        role: Option<&str>,
        format: &str,
        input: &Input,
    ) -> Result<ImportedInput, TraceError> {
        Ok(ImportedInput {
            role: role.map(str::to_owned),
            format: format.to_owned(),
            file: input.file_name(),
            sha256: Some(input.sha256()?),
            clock: self.clock.clone(),
            skipped: self.skipped.count(),
        })
    }
}

/// First sending and last end of the formal requests that passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestSpan {
    first_send_ns: Option<i64>,
    last_end_ns: Option<i64>,
}

impl RequestSpan {
    pub(super) fn add(&mut self, row: &RequestRow) {
        if row.stage != RequestStage::Formal {
            return;
        }
        let earlier = |known: Option<i64>, new: i64| known.map_or(new, |known| known.min(new));
        let later = |known: Option<i64>, new: i64| known.map_or(new, |known| known.max(new));
        if let Some(sent) = row.t_send_ns {
            self.first_send_ns = Some(earlier(self.first_send_ns, sent));
        }
        // A request without an end reaches to its last known time.
        if let Some(last) = row.t_end_ns.or(row.t_first_token_ns).or(row.t_send_ns) {
            self.last_end_ns = Some(later(self.last_end_ns, last));
        }
    }

    /// The window, if it has a length.
    pub(super) fn window(self) -> Option<(i64, i64)> {
        self.first_send_ns.zip(self.last_end_ns).filter(|(start, end)| start < end)
    }
}
