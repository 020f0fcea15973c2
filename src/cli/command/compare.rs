//! `wattrace compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use wattrace_analysis::service::{Allowed, Incomparable};
use wattrace_report::text;

use super::service::{Asked, ServiceInput, load};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Put configurations side by side, with a verdict on each metric
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace compare archive
  wattrace compare archive --reference vendor-latest
  wattrace compare archive --allow unequal-specs,cross-vendor

Better or worse is said when both sides have five runs, the 95% interval of the difference excludes zero
and each median lies outside the other side's band; otherwise the verdict is inconclusive. Configurations
under different specs, or on accelerators of different vendors, are compared only when allowed, and then
flagged. Exit code 1 when a comparison was refused.")]
pub(crate) struct Compare {
    #[command(flatten)]
    input: ServiceInput,
    /// Spec (spec.yaml) for runs that name none; they are labelled so
    #[arg(long, value_name = "SPEC")]
    spec: Option<PathBuf>,
    /// Configuration that the others are held against (default: what the spec names, else production)
    #[arg(long, value_name = "CONFIGURATION")]
    reference: Option<String>,
    /// Compare what should not be compared, and flag it
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT,…")]
    allow: Vec<Allow>,
}

/// A comparison that is refused unless it is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Allow {
    /// Of runs under different specs, or under none
    UnequalSpecs,
    /// Of accelerators of different vendors
    CrossVendor,
}

pub(crate) fn run(args: &Compare, output: &Output) -> Result<Exit, Failure> {
    let allowed = Allowed {
        unequal_specs: args.allow.contains(&Allow::UnequalSpecs),
        cross_vendor: args.allow.contains(&Allow::CrossVendor),
    };
    let spec = args.spec.as_deref();
    let reference = args.reference.as_deref();
    let asked = Asked { reference, allowed, ..Asked::spec(spec) };
    let loaded = load(&args.input, &asked, output)?;
    loaded.needs_archive(spec.is_some(), "--spec")?;
    loaded.needs_archive(!args.allow.is_empty(), "--allow")?;
    loaded.needs_archive(reference.is_some(), "--reference")?;
    loaded.warnings.iter().for_each(|warning| output.warn(warning));
    let refused: &[Incomparable] =
        loaded.analysis.as_ref().map_or(&[], |analysis| &analysis.refused);
    let compared = loaded.tables.table("comparison").is_some_and(|table| table.rows > 0);
    if let Some(first) = refused.first().filter(|_| !compared) {
        return Err(Failure::usage(with_option(first)));
    }
    refused.iter().for_each(|refused| output.warn(&with_option(refused).to_string()));
    if output.json {
        output.data(&loaded.json(&["comparison"]))?;
    } else {
        output.data(&text::comparison_overview(&loaded.tables, output.style()))?;
    }
    let findings = !refused.is_empty() || !loaded.warnings.is_empty() || !compared;
    Ok(Exit::findings_if(findings))
}

/// A refusal, with the option that lifts it.
fn with_option(refused: &Incomparable) -> anyhow::Error {
    let option = match refused {
        Incomparable::UnequalSpecs { .. } => "--allow unequal-specs",
        Incomparable::CrossVendor { .. } => "--allow cross-vendor",
    };
    anyhow::anyhow!("{refused} ({option})")
}
