//! `sweep`: one row a configuration and request rate.

use wattrace_analysis::service::SweepRow;
use wattrace_schema::Unit;

use super::parts::{REQUEST_RATE, UNLIMITED, beside_mbu, flags, identity, limits, subject};
use super::reasoned::Reasoned;
use crate::table::ResultTable;

pub(super) fn sweep(rows: &[SweepRow]) -> ResultTable {
    let table = Reasoned::of("sweep", "one request rate of one configuration under one spec", rows)
        .plain(|table| {
            identity(table, |row: &SweepRow| &row.spec_hash, |row| &row.configuration)
                .number("request_rate", Unit::RequestPerSecond, REQUEST_RATE, |row| {
                    row.request_rate
                })
                .count("n_runs", Unit::Count, "Runs at this rate.", |row| Some(row.n_runs as u64))
        })
        .number(
            "output_tok_s",
            Unit::TokenPerSecond,
            "Output tokens generated in the window per second, median over runs.",
            |row| row.output_tok_s,
        )
        .number(
            "ttft_p99_ms",
            Unit::Millisecond,
            "p99 time to first token over requests sent in the window, failures being infinite; median over runs.",
            |row| row.ttft_p99_ms,
        )
        .number(
            "tpot_p99_ms",
            Unit::Millisecond,
            "p99 time per output token over requests sent in the window, failures being infinite; median over runs.",
            |row| row.tpot_p99_ms,
        )
        .boolean("meets_slo", "Whether both medians keep their limits.", |row| row.meets_slo)
        .count("failed", Unit::Count, "Failed requests among those sent in the windows.", |row| {
            row.failed
        })
        .count("sent", Unit::Count, "Formal requests sent in the windows of all runs.", |row| {
            row.sent
        })
        .plain(|table| {
            let table = table
                .boolean("unlimited_rate", UNLIMITED, |row| Some(row.request_rate.is_none()))
                .boolean("is_goodput_rate", "Whether this is the rate of the goodput.", |row| {
                    Some(row.is_goodput_rate)
                });
            limits(table, |row| row.objective)
        })
        .number(
            "output_tok_s_low",
            Unit::TokenPerSecond,
            "Smallest value of a run.",
            |row| row.output_tok_s_low,
        )
        .number(
            "output_tok_s_high",
            Unit::TokenPerSecond,
            "Largest value of a run.",
            |row| row.output_tok_s_high,
        )
        .number(
            "variance_band",
            Unit::Ratio,
            "(largest - smallest) / median of `output_tok_s`.",
            |row| row.variance_band,
        )
        .number(
            "mbu",
            Unit::Ratio,
            "Memory bandwidth utilisation: bytes that decode steps read, over what memory could deliver; median over runs.",
            |row| row.memory.mbu,
        );
    beside_mbu(table, |row| &row.memory)
        .number(
            "node_power_w",
            Unit::Watt,
            "Mean power of the node over the window, median over runs.",
            |row| row.node_power_w,
        )
        .number(
            "board_power_w",
            Unit::Watt,
            "Mean power of all boards together over the window, median over runs; never part of `tokens_per_joule`.",
            |row| row.board_power_w,
        )
        .number(
            "tokens_per_joule",
            Unit::TokenPerJoule,
            "Output tokens per joule of the node, median of the runs' ratios.",
            |row| row.tokens_per_joule,
        )
        .plain(|table| {
            flags(subject(table, |row| &row.model, |row| &row.hardware), |row| row.flags)
        })
        .build()
}
