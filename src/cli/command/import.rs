//! `wattrace import`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::ProgressBar;
use serde_json::json;
use wattrace_schema::TimestampNs;
use wattrace_trace::format::{
    Anchor, ClockOffset, DateOrder, FORMATS, ImportOptions, ImportSummary, Join, JoinInput,
    Mapping, Progress, Role, check_run_name, check_zone, detect, find, import, import_mapped, join,
};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Turn other tools' raw files into runs of an archive
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  wattrace import --list
  wattrace import --detect downloads/results
  wattrace import mlperf-power closed/NVIDIA/results --out archive
  wattrace import vllm-bench bench.json.gz --tz UTC --out archive
  wattrace import --map meter.toml meter.csv --out archive
  wattrace import join --requests bench.json --steps server.log --tz UTC --run-id r1 --out archive

Files may be compressed (gzip, Zstandard); `-` is standard input. Formats are told by content, never by
the name of a file. What is skipped is counted with line numbers, on standard error and in run.json.")]
pub(crate) struct Import {
    #[command(subcommand)]
    join: Option<ImportCommand>,
    /// Name of the format (see --list); with --map, the first input
    #[arg(required_unless_present_any = ["list", "detect"])]
    format: Option<String>,
    /// Files, or folders of runs
    inputs: Vec<PathBuf>,
    /// Archive that the runs are added to
    #[arg(long, short, value_name = "ARCHIVE", required_unless_present_any = ["list", "detect"])]
    out: Option<PathBuf>,
    /// Name every format, what it gives and what it cannot give
    #[arg(long, conflicts_with_all = ["format", "inputs", "out", "detect", "map"])]
    list: bool,
    /// Guess the format of an input by its content, and say why
    #[arg(long, value_name = "INPUT", conflicts_with_all = ["format", "inputs", "out", "map"])]
    detect: Option<PathBuf>,
    /// Read any CSV, JSON lines or Parquet by the mapping of columns and units in a TOML file
    #[arg(long, value_name = "MAP.toml")]
    map: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// How inputs are read.
#[derive(Debug, Args)]
struct Reading {
    /// Make anything skipped an error
    #[arg(long)]
    strict: bool,
    /// Time zone of local times in the input, such as America/Los_Angeles, UTC or -07:00
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true, value_parser = zone)]
    tz: Option<String>,
    /// Year of the first time in logs that have none (default: from the file's last change)
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(i16).range(1970..=2261))]
    year: Option<i16>,
    /// Which comes first in dates that can be read both ways
    #[arg(long, value_enum, value_name = "ORDER")]
    date_order: Option<Order>,
    /// Tie a monotonic clock to the calendar: an instant (zero, start, end) and its time in RFC 3339 or
    /// seconds since 1970, such as end=2026-01-31T12:00:00Z±0.5s
    #[arg(long, value_name = "[INSTANT=]TIME[±DURATION]", value_parser = Anchor::parse)]
    anchor: Option<Anchor>,
    /// Seconds between the readings of a log without times, which --anchor places
    #[arg(long, value_name = "SECONDS", value_parser = interval_ns)]
    interval: Option<u64>,
    /// Name of the run (default: the name of the file)
    #[arg(long, value_name = "NAME", value_parser = run_name)]
    run_id: Option<String>,
    /// Stamp of a stage, such as formal_start=2026-01-31T12:00:00Z; it comes before what the input states
    #[arg(long, value_name = "STAGE=TIME", value_parser = stage)]
    stage: Vec<(String, TimestampNs)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// 12-31-2025
    MonthFirst,
    /// 31-12-2025
    DayFirst,
}

#[derive(Debug, Subcommand)]
enum ImportCommand {
    /// Join several inputs into one run, each keeping its clock
    #[command(after_help = "Example:
  wattrace import join --power nvidia-smi:gpu.csv --requests bench.json --steps server.log \\
      --model Qwen2.5-7B/config.json --tz America/Los_Angeles --run-id qwen-7b_1 --out archive

An input is [FORMAT:]FILE, or map=MAP.toml:FILE; without a format its content tells. run.json keeps the
clock of every input with its offset and uncertainty. Power of one device in one scope from two inputs is
refused; scopes that contain each other are kept apart and never added.")]
    Join(Box<JoinArgs>),
}

