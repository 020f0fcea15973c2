//! `ranked_models`: the values and ranks behind `rank`.

use wattrace_analysis::ranking::RankedModel;
use wattrace_schema::Unit;

use crate::table::ResultTable;

pub(super) fn ranked_models(models: &[RankedModel]) -> ResultTable {
    ResultTable::of("ranked_models", "one model of one group of `rank`", models)
        .text("task", "Task of the workload.", |model| Some(model.task.as_str()))
        .text("size_group", "Size of the models by total parameters.", |model| {
            Some(model.size_group.name())
        })
        .text("engine", "Name of the serving engine.", |model| Some(model.engine.as_str()))
        .text("model", "Name of the model.", |model| Some(model.model.as_str()))
        .count("n_runs", Unit::Count, "Eligible runs whose median the values are.", |model| {
            Some(model.n_runs as u64)
        })
        .number(
            "steady_j_per_token",
            Unit::JoulePerToken,
            "Median steady energy per token.",
            |model| Some(model.steady_j_per_token),
        )
        .number(
            "lifecycle_j_per_token",
            Unit::JoulePerToken,
            "Median lifecycle energy per token.",
            |model| Some(model.lifecycle_j_per_token),
        )
        .number("steady_rank", Unit::None, "Rank by steady energy, 1 for the least.", |model| {
            Some(model.steady_rank)
        })
        .number(
            "lifecycle_rank",
            Unit::None,
            "Rank by lifecycle energy, 1 for the least.",
            |model| Some(model.lifecycle_rank),
        )
        .build()
}
