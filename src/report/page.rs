//! A self-contained HTML page: headings, paragraphs, facts, tables and figures; nothing loaded. Only a page
//! whose tables can be sorted and searched has a script, which stands in the page itself.
//!
//! Every text is escaped on its way in, so that names from files cannot become markup. Equal content
//! gives equal bytes.
//!
//! ```
//! use wattrace_report::page::Page;
//!
//! let mut page = Page::new("A <report>");
//! page.section("Runs").paragraph("Nothing was measured.");
//! let html = page.finish();
//! assert!(html.contains("<h1>A &lt;report&gt;</h1>") && html.contains("<h2 id=\"runs\">Runs</h2>"));
//! ```

mod results;
mod service;

use std::fmt::Write as _;

pub use results::results_page;
pub(crate) use service::service_page;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");
/// What the page may do: style itself and run its own script, and nothing else. Browsers refuse any request.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A page in the making.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
    /// Whether something in the page needs the script.
    has_script: bool,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageCell {
    /// What stands there.
    Text(String),
    /// Nothing, and why.
    Missing(String),
    /// Nothing to say.
    Blank,
}

/// A table whose rows can be sorted and searched, and whose numbers lead to their explanations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkedTable {
    pub(crate) name: String,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<LinkedColumn>,
}

/// A column of such a table, with one cell a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkedColumn {
    pub(crate) heading: String,
    pub(crate) meaning: String,
    pub(crate) is_number: bool,
    pub(crate) cells: Vec<LinkedCell>,
}

/// A cell of such a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkedCell {
    /// What stands there; none if the value is missing.
    pub(crate) text: Option<String>,
    /// A number with all its digits.
    pub(crate) whole: Option<String>,
    /// Why the value is missing, where the table says.
    pub(crate) reason: Option<&'static str>,
    /// Key of the explanation.
    pub(crate) key: Option<String>,
}

/// A column of a table: its heading, and whether it holds numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageColumn {
    /// The heading.
    pub heading: String,
    /// Numbers stand right-aligned.
    pub is_number: bool,
}

