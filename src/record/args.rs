//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use wattrace_record::http::Address;
use wattrace_record::proxy::ProxyRoute;
use wattrace_record::source::SourceSpecification;
use wattrace_record::steps::StepsSpecification;

use crate::command::load::{LoadArgs, LoadCommand};
use crate::command::proxy::ProxyCommand;

/// Records power, requests and decode steps while a service is measured, into a run that `wattrace`
/// analyses.
#[derive(Debug, Parser)]
#[command(name = "wattrace-record", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Examples:
  wattrace-record run --out archive/run-1 --power nvml --ready-log 'startup complete' \\
      --formal ./benchmark.sh -- vllm serve MODEL       the whole lifecycle of a service
  wattrace-record attach --out archive/run-2 --power nvml --seconds 120
  wattrace-record load --out archive/run-3 --power nvml --url http://127.0.0.1:8000 --model MODEL \\
      --requests prompts.jsonl --concurrency 16          requests to a running service, and its power
  wattrace-record convert archive/run-4                  finish a run that was cut off

Exit codes: that of the command that was run if it ended by itself and it is not 0; 0 done; 1 done, but
something was lost; 2 bad usage, or the run could not be recorded; 3 nothing to convert; 130 interrupted (the run is written).")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Shared {
    /// Print no progress and no warnings, but what of the run was lost
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Print what was recorded as JSON on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<Run>),
    Attach(Box<Attach>),
    Load(Box<LoadCommand>),
    Proxy(Box<ProxyCommand>),
    Convert(Convert),
}

/// What is recorded, and where to.
#[derive(Debug, Clone, Args)]
pub(crate) struct Recording {
    /// Folder of the run; it must not exist. Its name is the run id, its parent the archive
    #[arg(long, short, value_name = "RUN")]
    pub(crate) out: PathBuf,
    /// Power source: nvml, amd, rapl, hwmon, redfish=URL, ipmi, ipmi=HOST, snmp=HOST,OID[:UNIT], dcgm=URL or
    /// replay=FILE; may be given several times. UNIT is one count of the object, such as 0.1W or 0.01kW: known
    /// for power objects of APC and Raritan, W for others unless given
    #[arg(long, value_name = "SOURCE")]
    pub(crate) power: Vec<SourceSpecification>,
    /// Time between reads of a power source, such as nvml=50 (default: 100 for boards
    /// that this machine reads itself, nvml and amd, else 1000).
    /// Where several have one name, it is for all of them, and replay-2=50 for the second alone
    #[arg(long, value_name = "SOURCE=MS", value_parser = interval)]
    pub(crate) interval: Vec<(String, f64)>,
    /// Log of decode iterations to follow: FILE, command (the output of COMMAND), or one of them after an
    /// engine (vllm, sglang, trtllm, llamacpp), such as vllm=FILE; without one it is found out from the
    /// content. trtllm=URL asks for iteration statistics. May be given several times
    #[arg(long, value_name = "LOG")]
    pub(crate) steps: Vec<StepsSpecification>,
    /// Address of an engine's metrics in Prometheus' text, such as http://127.0.0.1:8000/metrics; may be
    /// given several times
    #[arg(long, value_name = "URL")]
    pub(crate) metrics: Vec<Address>,
    /// Seconds between questions for metrics and statistics
    #[arg(long, value_name = "S", default_value = "1", value_parser = question_interval)]
    pub(crate) metrics_interval: Duration,
    /// Listen at LISTEN, pass everything on to the service at URL and back, and record the completions that
    /// go by, such as 127.0.0.1:8001=http://127.0.0.1:8000; may be given several times
    #[arg(long, value_name = "LISTEN=URL")]
    pub(crate) proxy: Vec<ProxyRoute>,
    /// JSON file with keys of run.json that describe the run: model, hardware, engine, workload,
    /// configuration, setting, cell, split, block, kind
    #[arg(long, value_name = "FILE")]
    pub(crate) describe: Option<PathBuf>,
    /// Seconds between writes to disk: what may be lost when the recorder is killed
    #[arg(long, value_name = "S", default_value = "20", value_parser = seconds)]
    pub(crate) flush: Duration,
    /// Free space to leave on the disk, MiB; the recording ends cleanly before it is used up
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub(crate) keep_free: u64,
    /// The NVML library, where it has another name or place than usual
    #[arg(long, value_name = "FILE")]
    pub(crate) nvml_library: Option<PathBuf>,
    /// AMD's library (libamd_smi.so or librocm_smi64.so), where it has another name or place than usual
    #[arg(long, value_name = "FILE")]
    pub(crate) amd_library: Option<PathBuf>,
    /// Log-in for redfish in lines "key = value": user and password. Without it they come from the
    /// environment: WATTRACE_REDFISH_USER and WATTRACE_REDFISH_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) redfish_credentials: Option<PathBuf>,
    /// Certificates (PEM) that https services may be signed by, besides those that the system knows. Reaches
    /// redfish=URL, dcgm=URL, --metrics, --steps trtllm=URL, --ready-url and the service that requests go to
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Do not verify the certificates of https services, the same ones as those of --ca-file; written into the
    /// run's notes where values come from them
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Send passwords and keys without encryption to another machine. Reaches the log-in of redfish=http://...
    /// and the key that goes with requests to http://...
    #[arg(long)]
    pub(crate) allow_plain_credentials: bool,
    /// Log-in for ipmi=HOST in lines "key = value": user, password, and if need be kg, cipher_suite (3, 8, 12
    /// or 17), privilege (user, operator or administrator; default: user). Without it they come from the
    /// environment: WATTRACE_IPMI_USER and so on
    #[arg(long, value_name = "FILE")]
    pub(crate) ipmi_credentials: Option<PathBuf>,
    /// Log-in for snmp in lines "key = value": community for v2c (default: public), or for v3 user and as far as
    /// needed auth_protocol (sha, sha256, ...), auth_password, privacy_protocol (aes, aes256, ...),
    /// privacy_password, context. Without it they come from the environment: WATTRACE_SNMP_USER and so on
    #[arg(long, value_name = "FILE")]
    pub(crate) snmp_credentials: Option<PathBuf>,
    /// Root of the /sys that rapl and hwmon read
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) sys_root: Option<PathBuf>,
}

