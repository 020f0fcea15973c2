//! `wattrace capacity`.

use std::path::PathBuf;

use clap::Args;
use wattrace_report::text;

use super::service::{Asked, ServiceInput, load};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Say how many cards of each configuration do the work of a fleet
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace capacity archive --cards 1000
  wattrace capacity results --cards 1000 --reference production

Cards needed are cards x T0 / T1, rounded up exactly, with T0 the goodput of the reference and T1 that of
the configuration. A configuration that fails its accuracy gate has none. Savings are told in cards only.")]
pub(crate) struct Capacity {
    #[command(flatten)]
    input: ServiceInput,
    /// Cards of the fleet that runs the reference today
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cards: u64,
    /// Configuration that the others are held against (default: what the spec names, else production)
    #[arg(long, value_name = "CONFIGURATION")]
    reference: Option<String>,
    /// Spec (spec.yaml) for runs that name none; they are labelled so
    #[arg(long, value_name = "SPEC")]
    spec: Option<PathBuf>,
}

pub(crate) fn run(args: &Capacity, output: &Output) -> Result<Exit, Failure> {
    let spec = args.spec.as_deref();
    let reference = args.reference.as_deref();
    let asked = Asked { cards: args.cards, reference, ..Asked::spec(spec) };
    let mut loaded = load(&args.input, &asked, output)?;
    loaded.needs_archive(spec.is_some(), "--spec")?;
    if loaded.results.is_some() {
        loaded.tables = loaded.tables.with_fleet(args.cards, reference);
    }
    loaded.warnings.iter().for_each(|warning| output.warn(warning));
    if output.json {
        output.data(&loaded.json(&["capacity"]))?;
    } else {
        output.data(&text::capacity_overview(&loaded.tables, output.style()))?;
    }
    let reckoned = loaded.tables.table("capacity").is_some_and(|table| table.rows > 0);
    Ok(Exit::findings_if(!loaded.warnings.is_empty() || !reckoned))
}
