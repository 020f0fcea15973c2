//! Importers of other tools' raw formats: one file each, one line in [`FORMATS`].

use std::path::{Path, PathBuf};

use crate::TraceError;

/// What an importer needs to know besides its inputs.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Anything skipped is an error.
    pub strict: bool,
    /// Name of the time zone of local times, such as `America/Los_Angeles`.
    pub time_zone: Option<String>,
    /// Command line, for the provenance.
    pub command: String,
}

/// What an import did.
#[derive(Debug, Clone, Default)]
pub struct ImportSummary {
    /// Folders of the runs written, in order.
    pub runs: Vec<PathBuf>,
    /// What was decided or skipped, with file and line.
    pub notes: Vec<String>,
    /// Inputs that could not be imported, each with its reason.
    pub failed: Vec<String>,
}

/// One format: its name, what it can and cannot give, and how it is recognised and read.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// Which tool writes it.
    pub title: &'static str,
    /// What can be recovered from it.
    pub recovers: &'static str,
    /// What cannot.
    pub lacks: &'static str,
    /// Says by content, never by extension, why `input` (a file or a folder) looks like this format;
    /// `None` if it does not.
    pub detect: fn(input: &Path) -> Option<String>,
    /// Reads `input` and writes runs below `archive`.
    pub import: fn(
        input: &Path,
        archive: &Path,
        options: &ImportOptions,
    ) -> Result<ImportSummary, TraceError>,
}

/// Every format, by name.
pub const FORMATS: &[Format] = &[];
