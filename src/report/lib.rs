//! Result tables as Parquet, CSV and text.
//!
//! A [`ResultTable`] is made from what the analysis gives (see [`tables`]), written with
//! [`write_table`], listed in `results.json` by [`ResultsManifest`], and read back with [`Results`].
//! [`text`] makes the tables that people read, [`paper`] those of papers. polars stays inside this crate: no
//! public signature shows it.

mod csv;
mod dictionary;
mod error;
mod explain;
pub mod figure_data;
#[cfg(test)]
mod fixtures;
mod frame;
pub mod notebook;
mod observations;
pub mod page;
pub mod paper;
mod provenance;
mod record;
mod results;
mod service;
mod service_report;
mod serving;
mod stored_metrics;
mod stored_row;
mod table;
pub mod tables;
pub mod text;
mod view;
mod write;

pub use dictionary::{flags_json, metrics_json, reasons_json, tables_json};
pub use error::ReportError;
pub use explain::{
    BothMethods, ClaimBeside, DeviceUsed, ExplainError, Explainer, Explanation, Input, MadeBy,
    RowsUsed, WindowUsed, Word,
};
pub use observations::{StoredObservations, stored_observations};
pub use provenance::{Provenance, SyntheticShare};
pub use record::{RunRecord, run_order};
pub use results::{
    Results, ResultsManifest, RunCounts, StoredColumn, StoredTable, remove_earlier_results,
};
pub use service::ServiceTables;
pub use service_report::ServiceReport;
pub use serving::{serving_runs, stored_serving_runs};
pub use table::{ColumnValues, ResultColumn, ResultTable, TableBuilder};
pub use write::{TableWriter, WrittenFile, WrittenTable, write_file, write_table};
