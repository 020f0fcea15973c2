//! The tables of papers: declared, made from result tables, printed, and checked against what was
//! published.
//!
//! A [`Paper`] is a declaration in TOML; those of [`BUILT_IN`] are written in the same language. Each of
//! its tables is made from one result table, printed in a [`Document`], and compared cell by cell with
//! [`Published`] values. Everything but [`make`], [`compare_claims`] and the reading of result tables
//! behind them is a function of text and tables alone.

mod aggregate;
mod build;
mod builtin;
mod claims;
mod compare;
mod declaration;
mod filter;
mod number;
mod published;
mod render;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use builtin::{BUILT_IN, BuiltIn};
pub use claims::compare_claims;
pub use compare::{ComparedCell, Comparison, Counts, Verdict};
pub use declaration::{DeclarationError, Paper, paper_json_schema};
pub use number::{Digits, NumberFault, PublishedNumber};
pub use published::{Published, PublishedError};
pub use render::{Document, Format, Part, origin};
pub use table::{Cell, Content, PaperColumn, PaperTable};

use crate::error::ReportError;
use crate::results::{Results, StoredTable};

/// Why a table of a paper could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMade {
    /// The results do not hold the table that it is made from.
    #[error("the results hold no table \"{source_table}\"; they hold {available}")]
    NoSource {
        /// The table that is missing.
        source_table: String,
        /// Those that are there.
        available: String,
    },
    /// The declaration does not fit the source.
    #[error(transparent)]
    Declaration(DeclarationError),
}

/// A table of a paper, or why it could not be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Name of the table.
    pub name: String,
    /// Headings of its row keys.
    pub row_keys: Vec<String>,
    /// The table.
    pub table: Result<PaperTable, NotMade>,
}

/// Makes every table of a paper from results. One that cannot be made does not cost the others.
///
/// # Errors
/// When a result table cannot be read.
pub fn make(paper: &Paper, results: &Results) -> Result<Vec<Made>, ReportError> {
    let mut sources: BTreeMap<&str, StoredTable> = BTreeMap::new();
    for table in &paper.tables {
        let name = table.source.get_ref().as_str();
        if results.has_table(name) && !sources.contains_key(name) {
            sources.insert(name, results.table(name)?);
        }
    }
    let available: Vec<&str> =
        results.manifest().tables.iter().map(|table| table.name.as_str()).collect();
    let made = paper.tables.iter().map(|declaration| {
        let table = match sources.get(declaration.source.get_ref().as_str()) {
            None => Err(NotMade::NoSource {
                source_table: declaration.source.get_ref().clone(),
                available: available.join(", "),
            }),
            Some(source) => build::build(paper, declaration, source, results.manifest().synthetic)
                .map_err(NotMade::Declaration),
        };
        let row_keys = declaration.rows.iter().map(|key| key.get_ref().0.heading().to_owned());
        let name = declaration.name.get_ref().0.clone();
        Made { name, row_keys: row_keys.collect(), table }
    });
    Ok(made.collect())
}

/// Compares the tables of a paper with what was published of them. `percent` of a published value is
/// tolerated on top of half a unit in its last place. A table without published values is left out; the
/// values of one that could not be made cannot be had.
///
/// # Errors
/// When the published values do not fit the tables.
pub fn compare_with_published(
    made: &[Made],
    published: &Published,
    percent: f64,
) -> Result<Vec<Comparison>, PublishedError> {
    published
        .tables
        .iter()
        .map(|values| {
            let fault = |message: String| PublishedError {
                path: published.path.clone(),
                line: values.heading.line,
                column: None,
                message,
            };
            let names: Vec<&str> = made.iter().map(|made| made.name.as_str()).collect();
            let found = match (&values.name, made) {
                (None, [only]) => Some(only),
                (None, _) => {
                    let message = format!(
                        "the paper has the tables {}; expected a line \"# table: NAME\" before each",
                        names.join(", ")
                    );
                    return Err(fault(message));
                }
                (Some(name), _) => made.iter().find(|made| made.name == *name),
            };
            let Some(found) = found else {
                let name = values.name.as_deref().unwrap_or_default();
                let message = format!(
                    "the paper has no table \"{name}\"; expected one of {}",
                    names.join(", ")
                );
                return Err(fault(message));
            };
            match &found.table {
                Ok(table) => compare::compare(table, values, published, percent),
                Err(why) => {
                    Ok(compare::compare_with_nothing(found, values, &why.to_string()))
                }
            }
        })
        .collect()
}
