//! The page of a whole results folder: every table, the figures, and behind every number how it came about.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use wattrace_analysis::metrics::catalogue;
use wattrace_figures::FIGURES;
use wattrace_schema::{Reason, Unit};

use super::{LinkedCell, LinkedColumn, LinkedTable, Page};
use crate::error::ReportError;
use crate::explain::{ExplainError, Explainer};
use crate::figure_data::{FigureDataError, figures};
use crate::results::{Results, StoredTable};
use crate::table::{ColumnValues, ResultTable};
use crate::tables;
use crate::text::{TextStyle, explanation, significant};
use crate::view::TableView;
use crate::write::WrittenTable;

/// Digits of a number in a table; the whole of it is in the cell's title.
const DIGITS: usize = 5;
/// Rows of a table that a browser lays out, sorts and prints at once; longer tables hold samples, bins or one
/// row a number, and stay in their files.
const MAX_ROWS: usize = 500;
/// Width of the lines of an explanation.
const WIDTH: usize = 100;

/// The page of `results`. Equal results give equal bytes.
///
/// # Errors
/// When a table cannot be read back.
pub fn results_page(results: &Results) -> Result<String, ReportError> {
    let manifest = results.manifest();
    let mut texts = Explanations::new();
    let mut page = Page::new("Energy and latency, recomputed");
    head(&mut page, results);
    let declared = tables::declarations();
    let explainer = Explainer::open(results)?;
    let mut raw = serde_json::Map::new();
    let (shown, left_out): (Vec<&WrittenTable>, Vec<&WrittenTable>) =
        manifest.tables.iter().partition(|table| table.rows <= MAX_ROWS as u64);
    for listed in &shown {
        let stored = results.table(&listed.name)?;
        let declaration = declared.iter().find(|table| table.name() == listed.name);
        page.section(&listed.name);
        page.paragraph(&format!("A row is {}.", listed.row));
        let linked = linked(&stored, declaration, &explainer, &mut texts)?;
        page.linked_table(&linked);
        raw.insert(listed.name.clone(), rows_json(&stored));
    }
    add_figures(&mut page, results)?;
    page.section("How this came about");
    if !left_out.is_empty() {
        page.paragraph(&format!(
            "Tables of more than {MAX_ROWS} rows are not laid out here; they lie in the results folder."
        ));
        let names: Vec<String> = left_out
            .iter()
            .map(|table| format!("{}: {} rows, one for each {}", table.name, table.rows, table.row))
            .collect();
        page.list(&names);
    }
    page.paragraph("results.json and every table above, as data; the options follow.");
    let raw = json!({ "results": manifest, "tables": raw });
    page.data("results", "Save everything as JSON", &raw);
    page.verbatim(&format!("{:#}", json!(manifest.options)));
    page.explanations(&texts.to_json());
    Ok(page.finish())
}

/// Every figure that the results can feed; of the others, why not.
fn add_figures(page: &mut Page, results: &Results) -> Result<(), ReportError> {
    page.section("Figures");
    let mut notes = Vec::new();
    for kind in FIGURES {
        let set = match figures(results, kind, &[]) {
            Ok(set) => set,
            Err(FigureDataError::Table(error)) => return Err(error),
            Err(FigureDataError::Lacking(reason)) => {
                notes.push(format!("{} is not drawn: {reason}", kind.title));
                continue;
            }
        };
        for figure in &set.figures {
            match figure.figure.draw() {
                Ok(drawing) => {
                    page.figure(&drawing.to_svg(), &format!("{} ({})", kind.title, figure.stem));
                }
                Err(error) => notes.push(format!("{} is not drawn: {error}", figure.stem)),
            }
        }
        notes.extend(set.note.map(|note| format!("{}: {note}", kind.title)));
    }
    page.list(&notes);
    Ok(())
}

fn head(page: &mut Page, results: &Results) {
    let manifest = results.manifest();
    if let Some(notice) = manifest.synthetic.notice() {
        page.notice(notice);
    }
    let runs = &manifest.runs;
    let kinds: Vec<String> =
        runs.by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let facts = [
        ("Runs", format!("{} ({})", runs.total, kinds.join(", "))),
        ("Could not be read", runs.failed.to_string()),
        ("Program", format!("{} {}", manifest.tool, manifest.tool_version)),
        ("Metric definitions", format!("version {}", manifest.metric_definitions_version)),
        ("Command line", manifest.command_line.join(" ")),
        (
            "Archive",
            match &manifest.archive_sha256 {
                Some(digest) => format!("SHA-256 {digest}"),
                None => "no digest was taken".to_owned(),
            },
        ),
    ];
    page.facts(&facts);
    let shown = manifest.tables.iter().filter(|table| table.rows <= MAX_ROWS as u64);
    let names: Vec<&str> = shown.map(|table| table.name.as_str()).collect();
    let parts = [names.as_slice(), &["Figures", "How this came about"]].concat();
    page.contents(&parts);
    if !manifest.warnings.is_empty() {
        page.section("Warnings");
        page.list(&manifest.warnings);
    }
}

