//! From an archive to the records of its runs: every run on its own, all cores at work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use indicatif::ProgressBar;
use rayon::prelude::*;
use wattrace_analysis::Options;
use wattrace_analysis::metrics::{RequestEnergy, RunAnalysis, Timeline, analyze, timeline};
use wattrace_analysis::model::Observation;
use wattrace_analysis::service::ServiceRun;
use wattrace_report::{ReportError, ResultTable, RunRecord, tables};
use wattrace_schema::Run;
use wattrace_trace::{
    Finding, ReadOptions, RunLocation, Severity, TraceError, find_runs, read_manifest, read_run,
};

use crate::command::service::SpecPlan;
use crate::exit::Failure;
use crate::output::Output;

/// What is read and computed; by default the metrics and nothing besides.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) read: ReadOptions,
    pub(crate) options: Options,
    /// Keep the energy of every request.
    pub(crate) per_request: bool,
    /// Keep power over time, which only figures show.
    pub(crate) timelines: bool,
    /// Prepare spec-driven reports.
    pub(crate) service: Option<SpecPlan>,
}

/// One run, done.
pub(crate) struct Done {
    pub(crate) record: RunRecord,
    /// What the decode energy model sees of it.
    pub(crate) observation: Option<Observation>,
    /// Its power over time, if asked for; none for a run without power and stamps.
    pub(crate) timeline: Option<Timeline>,
    /// Rows of the `requests` table.
    pub(crate) requests: Option<ResultTable>,
    /// What spec-driven reports see of it.
    pub(crate) service: Option<ServiceRun>,
    /// What was found while reading, each with its run.
    pub(crate) warnings: Vec<String>,
}

/// Whether a folder holds results and not an archive.
pub(crate) fn is_results(input: &Path) -> bool {
    input.join("results.json").is_file()
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

/// Reads the metrics of every run of an archive, says what went wrong, and hands each run over in order.
pub(crate) fn each_run_of(
    archive: &Path,
    output: &Output,
    mut hand_over: impl FnMut(Done),
) -> Result<(), Failure> {
    let locations = runs_of(archive)?;
    let progress = output.progress(locations.len(), "reading");
    each_run(&locations, &Plan::default(), &progress, |done| {
        if let Err(error) = &done.record.analysis {
            output.error(&format!("run \"{}\": {error}", done.record.run_id()));
        }
        done.warnings.iter().for_each(|warning| output.warn(warning));
        hand_over(done);
        Ok(())
    })?;
    Ok(())
}

/// Reads and analyses one run. Whatever goes wrong stays with this run.
fn one_run(location: &RunLocation, plan: &Plan) -> Done {
    let error = match catch_unwind(AssertUnwindSafe(|| read_and_analyze(location, plan))) {
        Ok(Ok(done)) => return done,
        Ok(Err(error)) => error.with_causes(),
        // A fault of ours must not cost the user the other runs.
        Err(_) => "the program failed on this run; please report it".to_owned(),
    };
    let manifest = read_manifest(location).ok();
    let record = RunRecord { path: location.relative.clone(), manifest, analysis: Err(error) };
    Done {
        record,
        observation: None,
        timeline: None,
        requests: None,
        service: None,
        warnings: Vec::new(),
    }
}

fn read_and_analyze(location: &RunLocation, plan: &Plan) -> Result<Done, TraceError> {
    let loaded = read_run(location, plan.read)?;
    let run = loaded.run;
    let mut analysis = analyze(&run, &plan.options);
    let run_id = &run.manifest.run_id;
    let mut warnings = warnings(run_id, &loaded.findings);
    let observation = Observation::of(&run, &analysis.metrics);
    let requests = requests_table(&run, &analysis, plan);
    let timeline = plan.timelines.then(|| timeline(&run, &analysis.metrics)).flatten();
    let service = service_run(location, &run, plan).unwrap_or_else(|error| {
        warnings.push(format!(
            "run \"{run_id}\" takes no part in spec-driven tables: {}",
            error.with_causes()
        ));
        None
    });
    // The energies of single requests are in that table; a record keeps what one run sums up to.
    analysis.requests = analysis.requests.map(|_| Vec::new());
    let path = location.relative.clone();
    let record = RunRecord { path, manifest: Some(run.manifest), analysis: Ok(analysis) };
    Ok(Done { record, observation, timeline, requests, service, warnings })
}

fn service_run(
    location: &RunLocation,
    run: &Run,
    plan: &Plan,
) -> Result<Option<ServiceRun>, TraceError> {
    plan.service.as_ref().map_or(Ok(None), |service| service.run(location, run))
}

/// What was found in a run and is worth a warning, a line each.
pub(crate) fn warnings(run_id: &str, findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .filter(|finding| finding.severity >= Severity::Warning)
        .map(|finding| describe(run_id, finding))
        .collect()
}

/// A finding in one line.
fn describe(run_id: &str, finding: &Finding) -> String {
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
