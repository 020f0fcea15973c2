//! One row of a table that was read back.

use crate::error::ReportError;
use crate::results::StoredTable;

/// One row; each value is asked for by the name of its column and its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredRow<'table> {
    table: &'table StoredTable,
    row: usize,
}

impl<'table> StoredRow<'table> {
    /// Row `row` of `table`, from 0; the caller has it from the table's own length.
    pub(crate) const fn new(table: &'table StoredTable, row: usize) -> Self {
        Self { table, row }
    }

    pub(crate) fn optional_text(self, column: &str) -> Result<Option<&'table str>, ReportError> {
        Ok(self.table.text(column)?[self.row].as_deref())
    }

    pub(crate) fn text(self, column: &str) -> Result<String, ReportError> {
        self.required(column, self.optional_text(column)?.map(str::to_owned))
    }

    pub(crate) fn optional_number(self, column: &str) -> Result<Option<f64>, ReportError> {
        Ok(self.table.numbers(column)?[self.row])
    }

    pub(crate) fn number(self, column: &str) -> Result<f64, ReportError> {
        self.required(column, self.optional_number(column)?)
    }

    pub(crate) fn optional_count(self, column: &str) -> Result<Option<u64>, ReportError> {
        Ok(self.table.counts(column)?[self.row])
    }

    pub(crate) fn count(self, column: &str) -> Result<u64, ReportError> {
        self.required(column, self.optional_count(column)?)
    }

    pub(crate) fn optional_boolean(self, column: &str) -> Result<Option<bool>, ReportError> {
        Ok(self.table.booleans(column)?[self.row])
    }

    pub(crate) fn boolean(self, column: &str) -> Result<bool, ReportError> {
        self.required(column, self.optional_boolean(column)?)
    }

    pub(crate) fn optional_time_ns(self, column: &str) -> Result<Option<i64>, ReportError> {
        Ok(self.table.times(column)?[self.row])
    }

    pub(crate) fn time_ns(self, column: &str) -> Result<i64, ReportError> {
        self.required(column, self.optional_time_ns(column)?)
    }

    pub(crate) fn list(self, column: &str) -> Result<Vec<String>, ReportError> {
        self.required(column, self.table.text_lists(column)?[self.row].clone())
    }

    /// A value that every row must have.
    fn required<T>(self, column: &str, value: Option<T>) -> Result<T, ReportError> {
        value.ok_or_else(|| ReportError::Column {
            table: self.table.name.clone(),
            column: column.to_owned(),
            found: "null in a row",
            expected: "a value in every row",
        })
    }
}
