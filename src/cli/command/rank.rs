//! `wattrace rank`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};
use wattrace_analysis::ranking::{RankOptions, ServingRun, rank};
use wattrace_report::{Results, serving_runs, stored_serving_runs, tables, text};

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::pipeline::{each_run_of, is_results};

/// Rank models by steady and by lifecycle energy, and say who swaps places
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace rank archive
  wattrace rank results
  wattrace rank results --json

For every task, size group and engine: Spearman's rho between the steady and the lifecycle order of the
models with its two-sided p (exact up to nine models), Kendall's tau-b, a bootstrap interval over models,
and the pairs that swap. Then engines beside each other, amortisation, and the runs left out with the reason.")]
pub(crate) struct Rank {
    /// Archive, or the results folder of `wattrace analyze`
    #[arg(value_name = "ARCHIVE|RESULTS")]
    pub(crate) input: PathBuf,
    /// Resamples of models for the bootstrap interval, 0 for none (default: 10000, or as in the results)
    #[arg(long, value_name = "N")]
    pub(crate) bootstrap: Option<u32>,
    /// Seed of the resampling (default: 1, or as in the results)
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

pub(crate) fn run(args: &Rank, output: &Output) -> Result<Exit, Failure> {
    let stored = is_results(&args.input)
        .then(|| Results::open(&args.input).map_err(Failure::no_input))
        .transpose()?;
    let (runs, recorded, failed) = match &stored {
        Some(results) => {
            let runs = stored_serving_runs(results).map_err(Failure::no_input)?;
            (runs, recorded_options(results), results.manifest().runs.failed > 0)
        }
        None => {
            let (runs, failed) = runs_of_archive(&args.input, output)?;
            (runs, RankOptions::default(), failed)
        }
    };
    if runs.is_empty() {
        let input = args.input.display();
        return Err(Failure::no_input(anyhow::anyhow!(
            "\"{input}\" holds no serving run; expected runs with kind \"serving\""
        )));
    }
    let options = RankOptions {
        resamples: args.bootstrap.map_or(recorded.resamples, |resamples| resamples as usize),
        seed: args.seed.unwrap_or(recorded.seed),
    };
    let ranking = rank(&runs, &options);
    if output.json {
        let tables: Map<String, Value> = tables::ranking_tables(&ranking)
            .iter()
            .map(|table| (table.name().to_owned(), Value::Array(table.to_json())))
            .collect();
        output.data(&format!("{:#}\n", Value::Object(tables)))?;
    } else {
        output.data(&text::ranking_overview(&ranking, output.style()))?;
    }
    Ok(Exit::findings_if(failed))
}

/// The options that a results folder was made with; the defaults where it does not say.
fn recorded_options(results: &Results) -> RankOptions {
    let recorded = &results.manifest().options["rank"];
    let default = RankOptions::default();
    RankOptions {
        resamples: recorded["resamples"]
            .as_u64()
            .and_then(|resamples| usize::try_from(resamples).ok())
            .unwrap_or(default.resamples),
        seed: recorded["seed"].as_u64().unwrap_or(default.seed),
    }
}

/// The serving runs of an archive, and whether a run could not be analysed.
fn runs_of_archive(archive: &Path, output: &Output) -> Result<(Vec<ServingRun>, bool), Failure> {
    let mut records = Vec::new();
    each_run_of(archive, output, |done| records.push(done.record))?;
    let failed = records.iter().any(|record| record.analysis.is_err());
    Ok((serving_runs(&records), failed))
}
