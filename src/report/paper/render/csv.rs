//! CSV (RFC 4180), LF line ends; captions, notes and what could not be made are lines that begin with `#`.

use std::fmt::Write;

use super::{Document, Part};
use crate::csv::quoted;
use crate::paper::table::PaperTable;

pub(super) fn render(document: &Document) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    for part in &document.parts {
        let _ = match part {
            Part::Table(table) => write!(out, "{}", of_table(table)),
            Part::Missing { name, why } => writeln!(out, "# not made: {name}: {why}"),
        };
        out.push('\n');
    }
    if let Some(summary) = &document.summary {
        let _ = writeln!(out, "# summary: {summary}");
    }
    let _ = writeln!(out, "# origin: {}", document.origin);
    out
}

fn of_table(table: &PaperTable) -> String {
    let mut out = format!("# table: {}\n# caption: {}\n", table.name, table.caption);
    let headings = table.columns.iter().map(|column| field(&column.heading));
    out.push_str(&line(headings));
    for row in 0..table.rows {
        let fields = table.columns.iter().map(|column| field(column.cells[row].content.printed()));
        out.push_str(&line(fields));
    }
    for remark in remarks(table) {
        let _ = writeln!(out, "# note: {remark}");
    }
    for footnote in &table.footnotes {
        let _ = writeln!(out, "# note: {footnote}");
    }
    out
}

/// Every remark with its row and column: marks would keep the numbers from being read as numbers.
fn remarks(table: &PaperTable) -> Vec<String> {
    let mut remarks = Vec::new();
    for row in 0..table.rows {
        let key = table.row_key(row).join(", ");
        for column in &table.columns {
            if let Some(remark) = &column.cells[row].remark {
                remarks.push(format!("{key}: {}: {remark}", column.heading));
            }
        }
    }
    remarks
}

/// A field; one that begins with `#` is quoted, so that no record looks like a comment.
fn field(text: &str) -> String {
    let must_be_quoted = text.starts_with('#') || text.trim() != text || text.contains([',', '"']);
    if must_be_quoted { quoted(text) } else { text.to_owned() }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<_>>().join(",") + "\n"
}
