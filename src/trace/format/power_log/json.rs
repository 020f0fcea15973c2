//! JSON values that follow each other in a text: one a line, indented over many, with commas or other
//! lines between them.

use super::Problem;

/// Longest value; a tick of a large node is a few hundred kB.
const MAX_BYTES: usize = 64 << 20;

/// What lies in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Piece {
    /// An object or a list, whole.
    Json(String),
    /// A line, or a part of one, outside of any.
    Text(String),
    /// A value of so many lines that was cut off, before another began.
    Cut(u64),
}

impl Piece {
    /// Calls `read` with every value, and every text outside of one, of `pieces`. After a problem with one
    /// the others are read all the same, unless nothing more can be.
    pub(in super::super) fn each(
        pieces: &[Self],
        mut read: impl FnMut(Found<'_>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut first = Ok(());
        for piece in pieces {
            let result = match piece {
                Self::Json(text) => read(Found::Json(text)),
                Self::Text(text) => read(Found::Text(text)),
                Self::Cut(lines) => {
                    Err(format!("the JSON value of {lines} lines before it was cut off").into())
                }
            };
            if matches!(result, Err(Problem::Stop(_))) {
                return result;
            }
            first = first.and(result);
        }
        first
    }
}

/// A piece that can be read.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Found<'a> {
    /// An object or a list, whole.
    Json(&'a str),
    /// Text outside of any.
    Text(&'a str),
}

/// Cuts text into values by counting brackets.
#[derive(Debug, Default)]
pub(in super::super) struct Pieces {
    buffer: String,
    depth: usize,
    in_string: bool,
    escaped: bool,
    lines_open: u64,
}

impl Pieces {
    /// Adds a line; gives what is complete.
    pub(in super::super) fn line(&mut self, line: &str) -> Result<Vec<Piece>, Problem> {
        let mut pieces = Vec::new();
        let mut outside = String::new();
        // Inside a value lines are indented, or elements of a list.
        let in_list = self.depth == 1 && self.buffer.starts_with('[');
        if self.depth > 0 && !in_list && line.starts_with(['{', '[']) {
            pieces.push(Piece::Cut(self.lines_open));
            *self = Self::default();
        }
        for character in line.chars() {
            if self.depth == 0 && !"{[".contains(character) {
                outside.push(character);
                continue;
            }
            if self.depth == 0 {
                add_text(&mut outside, &mut pieces);
            }
            self.buffer.push(character);
            if self.ends_with(character) {
                pieces.push(Piece::Json(std::mem::take(&mut self.buffer)));
                self.lines_open = 0;
            }
        }
        add_text(&mut outside, &mut pieces);
        if self.depth > 0 {
            self.buffer.push('\n');
            self.lines_open += 1;
        }
        if self.buffer.len() > MAX_BYTES {
            return Err(Problem::Stop(format!(
                "a JSON value of more than {} MB; expected one a reading",
                MAX_BYTES >> 20
            )));
        }
        Ok(pieces)
    }

    /// Follows the brackets; says whether the value ends with this character.
    fn ends_with(&mut self, character: char) -> bool {
        match character {
            _ if self.escaped => self.escaped = false,
            '\\' if self.in_string => self.escaped = true,
            '"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            '{' | '[' => self.depth += 1,
            '}' | ']' => {
                self.depth -= 1;
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }

    /// Says what is wrong if the text ends inside a value.
    pub(in super::super) fn end(&self) -> Result<(), Problem> {
        match self.depth {
            0 => Ok(()),
            _ => Err(Problem::Skip(format!(
                "the last JSON value, of {} lines, was cut off",
                self.lines_open
            ))),
        }
    }
}

/// Text between values counts unless it is only commas and blanks, or the closing bracket of a list.
fn add_text(outside: &mut String, pieces: &mut Vec<Piece>) {
    let text = outside.trim_matches(|c: char| c.is_whitespace() || c == ',');
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
    outside.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_at_their_brackets() {
        let mut pieces = Pieces::default();
        let json = |text: &str| Piece::Json(text.to_owned());
        assert_eq!(
            pieces.line(r#"CTRL + C: {"a": "}{\"]"} , [1]"#).unwrap(),
            [Piece::Text("CTRL + C:".into()), json(r#"{"a": "}{\"]"}"#), json("[1]")]
        );
        assert_eq!(pieces.line("{\"b\":").unwrap(), []);
        assert_eq!(
            pieces.end().unwrap_err(),
            Problem::Skip("the last JSON value, of 1 lines, was cut off".into())
        );
        assert_eq!(pieces.line("2},").unwrap(), [json("{\"b\":\n2}")]);
        assert_eq!(pieces.line("[").unwrap(), []);
        assert_eq!(pieces.line("{}]").unwrap(), [json("[\n{}]")]);
        assert_eq!(pieces.line("{\"c\": \"").unwrap(), []);
        assert_eq!(pieces.line("{}").unwrap(), [Piece::Cut(1), json("{}")]);
        assert!(pieces.end().is_ok());
    }
}