impl Page {
    /// Starts a page.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let mut page = Self { title: title.to_owned(), body: String::new(), has_script: false };
        page.line(format_args!("<h1>{}</h1>", escaped(title)));
        page
    }

    /// Starts a section.
    pub fn section(&mut self, heading: &str) -> &mut Self {
        self.line(format_args!("<h2 id=\"{}\">{}</h2>", anchor(heading), escaped(heading)))
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.line(format_args!("<p>{}</p>", escaped(text)))
    }

    /// Adds a paragraph that must not be overlooked.
    pub fn notice(&mut self, text: &str) -> &mut Self {
        self.line(format_args!("<p class=\"notice\">{}</p>", escaped(text)))
    }

    /// Adds lines of code or of a file, as they are.
    pub fn verbatim(&mut self, text: &str) -> &mut Self {
        self.line(format_args!("<pre>{}</pre>", escaped(text)))
    }

    /// Adds names with what they mean or are.
    pub fn facts<N: AsRef<str>, V: AsRef<str>>(&mut self, facts: &[(N, V)]) -> &mut Self {
        if facts.is_empty() {
            return self;
        }
        self.line(format_args!("<dl>"));
        for (name, value) in facts {
            let (name, value) = (escaped(name.as_ref()), escaped(value.as_ref()));
            self.line(format_args!("<dt>{name}</dt><dd>{value}</dd>"));
        }
        self.line(format_args!("</dl>"))
    }

    /// Adds a list.
    pub fn list<T: AsRef<str>>(&mut self, items: &[T]) -> &mut Self {
        if items.is_empty() {
            return self;
        }
        self.line(format_args!("<ul>"));
        for item in items {
            self.line(format_args!("<li>{}</li>", escaped(item.as_ref())));
        }
        self.line(format_args!("</ul>"))
    }

    /// Adds a table; each row has a cell for each column.
    pub fn table(&mut self, columns: &[PageColumn], rows: &[Vec<PageCell>]) -> &mut Self {
        let class = |column: &PageColumn| if column.is_number { " class=\"number\"" } else { "" };
        self.line(format_args!("<div class=\"table\"><table><thead><tr>"));
        for column in columns {
            self.line(format_args!("<th{}>{}</th>", class(column), escaped(&column.heading)));
        }
        self.line(format_args!("</tr></thead><tbody>"));
        for row in rows {
            self.body.push_str("<tr>");
            for (column, cell) in columns.iter().zip(row) {
                let class = class(column);
                // Writing to a String cannot fail.
                let _ = match cell {
                    PageCell::Text(text) => write!(self.body, "<td{class}>{}</td>", escaped(text)),
                    PageCell::Missing(why) => {
                        write!(self.body, "<td{class}>– <span>{}</span></td>", escaped(why))
                    }
                    PageCell::Blank => write!(self.body, "<td{class}></td>"),
                };
            }
            self.line(format_args!("</tr>"));
        }
        self.line(format_args!("</tbody></table></div>"))
    }

    /// Adds links to sections by their headings.
    pub(crate) fn contents(&mut self, headings: &[&str]) -> &mut Self {
        self.line(format_args!("<nav><ul>"));
        for heading in headings {
            let (place, heading) = (anchor(heading), escaped(heading));
            self.line(format_args!("<li><a href=\"#{place}\">{heading}</a></li>"));
        }
        self.line(format_args!("</ul></nav>"))
    }

    /// Adds a figure; `svg` is markup that the caller vouches for.
    pub(crate) fn figure(&mut self, svg: &str, caption: &str) -> &mut Self {
        let caption = escaped(caption);
        self.line(format_args!("<figure>{svg}<figcaption>{caption}</figcaption></figure>"))
    }

    /// Adds a table that can be sorted by any column and searched. Columns without any value are shown on
    /// request only.
    pub(crate) fn linked_table(&mut self, table: &LinkedTable) -> &mut Self {
        self.has_script = true;
        let id = format!("table-{}", anchor(&table.name));
        let unused = |column: &LinkedColumn| column.cells.iter().all(|cell| cell.text.is_none());
        let hidden = table.columns.iter().filter(|column| unused(column)).count();
        self.line(format_args!(
            "<div class=\"tools\"><input type=\"search\" data-table=\"{id}\" aria-label=\"Search {id}\" \
             placeholder=\"Search these rows\"><output>{0} of {0} rows</output>",
            table.rows
        ));
        if hidden > 0 {
            self.line(format_args!(
                "<label><input type=\"checkbox\" data-all-columns=\"{id}\"> show {hidden} columns \
                 without values</label>"
            ));
        }
        self.line(format_args!("</div><div class=\"scroll\"><table id=\"{id}\"><thead><tr>"));
        for column in &table.columns {
            let classes = classes(column, unused(column), false);
            let (heading, meaning) = (escaped(&column.heading), escaped(&column.meaning));
            self.line(format_args!(
                "<th scope=\"col\"{classes} title=\"{meaning}\"><button type=\"button\">{heading}</button></th>"
            ));
        }
        self.line(format_args!("</tr></thead><tbody>"));
        for row in 0..table.rows {
            self.body.push_str("<tr>");
            for column in &table.columns {
                let cell = &column.cells[row];
                let classes = classes(column, unused(column), cell.text.is_none());
                let markup = linked_cell(cell, &classes);
                self.body.push_str(&markup);
            }
            self.line(format_args!("</tr>"));
        }
        self.line(format_args!("</tbody></table></div>"))
    }

    /// Adds data with a button that saves it as a file.
    pub(crate) fn data(&mut self, id: &str, label: &str, data: &serde_json::Value) -> &mut Self {
        self.has_script = true;
        self.embedded(id, data);
        let label = escaped(label);
        self.line(format_args!(
            "<p class=\"tools\"><button type=\"button\" data-save=\"{id}\">{label}</button></p>"
        ))
    }

    /// Adds the texts that numbers lead to, and the place where they are shown.
    pub(crate) fn explanations(&mut self, texts: &serde_json::Value) -> &mut Self {
        self.has_script = true;
        self.embedded("explanations", texts);
        self.line(format_args!(
            "<dialog id=\"explanation\" aria-label=\"How this number came about\"><pre></pre>\
             <form method=\"dialog\"><button>Close</button></form></dialog>\n\
             <noscript><p class=\"notice\">Without scripts, tables cannot be sorted or searched and numbers \
             do not lead to their explanations; <code>wattrace explain</code> prints them.</p></noscript>"
        ))
    }

    fn embedded(&mut self, id: &str, data: &serde_json::Value) {
        // `<` is the only character that could end the element early.
        let json = data.to_string().replace('<', "\\u003c");
        self.line(format_args!("<script type=\"application/json\" id=\"{id}\">{json}</script>"));
    }

    /// The whole page.
    #[must_use]
    pub fn finish(self) -> String {
        let title = escaped(&self.title);
        let script =
            if self.has_script { format!("<script>\n{SCRIPT}</script>\n") } else { String::new() };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}{script}</body>\n</html>\n",
            self.body
        )
    }

    fn line(&mut self, markup: std::fmt::Arguments<'_>) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{markup}");
        self
    }
}

