//! `wattrace-record load`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use wattrace_record::http::HttpOptions;
use wattrace_record::lifecycle::{self, Formal, Plan};
use wattrace_record::load::{Api, ApiKey, Arrival, Load, LoadOptions, RequestSource};
use wattrace_record::store::RunPath;

use super::{begin, finish, http_options, listen, options, passes_no_proxy, runs_no_command, say};
use crate::args::{self, Shared, seconds};
use crate::exit::{Exit, Failure, to_stderr};

/// Variable that holds the key of the endpoint.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Requests that are sent to an OpenAI-compatible endpoint, when, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct LoadArgs {
    /// Model that each request names
    #[arg(long, value_name = "NAME", requires = "load_url")]
    model: Option<String>,
    /// File of requests: lines of JSON with prompt or messages, and max_tokens, id, t (s), body (more
    /// fields) if wanted; or a trace (Azure LLM inference CSV, Mooncake JSON lines), for which prompts of
    /// about its lengths are made up
    #[arg(long, value_name = "FILE", requires = "load_url", conflicts_with = "synthetic")]
    requests: Option<PathBuf>,
    /// Make up so many requests of one size
    #[arg(
        long, value_name = "N", requires = "load_url", value_parser = count,
        requires = "input_tokens", requires = "output_tokens"
    )]
    synthetic: Option<usize>,
    /// Tokens of each made-up prompt, about
    #[arg(long, value_name = "N", requires = "synthetic", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    input_tokens: Option<u32>,
    /// Tokens of each answer to a made-up prompt, at most; add --body '{"ignore_eos": true}' where the
    /// server knows it (vLLM, SGLang, llama.cpp), and answers are just as long
    #[arg(long, value_name = "N", requires = "synthetic", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    output_tokens: Option<u32>,
    /// Keep so many requests under way, and send one more when an answer is complete
    #[arg(long, value_name = "C", requires = "load_url", value_parser = count, group = "arrival", default_value = "1")]
    concurrency: usize,
    /// Send so many a second at random times (Poisson), however long answers take
    #[arg(long, value_name = "R", requires = "load_url", value_parser = positive, group = "arrival")]
    rate: Option<f64>,
    /// Send so many a second in even steps
    #[arg(long, value_name = "R", requires = "load_url", value_parser = positive, group = "arrival")]
    constant_rate: Option<f64>,
    /// Send at the times of the file
    #[arg(long, requires = "requests", group = "arrival")]
    replay: bool,
    /// Replay so many times as fast
    #[arg(long, value_name = "F", requires = "replay", value_parser = positive, default_value = "1")]
    speed_up: f64,
    /// Requests to send: by default each of the file or of --synthetic once
    #[arg(long, value_name = "N", requires = "load_url", value_parser = count)]
    count: Option<usize>,
    /// Begin no request later than this; without --count a file that is shorter begins again
    #[arg(long = "send-seconds", value_name = "S", requires = "load_url", value_parser = seconds)]
    send_seconds: Option<Duration>,
    /// Seed of random times and of made-up prompts
    #[arg(long, value_name = "N", requires = "load_url", default_value_t = 1)]
    seed: u64,
    /// Endpoint to ask: /v1/chat/completions or /v1/completions
    #[arg(long, value_enum, requires = "load_url", default_value_t = Endpoint::Chat)]
    api: Endpoint,
    /// Fields to add to each request, such as '{"ignore_eos": true, "temperature": 0}'
    #[arg(long, value_name = "JSON", requires = "load_url", value_parser = object)]
    body: Option<Map<String, Value>>,
    /// Seconds that one request may take
    #[arg(long, value_name = "S", requires = "load_url", default_value = "600", value_parser = timeout)]
    timeout: Duration,
    /// Most requests under way when they are sent at given times; more have to wait, which is counted
    #[arg(long, value_name = "N", requires = "load_url", value_parser = count, default_value = "4096")]
    max_in_flight: usize,
    /// File that holds the key of the endpoint; without it OPENAI_API_KEY does
    #[arg(long, value_name = "FILE", requires = "load_url")]
    api_key_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Endpoint {
    Chat,
    Completions,
}

/// Send requests to a running service and record how they are answered
#[derive(Debug, Args)]
#[command(
    after_help = "Each request is one row: when it was sent (before a connection is opened for it), when each chunk of
