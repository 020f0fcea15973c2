//! `wattrace-record`: records a run while a service is measured.

mod args;
mod command;
mod exit;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    // clap itself answers --help and --version with 0 and bad usage with 2.
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Run(args) => command::run::run(args, &cli.shared),
        Command::Attach(args) => command::attach::run(args, &cli.shared),
        Command::Load(args) => command::load::run(args, &cli.shared),
        Command::Proxy(args) => command::proxy::run(args, &cli.shared),
        Command::Convert(args) => command::convert::run(args, &cli.shared),
    };
    let code = result.unwrap_or_else(|failure| {
        exit::to_stderr(&format!("error: {:#}", failure.error));
        failure.exit.code()
    });
    ExitCode::from(code)
}
