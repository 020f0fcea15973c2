//! `wattrace-record run`.

use std::sync::Arc;

use wattrace_record::http::Client;
use wattrace_record::lifecycle::{self, Formal, Plan, Probe};
use wattrace_record::load::Load;

use super::{finish, http_options, listen, need_power, options, passes_no_proxy, say};
use crate::args::{Run, Shared};
use crate::exit::Failure;

pub(crate) fn run(args: &Run, shared: &Shared) -> Result<u8, Failure> {
    need_power(&args.recording)?;
    if let Some(url) = &args.load_url {
        passes_no_proxy(&args.recording, url)?;
    }
    let plan = plan(args)?;
    let mut options = options(&args.recording)?;
    if let Some(load) = &plan.load {
        options.description = options.description.over(load.description());
    }
    let (sender, events) = listen()?;
    let recording = super::begin(&options, &sender, shared)?;
    let outcome = lifecycle::run(recording, &plan, &events, &sender, &say(shared))?;
    let own = finish(&outcome, shared)?;
    Ok(if outcome.code == 0 { own.code() } else { outcome.code })
}

fn plan(args: &Run) -> Result<Plan, Failure> {
    let http = http_options(&args.recording);
    let ready = match (&args.ready_url, &args.ready_command, &args.ready_log) {
        (Some(url), ..) => {
            let service = Client::of_engine(url.clone(), &http);
            let named = |problem| anyhow::anyhow!("--ready-url: \"{url}\" {problem}");
            Some(Probe::Url(service.map_err(named)?))
        }
        (_, Some(command), _) => Some(Probe::Command(command.clone())),
        (_, _, Some(text)) => Some(Probe::Log(text.clone())),
        _ => None,
    };
    let formal = match (&args.formal, args.formal_seconds) {
        (Some(command), _) => Formal::Command(command.clone()),
        (None, Some(time)) => Formal::Time(time),
        (None, None) => Formal::UntilExit,
    };
    let load = match &args.load_url {
        Some(url) => {
            let options = args.load.options(url, args.warmup_count, http)?;
            Some(Arc::new(Load::open(options)?))
        }
        None => None,
    };
    Ok(Plan {
        command: args.command.clone(),
        idle: args.idle,
        ready,
        ready_wait: args.ready_wait,
        warmup: args.warmup.clone(),
        warmup_count: args.warmup_count,
        formal,
        load,
        shutdown_wait: args.shutdown_wait,
        release_hold: args.release_hold,
        release_wait: args.release_wait,
    })
}