the answer arrived, when it was complete, and the tokens that the server counted (usage). The formal
window lasts from the first formal request to the end of the last answer. Ctrl-C breaks off what is
under way, and the run is written.

Examples:
  wattrace-record load --out archive/run-1 --power nvml --url http://127.0.0.1:8000 --model MODEL \\
      --synthetic 200 --input-tokens 512 --output-tokens 128 --concurrency 16 \\
      --body '{\"ignore_eos\": true}'
  wattrace-record load --out archive/run-2 --power nvml --url http://127.0.0.1:8000 --model MODEL \\
      --requests AzureLLMInferenceTrace_conv.csv --replay --send-seconds 600
  wattrace-record load --out archive/sweep --power nvml --url http://127.0.0.1:8000 --model MODEL \\
      --requests prompts.jsonl --rates 1,2,4,8 --seconds-each 300        sweep-rate-1, sweep-rate-2, ...

Power may be left out: such a run has latency and throughput and no energy."
)]
pub(crate) struct LoadCommand {
    #[command(flatten)]
    pub(crate) recording: args::Recording,
    /// Address of the server, such as http://127.0.0.1:8000, or of its endpoint
    #[arg(long = "url", value_name = "URL", id = "load_url")]
    url: String,
    #[command(flatten)]
    load: LoadArgs,
    /// Warm-up requests before the formal ones, one after another
    #[arg(long, value_name = "N", default_value_t = 8)]
    warmup_count: u32,
    /// Measure each of these rates (Poisson) in a run of its own
    #[arg(
        long, value_name = "R,R,...", value_delimiter = ',', value_parser = positive,
        conflicts_with_all = ["arrival", "count", "send_seconds"]
    )]
    rates: Vec<f64>,
    /// Seconds of each rate
    #[arg(long, value_name = "S", value_parser = seconds, requires = "rates")]
    seconds_each: Option<Duration>,
    /// Requests of each rate
    #[arg(long, value_name = "N", value_parser = count, requires = "rates")]
    requests_each: Option<usize>,
    /// Go through the rates so many times; five runs of each rate are what reports ask for
    #[arg(long, value_name = "N", requires = "rates", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
}

impl LoadArgs {
    /// What to send to `url`.
    pub(crate) fn options(
        &self,
        url: &str,
        warm_up: u32,
        http: HttpOptions,
    ) -> Result<LoadOptions, Failure> {
        let source = match (&self.requests, self.synthetic, self.input_tokens, self.output_tokens) {
            (Some(path), ..) => RequestSource::File(path.clone()),
            (None, Some(count), Some(input_tokens), Some(output_tokens)) => {
                RequestSource::Synthetic { count, input_tokens, output_tokens }
            }
            _ => return Err(anyhow::anyhow!(
                "nothing says what to send; expected --requests FILE, or --synthetic N with --input-tokens \
                 and --output-tokens"
            )
            .into()),
        };
        let arrival = match (self.rate, self.constant_rate, self.replay) {
            (Some(rate), ..) => Arrival::Poisson { rate },
            (_, Some(rate), _) => Arrival::Constant { rate },
            (_, _, true) => Arrival::Replay { speed_up: self.speed_up },
            _ => Arrival::Closed { concurrency: self.concurrency },
        };
        Ok(LoadOptions {
            url: url.to_owned(),
            api: match self.api {
                Endpoint::Chat => Api::Chat,
                Endpoint::Completions => Api::Completions,
            },
            model: self.model.clone(),
            source,
            arrival,
            count: self.count,
            time: self.send_seconds,
            warm_up,
            seed: self.seed,
            extra: self.body.clone().unwrap_or_default(),
            timeout: self.timeout,
            max_in_flight: self.max_in_flight,
            key: key(self.api_key_file.as_deref())?,
            http,
        })
    }
}

/// The key of the endpoint, from the file or the environment.
fn key(file: Option<&Path>) -> anyhow::Result<Option<ApiKey>> {
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read \"{}\"", path.display()))?;
        let key = ApiKey::new(&text).with_context(|| format!("\"{}\"", path.display()))?;
        return Ok(Some(key));
    }
    match std::env::var(KEY_VARIABLE) {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(ApiKey::new(&text).context(KEY_VARIABLE)?)),
        Err(error) => bail!("{KEY_VARIABLE}: {error}"),
    }
}

