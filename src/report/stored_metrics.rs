//! The table `metrics` of a results folder, read back.

use wattrace_schema::{Flag, FlagSet, Reason};

use crate::error::ReportError;
use crate::results::{Results, StoredTable};

/// The table by metric and run: it has every metric of every run, in the order of `runs`.
pub(crate) struct StoredMetrics {
    table: StoredTable,
    /// Metrics of a run.
    per_run: usize,
}

impl StoredMetrics {
    /// Reads the table of a results folder with so many runs.
    pub(crate) fn read(results: &Results, runs: usize) -> Result<Self, ReportError> {
        let table = results.table("metrics")?;
        let per_run = table.rows.checked_div(runs).unwrap_or_default();
        if per_run * runs != table.rows {
            return Err(ReportError::Disagree {
                table: "metrics".to_owned(),
                found: format!("{} rows", table.rows),
                expected: format!("as many for each of the {runs} rows of \"runs\""),
            });
        }
        // Read once here, so that looking up a value cannot fail.
        table.text("metric")?;
        table.numbers("value")?;
        table.text("reason")?;
        table.text_lists("flags")?;
        Ok(Self { table, per_run })
    }

    /// A metric of the run in that row of `runs`: its value or why there is none, and its flags.
    pub(crate) fn get(&self, name: &str, run: usize) -> Option<(Result<f64, Reason>, FlagSet)> {
        let rows = run * self.per_run..(run + 1) * self.per_run;
        let names = self.table.text("metric").ok()?;
        let row = rows.into_iter().find(|row| names[*row].as_deref() == Some(name))?;
        let value = self.table.numbers("value").ok()?[row];
        let reason = self.table.text("reason").ok()?[row].as_deref().and_then(Reason::from_code);
        let flags = self.table.text_lists("flags").ok()?[row].iter().flatten();
        let flags = flags.filter_map(|code| Flag::from_code(code)).collect();
        Some((value.ok_or(reason.unwrap_or(Reason::NotApplicable)), flags))
    }
}
