//! Reading the fields of a section: type, range, and what to say when they are wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::Serialize;

use super::error::SpecError;
use super::node::{Content, Node, field_path};
use super::value::Value;

/// What reading found besides values.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<SpecError>,
    /// Paths of fields that no section declares.
    pub(super) unknown: Vec<String>,
}

impl Findings {
    pub(super) fn refuse(&mut self, line: usize, field: &str, found: &str, expected: &str) {
        self.errors.push(SpecError {
            line,
            field: field.into(),
            found: found.into(),
            expected: expected.into(),
        });
    }
}

/// A type that a field of a spec may have.
pub(super) trait Field: Sized {
    /// What a value must be, in the words of an error.
    fn expected() -> String;

    /// The value at `node`; `None` when it is wrong, which `findings` then says.
    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self>;

    /// The value of an absent field; `None` when the field is required.
    fn absent() -> Option<Self> {
        None
    }
}

/// `value`, or a refusal of what stands at `node`.
fn checked<T: Field>(
    value: Option<T>,
    node: &Node,
    path: &str,
    findings: &mut Findings,
) -> Option<T> {
    if value.is_none() {
        findings.refuse(node.line, path, &node.describe(), &T::expected());
    }
    value
}

/// The fields of one section.
pub(super) struct Section<'node, 'findings> {
    line: usize,
    path: &'node str,
    fields: &'node BTreeMap<String, Node>,
    declared: Vec<&'static str>,
    pub(super) findings: &'findings mut Findings,
}

impl<'node, 'findings> Section<'node, 'findings> {
    pub(super) fn open(
        node: &'node Node,
        path: &'node str,
        findings: &'findings mut Findings,
    ) -> Option<Self> {
        if let Content::Map(fields) = &node.content {
            return Some(Self { line: node.line, path, fields, declared: Vec::new(), findings });
        }
        findings.refuse(node.line, path, &node.describe(), "a section with its fields");
        None
    }

    /// The value of one field.
    pub(super) fn read<T: Field>(&mut self, name: &'static str) -> Option<T> {
        self.declared.push(name);
        let path = field_path(self.path, name);
        if let Some(node) = self.fields.get(name) {
            return T::read(node, &path, self.findings);
        }
        let absent = T::absent();
        if absent.is_none() {
            self.findings.refuse(self.line, &path, "nothing", &T::expected());
        }
        absent
    }

    /// Notes every field that was not asked for.
    pub(super) fn close(self) {
        let unknown = self.fields.keys().filter(|name| !self.declared.contains(&name.as_str()));
        self.findings.unknown.extend(unknown.map(|name| field_path(self.path, name)));
    }
}

/// A number above 0.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct Positive(f64);

/// A number of at least 0.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct NonNegative(f64);

impl Positive {
    /// The number; `None` unless it is finite and above 0.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value > 0.0).then_some(Self(value))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl NonNegative {
    /// The number; `None` unless it is finite and not below 0.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self(value))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

fn number(node: &Node) -> Option<f64> {
    if let Content::Number { number, .. } = &node.content { Some(number.to_f64()) } else { None }
}

fn count(node: &Node) -> Option<u32> {
    if let Content::Number { number, .. } = &node.content { number.to_u32() } else { None }
}

impl Field for Positive {
    fn expected() -> String {
        "a number above 0".into()
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        checked(number(node).and_then(Self::new), node, path, findings)
    }
}

impl schemars::JsonSchema for Positive {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Positive".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "exclusiveMinimum": 0 })
    }
}

impl Field for NonNegative {
    fn expected() -> String {
        "a number of at least 0".into()
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        checked(number(node).and_then(Self::new), node, path, findings)
    }
}

impl schemars::JsonSchema for NonNegative {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NonNegative".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl Field for u32 {
    fn expected() -> String {
        format!("a whole number from 0 to {}", Self::MAX)
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        checked(count(node), node, path, findings)
    }
}

impl Field for NonZeroU32 {
    fn expected() -> String {
        format!("a whole number from 1 to {}", u32::MAX)
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        checked(count(node).and_then(Self::new), node, path, findings)
    }
}

impl Field for String {
    fn expected() -> String {
        "text".into()
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        let expected = match &node.content {
            Content::Text(text) if !text.trim().is_empty() => return Some(text.clone()),
            // Without quotes version 1.10 is the number 1.1, and revision 12e4567 is no number at all.
            Content::Number { .. } | Content::Bool(_) => "text, in quotes",
            _ => "text",
        };
        findings.refuse(node.line, path, &node.describe(), expected);
        None
    }
}

impl Field for Value {
    fn expected() -> String {
        "a value".into()
    }

    fn read(node: &Node, _: &str, _: &mut Findings) -> Option<Self> {
        Some(node.value())
    }
}

/// Null and absent are the same to a reader; the hash tells them apart.
impl<T: Field> Field for Option<T> {
    fn expected() -> String {
        format!("{}, or null", T::expected())
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        if matches!(node.content, Content::Null) {
            return Some(None);
        }
        let before = findings.errors.len();
        let value = T::read(node, path, findings);
        // What is wrong with the value itself, not with a part of it, could also be null.
        for error in findings.errors[before..].iter_mut().filter(|error| error.field == path) {
            error.expected.push_str(", or null");
        }
        value.map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// A list has an entry at least, and each entry once.
impl<T: Field> Field for Vec<T> {
    fn expected() -> String {
        format!("a list, each entry {}", T::expected())
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        let entries = match &node.content {
            Content::List(entries) if !entries.is_empty() => entries,
            _ => {
                findings.refuse(node.line, path, &node.describe(), &Self::expected());
                return None;
            }
        };
        let before = findings.errors.len();
        let mut values = Vec::with_capacity(entries.len());
        let mut seen = BTreeSet::new();
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if !seen.insert(entry.value().to_string()) {
                let found = format!("{} again", entry.describe());
                findings.refuse(entry.line, &path, &found, "each entry once");
            }
            values.extend(T::read(entry, &path, findings));
        }
        (findings.errors.len() == before).then_some(values)
    }
}

/// A section whose field names are the user's own.
impl<T: Field> Field for BTreeMap<String, T> {
    fn expected() -> String {
        "a section with a field for each name".into()
    }

    fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<Self> {
        let fields = match &node.content {
            Content::Map(fields) if !fields.is_empty() => fields,
            _ => {
                findings.refuse(node.line, path, &node.describe(), &Self::expected());
                return None;
            }
        };
        let read = |(name, node): (&String, &Node)| {
            Some((name.clone(), T::read(node, &field_path(path, name), findings)?))
        };
        fields.iter().map(read).collect()
    }
}
