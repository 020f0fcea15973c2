//! The commands, a file each, and what several of them need.

pub(crate) mod attach;
mod command_line;
pub(crate) mod convert;
pub(crate) mod run;

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wattrace_record::clock::SystemClock;
use wattrace_record::lifecycle::Event;
use wattrace_record::source::{IpmiLogin, SnmpLogin, SourceOptions, SourceSpecification};
use wattrace_record::store::Joined;
use wattrace_record::{Description, Recording, RecordingOptions};

use crate::args::{self, Shared};
use crate::exit::{Exit, Failure, to_stderr};

/// Opens the sources and begins to record. Ctrl-C, SIGTERM, a closed terminal and a recording that can no
/// longer be written arrive as events.
fn start(args: &args::Recording) -> Result<(Recording, Receiver<Event>, Sender<Event>), Failure> {
    let options = options(args)?;
    let (sender, events) = channel();
    forward_signals(sender.clone())?;
    let failed = sender.clone();
    let recording = Recording::start(&options, Arc::new(SystemClock), move || {
        // If nobody listens any more, the end of the recording meets the error by itself.
        let _ = failed.send(Event::RecordingFailed);
    })?;
    Ok((recording, events, sender))
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
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    Ok(RecordingOptions {
        out: args.out.clone(),
        power: args.power.clone(),
        intervals_ms: args.interval.clone(),
        source: SourceOptions {
            nvml_library: args.nvml_library.clone(),
            sys_root: args.sys_root.clone(),
            ipmi: ipmi_login(args)?,
            snmp: snmp_login(args)?,
        },
        description,
        flush: args.flush,
        keep_free_bytes: args.keep_free.saturating_mul(1 << 20),
        command: command_line::without_secrets(words),
    })
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

fn forward_signals(sender: Sender<Event>) -> Result<(), Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for Ctrl-C and SIGTERM")?;
    std::thread::Builder::new().name("signals".to_owned()).stack_size(128 << 10).spawn(
        move || {
            for _ in signals.forever() {
                if sender.send(Event::Interrupted).is_err() {
                    return;
                }
            }
        },
    )?;
    Ok(())
}

/// Says what was written, and what of it was lost.
fn report(joined: &Joined, shared: &Shared) -> Result<(), Failure> {
    if shared.json {
        let cost = &joined.manifest.recorder_cost;
        let value = serde_json::json!({
            "run": joined.run,
            "run_id": joined.manifest.run_id,
            "was_cut_off": joined.was_cut_off,
            "rows": joined.manifest.files.iter().map(|(name, entry)| (name, entry.rows))
                .collect::<std::collections::BTreeMap<_, _>>(),
            "losses": joined.losses,
            "recorder_cost": cost,
        });
        use std::io::Write as _;
        writeln!(std::io::stdout(), "{value:#}")?;
    }
    for loss in &joined.losses {
        to_stderr(&format!("warning: {loss}"));
    }
    if !shared.quiet {
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
