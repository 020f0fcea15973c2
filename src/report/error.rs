//! What can go wrong while results are written or read back.

use std::path::{Path, PathBuf};

/// Why results could not be written or read. Each message says what failed and what would be right;
/// the cause follows as the source.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the facts that the message prints")]
pub enum ReportError {
    /// The operating system refused.
    #[error("cannot {action} \"{}\"", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A Parquet file could not be encoded or decoded.
    #[error("cannot {action} \"{}\": {message}", path.display())]
    Parquet { action: &'static str, path: PathBuf, message: String },
    /// Rows for a table that has other columns.
    #[error("rows for table \"{table}\" have columns {found}; expected {expected}")]
    Columns { table: String, found: String, expected: String },
    /// The folder holds no results.
    #[error("\"{}\" holds no results.json; give the folder that `wattrace analyze --out` wrote (an archive: analyse it first)", path.display())]
    NoResults { path: PathBuf },
    /// `results.json` is not valid.
    #[error("\"{}\" is not a valid results.json: {message}", path.display())]
    Invalid { path: PathBuf, message: String },
    /// The results rest on other definitions of the metrics than this program's.
    #[error(
        "\"{}\" was written with version {found} of the metric definitions, and this program has version \
         {expected}; run `wattrace analyze` again{}", path.display(),
        if found > expected { " or use a newer wattrace" } else { "" }
    )]
    DefinitionsVersion { path: PathBuf, found: u32, expected: u32 },
    /// The results do not hold that table.
    #[error("\"{}\" has no table \"{table}\"; it has {available}", path.display())]
    NoTable { path: PathBuf, table: String, available: String },
    /// A stored table lacks a column, or holds another type in it.
    #[error("table \"{table}\" column \"{column}\" is {found}; expected {expected}")]
    Column { table: String, column: String, found: &'static str, expected: &'static str },
    /// Tables of one results folder do not belong together.
    #[error("table \"{table}\" has {found}; expected {expected}; run `wattrace analyze` again")]
    Disagree { table: String, found: String, expected: String },
    /// A table's file is not the one that `results.json` lists.
    #[error("\"{}\" has SHA-256 {found}, but results.json says {expected}; run `wattrace analyze` again", path.display())]
    Changed { path: PathBuf, found: String, expected: String },
}

impl ReportError {
    /// For `map_err`: the operating system refused `action` on `path`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// For `map_err`: polars refused `action` on `path`.
    pub(crate) fn parquet(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(polars::error::PolarsError) -> Self {
        move |error| Self::Parquet { action, path: path.to_owned(), message: error.to_string() }
    }
}
