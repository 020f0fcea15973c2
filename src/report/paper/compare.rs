//! Published values beside the recomputed ones, cell by cell.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::Made;
use super::number::PublishedNumber;
use super::published::{Published, PublishedError, PublishedTable, Record};
use super::table::{Cell, Content, PaperColumn, PaperTable};
use crate::text::{printable, significant};

/// What became of one published value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The recomputed value lies within the tolerance; a text is the same.
    Within,
    /// It does not.
    Off,
    /// There is no recomputed value.
    CannotBeHad,
    /// There is a recomputed value, and none was published.
    NotPublished,
}

impl Verdict {
    /// The word that is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Off => "off",
            Self::CannotBeHad => "cannot-be-had",
            Self::NotPublished => "not-published",
        }
    }
}

/// One published value beside the recomputed one.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedCell {
    /// The row keys.
    pub row: Vec<String>,
    /// Heading of the column.
    pub column: String,
    /// The value as published; `None` where nothing was.
    pub published: Option<String>,
    /// Its number.
    pub number: Option<PublishedNumber>,
    /// The recomputed value.
    pub recomputed: Content,
    /// Half a unit in the last printed place, and the tolerance that was asked for on top.
    pub tolerance: Option<f64>,
    /// What became of it.
    pub verdict: Verdict,
    /// Why there is no recomputed value, or what it leaves out.
    pub remark: Option<String>,
}

impl ComparedCell {
    /// Recomputed minus published.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        match (&self.recomputed, self.number) {
            (Content::Number { value, .. }, Some(published)) => Some(value - published.value),
            _ => None,
        }
    }

    /// The difference divided by the published value; `None` for a published zero.
    #[must_use]
    pub fn relative_difference(&self) -> Option<f64> {
        let relative = self.difference()? / self.number?.value;
        relative.is_finite().then_some(relative)
    }
}

/// The published values of one table beside the recomputed ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Name of the table.
    pub table: String,
    /// Its caption.
    pub caption: String,
    /// Headings of its row keys.
    pub row_keys: Vec<String>,
    /// Every cell of the columns that were published, row by row.
    pub cells: Vec<ComparedCell>,
    /// Headings of the columns of which nothing was published.
    pub left_out: Vec<String>,
}

/// How many cells there are of each verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Within the tolerance.
    pub within: usize,
    /// Outside.
    pub off: usize,
    /// Without a recomputed value.
    pub cannot_be_had: usize,
    /// Without a published value.
    pub not_published: usize,
}

impl Counts {
    /// Counts the cells of several tables.
    #[must_use]
    pub fn of(comparisons: &[Comparison]) -> Self {
        let mut counts = Self::default();
        for cell in comparisons.iter().flat_map(|comparison| &comparison.cells) {
            *match cell.verdict {
                Verdict::Within => &mut counts.within,
                Verdict::Off => &mut counts.off,
                Verdict::CannotBeHad => &mut counts.cannot_be_had,
                Verdict::NotPublished => &mut counts.not_published,
            } += 1;
        }
        counts
    }

    /// Published values, recomputed or not.
    #[must_use]
    pub const fn published(&self) -> usize {
        self.within + self.off + self.cannot_be_had
    }

    /// Whether every published value was recomputed and lies within its tolerance.
    #[must_use]
    pub const fn all_hold(&self) -> bool {
        self.off == 0 && self.cannot_be_had == 0
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "within": self.within,
            "off": self.off,
            "cannot_be_had": self.cannot_be_had,
            "not_published": self.not_published,
        })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let published = self.published();
        let plural = if published == 1 { "" } else { "s" };
        write!(
            formatter,
            "{published} published value{plural}: {} within tolerance, {} off, {} cannot be had; \
             {} recomputed and not published",
            self.within, self.off, self.cannot_be_had, self.not_published
        )
    }
}

/// A published value and where it stands.
struct PublishedCell<'a> {
    line: usize,
    row: Vec<String>,
    column: usize,
    text: &'a str,
}

