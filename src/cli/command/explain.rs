//! `wattrace explain`.

use std::path::PathBuf;

use clap::Args;
use wattrace_report::{ExplainError, Explainer, Results, metrics_json, text};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Say how one number came about: rows, window, rule, both energy methods, flags, claims
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace explain results chat-qwen2.5-7b-instruct-a steady_j_per_token
  wattrace explain results chat-qwen2.5-7b-instruct-a steady_j_per_token --json
  wattrace explain --list                                names every metric")]
pub(crate) struct Explain {
    /// Results folder of `wattrace analyze`
    #[arg(required_unless_present = "list")]
    pub(crate) results: Option<PathBuf>,
    /// Id of the run, or its folder within the archive
    #[arg(required_unless_present = "list")]
    pub(crate) run: Option<String>,
    /// Name of the metric: a column of runs.csv
    #[arg(required_unless_present = "list")]
    pub(crate) metric: Option<String>,
    /// Name every metric with its unit and definition
    #[arg(long, conflicts_with_all = ["results", "run", "metric"])]
    pub(crate) list: bool,
}

pub(crate) fn run(args: &Explain, output: &Output) -> Result<Exit, Failure> {
    let (Some(results), Some(run), Some(metric)) = (&args.results, &args.run, &args.metric) else {
        output.data(&if output.json {
            format!("{:#}\n", metrics_json())
        } else {
            text::metric_list(output.style())
        })?;
        return Ok(Exit::Done);
    };
    let results = Results::open(results).map_err(Failure::no_input)?;
    let explainer = Explainer::open(&results).map_err(Failure::no_input)?;
    let explained = explainer.explain(run, metric).map_err(|error| match error {
        ExplainError::Results(error) => Failure::no_input(error),
        asked => Failure::usage(asked),
    })?;
    output.data(&if output.json {
        format!("{}\n", serde_json::to_string_pretty(&explained)?)
    } else {
        text::explanation(&explained, output.style())
    })?;
    Ok(Exit::Done)
}
