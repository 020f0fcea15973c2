//! The commands, a file each, and what several of them need.

pub(crate) mod attach;
mod command_line;
pub(crate) mod convert;
pub(crate) mod run;

use std::ffi::c_int;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use wattrace_record::clock::SystemClock;
use wattrace_record::lifecycle::Event;
use wattrace_record::source::SourceOptions;
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
        },
        description,
        flush: args.flush,
        keep_free_bytes: args.keep_free.saturating_mul(1 << 20),
        command: command_line::without_secrets(words),
    })
}

/// Sends what asks the program to end as an event. A signal that whoever started the program told it to
/// ignore stays ignored: `nohup` does so, that the recording outlives its terminal.
fn forward_signals(sender: Sender<Event>) -> Result<(), Failure> {
    let ignored = ignored_signals();
    let is_heard = |signal: &c_int| *signal == SIGTERM || ignored & (1 << (signal - 1)) == 0;
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard);
    let mut signals = Signals::new(heard).context("cannot wait for Ctrl-C and SIGTERM")?;
    // It comes with a write beyond a limit of file sizes and would end the program. Once it is heard, that
    // write fails as on a full disk does, and the recording ends in order.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot wait for SIGXFSZ")?;
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

/// The line `SigIgn: 0000000000000001` of Linux's `/proc/self/status`: bit n - 1 is signal n.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
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
