//! `goodput`: one row a configuration.

use wattrace_analysis::service::GoodputRow;
use wattrace_schema::{Reason, Unit};

use super::parts::{REQUEST_RATE, UNLIMITED, beside_mbu, flags, identity, limits, subject};
use super::reasoned::Reasoned;
use crate::table::ResultTable;

pub(super) fn goodput(rows: &[GoodputRow]) -> ResultTable {
    let table = Reasoned::of("goodput", "one configuration under one spec", rows)
        .plain(|table| identity(table, |row: &GoodputRow| &row.spec_hash, |row| &row.configuration))
        .number(
            "goodput_tok_s",
            Unit::TokenPerSecond,
            "Output tokens per second at the highest request rate that meets the objective, median over runs.",
            |row| row.goodput_tok_s,
        )
        .plain(|table| {
            table.number("request_rate", Unit::RequestPerSecond, REQUEST_RATE, |row| {
                row.request_rate.ok().flatten()
            })
        })
        .number("goodput_low", Unit::TokenPerSecond, "Smallest value of a run.", |row| {
            row.goodput_low
        })
        .number("goodput_high", Unit::TokenPerSecond, "Largest value of a run.", |row| {
            row.goodput_high
        })
        .plain(|table| {
            table.count("n_runs", Unit::Count, "Runs at that rate.", |row| Some(row.n_runs as u64))
        })
        .number(
            "mbu",
            Unit::Ratio,
            "Memory bandwidth utilisation at that rate, median over runs.",
            |row| row.memory.mbu,
        )
        .number(
            "node_power_w",
            Unit::Watt,
            "Mean power of the node at that rate, median over runs.",
            |row| row.node_power_w,
        )
        .number(
            "board_power_w",
            Unit::Watt,
            "Mean power of all boards together at that rate, median over runs; never part of `tokens_per_joule`.",
            |row| row.board_power_w,
        )
        .number(
            "tokens_per_joule",
            Unit::TokenPerJoule,
            "Output tokens per joule of the node at that rate, median of the runs' ratios; without a goodput, at the highest rate.",
            |row| row.tokens_per_joule,
        )
        .plain(|table| {
            let table = flags(table, |row| row.flags)
                .text("reason", "Why there is no goodput.", |row| row.reason().map(Reason::code))
                .boolean("unlimited_rate", UNLIMITED, |row| {
                    row.request_rate.ok().map(|rate| rate.is_none())
                });
            limits(table, |row| row.objective)
        })
        .number(
            "variance_band",
            Unit::Ratio,
            "(largest - smallest) / median at that rate.",
            |row| row.variance_band,
        )
        .number(
            "goodput_ci_low",
            Unit::TokenPerSecond,
            "Lower end of the 95% bootstrap interval of the goodput: the runs of every rate are redrawn.",
            |row| row.goodput_ci_low,
        )
        .number("goodput_ci_high", Unit::TokenPerSecond, "Upper end.", |row| row.goodput_ci_high)
        .number(
            "request_rate_ci_low",
            Unit::RequestPerSecond,
            "Lower end of the 95% bootstrap interval of the rate; missing without a reason for the unlimited one.",
            |row| finite(row.request_rate_ci_low),
        )
        .number("request_rate_ci_high", Unit::RequestPerSecond, "Upper end.", |row| {
            finite(row.request_rate_ci_high)
        });
    beside_mbu(table, |row| &row.memory)
        .plain(|table| subject(table, |row| &row.model, |row| &row.hardware))
        .build()
}

/// A rate as a number; the unlimited one is not finite, which a column holds as missing.
fn finite(rate: Result<Option<f64>, Reason>) -> Result<f64, Reason> {
    rate.map(|rate| rate.unwrap_or(f64::INFINITY))
}