#[derive(Debug, Args)]
struct JoinArgs {
    /// Power; may be given several times
    #[arg(long, value_name = "[FORMAT:]FILE", num_args = 1..)]
    power: Vec<String>,
    /// Requests
    #[arg(long, value_name = "[FORMAT:]FILE")]
    requests: Option<String>,
    /// Steps and engine metrics; may be given several times
    #[arg(long, value_name = "[FORMAT:]FILE", num_args = 1..)]
    steps: Vec<String>,
    /// The model's Hugging Face config.json, for its geometry
    #[arg(long, value_name = "CONFIG.json")]
    model: Option<PathBuf>,
    /// Known difference of clocks: added to an input's times to get the run's, such as power=-1.5s±20ms
    #[arg(long, value_name = "INPUT=DURATION[±DURATION]", value_parser = ClockOffset::parse)]
    clock_offset: Vec<ClockOffset>,
    /// Archive that the run is added to
    #[arg(long, short, value_name = "ARCHIVE")]
    out: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

fn stage(text: &str) -> Result<(String, TimestampNs), String> {
    let expected = "expected a stage and a time, such as formal_start=2026-01-31T12:00:00Z";
    let (name, time) = text.split_once('=').ok_or(expected)?;
    let time = TimestampNs::parse(time).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), time))
}

fn zone(text: &str) -> Result<String, String> {
    check_zone(text).map(|()| text.to_owned())
}

fn run_name(text: &str) -> Result<String, String> {
    check_run_name(text).map(|()| text.to_owned())
}

pub(crate) fn run(args: &Import, output: &Output) -> Result<Exit, Failure> {
    if let Some(ImportCommand::Join(args)) = &args.join {
        return run_join(args, output);
    }
    if args.list {
        output.data(&list(output.json))?;
        return Ok(Exit::Done);
    }
    if let Some(input) = &args.detect {
        return guess(input, output);
    }
    let (Some(first), Some(archive)) = (&args.format, &args.out) else {
        return Err(Failure::usage(anyhow::anyhow!("import needs a format, inputs and --out")));
    };
    if let Some(map) = &args.map {
        // A mapping that cannot be is bad usage; found out before anything is read.
        Mapping::read(map).map_err(Failure::usage)?;
        let inputs: Vec<PathBuf> =
            std::iter::once(PathBuf::from(first)).chain(args.inputs.iter().cloned()).collect();
        let (options, bar) = args.reading.options(&inputs, output);
        let summary = import_mapped(map, &inputs, archive, &options)?;
        bar.finish_and_clear();
        return report(&summary, output);
    }
    if find(first).is_none() {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let names = names.join(", ");
        return Err(Failure::usage(anyhow::anyhow!(
            "no format is called \"{first}\"; expected one of {names}"
        )));
    }
    if args.inputs.is_empty() {
        return Err(Failure::usage(anyhow::anyhow!("import {first} needs a file or a folder")));
    }
    let (options, bar) = args.reading.options(&args.inputs, output);
    let summary = import(first, &args.inputs, archive, &options)?;
    bar.finish_and_clear();
    report(&summary, output)
}

fn run_join(args: &JoinArgs, output: &Output) -> Result<Exit, Failure> {
    if args.reading.run_id.is_none() {
        return Err(Failure::usage(anyhow::anyhow!(
            "import join needs a name for its run (--run-id)"
        )));
    }
    let power = args.power.iter().map(|text| JoinInput::parse(Role::Power, text));
    let requests = args.requests.iter().map(|text| JoinInput::parse(Role::Requests, text));
    let steps = args.steps.iter().map(|text| JoinInput::parse(Role::Steps, text));
    let inputs: Vec<JoinInput> = requests.chain(steps).chain(power).collect();
    if inputs.is_empty() {
        return Err(Failure::usage(anyhow::anyhow!(
            "import join needs inputs: --power, --requests or --steps"
        )));
    }
    let paths: Vec<PathBuf> = inputs.iter().map(|input| input.path.clone()).collect();
    let (options, bar) = args.reading.options(&paths, output);
    let joined =
        Join { inputs, model_config: args.model.clone(), offsets: args.clock_offset.clone() };
    let summary = join(&joined, &args.out, &options).map_err(Failure::no_input)?;
    bar.finish_and_clear();
    report(&summary, output)
}

