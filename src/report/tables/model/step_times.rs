//! `step_times`: how long the steps of every run took, by batch and longest sequence.

use wattrace_analysis::metrics::StepTiming;
use wattrace_analysis::model::Observation;
use wattrace_schema::Unit;

use crate::table::ResultTable;

/// Step times of decode runs, in the order of run ids.
#[must_use]
pub fn step_times(observations: &[Observation]) -> ResultTable {
    let mut ordered: Vec<&Observation> = observations.iter().collect();
    ordered.sort_by_key(|run| &run.run_id);
    let rows: Vec<(&Observation, &StepTiming)> = ordered
        .into_iter()
        .flat_map(|run| run.step_timings.iter().map(move |timing| (run, timing)))
        .collect();
    let row =
        "the steps of one run with one batch, in one range of 64 tokens of the longest sequence";
    ResultTable::of("step_times", row, &rows)
        .text("run_id", "Id of the run.", |(run, _)| Some(run.run_id.as_str()))
        .text("setting", "Key of the setting.", |(run, _)| Some(run.setting.as_str()))
        .count("active_sequences", Unit::Count, "Sequences in the batch.", |(_, timing)| {
            Some(u64::from(timing.active_sequences))
        })
        .count(
            "max_sequence_tokens_low",
            Unit::Token,
            "Shortest longest sequence in the range that occurred.",
            |(_, timing)| Some(u64::from(timing.max_sequence_tokens_low)),
        )
        .count(
            "max_sequence_tokens_high",
            Unit::Token,
            "Longest sequence in the range that occurred.",
            |(_, timing)| Some(u64::from(timing.max_sequence_tokens_high)),
        )
        .number("step_time_s", Unit::Second, "Mean time of an iteration.", |(_, timing)| {
            Some(timing.step_time_s)
        })
        .number(
            "history_tokens",
            Unit::Token,
            "Mean history of an iteration, summed over its sequences; null when a step does not say.",
            |(_, timing)| timing.history_tokens,
        )
        .count("iterations", Unit::Count, "Iterations.", |(_, timing)| Some(timing.iterations))
        .number(
            "eager_share",
            Unit::Ratio,
            "Share of iterations that were launched operation by operation; null when a step does not say.",
            |(_, timing)| timing.eager_share,
        )
        .build()
}
