//! `wattrace analyze`.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use wattrace_analysis::metrics::DEFINITIONS_VERSION;
use wattrace_analysis::model::{Observation, fit_archive};
use wattrace_analysis::ranking::{RankOptions, rank};
use wattrace_analysis::service::{
    Allowed, ServiceAnalysis, ServiceOptions, ServiceRun, analyze_service,
};
use wattrace_analysis::{Options, ServiceLevel, SteadyRule};
use wattrace_report::tables::RunTimeline;
use wattrace_report::{
    Provenance, ResultTable, ResultsManifest, RunCounts, RunRecord, ServiceTables, SyntheticShare,
    TableWriter, WrittenTable, remove_earlier_results, serving_runs, tables, text, write_table,
};
use wattrace_trace::{RunLocation, archive_digest, read_manifest};

use super::fit::{add_observation, excluded, fit_options};
use super::service::{self, SpecPlan};
use crate::args::{Analyze, Limit};
use crate::command_line::command_line;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::pipeline::{Plan, each_run, runs_of};

pub(crate) fn run(args: &Analyze, output: &Output) -> Result<Exit, Failure> {
    let locations = runs_of(&args.archive)?;
    let options = options(args)?;
    let service = SpecPlan::new(args.spec.as_deref())?;
    let given_spec = service.given.as_ref().map(|spec| spec.hash().to_owned());
    let plan = Plan {
        read: service::read_options(!args.no_verify),
        options,
        per_request: args.per_request,
        timelines: true,
        service: Some(service),
    };
    outside_the_archive(args, &locations)?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make the folder \"{}\"", args.out.display()))?;
    remove_earlier_results(&args.out)?;
    let provenance = provenance(args, &options, given_spec.as_deref(), &locations);

    let progress = output.progress(locations.len(), "analysing");
    let mut requests = args
        .per_request
        .then(|| {
            let none = tables::requests("", &wattrace_schema::Requests::default(), &[]);
            TableWriter::create(&args.out, &none, &provenance)
        })
        .transpose()?;
    let mut records = Vec::with_capacity(locations.len());
    let mut observations = Vec::new();
    let mut timelines = Vec::new();
    let mut served = Vec::new();
    let mut warnings = Vec::new();
    each_run(&locations, &plan, &progress, |done| {
        if let (Some(writer), Some(rows)) = (&mut requests, done.requests) {
            writer.append(rows)?;
        }
        timelines.extend(done.timeline.map(|timeline| (done.record.run_id().to_owned(), timeline)));
        records.push(done.record);
        add_observation(&mut observations, done.observation);
        served.extend(done.service);
        warnings.extend(done.warnings);
        Ok(())
    })?;
    warnings.extend(repeated_ids(&records));
    let model =
        (!observations.is_empty()).then(|| fit_archive(&observations, &fit_options(&args.fit)));
    if let Some(model) = &model {
        warnings.extend(excluded(model));
    }
    let service = service_tables_of(args, served);
    warnings.extend(service.iter().flat_map(|service| service.warnings.iter().cloned()));

    let serving = serving_runs(&records);
    let ranking = (!serving.is_empty()).then(|| rank(&serving, &rank_options(args)));

    let mut all = run_tables(&records);
    all.extend(ranking.iter().flat_map(tables::ranking_tables));
    all.extend(model.iter().flat_map(|model| tables::model_tables(&model.tables)));
    all.extend(service.iter().flat_map(tables::service_tables));
    all.extend(figure_tables(&timelines, &observations));
    let mut written = write_tables(&args.out, &all, &provenance)?;
    written.extend(requests.map(TableWriter::finish).transpose()?);
    let mut manifest =
        ResultsManifest::new(&provenance, command_line(&["--jobs"]), RunCounts::of(&records));
    manifest.warnings.clone_from(&warnings);
    manifest.tables = written;
    manifest.write(&args.out)?;

    for warning in &warnings {
        output.warn(warning);
    }
    if output.json {
        output.data(&format!("{}\n", serde_json::to_string_pretty(&manifest)?))?;
    } else {
        output.data(&text::runs_overview(&records, output.style()))?;
        if let Some(model) = &model {
            output.data(&format!("\n{}", text::fits_overview(&model.tables, output.style())))?;
        }
        if let Some(service) = &service {
            let tables = ServiceTables::of(service);
            output.data(&format!("\n{}", text::goodput_overview(&tables, output.style())))?;
        }
        output.detail(&format!("results lie in {}", args.out.display()));
    }
    if records.iter().all(|record| record.analysis.is_err()) {
        return Ok(Exit::NoInput);
    }
    let failed = records.iter().any(|record| record.analysis.is_err());
    Ok(Exit::findings_if(failed || !warnings.is_empty()))
}

