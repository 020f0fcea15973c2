//! Jupyter notebooks over the result tables.
//!
//! Each notebook is a Python file in this folder: a line `# %%` begins a cell of code, `# %% [markdown]` one of
//! prose, and `needs=TABLE` after either leaves the cell out of results without that table. Words in
//! double braces are filled in from the results.

use serde_json::{Value, json};

use crate::provenance::SyntheticShare;
use crate::results::ResultsManifest;
use crate::tables;

/// A notebook as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notebook {
    /// Name of its file.
    pub file: String,
    /// Its JSON, in version 4.5 of the notebook format, without outputs.
    pub json: String,
}

/// The notebooks, by name.
const SOURCES: &[(&str, &str)] = &[
    ("decode-model", include_str!("decode_model.py")),
    ("serving", include_str!("serving.py")),
    ("sql", include_str!("sql.py")),
];

/// The Python packages that the notebooks import, as a requirements file.
pub const NOTEBOOK_REQUIREMENTS: &str =
    "duckdb\nipykernel\nmatplotlib\nnbconvert\npandas\npolars\npyarrow\n";

/// The notebooks for these results. They expect the tables' Parquet files in a folder `tables` beside them.
#[must_use]
pub fn notebooks(manifest: &ResultsManifest) -> Vec<Notebook> {
    SOURCES
        .iter()
        .map(|(name, source)| Notebook {
            file: format!("{name}.ipynb"),
            json: notebook(source, manifest),
        })
        .collect()
}

/// One cell of a notebook's source.
struct Cell<'a> {
    markdown: bool,
    /// Table without which the cell has nothing to show.
    needs: Option<&'a str>,
    lines: Vec<&'a str>,
}

fn notebook(source: &str, manifest: &ResultsManifest) -> String {
    let holds = |table: &str| manifest.tables.iter().any(|known| known.name == table);
    let cells: Vec<Value> = cells(source)
        .into_iter()
        .filter(|cell| cell.needs.is_none_or(holds))
        .enumerate()
        .map(|(index, cell)| cell_json(index, &cell, manifest))
        .collect();
    let notebook = json!({
        "cells": cells,
        "metadata": {
            "kernelspec": { "display_name": "Python 3", "language": "python", "name": "python3" },
            "language_info": { "name": "python" },
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    });
    format!("{notebook:#}\n")
}

fn cells(source: &str) -> Vec<Cell<'_>> {
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for line in source.lines() {
        if let Some(head) = line.strip_prefix("# %%") {
            let needs = head.split_whitespace().find_map(|word| word.strip_prefix("needs="));
            let markdown = head.contains("[markdown]");
            cells.push(Cell { markdown, needs, lines: Vec::new() });
        } else if let Some(cell) = cells.last_mut() {
            let prose = || line.strip_prefix("# ").unwrap_or(line.trim_start_matches('#'));
            cell.lines.push(if cell.markdown { prose() } else { line });
        }
    }
    cells
}

fn cell_json(index: usize, cell: &Cell<'_>, manifest: &ResultsManifest) -> Value {
    let text = fill(cell.lines.join("\n").trim(), manifest);
    let source: Vec<&str> = text.split_inclusive('\n').collect();
    let id = format!("cell-{index:02}");
    if cell.markdown {
        return json!({ "cell_type": "markdown", "id": id, "metadata": {}, "source": source });
    }
    json!({
        "cell_type": "code",
        "execution_count": null,
        "id": id,
        "metadata": {},
        "outputs": [],
        "source": source,
    })
}

/// Puts what the results say in place of the words in double braces.
fn fill(text: &str, manifest: &ResultsManifest) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((word, behind)) = after.split_once("}}") else { break };
        filled.push_str(before);
        filled.push_str(&value_of(word, manifest));
        rest = behind;
    }
    filled + rest
}

fn value_of(word: &str, manifest: &ResultsManifest) -> String {
    let (name, arguments) = word.split_once(' ').unwrap_or((word, ""));
    match name {
        "provenance" => provenance(manifest),
        "synthetic_stamp" => stamp(manifest.synthetic).to_owned(),
        "tables" => {
            let names: Vec<&str> =
                manifest.tables.iter().map(|table| table.name.as_str()).collect();
            json!(names).to_string()
        }
        "dictionary" => dictionary(arguments),
        // A test fills every notebook and finds any other word left as it stands.
        _ => format!("{{{{{word}}}}}"),
    }
}

