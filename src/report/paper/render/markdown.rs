//! GitHub's Markdown.

use std::fmt::Write;

use super::{Document, Part};
use crate::paper::table::{Cell, Notes, PaperTable};

pub(super) fn render(document: &Document) -> String {
    let mut blocks = Vec::new();
    blocks.extend(document.title.as_ref().map(|title| format!("# {}\n", escaped(title))));
    blocks.extend(document.parts.iter().map(|part| match part {
        Part::Table(table) => of_table(table),
        Part::Missing { name, why } => {
            format!("**{}**: not made: {}\n", escaped(name), escaped(why))
        }
    }));
    blocks.extend(document.summary.as_ref().map(|summary| format!("{}\n", escaped(summary))));
    blocks.push(format!("{}\n", escaped(&document.origin)));
    blocks.join("\n")
}

fn of_table(table: &PaperTable) -> String {
    let notes = Notes::of(table);
    let mut lines =
        vec![table.columns.iter().map(|column| escaped(&column.heading)).collect::<Vec<_>>()];
    for row in 0..table.rows {
        lines
            .push(table.columns.iter().map(|column| of_cell(&column.cells[row], &notes)).collect());
    }
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|column| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3)
        })
        .collect();
    let mut out = format!("**{}.** {}\n\n", escaped(&table.name), escaped(&table.caption));
    for (index, line) in lines.iter().enumerate() {
        out.push('|');
        for ((text, width), column) in line.iter().zip(&widths).zip(&table.columns) {
            // Writing to a String cannot fail.
            let _ = match column.is_number {
                true => write!(out, " {text:>width$} |"),
                false => write!(out, " {text:<width$} |"),
            };
        }
        out.push('\n');
        if index == 0 {
            out.push_str(&rule(table, &widths));
        }
    }
    let notes: Vec<String> = notes
        .iter()
        .map(|(mark, text)| format!("- ({mark}) {}\n", escaped(text)))
        .chain(table.footnotes.iter().map(|text| format!("- {}\n", escaped(text))))
        .collect();
    if !notes.is_empty() {
        let _ = write!(out, "\n{}", notes.concat());
    }
    out
}

/// The line below the heading, which aligns numbers to the right.
fn rule(table: &PaperTable, widths: &[usize]) -> String {
    let dashes = table.columns.iter().zip(widths).map(|(column, width)| match column.is_number {
        true => format!(" {}: |", "-".repeat(width - 1)),
        false => format!(" {} |", "-".repeat(*width)),
    });
    format!("|{}\n", dashes.collect::<String>())
}

fn of_cell(cell: &Cell, notes: &Notes) -> String {
    let text = escaped(cell.content.printed());
    notes.mark(cell).map_or(text.clone(), |mark| format!("{text} ({mark})"))
}

/// Letters that Markdown would take for its own; an underscore within a word is not one.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let in_word = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
        let special = match letter {
            '\\' | '|' | '*' | '`' | '<' | '[' | ']' => true,
            '_' => !in_word(before) || !in_word(letters.peek().copied()),
            _ => false,
        };
        if special {
            out.push('\\');
        }
        out.push(letter);
        before = Some(letter);
    }
    out
}
