//! Reads, imports, writes and checks archives of runs; the only crate that touches their files.

mod archive;
mod check;
mod digest;
mod error;
mod finding;
pub mod format;
pub mod geometry;
mod manifest;
mod reader;
mod spec;
#[cfg(test)]
mod testing;
mod writer;

pub use archive::{ArchiveListing, RunLocation, archive_digest, find_runs, list_archive};
pub use check::{
    ArchiveCheck, CHECKS, Check, CheckResult, Outcome, RunCheck, check_archive, check_run,
    checks_json,
};
pub use error::TraceError;
pub use finding::{Finding, Severity};
pub use manifest::validate_manifest;
pub use reader::{LoadedRun, ReadOptions, read_manifest, read_run};
pub use spec::{read_run_spec, read_spec};
pub use writer::{
    AccuracyWriteRow, EngineRow, JoinedRows, PowerRow, RequestRow, RunWriter, SegmentRows, StepRow,
    last_formal_end, last_power_times, merge_segments, segment_entry, write_segment,
};
