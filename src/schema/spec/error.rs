//! What is wrong with a spec, and where.

use std::fmt;

/// One thing that is wrong with a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// Line in the text, from 1.
    pub line: usize,
    /// Path of the field, such as `slo.ttft_p99_ms`; empty for the document as a whole.
    pub field: String,
    /// What stands there.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, found, expected } = self;
        write!(formatter, "line {line}")?;
        if !field.is_empty() {
            write!(formatter, ", field \"{field}\"")?;
        }
        write!(formatter, ": found {found}; expected {expected}")
    }
}

/// Everything that is wrong with a spec, in the order of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecErrors(pub Vec<SpecError>);

impl fmt::Display for SpecErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(formatter, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecErrors {}

impl From<SpecError> for SpecErrors {
    fn from(error: SpecError) -> Self {
        Self(vec![error])
    }
}
