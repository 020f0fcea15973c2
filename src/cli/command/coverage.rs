//! `wattrace coverage`.

use std::path::PathBuf;

use clap::Args;
use wattrace_report::text;

use super::service::{Asked, ServiceInput, load};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// List what was measured, and what the spec names and nobody measured
#[derive(Debug, Args)]
#[command(after_help = "Example:
  wattrace coverage archive

Dimensions: configurations, context and output lengths, quantisations, concurrency, request rates and
power sources. A length or concurrency counts as the named one within 5%.")]
pub(crate) struct Coverage {
    #[command(flatten)]
    input: ServiceInput,
    /// Spec (spec.yaml) for runs that name none; they are labelled so
    #[arg(long, value_name = "SPEC")]
    spec: Option<PathBuf>,
}

pub(crate) fn run(args: &Coverage, output: &Output) -> Result<Exit, Failure> {
    let spec = args.spec.as_deref();
    let loaded = load(&args.input, &Asked::spec(spec), output)?;
    loaded.needs_archive(spec.is_some(), "--spec")?;
    loaded.warnings.iter().for_each(|warning| output.warn(warning));
    if output.json {
        output.data(&loaded.json(&["coverage", "accelerator_health"]))?;
    } else {
        output.data(&text::coverage_overview(&loaded.tables, output.style()))?;
    }
    Ok(Exit::findings_if(!loaded.warnings.is_empty()))
}
