//! The commands, a file each, and what several of them need.

pub(crate) mod attach;
pub(crate) mod convert;
pub(crate) mod load;
pub(crate) mod proxy;
pub(crate) mod run;

use std::ffi::c_int;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use wattrace_record::clock::SystemClock;
use wattrace_record::http::HttpOptions;
use wattrace_record::lifecycle::{Event, Outcome};
use wattrace_record::source::{
    Credentials, IpmiLogin, SnmpLogin, SourceOptions, SourceSpecification,
};
use wattrace_record::steps::{LogPlace, StepsSpecification};
use wattrace_record::store::Joined;
use wattrace_record::{
    Description, FailureCount, OpenSources, Recording, RecordingOptions, redact,
};
use wattrace_schema::RunManifest;

use crate::args::{self, Shared};
use crate::exit::{Exit, Failure, to_stderr};

/// Power is what most recordings are for, and forgetting it would be noticed too late.
fn need_power(args: &args::Recording) -> Result<(), Failure> {
    if args.power.is_empty() {
        let message = "nothing says what to measure; expected --power SOURCE, such as --power nvml";
        return Err(anyhow::anyhow!(message).into());
    }
    Ok(())
}

/// Where nothing is run, there is no output of it to follow.
fn runs_no_command(args: &args::Recording) -> Result<(), Failure> {
    let is_command = |steps: &&StepsSpecification| steps.place == LogPlace::Command;
    match args.steps.iter().find(is_command) {
        Some(steps) => Err(anyhow::anyhow!(
            "--steps {steps}: nothing is run here; expected the FILE that the service logs to"
        )
        .into()),
        None => Ok(()),
    }
}

/// Requests that are sent from here are recorded here; a proxy would record them once more.
fn passes_no_proxy(args: &args::Recording, url: &str) -> Result<(), Failure> {
    match args.proxy.iter().find(|route| route.takes(url)) {
        Some(route) => Err(anyhow::anyhow!(
            "--proxy {route} would record the requests that are sent from here a second time; expected the \
             address of the service itself"
        )
        .into()),
        None => Ok(()),
    }
}

/// Whether a signal ends the program on the spot, since there is nothing to finish.
static ENDS_AT_ONCE: AtomicBool = AtomicBool::new(false);

/// What the command waits for: Ctrl-C, SIGTERM and a closed terminal arrive there.
fn listen() -> Result<(Sender<Event>, Receiver<Event>), Failure> {
    let (sender, events) = channel();
    forward_signals(sender.clone())?;
    Ok((sender, events))
}

/// Begins to record, and says where requests are taken; that it can no longer be written arrives as an event.
fn begin(
    options: &RecordingOptions,
    sender: &Sender<Event>,
    shared: &Shared,
) -> Result<Recording, Failure> {
    let failed = sender.clone();
    // Nothing is written before the sources are open, and they may take long to fail.
    ENDS_AT_ONCE.store(true, Ordering::SeqCst);
    let opened = OpenSources::open(options);
    ENDS_AT_ONCE.store(false, Ordering::SeqCst);
    let recording = Recording::begin(options, opened?, Arc::new(SystemClock), move || {
        // If nobody listens any more, the end of the recording meets the error by itself.
        let _ = failed.send(Event::RecordingFailed);
    })?;
    for (address, server) in recording.proxies() {
        let say = say(shared);
        say(&format!("requests to http://{address} go to {server} and are recorded"));
        if !address.ip().is_loopback() {
            let warning = "other machines can reach this address, and the service through it";
            say(&format!("warning: {address}: {warning}"));
        }
    }
    Ok(recording)
}

