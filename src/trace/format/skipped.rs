//! What was left out of an input: how often, where, and why.

use std::path::Path;

use super::file_name;
use crate::TraceError;

/// Line numbers that are named; the others are counted.
const NAMED_LINES: usize = 10;

/// Lines of an input that were left out, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skipped {
    kinds: Vec<Kind>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    what: &'static str,
    count: u64,
    lines: Vec<u64>,
    first: String,
}

impl Skipped {
    /// Counts a line that is left out; with `strict` it is an error instead. `what` names the kind in the
    /// plural, such as `"lines"` or `"rows without a time"`; `message` says what is wrong with this one.
    ///
    /// # Errors
    /// Only with `strict`.
    pub fn add(
        &mut self,
        strict: bool,
        path: &Path,
        line: u64,
        what: &'static str,
        message: String,
    ) -> Result<(), TraceError> {
        if strict {
            return Err(TraceError::Format { path: path.to_owned(), line: Some(line), message });
        }
        match self.kinds.iter_mut().find(|kind| kind.what == what) {
            Some(kind) => {
                kind.count += 1;
                if kind.lines.len() < NAMED_LINES {
                    kind.lines.push(line);
                }
            }
            None => self.kinds.push(Kind { what, count: 1, lines: vec![line], first: message }),
        }
        Ok(())
    }

    /// How many were left out.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.count).sum()
    }

    /// One note for each kind, with line numbers.
    #[must_use]
    pub fn notes(&self, path: &Path) -> Vec<String> {
        self.kinds.iter().map(|kind| kind.note(path)).collect()
    }
}

impl Kind {
    fn note(&self, path: &Path) -> String {
        let (file, first) = (file_name(path), &self.first);
        if let [line] = self.lines.as_slice() {
            return format!("{file} line {line} skipped: {first}");
        }
        let mut lines: Vec<String> = self.lines.iter().map(u64::to_string).collect();
        let unnamed = self.count - self.lines.len() as u64;
        if unnamed > 0 {
            lines.push(format!("and {unnamed} more"));
        }
        format!(
            "{file}: {} {} skipped, {}; line {}: {first}",
            self.count,
            self.what,
            lines.join(", "),
            self.lines[0]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart_with_their_lines() {
        let path = Path::new("in/gpu.csv");
        let mut skipped = Skipped::default();
        for line in 3..15 {
            skipped.add(false, path, line, "lines", format!("is odd {line}")).unwrap();
        }
        skipped.add(false, path, 20, "rows without a time", "has no time".into()).unwrap();
        assert_eq!(skipped.count(), 13);
        assert_eq!(
            skipped.notes(path),
            [
                "gpu.csv: 12 lines skipped, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, and 2 more; line 3: is odd 3",
                "gpu.csv line 20 skipped: has no time",
            ]
        );
    }

    #[test]
    fn strict_makes_the_first_an_error() {
        let error = Skipped::default()
            .add(true, Path::new("gpu.csv"), 3, "lines", "is odd; expected a number".into())
            .unwrap_err();
        assert_eq!(error.to_string(), "\"gpu.csv\" line 3: is odd; expected a number");
    }
}
