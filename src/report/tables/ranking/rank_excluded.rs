//! `rank_excluded`: serving runs that take no part in rankings, and why.

use wattrace_analysis::ranking::ExcludedRun;

use crate::table::ResultTable;

pub(super) fn rank_excluded(rows: &[ExcludedRun]) -> ResultTable {
    ResultTable::of("rank_excluded", "one value that keeps one serving run out of `rank`", rows)
        .text("run_id", "Id of the run.", |row| Some(row.run.run_id.as_str()))
        .text("model", "Name of the model.", |row| Some(row.run.model.as_str()))
        .text("task", "Task of the workload.", |row| row.run.task.as_deref())
        .text("size_group", "Size of the model by total parameters.", |row| {
            row.run.size_group.map(|group| group.name())
        })
        .text("engine", "Name of the serving engine.", |row| row.run.engine.as_deref())
        .text(
            "missing",
            "Column of `runs` that is missing, or run_id where it is repeated.",
            |row| Some(row.missing),
        )
        .text("reason", "Why it is missing.", |row| Some(row.reason.code()))
        .build()
}
