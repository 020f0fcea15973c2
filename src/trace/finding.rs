//! Doubtful measurements and broken rules, each with a stable id and its evidence.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing; no rule is broken.
    Note,
    /// Values can be computed, but read the flag.
    Warning,
    /// The contract is broken.
    Error,
}

/// One finding about one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Stable id of the check, such as `power-negative`.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// File within the run's folder.
    pub file: String,
    /// Column, where one is at fault.
    pub column: Option<&'static str>,
    /// First row at fault, counted from 0.
    pub row: Option<u64>,
    /// What was found and what would be right.
    pub message: String,
}

/// A power or counter value below zero.
pub(crate) const NEGATIVE_POWER: &str = "power-negative";
/// A power or counter value that is NaN or infinite.
pub(crate) const NOT_FINITE_POWER: &str = "power-not-finite";
/// A Parquet file that run.json does not list.
pub(crate) const FILE_NOT_HASHED: &str = "file-not-hashed";
