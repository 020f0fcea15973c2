//! YAML text as a tree that knows its lines.
//!
//! Only what a spec needs: one document of maps, lists and scalars of YAML's core schema. Aliases are
//! refused, since a spec should show each value where it counts; so no document can expand beyond its
//! own length.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::decimal::Decimal;
use super::error::SpecError;
use super::value::Value;

/// Longest text that is read, bytes: a hundred times any spec seen.
const LONGEST_TEXT: usize = 1 << 20;
/// Deepest nesting that is read.
const DEEPEST: usize = 32;

/// A value and the line on which its field, or list entry, stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Null,
    Bool(bool),
    Number { number: Decimal, written: String },
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

impl Node {
    /// The value without its place.
    pub(super) fn value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number { number, .. } => Value::Number(number.clone()),
            Content::Text(text) => Value::Text(text.clone()),
            Content::List(entries) => Value::List(entries.iter().map(Self::value).collect()),
            Content::Map(fields) => {
                Value::Map(fields.iter().map(|(name, node)| (name.clone(), node.value())).collect())
            }
        }
    }

    /// Line of the field at a path of names; its section's line where it is absent.
    pub(super) fn line_at(&self, path: &str) -> usize {
        path.split('.')
            .try_fold(self, |node, name| match &node.content {
                Content::Map(fields) => fields.get(name).ok_or(node.line),
                _ => Err(node.line),
            })
            .map_or_else(|line| line, |node| node.line)
    }

    /// What stands here, in the words of an error.
    pub(super) fn describe(&self) -> String {
        match &self.content {
            Content::Null => "null".to_owned(),
            Content::Bool(value) => value.to_string(),
            Content::Number { written, .. } => format!("the number {}", shortened(written)),
            Content::Text(text) => format!("the text {:?}", shortened(text)),
            Content::List(entries) if entries.is_empty() => "an empty list".to_owned(),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a section".to_owned(),
        }
    }
}

/// Text, cut where it would drown the message.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    let shown: String = text.chars().take(LONGEST).collect();
    let dots = if shown.len() < text.len() { "..." } else { "" };
    shown + dots
}

/// The path of a field inside `parent`.
pub(super) fn field_path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// Reads a document.
pub(super) fn read(text: &str) -> Result<Node, SpecError> {
    if text.len() > LONGEST_TEXT {
        return Err(SpecError {
            line: 1,
            field: String::new(),
            found: format!("{} bytes", text.len()),
            expected: format!("a spec of at most {LONGEST_TEXT} bytes"),
        });
    }
    Reader { events: Parser::new_from_str(text) }.document()
}

struct Reader<'text> {
    events: Parser<'text, StrInput<'text>>,
}

impl<'text> Reader<'text> {
    fn next(&mut self) -> Result<(Event<'text>, usize), SpecError> {
        match self.events.next_event() {
            Some(Ok((event, span))) => Ok((event, line_of(span))),
            Some(Err(error)) => Err(not_yaml(&error)),
            None => Ok((Event::StreamEnd, 1)),
        }
    }