/// Nanoseconds of a positive number of seconds.
fn interval_ns(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    let nanos = (seconds * 1e9).round();
    if (1.0..9e18).contains(&nanos) {
        Ok(nanos as u64)
    } else {
        Err("expected seconds above 0".into())
    }
}

impl Reading {
    /// The options of an import, and the bar that shows how much of the inputs is read.
    fn options(&self, inputs: &[PathBuf], output: &Output) -> (ImportOptions, ProgressBar) {
        let bytes = inputs.iter().filter_map(|input| std::fs::metadata(input).ok());
        let bar = output.bytes_progress(bytes.map(|file| file.len()).sum(), "importing");
        let told = bar.clone();
        let options = ImportOptions {
            strict: self.strict,
            time_zone: self.tz.clone(),
            year: self.year,
            date_order: self.date_order.map(|order| match order {
                Order::MonthFirst => DateOrder::MonthFirst,
                Order::DayFirst => DateOrder::DayFirst,
            }),
            anchor: self.anchor,
            interval_ns: self.interval,
            run_id: self.run_id.clone(),
            stages: self.stage.clone(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            progress: Some(Progress::new(move |bytes| told.inc(bytes))),
        };
        (options, bar)
    }
}

fn report(summary: &ImportSummary, output: &Output) -> Result<Exit, Failure> {
    for note in &summary.notes {
        output.warn(note);
    }
    for failed in &summary.failed {
        output.error(failed);
    }
    output.data(&done(summary, output.json))?;
    if summary.runs.is_empty() {
        return Ok(Exit::NoInput);
    }
    Ok(Exit::findings_if(!summary.failed.is_empty()))
}

fn done(summary: &ImportSummary, as_json: bool) -> String {
    if as_json {
        let runs: Vec<String> = summary.runs.iter().map(|run| run.display().to_string()).collect();
        let done = json!({"runs": runs, "notes": summary.notes, "failed": summary.failed});
        return format!("{done:#}\n");
    }
    let mut text = String::new();
    for run in &summary.runs {
        let _ = writeln!(text, "{}", run.display());
    }
    let _ = writeln!(text, "{} imported, {} failed", summary.runs.len(), summary.failed.len());
    text
}

fn list(as_json: bool) -> String {
    if as_json {
        let formats: Vec<_> = FORMATS
            .iter()
            .map(|format| {
                json!({
                    "name": format.name,
                    "title": format.title,
                    "recovers": format.recovers,
                    "lacks": format.lacks,
                })
            })
            .collect();
        return format!("{:#}\n", json!(formats));
    }
    let mut text = String::new();
    for format in FORMATS {
        let _ = writeln!(
            text,
            "{}\n    {}\n    gives:  {}\n    cannot: {}",
            format.name, format.title, format.recovers, format.lacks
        );
    }
    text
}

fn guess(input: &Path, output: &Output) -> Result<Exit, Failure> {
    let guesses = detect(input);
    if output.json {
        let guesses: Vec<_> = guesses
            .iter()
            .map(|guess| json!({"format": guess.format.name, "reason": guess.reason}))
            .collect();
        output.data(&format!("{:#}\n", json!(guesses)))?;
    } else {
        let mut text = String::new();
        for guess in &guesses {
            let _ = writeln!(text, "{}: {}", guess.format.name, guess.reason);
        }
        output.data(&text)?;
    }
    if guesses.is_empty() {
        let input = input.display();
        return Err(Failure::no_input(anyhow::anyhow!(
            "nothing in \"{input}\" looks like a format that can be imported; see wattrace import --list"
        )));
    }
    Ok(Exit::Done)
}
