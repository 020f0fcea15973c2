//! `capacity`: one row a configuration.

use wattrace_analysis::service::CapacityRow;
use wattrace_schema::{Reason, Unit};

use super::parts::{CONFIGURATION, flags};
use super::reasoned::Reasoned;
use crate::table::ResultTable;

pub(super) fn capacity(rows: &[CapacityRow]) -> ResultTable {
    Reasoned::of("capacity", "one configuration under one spec in place of the reference", rows)
        .plain(|table| {
            table
                .text("configuration", CONFIGURATION, |row: &CapacityRow| {
                    row.configuration.as_deref()
                })
                .count("cards", Unit::Count, "Cards of the fleet that runs the reference.", |row| {
                    Some(row.cards)
                })
        })
        .number(
            "reference_goodput_tok_s",
            Unit::TokenPerSecond,
            "Goodput of the reference, T0.",
            |row| row.reference_goodput_tok_s,
        )
        .number("goodput_tok_s", Unit::TokenPerSecond, "Goodput of the configuration, T1.", |row| {
            row.goodput_tok_s
        })
        .count(
            "cards_needed",
            Unit::Count,
            "Cards that do the same work: cards * T0 / T1, rounded up exactly.",
            |row| row.cards_needed,
        )
        .plain(|table| {
            let table = table
                .text("reason", "Why there is no number of cards.", |row| {
                    row.reason().map(Reason::code)
                })
                .number(
                    "cards_saved",
                    Unit::Count,
                    "Cards that become free; negative where more are needed.",
                    |row| row.cards_saved().map(|cards| cards as f64),
                )
                .text("reference", "What the fleet runs today.", |row| row.reference.as_deref())
                .text("spec_hash", "SHA-256 of the canonical spec.", |row| {
                    row.spec_hash.as_deref()
                });
            flags(table, |row| row.flags)
        })
        .build()
}
