//! `wattrace simulate`.

use wattrace_simulate::{Plan, SimulateError, simulate};

use crate::args::Simulate;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Simulate, output: &Output) -> Result<Exit, Failure> {
    let plan = Plan::read(&args.plan).map_err(|error| match error {
        SimulateError::Read { .. } => Failure::no_input(error),
        _ => Failure::usage(error),
    })?;
    let progress = output.progress(plan.run_ids().count(), "simulating");
    let summary = simulate(&plan, &args.out, None, &|_| progress.inc(1))?;
    progress.finish_and_clear();
    let runs: Vec<String> = summary.runs.iter().map(|run| run.display().to_string()).collect();
    if output.json {
        output.data(&format!("{:#}\n", serde_json::json!({"synthetic": true, "runs": runs})))?;
    } else {
        let archive = args.out.display();
        output.data(&format!("{} synthetic runs written below {archive}\n", runs.len()))?;
        runs.iter().for_each(|run| output.detail(run));
    }
    Ok(Exit::Done)
}
