//! LaTeX with the package booktabs.

use std::fmt::Write;

use super::{Document, Part};
use crate::paper::table::{Cell, Content, Notes, PaperTable};

pub(super) fn render(document: &Document) -> String {
    let mut blocks = vec!["% Needs \\usepackage{booktabs}.\n".to_owned()];
    blocks.extend(document.parts.iter().map(|part| match part {
        Part::Table(table) => of_table(table),
        Part::Missing { name, why } => format!("% {name}: not made: {why}\n"),
    }));
    blocks.extend(document.summary.as_ref().map(|summary| format!("% {summary}\n")));
    blocks.push(format!("% {}\n", document.origin));
    blocks.join("\n")
}

fn of_table(table: &PaperTable) -> String {
    let notes = Notes::of(table);
    let alignment: String =
        table.columns.iter().map(|column| if column.is_number { 'r' } else { 'l' }).collect();
    let headings = table.columns.iter().map(|column| escaped(&column.heading));
    let mut out = format!(
        "\\begin{{table}}\n\\centering\n\\caption{{{}}}\n\\label{{tab:{}}}\n\
         \\begin{{tabular}}{{{alignment}}}\n\\toprule\n{}\\midrule\n",
        escaped(&table.caption),
        table.name,
        line(headings)
    );
    for row in 0..table.rows {
        out.push_str(&line(table.columns.iter().map(|column| of_cell(&column.cells[row], &notes))));
    }
    out.push_str("\\bottomrule\n\\end{tabular}\n");
    let notes: Vec<String> = notes
        .iter()
        .map(|(mark, text)| format!("\\textsuperscript{{{mark}}}~{}", escaped(text)))
        .chain(table.footnotes.iter().map(|text| escaped(text)))
        .collect();
    if !notes.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "\n\\smallskip\n\\parbox{{\\linewidth}}{{\\footnotesize\n{}}}\n",
            notes.join("\\\\\n")
        );
    }
    out + "\\end{table}\n"
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(" & ") + " \\\\\n"
}

fn of_cell(cell: &Cell, notes: &Notes) -> String {
    let text = match &cell.content {
        Content::Number { printed, .. } => of_number(printed),
        Content::Text(text) => escaped(text),
        Content::Missing => "--".to_owned(),
    };
    match notes.mark(cell) {
        Some(mark) => format!("{text}\\textsuperscript{{{mark}}}"),
        None => text,
    }
}

/// A number with a proper minus and exponent.
fn of_number(printed: &str) -> String {
    match printed.split_once('e') {
        Some((mantissa, exponent)) => format!("${mantissa}\\times 10^{{{exponent}}}$"),
        None if printed.starts_with('-') => format!("${printed}$"),
        None => printed.to_owned(),
    }
}

/// Text with what LaTeX would take for its own, and with signs that its fonts lack, spelt out.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, letter| {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(letter);
            }
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            '–' => out.push_str("--"),
            '\u{2212}' => out.push_str("$-$"),
            '×' => out.push_str("$\\times$"),
            '±' => out.push_str("$\\pm$"),
            '·' => out.push_str("$\\cdot$"),
            '≤' => out.push_str("$\\leq$"),
            '≥' => out.push_str("$\\geq$"),
            'α' => out.push_str("$\\alpha$"),
            'β' => out.push_str("$\\beta$"),
            'γ' => out.push_str("$\\gamma$"),
            'ρ' => out.push_str("$\\rho$"),
            'τ' => out.push_str("$\\tau$"),
            'σ' => out.push_str("$\\sigma$"),
            'Δ' => out.push_str("$\\Delta$"),
            _ => out.push(letter),
        }
        out
    })
}
