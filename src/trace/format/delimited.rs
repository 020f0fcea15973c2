//! Tables of delimited text: commas, semicolons or tabs, quoted cells, headers that repeat.

use std::io::{BufRead as _, Read as _};

use super::{Bytes, Input};
use crate::TraceError;

/// How the cells of a table are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    /// Between cells: `b','`, `b';'`, `b'\t'`.
    pub(super) separator: u8,
    /// Whether a cell may stand in double quotes. Off for formats that never quote, where a stray quote
    /// would swallow the lines after it.
    pub(super) quoting: bool,
}

impl Dialect {
    /// Commas and quotes.
    pub(super) const COMMA: Self = Self { separator: b',', quoting: true };

    /// Quotes, and whichever of comma, semicolon and tab the header line has most of.
    #[must_use]
    pub(super) fn of_header(line: &str) -> Self {
        let count = |separator: u8| line.bytes().filter(|byte| *byte == separator).count();
        let mut best = b',';
        for separator in [b';', b'\t'] {
            if count(separator) > count(best) {
                best = separator;
            }
        }
        Self { separator: best, quoting: true }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Number of its first line, from 1.
    pub line: u64,
    /// Cells, without the blanks around them.
    pub(super) cells: Vec<String>,
    /// Whether its last line was ended; false only for a last row that may have been cut off.
    pub(super) ended: bool,
}

impl Row {
    /// The cell in a column; `None` where the row is too short.
    #[must_use]
    pub(super) fn get(&self, column: usize) -> Option<&str> {
        self.cells.get(column).map(String::as_str)
    }
}

/// Longest row that is read, with the lines that its quoted cells run over.
const MAX_ROW_BYTES: usize = 4 << 20;

/// The rows of a table, one after the other. Blank lines are passed over.
pub(super) struct Rows {
    input: Input,
    reader: Bytes,
    dialect: Dialect,
    /// Number of the line read last.
    line: u64,
    bytes: Vec<u8>,
}

impl Rows {
    /// The rows of `input`, header included.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub(super) fn open(input: &Input, dialect: Dialect) -> Result<Self, TraceError> {
        let (input, reader) = (input.clone(), input.open()?);
        Ok(Self { input, reader, dialect, line: 0, bytes: Vec::new() })
    }

    /// The next row, or `None` at the end.
    ///
    /// # Errors
    /// When the input cannot be read, or a row is absurdly long.
    pub(super) fn next_row(&mut self) -> Result<Option<Row>, TraceError> {
        loop {
            self.bytes.clear();
            if !self.read_line()? {
                return Ok(None);
            }
            let line = self.line;
            if line == 1 && self.bytes.starts_with(b"\xef\xbb\xbf") {
                self.bytes.drain(..3);
            }
            let cells = self.cells()?;
            if cells.iter().any(|cell| !cell.is_empty()) {
                return Ok(Some(Row { line, cells, ended: self.bytes.ends_with(b"\n") }));
            }
        }
    }

    /// The cells of the row that begins with the line at hand. A quoted cell runs over the ends of lines.
    fn cells(&mut self) -> Result<Vec<String>, TraceError> {
        loop {
            let text = String::from_utf8_lossy(&self.bytes);
            let open = match split(text.trim_end_matches(['\r', '\n']), self.dialect) {
                Ok(cells) => return Ok(cells),
                Err(open) => open,
            };
            // Only a line with a quote can close the cell; the others are not looked through again.
            loop {
                let from = self.bytes.len();
                if !self.read_line()? {
                    return Ok(open);
                }
                if self.bytes[from..].contains(&b'"') {
                    break;
                }
            }
        }
    }

    /// Appends a line to the bytes at hand; `false` at the end of the input.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        let room = (MAX_ROW_BYTES + 1).saturating_sub(self.bytes.len()) as u64;
        let mut bounded = (&mut self.reader).take(room);
        let read = bounded.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(TraceError::io("read", self.input.path()))?;
        self.line += u64::from(read > 0);
        if self.bytes.len() > MAX_ROW_BYTES {
            let message = format!(
                "begins a row of more than {MAX_ROW_BYTES} bytes; expected a row of a table, with every quote \
                 closed"
            );
            return Err(self.input.error(Some(self.line), message));
        }
        Ok(read > 0)
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rows").field("input", &self.input).finish_non_exhaustive()
    }
}