pub(crate) fn run(args: &LoadCommand, shared: &Shared) -> Result<u8, Failure> {
    runs_no_command(&args.recording)?;
    passes_no_proxy(&args.recording, &args.url)?;
    let given = args.load.options(&args.url, args.warmup_count, http_options(&args.recording))?;
    let steps = steps(args, &given)?;
    let (sender, events) = listen()?;
    let mut worst = Exit::Done;
    for (number, (out, load)) in steps.iter().enumerate() {
        if steps.len() > 1 {
            say(shared)(&format!("run {} of {}: {}", number + 1, steps.len(), out.display()));
        }
        let load = Load::open(load.clone())?;
        let mut options = options(&args.recording)?;
        options.out = out.clone();
        options.description = options.description.over(load.description());
        let recording = begin(&options, &sender, shared)?;
        let plan = plan(load);
        let outcome = lifecycle::run(recording, &plan, &events, &sender, &say(shared))?;
        let exit = finish(&outcome, shared)?;
        if exit == Exit::Interrupted {
            return Ok(exit.code());
        }
        if exit != Exit::Done {
            worst = exit;
        }
        let left = steps.len() - number - 1;
        // What ended one recording early, such as a full disk, would end the next.
        if outcome.joined.ended_early && left > 0 {
            to_stderr(&format!("warning: {left} further runs were not begun"));
            break;
        }
    }
    Ok(worst.code())
}

/// Nothing but requests.
fn plan(load: Load) -> Plan {
    Plan {
        command: Vec::new(),
        idle: Duration::ZERO,
        ready: None,
        ready_wait: Duration::ZERO,
        warmup: None,
        warmup_count: 0,
        formal: Formal::Time(Duration::ZERO),
        load: Some(Arc::new(load)),
        shutdown_wait: Duration::ZERO,
        release_hold: Duration::ZERO,
        release_wait: Duration::ZERO,
    }
}

/// The runs to make: one, or one for each rate.
fn steps(args: &LoadCommand, given: &LoadOptions) -> Result<Vec<(PathBuf, LoadOptions)>, Failure> {
    if args.rates.is_empty() {
        return Ok(vec![(args.recording.out.clone(), given.clone())]);
    }
    if args.seconds_each.is_none() && args.requests_each.is_none() {
        return Err(anyhow::anyhow!("--rates needs --seconds-each or --requests-each").into());
    }
    let is_repeated = |(at, rate): (usize, &f64)| args.rates[..at].contains(rate);
    if let Some((_, rate)) = args.rates.iter().enumerate().find(|rate| is_repeated(*rate)) {
        let message =
            "is given twice; expected each rate once, and --repeats for several runs of each";
        return Err(anyhow::anyhow!("--rates: {rate} {message}").into());
    }
    let path = RunPath::new(&args.recording.out)?;
    let mut steps = Vec::new();
    // One repeat after the other, so that what drifts with time meets all rates alike.
    let places =
        (1..=args.repeats).flat_map(|repeat| args.rates.iter().map(move |rate| (repeat, rate)));
    for (index, (repeat, rate)) in places.enumerate() {
        let suffix = if args.repeats > 1 { format!("-{repeat}") } else { String::new() };
        let out = path.archive.join(format!("{}-rate-{rate}{suffix}", path.run_id));
        if RunPath::new(&out)?.run().exists() {
            let message = format!("\"{}\" exists already; choose another --out", out.display());
            return Err(anyhow::anyhow!(message).into());
        }
        let load = LoadOptions {
            arrival: Arrival::Poisson { rate: *rate },
            time: args.seconds_each,
            count: args.requests_each,
            // Other prompts and times in each run, so that none is in a prefix cache already.
            seed: given.seed.wrapping_add(index as u64),
            ..given.clone()
        };
        steps.push((out, load));
    }
    Ok(steps)
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=1_000_000_000).contains(&count) => Ok(count),
        _ => Err("expected a number from 1 to 1000000000".into()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (1e-6..=1e6).contains(&value) => Ok(value),
        _ => Err("expected a number from 0.000001 to 1000000".into()),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| {
        if time >= Duration::from_millis(1) {
            Ok(time)
        } else {
            Err("expected at least 0.001 s".into())
        }
    })
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))
}
