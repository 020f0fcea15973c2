//! `pairs`: two engines on one model and task, and whether they compare.

use wattrace_analysis::ranking::{EnginePair, EngineSide};
use wattrace_schema::{Reason, Unit};

use super::behind;
use crate::table::{ResultTable, TableBuilder};

pub(super) fn pairs(pairs: &[EnginePair]) -> ResultTable {
    let table = ResultTable::of("pairs", "two engines on one model and task", pairs)
        .text("model", "Name of the model.", |pair| Some(pair.model.as_str()))
        .text("task", "Task of the workload.", |pair| Some(pair.task.as_str()))
        .text("engine_a", "The engine whose name comes first.", |pair| Some(pair.a.engine.as_str()))
        .text("engine_b", "The other engine.", |pair| Some(pair.b.engine.as_str()));
    let table = both(
        table,
        "output_tokens",
        Unit::Token,
        "median output tokens of its eligible runs, or of all its runs where none is eligible",
        |side| side.output_tokens.ok(),
    )
    .number(
        "token_difference",
        Unit::Ratio,
        "|tokens_a - tokens_b| / max(tokens_a, tokens_b).",
        |pair| pair.token_difference.ok(),
    )
    .boolean(
        "comparable",
        "Whether the token difference is at most 0.20, so that the engines compare.",
        |pair| pair.comparable.ok(),
    );
    let table = both(
        table,
        "steady_j_per_token",
        Unit::JoulePerToken,
        "median steady energy per token of its eligible runs",
        |side| side.steady_j_per_token.ok(),
    );
    let table = both(
        table,
        "lifecycle_j_per_token",
        Unit::JoulePerToken,
        "median lifecycle energy per token of its eligible runs",
        |side| side.lifecycle_j_per_token.ok(),
    )
    .number(
        "steady_ratio",
        Unit::Ratio,
        "Steady energy per token of engine b over that of engine a, where they compare.",
        |pair| pair.steady_ratio().ok(),
    )
    .number(
        "lifecycle_ratio",
        Unit::Ratio,
        "Lifecycle energy per token of engine b over that of engine a, where they compare.",
        |pair| pair.lifecycle_ratio().ok(),
    )
    .text("reason", "Why the engines have no ratio.", |pair| {
        pair.steady_ratio().err().or(pair.lifecycle_ratio().err()).map(Reason::code)
    });
    let table = table
        .count("n_runs_a", Unit::Count, "Eligible runs of engine a.", |pair| {
            Some(pair.a.n_runs as u64)
        })
        .count("n_runs_b", Unit::Count, "Eligible runs of engine b.", |pair| {
            Some(pair.b.n_runs as u64)
        });
    behind(table, |pair| &pair.hardware, |pair| pair.flags).build()
}

/// A column for each engine.
fn both<'rows>(
    table: TableBuilder<'rows, EnginePair>,
    name: &str,
    unit: Unit,
    meaning: &str,
    value: impl Fn(&EngineSide) -> Option<f64>,
) -> TableBuilder<'rows, EnginePair> {
    table
        .number(format!("{name}_a"), unit, format!("Engine a: {meaning}."), |pair| value(&pair.a))
        .number(format!("{name}_b"), unit, format!("Engine b: {meaning}."), |pair| value(&pair.b))
}
