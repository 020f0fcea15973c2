//! A run of the archive and what became of it.

use wattrace_analysis::metrics::{MetricRow, RunAnalysis};
use wattrace_schema::{Flag, FlagSet, RunManifest};

/// A run of the archive and what became of it. A run that could not be read has a row too.
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// Folder of the run within the archive, with `/` between its parts.
    pub path: String,
    /// `run.json`, where it could be read.
    pub manifest: Option<RunManifest>,
    /// What was computed, or why the run could not be read.
    pub analysis: Result<RunAnalysis, String>,
}

impl RunRecord {
    /// The run's id; its folder where `run.json` could not be read.
    #[must_use]
    pub fn run_id(&self) -> &str {
        self.manifest.as_ref().map_or(&self.path, |manifest| &manifest.run_id)
    }

    /// Whether the run is known to be simulated.
    #[must_use]
    pub fn is_synthetic(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.synthetic)
    }

    /// Every flag of the run.
    #[must_use]
    pub fn flags(&self) -> FlagSet {
        match &self.analysis {
            Ok(analysis) => analysis.flags,
            Err(_) => self.is_synthetic().then_some(Flag::Synthetic).into_iter().collect(),
        }
    }

    /// The run's metrics, or `unread` for a run that could not be read.
    pub(crate) fn metrics_or<'a>(&'a self, unread: &'a MetricRow) -> &'a MetricRow {
        self.analysis.as_ref().map_or(unread, |analysis| &analysis.metrics)
    }
}

/// The runs by id, then folder: the order of rows in result tables, whatever order they were computed in.
#[must_use]
pub fn run_order(records: &[RunRecord]) -> Vec<&RunRecord> {
    let mut ordered: Vec<_> = records.iter().collect();
    ordered.sort_by(|a, b| (a.run_id(), &a.path).cmp(&(b.run_id(), &b.path)));
    ordered
}

/// The codes of a set of flags.
pub(crate) fn flag_codes(flags: FlagSet) -> Vec<String> {
    flags.iter().map(|flag| flag.code().to_owned()).collect()
}
