//! What can go wrong between a plan and its archive.

use std::path::PathBuf;

use wattrace_trace::TraceError;

/// A plan that cannot be carried out: where it is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "plan \"{}\"{}{}: {message}",
    path.display(),
    line.map(|line| format!(" line {line}")).unwrap_or_default(),
    key.as_ref().map(|key| format!(", in \"{key}\"")).unwrap_or_default()
)]
pub struct PlanError {
    /// The plan's file.
    pub path: PathBuf,
    /// Line of the value at fault, counted from 1.
    pub line: Option<usize>,
    /// Dotted path of the key at fault.
    pub key: Option<String>,
    /// What was found and what is expected.
    pub message: String,
}

/// Why an archive could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The plan cannot be read.
    #[error("cannot read plan \"{}\"", path.display())]
    Read {
        /// The plan's file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The plan is not valid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The numbers of one run lead nowhere.
    #[error("run \"{run_id}\": {message}")]
    Run {
        /// The run.
        run_id: String,
        /// What came out and what would be right.
        message: String,
    },
    /// A run could not be written.
    #[error("run \"{run_id}\" could not be written")]
    Write {
        /// The run.
        run_id: String,
        /// What the writer said.
        #[source]
        source: TraceError,
    },
    /// The threads could not be started.
    #[error("cannot start {threads} threads")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the thread pool said.
        #[source]
        source: rayon::ThreadPoolBuildError,
    },
}
