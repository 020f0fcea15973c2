//! Rows of a delimited table, of lines of JSON, or of a Parquet file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use serde_json::Value;

use super::super::delimited::{Dialect, Header, Rows};
use super::super::{Bytes, Input, Lines};
use super::cell::Cell;
use crate::TraceError;

/// One row: its cells by column, or what is wrong with it.
pub(super) struct Numbered {
    /// Line of the file, or number of the row of a Parquet file, from 1.
    pub(super) line: u64,
    pub(super) cells: Result<MapRow, String>,
}

/// Cells by the name of their column.
pub(super) struct MapRow(BTreeMap<String, Cell>);

impl MapRow {
    pub(super) fn get(&self, column: &str) -> Option<&Cell> {
        self.0.get(column)
    }
}

/// The rows of an input.
pub(super) struct MapRows {
    input: Input,
    kind: Kind,
}

enum Kind {
    Delimited { rows: Rows, header: Header },
    JsonLines { lines: Lines<Bytes>, columns: Vec<String> },
    Parquet { rows: RowIter<'static>, names: Vec<String>, count: u64 },
}

impl MapRows {
    pub(super) fn open(
        input: &Input,
        separator: Option<char>,
        skip_lines: u64,
    ) -> Result<Self, TraceError> {
        let head = input.head();
        let kind = if head.bytes().starts_with(b"PAR1") {
            open_parquet(input.path())?
        } else if head.is_json() && skip_lines == 0 {
            Kind::JsonLines { lines: input.lines()?, columns: Vec::new() }
        } else {
            let mut dialect = Dialect::of_header(
                head.text().lines().nth(skip_lines.try_into().unwrap_or(usize::MAX)).unwrap_or(""),
            );
            if let Some(separator) = separator {
                dialect.separator = u8::try_from(separator).map_err(|_| {
                    TraceError::Other(format!("separator \"{separator}\" is not of one byte"))
                })?;
            }
            let mut rows = Rows::open(input, dialect)?;
            let header = loop {
                match rows.next_row()? {
                    Some(row) if row.line > skip_lines => break Header::new(&row),
                    Some(_) => {}
                    None => return Err(input.error(None, "holds no header line")),
                }
            };
            Kind::Delimited { rows, header }
        };
        Ok(Self { input: input.clone(), kind })
    }

    /// Checks that every column is there; the first line of JSON decides nothing, since keys may be
    /// absent.
    pub(super) fn require_columns<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), TraceError> {
        for name in names {
            match &mut self.kind {
                Kind::Delimited { header, .. } => {
                    header.require(name).map_err(|message| self.input.error(None, message))?;
                }
                Kind::Parquet { names, .. } => {
                    if !names.iter().any(|known| known == name) {
                        let message = format!(
                            "has no column \"{name}\"; its columns are {}",
                            names.join(", ")
                        );
                        return Err(self.input.error(None, message));
                    }
                }
                Kind::JsonLines { columns, .. } => columns.push(name.to_owned()),
            }
        }
        Ok(())
    }

    pub(super) fn next_row(&mut self) -> Result<Option<Numbered>, TraceError> {
        match &mut self.kind {
            Kind::Delimited { rows, header } => {
                while let Some(row) = rows.next_row()? {
                    if header.repeats(&row) {
                        continue;
                    }
                    let cells = if row.cells.len() == header.names().len() {
                        let cells = header.names().iter().cloned().zip(row.cells);
                        Ok(MapRow(cells.map(|(name, cell)| (name, Cell::Text(cell))).collect()))
                    } else {
                        Err(format!(
                            "has {} cells; expected {}, as the header",
                            row.cells.len(),
                            header.names().len()
                        ))
                    };
                    return Ok(Some(Numbered { line: row.line, cells }));
                }
                Ok(None)
            }
            Kind::JsonLines { lines, columns } => {
                while let Some(line) = lines.next_line()? {
                    let text = match line.text {
                        Ok(text) if text.trim().is_empty() => continue,
                        text => text,
                    };
                    let cells = text.map_err(str::to_owned).and_then(|text| {
                        let value: Value = serde_json::from_str(text)
                            .map_err(|error| format!("is not a line of JSON: {error}"))?;
                        let cells = columns.iter().filter_map(|column| {
                            Some((column.clone(), Cell::of_json(at_path(&value, column)?)))
                        });
                        Ok(MapRow(cells.collect()))
                    });
                    return Ok(Some(Numbered { line: line.number, cells }));
                }
                Ok(None)
            }
            Kind::Parquet { rows, count, .. } => {
                let Some(row) = rows.next() else { return Ok(None) };
                *count += 1;
                let row = row.map_err(|error| parquet_error(self.input.path(), &error))?;
                let cells = row
                    .get_column_iter()
                    .map(|(name, field)| (name.clone(), Cell::of_parquet(field)))
                    .collect();
                Ok(Some(Numbered { line: *count, cells: Ok(MapRow(cells)) }))
            }
        }
    }
}

/// The value at a path such as `metrics.latency`, or under a key that holds the dots itself.
fn at_path<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if let Some(found) = value.get(path) {
        return Some(found);
    }
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn open_parquet(path: &Path) -> Result<Kind, TraceError> {
    let file = File::open(path).map_err(TraceError::io("read", path))?;
    let reader = SerializedFileReader::new(file).map_err(|error| parquet_error(path, &error))?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let names =
        schema.root_schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
    Ok(Kind::Parquet { rows: RowIter::from_file_into(Box::new(reader)), names, count: 0 })
}

fn parquet_error(path: &Path, error: &parquet::errors::ParquetError) -> TraceError {
    TraceError::Parquet { path: path.to_owned(), message: error.to_string() }
}
