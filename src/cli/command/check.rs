//! `wattrace check`.

use rayon::prelude::*;
use wattrace_trace::{check_archive, check_run, list_archive};

use crate::args::Check;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Check, output: &Output) -> Result<Exit, Failure> {
    let listing = list_archive(&args.archive).map_err(Failure::no_input)?;
    if listing.runs.is_empty() && listing.unfinished.is_empty() {
        let archive = args.archive.display();
        return Err(Failure::no_input(anyhow::anyhow!(
            "\"{archive}\" holds no run; expected a folder with a run.json in it or below it"
        )));
    }
    let progress = output.progress(listing.runs.len(), "checking");
    let runs = listing
        .runs
        .par_iter()
        .with_max_len(1)
        .map(|location| {
            let checked = check_run(location);
            progress.inc(1);
            checked
        })
        .collect();
    progress.finish_and_clear();
    let archive = check_archive(&listing, runs);
    if output.json {
        output.data(&format!("{}\n", serde_json::to_string_pretty(&archive)?))?;
    } else {
        output.data(&archive.render())?;
    }
    Ok(Exit::findings_if(!archive.passes()))
}
