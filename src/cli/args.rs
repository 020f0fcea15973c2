//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::command::capacity::Capacity;
use crate::command::compare::Compare;
use crate::command::coverage::Coverage;
use crate::command::explain::Explain;
use crate::command::goodput::Goodput;
use crate::command::import::Import;
use crate::command::notebook::Notebook;
use crate::command::rank::Rank;
use crate::command::report::Report;
use crate::command::tables::Tables;

/// Re-analyses archived energy traces of LLM inference: every metric recomputed from raw rows, with its
/// boundary, method and flags.
#[derive(Debug, Parser)]
#[command(name = "wattrace", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Examples:
  wattrace import mlperf-power results/ --out archive    raw published logs to runs
  wattrace check archive                                 is the archive sound?
  wattrace analyze archive --out results                 every metric of every run

Exit codes: 0 done; 1 done, with findings; 2 bad usage; 3 no usable input; 130 interrupted.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Shared {
    /// Runs worked on at the same time (default: all cores)
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Print no progress and no warnings
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Say more about what is done
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Print machine-readable JSON on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colour in terminal output
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Import(Box<Import>),
    Check(Check),
    Analyze(Analyze),
    Fit(Fit),
    Predict(Predict),
    Rank(Rank),
    Explain(Explain),
    Tables(Tables),
    Plot(crate::command::plot::Plot),
    Geometry(Geometry),
    Spec(Spec),
    Goodput(Goodput),
    Compare(Compare),
    Capacity(Capacity),
    Coverage(Coverage),
    Report(Report),
    Simulate(Simulate),
    Completions(Completions),
    Man(Man),
    Notebook(Notebook),
}

/// Check that an archive keeps its contract
#[derive(Debug, Args)]
#[command(after_help = "Example:
  wattrace check archive

Every rule is one line of the checklist, [x] kept or [ ] broken; findings follow with their stable ids.
Exit code 1 when a rule is broken.")]
pub(crate) struct Check {
    /// Archive: a folder of runs
    pub(crate) archive: PathBuf,
}

/// Compute every metric of every run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace analyze archive --out results
  wattrace analyze archive --out results --per-request --jobs 8
  wattrace analyze archive --out results --goodput ttft:500 tpot:50

Result tables are written as Parquet and CSV under the same name; results.json says how they were made.
Equal inputs and options give equal bytes, whatever --jobs is.")]
pub(crate) struct Analyze {
    /// Archive: a folder of runs
    pub(crate) archive: PathBuf,
    /// Folder for the result tables
    #[arg(long, short, value_name = "RESULTS")]
    pub(crate) out: PathBuf,
    /// Also write the energy of every request
    #[arg(long)]
    pub(crate) per_request: bool,
    /// Do not compare files with the digests in run.json
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) steady: Steady,
    /// Limits for request goodput in milliseconds
    #[arg(long, value_name = "ttft:MS|tpot:MS|e2e:MS", num_args = 1.., value_parser = limit)]
    pub(crate) goodput: Vec<(Limit, f64)>,
    /// Spec (spec.yaml) for runs that name none; they are labelled so
    #[arg(long, value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,
    /// Cards of the fleet whose capacity is reckoned
    #[arg(long, value_name = "N", default_value_t = crate::command::service::USUAL_CARDS, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) cards: u64,
    #[command(flatten)]
    pub(crate) fit: FitOptions,
}

/// When a service counts as steady.
#[derive(Debug, Clone, Args)]
pub(crate) struct Steady {
    /// Requests of a steady-state window
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) steady_size: u32,
    /// Coefficient of variation below which a window is calm
    #[arg(long, value_name = "CV", default_value_t = 0.03, value_parser = positive)]
    pub(crate) steady_cv: f64,
    /// Consecutive windows that must be calm: a number, or "all" to the end
    #[arg(long, value_name = "N|all", default_value = "2", value_parser = steady_windows)]
    pub(crate) steady_windows: wattrace_analysis::SteadyWindows,
}

/// How the decode energy model is fitted.
#[derive(Debug, Clone, Args)]
pub(crate) struct FitOptions {
    /// Resamples of cells (fits) or models (ranks) for bootstrap intervals; 0 for none
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) bootstrap: u32,
    /// Seed of the resampling
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Fit with Huber's loss instead of least squares
    #[arg(long, conflicts_with = "non_negative")]
    pub(crate) robust: bool,
    /// Keep the coefficients of bytes and time from going below zero
    #[arg(long)]
    pub(crate) non_negative: bool,
}

/// Fit the decode energy model and print its tables
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace fit archive
  wattrace fit results
  wattrace fit archive --setting \"Qwen2.5-7B@H100 x 1 / tp1\" --form full")]