/// Compares a table with what was published of it, cell by cell. `percent` of a published value is
/// tolerated on top of half a unit in its last place.
pub(super) fn compare(
    table: &PaperTable,
    published: &PublishedTable,
    file: &Published,
    percent: f64,
) -> Result<Comparison, PublishedError> {
    let reader = Reader { table, published, file };
    let (columns, published_cells) = reader.cells()?;
    let mut values: BTreeMap<(Option<usize>, Vec<String>, usize), PublishedCell<'_>> =
        BTreeMap::new();
    for cell in published_cells {
        let row = reader.row_of(&cell.row);
        // A row that was recomputed is known by its place, any other by its keys.
        let keys = if row.is_some() { Vec::new() } else { cell.row.clone() };
        let (line, heading) = (cell.line, &table.columns[cell.column].heading);
        if let Some(earlier) = values.get(&(row, keys.clone(), cell.column)) {
            let message = format!(
                "the row is published on line {} too; expected every row once",
                earlier.line
            );
            return Err(reader.fault(line, Some(heading), message));
        }
        values.insert((row, keys, cell.column), cell);
    }
    let mut cells = Vec::new();
    for row in 0..table.rows {
        for column in &columns {
            let cell = values.remove(&(Some(row), Vec::new(), *column));
            cells.push(reader.compared(table.row_key(row), *column, Some(row), cell, percent)?);
        }
    }
    // What is left was published for rows that the results do not have.
    for ((_, keys, column), cell) in values {
        cells.push(reader.compared(keys, column, None, Some(cell), percent)?);
    }
    cells.retain(|cell| cell.published.is_some() || cell.recomputed != Content::Missing);
    let heading = |index: usize| table.columns[index].heading.clone();
    let left_out = reader.value_columns().filter(|index| !columns.contains(index)).map(heading);
    Ok(Comparison {
        table: table.name.clone(),
        caption: table.caption.clone(),
        row_keys: reader.key_columns().map(heading).collect(),
        cells,
        left_out: left_out.collect(),
    })
}

/// The published values of a table that could not be made: none can be had.
pub(super) fn compare_with_nothing(
    made: &Made,
    published: &PublishedTable,
    why: &str,
) -> Comparison {
    let heading = &published.heading.fields;
    let is_key = |name: &String| made.row_keys.contains(name);
    let compared = |record: &Record, (name, text): (&String, &String)| ComparedCell {
        row: made
            .row_keys
            .iter()
            .filter_map(|key| heading.iter().position(|name| name == key))
            .map(|place| record.fields[place].clone())
            .collect(),
        column: name.clone(),
        published: Some(text.clone()),
        number: PublishedNumber::parse(text).ok(),
        recomputed: Content::Missing,
        tolerance: None,
        verdict: Verdict::CannotBeHad,
        remark: Some(why.to_owned()),
    };
    let cells = published.records.iter().flat_map(|record| {
        heading
            .iter()
            .zip(&record.fields)
            .filter(|(name, text)| !is_key(name) && !is_dash(text))
            .map(move |cell| compared(record, cell))
    });
    Comparison {
        table: made.name.clone(),
        caption: made.name.clone(),
        row_keys: made.row_keys.clone(),
        cells: cells.collect(),
        left_out: Vec::new(),
    }
}

/// Headings of the long form behind the row keys.
const LONG_FORM: [&str; 2] = ["column", "value"];

struct Reader<'a> {
    table: &'a PaperTable,
    published: &'a PublishedTable,
    file: &'a Published,
}

impl<'a> Reader<'a> {
    fn fault(
        &self,
        line: usize,
        column: Option<&str>,
        message: impl Into<String>,
    ) -> PublishedError {
        PublishedError {
            path: self.file.path.clone(),
            line,
            column: column.map(str::to_owned),
            message: message.into(),
        }
    }

    fn key_columns(&self) -> impl Iterator<Item = usize> {
        let columns = &self.table.columns;
        (0..columns.len()).filter(|index| columns[*index].is_key)
    }

    fn value_columns(&self) -> impl Iterator<Item = usize> {
        let columns = &self.table.columns;
        (0..columns.len()).filter(|index| !columns[*index].is_key)
    }

    /// The columns that the file has, in the table's order, and every published value.
    fn cells(&self) -> Result<(Vec<usize>, Vec<PublishedCell<'a>>), PublishedError> {
        let keys = self.key_places()?;
        let cells = match self.long_form(&keys) {
            Some(places) => self.long_cells(&keys, places)?,
            None => self.wide_cells(&keys)?,
        };
        let named = |column: &usize| cells.iter().any(|cell| cell.column == *column);
        Ok((self.value_columns().filter(named).collect(), cells))
    }

    /// Where column and value stand, if the file has a row a value.
    fn long_form(&self, keys: &[usize]) -> Option<(usize, usize)> {
        let fields = &self.published.heading.fields;
        let place = |name: &str| fields.iter().position(|field| field == name);
        let (column, value) = (place(LONG_FORM[0])?, place(LONG_FORM[1])?);
        (fields.len() == keys.len() + LONG_FORM.len()).then_some((column, value))
    }

