//! `wattrace man`.

use anyhow::Context;
use clap::CommandFactory;

use crate::args::{Cli, Man};
use crate::exit::{Exit, Failure};

pub(crate) fn run(args: &Man) -> Result<Exit, Failure> {
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make the folder \"{}\"", args.out.display()))?;
    clap_mangen::generate_to(Cli::command(), &args.out)
        .with_context(|| format!("cannot write manual pages to \"{}\"", args.out.display()))?;
    Ok(Exit::Done)
}
