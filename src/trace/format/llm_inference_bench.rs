//! LLM-Inference-Bench (Argonne): the tables behind its plots, one measured batch a row. There are no
//! samples, so every row becomes a `summary` run with claims.
//!
//! `avg_power` is in milliwatts, times are in seconds, and `Throughput` counts prompt and output tokens
//! together. Some rows lack their last cell.

use wattrace_schema::{Engine, RunKind, Unit};

use super::claim_rows::{self, Totals, TotalsRow};
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink, quantity};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "llm-inference-bench",
    title: "LLM-Inference-Bench: tables of its plots",
    recovers: "claimed mean power, duration and throughput of each batch, or time to first token",
    lacks: "raw rows: nothing can be recomputed; which boards avg_power adds up",
    reader: Reader::Parts { detect, read },
};

const TOTALS: Totals = Totals {
    table: "a table of LLM-Inference-Bench",
    columns: &["Hardware", "Num of Hardware", "Framework", "Model", "Batch Size"],
    stated: "a claim",
    part,
};

fn detect(head: &Head) -> Option<String> {
    claim_rows::detect(head, TOTALS.columns, "LLM-Inference-Bench")
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    TOTALS.read(input, options, sink)
}

/// Relative difference up to which a throughput is that of the row's tokens and latency.
const AGREES: f64 = 1e-3;

fn part(row: &TotalsRow) -> Result<Part, String> {
    // The last cell, a time or a power, is left out where it was not measured.
    row.require_cells(Some(8))?;
    let mut part = Part { kind: Some(RunKind::Summary), ..Part::default() };
    let batch = row.count("Batch Size")?;
    let (input_tokens, output_tokens) = match row.text("Input Output Length") {
        Some(_) => {
            let length = row.count("Input Output Length")?;
            (length, length)
        }
        None => (row.count("Input Length")?, row.count("Output Length")?),
    };
    let seconds = row.number("Latency")?;
    let throughput = row.number("Throughput")?;
    if let Some(milliwatts) = row.number("avg_power")?.filter(|power| *power > 0.0) {
        let power_w = quantity::power_w(milliwatts, "mW")?;
        part.claims.push(row.claim_in("formal_power_w", power_w, Unit::Watt, "avg_power"));
    }
    if let Some(seconds) = seconds.filter(|seconds| *seconds > 0.0) {
        part.claims.push(row.claim_in("duration_s", seconds, Unit::Second, "Latency"));
    }
    if let Some(throughput) = throughput.filter(|throughput| *throughput > 0.0) {
        let metric = "prompt_and_output_throughput_tok_s";
        part.claims.push(row.claim_in(metric, throughput, Unit::TokenPerSecond, "Throughput"));
        let tokens = f64::from(batch) * (f64::from(input_tokens) + f64::from(output_tokens));
        if let Some(expected) = seconds.map(|seconds| tokens / seconds)
            && (throughput / expected - 1.0).abs() > AGREES
        {
            part.notes.push(format!(
                "Throughput is {throughput}, but {tokens} prompt and output tokens in Latency are {expected:.6}"
            ));
        }
    }
    for (column, metric) in [("TTFT Latency", "ttft_mean_ms"), ("end_latency", "e2e_mean_ms")] {
        if let Some(seconds) = row.number(column)?.filter(|seconds| *seconds > 0.0) {
            part.claims.push(row.claim_in(metric, seconds * 1e3, Unit::Millisecond, column));
        }
    }
    if part.claims.is_empty() {
        return Err("states neither power nor times; expected avg_power in mW or seconds".into());
    }
    part.accelerator = row.text("Hardware").map(str::to_owned);
    part.accelerators = Some(row.count("Num of Hardware")?);
    part.engine = Engine { name: row.text("Framework").map(str::to_owned), ..Engine::default() };
    part.model.name = row.text("Model").unwrap_or_default().to_owned();
    part.notes.push(format!(
        "one batch of {batch} requests, {input_tokens} prompt and {output_tokens} output tokens each"
    ));
    Ok(part)
}

#[cfg(test)]
pub(super) mod tests;
