//! A table as a paper prints it.

use serde_json::{Value, json};

/// What stands in one place of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A number, in full and in the digits that are printed.
    Number {
        /// The number in the printed unit, not rounded.
        value: f64,
        /// Its digits.
        printed: String,
    },
    /// A text.
    Text(String),
    /// There is no value.
    Missing,
}

impl Content {
    /// The text without marks; a dash where there is no value.
    #[must_use]
    pub fn printed(&self) -> &str {
        match self {
            Self::Number { printed, .. } => printed,
            Self::Text(text) => text,
            Self::Missing => "–",
        }
    }
}

/// One place of a table, and what a reader must know about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What stands there.
    pub content: Content,
    /// Why there is no value, or what the value leaves out.
    pub remark: Option<String>,
}

impl Cell {
    /// A text without remark.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { content: Content::Text(text.into()), remark: None }
    }

    /// A number without remark.
    pub(super) const fn number(value: f64, printed: String) -> Self {
        Self { content: Content::Number { value, printed }, remark: None }
    }

    /// No value, and nothing to say.
    pub(super) const fn missing() -> Self {
        Self { content: Content::Missing, remark: None }
    }
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperColumn {
    /// Heading as printed, unit included.
    pub heading: String,
    /// Whether the column tells rows apart, and is not itself compared.
    pub is_key: bool,
    /// Whether the cells are numbers.
    pub is_number: bool,
    /// The cells, one a row.
    pub cells: Vec<Cell>,
}

/// A table as a paper prints it: row keys first, then values.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperTable {
    /// Name within the paper.
    pub name: String,
    /// Caption; says so where data are simulated.
    pub caption: String,
    /// The columns in order.
    pub columns: Vec<PaperColumn>,
    /// Number of rows.
    pub rows: usize,
    /// Notes that the paper's author gave.
    pub footnotes: Vec<String>,
}

/// The remarks of a table's cells, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notes {
    texts: Vec<String>,
}

impl Notes {
    /// The remarks in the order in which a reader meets them.
    pub(super) fn of(table: &PaperTable) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for row in 0..table.rows {
            for remark in
                table.columns.iter().filter_map(|column| column.cells[row].remark.as_ref())
            {
                if !texts.contains(remark) {
                    texts.push(remark.clone());
                }
            }
        }
        Self { texts }
    }

    /// The mark of a cell's remark.
    pub(super) fn mark(&self, cell: &Cell) -> Option<String> {
        let remark = cell.remark.as_ref()?;
        self.texts.iter().position(|text| text == remark).map(letters)
    }

    /// Every mark and remark.
    pub(super) fn iter(&self) -> impl Iterator<Item = (String, &str)> {
        self.texts.iter().enumerate().map(|(index, text)| (letters(index), text.as_str()))
    }
}

/// a, b, … z, aa, ab, …
fn letters(index: usize) -> String {
    const ALPHABET: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";
    let last = char::from(ALPHABET[index % ALPHABET.len()]);
    match index / ALPHABET.len() {
        0 => last.to_string(),
        more => format!("{}{last}", letters(more - 1)),
    }
}

impl PaperTable {
    /// The key cells of a row as printed.
    #[must_use]
    pub fn row_key(&self, row: usize) -> Vec<String> {
        let keys = self.columns.iter().filter(|column| column.is_key);
        keys.map(|column| column.cells[row].content.printed().to_owned()).collect()
    }

    /// The table with every number in full.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = (0..self.rows)
            .map(|row| {
                let cells = self
                    .columns
                    .iter()
                    .map(|column| (column.heading.clone(), cell_json(&column.cells[row])));
                Value::Object(cells.collect())
            })
            .collect();
        json!({
            "table": self.name,
            "caption": self.caption,
            "row_keys": self.columns.iter().filter(|column| column.is_key)
                .map(|column| column.heading.as_str()).collect::<Vec<_>>(),
            "rows": rows,
            "footnotes": self.footnotes,
        })
    }
}

fn cell_json(cell: &Cell) -> Value {
    let (value, printed) = match &cell.content {
        Content::Number { value, printed } => (json!(value), Some(printed)),
        Content::Text(text) => (json!(text), None),
        Content::Missing => (Value::Null, None),
    };
    match (printed, &cell.remark) {
        (None, None) => value,
        (None, Some(remark)) => json!({ "value": value, "remark": remark }),
        (Some(printed), None) => json!({ "value": value, "printed": printed }),
        (Some(printed), Some(remark)) => {
            json!({ "value": value, "printed": printed, "remark": remark })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_never_run_out() {
        let marks: Vec<String> = [0, 25, 26, 51, 52, 701, 702].map(letters).into();
        assert_eq!(marks, ["a", "z", "aa", "az", "ba", "zz", "aaa"]);
    }
}
