//! The serving runs that rankings are made from: from records, or read back from a results folder.

use wattrace_analysis::metrics::MetricRow;
use wattrace_analysis::ranking::{RunIdentity, ServingRun, ServingValues};
use wattrace_schema::{Reason, RunKind, SizeGroup};

use crate::error::ReportError;
use crate::record::{RunRecord, run_order};
use crate::results::Results;
use crate::stored_metrics::StoredMetrics;
use crate::stored_row::StoredRow;

/// The serving runs of an archive in the order of their ids; one that could not be read lacks every
/// value, for that reason.
#[must_use]
pub fn serving_runs(records: &[RunRecord]) -> Vec<ServingRun> {
    let unread = MetricRow::missing(Reason::InvalidRun);
    run_order(records)
        .into_iter()
        .filter_map(|record| ServingRun::of(record.manifest.as_ref()?, record.metrics_or(&unread)))
        .collect()
}

/// The serving runs of a results folder, as [`serving_runs`] gave them when it was written.
///
/// # Errors
/// When the tables `runs` or `metrics` are missing, changed, or do not belong together.
pub fn stored_serving_runs(results: &Results) -> Result<Vec<ServingRun>, ReportError> {
    let runs = results.table("runs")?;
    let metrics = StoredMetrics::read(results, runs.rows)?;
    let kinds = runs.text("kind")?;
    (0..runs.rows)
        .filter(|row| kinds[*row].as_deref() == Some(RunKind::Serving.name()))
        .map(|row| {
            let values = ServingValues::from_metrics(|name| metrics.get(name, row));
            Ok(ServingRun { identity: identity(StoredRow::new(&runs, row))?, values })
        })
        .collect()
}

fn identity(run: StoredRow<'_>) -> Result<RunIdentity, ReportError> {
    let optional =
        |column: &str| Ok::<_, ReportError>(run.optional_text(column)?.map(str::to_owned));
    Ok(RunIdentity {
        run_id: run.text("run_id")?,
        model: run.text("model")?,
        task: optional("task")?,
        size_group: run.optional_text("size_group")?.and_then(SizeGroup::from_name),
        engine: optional("engine")?,
        hardware: run.text("hardware")?,
        synthetic: run.boolean("synthetic")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wattrace_analysis::metrics::DEFINITIONS_VERSION;

    use super::*;
    use crate::{
        Provenance, ResultsManifest, RunCounts, SyntheticShare, fixtures, tables, write_table,
    };

    #[test]
    fn stored_runs_are_those_that_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut unread = fixtures::serving("serving-b");
        unread.analysis = Err("truncated".to_owned());
        let records = [
            unread,
            fixtures::serving("serving-a"),
            fixtures::node_only("node-a"),
            fixtures::decode("decode-a", "b4"),
            fixtures::unreadable("runs/broken", "\"run.json\" is missing"),
        ];
        let provenance = Provenance {
            tool_version: "0.1.0".into(),
            metric_definitions_version: DEFINITIONS_VERSION,
            options: json!({}),
            archive_sha256: None,
            synthetic: SyntheticShare::Some,
        };
        let mut manifest = ResultsManifest::new(&provenance, Vec::new(), RunCounts::of(&records));
        for table in [tables::runs(&records), tables::metrics(&records)] {
            manifest.tables.push(write_table(dir.path(), &table, &provenance).unwrap());
        }
        manifest.write(dir.path()).unwrap();
        let runs = serving_runs(&records);
        let ids: Vec<&str> = runs.iter().map(|run| run.identity.run_id.as_str()).collect();
        assert_eq!(ids, ["node-a", "serving-a", "serving-b"]);
        assert_eq!(runs[2].values.steady_j_per_token, Err(Reason::InvalidRun));
        let results = Results::open(dir.path()).unwrap();
        assert_eq!(stored_serving_runs(&results).unwrap(), runs);
    }
}
