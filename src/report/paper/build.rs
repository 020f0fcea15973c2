//! From a declaration and a result table to the table of a paper.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use toml::Spanned;
use wattrace_schema::Reason;

use super::Digits;
use super::aggregate::{Absence, Value, value_at};
use super::declaration::{ColumnDeclaration, DeclarationError, Paper, RowKey, TableDeclaration};
use super::filter::{column, select};
use super::table::{Cell, Content, PaperColumn, PaperTable};
use crate::provenance::SyntheticShare;
use crate::results::StoredTable;
use crate::table::ColumnValues;
use crate::text::{few, printable};

/// Digits of a number for which nothing is said.
const DEFAULT_DIGITS: Digits = Digits::Significant(4);

/// Rows of the source that make one row of the table.
struct Group {
    keys: Vec<Cell>,
    rows: Vec<usize>,
}

/// Makes one table of a paper. `archive` is the share of simulated runs where the source itself does not
/// say which rows are.
pub(super) fn build(
    paper: &Paper,
    declaration: &TableDeclaration,
    source: &StoredTable,
    archive: SyntheticShare,
) -> Result<PaperTable, DeclarationError> {
    let all: Vec<usize> = (0..source.rows).collect();
    let rows = select(paper, source, &declaration.conditions, &all)?;
    let keys = key_columns(paper, declaration, source)?;
    let groups = group(&keys, &rows);
    let mut columns: Vec<PaperColumn> = keys
        .iter()
        .enumerate()
        .map(|(index, (key, values))| PaperColumn {
            heading: printable(key.heading()),
            is_key: true,
            is_number: matches!(values, ColumnValues::F64(_) | ColumnValues::U64(_)),
            cells: groups.iter().map(|group| group.keys[index].clone()).collect(),
        })
        .collect();
    for declared in &declaration.columns {
        columns.push(value_column(paper, declared, source, &groups)?);
    }
    let mut footnotes: Vec<String> =
        declaration.footnotes.iter().map(|text| printable(text)).collect();
    if rows.is_empty() {
        footnotes.push(format!("No row of \"{}\" fulfils the conditions.", source.name));
    }
    let name = declaration.name.get_ref().0.clone();
    let caption = declaration.caption.as_ref().unwrap_or(&name);
    let caption = stamped(caption, synthetic_share(source, &rows).unwrap_or(archive));
    let table = PaperTable { name, caption, columns, rows: groups.len(), footnotes };
    Ok(sorted(table, declaration))
}

type KeyColumn<'a> = (&'a RowKey, &'a ColumnValues);

fn key_columns<'a>(
    paper: &Paper,
    declaration: &'a TableDeclaration,
    source: &'a StoredTable,
) -> Result<Vec<KeyColumn<'a>>, DeclarationError> {
    let find = |key: &'a Spanned<super::declaration::TextOrTable<RowKey>>| {
        let found = &key.get_ref().0;
        let values = column(source, &found.column)
            .map_err(|message| paper.fault(key.span(), "rows", message))?;
        Ok((found, values))
    };
    declaration.rows.iter().map(find).collect()
}

/// Rows of equal keys together, in the order in which the keys first appear. Without keys there is one
/// group of all rows.
fn group(keys: &[KeyColumn<'_>], rows: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for row in rows {
        let contents: Vec<Content> =
            keys.iter().map(|(_, values)| key_content(values, *row)).collect();
        let texts = contents.iter().map(|content| content.printed().to_owned()).collect();
        let index = *known.entry(texts).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.rows.push(*row),
            None => {
                let cells =
                    keys.iter().zip(contents).map(|((key, _), content)| key_cell(key, content));
                groups.push(Group { keys: cells.collect(), rows: vec![*row] });
            }
        }
    }
    groups
}

fn key_content(values: &ColumnValues, row: usize) -> Content {
    match value_at(values, row) {
        // The shortest digits that read back equal, so that different keys never look alike.
        Some(Value::Number(value)) => Content::Number { value, printed: format!("{value}") },
        Some(Value::Whole(count)) => {
            Content::Number { value: count as f64, printed: count.to_string() }
        }
        Some(Value::Text(text)) => Content::Text(printable(&text)),
        None => Content::Missing,
    }
}

fn key_cell(key: &RowKey, content: Content) -> Cell {
    match (content, &key.missing, key.letters) {
        (Content::Missing, Some(text), _) => Cell::text(printable(text)),
        (Content::Text(text), _, Some(letters)) => {
            Cell::text(text.chars().take(usize::from(letters.get())).collect::<String>())
        }
        (content, ..) => Cell { content, remark: None },
    }
}

