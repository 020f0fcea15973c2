//! The result tables, one a file. Each is a function from what the analysis gives to a [`ResultTable`].
//!
//! Rows stand in the order of run ids, then folders, whatever order the runs were computed in.

mod claims;
mod device_energies;
mod metrics;
mod model;
mod ranking;
mod requests;
mod runs;
mod service;
#[cfg(test)]
mod tests;

use wattrace_analysis::model::ModelTables;
use wattrace_analysis::ranking::Ranking;
use wattrace_analysis::service::ServiceAnalysis;

use crate::table::ResultTable;

pub(crate) use claims::comparisons;
pub use claims::{agrees_as_printed, claims};
pub use device_energies::device_energies;
pub use metrics::metrics;
pub use model::model_tables;
pub use ranking::ranking_tables;
pub use requests::requests;
pub use runs::runs;
pub use service::{capacity_table, service_tables};

/// Every result table without rows, for data dictionaries.
#[must_use]
pub fn declarations() -> Vec<ResultTable> {
    let no_requests = wattrace_schema::Requests::default();
    let mut tables = vec![
        runs(&[]),
        metrics(&[]),
        device_energies(&[]),
        claims(&[]),
        requests("", &no_requests, &[]),
    ];
    tables.extend(ranking_tables(&Ranking::default()));
    tables.extend(model_tables(&ModelTables::default()));
    tables.extend(service_tables(&ServiceAnalysis::default()));
    tables
}
