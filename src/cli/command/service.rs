//! What the commands of spec-driven reports share: reading an archive, or the tables of results.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rayon::prelude::*;
use wattrace_analysis::service::{
    Allowed, ENGINE_METRICS, ServiceAnalysis, ServiceOptions, ServiceRun, SpecOrigin,
    analyze_service,
};
use wattrace_report::{Results, ResultsManifest, ServiceTables};
use wattrace_schema::spec::LockedSpec;
use wattrace_schema::{Run, RunKind};
use wattrace_trace::{ReadOptions, RunLocation, TraceError, read_run, read_run_spec, read_spec};

use crate::exit::Failure;
use crate::output::Output;
use crate::pipeline::{is_results, runs_of, warnings};

/// Cards of a fleet that nobody named: with a hundred, cards needed read as a percentage.
pub(crate) const USUAL_CARDS: u64 = 100;

/// Where the runs or their tables come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceInput {
    /// Archive (a folder of runs), or results of `wattrace analyze`
    #[arg(value_name = "ARCHIVE|RESULTS")]
    pub(crate) input: PathBuf,
    /// Seed of the bootstrap intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What is asked of the runs besides what their specs say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Spec for runs that name none.
    pub(crate) spec: Option<&'a Path>,
    /// Cards of the fleet whose capacity is reckoned.
    pub(crate) cards: u64,
    /// Configuration that the others are held against.
    pub(crate) reference: Option<&'a str>,
    /// Comparisons that are made though they should not be.
    pub(crate) allowed: Allowed,
}

impl<'a> Asked<'a> {
    /// Nothing but perhaps a spec.
    pub(crate) fn spec(spec: Option<&'a Path>) -> Self {
        Self { spec, cards: USUAL_CARDS, reference: None, allowed: Allowed::default() }
    }
}

/// What the reading of an archive needs.
#[derive(Debug, Clone)]
pub(crate) struct SpecPlan {
    /// Measures runs that name no spec.
    pub(crate) given: Option<Arc<LockedSpec>>,
}

impl SpecPlan {
    /// The plan for a spec on the command line, if there is one.
    pub(crate) fn new(spec: Option<&Path>) -> Result<Self, Failure> {
        let given = spec.map(given_spec).transpose()?.map(Arc::new);
        Ok(Self { given })
    }

    /// A run as spec-driven reports see it; `None` for other kinds of run.
    pub(crate) fn run(
        &self,
        location: &RunLocation,
        run: &Run,
    ) -> Result<Option<ServiceRun>, TraceError> {
        if run.manifest.kind != RunKind::Serving {
            return Ok(None);
        }
        let own =
            read_run_spec(location, &run.manifest)?.map(|spec| (Arc::new(spec), SpecOrigin::Run));
        let given = || self.given.clone().map(|spec| (spec, SpecOrigin::Given));
        Ok(Some(ServiceRun::of(run, own.or_else(given))))
    }
}

/// The tables that such reports are read from besides the usual ones.
pub(crate) const fn read_options(verify: bool) -> ReadOptions {
    ReadOptions { verify, accuracy: true, health: true, engine_metrics: ENGINE_METRICS }
}

/// A spec that was named on the command line.
pub(crate) fn given_spec(path: &Path) -> Result<LockedSpec, Failure> {
    read_spec(path).map_err(|error| match error {
        TraceError::Spec { .. } => Failure::usage(error),
        _ => Failure::no_input(error),
    })
}

/// What was loaded, and what its reader must know.
pub(crate) struct Loaded {
    pub(crate) tables: ServiceTables,
    /// `results.json`, where results were read.
    pub(crate) results: Option<ResultsManifest>,
    /// The runs' analysis, where an archive was read.
    pub(crate) analysis: Option<ServiceAnalysis>,
    pub(crate) locations: Vec<RunLocation>,
    /// Runs that could not be read, specs that are not valid, values that cannot be.
    pub(crate) warnings: Vec<String>,
}

/// Loads an archive, or the tables of a results folder.
pub(crate) fn load(
    input: &ServiceInput,
    asked: &Asked<'_>,
    output: &Output,
) -> Result<Loaded, Failure> {
    if is_results(&input.input) {
        return load_results(&input.input);
    }
    let locations = runs_of(&input.input)?;
    let plan = SpecPlan::new(asked.spec)?;
    let progress = output.progress(locations.len(), "reading");
    let read: Vec<_> = locations
        .par_iter()
        .with_max_len(1)
        .map(|location| {
            let read = read_one(location, &plan);
            progress.inc(1);
            read
        })
        .collect();
    progress.finish_and_clear();
    let mut warnings = Vec::new();
    let mut runs = Vec::new();
    for (location, read) in locations.iter().zip(read) {
        match read {
            Ok((run, found)) => {
                runs.extend(run);
                warnings.extend(found);
            }
            Err(error) => {
                warnings.push(format!("run \"{}\": {}", location.relative, error.with_causes()));
            }
        }
    }
    if runs.is_empty() {
        warnings.iter().for_each(|warning| output.warn(warning));
        return Err(Failure::no_input(anyhow::anyhow!(
            "\"{}\" holds no serving run that could be read; expected runs with kind \"serving\"",
            input.input.display()
        )));
    }
    let options = ServiceOptions {
        seed: input.seed,
        cards: asked.cards,
        reference: asked.reference.map(str::to_owned),
        allowed: asked.allowed,
    };
    let analysis = analyze_service(runs, &options);
    warnings.extend(analysis.warnings.iter().cloned());
    let tables = ServiceTables::of(&analysis);
    Ok(Loaded { tables, results: None, analysis: Some(analysis), locations, warnings })
}

type ReadRun = (Option<ServiceRun>, Vec<String>);

fn read_one(location: &RunLocation, plan: &SpecPlan) -> Result<ReadRun, TraceError> {
    let loaded = read_run(location, read_options(true))?;
    let warnings = warnings(&loaded.run.manifest.run_id, &loaded.findings);
    Ok((plan.run(location, &loaded.run)?, warnings))
}

fn load_results(folder: &Path) -> Result<Loaded, Failure> {
    let results = Results::open(folder).map_err(Failure::no_input)?;
    let tables = ServiceTables::read(&results).map_err(Failure::no_input)?;
    if tables.is_empty() {
        return Err(Failure::no_input(anyhow::anyhow!(
            "\"{}\" holds no tables of spec-driven reports; analyze an archive whose runs name a spec or \
             a request rate, or give --spec to `wattrace analyze`",
            folder.display()
        )));
    }
    let manifest = results.manifest().clone();
    let warnings = Vec::new();
    Ok(Loaded { tables, results: Some(manifest), analysis: None, locations: Vec::new(), warnings })
}

impl Loaded {
    /// Refuses an option that only an archive can answer.
    pub(crate) fn needs_archive(&self, asked: bool, option: &str) -> Result<(), Failure> {
        if asked && self.results.is_some() {
            return Err(Failure::usage(anyhow::anyhow!(
                "{option} needs the runs themselves: give the archive, not results"
            )));
        }
        Ok(())
    }

    /// The tables called `names`, as one JSON object.
    pub(crate) fn json(&self, names: &[&str]) -> String {
        let tables: serde_json::Map<String, serde_json::Value> = names
            .iter()
            .filter_map(|name| self.tables.table(name))
            .map(|table| (table.name.clone(), table.to_json().into()))
            .collect();
        format!("{:#}\n", serde_json::Value::Object(tables))
    }
}