fn classes(column: &LinkedColumn, unused: bool, missing: bool) -> String {
    let classes: Vec<&str> =
        [(column.is_number, "number"), (unused, "unused"), (missing, "missing")]
            .into_iter()
            .filter_map(|(applies, class)| applies.then_some(class))
            .collect();
    if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
}

fn linked_cell(cell: &LinkedCell, classes: &str) -> String {
    let text = escaped(cell.text.as_deref().unwrap_or("–"));
    let title = cell.whole.as_deref().or(cell.reason.filter(|_| cell.text.is_none()));
    let title = title.map(|title| format!(" title=\"{}\"", escaped(title))).unwrap_or_default();
    let value = cell.whole.as_deref().map(|value| format!(" data-value=\"{}\"", escaped(value)));
    let value = value.unwrap_or_default();
    match &cell.key {
        Some(key) => {
            let key = percent_encoded(key);
            format!("<td{classes}{title}{value}><a href=\"#explain:{key}\">{text}</a></td>")
        }
        None => format!("<td{classes}{title}{value}>{text}</td>"),
    }
}

/// A key as part of an address.
fn percent_encoded(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Text as it stands between tags or in a quoted attribute. Control characters other than line ends and
/// tabs have no place in a page.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// A heading as the name of its place in the page.
fn anchor(heading: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    heading.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_files_cannot_become_markup() {
        let mut page = Page::new("t");
        let column = PageColumn { heading: "a&b".into(), is_number: true };
        let cells = vec![
            vec![PageCell::Text("<script>alert('x')</script>".into())],
            vec![PageCell::Missing("no-\"node\"".into())],
            vec![PageCell::Text("a\u{1b}[31m".into())],
        ];
        page.table(&[column], &cells);
        insta::assert_snapshot!(page.body, @r#"
        <h1>t</h1>
        <div class="table"><table><thead><tr>
        <th class="number">a&amp;b</th>
        </tr></thead><tbody>
        <tr><td class="number">&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;</td></tr>
        <tr><td class="number">– <span>no-&quot;node&quot;</span></td></tr>
        <tr><td class="number">a�[31m</td></tr>
        </tbody></table></div>
        "#);
    }

    #[test]
    fn a_page_loads_nothing() {
        let page = Page::new("t").finish();
        for loading in ["http:", "https:", "src=", "@import", "url(", "<script", "stylesheet"] {
            assert!(!page.contains(loading), "{loading}");
        }
    }
}
