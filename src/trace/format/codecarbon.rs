//! CodeCarbon: `emissions.csv`, the totals of one tracker a row. There are no samples, so every row
//! becomes a `summary` run with claims.
//!
//! Energies are in kilowatt-hours. Part of them may be a model rather than a measurement (a processor's
//! rated power times a share, memory by its size); the file does not say which.

use wattrace_schema::{Claim, Engine, RunKind, Unit};

use super::delimited::{Dialect, Header, Row, Rows};
use super::{Format, Head, ImportOptions, Input, Part, Reader, Sink, quantity};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "codecarbon",
    title: "CodeCarbon: emissions.csv",
    recovers: "claimed energies, mean powers, duration and emissions of each tracker",
    lacks: "raw rows: nothing can be recomputed; whether a value was measured or modelled; model, tokens",
    reader: Reader::Parts { detect, read },
};

const COLUMNS: [&str; 4] = ["timestamp", "duration", "emissions", "energy_consumed"];

fn detect(head: &Head) -> Option<String> {
    let line = head.lines().next()?;
    let names: Vec<&str> = line.split(',').map(|name| name.trim().trim_matches('"')).collect();
    COLUMNS.iter().all(|column| names.contains(column)).then(|| {
        format!(
            "\"{}\" has the columns {} of CodeCarbon",
            head.path().display(),
            COLUMNS.join(", ")
        )
    })
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

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let mut rows = Rows::open(input, Dialect::COMMA)?;
    let Some(first) = rows.next_row()? else {
        return Err(
            input.error(None, "is empty; expected the header of CodeCarbon's emissions.csv")
        );
    };
    let header = Header::new(&first);
    for column in COLUMNS {
        header.require(column).map_err(|message| input.error(Some(first.line), message))?;
    }
    let mut table = Table { input, header, parts: 0, unread: Part::default() };
    while let Some(row) = rows.next_row()? {
        if table.header.repeats(&row) {
            continue;
        }
        match table.part(&row) {
            Ok(mut part) => {
                // What was left out before the first part is told with it.
                part.skipped = std::mem::take(&mut table.unread.skipped);
                table.parts += 1;
                sink.begin(&input.stem())?;
                sink.end(part)?;
            }
            Err(message) => {
                let (strict, path) = (options.strict, input.path());
                table.unread.skipped.add(strict, path, row.line, "rows", message)?;
            }
        }
    }
    if table.parts == 0 {
        let mut message = "holds no row with an energy".to_owned();
        for note in table.unread.skipped.notes(input.path()) {
            message += &format!("; {note}");
        }
        return Err(input.error(None, message));
    }
    Ok(())
}

struct Table<'a> {
    input: &'a Input,
    header: Header,
    parts: u64,
    /// Rows left out since the last part.
    unread: Part,
}

impl Table<'_> {
    fn text<'r>(&self, row: &'r Row, column: &str) -> Option<&'r str> {
        let cell = row.get(self.header.find(column)?)?;
        (!quantity::is_absent(cell)).then_some(cell)
    }

    /// The number in a column; null if it is absent.
    fn number(&self, row: &Row, column: &str) -> Result<Option<f64>, String> {
        let Some(cell) = self.text(row, column) else { return Ok(None) };
        match cell.parse::<f64>().ok().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{column} is \"{}\"; expected a number", cell.escape_debug())),
        }
    }

    fn part(&self, row: &Row) -> Result<Part, String> {
        if row.cells.len() < self.header.names().len() {
            return Err(format!(
                "has {} cells of {}; expected a whole row",
                row.cells.len(),
                self.header.names().len()
            ));
        }
        let mut part = Part { kind: Some(RunKind::Summary), ..Part::default() };
        let file = self.input.file_name();
        for (column, unit, metric, our_unit) in CLAIMS {
            let Some(value) = self.number(row, column)? else { continue };
            if value < 0.0 {
                return Err(format!("{column} is {value}; expected a number of 0 or more"));
            }
            // A board or processor that used nothing was not tracked.
            if value == 0.0 {
                part.notes
                    .push(format!("{column} is 0, which stands for not tracked: not claimed"));
                continue;
            }
            let value = match *our_unit {
                Unit::Joule => quantity::energy_j(value, unit)?,
                Unit::Watt => quantity::power_w(value, unit)?,
                _ => value,
            };
            part.claims.push(Claim {
                metric: (*metric).into(),
                value,
                unit: our_unit.symbol().into(),
                source: format!("{file} line {} {column}", row.line),
            });
        }
        if let Some(value) = self.number(row, "emissions")?.filter(|value| *value > 0.0) {
            part.claims.push(Claim {
                metric: "emissions_kg".into(),
                value,
                unit: "kg".into(),
                source: format!("{file} line {} emissions", row.line),
            });
        }
        if !part.claims.iter().any(|claim| claim.metric.ends_with("_j")) {
            return Err("states no energy; expected energy_consumed in kWh".into());
        }
        self.describe(row, &mut part)?;
        Ok(part)
    }

    fn describe(&self, row: &Row, part: &mut Part) -> Result<(), String> {
        let gpu = self.text(row, "gpu_model");
        part.accelerator = gpu.or_else(|| self.text(row, "cpu_model")).map(str::to_owned);
        let count = self.number(row, if gpu.is_some() { "gpu_count" } else { "cpu_count" })?;
        part.accelerators =
            count.filter(|count| (1.0..=1e6).contains(count)).map(|count| count as u32);
        part.configuration = self.text(row, "project_name").map(str::to_owned);
        part.engine = Engine::default();
        let said = |column: &str| self.text(row, column).map(|text| format!("{column} {text}"));
        let facts: Vec<String> = ["timestamp", "run_id", "tracking_mode", "codecarbon_version"]
            .into_iter()
            .filter_map(said)
            .collect();
        part.notes.push(format!(
            "totals of one tracker ({}); energies may be modelled, the file does not say which",
            facts.join(", ")
        ));
        if let Some(pue) = self.number(row, "pue")?.filter(|pue| *pue != 1.0) {
            part.notes.push(format!(
                "pue is {pue}: energy_consumed may hold that factor of the building, the parts do not"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
