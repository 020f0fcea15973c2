//! Tables of totals: every row becomes a `summary` run with claims.

use wattrace_schema::{Claim, Unit};

use super::delimited::{Dialect, Header, Row, Rows};
use super::{ImportOptions, Input, Part, Sink, quantity};
use crate::TraceError;

/// What one kind of table looks like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    /// What the file is, such as `"CodeCarbon's emissions.csv"`.
    pub(super) table: &'static str,
    /// Columns that it must have.
    pub(super) columns: &'static [&'static str],
    /// What a row must state, such as `"energy"`.
    pub(super) stated: &'static str,
    /// Reads a row. The error says what is wrong with it.
    pub(super) part: fn(&TotalsRow) -> Result<Part, String>,
}

impl Totals {
    /// Reads `input`. Rows that cannot be read are left out and counted.
    ///
    /// # Errors
    /// Another header, a row that cannot be read where that is an error, or no row that can.
    pub(super) fn read(
        &self,
        input: &Input,
        options: &ImportOptions,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let mut rows = Rows::open(input, Dialect::COMMA)?;
        let Some(first) = rows.next_row()? else {
            let message = format!("is empty; expected the header of {}", self.table);
            return Err(input.error(None, message));
        };
        let header = Header::new(&first);
        for column in self.columns {
            header.require(column).map_err(|message| input.error(Some(first.line), message))?;
        }
        let file = input.file_name();
        let mut is_empty = true;
        // What was left out before a part is told with it.
        let mut unread = Part::default();
        while let Some(row) = rows.next_row()? {
            if header.repeats(&row) {
                continue;
            }
            match (self.part)(&TotalsRow { file: &file, header: &header, row: &row }) {
                Ok(mut part) => {
                    part.skipped = std::mem::take(&mut unread.skipped);
                    is_empty = false;
                    sink.begin(&input.stem())?;
                    sink.end(part)?;
                }
                Err(message) => {
                    unread.skipped.add(options.strict, input.path(), row.line, "rows", message)?;
                }
            }
        }
        if is_empty {
            let mut message = format!("holds no row with {}", self.stated);
            for note in unread.skipped.notes(input.path()) {
                message += &format!("; {note}");
            }
            return Err(input.error(None, message));
        }
        Ok(())
    }
}

/// A row of such a table.
#[derive(Debug)]
pub(super) struct TotalsRow<'a> {
    file: &'a str,
    header: &'a Header,
    row: &'a Row,
}

impl TotalsRow<'_> {
    /// Refuses a row that was cut off: fewer cells than the header, or than `least`.
    ///
    /// # Errors
    /// It is too short.
    pub(super) fn require_cells(&self, least: Option<usize>) -> Result<(), String> {
        let (cells, all) = (self.row.cells.len(), self.header.names().len());
        if cells < least.unwrap_or(all) {
            return Err(format!("has {cells} cells of {all}; expected a whole row"));
        }
        Ok(())
    }

    /// The text in a column; `None` if it is absent.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let cell = self.row.get(self.header.find(column)?)?;
        (!quantity::is_absent(cell)).then_some(cell)
    }

    /// The number of 0 or more in a column; `None` if it is absent.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn number(&self, column: &str) -> Result<Option<f64>, String> {
        let Some(cell) = self.text(column) else { return Ok(None) };
        match cell.parse::<f64>().ok().filter(|number| number.is_finite()) {
            Some(number) if number < 0.0 => {
                Err(format!("{column} is {number}; expected a number of 0 or more"))
            }
            Some(number) => Ok(Some(number)),
            None => Err(format!("{column} is \"{}\"; expected a number", cell.escape_debug())),
        }
    }

    /// The whole number of 1 or more in a column.
    ///
    /// # Errors
    /// It is absent or something else.
    pub(super) fn count(&self, column: &str) -> Result<u32, String> {
        let expected = "expected a whole number of 1 or more";
        let Some(cell) = self.text(column) else {
            return Err(format!("has no {column}; {expected}"));
        };
        match cell.parse::<u32>() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(format!("{column} is \"{}\"; {expected}", cell.escape_debug())),
        }
    }

    /// The claim that the value of a column makes, with where it stands.
    pub(super) fn claim(&self, metric: &str, value: f64, unit: &str, column: &str) -> Claim {
        Claim {
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
            source: format!("{} line {} {column}", self.file, self.row.line),
        }
    }

    /// As [`TotalsRow::claim`], for a unit of ours.
    pub(super) fn claim_in(&self, metric: &str, value: f64, unit: Unit, column: &str) -> Claim {
        self.claim(metric, value, unit.symbol(), column)
    }
}

/// Whether the first line of a file names all those columns; the text says so.
pub(super) fn detect(head: &super::Head, columns: &[&str], tool: &str) -> Option<String> {
    let line = head.lines().next()?;
    let names: Vec<&str> = line.split(',').map(|name| name.trim().trim_matches('"')).collect();
    columns.iter().all(|column| names.contains(column)).then(|| {
        format!("\"{}\" has the columns {} of {tool}", head.path().display(), columns.join(", "))
    })
}
