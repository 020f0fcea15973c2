//! The runs of the results, as figures ask for them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ReportError;
use crate::results::{Results, StoredTable};

/// The table `runs`.
pub(super) struct Runs {
    pub(super) table: StoredTable,
    /// Row of each run id; of one that is used twice, the first.
    rows: BTreeMap<String, usize>,
}

/// What runs have in common that differ only in repetition.
const KIND_COLUMNS: [&str; 7] =
    ["kind", "model", "configuration", "hardware", "task", "engine", "setting"];

impl Runs {
    pub(super) fn read(results: &Results) -> Result<Self, ReportError> {
        let table = results.table("runs")?;
        let mut rows = BTreeMap::new();
        for (row, run_id) in table.text("run_id")?.iter().enumerate() {
            if let Some(run_id) = run_id {
                rows.entry(run_id.clone()).or_insert(row);
            }
        }
        Ok(Self { table, rows })
    }

    pub(super) fn contains(&self, run_id: &str) -> bool {
        self.rows.contains_key(run_id)
    }

    pub(super) fn row(&self, run_id: &str) -> Option<usize> {
        self.rows.get(run_id).copied()
    }

    /// Whether a run is simulated.
    pub(super) fn is_synthetic(&self, run_id: &str) -> bool {
        let synthetic = || self.table.booleans("synthetic").ok()?[self.row(run_id)?];
        synthetic().unwrap_or(false)
    }

    /// The text of a run in a column.
    pub(super) fn text(&self, run_id: &str, column: &str) -> Option<&str> {
        self.table.text(column).ok()?[self.row(run_id)?].as_deref()
    }

    /// The count of a run in a column.
    pub(super) fn count(&self, run_id: &str, column: &str) -> Option<u64> {
        self.table.counts(column).ok()?[self.row(run_id)?]
    }

    /// The first run of each kind among `of`.
    pub(super) fn one_of_each(&self, of: &BTreeSet<String>) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let kind = |run_id: &String| KIND_COLUMNS.map(|column| self.text(run_id, column));
        of.iter().filter(|run_id| seen.insert(kind(run_id))).cloned().collect()
    }
}
