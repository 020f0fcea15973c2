//! `wattrace-record run`.

use wattrace_record::lifecycle::{self, Formal, Plan, Probe};

use super::{exit_code, report, say, start};
use crate::args::{Run, Shared};
use crate::exit::{Failure, to_stderr};

pub(crate) fn run(args: &Run, shared: &Shared) -> Result<u8, Failure> {
    let plan = plan(args)?;
    let (recording, events, sender) = start(&args.recording)?;
    let outcome = lifecycle::run(recording, &plan, &events, &sender, &say(shared))?;
    for failure in &outcome.failures {
        to_stderr(&format!("warning: {failure}"));
    }
    report(&outcome.joined, shared)?;
    let own = exit_code(&outcome.joined, outcome.was_interrupted, !outcome.failures.is_empty());
    Ok(if outcome.code == 0 { own.code() } else { outcome.code })
}

fn plan(args: &Run) -> Result<Plan, Failure> {
    let ready = match (&args.ready_url, &args.ready_command, &args.ready_log) {
        (Some(url), ..) => Some(Probe::Url(url.parse().map_err(anyhow::Error::msg)?)),
        (_, Some(command), _) => Some(Probe::Command(command.clone())),
        (_, _, Some(text)) => Some(Probe::Log(text.clone())),
        _ => None,
    };
    let formal = match (&args.formal, args.formal_seconds) {
        (Some(command), _) => Formal::Command(command.clone()),
        (None, Some(time)) => Formal::Time(time),
        (None, None) => Formal::UntilExit,
    };
    Ok(Plan {
        command: args.command.clone(),
        idle: args.idle,
        ready,
        ready_wait: args.ready_wait,
        warmup: args.warmup.clone(),
        warmup_count: args.warmup_count,
        formal,
        shutdown_wait: args.shutdown_wait,
        release_hold: args.release_hold,
        release_wait: args.release_wait,
    })
}
