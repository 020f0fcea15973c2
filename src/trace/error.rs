//! What can go wrong between an archive and its rows.

use std::path::{Path, PathBuf};

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
    /// A folder holds no run.
    #[error("\"{}\" holds no run; expected a folder with a run.json in it or below it", path.display())]
    NoRuns { path: PathBuf },
    /// A symbolic link leads out of the archive.
    #[error("\"{}\" leads out of the archive to \"{}\"; expected a file inside the archive", path.display(), target.display())]
    Outside { path: PathBuf, target: PathBuf },
    /// `run.json` is not valid.
    #[error("\"{}\" is not a valid run.json: {message}", path.display())]
    Manifest { path: PathBuf, message: String },
    /// A locked spec is not valid.
    #[error("\"{}\" is not a valid spec: {errors}", path.display())]
    Spec { path: PathBuf, errors: wattrace_schema::spec::SpecErrors },
    /// `run.json` lists a file that is not there.
    #[error("\"{}\" is missing, but run.json lists it with {rows} rows", path.display())]
    MissingFile { path: PathBuf, rows: u64 },
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
    /// A run cannot be named like this.
    #[error(
        "run id \"{}\" {problem}; expected the name of one folder, such as \"qwen-7b_rate-4_1\"",
        run_id.escape_debug()
    )]
    RunId { run_id: String, problem: &'static str },
    /// A run is written once and never changed.
    #[error("\"{}\" exists already; a run is never overwritten, so choose another run id", path.display())]
    RunExists { path: PathBuf },
    /// Another writer is at work, or one was cut off.
    #[error(
        "\"{}\" exists already: another program is writing this run, or was cut off; \
         remove the folder if none is running",
        path.display()
    )]
    PartialExists { path: PathBuf },
    /// A file beside the tables has an unusable name.
    #[error("cannot write a file named \"{}\" into a run: {problem}", name.escape_debug())]
    FileName { name: String, problem: &'static str },
    /// Rows and `run.json` contradict each other when a run is written.
    #[error("cannot write run \"{run_id}\": {message}")]
    Unwritable { run_id: String, message: String },
    /// Anything else that names its place and remedy itself.
    #[error("{0}")]
    Other(String),
}

impl TraceError {
    /// The error and its causes in one line.
    #[must_use]
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            text.push_str(": ");
            text.push_str(&next.to_string());
            cause = next.source();
        }
        text
    }

    /// Turns an input or output error into one that names what was done to which file.
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