/// The cells of a table, each number with the key of its explanation.
fn linked(
    stored: &StoredTable,
    declaration: Option<&ResultTable>,
    explainer: &Explainer,
    texts: &mut Explanations,
) -> Result<LinkedTable, ReportError> {
    let view = TableView::of(stored);
    let mut columns = Vec::new();
    for column in &stored.columns {
        let declared = declaration.and_then(|table| table.column(&column.name));
        let meaning = declared.map_or("", |declared| declared.meaning.as_str());
        let unit = declared.map_or(Unit::None, |declared| declared.unit);
        let about = texts.column(&stored.name, &column.name, meaning, unit);
        let is_number = matches!(column.values, ColumnValues::F64(_) | ColumnValues::U64(_));
        let mut cells = Vec::with_capacity(stored.rows);
        for row in 0..stored.rows {
            let key = match metric_of(stored, row, &column.name) {
                Some((run_id, metric)) if is_linked(&column.values) => {
                    texts.number(explainer, run_id, metric)?
                }
                _ => None,
            };
            let key = key.or_else(|| is_number.then(|| about.clone()));
            cells.push(cell(&column.values, row, view.reason(row, &column.name), key));
        }
        columns.push(LinkedColumn {
            heading: column.name.clone(),
            meaning: meaning.to_owned(),
            is_number,
            cells,
        });
    }
    Ok(LinkedTable { name: stored.name.clone(), rows: stored.rows, columns })
}

/// Metrics of a run are numbers, times and yes or no; its names are not.
const fn is_linked(values: &ColumnValues) -> bool {
    !matches!(values, ColumnValues::Text(_) | ColumnValues::TextList(_))
}

/// The run and metric that a cell holds: a column of `runs`, or the row's metric in `metrics` and
/// `claims`.
fn metric_of<'a>(
    stored: &'a StoredTable,
    row: usize,
    column: &'a str,
) -> Option<(&'a str, &'a str)> {
    let run_id = stored.text("run_id").ok()?.get(row)?.as_deref()?;
    if stored.name == "runs" {
        return Some((run_id, column));
    }
    let metric = stored.text("metric").ok()?.get(row)?.as_deref()?;
    ["value", "time", "recomputed"].contains(&column).then_some((run_id, metric))
}

fn cell(
    values: &ColumnValues,
    row: usize,
    reason: Option<Reason>,
    key: Option<String>,
) -> LinkedCell {
    let json = values.cell_json(row);
    let (text, whole) = match values {
        ColumnValues::F64(values) => (
            values[row].map(|value| significant(value, DIGITS)),
            values[row].map(|v| v.to_string()),
        ),
        ColumnValues::U64(values) => {
            let text = values[row].map(|count| count.to_string());
            (text.clone(), text)
        }
        ColumnValues::Bool(values) => {
            (values[row].map(|yes| if yes { "yes" } else { "no" }.to_owned()), None)
        }
        ColumnValues::TextList(values) => (values[row].as_ref().map(|list| list.join(", ")), None),
        _ => (json.as_str().map(str::to_owned), None),
    };
    LinkedCell { text, whole, reason: reason.map(Reason::code), key }
}

fn rows_json(stored: &StoredTable) -> serde_json::Value {
    let rows = (0..stored.rows).map(|row| {
        let cells =
            stored.columns.iter().map(|column| (column.name.clone(), column.values.cell_json(row)));
        serde_json::Value::Object(cells.collect())
    });
    serde_json::Value::Array(rows.collect())
}

/// Texts behind numbers. Most of their lines are shared (definitions, flags, how the results were made), so
/// each different line is kept once.
struct Explanations {
    lines: BTreeMap<String, usize>,
    order: Vec<String>,
    texts: BTreeMap<String, Vec<usize>>,
    /// Names of the metrics, which alone have an explanation of their own.
    metrics: BTreeSet<&'static str>,
}

impl Explanations {
    fn new() -> Self {
        Self {
            lines: BTreeMap::new(),
            order: Vec::new(),
            texts: BTreeMap::new(),
            metrics: catalogue().iter().map(|metric| metric.name).collect(),
        }
    }

    fn add(&mut self, key: &str, text: &str) {
        let lines = text
            .lines()
            .map(|line| {
                *self.lines.entry(line.to_owned()).or_insert_with(|| {
                    self.order.push(line.to_owned());
                    self.order.len() - 1
                })
            })
            .collect();
        self.texts.insert(key.to_owned(), lines);
    }

    /// How a number of a run came about; `None` for a column that is no metric, or where several runs
    /// share an id.
    fn number(
        &mut self,
        explainer: &Explainer,
        run_id: &str,
        metric: &str,
    ) -> Result<Option<String>, ReportError> {
        let key = format!("{run_id}/{metric}");
        if self.texts.contains_key(&key) {
            return Ok(Some(key));
        }
        if !self.metrics.contains(metric) {
            return Ok(None);
        }
        let style = TextStyle { width: WIDTH, colour: false, ..TextStyle::default() };
        match explainer.explain(run_id, metric) {
            Ok(explained) => self.add(&key, &explanation(&explained, style)),
            Err(ExplainError::Results(error)) => return Err(error),
            Err(_) => return Ok(None),
        }
        Ok(Some(key))
    }

    /// What a column means.
    fn column(&mut self, table: &str, column: &str, meaning: &str, unit: Unit) -> String {
        let key = format!("{table}.{column}");
        let unit = match unit.symbol() {
            "" => String::new(),
            symbol => format!("\n  unit       {symbol}"),
        };
        let text =
            format!("column \"{column}\" of table \"{table}\"\n  meaning    {meaning}{unit}");
        self.add(&key, &text);
        key
    }

    fn to_json(&self) -> serde_json::Value {
        json!({ "lines": self.order, "texts": self.texts })
    }
}
