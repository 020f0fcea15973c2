//! Tables as Markdown, CSV and LaTeX.

mod csv;
mod latex;
mod markdown;

use serde_json::{Value, json};

use super::table::PaperTable;
use crate::results::ResultsManifest;

/// How tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// GitHub's Markdown.
    Markdown,
    /// CSV with the digits that are printed elsewhere, so that it can be compared with itself. Captions and
    /// notes are comment lines that begin with `#`.
    Csv,
    /// LaTeX with the package booktabs.
    Latex,
}

/// Tables with what belongs around them.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Title.
    pub title: Option<String>,
    /// The tables, and those that could not be made.
    pub parts: Vec<Part>,
    /// A summary below the tables.
    pub summary: Option<String>,
    /// Where the numbers come from.
    pub origin: String,
}

/// One part of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A table.
    Table(PaperTable),
    /// A table that could not be made.
    Missing {
        /// Its name.
        name: String,
        /// Why it could not be made.
        why: String,
    },
}

/// What a document says about the results that it is made from.
#[must_use]
pub fn origin(manifest: &ResultsManifest) -> String {
    let archive = manifest
        .archive_sha256
        .as_ref()
        .map(|digest| format!(", archive SHA-256 {digest}"))
        .unwrap_or_default();
    format!(
        "Made by {} {} (metric definitions {}) from results of version {}{archive}.",
        manifest.tool,
        env!("CARGO_PKG_VERSION"),
        manifest.metric_definitions_version,
        manifest.tool_version,
    )
}

impl Document {
    /// The document as text.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Markdown => markdown::render(self),
            Format::Csv => csv::render(self),
            Format::Latex => latex::render(self),
        }
    }

    /// The document with every number in full.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tables: Vec<Value> = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Table(table) => table.to_json(),
                Part::Missing { name, why } => json!({ "table": name, "not_made": why }),
            })
            .collect();
        json!({ "title": self.title, "tables": tables, "origin": self.origin })
    }
}
