//! A table that fits its width and explains its gaps.

use std::fmt::Write;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table,
    TableStyle,
};
use wattrace_schema::Reason;

use super::TextStyle;
use super::wrap::{few, hanging, printable};

/// What stands in one place of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Text(String),
    /// There is no value, and this is why.
    Missing(Reason),
    /// There is nothing to say.
    Blank,
}

impl Entry {
    pub(crate) fn text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Blank, |text| Self::Text(text.into()))
    }

    fn shown(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Missing(_) => "–",
            Self::Blank => "",
        }
    }
}

/// How a column behaves when space is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Left-aligned names; moves into the caption if it says the same in every row.
    Identity,
    /// Left-aligned text that is always shown, in several lines if need be.
    Text,
    /// Right-aligned numbers. Those with the largest rank make room first; rank 0 never does.
    Number { rank: u8 },
}

/// One column.
#[derive(Debug, Clone)]
struct GridColumn {
    /// Heading, in several lines.
    heading: String,
    /// Name in captions and notes.
    name: String,
    place: Place,
    /// One entry a row.
    entries: Vec<Entry>,
}

/// A table with a title, a caption and notes.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    title: String,
    /// Name of each row, for notes.
    row_names: Vec<String>,
    columns: Vec<GridColumn>,
    /// Where the rows and columns stand that are not shown.
    full_table: &'static str,
}

/// Builds a table column by column from its rows.
pub(super) struct GridBuilder<'a, R> {
    rows: &'a [R],
    grid: Grid,
}

impl<'a, R> GridBuilder<'a, R> {
    /// A table with a row for each of `rows`, whose names stand in notes; `full_table` is the file that
    /// holds what is not shown.
    pub(super) fn new(
        title: &str,
        full_table: &'static str,
        rows: &'a [R],
        name: impl Fn(&R) -> String,
    ) -> Self {
        let row_names = rows.iter().map(name).collect();
        let grid = Grid { title: title.to_owned(), row_names, columns: Vec::new(), full_table };
        Self { rows, grid }
    }

    /// Adds a column; `name` stands in captions and notes.
    pub(super) fn column(
        mut self,
        name: &str,
        heading: &str,
        place: Place,
        entry: impl Fn(&R) -> Entry,
    ) -> Self {
        let entries = self.rows.iter().map(entry).collect();
        let (name, heading) = (name.to_owned(), heading.to_owned());
        self.grid.columns.push(GridColumn { heading, name, place, entries });
        self
    }

    pub(super) fn build(self) -> Grid {
        self.grid
    }
}

