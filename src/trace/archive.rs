//! Finds the runs of an archive.

use std::path::{Path, PathBuf};

use crate::TraceError;

/// Where a run lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunLocation {
    /// Folder of the run below the archive, with forward slashes; `.` when the archive is the run.
    pub relative: String,
    /// The folder.
    pub folder: PathBuf,
}

/// Every folder below `archive` that holds a `run.json`, in the order of their relative paths.
///
/// # Errors
/// When the archive cannot be listed or holds no run.
pub fn find_runs(_archive: &Path) -> Result<Vec<RunLocation>, TraceError> {
    Err(TraceError::Other("not built yet".into()))
}
