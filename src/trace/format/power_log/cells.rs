//! Cells of one line of CSV, and columns by name.

use std::borrow::Cow;

/// The cells of a line, trimmed. A cell in double quotes may hold the separator, and doubled quotes.
pub(in super::super) fn split_cells(line: &str, separator: char) -> Vec<Cow<'_, str>> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let trimmed = rest.trim_start_matches([' ', '\t'].as_slice());
        let Some(quoted) = trimmed.strip_prefix('"') else {
            match rest.split_once(separator) {
                Some((cell, after)) => {
                    cells.push(Cow::Borrowed(cell.trim()));
                    rest = after;
                    continue;
                }
                None => {
                    cells.push(Cow::Borrowed(rest.trim()));
                    return cells;
                }
            }
        };
        let (cell, after) = unquote(quoted);
        cells.push(cell);
        match after.split_once(separator) {
            Some((_, after)) => rest = after,
            None => return cells,
        }
    }
}

/// A quoted cell after its opening quote, and what follows its closing one.
fn unquote(text: &str) -> (Cow<'_, str>, &str) {
    let mut from = 0;
    let mut doubled = false;
    while let Some(at) = text[from..].find('"').map(|at| from + at) {
        if text[at + 1..].starts_with('"') {
            doubled = true;
            from = at + 2;
            continue;
        }
        let cell = &text[..at];
        let cell =
            if doubled { Cow::Owned(cell.replace("\"\"", "\"")) } else { Cow::Borrowed(cell) };
        return (cell, &text[at + 1..]);
    }
    (Cow::Borrowed(text), "")
}

/// A header: names of columns, each with the unit in brackets behind it, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Columns {
    /// Name in lower case, and unit as it stands.
    columns: Vec<(String, String)>,
}

impl Columns {
    /// Reads `timestamp, power.draw [W], energy (kWh)`.
    pub(in super::super) fn parse(line: &str, separator: char) -> Self {
        let column = |cell: Cow<'_, str>| {
            let text = cell.trim();
            let bracketed =
                text.strip_suffix([']', ')']).and_then(|text| text.rsplit_once(['[', '(']));
            match bracketed {
                Some((name, unit)) => (name.trim().to_lowercase(), unit.trim().to_owned()),
                None => (text.to_lowercase(), String::new()),
            }
        };
        Self { columns: split_cells(line, separator).into_iter().map(column).collect() }
    }

    /// How many columns there are.
    pub(in super::super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Place of the first column that has one of these names.
    pub(in super::super) fn find(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.columns.iter().position(|(column, _)| column == name))
    }

    /// Name of a column, in lower case.
    pub(in super::super) fn name(&self, place: usize) -> &str {
        self.columns.get(place).map_or("", |(name, _)| name)
    }

    /// Unit of a column, or `default` where the header has none.
    pub(in super::super) fn unit<'a>(&'a self, place: usize, default: &'a str) -> &'a str {
        match self.columns.get(place) {
            Some((_, unit)) if !unit.is_empty() => unit,
            _ => default,
        }
    }

    /// Every column: its place, name in lower case, and unit.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        self.columns
            .iter()
            .enumerate()
            .map(|(place, (name, unit))| (place, name.as_str(), unit.as_str()))
    }

    /// Says what is wrong with a line of this many cells, if something is.
    pub(in super::super) fn check_cells(&self, cells: usize) -> Result<(), String> {
        if cells == self.len() {
            return Ok(());
        }
        Err(format!("has {cells} cells; expected {} as in the header", self.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_cells_hold_separators_and_quotes() {
        assert_eq!(split_cells("a, b ,c", ','), ["a", "b", "c"]);
        assert_eq!(split_cells("1,\"['N/A', 2]\",3", ','), ["1", "['N/A', 2]", "3"]);
        assert_eq!(split_cells("\"a \"\"b\"\"\" , 2", ','), ["a \"b\"", "2"]);
        assert_eq!(split_cells("1,\"open, end", ','), ["1", "open, end"]);
        assert_eq!(split_cells("a;b;", ';'), ["a", "b", ""]);
        assert_eq!(split_cells("", ','), [""]);
    }

    #[test]
    fn a_header_names_columns_and_units() {
        let columns = Columns::parse("timestamp, power.draw [W], Energy (kWh), index", ',');
        assert_eq!((columns.len(), columns.find(&["gpu", "index"])), (4, Some(3)));
        assert_eq!(
            (columns.unit(1, "?"), columns.unit(2, "?"), columns.unit(3, "?")),
            ("W", "kWh", "?")
        );
        assert_eq!(columns.find(&["energy"]), Some(2));
        assert_eq!(columns.check_cells(3).unwrap_err(), "has 3 cells; expected 4 as in the header");
    }
}
