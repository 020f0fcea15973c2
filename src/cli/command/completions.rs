//! `wattrace completions`.

use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Completions, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wattrace", &mut script);
    output.data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
