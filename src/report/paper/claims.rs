//! The published values that came with the data, checked like those of a paper.

use super::build::{explained, stamped};
use super::compare::{ComparedCell, Comparison, Verdict};
use super::number::PublishedNumber;
use super::table::Content;
use crate::error::ReportError;
use crate::provenance::SyntheticShare;
use crate::results::{Results, StoredTable};
use crate::text::printable;

/// Compares every claim of the results' `claims` table with its recomputed value. The tolerance is half a
/// unit in the claim's last digit, and `percent` of it on top.
///
/// # Errors
/// When the results have no such table, or it cannot be read.
pub fn compare_claims(results: &Results, percent: f64) -> Result<Comparison, ReportError> {
    compare_table(&results.table("claims")?, results.manifest().synthetic, percent)
}

fn compare_table(
    claims: &StoredTable,
    archive: SyntheticShare,
    percent: f64,
) -> Result<Comparison, ReportError> {
    let text = |name: &str| claims.text(name);
    let (runs, metrics, units) = (text("run_id")?, text("metric")?, text("unit")?);
    let (reasons, sources) = (text("reason")?, text("source")?);
    let (claimed, recomputed) = (claims.numbers("claimed")?, claims.numbers("recomputed")?);
    let printed = |text: &Option<String>| printable(text.as_deref().unwrap_or_default());
    let cells = (0..claims.rows)
        .filter_map(|row| {
            let claimed = claimed[row]?;
            let number = PublishedNumber::of_shortest_text(claimed);
            let value = recomputed[row];
            let verdict = match (value, number) {
                (Some(value), Some(number)) if number.agrees_within(value, percent) => {
                    Verdict::Within
                }
                (Some(_), _) => Verdict::Off,
                (None, _) => Verdict::CannotBeHad,
            };
            let content = value.map_or(Content::Missing, |value| Content::Number {
                value,
                printed: format!("{value}"),
            });
            let (unit, reason) = (printed(&units[row]), reasons[row].as_deref().map(printable));
            let unit = if unit.is_empty() { unit } else { format!(" ({unit})") };
            Some(ComparedCell {
                row: vec![printed(&runs[row]), printed(&sources[row])],
                column: format!("{}{unit}", printed(&metrics[row])),
                published: Some(format!("{claimed}")),
                number,
                recomputed: content,
                tolerance: number.map(|number| number.tolerance(percent)),
                verdict,
                remark: reason.map(|code| explained(&code, "")),
            })
        })
        .collect();
    Ok(Comparison {
        table: "claims".to_owned(),
        caption: stamped("values that came with the data.", archive),
        row_keys: vec!["run_id".to_owned(), "source".to_owned()],
        cells,
        left_out: Vec::new(),
    })
}
