//! A result table in memory: named, typed, described columns of equal length.

use wattrace_schema::Unit;

/// The values of one column; a missing value is `None`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each variant is the type that it names")]
pub enum ColumnValues {
    Text(Vec<Option<String>>),
    /// Finite numbers.
    F64(Vec<Option<f64>>),
    U64(Vec<Option<u64>>),
    Bool(Vec<Option<bool>>),
    /// Nanoseconds since the Unix epoch, UTC.
    Time(Vec<Option<i64>>),
    TextList(Vec<Option<Vec<String>>>),
}

impl ColumnValues {
    /// Number of values, missing ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Time(values) => values.len(),
            Self::TextList(values) => values.len(),
        }
    }

    /// Whether there is no value, not even a missing one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the type in data dictionaries.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::F64(_) => "double",
            Self::U64(_) => "uint64",
            Self::Bool(_) => "bool",
            Self::Time(_) => "timestamp[ns, UTC]",
            Self::TextList(_) => "list<string>",
        }
    }

    /// One value as JSON.
    pub(crate) fn cell_json(&self, row: usize) -> serde_json::Value {
        match self {
            Self::Text(values) => serde_json::json!(values[row]),
            Self::F64(values) => serde_json::json!(values[row]),
            Self::U64(values) => serde_json::json!(values[row]),
            Self::Bool(values) => serde_json::json!(values[row]),
            Self::Time(values) => {
                let text = |t_ns| wattrace_schema::TimestampNs::from_nanos(t_ns).to_string();
                serde_json::json!(values[row].map(text))
            }
            Self::TextList(values) => serde_json::json!(values[row]),
        }
    }

    /// Moves the values of `other` behind these; `false` and nothing moved if the types differ.
    fn append(&mut self, other: &mut Self) -> bool {
        match (self, other) {
            (Self::Text(values), Self::Text(more)) => values.append(more),
            (Self::F64(values), Self::F64(more)) => values.append(more),
            (Self::U64(values), Self::U64(more)) => values.append(more),
            (Self::Bool(values), Self::Bool(more)) => values.append(more),
            (Self::Time(values), Self::Time(more)) => values.append(more),
            (Self::TextList(values), Self::TextList(more)) => values.append(more),
            _ => return false,
        }
        true
    }

    /// The values of the rows that are kept.
    pub(crate) fn filtered(&self, keep: &[bool]) -> Self {
        fn kept<T: Clone>(values: &[T], keep: &[bool]) -> Vec<T> {
            values.iter().zip(keep).filter(|(_, keep)| **keep).map(|(v, _)| v.clone()).collect()
        }
        match self {
            Self::Text(values) => Self::Text(kept(values, keep)),
            Self::F64(values) => Self::F64(kept(values, keep)),
            Self::U64(values) => Self::U64(kept(values, keep)),
            Self::Bool(values) => Self::Bool(kept(values, keep)),
            Self::Time(values) => Self::Time(kept(values, keep)),
            Self::TextList(values) => Self::TextList(kept(values, keep)),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Text(values) => values.clear(),
            Self::F64(values) => values.clear(),
            Self::U64(values) => values.clear(),
            Self::Bool(values) => values.clear(),
            Self::Time(values) => values.clear(),
            Self::TextList(values) => values.clear(),
        }
    }
}

/// One column of a result table.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// Name; a plain number's ends in its unit.
    pub name: String,
    /// Unit of the values.
    pub unit: Unit,
    /// What a value means.
    pub meaning: String,
    /// The values, one a row.
    pub values: ColumnValues,
}

/// A result table: every column has one value a row.
///
/// ```
/// use wattrace_report::{ColumnValues, ResultTable};
/// use wattrace_schema::Unit;
///
/// let samples = [("gpu0", Some(512.5)), ("gpu1", None)];
/// let table = ResultTable::of("powers", "one device", &samples)
///     .text("device", "Name of the device.", |(device, _)| Some(*device))
///     .number("power_w", Unit::Watt, "Mean power.", |(_, power_w)| *power_w)
///     .build();
/// assert_eq!(table.rows(), 2);
/// assert_eq!(table.columns()[1].values, ColumnValues::F64(vec![Some(512.5), None]));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ResultTable {
    name: String,
    row: String,
    rows: usize,
    columns: Vec<ResultColumn>,
}

impl ResultTable {
    /// Starts a table with one row for each of `rows`; `row` says what a row is.
    #[must_use]
    pub fn of<'rows, R>(name: &str, row: &str, rows: &'rows [R]) -> TableBuilder<'rows, R> {
        TableBuilder {
            rows,
            table: Self {
                name: name.to_owned(),
                row: row.to_owned(),
                rows: rows.len(),
                columns: Vec::new(),
            },
        }
    }

    /// The rows as JSON objects; times are RFC 3339 text.
    #[must_use]
    pub fn to_json(&self) -> Vec<serde_json::Value> {
        (0..self.rows)
            .map(|row| {
                let cells = self
                    .columns
                    .iter()
                    .map(|column| (column.name.clone(), column.values.cell_json(row)));
                serde_json::Value::Object(cells.collect())
            })
            .collect()
    }

    /// Name of the table, and of its files.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a row is.
    #[must_use]
    pub fn row_meaning(&self) -> &str {
        &self.row
    }

    /// Number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The columns in order.
    #[must_use]
    pub fn columns(&self) -> &[ResultColumn] {
        &self.columns
    }

    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ResultColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The declaration of the table, for data dictionaries.
    #[must_use]
    pub fn declaration(&self) -> serde_json::Value {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|column| {
                serde_json::json!({
                    "name": column.name,
                    "type": column.values.type_name(),
                    "unit": column.unit.ucum(),
                    "meaning": column.meaning,
                })
            })
            .collect();
        serde_json::json!({ "table": self.name, "row": self.row, "columns": columns })
    }

    /// Whether `other` has the same columns in the same order, values aside.
    #[must_use]
    pub fn same_columns(&self, other: &Self) -> bool {
        self.columns.len() == other.columns.len()
            && self
                .columns
                .iter()
                .zip(&other.columns)
                .all(|(a, b)| a.name == b.name && a.values.type_name() == b.values.type_name())
    }

    /// Moves the rows of `other` behind these; `false` and nothing moved if the columns differ.
    #[must_use]
    pub fn append(&mut self, mut other: Self) -> bool {
        if !self.same_columns(&other) {
            return false;
        }
        self.rows += other.rows;
        self.columns
            .iter_mut()
            .zip(&mut other.columns)
            .all(|(column, more)| column.values.append(&mut more.values))
    }

    /// Drops all rows and keeps the columns.
    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        for column in &mut self.columns {
            column.values.clear();
        }
    }
}

