//! `rank`: do steady-state and lifecycle energy order the models of a group alike?

use wattrace_analysis::ranking::{RankGroup, Swap};
use wattrace_analysis::stats::RankAgreement;
use wattrace_schema::{Reason, Unit};

use super::behind;
use crate::table::{ResultTable, TableBuilder};

pub(super) fn rank(groups: &[RankGroup]) -> ResultTable {
    let table = ResultTable::of("rank", "one group of models: task, size and engine", groups)
        .text("task", "Task of the workload.", |group| Some(group.task.as_str()))
        .text("size_group", "Size of the models by total parameters.", |group| {
            Some(group.size_group.name())
        })
        .text("engine", "Name of the serving engine.", |group| Some(group.engine.as_str()))
        .count("n", Unit::Count, "Models that have both values.", |group| {
            Some(group.n_models as u64)
        });
    let table = agreement(
        table,
        "spearman_rho",
        "Spearman's rank correlation of steady and lifecycle energy per token over models, each model's value the median over its eligible runs; ties share their average rank.",
        |agreement| Some(agreement.spearman_rho),
    );
    let table = agreement(
        table,
        "p_value",
        "Two-sided p-value of no correlation, computed as p_method says.",
        |agreement| Some(agreement.p_value),
    )
    .text(
        "p_method",
        "exact: the share of all orders whose |rho| is at least as large (n at most 9); student-t: t with n - 2 degrees of freedom.",
        |group| group.agreement.ok().map(|agreement| agreement.p_method.code()),
    );
    let table =
        agreement(table, "kendall_tau_b", "Kendall's tau-b, which allows for ties.", |agreement| {
            Some(agreement.kendall_tau_b)
        });
    let table = agreement(
        table,
        "ci_low",
        "Lower end of the 95% bootstrap interval of Spearman's rho over models.",
        |agreement| Some(agreement.interval?.0),
    );
    let table = agreement(
        table,
        "ci_high",
        "Upper end of the 95% bootstrap interval of Spearman's rho over models.",
        |agreement| Some(agreement.interval?.1),
    )
    .text_list(
        "swapped_pairs",
        "Pairs of models that swap places: the first costs less in steady state, the second over the lifecycle.",
        |group| Some(group.swaps.iter().map(swap_text).collect()),
    )
    .text("reason", "Why there is no agreement to report.", |group| {
        group.agreement.err().map(Reason::code)
    })
    .count("n_runs", Unit::Count, "Eligible runs behind the models.", |group| {
        Some(group.n_runs as u64)
    });
    behind(table, |group| &group.hardware, |group| group.flags).build()
}

fn agreement<'rows>(
    table: TableBuilder<'rows, RankGroup>,
    name: &str,
    meaning: &str,
    value: impl Fn(&RankAgreement) -> Option<f64>,
) -> TableBuilder<'rows, RankGroup> {
    table.number(name, Unit::None, meaning, move |group| {
        group.agreement.as_ref().ok().and_then(&value)
    })
}

/// A swap in one text: the model ahead in steady state comes first.
pub(super) fn swap_text(swap: &Swap) -> String {
    format!("{} <-> {}", swap.ahead_in_steady_state, swap.ahead_over_lifecycle)
}
