//! How the values of several rows become one cell.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use wattrace_analysis::stats;
use wattrace_schema::TimestampNs;

use crate::table::ColumnValues;

/// How the values of the source's rows that make one row of a table become its cell. Missing values are
/// left out, and the cell says how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Aggregate {
    /// The one value that all rows have; none if they differ.
    #[default]
    Only,
    /// The value of the first row.
    First,
    /// The median; interpolated between the middle two.
    Median,
    /// The arithmetic mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sample standard deviation.
    Std,
    /// The share of true, from 0 to 1.
    Share,
    /// The number of rows with a value; of all rows if no column is named.
    Count,
    /// Every different text of the rows' lists, such as flags.
    Union,
}

impl fmt::Display for Aggregate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Only => "only",
            Self::First => "first",
            Self::Median => "median",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Std => "std",
            Self::Share => "share",
            Self::Count => "count",
            Self::Union => "union",
        })
    }
}

/// A value before it is printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Whole(u64),
    Text(String),
}

/// What came of some rows: a value or why there is none, and which of the rows had none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Aggregated {
    pub(super) value: Result<Value, Absence>,
    /// Rows without a value, where the others have one.
    pub(super) left_out: Vec<usize>,
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Absence {
    /// The conditions leave no row.
    NoRow,
    /// None of these rows has a value.
    NoValue(Vec<usize>),
    /// The rows have so many different values where one is expected.
    Differ(usize),
    /// One value has no standard deviation.
    OneValue,
    /// The result is no 64-bit number.
    NotFinite,
}

impl Aggregate {
    /// What the column must hold, if `values` does not hold it.
    pub(super) fn misfit(self, values: &ColumnValues) -> Option<&'static str> {
        let numbers = matches!(values, ColumnValues::F64(_) | ColumnValues::U64(_));
        match self {
            Self::Only | Self::First | Self::Count => None,
            Self::Share => (!matches!(values, ColumnValues::Bool(_))).then_some("bool"),
            Self::Union => (!matches!(values, ColumnValues::TextList(_))).then_some("list<string>"),
            Self::Median | Self::Mean | Self::Min | Self::Max | Self::Std => {
                (!numbers).then_some("double or uint64")
            }
        }
    }

    /// Whether the cells of the column are numbers.
    pub(super) fn is_number(self, values: Option<&ColumnValues>) -> bool {
        match self {
            Self::Only | Self::First => {
                matches!(values, Some(ColumnValues::F64(_) | ColumnValues::U64(_)))
            }
            Self::Median
            | Self::Mean
            | Self::Min
            | Self::Max
            | Self::Std
            | Self::Share
            | Self::Count => true,
            Self::Union => false,
        }
    }

    /// The value of these rows. The column must be of a kind that [`Aggregate::misfit`] accepts; only
    /// [`Aggregate::Count`] does without one.
    pub(super) fn of(self, values: Option<&ColumnValues>, rows: &[usize]) -> Aggregated {
        let Some(values) = values else {
            return Aggregated { value: Ok(Value::Whole(rows.len() as u64)), left_out: Vec::new() };
        };
        let rows = if self == Self::First { &rows[..rows.len().min(1)] } else { rows };
        let (present, absent): (Vec<usize>, Vec<usize>) =
            rows.iter().partition(|row| value_at(values, **row).is_some());
        if self == Self::Count {
            let count = Value::Whole(present.len() as u64);
            return Aggregated { value: Ok(count), left_out: Vec::new() };
        }
        let value = if rows.is_empty() {
            Err(Absence::NoRow)
        } else if present.is_empty() {
            Err(Absence::NoValue(absent.clone()))
        } else {
            self.of_present(values, &present)
        };
        let left_out = if value.is_ok() { absent } else { Vec::new() };
        Aggregated { value, left_out }
    }

    /// The value of rows that all have one, at least one of them.
    fn of_present(self, values: &ColumnValues, rows: &[usize]) -> Result<Value, Absence> {
        let numbers =
            || -> Vec<f64> { rows.iter().filter_map(|row| number(values, *row)).collect() };
        let whole = matches!(values, ColumnValues::U64(_));
        let extreme = |extreme: f64| match whole {
            // A count below 2^53 is exact as a float; larger ones are not told apart.
            true => Some(Value::Whole(extreme as u64)),
            false => Some(Value::Number(extreme)),
        };
        match self {
            Self::Only | Self::First => return only(values, rows),
            Self::Union => return Ok(union(values, rows)),
            Self::Count => Some(Value::Whole(rows.len() as u64)),
            Self::Share => stats::mean(&numbers()).map(Value::Number),
            Self::Median => stats::median(&mut numbers()).map(Value::Number),
            Self::Mean => stats::mean(&numbers()).map(Value::Number),
            Self::Min => numbers().into_iter().reduce(f64::min).and_then(extreme),
            Self::Max => numbers().into_iter().reduce(f64::max).and_then(extreme),
            Self::Std if rows.len() < 2 => return Err(Absence::OneValue),
            Self::Std => stats::sample_std(&numbers()).map(Value::Number),
        }
        .ok_or(Absence::NotFinite)
    }
}

/// The value that all rows have.
fn only(values: &ColumnValues, rows: &[usize]) -> Result<Value, Absence> {
    let mut different: Vec<Value> = Vec::new();
    for value in rows.iter().filter_map(|row| value_at(values, *row)) {
        if !different.contains(&value) {
            different.push(value);
        }
    }
    match different.len() {
        1 => Ok(different.remove(0)),
        count => Err(Absence::Differ(count)),
    }
}

