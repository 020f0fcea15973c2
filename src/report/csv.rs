//! CSV as RFC 4180 says, with LF line ends. polars' own writer has no lists and no RFC 3339 times.
//!
//! A missing value is an empty field and an empty text is `""`; numbers have as many digits as they
//! need to read back equal.

use std::io::{self, Write};

use wattrace_schema::TimestampNs;

use crate::table::{ColumnValues, ResultTable};

/// Writes the heading.
pub(crate) fn write_heading(table: &ResultTable, out: &mut impl Write) -> io::Result<()> {
    for (index, column) in table.columns().iter().enumerate() {
        separate(index, out)?;
        write_text(&column.name, out)?;
    }
    out.write_all(b"\n")
}

/// Writes every row.
pub(crate) fn write_rows(table: &ResultTable, out: &mut impl Write) -> io::Result<()> {
    for row in 0..table.rows() {
        for (index, column) in table.columns().iter().enumerate() {
            separate(index, out)?;
            write_value(&column.values, row, out)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn separate(index: usize, out: &mut impl Write) -> io::Result<()> {
    if index > 0 { out.write_all(b",") } else { Ok(()) }
}

fn write_value(values: &ColumnValues, row: usize, out: &mut impl Write) -> io::Result<()> {
    match values {
        ColumnValues::Text(values) => {
            values[row].as_ref().map_or(Ok(()), |text| write_text(text, out))
        }
        // Debug is the shortest text that reads back equal, with an exponent where that is shorter.
        ColumnValues::F64(values) => values[row].map_or(Ok(()), |value| write!(out, "{value:?}")),
        ColumnValues::U64(values) => values[row].map_or(Ok(()), |value| write!(out, "{value}")),
        ColumnValues::Bool(values) => values[row].map_or(Ok(()), |value| write!(out, "{value}")),
        ColumnValues::Time(values) => {
            values[row].map_or(Ok(()), |value| write!(out, "{}", TimestampNs::from_nanos(value)))
        }
        ColumnValues::TextList(values) => {
            values[row].as_ref().map_or(Ok(()), |list| write_text(&list.join(";"), out))
        }
    }
}

fn write_text(text: &str, out: &mut impl Write) -> io::Result<()> {
    let must_be_quoted = text.is_empty() || text.contains([',', '"', '\n', '\r']);
    if must_be_quoted {
        out.write_all(quoted(text).as_bytes())
    } else {
        out.write_all(text.as_bytes())
    }
}

/// The text in quotation marks.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattrace_schema::Unit;

    #[test]
    fn values_read_back_equal_and_missing_differs_from_empty() {
        let rows = [0, 1, 2];
        let texts = [Some("a,\"b\"\nc"), Some(""), None];
        let numbers = [Some(0.1 + 0.2), Some(1e-300), None];
        let lists = [Some(vec!["x".to_owned(), "y".to_owned()]), Some(vec![]), None];
        let table = ResultTable::of("t", "one thing", &rows)
            .text("text", "Text.", |row| texts[*row])
            .number("number", Unit::None, "Number.", |row| numbers[*row])
            .time("time", "Time.", |row| (*row == 0).then_some(1_700_000_000_123_456_789))
            .boolean("yes", "Yes.", |row| (*row == 1).then_some(true))
            .text_list("list", "List.", |row| lists[*row].clone())
            .build();
        let mut bytes = Vec::new();
        write_heading(&table, &mut bytes).unwrap();
        write_rows(&table, &mut bytes).unwrap();
        let expected = "text,number,time,yes,list\n\
             \"a,\"\"b\"\"\nc\",0.30000000000000004,2023-11-14T22:13:20.123456789Z,,x;y\n\
             \"\",1e-300,,true,\"\"\n\
             ,,,,\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