/// The cells of a row, without the blanks around them and with their quotes undone; the error holds the
/// cells where the last one lacks its closing quote.
fn split(text: &str, dialect: Dialect) -> Result<Vec<String>, Vec<String>> {
    let separator = char::from(dialect.separator);
    let mut cells = Vec::new();
    let mut rest = text;
    loop {
        let start = rest.trim_start_matches(|character: char| {
            character.is_whitespace() && character != separator
        });
        if let (true, Some(quoted)) = (dialect.quoting, start.strip_prefix('"')) {
            let Some((cell, after)) = unquote(quoted) else {
                cells.push(quoted.to_owned());
                return Err(cells);
            };
            // Text behind the closing quote belongs to the cell as it stands.
            let (behind, next) = match after.split_once(separator) {
                Some((behind, next)) => (behind, Some(next)),
                None => (after, None),
            };
            cells.push(format!("{cell}{}", behind.trim()));
            match next {
                Some(next) => rest = next,
                None => return Ok(cells),
            }
            continue;
        }
        match rest.split_once(separator) {
            Some((cell, next)) => {
                cells.push(cell.trim().to_owned());
                rest = next;
            }
            None => {
                cells.push(rest.trim().to_owned());
                return Ok(cells);
            }
        }
    }
}

/// The text up to the closing quote, with doubled quotes undone, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        cell.push_str(before);
        match after.strip_prefix('"') {
            Some(next) => {
                cell.push('"');
                rest = next;
            }
            None => return Some((cell, after)),
        }
    }
}

/// Where the columns of a table are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    names: Vec<String>,
}

impl Header {
    /// The names in a row.
    #[must_use]
    pub(super) fn new(row: &Row) -> Self {
        Self { names: row.cells.clone() }
    }

    /// The names.
    #[must_use]
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Place of the first column of that name.
    #[must_use]
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Place of the first column of that name.
    ///
    /// # Errors
    /// There is none; the message names those that are there.
    pub(super) fn require(&self, name: &str) -> Result<usize, String> {
        self.find(name).ok_or_else(|| {
            let quoted = |known: &String| format!("\"{}\"", known.escape_debug());
            let names: Vec<String> = self.names.iter().map(quoted).collect();
            format!("has no column \"{name}\"; its columns are {}", names.join(", "))
        })
    }

    /// Whether the row is the header once more.
    #[must_use]
    pub(super) fn repeats(&self, row: &Row) -> bool {
        self.names == row.cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: &[u8], dialect: Dialect) -> Vec<(u64, String, bool)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        std::fs::write(&path, bytes).unwrap();
        let mut rows = Rows::open(&Input::new(&path), dialect).unwrap();
        let mut all = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            all.push((row.line, row.cells.join("|"), row.ended));
        }
        all
    }

    #[test]
    fn cells_are_trimmed_quotes_undone_and_blank_lines_passed_over() {
        let text = b"\xef\xbb\xbfa, b\r\n\r\n 1 ,\"x, y\"\n , \n\"two\nlines\",\xff,3\n4, 5";
        assert_eq!(
            rows(text, Dialect::COMMA),
            [
                (1, "a|b".to_owned(), true),
                (3, "1|x, y".to_owned(), true),
                (5, "two\nlines|\u{fffd}|3".to_owned(), true),
                (7, "4|5".to_owned(), false),
            ]
        );
        assert!(rows(b"", Dialect::COMMA).is_empty());
    }

    #[test]
    fn a_stray_quote_swallows_nothing_where_quotes_are_off() {
        let dialect = Dialect { separator: b';', quoting: false };
        assert_eq!(
            rows(b"a;\"b\nc;d\n", dialect),
            [(1, "a|\"b".to_owned(), true), (2, "c|d".to_owned(), true)]
        );
    }

    #[test]
    fn quotes_are_undone_and_one_that_is_never_closed_is_bounded() {
        assert_eq!(
            rows(b"\"say \"\"x\"\"\", \"\" , \"a\"b,c\n\"open,d\n", Dialect::COMMA),
            [(1, "say \"x\"||ab|c".to_owned(), true), (2, "open,d".to_owned(), true)]
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        std::fs::write(&path, format!("a\n\"{}", "x\n".repeat(MAX_ROW_BYTES))).unwrap();
        let mut rows = Rows::open(&Input::new(&path), Dialect::COMMA).unwrap();
        assert!(rows.next_row().unwrap().is_some());
        let error = rows.next_row().unwrap_err().to_string();
        assert!(error.ends_with("with every quote closed"), "{error}");
    }

    #[test]
    fn the_separator_is_the_one_that_the_header_has() {
        assert_eq!(Dialect::of_header("a;b;c, d").separator, b';');
        assert_eq!(Dialect::of_header("a\tb").separator, b'\t');
        assert_eq!(Dialect::of_header("a").separator, b',');
        let row = Row { line: 1, cells: vec!["a".into(), "b".into()], ended: true };
        let header = Header::new(&row);
        assert_eq!(header.find("b"), Some(1));
        assert!(header.repeats(&row));
        assert_eq!(
            header.require("c").unwrap_err(),
            "has no column \"c\"; its columns are \"a\", \"b\""
        );
    }
}
