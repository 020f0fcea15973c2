//! `scenarios`: the medians of both values over the models of one task and engine.

use wattrace_analysis::ranking::{Scenario, ScenarioMedians};
use wattrace_schema::{Reason, Unit};

use super::behind;
use crate::table::ResultTable;

pub(super) fn scenarios(scenarios: &[Scenario]) -> ResultTable {
    let table = ResultTable::of("scenarios", "one task on one engine", scenarios)
        .text("task", "Task of the workload.", |scenario| Some(scenario.task.as_str()))
        .text("engine", "Name of the serving engine.", |scenario| Some(scenario.engine.as_str()))
        .count("n", Unit::Count, "Models that have both values.", |scenario| {
            Some(scenario.n_models as u64)
        })
        .number(
            "steady_median",
            Unit::JoulePerToken,
            "Median over models of steady energy per token.",
            |scenario| Some(scenario.medians.ok()?.steady_j_per_token),
        )
        .number(
            "lifecycle_median",
            Unit::JoulePerToken,
            "Median over models of lifecycle energy per token.",
            |scenario| Some(scenario.medians.ok()?.lifecycle_j_per_token),
        )
        .number("ratio", Unit::Ratio, "Lifecycle median over steady median.", |scenario| {
            scenario.medians.ok().as_ref().and_then(ScenarioMedians::ratio)
        })
        .text("reason", "Why there are no medians.", |scenario| {
            scenario.medians.err().map(Reason::code)
        })
        .count("n_runs", Unit::Count, "Eligible runs behind the models.", |scenario| {
            Some(scenario.n_runs as u64)
        });
    behind(table, |scenario| &scenario.hardware, |scenario| scenario.flags).build()
}
