//! Splitwise: `perf_model.csv`, one measured batch a row. There are no samples, so every row becomes a
//! `summary` run with claims.
//!
//! Times are in milliseconds. Power is a share of the rated power of the boards, which the file does not
//! state, so it stays a share; 0 stands for not measured.

use wattrace_schema::{RunKind, Unit};

use super::claim_rows::{self, Totals, TotalsRow};
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "splitwise",
    title: "Splitwise: perf_model.csv",
    recovers: "claimed times of prompt, token and whole batch; mean and peak share of rated power",
    lacks: "raw rows: nothing can be recomputed; watts and joules; the engine",
    reader: Reader::Parts { detect, read },
};

const TOTALS: Totals = Totals {
    table: "Splitwise's perf_model.csv",
    columns: &["prompt_size", "batch_size", "token_size", "prompt_time", "token_time", "e2e_time"],
    stated: "a time",
    part,
};

fn detect(head: &Head) -> Option<String> {
    claim_rows::detect(head, TOTALS.columns, "Splitwise")
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    TOTALS.read(input, options, sink)
}

/// Column, our name, our unit.
const CLAIMS: [(&str, &str, Unit); 5] = [
    ("prompt_time", "ttft_mean_ms", Unit::Millisecond),
    ("token_time", "tpot_mean_ms", Unit::Millisecond),
    ("e2e_time", "e2e_mean_ms", Unit::Millisecond),
    ("average_power", "formal_power_share_of_rated", Unit::Ratio),
    ("peak_power", "peak_power_share_of_rated", Unit::Ratio),
];

fn part(row: &TotalsRow) -> Result<Part, String> {
    row.require_cells(None)?;
    let mut part = Part { kind: Some(RunKind::Summary), ..Part::default() };
    for (column, metric, unit) in CLAIMS {
        if let Some(value) = row.number(column)?.filter(|value| *value > 0.0) {
            part.claims.push(row.claim_in(metric, value, unit, column));
        }
    }
    if !part.claims.iter().any(|claim| claim.metric.ends_with("_ms")) {
        return Err("states no time; expected prompt_time, token_time or e2e_time in ms".into());
    }
    part.accelerator = row.text("hardware").map(str::to_owned);
    part.model.name = row.text("model").unwrap_or_default().to_owned();
    let cards = row.count("tensor_parallel")?;
    part.accelerators = Some(cards);
    part.engine.tensor_parallel = Some(cards);
    part.notes.push(format!(
        "one batch of {} requests, {} prompt and {} output tokens each; power is a share of rated power, which \
         the file does not state",
        row.count("batch_size")?,
        row.count("prompt_size")?,
        row.count("token_size")?,
    ));
    Ok(part)
}

#[cfg(test)]
pub(super) mod tests;
