//! Why a figure cannot be drawn.

/// Why a figure cannot be drawn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FigureError {
    /// The data hold nothing to draw.
    #[error("figure \"{figure}\" needs {missing}; there is none")]
    Missing {
        /// Name of the figure.
        figure: &'static str,
        /// What would be needed.
        missing: String,
    },
    /// A number cannot be drawn.
    #[error("figure \"{figure}\": {what} is {value}; expected {expected}")]
    Value {
        /// Name of the figure.
        figure: &'static str,
        /// Which number.
        what: String,
        /// The number.
        value: f64,
        /// What would be right.
        expected: &'static str,
    },
}

/// A figure that checks its data, by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    pub(crate) fn missing(self, missing: impl Into<String>) -> FigureError {
        FigureError::Missing { figure: self.0, missing: missing.into() }
    }

    /// Refuses a value that no axis has a place for.
    pub(crate) fn finite(self, what: impl Fn() -> String, value: f64) -> Result<(), FigureError> {
        self.holds(what, value, value.is_finite(), "a finite number")
    }

    /// Refuses a value that no logarithmic axis has a place for.
    pub(crate) fn positive(self, what: impl Fn() -> String, value: f64) -> Result<(), FigureError> {
        self.holds(what, value, value.is_finite() && value > 0.0, "a finite number above zero")
    }

    fn holds(
        self,
        what: impl Fn() -> String,
        value: f64,
        holds: bool,
        expected: &'static str,
    ) -> Result<(), FigureError> {
        if holds {
            return Ok(());
        }
        Err(FigureError::Value { figure: self.0, what: what(), value, expected })
    }
}