    fn document(&mut self) -> Result<Node, SpecError> {
        loop {
            let (event, line) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd => {
                    return Err(problem(1, "", "an empty document", "a spec with its sections"));
                }
                first => {
                    let node = self.node(first, line, "", 0)?;
                    self.end_of_document()?;
                    return Ok(node);
                }
            }
        }
    }

    fn end_of_document(&mut self) -> Result<(), SpecError> {
        loop {
            let (event, line) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(_) => {
                    return Err(problem(line, "", "a second document", "one document"));
                }
                _ => {}
            }
        }
    }

    fn node(
        &mut self,
        event: Event<'text>,
        line: usize,
        path: &str,
        depth: usize,
    ) -> Result<Node, SpecError> {
        if depth > DEEPEST {
            let expected = format!("at most {DEEPEST} levels");
            return Err(problem(line, "", "deeper nesting", &expected));
        }
        let content = match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse_extras(line, path, anchor, tag.as_ref())?;
                scalar(text, style)
                    .map_err(|found| problem(line, path, &found, "a finite number"))?
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_extras(line, path, anchor, tag.as_ref())?;
                self.list(path, depth)?
            }
            Event::MappingStart(anchor, tag) => {
                refuse_extras(line, path, anchor, tag.as_ref())?;
                self.map(path, depth)?
            }
            // An alias whose anchor was refused has already been refused by the parser as unknown, and
            // no other event comes where a value must stand.
            _ => return Err(problem(line, path, "no value", "a value")),
        };
        Ok(Node { line, content })
    }

    fn list(&mut self, path: &str, depth: usize) -> Result<Content, SpecError> {
        let mut entries = Vec::new();
        loop {
            let (event, line) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Content::List(entries));
            }
            let path = format!("{path}[{}]", entries.len());
            entries.push(self.node(event, line, &path, depth + 1)?);
        }
    }

    fn map(&mut self, path: &str, depth: usize) -> Result<Content, SpecError> {
        let mut fields: BTreeMap<String, Node> = BTreeMap::new();
        loop {
            let (event, line) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(Content::Map(fields)),
                Event::Scalar(text, _, anchor, tag) if !text.trim().is_empty() => {
                    let name = text.into_owned();
                    refuse_extras(line, &field_path(path, &name), anchor, tag.as_ref())?;
                    name
                }
                _ => {
                    return Err(problem(
                        line,
                        path,
                        "a field without a name",
                        "a name, then \":\"",
                    ));
                }
            };
            let path = field_path(path, &name);
            if let Some(known) = fields.get(&name) {
                let found = format!("the field again (first on line {})", known.line);
                return Err(problem(line, &path, &found, "each field once"));
            }
            let (event, _) = self.next()?;
            let mut node = self.node(event, line, &path, depth + 1)?;
            // An empty value has no line of its own: its field's is where to look.
            node.line = line;
            fields.insert(name, node);
        }
    }
}

fn line_of(span: Span) -> usize {
    span.start.line()
}

fn problem(line: usize, field: &str, found: &str, expected: &str) -> SpecError {
    SpecError { line, field: field.into(), found: found.into(), expected: expected.into() }
}

fn not_yaml(error: &ScanError) -> SpecError {
    let found = format!("broken YAML in column {} ({})", error.marker().col() + 1, error.info());
    problem(error.marker().line(), "", &found, "YAML; the slip may stand on an earlier line")
}

/// Anchors serve aliases only, and tags could change what a text means.
fn refuse_extras(
    line: usize,
    path: &str,
    anchor: usize,
    tag: Option<&Cow<'_, Tag>>,
) -> Result<(), SpecError> {
    if anchor > 0 {
        return Err(problem(line, path, "an anchor (&)", "the value alone"));
    }
    match tag {
        Some(_) => Err(problem(line, path, "a tag (!)", "the value alone")),
        None => Ok(()),
    }
}

/// A scalar by YAML's core schema; quoted ones and block texts are text. `Err` holds what stands there
/// when it looks like a number and is none that can be used.
fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Result<Content, String> {
    if style != ScalarStyle::Plain {
        return Ok(Content::Text(text.into_owned()));
    }
    Ok(match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "true" | "True" | "TRUE" => Content::Bool(true),
        "false" | "False" | "FALSE" => Content::Bool(false),
        _ => match Decimal::parse(&text) {
            Some(number) => Content::Number { number, written: text.into_owned() },
            None if is_not_finite(&text) => return Err(shortened(&text)),
            None => Content::Text(text.into_owned()),
        },
    })
}

/// `.inf`, `.nan`, or a number beyond 64-bit floats.
fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let too_large = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && text.parse::<f64>().is_ok_and(f64::is_infinite);
    too_large || [".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"].contains(&unsigned)
}
