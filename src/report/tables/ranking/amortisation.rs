//! `amortisation`: energy of N requests between one start and one release.

use wattrace_analysis::metrics::Amortisation;
use wattrace_analysis::ranking::AmortisationRow;
use wattrace_schema::{Reason, Unit};

use crate::record::flag_codes;
use crate::table::{ResultTable, TableBuilder};

pub(super) fn amortisation(rows: &[AmortisationRow]) -> ResultTable {
    let row_meaning = "one serving run answering one number of requests; a single row without a number where a value is missing";
    let table = ResultTable::of("amortisation", row_meaning, rows)
        .text("run_id", "Id of the run.", |row| Some(row.run.run_id.as_str()))
        .text("model", "Name of the model.", |row| Some(row.run.model.as_str()))
        .text("task", "Task of the workload.", |row| row.run.task.as_deref())
        .text("engine", "Name of the serving engine.", |row| row.run.engine.as_deref())
        .count("requests", Unit::Count, "Number N of requests.", |row| Some(row.service.ok()?.0));
    let table = value(
        table,
        "energy_j",
        Unit::Joule,
        "E(N) = start-up + release + N * steady energy of a request.",
        Amortisation::energy_j,
    );
    let table = value(
        table,
        "j_per_request",
        Unit::JoulePerRequest,
        "E(N) / N.",
        Amortisation::j_per_request,
    );
    let table = value(
        table,
        "j_per_token",
        Unit::JoulePerToken,
        "E(N) / (N * mean output tokens of a request).",
        Amortisation::j_per_token,
    );
    value(
        table,
        "fixed_share",
        Unit::Ratio,
        "(start-up + release) / E(N); `runs` has the N at which it falls under 10%, 5% and 1%.",
        Amortisation::fixed_share,
    )
    .text("reason", "Why the run has no values.", |row| row.service.err().map(Reason::code))
    .text_list("flags", "What a reader must know beside the values.", |row| {
        Some(flag_codes(row.flags))
    })
    .build()
}

fn value<'rows>(
    table: TableBuilder<'rows, AmortisationRow>,
    name: &str,
    unit: Unit,
    meaning: &str,
    of: impl Fn(&Amortisation, u64) -> f64,
) -> TableBuilder<'rows, AmortisationRow> {
    table.number(name, unit, meaning, |row| {
        row.service.as_ref().ok().map(|(requests, service)| of(service, *requests))
    })
}