fn options(args: &args::Recording) -> Result<RecordingOptions, Failure> {
    let description = match &args.describe {
        None => Description::default(),
        Some(path) => {
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read \"{}\"", path.display()))?;
            Description::parse(&text).with_context(|| format!("\"{}\"", path.display()))?
        }
    };
    if args.insecure {
        // Said even to whoever wants no warnings.
        to_stderr(
            "WARNING: --insecure: certificates are NOT verified; whoever is on the way may give false \
             readings and see passwords and keys",
        );
    }
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    Ok(RecordingOptions {
        out: args.out.clone(),
        power: args.power.clone(),
        intervals_ms: args.interval.clone(),
        source: SourceOptions {
            nvml_library: args.nvml_library.clone(),
            amd_library: args.amd_library.clone(),
            http: http_options(args),
            redfish_login: redfish_login(args)?,
            sys_root: args.sys_root.clone(),
            ipmi: ipmi_login(args)?,
            snmp: snmp_login(args)?,
        },
        steps: args.steps.clone(),
        metrics: args.metrics.clone(),
        metrics_interval: args.metrics_interval,
        proxies: args.proxy.clone(),
        description,
        flush: args.flush,
        keep_free_bytes: args.keep_free.saturating_mul(1 << 20),
        command: redact::command_line(words),
    })
}

/// How services are asked.
fn http_options(args: &args::Recording) -> HttpOptions {
    let mut options = HttpOptions::default();
    options.ca_file.clone_from(&args.ca_file);
    options.insecure = args.insecure;
    options.allow_plain_credentials = args.allow_plain_credentials;
    options
}

/// Credentials for Redfish, where a source needs them.
fn redfish_login(args: &args::Recording) -> Result<Option<Credentials>, Failure> {
    let is_redfish =
        |source: &SourceSpecification| matches!(source, SourceSpecification::Redfish { .. });
    let login = match &args.redfish_credentials {
        _ if !args.power.iter().any(is_redfish) => Ok(None),
        Some(path) => Credentials::from_file(path).map(Some),
        None => Credentials::from_environment("WATTRACE_REDFISH"),
    };
    Ok(login.map_err(|problem| anyhow::anyhow!("--redfish-credentials: {problem}"))?)
}

/// The log-in for IPMI, where a source needs one.
fn ipmi_login(args: &args::Recording) -> Result<Option<IpmiLogin>, Failure> {
    let is_remote = |source| matches!(source, &SourceSpecification::Ipmi { host: Some(_) });
    let login = match &args.ipmi_credentials {
        Some(path) => IpmiLogin::from_file(path).map(Some),
        None if args.power.iter().any(is_remote) => IpmiLogin::from_environment(),
        None => Ok(None),
    };
    Ok(login.map_err(|problem| anyhow::anyhow!("the log-in for IPMI: {problem}"))?)
}

/// The log-in for SNMP, where a source may need one.
fn snmp_login(args: &args::Recording) -> Result<Option<SnmpLogin>, Failure> {
    let is_snmp = |source| matches!(source, &SourceSpecification::Snmp { .. });
    let login = match &args.snmp_credentials {
        Some(path) => SnmpLogin::from_file(path).map(Some),
        None if args.power.iter().any(is_snmp) => SnmpLogin::from_environment(),
        None => Ok(None),
    };
    Ok(login.map_err(|problem| anyhow::anyhow!("the log-in for SNMP: {problem}"))?)
}

/// Signals that come within this time after one are the same request to end; nobody presses Ctrl-C twice as
/// fast and means it.
const ONE_REQUEST: Duration = Duration::from_millis(300);

/// Sends what asks the program to end as an event. A signal that whoever started the program told it to
/// ignore stays ignored: `nohup` does so, that the recording outlives its terminal.
fn forward_signals(sender: Sender<Event>) -> Result<(), Failure> {
    let ignored = ignored_signals();
    let is_heard = |signal: &c_int| *signal == SIGTERM || ignored & (1 << (signal - 1)) == 0;
    if !is_heard(&SIGINT) {
        // Shells do so for what they start with `&`.
        to_stderr(
            "note: Ctrl-C is ignored, as whoever started this asked; SIGTERM ends the recording",
        );
    }
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard);
    let mut signals = Signals::new(heard).context("cannot wait for Ctrl-C and SIGTERM")?;
    // It comes with a write beyond a limit of file sizes and would end the program. Once it is heard, that
    // write fails as on a full disk does, and the recording ends in order.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot wait for SIGXFSZ")?;
    std::thread::Builder::new().name("signals".to_owned()).stack_size(128 << 10).spawn(
        move || {
            let mut last = None::<Instant>;
            for signal in signals.forever() {
                if ENDS_AT_ONCE.load(Ordering::SeqCst) {
                    to_stderr("interrupted while the power sources were being opened");
                    #[expect(clippy::exit, reason = "the main thread waits for an answer")]
                    std::process::exit(Exit::Interrupted.code().into());
                }
                // A terminal that is closed, `timeout` and others send several signals that mean one thing.
                if last.is_some_and(|last| last.elapsed() < ONE_REQUEST) {
                    continue;
                }
                last = Some(Instant::now());
                if sender.send(Event::Interrupted { by_ctrl_c: signal == SIGINT }).is_err() {
                    return;
                }
            }
        },
    )?;
    Ok(())
}

