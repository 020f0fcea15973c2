//! `requests`: one row a formal request, with its share of the energy.

use wattrace_analysis::metrics::RequestEnergy;
use wattrace_schema::{Requests, Unit};

use crate::table::ResultTable;

/// The formal requests of one run: those with energy in the order of their ends, then the others in the
/// order of the log, with nulls. The tables of several runs append to each other.
#[must_use]
pub fn requests(run_id: &str, log: &Requests, energies: &[RequestEnergy]) -> ResultTable {
    let mut listed = vec![false; log.len()];
    for energy in energies {
        listed[energy.request] = true;
    }
    let others = (0..log.len()).filter(|index| log.is_formal(*index) && !listed[*index]);
    let rows: Vec<(usize, Option<&RequestEnergy>)> = energies
        .iter()
        .map(|energy| (energy.request, Some(energy)))
        .chain(others.map(|index| (index, None)))
        .collect();
    ResultTable::of("requests", "one formal request of one run", &rows)
        .text("run_id", "Id of the run.", |_| Some(run_id))
        .text("request_id", "Id of the request within the run.", |(index, _)| {
            Some(log.request_id[*index].as_str())
        })
        .text("status", "How the request ended.", |(index, _)| Some(log.status[*index].name()))
        .number(
            "energy_j",
            Unit::Joule,
            "Its share of the formal energy; null for a request that was not successful, has no end, or output nothing inside the formal window.",
            |(_, energy)| energy.and_then(|energy| energy.energy_j),
        )
        .number(
            "j_per_token",
            Unit::JoulePerToken,
            "Its energy divided by its output tokens; null without either.",
            |(_, energy)| energy.and_then(|energy| energy.j_per_token),
        )
        .count(
            "order",
            Unit::None,
            "Place in the order of ends, from 0; null without energy per token.",
            |(_, energy)| energy.and_then(|energy| energy.order).map(|order| order as u64),
        )
        .number(
            "window_cv",
            Unit::Ratio,
            "Coefficient of variation of energy per token over the steady-state window that starts at this request; null where no whole window follows.",
            |(_, energy)| energy.and_then(|energy| energy.window_cv),
        )
        .build()
}
