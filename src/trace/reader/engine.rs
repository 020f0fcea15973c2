//! `engine.parquet`: the named metrics, each as a series of its own.

use std::collections::BTreeMap;

use wattrace_schema::tables::engine_column as column;
use wattrace_schema::{EngineMetric, Series};

use super::file::TableFile;
use crate::TraceError;

/// Reads the metrics called one of `names`, by name, then labels, each in order of time. Values that are
/// null or not finite are left out.
pub(crate) fn read_engine_metrics(
    file: &TableFile,
    names: &[&str],
) -> Result<Vec<EngineMetric>, TraceError> {
    let mut metrics: BTreeMap<(String, String), Vec<(i64, f64)>> = BTreeMap::new();
    file.read(&[column::t, column::name, column::labels, column::value], |batch| {
        let times = batch.required_times(column::t)?;
        let Some(metric_names) = batch.required_labels(column::name)? else { return Ok(()) };
        let labels = batch.labels(column::labels);
        let Some(values) = batch.numbers::<f64>(column::value)? else { return Ok(()) };
        for (row, value) in values.options().enumerate() {
            let name = metric_names.text(row);
            let Some(value) = value.filter(|value| value.is_finite() && names.contains(&name))
            else {
                continue;
            };
            let labels = labels
                .as_ref()
                .and_then(|labels| labels.key(row).map(|_| labels.text(row)))
                .unwrap_or_default();
            metrics
                .entry((name.to_owned(), labels.to_owned()))
                .or_default()
                .push((times[row], value));
        }
        Ok(())
    })?;
    Ok(metrics
        .into_iter()
        .map(|((name, labels), mut samples)| {
            samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let (t_ns, value) = samples.into_iter().unzip();
            EngineMetric { name, labels, samples: Series { t_ns, value } }
        })
        .collect())
}
