//! The tables of spec-driven reports.

mod accuracy;
mod capacity;
mod comparison;
mod coverage;
mod goodput;
mod parts;
mod reasoned;
mod runs;
mod specs;
mod sweep;

use wattrace_analysis::service::{CapacityRow, ServiceAnalysis};

use crate::table::ResultTable;

/// Every table of the spec-driven reports, in the order in which they are best read.
#[must_use]
pub fn service_tables(service: &ServiceAnalysis) -> Vec<ResultTable> {
    vec![
        specs::specs(&service.specs),
        goodput::goodput(&service.goodput),
        sweep::sweep(&service.sweep),
        accuracy::accuracy(&service.accuracy),
        comparison::comparison(&service.comparison),
        capacity_table(&service.capacity),
        coverage::coverage(&service.coverage),
        runs::service_runs(&service.runs),
        runs::accelerator_health(&service.runs),
    ]
}

/// `capacity` for a fleet of one's own.
#[must_use]
pub fn capacity_table(rows: &[CapacityRow]) -> ResultTable {
    capacity::capacity(rows)
}
