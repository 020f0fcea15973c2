//! `accuracy.parquet`.

use wattrace_schema::AccuracyRow;
use wattrace_schema::tables::accuracy_column as column;

use super::file::TableFile;
use crate::TraceError;

/// Reads every row, in the order of suite, item, seed and score.
pub(crate) fn read_accuracy(file: &TableFile) -> Result<Vec<AccuracyRow>, TraceError> {
    let columns = [column::suite, column::item, column::seed, column::score];
    let mut rows: Vec<AccuracyRow> = Vec::new();
    file.read(&columns, |batch| {
        let suites = batch.required_labels(column::suite)?;
        let items = batch.required_texts(column::item)?;
        let seeds = batch.required_numbers::<u32>(column::seed)?;
        let (Some(suites), Some(items)) = (suites, items) else { return Ok(()) };
        let scores = batch.numbers::<f64>(column::score)?;
        let mut scores = scores.iter().flat_map(super::Values::options);
        for row in 0..batch.rows() {
            let score = scores.next().flatten();
            if let Some(score) = score.filter(|score| !score.is_finite()) {
                let found = score.to_string();
                return Err(batch.value_error(
                    column::score,
                    row,
                    found,
                    "a finite number or null",
                ));
            }
            rows.push(AccuracyRow {
                suite: suites.text(row).to_owned(),
                item: items.value(row).to_owned(),
                seed: seeds[row],
                score,
            });
        }
        Ok(())
    })?;
    rows.sort_by(|a, b| {
        (&a.suite, &a.item, a.seed).cmp(&(&b.suite, &b.item, b.seed)).then_with(|| {
            let order = |row: &AccuracyRow| row.score.unwrap_or(f64::NEG_INFINITY);
            order(a).total_cmp(&order(b))
        })
    });
    Ok(rows)
}
