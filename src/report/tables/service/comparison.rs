//! `comparison`: one row a configuration and metric, against the reference.

use wattrace_analysis::service::{ComparisonRow, Side};
use wattrace_schema::{Reason, Unit};

use super::parts::{CONFIGURATION, flags};
use super::reasoned::Reasoned;
use crate::table::ResultTable;

/// Names of the columns of one side: median, smallest, largest, variance band, count.
type Names = [&'static str; 5];

const REFERENCE: Names = [
    "reference_median",
    "reference_low",
    "reference_high",
    "reference_variance_band",
    "reference_n",
];
const CONFIGURED: Names = ["median", "low", "high", "variance_band", "n"];

pub(super) fn comparison(rows: &[ComparisonRow]) -> ResultTable {
    let table =
        Reasoned::of("comparison", "one metric of one configuration against the reference", rows)
            .plain(|table| {
                table
                    .text("reference", "What it is compared with.", |row: &ComparisonRow| {
                        row.reference.as_deref()
                    })
                    .text("configuration", CONFIGURATION, |row| row.configuration.as_deref())
                    .text("metric", "What is compared; its unit is in its name.", |row| {
                        Some(row.metric)
                    })
                    .text(
                        "verdict",
                        "better, worse or inconclusive: what may be said of the configuration.",
                        |row| Some(row.verdict.name()),
                    )
                    .text(
                        "reason",
                        "Why nothing may be said, where that is not for overlap alone.",
                        |row| row.reason.map(Reason::code),
                    )
            });
    let table = side(table, REFERENCE, |row| &row.reference_side);
    side(table, CONFIGURED, |row| &row.side)
        .number("difference", Unit::None, "Configuration minus reference, of medians.", |row| {
            row.difference
        })
        .number("ci_low", Unit::None, "Lower end of its 95% bootstrap interval.", |row| row.ci_low)
        .number("ci_high", Unit::None, "Upper end.", |row| row.ci_high)
        .plain(|table| {
            let table = table
                .boolean("more_is_better", "Whether a larger value is better.", |row| {
                    Some(row.more_is_better)
                })
                .number(
                    "reference_request_rate",
                    Unit::RequestPerSecond,
                    "Request rate at which the reference was read off; missing for accuracy and the unlimited rate.",
                    |row| row.request_rates.and_then(|rates| rates[0]),
                )
                .number(
                    "request_rate",
                    Unit::RequestPerSecond,
                    "Request rate at which the configuration was read off.",
                    |row| row.request_rates.and_then(|rates| rates[1]),
                )
                .text("reference_spec_hash", "SHA-256 of the reference's spec.", |row| {
                    row.reference_spec_hash.as_deref()
                })
                .text("spec_hash", "SHA-256 of the configuration's spec.", |row| {
                    row.spec_hash.as_deref()
                });
            flags(table, |row| row.flags)
        })
        .build()
}

fn side<'rows>(
    table: Reasoned<'rows, ComparisonRow>,
    [median, low, high, band, n]: Names,
    of: impl Fn(&'rows ComparisonRow) -> &'rows Side + Copy,
) -> Reasoned<'rows, ComparisonRow> {
    table
        .number(median, Unit::None, "Median over runs; for accuracy the score.", move |row| {
            of(row).median
        })
        .number(low, Unit::None, "Smallest value of a run, or of a seed.", move |row| of(row).low)
        .number(high, Unit::None, "Largest value of a run, or of a seed.", move |row| of(row).high)
        .number(band, Unit::Ratio, "(largest - smallest) / median.", move |row| {
            of(row).variance_band
        })
        .plain(|table| {
            table.count(n, Unit::Count, "Runs, or seeds, behind it.", move |row| {
                Some(of(row).n as u64)
            })
        })
}