fn value_column(
    paper: &Paper,
    declared: &Spanned<ColumnDeclaration>,
    source: &StoredTable,
    groups: &[Group],
) -> Result<PaperColumn, DeclarationError> {
    let declaration = declared.get_ref();
    let find = |name: &Spanned<String>, key: &str| {
        column(source, name.get_ref()).map_err(|message| paper.fault(name.span(), key, message))
    };
    let aggregate = declaration.aggregate;
    let values = declaration.column.as_ref().map(|name| find(name, "column")).transpose()?;
    if let Some(values) = values
        && let Some(expected) = aggregate.misfit(values)
    {
        let found = values.type_name();
        let message =
            format!("the column is {found}; expected {expected} for the aggregate \"{aggregate}\"");
        return Err(paper.fault(declared.span(), "aggregate", message));
    }
    let is_number = aggregate.is_number(values);
    if !is_number && let Some(scale) = &declaration.scale {
        let message = "the column holds no numbers; expected no scale";
        return Err(paper.fault(scale.span(), "scale", message));
    }
    let reasons = Reasons::of(source, declaration, |name| find(name, "reason"))?;
    let cells = groups
        .iter()
        .map(|group| {
            let rows = select(paper, source, &declaration.conditions, &group.rows)?;
            Ok(value_cell(declaration, values, &rows, &reasons))
        })
        .collect::<Result<_, DeclarationError>>()?;
    let heading = printable(&declaration.printed_heading());
    Ok(PaperColumn { heading, is_key: false, is_number, cells })
}

fn value_cell(
    declaration: &ColumnDeclaration,
    values: Option<&ColumnValues>,
    rows: &[usize],
    reasons: &Reasons<'_>,
) -> Cell {
    let found = declaration.aggregate.of(values, rows);
    let content = found.value.map(|value| content(declaration, value));
    match content {
        Ok(Content::Missing) => {
            let remark = Some("The scaled value is no 64-bit number.".to_owned());
            Cell { content: Content::Missing, remark }
        }
        Ok(content) => {
            let left_out = &found.left_out;
            let remark = (!left_out.is_empty()).then(|| {
                let (count, all) = (left_out.len(), rows.len());
                format!("{count} of {all} rows without a value: {}", reasons.text(left_out, true))
            });
            Cell { content, remark }
        }
        Err(absence) => {
            let remark = match absence {
                Absence::NoRow => "No such row in the results.".to_owned(),
                Absence::NoValue(rows) => reasons.text(&rows, rows.len() > 1),
                Absence::Differ(count) => {
                    format!("{count} different values where one is expected.")
                }
                Absence::OneValue => "One value has no standard deviation.".to_owned(),
                Absence::NotFinite => "The result is no 64-bit number.".to_owned(),
            };
            Cell { content: Content::Missing, remark: Some(remark) }
        }
    }
}

/// The value as printed; missing if its scaled value is not finite.
fn content(declaration: &ColumnDeclaration, value: Value) -> Content {
    let scale = declaration.scale.as_ref().map(|scale| *scale.get_ref());
    let value = match value {
        Value::Text(text) => return Content::Text(printable(&text)),
        Value::Whole(count) if scale.is_none() && declaration.digits().is_none() => {
            return Content::Number { value: count as f64, printed: count.to_string() };
        }
        Value::Whole(count) => count as f64,
        Value::Number(value) => value,
    };
    let value = value * scale.unwrap_or(1.0);
    if !value.is_finite() {
        return Content::Missing;
    }
    let printed = declaration.digits().unwrap_or(DEFAULT_DIGITS).print(value);
    Content::Number { value, printed }
}

/// Where the source says why a value is missing.
struct Reasons<'a> {
    column: Option<&'a str>,
    /// One reason a row, for the column or for the whole row.
    of_row: Option<&'a ColumnValues>,
    /// A JSON object a row: column to reason.
    by_column: Option<&'a ColumnValues>,
    run_ids: Option<&'a ColumnValues>,
}

impl<'a> Reasons<'a> {
    fn of(
        source: &'a StoredTable,
        declaration: &'a ColumnDeclaration,
        find: impl Fn(&Spanned<String>) -> Result<&'a ColumnValues, DeclarationError>,
    ) -> Result<Self, DeclarationError> {
        let named = declaration.reason.as_ref().map(find).transpose()?;
        Ok(Self {
            column: declaration.column.as_ref().map(|name| name.get_ref().as_str()),
            of_row: named.or_else(|| column(source, "reason").ok()),
            by_column: column(source, "reasons").ok().filter(|_| named.is_none()),
            run_ids: column(source, "run_id").ok(),
        })
    }