    fn long_cells(
        &self,
        keys: &[usize],
        (column, value): (usize, usize),
    ) -> Result<Vec<PublishedCell<'a>>, PublishedError> {
        let cell = |record: &'a Record| {
            let column = self.value_column(&record.fields[column], record.line)?;
            let (line, row) = (record.line, row_keys(record, keys));
            Ok(PublishedCell { line, row, column, text: &record.fields[value] })
        };
        self.published.records.iter().map(cell).collect()
    }

    fn wide_cells(&self, keys: &[usize]) -> Result<Vec<PublishedCell<'a>>, PublishedError> {
        let heading = &self.published.heading;
        let mut columns: Vec<(usize, usize)> = Vec::new();
        for (place, name) in heading.fields.iter().enumerate() {
            if keys.contains(&place) {
                continue;
            }
            let column = self.value_column(name, heading.line)?;
            if columns.iter().any(|(_, known)| *known == column) {
                let message = "the heading comes twice; expected every heading once";
                return Err(self.fault(heading.line, Some(name), message));
            }
            columns.push((place, column));
        }
        let cells = self.published.records.iter().flat_map(|record| {
            columns.iter().map(|(place, column)| PublishedCell {
                line: record.line,
                row: row_keys(record, keys),
                column: *column,
                text: &record.fields[*place],
            })
        });
        Ok(cells.collect())
    }

    /// Where the row keys stand in the file, in the table's order.
    fn key_places(&self) -> Result<Vec<usize>, PublishedError> {
        let heading = &self.published.heading;
        self.key_columns()
            .map(|key| {
                let name = &self.table.columns[key].heading;
                heading.fields.iter().position(|field| field == name).ok_or_else(|| {
                    let message = format!(
                        "the row key \"{name}\" of table \"{}\" is missing; expected the headings {}",
                        self.table.name,
                        self.headings(0..self.table.columns.len())
                    );
                    self.fault(heading.line, None, message)
                })
            })
            .collect()
    }

    fn value_column(&self, name: &str, line: usize) -> Result<usize, PublishedError> {
        self.value_columns().find(|index| self.table.columns[*index].heading == name).ok_or_else(
            || {
                let message = format!(
                    "table \"{}\" has no column with this heading; expected one of {}",
                    self.table.name,
                    self.headings(self.value_columns())
                );
                self.fault(line, Some(name), message)
            },
        )
    }

    fn headings(&self, columns: impl Iterator<Item = usize>) -> String {
        let names: Vec<String> =
            columns.map(|index| format!("\"{}\"", self.table.columns[index].heading)).collect();
        names.join(", ")
    }

    /// The row of the table with these keys, as printed or else by their meaning.
    fn row_of(&self, keys: &[String]) -> Option<usize> {
        let find = |same: fn(&Content, &str) -> bool| {
            (0..self.table.rows).find(|row| {
                self.key_columns()
                    .zip(keys)
                    .all(|(column, key)| same(&self.table.columns[column].cells[*row].content, key))
            })
        };
        find(|found, published| found.printed() == published).or_else(|| find(same_key))
    }

    /// One cell, compared. `row` is its place in the table, if the results have such a row.
    fn compared(
        &self,
        keys: Vec<String>,
        column: usize,
        row: Option<usize>,
        published: Option<PublishedCell<'_>>,
        percent: f64,
    ) -> Result<ComparedCell, PublishedError> {
        let of = &self.table.columns[column];
        let (recomputed, remark) = match row {
            Some(row) => {
                let cell = &of.cells[row];
                (cell.content.clone(), cell.remark.clone())
            }
            None => (Content::Missing, Some("The recomputed table has no such row.".to_owned())),
        };
        let published = published.filter(|cell| !is_dash(cell.text));
        let number = match &published {
            Some(cell) if of.is_number => Some(self.number(cell, of)?),
            _ => None,
        };
        let verdict = match (&published, number, &recomputed) {
            (None, ..) => Verdict::NotPublished,
            (Some(_), _, Content::Missing) => Verdict::CannotBeHad,
            (Some(_), Some(number), Content::Number { value, .. }) => {
                within(number.agrees_within(*value, percent))
            }
            (Some(cell), _, other) => within(cell.text == other.printed()),
        };
        Ok(ComparedCell {
            row: keys,
            column: of.heading.clone(),
            published: published.map(|cell| cell.text.to_owned()),
            number,
            recomputed,
            tolerance: number.map(|number| number.tolerance(percent)),
            verdict,
            remark,
        })
    }

    fn number(
        &self,
        cell: &PublishedCell<'_>,
        column: &PaperColumn,
    ) -> Result<PublishedNumber, PublishedError> {
        let heading = &column.heading;
        let fault = |message: String| {
            self.fault(cell.line, Some(heading), format!("\"{}\" {message}", cell.text))
        };
        let number = PublishedNumber::parse(cell.text).map_err(|wrong| fault(wrong.to_string()))?;
        if number.percent && !heading.ends_with("(%)") {
            let message =
                "is a percentage, and the column has another unit; expected a number in it";
            return Err(fault(message.to_owned()));
        }
        Ok(number)
    }
}