/// Every different text of the rows' lists, in the order in which they first appear.
fn union(values: &ColumnValues, rows: &[usize]) -> Value {
    let mut texts: Vec<&str> = Vec::new();
    if let ColumnValues::TextList(lists) = values {
        for text in rows.iter().filter_map(|row| lists[*row].as_ref()).flatten() {
            if !texts.contains(&text.as_str()) {
                texts.push(text);
            }
        }
    }
    Value::Text(if texts.is_empty() { "none".to_owned() } else { texts.join(", ") })
}

/// One value of a column; `None` if it is missing.
pub(super) fn value_at(values: &ColumnValues, row: usize) -> Option<Value> {
    Some(match values {
        ColumnValues::Text(values) => Value::Text(values[row].clone()?),
        ColumnValues::F64(values) => Value::Number(values[row]?),
        ColumnValues::U64(values) => Value::Whole(values[row]?),
        ColumnValues::Bool(values) => Value::Text(yes_or_no(values[row]?).to_owned()),
        ColumnValues::Time(values) => {
            Value::Text(TimestampNs::from_nanos(values[row]?).to_string())
        }
        ColumnValues::TextList(values) => match values[row].as_ref()?.as_slice() {
            [] => Value::Text("none".to_owned()),
            texts => Value::Text(texts.join(", ")),
        },
    })
}

const fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// One value as a number; true is 1 and false is 0.
fn number(values: &ColumnValues, row: usize) -> Option<f64> {
    match values {
        ColumnValues::F64(values) => values[row],
        ColumnValues::U64(values) => values[row].map(|count| count as f64),
        ColumnValues::Bool(values) => values[row].map(|value| f64::from(u8::from(value))),
        ColumnValues::Text(_) | ColumnValues::Time(_) | ColumnValues::TextList(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn energies() -> ColumnValues {
        ColumnValues::F64(vec![Some(4.0), None, Some(1.0), Some(3.0), Some(4.0)])
    }

    #[track_caller]
    fn assert_value(aggregate: Aggregate, rows: &[usize], expected: Value, left_out: &[usize]) {
        let found = aggregate.of(Some(&energies()), rows);
        assert_eq!(found, Aggregated { value: Ok(expected), left_out: left_out.to_vec() });
    }

    #[test]
    fn missing_values_are_left_out_and_named() {
        let all = [0, 1, 2, 3, 4];
        // 1, 3, 4, 4: between 3 and 4; 12 / 4; squared deviations 4 + 0 + 1 + 1 over 3.
        assert_value(Aggregate::Median, &all, Value::Number(3.5), &[1]);
        assert_value(Aggregate::Mean, &all, Value::Number(3.0), &[1]);
        assert_value(Aggregate::Min, &all, Value::Number(1.0), &[1]);
        assert_value(Aggregate::Max, &all, Value::Number(4.0), &[1]);
        assert_value(Aggregate::Std, &all, Value::Number(2.0_f64.sqrt()), &[1]);
        assert_value(Aggregate::Count, &all, Value::Whole(4), &[]);
        assert_value(Aggregate::Only, &[0, 4], Value::Number(4.0), &[]);
        assert_value(Aggregate::First, &[2, 1], Value::Number(1.0), &[]);
        assert_eq!(Aggregate::Count.of(None, &all).value, Ok(Value::Whole(5)));
    }

    #[test]
    fn what_cannot_be_had_says_why() {
        let absence = |aggregate: Aggregate, rows: &[usize]| {
            aggregate.of(Some(&energies()), rows).value.unwrap_err()
        };
        assert_eq!(absence(Aggregate::Median, &[]), Absence::NoRow);
        assert_eq!(absence(Aggregate::Mean, &[1]), Absence::NoValue(vec![1]));
        assert_eq!(absence(Aggregate::First, &[1, 0]), Absence::NoValue(vec![1]));
        assert_eq!(absence(Aggregate::Only, &[0, 2, 4]), Absence::Differ(2));
        assert_eq!(absence(Aggregate::Std, &[0]), Absence::OneValue);
        let huge = ColumnValues::F64(vec![Some(f64::MAX), Some(f64::MAX)]);
        assert_eq!(Aggregate::Mean.of(Some(&huge), &[0, 1]).value, Err(Absence::NotFinite));
    }

    #[test]
    fn a_share_is_of_true_among_the_rows_with_a_value() {
        let reached = ColumnValues::Bool(vec![Some(true), Some(false), None, Some(true)]);
        let share = Aggregate::Share.of(Some(&reached), &[0, 1, 2, 3]);
        assert_eq!(share.value, Ok(Value::Number(2.0 / 3.0)));
        assert_eq!(share.left_out, [2]);
        assert_eq!(Aggregate::Share.misfit(&reached), None);
        assert_eq!(Aggregate::Share.misfit(&energies()), Some("bool"));
        assert_eq!(Aggregate::Median.misfit(&reached), Some("double or uint64"));
    }

    #[test]
    fn values_of_every_kind_can_stand_in_a_cell() {
        let lists = ColumnValues::TextList(vec![Some(vec!["a".into(), "b".into()]), Some(vec![])]);
        assert_eq!(value_at(&lists, 0), Some(Value::Text("a, b".into())));
        assert_eq!(value_at(&lists, 1), Some(Value::Text("none".into())));
        let union = |rows: &[usize]| Aggregate::Union.of(Some(&lists), rows).value;
        assert_eq!(union(&[0, 1, 0]), Ok(Value::Text("a, b".into())));
        assert_eq!(union(&[1]), Ok(Value::Text("none".into())));
        let times = ColumnValues::Time(vec![Some(0)]);
        assert_eq!(value_at(&times, 0), Some(Value::Text("1970-01-01T00:00:00Z".into())));
        let counts = ColumnValues::U64(vec![Some(7)]);
        assert_eq!(Aggregate::Max.of(Some(&counts), &[0]).value, Ok(Value::Whole(7)));
    }
}
