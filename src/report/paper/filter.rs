//! Which rows of a result table take part.

use toml::Spanned;

use super::declaration::{Condition, DeclarationError, Paper, Scalar, Test};
use crate::results::StoredTable;
use crate::table::ColumnValues;

/// Those of `rows` that fulfil every condition.
pub(super) fn select(
    paper: &Paper,
    table: &StoredTable,
    conditions: &[Spanned<Condition>],
    rows: &[usize],
) -> Result<Vec<usize>, DeclarationError> {
    let mut selected = rows.to_vec();
    for condition in conditions {
        let name = &condition.get_ref().column;
        let fault = |message: String| paper.fault(condition.span(), "where", message);
        let values = column(table, name).map_err(fault)?;
        // The declaration was checked when it was parsed.
        let Some(test) = condition.get_ref().test() else { continue };
        if let Some(expected) = test.misfit(values) {
            let found = values.type_name();
            return Err(fault(format!(
                "column \"{name}\" of \"{}\" is {found}; expected {expected} for this test",
                table.name
            )));
        }
        selected.retain(|row| test.holds(values, *row));
    }
    Ok(selected)
}

/// A column of the source, or what is wrong with its name.
pub(super) fn column<'table>(
    table: &'table StoredTable,
    name: &str,
) -> Result<&'table ColumnValues, String> {
    let found = table.columns.iter().find(|column| column.name == name);
    found.map(|column| &column.values).ok_or_else(|| {
        let names = similar(table.columns.iter().map(|column| column.name.as_str()), name);
        format!("table \"{}\" has no column \"{name}\"; {names}", table.name)
    })
}

/// Those of `known` that share a word with `wanted`, or the first few.
fn similar<'a>(known: impl Iterator<Item = &'a str>, wanted: &str) -> String {
    const SHOWN: usize = 8;
    let known: Vec<&str> = known.collect();
    let words: Vec<&str> = wanted.split('_').filter(|word| word.len() > 2).collect();
    let related = |name: &str| words.iter().filter(|word| name.contains(**word)).count();
    let mut by_likeness = known.clone();
    by_likeness.sort_by_key(|name| std::cmp::Reverse(related(name)));
    let names = by_likeness[..known.len().min(SHOWN)].join(", ");
    let more = known.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("it has {names}{more}")
}

impl Test {
    /// What the column must hold, if `values` does not hold it.
    fn misfit(&self, values: &ColumnValues) -> Option<&'static str> {
        let is_number = matches!(values, ColumnValues::F64(_) | ColumnValues::U64(_));
        match self {
            Self::Present(_) => None,
            Self::Has { .. } => {
                (!matches!(values, ColumnValues::TextList(_))).then_some("list<string>")
            }
            Self::Above(_) | Self::AtLeast(_) | Self::Below(_) | Self::AtMost(_) => {
                (!is_number).then_some("double or uint64")
            }
            Self::OneOf { values: scalars, .. } => scalars.iter().find_map(|scalar| match scalar {
                Scalar::Text(_) => (!matches!(values, ColumnValues::Text(_))).then_some("string"),
                Scalar::Number(_) => (!is_number).then_some("double or uint64"),
                Scalar::Bool(_) => (!matches!(values, ColumnValues::Bool(_))).then_some("bool"),
            }),
        }
    }

    fn holds(&self, values: &ColumnValues, row: usize) -> bool {
        let number = |test: &dyn Fn(f64) -> bool| match scalar(values, row) {
            Some(Scalar::Number(number)) => test(number),
            _ => false,
        };
        match self {
            Self::OneOf { values: scalars, negated } => {
                let found = scalar(values, row);
                found.is_some_and(|found| scalars.contains(&found)) != *negated
            }
            Self::Above(bound) => number(&|value| value > *bound),
            Self::AtLeast(bound) => number(&|value| value >= *bound),
            Self::Below(bound) => number(&|value| value < *bound),
            Self::AtMost(bound) => number(&|value| value <= *bound),
            Self::Has { text, negated } => match values {
                ColumnValues::TextList(lists) => {
                    lists[row].as_ref().is_some_and(|list| list.contains(text) != *negated)
                }
                _ => false,
            },
            Self::Present(wanted) => super::aggregate::value_at(values, row).is_some() == *wanted,
        }
    }
}

/// One value to compare with.
fn scalar(values: &ColumnValues, row: usize) -> Option<Scalar> {
    match values {
        ColumnValues::Text(values) => values[row].clone().map(Scalar::Text),
        ColumnValues::F64(values) => values[row].map(Scalar::Number),
        ColumnValues::U64(values) => values[row].map(|count| Scalar::Number(count as f64)),
        ColumnValues::Bool(values) => values[row].map(Scalar::Bool),
        ColumnValues::Time(_) | ColumnValues::TextList(_) => None,
    }
}
