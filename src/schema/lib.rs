//! The contract of a trace archive in Rust types: units, times, `run.json`, Parquet tables, and the
//! fixed vocabulary of reasons and flags.
//!
//! This crate does no input or output. It is shared by whatever writes archives and by whatever
//! reads them; the machine-readable files under `schemas/` are generated from it.

mod flag;
mod geometry;
mod reason;
mod rows;
mod run;
pub mod spec;
mod table;
pub mod tables;
mod time;
mod toml_fault;
mod unit;

pub use flag::{Flag, FlagSet};
pub use reason::Reason;
pub use rows::{
    AcceleratorSamples, AccuracyRow, DevicePower, EngineMetric, Gaps, GraphMode, RequestStage,
    RequestStatus, Requests, Run, Series, Steps,
};
pub use run::{
    Claim, ClockBase, EnergyMethod, EnergyMethods, Engine, FileEntry, Hardware, ImportedInput,
    InputClock, Interpolation, Model, MoeGeometry, PowerSource, Provenance, Reading, RunKind,
    RunManifest, SCHEMA_VERSION, Scope, SizeGroup, Split, Stages, Workload, run_json_schema,
};
pub use table::{Column, ColumnType, Presence, Table};
pub use time::{Interval, NANOS_PER_SECOND, TimestampError, TimestampNs};
pub use toml_fault::{TomlFault, line_of};
pub use unit::Unit;
