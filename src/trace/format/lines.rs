//! Reads a text file line by line in bounded memory.

use std::io::{BufRead, Read as _};
use std::path::{Path, PathBuf};

use super::{Bytes, Input};
use crate::TraceError;

/// Longest line that is read; loadgen's digests of its own sources fill 140 kB.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Number, from 1.
    pub number: u64,
    /// Text without its end, or what is wrong with it.
    pub text: Result<&'a str, &'static str>,
    /// Whether the line was ended; false only for a last line that may have been cut off.
    pub ended: bool,
}

/// The lines of a file.
#[derive(Debug)]
pub struct Lines<R> {
    path: PathBuf,
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

impl Lines<Bytes> {
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        Input::new(path).lines()
    }
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(path: &Path, reader: R) -> Self {
        Self { path: path.to_owned(), reader, buffer: Vec::new(), number: 0 }
    }

    /// The next line, or `None` at the end of the file.
    ///
    /// # Errors
    /// When the file cannot be read or a line is absurdly long.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        self.buffer.clear();
        let mut bounded = (&mut self.reader).take(MAX_LINE_BYTES);
        let read = bounded.read_until(b'\n', &mut self.buffer);
        if read.map_err(TraceError::io("read", &self.path))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let ended = self.buffer.ends_with(b"\n");
        if !ended && self.buffer.len() as u64 == MAX_LINE_BYTES {
            return Err(TraceError::Format {
                path: self.path.clone(),
                line: Some(self.number),
                message: format!("is longer than {MAX_LINE_BYTES} bytes; expected a line of text"),
            });
        }
        let mut bytes = self.buffer.as_slice();
        if self.number == 1 {
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        let text = std::str::from_utf8(bytes)
            .map(|text| text.trim_end_matches(['\n', '\r']))
            .map_err(|_| "is not UTF-8 text");
        Ok(Some(Line { number: self.number, text, ended }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<(u64, Result<String, &'static str>, bool)> {
        let mut lines = Lines::new(Path::new("log"), bytes);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push((line.number, line.text.map(str::to_owned), line.ended));
        }
        all
    }

    #[test]
    fn lines_keep_their_numbers_and_lose_their_ends() {
        assert_eq!(
            all(b"\xef\xbb\xbfone\r\n\n\xff\nlast"),
            [
                (1, Ok("one".to_owned()), true),
                (2, Ok(String::new()), true),
                (3, Err("is not UTF-8 text"), true),
                (4, Ok("last".to_owned()), false),
            ]
        );
        assert!(all(b"").is_empty());
    }

    #[test]
    fn an_endless_line_is_an_error_that_names_it() {
        let mut text = b"first\n".to_vec();
        text.resize(MAX_LINE_BYTES as usize + 10, b'x');
        let mut lines = Lines::new(Path::new("log"), text.as_slice());
        assert!(lines.next_line().unwrap().is_some());
        assert_eq!(
            lines.next_line().unwrap_err().to_string(),
            "\"log\" line 2: is longer than 4194304 bytes; expected a line of text"
        );
    }
}
