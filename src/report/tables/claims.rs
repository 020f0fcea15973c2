//! `claims`: published values that came with the data, beside the recomputed ones.

use wattrace_analysis::metrics::ClaimComparison;
use wattrace_schema::{Reason, Unit};

use crate::paper::PublishedNumber;
use crate::record::{RunRecord, run_order};
use crate::table::ResultTable;

/// Every claim of every run, with the recomputed value and their difference.
#[must_use]
pub fn claims(records: &[RunRecord]) -> ResultTable {
    let rows: Vec<(&RunRecord, ClaimComparison)> = run_order(records)
        .into_iter()
        .flat_map(|record| comparisons(record).into_iter().map(move |claim| (record, claim)))
        .collect();
    ResultTable::of("claims", "one published value of one run", &rows)
        .text("run_id", "Id of the run.", |(record, _)| Some(record.run_id()))
        .text("metric", "What the value is of: a column of `runs` where one fits.", |(_, row)| {
            Some(row.claim.metric.as_str())
        })
        .number("claimed", Unit::None, "The value as published.", |(_, row)| Some(row.claim.value))
        .text("unit", "Unit of both values.", |(_, row)| Some(row.claim.unit.as_str()))
        .text("source", "Where the value stands in the source.", |(_, row)| {
            Some(row.claim.source.as_str())
        })
        .number("recomputed", Unit::None, "The value from the raw rows.", |(_, row)| {
            row.recomputed.ok()
        })
        .number("difference", Unit::None, "Recomputed minus claimed.", |(_, row)| row.difference())
        .number(
            "relative_difference",
            Unit::Ratio,
            "(recomputed - claimed) / claimed.",
            |(_, row)| row.relative_difference(),
        )
        .boolean(
            "agrees_as_printed",
            "Whether the recomputed value rounds to the claimed one at the digits of the claim.",
            |(_, row)| row.recomputed.ok().map(|value| agrees_as_printed(row.claim.value, value)),
        )
        .text("reason", "Why there is no recomputed value.", |(_, row)| {
            row.recomputed.err().map(Reason::code)
        })
        .build()
}

/// The claims of a run; those of a run that could not be read stay without a recomputed value.
pub(crate) fn comparisons(record: &RunRecord) -> Vec<ClaimComparison> {
    match (&record.analysis, &record.manifest) {
        (Ok(analysis), _) => analysis.claims.clone(),
        (Err(_), Some(manifest)) => manifest
            .claims
            .iter()
            .map(|claim| ClaimComparison {
                claim: claim.clone(),
                recomputed: Err(Reason::InvalidRun),
            })
            .collect(),
        (Err(_), None) => Vec::new(),
    }
}

/// Whether `recomputed` lies within half a unit of the last digit of `claimed`, taken as its shortest
/// decimal text; zeros that the source printed at the end are not known.
#[must_use]
pub fn agrees_as_printed(claimed: f64, recomputed: f64) -> bool {
    PublishedNumber::of_shortest_text(claimed).is_some_and(|claim| claim.agrees_with(recomputed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_met_within_half_a_unit_of_its_last_digit() {
        assert!(agrees_as_printed(6280.214, 6280.2144));
        assert!(!agrees_as_printed(6280.214, 6280.2146));
        assert!(agrees_as_printed(0.272, 0.272_5));
        assert!(!agrees_as_printed(0.272, 0.273));
        assert!(agrees_as_printed(1200.0, 1200.5));
        assert!(!agrees_as_printed(1200.0, 1201.0));
        assert!(!agrees_as_printed(1e-7, 2e-7));
    }
}
