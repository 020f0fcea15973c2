//! Exit codes, and what goes to standard error.

use std::io::Write;

/// How the program ended, unless it passes on the exit code of the command that it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The run was written, but something in it was lost or failed.
    Findings,
    /// Bad usage or options, or the recording could not be made.
    Usage,
    /// There is nothing to work on.
    NoInput,
    /// Interrupted by the user; the run was written all the same.
    Interrupted,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::NoInput => 3,
            Self::Interrupted => 130,
        }
    }
}

/// An error that ends a command, with the exit code that it means.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// There is nothing to work on.
    pub(crate) fn no_input(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::NoInput, error: error.into() }
    }
}

/// Anything else that goes wrong leaves the work undone.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Usage, error: error.into() }
    }
}

/// Writes a line to standard error. If nobody reads it there is nowhere else to say so.
pub(crate) fn to_stderr(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
