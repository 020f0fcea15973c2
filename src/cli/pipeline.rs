//! From an archive to the records of its runs: every run on its own, all cores at work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use indicatif::ProgressBar;
use rayon::prelude::*;
use wattrace_analysis::Options;
use wattrace_analysis::metrics::{RequestEnergy, RunAnalysis, analyze};
use wattrace_analysis::model::Observation;
use wattrace_analysis::service::ServiceRun;
use wattrace_report::{ReportError, ResultTable, RunRecord, tables};
use wattrace_schema::Run;
use wattrace_trace::{
    Finding, ReadOptions, RunLocation, Severity, TraceError, find_runs, read_manifest, read_run,
};

use crate::command::service::SpecPlan;
use crate::exit::Failure;

/// What is read and computed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) read: ReadOptions,
    pub(crate) options: Options,
    /// Keep the energy of every request.
    pub(crate) per_request: bool,
    /// Prepare spec-driven reports.
    pub(crate) service: Option<SpecPlan>,
}

/// One run, done.
pub(crate) struct Done {
    pub(crate) record: RunRecord,
    /// What the decode energy model sees of it.
    pub(crate) observation: Option<Observation>,
    /// Rows of the `requests` table.
    pub(crate) requests: Option<ResultTable>,
    /// What spec-driven reports see of it.
    pub(crate) service: Option<ServiceRun>,
    /// What was found while reading, each with its run.
    pub(crate) warnings: Vec<String>,
}

/// The runs of an archive; none is no usable input.
pub(crate) fn runs_of(archive: &Path) -> Result<Vec<RunLocation>, Failure> {
    find_runs(archive).map_err(Failure::no_input)
}

/// Runs finished between two hand-overs, for each worker: enough that a long run rarely leaves the
/// others idle, few enough that their request tables stay small.
const RUNS_PER_WORKER: usize = 8;

/// Works through the runs and hands each over in their order. Memory holds the rows of as many runs as
/// there are workers.
pub(crate) fn each_run(
    locations: &[RunLocation],
    plan: &Plan,
    progress: &ProgressBar,
    mut hand_over: impl FnMut(Done) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let batch = rayon::current_num_threads() * RUNS_PER_WORKER;
    // Only the request tables are worth handing over early.
    let batch = if plan.per_request { batch } else { locations.len().max(1) };
    for locations in locations.chunks(batch) {
        let done: Vec<Done> = locations
            .par_iter()
            .with_max_len(1)
            .map(|location| {
                let done = one_run(location, plan);
                progress.inc(1);
                done
            })
            .collect();
        for done in done {
            hand_over(done)?;
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// Reads and analyses one run. Whatever goes wrong stays with this run.
fn one_run(location: &RunLocation, plan: &Plan) -> Done {
    let outcome = catch_unwind(AssertUnwindSafe(|| read_and_analyze(location, plan)));
    let (analysed, mut warnings) = match outcome {
        Ok(Ok((analysed, warnings))) => (Ok(analysed), warnings),
        Ok(Err(error)) => (Err(error.with_causes()), Vec::new()),
        // A fault of ours must not cost the user the other runs.
        Err(_) => (Err("the program failed on this run; please report it".to_owned()), Vec::new()),
    };
    let path = location.relative.clone();
    match analysed {
        Ok((run, mut analysis)) => {
            let observation = Observation::of(&run, &analysis.metrics);
            let requests = requests_table(&run, &analysis, plan);
            let service = service_run(location, &run, plan).unwrap_or_else(|error| {
                warnings.push(format!(
                    "run \"{}\" takes no part in spec-driven tables: {}",
                    run.manifest.run_id,
                    error.with_causes()
                ));
                None
            });
            // The energies of single requests are in that table; a record keeps what one run sums up to.
            analysis.requests = analysis.requests.map(|_| Vec::new());
            let record = RunRecord { path, manifest: Some(run.manifest), analysis: Ok(analysis) };
            Done { record, observation, requests, service, warnings }
        }
        Err(error) => {
            let manifest = read_manifest(location).ok();
            let record = RunRecord { path, manifest, analysis: Err(error) };
            Done { record, observation: None, requests: None, service: None, warnings }
        }
    }
}

fn service_run(
    location: &RunLocation,
    run: &Run,
    plan: &Plan,
) -> Result<Option<ServiceRun>, TraceError> {
    plan.service.as_ref().map_or(Ok(None), |service| service.run(location, run))
}

type Analysed = (Run, RunAnalysis);

fn read_and_analyze(
    location: &RunLocation,
    plan: &Plan,
) -> Result<(Analysed, Vec<String>), TraceError> {
    let loaded = read_run(location, plan.read)?;
    let analysis = analyze(&loaded.run, &plan.options);
    let run_id = &loaded.run.manifest.run_id;
    let warnings = loaded
        .findings
        .iter()
        .filter(|finding| finding.severity >= Severity::Warning)
        .map(|finding| describe(run_id, finding))
        .collect();
    Ok(((loaded.run, analysis), warnings))
}

/// A finding in one line.
pub(crate) fn describe(run_id: &str, finding: &Finding) -> String {
    let column = finding.column.map(|column| format!(" column \"{column}\"")).unwrap_or_default();
    let row = finding.row.map(|row| format!(" row {row}")).unwrap_or_default();
    format!("run \"{run_id}\" \"{}\"{column}{row}: {}", finding.file, finding.message)
}

fn requests_table(run: &Run, analysis: &RunAnalysis, plan: &Plan) -> Option<ResultTable> {
    if !plan.per_request {
        return None;
    }
    // Without an attribution the requests are listed all the same, with nulls.
    let energies: &[RequestEnergy] = analysis.requests.as_deref().unwrap_or_default();
    Some(tables::requests(&run.manifest.run_id, run.requests.as_ref()?, energies))
}