const fn within(within: bool) -> Verdict {
    if within { Verdict::Within } else { Verdict::Off }
}

fn row_keys(record: &Record, places: &[usize]) -> Vec<String> {
    places.iter().map(|place| record.fields[*place].clone()).collect()
}

/// Whether nothing was published.
fn is_dash(text: &str) -> bool {
    matches!(text, "" | "-" | "--" | "–" | "—")
}

/// Whether a key means the same: numbers are compared as numbers, and one dash is as good as another.
fn same_key(found: &Content, published: &str) -> bool {
    match found {
        Content::Missing => is_dash(published),
        Content::Text(text) => text == published,
        Content::Number { value, printed } => {
            printed == published
                || PublishedNumber::parse(published).is_ok_and(|number| number.value == *value)
        }
    }
}

impl Comparison {
    /// A table with a row a cell.
    #[must_use]
    pub fn as_table(&self) -> PaperTable {
        let footnotes = match self.left_out.as_slice() {
            [] => Vec::new(),
            names => vec![format!("Columns of which nothing was published: {}.", names.join(", "))],
        };
        let keys = self.row_keys.iter().enumerate().map(|(index, heading)| PaperColumn {
            heading: heading.clone(),
            is_key: true,
            is_number: false,
            cells: self
                .cells
                .iter()
                .map(|cell| cell.row.get(index).map_or_else(Cell::missing, Cell::text))
                .collect(),
        });
        let columns = [
            self.column("column", false, |cell| Cell::text(cell.column.as_str())),
            self.column("published", true, |cell| {
                cell.published
                    .as_ref()
                    .map_or_else(Cell::missing, |text| Cell::text(printable(text)))
            }),
            self.column("recomputed", true, |cell| Cell {
                content: recomputed_as_printed(cell),
                remark: cell.remark.clone(),
            }),
            self.column("difference", true, |cell| number(cell.difference())),
            self.column("relative (%)", true, |cell| {
                number(cell.relative_difference().map(|relative| relative * 100.0))
            }),
            self.column("tolerance", true, |cell| number(cell.tolerance)),
            self.column("verdict", false, |cell| Cell::text(cell.verdict.name())),
        ];
        PaperTable {
            name: self.table.clone(),
            caption: format!("Published against recomputed: {}", self.caption),
            columns: keys.chain(columns).collect(),
            rows: self.cells.len(),
            footnotes,
        }
    }

    fn column(
        &self,
        heading: &str,
        is_number: bool,
        cell: impl Fn(&ComparedCell) -> Cell,
    ) -> PaperColumn {
        let cells = self.cells.iter().map(cell).collect();
        PaperColumn { heading: heading.to_owned(), is_key: false, is_number, cells }
    }

    /// The comparison with every number in full.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|cell| {
                let row: serde_json::Map<String, Value> = self
                    .row_keys
                    .iter()
                    .zip(&cell.row)
                    .map(|(heading, key)| (heading.clone(), json!(key)))
                    .collect();
                json!({
                    "row": row,
                    "column": cell.column,
                    "published": cell.published,
                    "recomputed": match &cell.recomputed {
                        Content::Number { value, .. } => json!(value),
                        Content::Text(text) => json!(text),
                        Content::Missing => Value::Null,
                    },
                    "difference": cell.difference(),
                    "relative_difference": cell.relative_difference(),
                    "tolerance": cell.tolerance,
                    "verdict": cell.verdict.name(),
                    "remark": cell.remark,
                })
            })
            .collect();
        json!({
            "table": self.table,
            "caption": self.caption,
            "cells": cells,
            "columns_not_published": self.left_out,
        })
    }
}

/// The recomputed value with two digits more than were published, so that a reader sees by how much it
/// rounds to them.
fn recomputed_as_printed(cell: &ComparedCell) -> Content {
    match (&cell.recomputed, cell.number) {
        (Content::Number { value, .. }, Some(published)) => {
            Content::Number { value: *value, printed: published.print_like(*value, 2) }
        }
        (recomputed, _) => recomputed.clone(),
    }
}

/// A number in three significant digits.
fn number(value: Option<f64>) -> Cell {
    value.map_or_else(Cell::missing, |value| Cell::number(value, significant(value, 3)))
}
