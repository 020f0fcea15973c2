//! `wattrace-record proxy`.

use std::time::Duration;

use clap::Args;
use wattrace_record::proxy::ProxyRoute;

use super::{attach, options, runs_no_command};
use crate::args::{self, Shared, seconds};
use crate::exit::Failure;

/// Sit between clients and a service, and record the requests that go by
#[derive(Debug, Args)]
#[command(
    after_help = "No byte is changed in either direction. What is no completion passes and is not recorded. The formal
window is the whole recording. It ends with Ctrl-C, SIGTERM or --seconds.

Example:
  wattrace-record proxy --listen 127.0.0.1:8001 --to http://127.0.0.1:8000 \\
      --out archive/run-1 --power nvml                   clients then use http://127.0.0.1:8001

run and attach take --proxy 127.0.0.1:8001=http://127.0.0.1:8000 for the same. Power may be left out
here: such a run has latency and throughput and no energy."
)]
pub(crate) struct ProxyCommand {
    #[command(flatten)]
    recording: args::Recording,
    /// Address to listen at; a port alone is one that only this machine reaches
    #[arg(long, value_name = "[IP:]PORT")]
    listen: String,
    /// Address of the service, such as http://127.0.0.1:8000
    #[arg(long, value_name = "URL")]
    to: String,
    /// End after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

pub(crate) fn run(args: &ProxyCommand, shared: &Shared) -> Result<u8, Failure> {
    runs_no_command(&args.recording)?;
    let mut options = options(&args.recording)?;
    options.proxies.insert(0, ProxyRoute::new(&args.listen, &args.to)?);
    attach::record(&options, args.seconds, None, shared)
}