/// Says how a procedure came out; gives the exit code, whatever the commands that it ran had.
fn finish(outcome: &Outcome, shared: &Shared) -> Result<Exit, Failure> {
    report(&outcome.joined, &outcome.failures, shared)?;
    Ok(exit_code(&outcome.joined, outcome.was_interrupted, !outcome.failures.is_empty()))
}

/// The line `SigIgn: 0000000000000001` of Linux's `/proc/self/status`: bit n - 1 is signal n.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Says what was written, what of it was lost, and what of the procedure failed.
fn report(joined: &Joined, failures: &[String], shared: &Shared) -> Result<(), Failure> {
    if shared.json {
        let cost = &joined.manifest.recorder_cost;
        let value = serde_json::json!({
            "run": joined.run,
            "run_id": joined.manifest.run_id,
            "was_cut_off": joined.was_cut_off,
            "rows": joined.manifest.files.iter().map(|(name, entry)| (name, entry.rows))
                .collect::<std::collections::BTreeMap<_, _>>(),
            "losses": joined.losses,
            "failures": failures,
            "recorder_cost": cost,
        });
        use std::io::Write as _;
        writeln!(std::io::stdout(), "{value:#}")?;
    }
    for warning in failures.iter().chain(&joined.losses) {
        to_stderr(&format!("warning: {warning}"));
    }
    if !shared.quiet {
        for failed in failed_reads(&joined.manifest) {
            to_stderr(&format!("warning: {failed}"));
        }
        let rows: Vec<_> = joined
            .manifest
            .files
            .iter()
            .map(|(name, entry)| format!("{name} {} rows", entry.rows))
            .collect();
        to_stderr(&format!("wrote {}: {}", joined.run.display(), rows.join(", ")));
    }
    Ok(())
}

/// Causes of failed reads that are said at the end; all are in `recorder_cost` of `run.json`.
const CAUSES_SAID: usize = 5;

/// The most frequent causes for which values are missing from the run.
fn failed_reads(manifest: &RunManifest) -> Vec<String> {
    let cost = manifest.recorder_cost.as_ref();
    let failures = cost.and_then(|cost| cost["failures"].as_array());
    let mut failures: Vec<FailureCount> = failures
        .into_iter()
        .flatten()
        .filter_map(|failure| serde_json::from_value(failure.clone()).ok())
        .collect();
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    let left_out = failures.len().saturating_sub(CAUSES_SAID);
    failures.truncate(CAUSES_SAID);
    let said = |FailureCount { source, device, cause, count }: FailureCount| {
        let place = if device.is_empty() { source } else { format!("{source} {device}") };
        format!("{place}: {cause} ({count} times)")
    };
    let mut said: Vec<String> = failures.into_iter().map(said).collect();
    if left_out > 0 {
        said.push(format!("{left_out} further causes are in recorder_cost of run.json"));
    }
    said
}

/// The exit code of a run that was written.
fn exit_code(joined: &Joined, was_interrupted: bool, has_failures: bool) -> Exit {
    if was_interrupted {
        Exit::Interrupted
    } else if has_failures || !joined.losses.is_empty() {
        Exit::Findings
    } else {
        Exit::Done
    }
}

/// Prints progress, unless the user wants none.
fn say(shared: &Shared) -> impl Fn(&str) {
    let quiet = shared.quiet;
    move |text: &str| {
        if !quiet {
            to_stderr(text);
        }
    }
}