impl Grid {
    /// The table as text; nothing if it has no rows.
    pub(super) fn render(mut self, style: TextStyle) -> String {
        if self.row_names.is_empty() {
            return String::new();
        }
        let missing = self.missing_notes(style.width);
        let caption = self.move_constants_to_caption();
        self.columns
            .retain(|column| column.entries.iter().any(|entry| matches!(entry, Entry::Text(_))));
        let dropped = self.drop_until_it_fits(style.width);

        let mut out = format!("{}\n", emphasised(&self.title, style.colour));
        if !caption.is_empty() {
            out.push_str(&hanging("", &caption, style.width));
        }
        // Names alone say nothing that the notes do not.
        if !self.columns.iter().any(|column| matches!(column.place, Place::Number { .. })) {
            return out + &missing;
        }
        out.push_str(&self.table(style).trim_fmt());
        out.push('\n');
        if let Some(more) =
            self.row_names.len().checked_sub(style.max_rows).filter(|more| *more > 0)
        {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "… and {more} more in {}", self.full_table);
        }
        if !dropped.is_empty() {
            let names = format!("{} (in {})", dropped.join(", "), self.full_table);
            out.push_str(&hanging("not shown at this width: ", &names, style.width));
        }
        out.push_str(&missing);
        out
    }

    /// One note for every reason and set of rows, naming the columns.
    fn missing_notes(&self, width: usize) -> String {
        let mut notes: Vec<(Reason, Vec<usize>, Vec<&str>)> = Vec::new();
        for column in &self.columns {
            let mut by_reason: Vec<(Reason, Vec<usize>)> = Vec::new();
            for (row, entry) in column.entries.iter().enumerate() {
                let Entry::Missing(reason) = entry else { continue };
                match by_reason.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, rows)) => rows.push(row),
                    None => by_reason.push((*reason, vec![row])),
                }
            }
            for (reason, rows) in by_reason {
                match notes.iter_mut().find(|note| note.0 == reason && note.1 == rows) {
                    Some((_, _, names)) => names.push(&column.name),
                    None => notes.push((reason, rows, vec![&column.name])),
                }
            }
        }
        notes
            .iter()
            .map(|(reason, rows, columns)| {
                let note = format!("{}: {reason} ({})", columns.join(", "), self.row_list(rows));
                hanging("– ", &note, width)
            })
            .collect()
    }

    fn row_list(&self, rows: &[usize]) -> String {
        if rows.len() == self.row_names.len() {
            return "every row".to_owned();
        }
        let names: Vec<&str> = rows.iter().map(|row| self.row_names[*row].as_str()).collect();
        few(&names)
    }

    fn move_constants_to_caption(&mut self) -> String {
        let mut caption = Vec::new();
        self.columns.retain(|column| {
            let first = column.entries.first();
            let constant = column.place == Place::Identity
                && column.entries.iter().all(|entry| Some(entry) == first);
            if let Some(Entry::Text(text)) = first.filter(|_| constant) {
                caption.push(format!("{} {text}", column.name));
            }
            !constant
        });
        caption.join(" · ")
    }

    /// Takes out the least important number columns until the table is no wider than `width`; gives
    /// their names in the order of columns.
    fn drop_until_it_fits(&mut self, width: usize) -> Vec<String> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        while self.narrowest() > width {
            let ranks =
                self.columns.iter().enumerate().filter_map(|(index, column)| match column.place {
                    Place::Number { rank } if rank > 0 => Some((rank, index)),
                    _ => None,
                });
            let Some((_, index)) = ranks.max() else { break };
            self.columns.remove(index);
        }
        let shown = |name: &String| self.columns.iter().any(|column| column.name == *name);
        names.into_iter().filter(|name| !shown(name)).collect()
    }

    /// Characters that the table needs when names and texts may break into lines.
    fn narrowest(&self) -> usize {
        /// Below this, names fall apart.
        const READABLE_NAME: usize = 20;
        let column_width = |column: &GridColumn| {
            let heading =
                column.heading.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            let entries =
                column.entries.iter().map(|entry| entry.shown().chars().count()).max().unwrap_or(0);
            let content = match column.place {
                Place::Number { .. } => entries,
                Place::Identity | Place::Text => entries.min(READABLE_NAME),
            };
            heading.max(content) + PADDING.0 as usize + PADDING.1 as usize
        };
        let between_columns = self.columns.len().saturating_sub(1);
        self.columns.iter().map(column_width).sum::<usize>() + between_columns
    }

    fn table(&self, style: TextStyle) -> Table {
        let mut table = Table::new();
        let line = LineStyle::none().fill('─').junction('─');
        table
            .load_style(TableStyle::new().header_separator(line))
            .force_no_tty()
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(style.width).unwrap_or(u16::MAX));
        if style.colour {
            table.enforce_styling();
        }
        table.set_header(self.columns.iter().map(|column| {
            Cell::new(&column.heading)
                .set_alignment(alignment(column.place))
                .add_attribute(Attribute::Bold)
        }));
        for row in 0..self.row_names.len().min(style.max_rows) {
            table.add_row(self.columns.iter().map(|column| {
                let entry = &column.entries[row];
                let cell =
                    Cell::new(printable(entry.shown())).set_alignment(alignment(column.place));
                match entry {
                    Entry::Missing(_) => cell.fg(Color::Yellow),
                    Entry::Text(_) | Entry::Blank => cell,
                }
            }));
        }
        for (shown, column) in table.column_iter_mut().zip(&self.columns) {
            shown.set_padding(PADDING);
            if matches!(column.place, Place::Number { .. }) {
                shown.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table
    }
}

/// Spaces left and right of every entry.
const PADDING: (u16, u16) = (0, 1);

const fn alignment(place: Place) -> CellAlignment {
    match place {
        Place::Identity | Place::Text => CellAlignment::Left,
        Place::Number { .. } => CellAlignment::Right,
    }
}

/// Bold text on a terminal.
pub(super) fn emphasised(text: &str, colour: bool) -> String {
    if colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}
