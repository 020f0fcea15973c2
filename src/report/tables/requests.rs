//! `requests`: one row a successful formal request, with its share of the energy.

use wattrace_analysis::metrics::RequestEnergy;
use wattrace_schema::{Requests, Unit};

use crate::table::ResultTable;

/// The requests of one run in the order of their ends; the tables of several runs append to each other.
#[must_use]
pub fn requests(run_id: &str, log: &Requests, energies: &[RequestEnergy]) -> ResultTable {
    ResultTable::of("requests", "one successful formal request of one run", energies)
        .text("run_id", "Id of the run.", |_| Some(run_id))
        .text("request_id", "Id of the request within the run.", |row| {
            log.request_id.get(row.request).map(String::as_str)
        })
        .number("energy_j", Unit::Joule, "Its share of the formal energy.", |row| {
            row.energy_j
        })
        .number(
            "j_per_token",
            Unit::JoulePerToken,
            "Its energy divided by its output tokens; null without output tokens.",
            |row| row.j_per_token,
        )
        .count(
            "order",
            Unit::None,
            "Place in the order of ends, from 0; null without output tokens.",
            |row| row.order.map(|order| order as u64),
        )
        .number(
            "window_cv",
            Unit::Ratio,
            "Coefficient of variation of energy per token over the steady-state window that starts at this request; null where no whole window follows.",
            |row| row.window_cv,
        )
        .build()
}
