//! `wattrace goodput`.

use std::path::PathBuf;

use clap::Args;
use wattrace_report::text;

use super::service::{Asked, ServiceInput, load};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print what each configuration delivers inside its service-level objective
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace goodput archive
  wattrace goodput archive --spec spec.yaml     for runs that name no spec of their own
  wattrace goodput results --json

A request rate meets the objective when the medians over its runs of p99 time to first token and of p99
time per output token both do, failed requests counting as infinite. The goodput is the output rate at the
highest such rate. Exit code 1 when a configuration has none, or an input cannot be right.")]
pub(crate) struct Goodput {
    #[command(flatten)]
    input: ServiceInput,
    /// Spec (spec.yaml) for runs that name none; they are labelled so
    #[arg(long, value_name = "SPEC")]
    spec: Option<PathBuf>,
}

pub(crate) fn run(args: &Goodput, output: &Output) -> Result<Exit, Failure> {
    let spec = args.spec.as_deref();
    let loaded = load(&args.input, &Asked::spec(spec), output)?;
    loaded.needs_archive(spec.is_some(), "--spec")?;
    loaded.warnings.iter().for_each(|warning| output.warn(warning));
    if output.json {
        output.data(&loaded.json(&["specs", "goodput", "sweep", "accuracy"]))?;
    } else {
        output.data(&text::goodput_overview(&loaded.tables, output.style()))?;
    }
    Ok(Exit::findings_if(!loaded.warnings.is_empty() || lacks_goodput(&loaded.tables)))
}

/// Whether a configuration has no goodput.
fn lacks_goodput(tables: &wattrace_report::ServiceTables) -> bool {
    let reasons = tables.table("goodput").and_then(|goodput| goodput.text("reason").ok());
    reasons.is_some_and(|reasons| reasons.iter().any(Option::is_some))
}