fn provenance(manifest: &ResultsManifest) -> String {
    let archive = match &manifest.archive_sha256 {
        Some(digest) => format!(" of the archive with SHA-256 `{digest}`"),
        None => String::new(),
    };
    let notice = manifest.synthetic.notice();
    let synthetic = notice.map(|notice| format!(" **{notice}**")).unwrap_or_default();
    format!(
        "Results of wattrace {} (metric definitions {}){archive}.{synthetic}",
        manifest.tool_version, manifest.metric_definitions_version
    )
}

const fn stamp(synthetic: SyntheticShare) -> &'static str {
    match synthetic {
        SyntheticShare::None => "",
        SyntheticShare::Some => "partly synthetic data",
        SyntheticShare::All => "synthetic data",
    }
}

/// A Markdown table of the columns of each of the tables in `names`.
fn dictionary(names: &str) -> String {
    let declared = tables::declarations();
    let mut text = String::new();
    for table in names
        .split_whitespace()
        .filter_map(|name| declared.iter().find(|table| table.name() == name))
    {
        text += &format!(
            "**`{}`**, a row is {}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n",
            table.name(),
            table.row_meaning()
        );
        for column in table.columns() {
            text += &format!(
                "| `{}` | {} | {} | {} |\n",
                column.name,
                column.values.type_name(),
                column.unit.symbol(),
                column.meaning.replace('|', "\\|")
            );
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::Provenance;
    use crate::results::RunCounts;
    use crate::write::WrittenTable;

    fn manifest(tables: &[&str], synthetic: SyntheticShare) -> ResultsManifest {
        let provenance = Provenance {
            tool_version: "0.1.0".into(),
            metric_definitions_version: 1,
            options: json!({}),
            archive_sha256: Some("ab".into()),
            synthetic,
        };
        let mut manifest = ResultsManifest::new(&provenance, Vec::new(), RunCounts::default());
        manifest.tables = tables
            .iter()
            .map(|name| WrittenTable {
                name: (*name).into(),
                row: String::new(),
                rows: 0,
                columns: Vec::new(),
                files: Vec::new(),
            })
            .collect();
        manifest
    }

    fn text_of(name: &str, manifest: &ResultsManifest) -> String {
        let all = notebooks(manifest);
        let notebook = all.iter().find(|notebook| notebook.file == name).unwrap();
        let json: Value = serde_json::from_str(&notebook.json).unwrap();
        let cells = json["cells"].as_array().unwrap();
        let lines = cells.iter().flat_map(|cell| cell["source"].as_array().unwrap());
        lines.map(|line| line.as_str().unwrap()).collect()
    }

    #[test]
    fn every_word_in_braces_is_known() {
        let manifest = manifest(&["runs", "fits", "rank"], SyntheticShare::All);
        for notebook in notebooks(&manifest) {
            assert!(!notebook.json.contains("{{"), "{}", notebook.file);
        }
    }

    #[test]
    fn cells_without_their_table_are_left_out() {
        let with = manifest(&["runs", "fits"], SyntheticShare::None);
        let without = manifest(&["runs"], SyntheticShare::None);
        assert!(text_of("decode-model.ipynb", &with).contains("tables/fits.parquet"));
        assert!(!text_of("decode-model.ipynb", &without).contains("tables/fits.parquet"));
    }

    #[test]
    fn synthetic_results_say_so_in_every_notebook() {
        let manifest = manifest(&["runs"], SyntheticShare::All);
        for (name, _) in SOURCES {
            let text = text_of(&format!("{name}.ipynb"), &manifest);
            assert!(text.contains("All of these runs are synthetic"), "{name}");
        }
        assert!(text_of("serving.ipynb", &manifest).contains("axes.set_title(\"synthetic data\")"));
    }

    #[test]
    fn the_dictionary_has_every_column_of_the_table() {
        let text = dictionary("claims");
        assert!(text.starts_with("**`claims`**, a row is one published value of one run"));
        let row = "| `claimed` | double |  | The value as published. |";
        assert!(text.contains(row), "{text}");
    }
}
