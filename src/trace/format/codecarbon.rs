//! CodeCarbon: `emissions.csv`, the totals of one tracker a row. There are no samples, so every row
//! becomes a `summary` run with claims.
//!
//! Energies are in kilowatt-hours. Part of them may be a model rather than a measurement (a processor's
//! rated power times a share, memory by its size); the file does not say which.

use wattrace_schema::{RunKind, Unit};

use super::claim_rows::{self, Totals, TotalsRow};
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink, quantity};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "codecarbon",
    title: "CodeCarbon: emissions.csv",
    recovers: "claimed energies, mean powers, duration and emissions of each tracker",
    lacks: "raw rows: nothing can be recomputed; whether a value was measured or modelled; model, tokens",
    reader: Reader::Parts { detect, read },
};

const TOTALS: Totals = Totals {
    table: "CodeCarbon's emissions.csv",
    columns: &["timestamp", "duration", "emissions", "energy_consumed"],
    stated: "an energy",
    part,
};

fn detect(head: &Head) -> Option<String> {
    claim_rows::detect(head, TOTALS.columns, "CodeCarbon")
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    TOTALS.read(input, options, sink)
}

/// Column, unit there, our name, our unit.
const CLAIMS: &[(&str, &str, &str, Unit)] = &[
    ("energy_consumed", "kWh", "energy_consumed_j", Unit::Joule),
    ("gpu_energy", "kWh", "gpu_energy_j", Unit::Joule),
    ("cpu_energy", "kWh", "cpu_energy_j", Unit::Joule),
    ("ram_energy", "kWh", "ram_energy_j", Unit::Joule),
    ("gpu_power", "W", "gpu_power_w", Unit::Watt),
    ("cpu_power", "W", "cpu_power_w", Unit::Watt),
    ("ram_power", "W", "ram_power_w", Unit::Watt),
    ("duration", "s", "duration_s", Unit::Second),
];

fn part(row: &TotalsRow) -> Result<Part, String> {
    row.require_cells(None)?;
    let mut part = Part { kind: Some(RunKind::Summary), ..Part::default() };
    for (column, unit, metric, our_unit) in CLAIMS {
        let Some(value) = row.number(column)? else { continue };
        // A board or processor that used nothing was not tracked.
        if value == 0.0 {
            part.notes.push(format!("{column} is 0, which stands for not tracked: not claimed"));
            continue;
        }
        let value = match *our_unit {
            Unit::Joule => quantity::energy_j(value, unit)?,
            Unit::Watt => quantity::power_w(value, unit)?,
            _ => value,
        };
        part.claims.push(row.claim_in(metric, value, *our_unit, column));
    }
    if let Some(value) = row.number("emissions")?.filter(|value| *value > 0.0) {
        part.claims.push(row.claim("emissions_kg", value, "kg", "emissions"));
    }
    if !part.claims.iter().any(|claim| claim.metric.ends_with("_j")) {
        return Err("states no energy; expected energy_consumed in kWh".into());
    }
    describe(row, &mut part)?;
    Ok(part)
}

fn describe(row: &TotalsRow, part: &mut Part) -> Result<(), String> {
    let gpu = row.text("gpu_model");
    part.accelerator = gpu.or_else(|| row.text("cpu_model")).map(str::to_owned);
    let count = row.number(if gpu.is_some() { "gpu_count" } else { "cpu_count" })?;
    part.accelerators = count.filter(|count| (1.0..=1e6).contains(count)).map(|count| count as u32);
    part.configuration = row.text("project_name").map(str::to_owned);
    let said = |column: &str| row.text(column).map(|text| format!("{column} {text}"));
    let facts: Vec<String> = ["timestamp", "run_id", "tracking_mode", "codecarbon_version"]
        .into_iter()
        .filter_map(said)
        .collect();
    part.notes.push(format!(
        "totals of one tracker ({}); energies may be modelled, the file does not say which",
        facts.join(", ")
    ));
    if let Some(pue) = row.number("pue")?.filter(|pue| *pue != 1.0) {
        part.notes.push(format!(
            "pue is {pue}: energy_consumed may hold that factor of the building, the parts do not"
        ));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
