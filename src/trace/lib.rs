//! Reads, imports, writes and checks archives of runs; the only crate that touches their files.


mod archive;
mod error;
mod finding;
pub mod format;
mod reader;
mod writer;

pub use archive::{RunLocation, find_runs};
pub use error::TraceError;
pub use finding::{Finding, Severity};
pub use reader::{LoadedRun, ReadOptions, read_manifest, read_run};
pub use writer::{AccuracyWriteRow, EngineRow, PowerRow, RequestRow, RunWriter, StepRow};
