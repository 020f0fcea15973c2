//! Exit codes: what a script learns.

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Done, and there are findings: a failed check, a run that could not be analysed.
    Findings,
    /// Bad usage or options.
    Usage,
    /// No usable input.
    NoInput,
    /// Interrupted by the user.
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

    /// [`Exit::Findings`] when there are any.
    pub(crate) const fn findings_if(any: bool) -> Self {
        if any { Self::Findings } else { Self::Done }
    }
}

/// An error that ends a command, with the exit code that it means.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// The user asked for something that cannot be.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Usage, error: error.into() }
    }

    /// There is nothing to work on.
    pub(crate) fn no_input(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::NoInput, error: error.into() }
    }
}

/// Anything else that goes wrong (a full disk, a folder without permission) leaves the work undone.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Usage, error: error.into() }
    }
}