/// Adds columns, each computed from every row, so that all have the same length.
#[derive(Debug)]
pub struct TableBuilder<'rows, R> {
    rows: &'rows [R],
    table: ResultTable,
}

impl<'rows, R> TableBuilder<'rows, R> {
    fn push(
        mut self,
        name: impl Into<String>,
        unit: Unit,
        meaning: impl Into<String>,
        values: ColumnValues,
    ) -> Self {
        let (name, meaning) = (name.into(), meaning.into());
        self.table.columns.push(ResultColumn { name, unit, meaning, values });
        self
    }

    fn values<T>(&self, value: impl Fn(&'rows R) -> Option<T>) -> Vec<Option<T>> {
        self.rows.iter().map(value).collect()
    }

    /// Adds a column of text.
    #[must_use]
    pub fn text<T: Into<String>>(
        self,
        name: impl Into<String>,
        meaning: impl Into<String>,
        value: impl Fn(&'rows R) -> Option<T>,
    ) -> Self {
        let values = self.values(|row| value(row).map(Into::into));
        self.push(name, Unit::None, meaning, ColumnValues::Text(values))
    }

    /// Adds a column of text that was made beforehand, one a row.
    pub(crate) fn prepared_text(self, name: &str, meaning: &str, texts: Vec<String>) -> Self {
        debug_assert_eq!(texts.len(), self.rows.len());
        let values = texts.into_iter().map(Some).collect();
        self.push(name, Unit::None, meaning, ColumnValues::Text(values))
    }

    /// Adds a column of numbers; one that is not finite is missing.
    #[must_use]
    pub fn number(
        self,
        name: impl Into<String>,
        unit: Unit,
        meaning: impl Into<String>,
        value: impl Fn(&'rows R) -> Option<f64>,
    ) -> Self {
        let values = self.values(|row| value(row).filter(|value| value.is_finite()));
        self.push(name, unit, meaning, ColumnValues::F64(values))
    }

    /// Adds a column of counts.
    #[must_use]
    pub fn count(
        self,
        name: impl Into<String>,
        unit: Unit,
        meaning: impl Into<String>,
        value: impl Fn(&'rows R) -> Option<u64>,
    ) -> Self {
        let values = self.values(value);
        self.push(name, unit, meaning, ColumnValues::U64(values))
    }

    /// Adds a column of yes and no.
    #[must_use]
    pub fn boolean(
        self,
        name: impl Into<String>,
        meaning: impl Into<String>,
        value: impl Fn(&'rows R) -> Option<bool>,
    ) -> Self {
        let values = self.values(value);
        self.push(name, Unit::None, meaning, ColumnValues::Bool(values))
    }

    /// Adds a column of times, ns since the Unix epoch.
    #[must_use]
    pub fn time(
        self,
        name: impl Into<String>,
        meaning: impl Into<String>,
        value: impl Fn(&'rows R) -> Option<i64>,
    ) -> Self {
        let values = self.values(value);
        self.push(name, Unit::Timestamp, meaning, ColumnValues::Time(values))
    }

    /// Adds a column of lists of text.
    #[must_use]
    pub fn text_list(
        self,
        name: impl Into<String>,
        meaning: impl Into<String>,
        value: impl Fn(&'rows R) -> Option<Vec<String>>,
    ) -> Self {
        let values = self.values(value);
        self.push(name, Unit::None, meaning, ColumnValues::TextList(values))
    }

    /// The finished table.
    #[must_use]
    pub fn build(self) -> ResultTable {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(values: &[f64]) -> ResultTable {
        ResultTable::of("powers", "one sample", values)
            .number("power_w", Unit::Watt, "Power.", |value| Some(*value))
            .build()
    }

    #[test]
    fn a_number_that_is_not_finite_is_missing() {
        let table = table(&[1.5, f64::NAN, f64::INFINITY]);
        assert_eq!(table.columns()[0].values, ColumnValues::F64(vec![Some(1.5), None, None]));
    }

    #[test]
    fn rows_append_only_to_the_same_columns() {
        let mut first = table(&[1.0]);
        assert!(first.append(table(&[2.0, 3.0])));
        assert_eq!((first.rows(), first.columns()[0].values.len()), (3, 3));

        let other = ResultTable::of("powers", "one sample", &[1_u64])
            .count("power_w", Unit::Watt, "Power.", |value| Some(*value))
            .build();
        assert!(!first.append(other));
        assert_eq!(first.rows(), 3);
    }
}
