//! Tables of delimited text: commas, semicolons or tabs, quoted cells, headers that repeat.

use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

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

/// The rows of a table, one after the other. Blank lines are passed over.
pub(super) struct Rows {
    input: Input,
    reader: csv::Reader<LastByte>,
    last_byte: Rc<Cell<u8>>,
    ahead: Option<Row>,
    record: csv::ByteRecord,
}

impl Rows {
    /// The rows of `input`, header included.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub(super) fn open(input: &Input, dialect: Dialect) -> Result<Self, TraceError> {
        let last_byte = Rc::new(Cell::new(b'\n'));
        let bytes = LastByte { bytes: input.open()?, last: Rc::clone(&last_byte) };
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(dialect.separator)
            .quoting(dialect.quoting)
            .from_reader(bytes);
        let record = csv::ByteRecord::new();
        let mut rows = Self { input: input.clone(), reader, last_byte, ahead: None, record };
        rows.ahead = rows.read()?;
        Ok(rows)
    }

    /// The next row, or `None` at the end.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub(super) fn next_row(&mut self) -> Result<Option<Row>, TraceError> {
        let next = self.read()?;
        let mut row = std::mem::replace(&mut self.ahead, next);
        if let (Some(row), None) = (&mut row, &self.ahead) {
            row.ended = self.last_byte.get() == b'\n';
        }
        Ok(row)
    }

    fn read(&mut self) -> Result<Option<Row>, TraceError> {
        loop {
            let path = self.input.path();
            let more =
                self.reader.read_byte_record(&mut self.record).map_err(|error| {
                    match error.into_kind() {
                        csv::ErrorKind::Io(error) => TraceError::io("read", path)(error),
                        kind => TraceError::Other(format!("\"{}\": {kind:?}", path.display())),
                    }
                })?;
            if !more {
                return Ok(None);
            }
            let line = self.record.position().map_or(0, csv::Position::line);
            let mut cells: Vec<String> = self
                .record
                .iter()
                .map(|cell| String::from_utf8_lossy(cell).trim().to_owned())
                .collect();
            if let Some(first) = cells.first_mut().filter(|_| line == 1) {
                if let Some(rest) = first.strip_prefix('\u{feff}') {
                    *first = rest.to_owned();
                }
            }
            if cells.iter().any(|cell| !cell.is_empty()) {
                return Ok(Some(Row { line, cells, ended: true }));
            }
        }
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rows").field("input", &self.input).finish_non_exhaustive()
    }
}

/// Remembers the last byte that passed.
struct LastByte {
    bytes: Bytes,
    last: Rc<Cell<u8>>,
}

impl Read for LastByte {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.bytes.read(buffer)?;
        if let Some(last) = buffer[..length].last() {
            self.last.set(*last);
        }
        Ok(length)
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
