//! A self-contained HTML page: headings, paragraphs, facts and tables; no scripts, nothing loaded.
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

mod service;

use std::fmt::Write as _;

pub(crate) use service::service_page;

const STYLE: &str = include_str!("page/style.css");

/// A page in the making.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
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
        let mut page = Self { title: title.to_owned(), body: String::new() };
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

    /// The whole page.
    #[must_use]
    pub fn finish(self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
            self.body
        )
    }

    fn line(&mut self, markup: std::fmt::Arguments<'_>) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{markup}");
        self
    }
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
        for loading in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(loading), "{loading}");
        }
    }
}
