//! Published values as a CSV file holds them.

use std::path::{Path, PathBuf};

/// A file of published values that cannot be compared: where it is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" line {line}{}: {message}", path.display(),
    column.as_ref().map(|column| format!(" column \"{column}\"")).unwrap_or_default())]
pub struct PublishedError {
    /// The file.
    pub path: PathBuf,
    /// Line at fault, counted from 1.
    pub line: usize,
    /// Column at fault.
    pub column: Option<String>,
    /// What was found and what is expected.
    pub message: String,
}

/// One line of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Line on which it begins, counted from 1.
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// The published values of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublishedTable {
    /// Name that a `# table:` line gives.
    pub(super) name: Option<String>,
    pub(super) heading: Record,
    pub(super) records: Vec<Record>,
}

/// A file of published values: CSV (RFC 4180) with a heading line. Lines that begin with `#` are
/// comments, except that `# table: NAME` says which table of the paper follows; empty lines separate.
///
/// The heading names every row key of the table and some of its columns, as `tables --format csv` prints
/// them. A long form is read too: the row keys, `column` and `value`. An empty field or a dash is a value
/// that was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub(super) path: PathBuf,
    pub(super) tables: Vec<PublishedTable>,
}

impl Published {
    /// Parses the text of a file; `path` is what messages call it.
    ///
    /// # Errors
    /// [`PublishedError`] names the line, what was found and what is expected.
    pub fn parse(text: &str, path: &Path) -> Result<Self, PublishedError> {
        let fault = |line: usize, message: String| PublishedError {
            path: path.to_owned(),
            line,
            column: None,
            message,
        };
        let mut tables: Vec<PublishedTable> = Vec::new();
        // The name of a table whose heading has not been read yet.
        let mut announced: Option<(usize, String)> = None;
        for line in lines(text.strip_prefix('\u{feff}').unwrap_or(text)) {
            match line.map_err(|line| {
                fault(line, "a quoted field does not end; expected a closing \"".to_owned())
            })? {
                Line::Comment { line, text } => {
                    let Some(name) = text.trim_start().strip_prefix("table:") else { continue };
                    // What follows the name, such as why a table could not be made, is for people.
                    let name = name.split_whitespace().next().unwrap_or_default().to_owned();
                    announced = Some((line, name));
                }
                Line::Record(record) => match tables.last_mut() {
                    Some(table) if announced.is_none() => {
                        check_length(&table.heading, &record, path)?;
                        table.records.push(record);
                    }
                    _ => {
                        let name = announced.take().map(|(_, name)| name);
                        tables.push(PublishedTable { name, heading: record, records: Vec::new() });
                    }
                },
            }
        }
        if tables.is_empty() {
            let message = "the file has no heading line; expected row keys and columns as \
                           `tables --format csv` prints them";
            return Err(fault(1, message.to_owned()));
        }
        let mut names: Vec<&Option<String>> = Vec::new();
        for table in &tables {
            if names.contains(&&table.name) {
                let name = table.name.as_deref().unwrap_or_default();
                let message = format!("table \"{name}\" comes twice; expected every table once");
                return Err(fault(table.heading.line, message));
            }
            names.push(&table.name);
        }
        Ok(Self { path: path.to_owned(), tables })
    }
}

fn check_length(heading: &Record, record: &Record, path: &Path) -> Result<(), PublishedError> {
    let (found, expected) = (record.fields.len(), heading.fields.len());
    if found == expected {
        return Ok(());
    }
    let message = format!(
        "{found} fields; expected {expected} as in the heading on line {} (a field with a comma, such \
         as 6,280.2, stands in quotation marks)",
        heading.line
    );
    Err(PublishedError { path: path.to_owned(), line: record.line, column: None, message })
}

enum Line {
    Comment { line: usize, text: String },
    Record(Record),
}

/// The comments and records of a CSV text; an error is the line of a quotation mark that is never closed.
fn lines(text: &str) -> impl Iterator<Item = Result<Line, usize>> {
    let mut rest = text;
    let mut line = 1;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let at = line;
            if let Some(comment) = rest.strip_prefix('#') {
                let (text, after) = comment.split_once('\n').unwrap_or((comment, ""));
                (rest, line) = (after, line + 1);
                return Some(Ok(Line::Comment { line: at, text: text.trim_end().to_owned() }));
            }
            let Some((fields, after)) = record(rest) else {
                rest = "";
                return Some(Err(at));
            };
            line += rest[..rest.len() - after.len()].matches('\n').count();
            rest = after;
            if fields.iter().any(|field| !field.is_empty()) {
                return Some(Ok(Line::Record(Record { line: at, fields })));
            }
        }
    })
}

/// The fields up to the end of the line, without spaces around them, and the text after it.
fn record(text: &str) -> Option<(Vec<String>, &str)> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let unquoted = rest.trim_start_matches([' ', '\t']);
        let (field, after) = match unquoted.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find([',', '\n']).unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Some((fields, after.strip_prefix('\n').unwrap_or(after))),
        }
    }
}

/// The text up to the closing quotation mark, and what follows from the next comma or line end on.
fn quoted_field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => break,
        }
    }
    let end = rest.find([',', '\n']).unwrap_or(rest.len());
    field.push_str(rest[..end].trim());
    Some((field, &rest[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Published, PublishedError> {
        Published::parse(text, Path::new("p.csv"))
    }

    #[test]
    fn comments_name_tables_and_quotes_keep_commas() {
        let text = "\u{feff}# measured in May\r\n# table: power\r\nmodel,\"power (W)\"\r\n\
                    \"a \"\"b\"\"\",\"6,280.2\"\r\n\r\n# table: speed not made: no rank\n\
                    model, speed \nx, \n";
        let published = parse(text).unwrap();
        let [power, speed] = published.tables.as_slice() else { panic!("{published:?}") };
        assert_eq!(power.name.as_deref(), Some("power"));
        assert_eq!(power.heading.fields, ["model", "power (W)"]);
        assert_eq!(
            power.records,
            [Record { line: 4, fields: vec!["a \"b\"".into(), "6,280.2".into()] }]
        );
        assert_eq!(speed.name.as_deref(), Some("speed"));
        assert_eq!((speed.heading.line, speed.heading.fields[1].as_str()), (7, "speed"));
        assert_eq!(speed.records[0].fields, ["x", ""]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("model,power\nx,6,280.2\n"),
            "\"p.csv\" line 2: 3 fields; expected 2 as in the heading on line 1 (a field with a comma, \
             such as 6,280.2, stands in quotation marks)"
        );
        assert_eq!(
            message("model,power\n\"x,1\n"),
            "\"p.csv\" line 2: a quoted field does not end; expected a closing \""
        );
        assert!(message("# nothing\n").contains("has no heading line"));
        assert!(
            message("# table: a\nm\n# table: a\nm\n").contains("line 4: table \"a\" comes twice")
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[\",#a\n\r ]{0,40}") {
            let _ = parse(&text);
        }
    }
}
