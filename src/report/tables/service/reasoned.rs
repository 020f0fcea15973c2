//! Columns whose missing values each have a reason.

use std::collections::BTreeMap;

use wattrace_schema::{Reason, Unit};

use crate::table::{ResultTable, TableBuilder};

/// A table whose missing values are explained in its column `reasons`.
pub(super) struct Reasoned<'rows, R> {
    rows: &'rows [R],
    table: TableBuilder<'rows, R>,
    /// One entry a row: column and code of the reason.
    reasons: Vec<BTreeMap<&'static str, &'static str>>,
}

impl<'rows, R> Reasoned<'rows, R> {
    pub(super) fn of(name: &str, row: &str, rows: &'rows [R]) -> Self {
        let reasons = vec![BTreeMap::new(); rows.len()];
        Self { rows, table: ResultTable::of(name, row, rows), reasons }
    }

    /// Adds columns whose missing values say nothing.
    pub(super) fn plain(
        mut self,
        add: impl FnOnce(TableBuilder<'rows, R>) -> TableBuilder<'rows, R>,
    ) -> Self {
        self.table = add(self.table);
        self
    }

    fn note<T>(&mut self, column: &'static str, value: impl Fn(&'rows R) -> Result<T, Reason>) {
        for (row, reasons) in self.rows.iter().zip(&mut self.reasons) {
            if let Err(reason) = value(row) {
                reasons.insert(column, reason.code());
            }
        }
    }

    /// Adds a column of numbers.
    pub(super) fn number(
        mut self,
        name: &'static str,
        unit: Unit,
        meaning: &str,
        value: impl Fn(&'rows R) -> Result<f64, Reason>,
    ) -> Self {
        self.note(name, &value);
        self.plain(|table| table.number(name, unit, meaning, |row| value(row).ok()))
    }

    /// Adds a column of counts.
    pub(super) fn count(
        mut self,
        name: &'static str,
        unit: Unit,
        meaning: &str,
        value: impl Fn(&'rows R) -> Result<u64, Reason>,
    ) -> Self {
        self.note(name, &value);
        self.plain(|table| table.count(name, unit, meaning, |row| value(row).ok()))
    }

    /// Adds a column of yes and no.
    pub(super) fn boolean(
        mut self,
        name: &'static str,
        meaning: &str,
        value: impl Fn(&'rows R) -> Result<bool, Reason>,
    ) -> Self {
        self.note(name, &value);
        self.plain(|table| table.boolean(name, meaning, |row| value(row).ok()))
    }

    /// Adds the column of reasons and finishes the table.
    pub(super) fn build(self) -> ResultTable {
        let texts = self.reasons.iter().map(|reasons| serde_json::json!(reasons).to_string());
        self.table
            .prepared_text(
                "reasons",
                "JSON object: name of each column that is missing, and the code of the reason.",
                texts.collect(),
            )
            .build()
    }
}