    /// Why these rows have no value: each reason with what it means, and with the runs where `names` is
    /// set.
    fn text(&self, rows: &[usize], names: bool) -> String {
        let mut by_reason: Vec<(String, Vec<String>)> = Vec::new();
        for row in rows {
            let reason = self.code(*row).unwrap_or_else(|| "no reason recorded".to_owned());
            let run = self.run_ids.and_then(|ids| text_at(ids, *row)).map(printable);
            match by_reason.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, runs)) => runs.extend(run),
                None => by_reason.push((reason, run.into_iter().collect())),
            }
        }
        let texts: Vec<String> = by_reason
            .iter()
            .map(|(code, runs)| {
                let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
                let runs = match runs.as_slice() {
                    [] => String::new(),
                    _ if !names => String::new(),
                    runs => format!(" ({})", few(runs)),
                };
                explained(code, &runs)
            })
            .collect();
        texts.join("; ")
    }

    fn code(&self, row: usize) -> Option<String> {
        let by_column = self.by_column.and_then(|values| text_at(values, row)).and_then(|text| {
            let reasons: serde_json::Value = serde_json::from_str(text).ok()?;
            Some(reasons.get(self.column?)?.as_str()?.to_owned())
        });
        by_column.or_else(|| self.of_row.and_then(|values| text_at(values, row)).map(printable))
    }
}

/// A reason with what it means; `runs` stands behind its code.
pub(super) fn explained(code: &str, runs: &str) -> String {
    match Reason::ALL.iter().find(|reason| reason.code() == code) {
        Some(reason) => format!("{code}{runs}: {}", reason.meaning()),
        None => format!("{code}{runs}"),
    }
}

fn text_at(values: &ColumnValues, row: usize) -> Option<&str> {
    match values {
        ColumnValues::Text(values) => values[row].as_deref(),
        _ => None,
    }
}

/// The share of simulated rows, where the source says which are.
fn synthetic_share(source: &StoredTable, rows: &[usize]) -> Option<SyntheticShare> {
    match column(source, "synthetic") {
        Ok(ColumnValues::Bool(values)) if !rows.is_empty() => {
            Some(SyntheticShare::of(rows.iter().map(|row| values[*row] == Some(true))))
        }
        _ => None,
    }
}

/// The caption, which says first where data are simulated.
pub(super) fn stamped(caption: &str, share: SyntheticShare) -> String {
    let stamp = match share {
        SyntheticShare::None => "",
        SyntheticShare::Some => "Partly synthetic data (simulated and measured). ",
        SyntheticShare::All => "Synthetic data (simulated, not measured). ",
    };
    format!("{stamp}{}", printable(caption))
}

fn sorted(mut table: PaperTable, declaration: &TableDeclaration) -> PaperTable {
    let keys: Vec<(&PaperColumn, bool)> = declaration
        .sort
        .iter()
        .filter_map(|sort| {
            let sort = &sort.get_ref().0;
            let by = printable(&sort.by);
            let column = table.columns.iter().find(|column| column.heading == by)?;
            Some((column, sort.descending))
        })
        .collect();
    let mut order: Vec<usize> = (0..table.rows).collect();
    order.sort_by(|a, b| {
        keys.iter()
            .map(|(column, descending)| {
                in_order(&column.cells[*a].content, &column.cells[*b].content, *descending)
            })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    for column in &mut table.columns {
        column.cells = order.iter().map(|row| column.cells[*row].clone()).collect();
    }
    table
}

/// Missing values last, whichever way the others are sorted; numbers before texts.
fn in_order(a: &Content, b: &Content, descending: bool) -> Ordering {
    let turned = |order: Ordering| if descending { order.reverse() } else { order };
    match (a, b) {
        (Content::Missing, Content::Missing) => Ordering::Equal,
        (Content::Missing, _) => Ordering::Greater,
        (_, Content::Missing) => Ordering::Less,
        (Content::Number { value: a, .. }, Content::Number { value: b, .. }) => {
            turned(a.total_cmp(b))
        }
        (Content::Number { .. }, Content::Text(_)) => Ordering::Less,
        (Content::Text(_), Content::Number { .. }) => Ordering::Greater,
        (Content::Text(a), Content::Text(b)) => turned(a.cmp(b)),
    }
}
