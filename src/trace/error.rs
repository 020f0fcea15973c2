//! What can go wrong between an archive and its rows.

use std::path::PathBuf;

/// Why a file or a run could not be read or written. Each message says what failed, where, the value
/// found and what would be right; the cause follows as the source.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the facts that the message prints")]
pub enum TraceError {
    /// The operating system refused.
    #[error("cannot {action} \"{}\"", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// `run.json` is not valid.
    #[error("\"{}\" is not a valid run.json: {message}", path.display())]
    Manifest { path: PathBuf, message: String },
    /// A Parquet file is not valid.
    #[error("\"{}\" is not a readable Parquet file: {message}", path.display())]
    Parquet { path: PathBuf, message: String },
    /// A column is missing.
    #[error("\"{}\" has no column \"{column}\"; expected {expected}", path.display())]
    MissingColumn { path: PathBuf, column: &'static str, expected: &'static str },
    /// A column has another type.
    #[error("\"{}\" column \"{column}\" is {found}; expected {expected}", path.display())]
    ColumnType { path: PathBuf, column: &'static str, found: String, expected: &'static str },
    /// A value breaks the contract.
    #[error("\"{}\" column \"{column}\" row {row}: {found}; expected {expected}", path.display())]
    Value { path: PathBuf, column: &'static str, row: u64, found: String, expected: String },
    /// A file differs from what run.json says of it.
    #[error("\"{}\" {what} is {found}, but run.json says {expected}", path.display())]
    Mismatch { path: PathBuf, what: &'static str, found: String, expected: String },
    /// A raw log of another tool is not as its format says.
    #[error("\"{}\"{}: {message}", path.display(), line.map(|line| format!(" line {line}")).unwrap_or_default())]
    Format { path: PathBuf, line: Option<u64>, message: String },
    /// Anything else that names its place and remedy itself.
    #[error("{0}")]
    Other(String),
}
