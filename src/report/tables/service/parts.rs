//! Columns that several of the tables have.

use wattrace_analysis::service::{MemorySummary, Objective};
use wattrace_schema::{FlagSet, Unit};

use super::reasoned::Reasoned;
use crate::record::flag_codes;
use crate::table::TableBuilder;

pub(super) const CONFIGURATION: &str = "What is compared.";
pub(super) const REQUEST_RATE: &str = "Requests per second; missing where `unlimited_rate` says that requests were sent as fast as the service takes them.";
pub(super) const UNLIMITED: &str =
    "Whether requests were sent as fast as the service takes them; this ranks above every rate.";

/// Hash of the spec, and what is compared.
pub(super) fn identity<'rows, R>(
    table: TableBuilder<'rows, R>,
    spec_hash: impl Fn(&'rows R) -> &'rows Option<String>,
    configuration: impl Fn(&'rows R) -> &'rows Option<String>,
) -> TableBuilder<'rows, R> {
    table
        .text("spec_hash", "SHA-256 of the canonical spec; missing without one.", move |row| {
            spec_hash(row).as_deref()
        })
        .text("configuration", CONFIGURATION, move |row| configuration(row).as_deref())
}

/// Model and hardware.
pub(super) fn subject<'rows, R>(
    table: TableBuilder<'rows, R>,
    model: impl Fn(&'rows R) -> &'rows str,
    hardware: impl Fn(&'rows R) -> &'rows str,
) -> TableBuilder<'rows, R> {
    table.text("model", "Name of the model.", move |row| Some(model(row))).text(
        "hardware",
        "Accelerators and how many of them.",
        move |row| Some(hardware(row)),
    )
}

/// The limits of the objective.
pub(super) fn limits<'rows, R>(
    table: TableBuilder<'rows, R>,
    objective: impl Fn(&'rows R) -> Option<Objective> + Copy,
) -> TableBuilder<'rows, R> {
    table
        .number(
            "slo_ttft_p99_ms",
            Unit::Millisecond,
            "Highest p99 time to first token that the spec allows.",
            move |row| objective(row).map(|objective| objective.ttft_p99_ms),
        )
        .number(
            "slo_tpot_p99_ms",
            Unit::Millisecond,
            "Highest p99 time per output token that the spec allows.",
            move |row| objective(row).map(|objective| objective.tpot_p99_ms),
        )
}

/// What stands beside memory bandwidth utilisation.
pub(super) fn beside_mbu<'rows, R>(
    table: Reasoned<'rows, R>,
    memory: impl Fn(&'rows R) -> &'rows MemorySummary + Copy,
) -> Reasoned<'rows, R> {
    table
        .number(
            "engine_mbu",
            Unit::Ratio,
            "The engine's own estimate of memory bandwidth utilisation, median over runs.",
            move |row| memory(row).engine_mbu,
        )
        .number(
            "steps_per_s",
            Unit::StepPerSecond,
            "Decode iterations per second of all replicas in the window, median over runs.",
            move |row| memory(row).steps_per_s,
        )
        .number(
            "mean_batch",
            Unit::Count,
            "Mean sequences in an iteration of the window, median over runs.",
            move |row| memory(row).mean_batch,
        )
        .number(
            "mean_history_tokens",
            Unit::Token,
            "Mean context length of a sequence in the window, median over runs.",
            move |row| memory(row).mean_history_tokens,
        )
        .number(
            "max_sequence_tokens",
            Unit::Token,
            "Longest sequence in the window, median over runs.",
            move |row| memory(row).max_sequence_tokens,
        )
        .plain(|table| {
            table.number(
                "active_experts",
                Unit::Count,
                "Mean distinct routed experts of a layer and iteration, median over runs; missing for a dense model.",
                move |row| memory(row).active_experts,
            )
        })
        .number(
            "rated_bandwidth_gb_s",
            Unit::GigabytePerSecond,
            "Rated memory bandwidth of all accelerators together.",
            move |row| memory(row).rated_gb_s,
        )
}

/// The `flags` column.
pub(super) fn flags<'rows, R>(
    table: TableBuilder<'rows, R>,
    of: impl Fn(&'rows R) -> FlagSet,
) -> TableBuilder<'rows, R> {
    table.text_list("flags", "What a reader must know beside the values.", move |row| {
        Some(flag_codes(of(row)))
    })
}