/// The tables of spec-driven reports, if a run was made under a spec or at a request rate.
fn service_tables_of(args: &Analyze, runs: Vec<ServiceRun>) -> Option<ServiceAnalysis> {
    let takes_part =
        |run: &ServiceRun| run.spec.is_some() || run.measurement.request_rate.is_some();
    let options = ServiceOptions {
        seed: args.fit.seed,
        cards: args.cards,
        reference: None,
        allowed: Allowed::default(),
    };
    runs.iter().any(takes_part).then(|| analyze_service(runs, &options))
}

/// Runs are never changed, so results do not go into the archive or into a run.
fn outside_the_archive(args: &Analyze, locations: &[RunLocation]) -> Result<(), Failure> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let out = absolute(&args.out);
    let inside_run = locations.iter().any(|run| out.starts_with(absolute(&run.folder)));
    if inside_run || out == absolute(&args.archive) {
        let out = args.out.display();
        return Err(Failure::usage(anyhow::anyhow!(
            "\"{out}\" lies inside the archive, whose runs are never changed; \
             give --out a folder beside it"
        )));
    }
    Ok(())
}

fn options(args: &Analyze) -> Result<Options, Failure> {
    let steady = SteadyRule {
        size: args.steady.steady_size as usize,
        cv: args.steady.steady_cv,
        windows: args.steady.steady_windows,
    };
    let mut level = ServiceLevel::default();
    for (limit, ms) in &args.goodput {
        let place = match limit {
            Limit::Ttft => &mut level.ttft_ms,
            Limit::Tpot => &mut level.tpot_ms,
            Limit::E2e => &mut level.e2e_ms,
        };
        if place.replace(*ms).is_some() {
            return Err(Failure::usage(anyhow::anyhow!("--goodput names one latency twice")));
        }
    }
    let service_level = (!args.goodput.is_empty()).then_some(level);
    Ok(Options { steady, service_level })
}

/// What every file says about how it came about; the number of jobs is not part of it.
fn provenance(
    args: &Analyze,
    options: &Options,
    given_spec: Option<&str>,
    locations: &[RunLocation],
) -> Provenance {
    let synthetic = locations
        .iter()
        .filter_map(|location| read_manifest(location).ok())
        .map(|manifest| manifest.synthetic);
    Provenance {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        metric_definitions_version: DEFINITIONS_VERSION,
        options: recorded_options(args, options, given_spec),
        archive_sha256: Some(archive_digest(locations)),
        synthetic: SyntheticShare::of(synthetic),
    }
}

fn recorded_options(args: &Analyze, options: &Options, given_spec: Option<&str>) -> Value {
    json!({
        "service": { "given_spec": given_spec, "cards": args.cards, "seed": args.fit.seed },
        "fit": fit_options(&args.fit),
        "rank": rank_options(args),
        "metrics": options,
        "verify": !args.no_verify,
        "per_request": args.per_request,
    })
}

const fn rank_options(args: &Analyze) -> RankOptions {
    RankOptions { resamples: args.fit.bootstrap as usize, seed: args.fit.seed }
}

/// The tables that hold one run beside the other.
fn run_tables(records: &[RunRecord]) -> Vec<ResultTable> {
    vec![
        tables::runs(records),
        tables::metrics(records),
        tables::device_energies(records),
        tables::claims(records),
    ]
}

fn write_tables(
    folder: &Path,
    all: &[ResultTable],
    provenance: &Provenance,
) -> Result<Vec<WrittenTable>, Failure> {
    all.iter().map(|table| Ok(write_table(folder, table, provenance)?)).collect()
}

/// The tables that hold what figures show and no other table does.
fn figure_tables(timelines: &[RunTimeline], observations: &[Observation]) -> Vec<ResultTable> {
    let mut all = vec![tables::power_timeline(timelines), tables::stages(timelines)];
    if !observations.is_empty() {
        all.push(tables::step_times(observations));
    }
    all
}

/// Run ids that more than one run has: their rows can be told apart only by folder.
fn repeated_ids(records: &[RunRecord]) -> Vec<String> {
    let mut folders = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for record in records {
        folders.entry(record.run_id()).or_default().push(&record.path);
    }
    folders
        .into_iter()
        .filter(|(_, paths)| paths.len() > 1)
        .map(|(run_id, paths)| {
            format!(
                "run id \"{run_id}\" is used by {}; expected one run an id; \
                 only the first takes part in fits and ranks",
                paths.join(", ")
            )
        })
        .collect()
}
