//! `wattrace`: analyses archives of energy traces, offline.

mod args;
mod command;
mod command_line;
mod exit;
mod output;
mod pipeline;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use exit::{Exit, Failure};
use output::{Output, to_stderr};

/// Every run is read into fresh buffers of megabytes; this allocator keeps them for the next run
/// instead of giving their pages back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // clap itself answers --help and --version with 0 and bad usage with 2.
    let cli = Cli::parse();
    stop_on_interrupt();
    let exit = match run(&cli) {
        Ok(exit) => exit,
        Err(failure) => {
            to_stderr(&format!("error: {:#}", failure.error));
            failure.exit
        }
    };
    ExitCode::from(exit.code())
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    let output = Output::new(&cli.shared);
    if let Some(jobs) = cli.shared.jobs {
        rayon::ThreadPoolBuilder::new().num_threads(usize::from(jobs)).build_global()?;
    }
    match &cli.command {
        Command::Import(args) => command::import::run(args, &output),
        Command::Analyze(args) => command::analyze::run(args, &output),
        Command::Check(args) => command::check::run(args, &output),
        Command::Fit(args) => command::fit::run(args, &output),
        Command::Rank(args) => command::rank::run(args, &output),
        Command::Explain(args) => command::explain::run(args, &output),
        Command::Predict(args) => command::predict::run(args, &output),
        Command::Tables(args) => command::tables::run(args, &output),
        Command::Plot(args) => command::plot::run(args, &output),
        Command::Geometry(args) => command::geometry::run(args, &output),
        Command::Goodput(args) => command::goodput::run(args, &output),
        Command::Compare(args) => command::compare::run(args, &output),
        Command::Capacity(args) => command::capacity::run(args, &output),
        Command::Coverage(args) => command::coverage::run(args, &output),
        Command::Report(args) => command::report::run(args, &output),
        Command::Spec(args) => command::spec::run(args, &output),
        Command::Simulate(args) => command::simulate::run(args, &output),
        Command::Completions(args) => command::completions::run(args, &output),
        Command::Man(args) => command::man::run(args),
        Command::Notebook(args) => command::notebook::run(args, &output),
    }
}

/// Ends the program with its own exit code on Ctrl-C. Files are renamed into place only when whole, so
/// nothing half-written is left under a final name.
fn stop_on_interrupt() {
    let handler = ctrlc::set_handler(|| {
        to_stderr("interrupted");
        #[expect(
            clippy::exit,
            reason = "the handler runs beside the work and must end the program"
        )]
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
    if let Err(error) = handler {
        to_stderr(&format!("warning: Ctrl-C will end the program without its exit code: {error}"));
    }
}
