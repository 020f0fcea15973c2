//! Cells of a table as people read them, each missing one with its reason.

use std::collections::BTreeMap;

use wattrace_schema::{Flag, Reason, TimestampNs};

use crate::results::StoredTable;
use crate::table::ColumnValues;
use crate::text::{Entry, significant};

/// A table that was read back, row by row.
#[derive(Debug)]
pub(crate) struct TableView<'table> {
    table: &'table StoredTable,
    /// Reasons of each row by column.
    reasons: Vec<BTreeMap<String, Reason>>,
}

impl<'table> TableView<'table> {
    pub(crate) fn of(table: &'table StoredTable) -> Self {
        let reasons = match table.text("reasons") {
            Ok(texts) => texts.iter().map(|text| parse_reasons(text.as_deref())).collect(),
            Err(_) => vec![BTreeMap::new(); table.rows],
        };
        Self { table, reasons }
    }

    pub(crate) const fn rows(&self) -> usize {
        self.table.rows
    }

    /// The text in a cell.
    pub(crate) fn text(&self, row: usize, column: &str) -> Option<&'table str> {
        self.table.text(column).ok()?.get(row)?.as_deref()
    }

    /// The number in a cell.
    pub(crate) fn number(&self, row: usize, column: &str) -> Option<f64> {
        match self.table.column(column).ok()? {
            ColumnValues::F64(values) => *values.get(row)?,
            ColumnValues::U64(values) => values.get(row)?.map(|count| count as f64),
            _ => None,
        }
    }

    /// The yes or no in a cell.
    pub(crate) fn yes(&self, row: usize, column: &str) -> Option<bool> {
        match self.table.column(column).ok()? {
            ColumnValues::Bool(values) => *values.get(row)?,
            _ => None,
        }
    }

    /// The list in a cell.
    pub(crate) fn list(&self, row: usize, column: &str) -> &'table [String] {
        match self.table.column(column) {
            Ok(ColumnValues::TextList(values)) => {
                values.get(row).and_then(Option::as_deref).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Why a cell is empty, where the table says.
    pub(crate) fn reason(&self, row: usize, column: &str) -> Option<Reason> {
        self.reasons.get(row)?.get(column).copied()
    }

    /// A cell with `digits` significant digits.
    pub(crate) fn entry(&self, row: usize, column: &str, digits: usize) -> Entry {
        let Ok(values) = self.table.column(column) else { return Entry::Blank };
        let shown = match values {
            ColumnValues::Text(values) => values[row].clone(),
            ColumnValues::F64(values) => values[row].map(|value| significant(value, digits)),
            ColumnValues::U64(values) => values[row].map(|count| count.to_string()),
            ColumnValues::Bool(values) => {
                values[row].map(|yes| if yes { "yes" } else { "no" }.to_owned())
            }
            ColumnValues::Time(values) => {
                values[row].map(|t_ns| TimestampNs::from_nanos(t_ns).to_string())
            }
            ColumnValues::TextList(values) => {
                values[row].as_ref().filter(|list| !list.is_empty()).map(|list| list.join(", "))
            }
        };
        match (shown, self.reason(row, column)) {
            (Some(text), _) => Entry::Text(text),
            (None, Some(reason)) => Entry::Missing(reason),
            (None, None) => Entry::Blank,
        }
    }

    /// A request rate; the unlimited one has a word of its own.
    pub(crate) fn rate(&self, row: usize) -> Entry {
        if self.yes(row, "unlimited_rate") == Some(true) {
            return Entry::Text("unlimited".to_owned());
        }
        match self.number(row, "request_rate") {
            Some(rate) => Entry::Text(rate.to_string()),
            None => Entry::Blank,
        }
    }

    /// A list in a few words: one of many numbers by its ends and length.
    pub(crate) fn brief_list(&self, row: usize, column: &str) -> Entry {
        const SHOWN: usize = 10;
        let list = self.list(row, column);
        let numbers: Vec<f64> = list.iter().filter_map(|text| text.parse().ok()).collect();
        let low = numbers.iter().copied().min_by(f64::total_cmp);
        let high = numbers.iter().copied().max_by(f64::total_cmp);
        match low.zip(high) {
            _ if list.is_empty() => Entry::Blank,
            Some((low, high)) if list.len() > SHOWN && numbers.len() == list.len() => {
                Entry::Text(format!("{} values, {low} to {high}", list.len()))
            }
            _ => Entry::Text(list.join(", ")),
        }
    }

    /// `low to high`, or why there is neither.
    pub(crate) fn range(&self, row: usize, low: &str, high: &str, digits: usize) -> Entry {
        match (self.entry(row, low, digits), self.entry(row, high, digits)) {
            (Entry::Text(low), Entry::Text(high)) => Entry::Text(format!("{low} to {high}")),
            (Entry::Text(_), missing) | (missing, _) => missing,
        }
    }

    /// Every flag of the table, in the order of their declaration.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let present: Vec<&str> =
            (0..self.rows()).flat_map(|row| self.list(row, "flags")).map(String::as_str).collect();
        Flag::ALL.iter().copied().filter(|flag| present.contains(&flag.code())).collect()
    }

    /// Every reason of the table, in the order of their declaration.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let mut reasons: Vec<_> =
            self.reasons.iter().flat_map(|of_row| of_row.values().copied()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }
}

fn parse_reasons(text: Option<&str>) -> BTreeMap<String, Reason> {
    let codes: BTreeMap<String, String> =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    codes
        .into_iter()
        .filter_map(|(column, code)| Some((column, Reason::from_code(&code)?)))
        .collect()
}