/// Start a service, measure it through its whole lifecycle, and stop it
#[derive(Debug, Args)]
#[command(
    after_help = "The published procedure: idle baseline, launch, ready, warm-up, formal requests, shutdown, release
(every board within 5 % of its idle power for 30 s). Without --formal and --formal-seconds the formal
window lasts until COMMAND ends by itself. Its output goes to logs/command.log of the run.

Examples:
  wattrace-record run --out archive/run-1 --power nvml --ready-url http://127.0.0.1:8000/health \\
      --warmup 'curl -sf http://127.0.0.1:8000/v1/completions -d @one.json' --formal ./benchmark.sh \\
      -- vllm serve MODEL
  wattrace-record run --out archive/run-2 --power nvml --ready-url http://127.0.0.1:8000/health \\
      --load-url http://127.0.0.1:8000 --model MODEL --requests prompts.jsonl --rate 2 \\
      -- vllm serve MODEL"
)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) recording: Recording,
    /// Seconds of idle baseline before the launch
    #[arg(long, value_name = "S", default_value = "20", value_parser = seconds)]
    pub(crate) idle: Duration,
    /// Ready when this address answers with 200
    #[arg(long, value_name = "URL", group = "ready")]
    pub(crate) ready_url: Option<Address>,
    /// Ready when this shell command succeeds
    #[arg(long, value_name = "SHELL", group = "ready")]
    pub(crate) ready_command: Option<String>,
    /// Ready when the output of COMMAND holds this text
    #[arg(long, value_name = "TEXT", group = "ready", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) ready_log: Option<String>,
    /// Seconds to wait until it is ready
    #[arg(long, value_name = "S", default_value = "1800", value_parser = seconds)]
    pub(crate) ready_wait: Duration,
    /// Shell command that sends one warm-up request
    #[arg(long, value_name = "SHELL", conflicts_with = "load_url")]
    pub(crate) warmup: Option<String>,
    /// How many warm-up requests
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) warmup_count: u32,
    /// Shell command that sends the formal requests and ends with the last
    #[arg(long, value_name = "SHELL", conflicts_with = "load_url")]
    pub(crate) formal: Option<String>,
    /// Length of the formal window, where nothing is sent from here
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with_all = ["formal", "load_url"])]
    pub(crate) formal_seconds: Option<Duration>,
    /// Send the warm-up and formal requests from here, to this address of the service, once it is ready
    #[arg(long, value_name = "URL", id = "load_url", requires = "ready")]
    pub(crate) load_url: Option<String>,
    /// Seconds that COMMAND may take to end before it is killed
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub(crate) shutdown_wait: Duration,
    /// Seconds that every board must stay within 5 % of its idle power
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    pub(crate) release_hold: Duration,
    /// Seconds to wait for that at most
    #[arg(long, value_name = "S", default_value = "600", value_parser = seconds)]
    pub(crate) release_wait: Duration,
    // Last of the options: those after it would stand under its heading.
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// The service and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Record beside a service that is running already
#[derive(Debug, Args)]
#[command(
    after_help = "The formal window is the whole recording. It ends with Ctrl-C, SIGTERM, --seconds or the end of --pid.

Example:
  wattrace-record attach --out archive/run-2 --power nvml --power rapl --seconds 600
  wattrace-record attach --out archive/run-3 --power amd --power redfish=https://10.0.0.1 \\
      --redfish-credentials bmc.login --ca-file bmc.pem"
)]
pub(crate) struct Attach {
    #[command(flatten)]
    pub(crate) recording: Recording,
    /// End after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
    /// End when this process ends
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// Finish a run that was cut off
#[derive(Debug, Args)]
#[command(after_help = "Example:
  wattrace-record convert archive/run-3

Joins what lies in archive/run-3.partial into archive/run-3, and removes it once that is done.")]
pub(crate) struct Convert {
    /// Folder of the run, with or without .partial
    pub(crate) run: PathBuf,
}

/// A length of time; none is longer than a year, which leaves room in every sum of times.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=31_536_000.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("expected seconds, from 0 to 31536000".into()),
    }
}

/// Time between questions to an engine, which also has other work.
fn question_interval(text: &str) -> Result<Duration, String> {
    let expected = || "expected seconds, from 0.05 to 3600".to_owned();
    let interval = seconds(text).map_err(|_| expected())?;
    let is_possible = (0.05..=3600.0).contains(&interval.as_secs_f64());
    is_possible.then_some(interval).ok_or_else(expected)
}

fn interval(text: &str) -> Result<(String, f64), String> {
    let expected = "expected a source and milliseconds from 1 to 3600000, such as nvml=50";
    let (name, value) = text.split_once('=').ok_or(expected)?;
    match value.parse::<f64>() {
        Ok(interval_ms) if (1.0..=3_600_000.0).contains(&interval_ms) => {
            Ok((name.to_owned(), interval_ms))
        }
        _ => Err(expected.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_help_says_of_writes_is_what_the_library_does() {
        let words = ["wattrace-record", "attach", "--out", "archive/run"];
        match Cli::parse_from(words).command {
            Command::Attach(attach) => {
                assert_eq!(attach.recording.flush, wattrace_record::DEFAULT_FLUSH);
            }
            other => panic!("{other:?}"),
        }
    }
}