pub(crate) struct Fit {
    /// Archive, or the results folder of `wattrace analyze`, whose runs are fitted anew
    #[arg(value_name = "ARCHIVE|RESULTS")]
    pub(crate) input: PathBuf,
    /// Only this setting
    #[arg(long)]
    pub(crate) setting: Option<String>,
    /// Only this form of the model
    #[arg(long)]
    pub(crate) form: Option<String>,
    #[command(flatten)]
    pub(crate) options: FitOptions,
}

/// Predict energy per token from a fit
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace predict archive --setting \"Qwen2.5-7B@H100 x 1 / tp1\" --batch 12 --history 4096 --tau-ms 1.9
  wattrace predict results --setting \"Qwen2.5-7B@H100 x 1 / tp1\" --batch 12 --history 4096")]
pub(crate) struct Predict {
    /// Archive, or the results folder of `wattrace analyze`, whose runs are fitted anew
    #[arg(value_name = "ARCHIVE|RESULTS")]
    pub(crate) input: PathBuf,
    /// Setting whose fit is used
    #[arg(long)]
    pub(crate) setting: String,
    /// Effective batch: tokens per iteration
    #[arg(long, value_name = "B", value_parser = positive)]
    pub(crate) batch: f64,
    /// Mean attention history of a token, in tokens; 0 for a first token without a prompt
    #[arg(long, value_name = "TOKENS", value_parser = not_negative)]
    pub(crate) history: f64,
    /// Time per token, ms; without it the fitted step-time law is used
    #[arg(long, value_name = "MS", value_parser = positive)]
    pub(crate) tau_ms: Option<f64>,
    /// Form of the model (default: full)
    #[arg(long)]
    pub(crate) form: Option<String>,
    /// Predict outside the identified range, or with coefficients that are not identified
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) options: FitOptions,
}

/// Read a model's geometry from its Hugging Face config.json
#[derive(Debug, Args)]
#[command(after_help = "Example:
  wattrace geometry Qwen2.5-7B/config.json

Prints the bytes that one decode iteration reads, part by part, and the bytes of one token's keys and values.")]
pub(crate) struct Geometry {
    /// The config.json
    pub(crate) config: PathBuf,
}

/// Read and compare locked specs (spec.yaml)
#[derive(Debug, Args)]
pub(crate) struct Spec {
    #[command(subcommand)]
    pub(crate) command: SpecCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpecCommand {
    /// Print the hash of a spec; runs belong to one report when their specs have one hash
    Hash {
        /// The spec.yaml
        spec: PathBuf,
    },
    /// Name every field in which two specs differ; exit code 1 when they do
    #[command(after_help = "Example:
  wattrace spec diff run-1/spec.yaml run-2/spec.yaml")]
    Diff {
        /// The first spec.yaml
        first: PathBuf,
        /// The second spec.yaml
        second: PathBuf,
    },
}

/// Make a synthetic archive with known truth
#[derive(Debug, Args)]
#[command(after_help = "Example:
  wattrace simulate sample-data/serving.plan.toml --out archive

Equal plans give equal bytes. Everything made is marked synthetic; truth.json lies beside each run.")]
pub(crate) struct Simulate {
    /// Plan: a TOML file
    pub(crate) plan: PathBuf,
    /// Archive that the runs are added to
    #[arg(long, short, value_name = "ARCHIVE")]
    pub(crate) out: PathBuf,
}

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write manual pages
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder for one page a command
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// A limit that a request must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Ttft,
    Tpot,
    E2e,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("expected a number above zero".into()),
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a number, zero or more".into()),
    }
}

fn limit(text: &str) -> Result<(Limit, f64), String> {
    let (name, value) =
        text.split_once(':').ok_or("expected a name and milliseconds, such as ttft:500")?;
    let limit = match name {
        "ttft" => Limit::Ttft,
        "tpot" => Limit::Tpot,
        "e2e" | "e2el" => Limit::E2e,
        _ => return Err(format!("\"{name}\" is not a latency; expected ttft, tpot or e2e")),
    };
    Ok((limit, positive(value)?))
}

fn steady_windows(text: &str) -> Result<wattrace_analysis::SteadyWindows, String> {
    if text == "all" {
        return Ok(wattrace_analysis::SteadyWindows::All);
    }
    match text.parse::<u32>() {
        Ok(count) if count >= 1 => Ok(wattrace_analysis::SteadyWindows::Count(count as usize)),
        _ => Err("expected a number of windows, 1 or more, or \"all\"".into()),
    }
}
