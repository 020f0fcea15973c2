//! What a paper's tables are made of, declared in TOML.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU8;
use std::ops::Range;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{
    Deserializer, Error, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer,
};
use toml::Spanned;
use wattrace_schema::{TomlFault, line_of};

use super::Digits;
use super::aggregate::Aggregate;

/// A declaration that cannot be followed: where it is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "paper \"{}\"{}{}: {message}",
    path.display(),
    line.map(|line| format!(" line {line}")).unwrap_or_default(),
    key.as_ref().map(|key| format!(", in \"{key}\"")).unwrap_or_default()
)]
pub struct DeclarationError {
    /// The declaration's file.
    pub path: PathBuf,
    /// Line of the value at fault, counted from 1.
    pub line: Option<usize>,
    /// Key at fault.
    pub key: Option<String>,
    /// What was found and what is expected.
    pub message: String,
}

/// A paper: tables, each made from one result table.
///
/// A declaration is TOML. Unknown keys and impossible values are errors that name file, line, key and
/// what is expected. `schemas/paper.schema.json` says the same in machine form.
///
/// ```toml
/// title = "Energy of a service"           # optional
///
/// [[table]]
/// name = "energy"                         # lower-case letters, digits and hyphens
/// source = "runs"                         # the result table that it is made from
/// caption = "Energy per output token."    # optional
/// footnotes = ["One node."]               # optional
/// where = [                               # optional: rows of the source that take part; all must hold
///     { column = "kind", is = "serving" },
/// ]
/// rows = [                                # a row for every combination of these; none for a single row
///     "model",
///     { column = "request_rate", heading = "rate", missing = "unlimited" },
///     { column = "spec_hash", heading = "spec", letters = 12 },
/// ]
/// sort = ["model", { by = "steady (J/token)", descending = true }]   # else as in the source
///
/// [[table.columns]]
/// heading = "steady"
/// unit = "J/token"                        # optional; printed as: steady (J/token)
/// column = "steady_j_per_token"           # of the source
/// aggregate = "median"                    # of the rows' values: only (default), first, median, mean,
///                                         #   min, max, std, share (of true), count, union (of lists)
/// significant = 4                         # digits; or decimals = 3; default: 4 significant
/// scale = 1.0                             # optional: multiplies the value
/// where = [{ column = "engine", is = "vllm" }]   # optional: further conditions of this column alone
/// ```
///
/// A condition names a column and one test: `is`, `is_not`, `one_of`, `none_of` (text, number or
/// boolean), `above`, `at_least`, `below`, `at_most` (numbers), `has`, `has_not` (lists, such as flags),
/// `present`. A missing value fulfils only `is_not`, `none_of` and `present = false`.
#[derive(Debug, Clone)]
pub struct Paper {
    pub(super) path: PathBuf,
    text: Cow<'static, str>,
    pub(super) title: Option<String>,
    pub(super) tables: Vec<TableDeclaration>,
}

/// A paper's tables, declared over the result tables of `wattrace analyze`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(title = "Paper")]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFile {
    /// Title of the paper.
    title: Option<String>,
    /// The tables, in the order in which they are printed.
    table: Vec<TableDeclaration>,
}

/// One table of a paper.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TableDeclaration {
    /// Name: lower-case letters, digits and hyphens.
    #[schemars(with = "TableName")]
    pub(super) name: Spanned<TableName>,
    /// Result table that it is made from, such as runs, fits or goodput.
    #[schemars(with = "String")]
    pub(super) source: Spanned<String>,
    /// Caption; the name if there is none.
    pub(super) caption: Option<String>,
    /// Notes below the table.
    #[serde(default)]
    pub(super) footnotes: Vec<String>,
    /// Conditions that a row of the source must fulfil, all of them.
    #[serde(default, rename = "where")]
    #[schemars(with = "Vec<Condition>")]
    pub(super) conditions: Vec<Spanned<Condition>>,
    /// Columns of the source whose combinations are the rows; none for a single row.
    #[serde(default)]
    #[schemars(with = "Vec<TextOrTable<RowKey>>")]
    pub(super) rows: Vec<Spanned<TextOrTable<RowKey>>>,
    /// The columns beside the row keys.
    #[schemars(with = "Vec<ColumnDeclaration>")]
    pub(super) columns: Vec<Spanned<ColumnDeclaration>>,
    /// Headings by which rows are sorted; in the order of the source if there are none.
    #[serde(default)]
    #[schemars(with = "Vec<TextOrTable<SortKey>>")]
    pub(super) sort: Vec<Spanned<TextOrTable<SortKey>>>,
}

/// A column of the source whose values tell rows apart.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RowKey {
    /// Column of the source.
    pub(super) column: String,
    /// Heading; the column's name if there is none.
    pub(super) heading: Option<String>,
    /// What is printed where the value is missing, such as "unlimited"; a dash if there is nothing.
    pub(super) missing: Option<String>,
    /// Print only so many letters, as of a hash.
    pub(super) letters: Option<NonZeroU8>,
}

impl RowKey {
    pub(super) fn heading(&self) -> &str {
        self.heading.as_deref().unwrap_or(&self.column)
    }
}

/// A heading by which rows are sorted, missing values last.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SortKey {
    /// Heading as printed, unit included.
    pub(super) by: String,
    /// Largest first.
    #[serde(default)]
    pub(super) descending: bool,
}

/// One column of a table.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnDeclaration {
    /// Heading, without the unit.
    pub(super) heading: String,
    /// Unit of the printed value; stands in parentheses after the heading.
    pub(super) unit: Option<String>,
    /// Column of the source; only `count` can do without and then counts rows.
    #[schemars(with = "Option<String>")]
    pub(super) column: Option<Spanned<String>>,
    /// How the values of a row become one; `only` if nothing is said.
    #[serde(default)]
    pub(super) aggregate: Aggregate,
    /// Conditions that hold for this column alone.
    #[serde(default, rename = "where")]
    #[schemars(with = "Vec<Condition>")]
    pub(super) conditions: Vec<Spanned<Condition>>,
    /// Factor from the source's unit to the printed one.
    #[schemars(with = "Option<f64>")]
    pub(super) scale: Option<Spanned<f64>>,
    /// Digits after the point, at most 15.
    #[schemars(range(max = 15))]
    decimals: Option<u8>,
    /// Significant digits, 1 to 15; 4 if nothing is said.
    #[schemars(range(min = 1, max = 15))]
    significant: Option<u8>,
    /// Column of the source that says why a value is missing; found by itself where it is called
    /// `reasons` or `reason`.
    #[schemars(with = "Option<String>")]
    pub(super) reason: Option<Spanned<String>>,
}

/// Most digits that a 64-bit number can keep.
const MAX_DIGITS: u8 = 15;

impl ColumnDeclaration {
    /// The heading as printed.
    pub(super) fn printed_heading(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.heading),
            None => self.heading.clone(),
        }
    }

    /// The digits asked for.
    pub(super) fn digits(&self) -> Option<Digits> {
        self.decimals.map(Digits::Decimals).or_else(|| self.significant.map(Digits::Significant))
    }

    fn fault(&self) -> Option<(&'static str, String)> {
        let out_of_range = |digits: Option<u8>, from: u8| {
            digits.filter(|digits| !(from..=MAX_DIGITS).contains(digits))
        };
        if self.decimals.is_some() && self.significant.is_some() {
            let message = "both decimals and significant are given; expected one of them";
            return Some(("decimals", message.to_owned()));
        }
        if let Some(found) = out_of_range(self.decimals, 0) {
            return Some(("decimals", format!("{found} is out of range; expected 0 to 15")));
        }
        if let Some(found) = out_of_range(self.significant, 1) {
            return Some(("significant", format!("{found} is out of range; expected 1 to 15")));
        }
        if let Some(scale) = &self.scale
            && (!scale.get_ref().is_finite() || *scale.get_ref() == 0.0)
        {
            let found = scale.get_ref();
            return Some(("scale", format!("{found} is no factor; expected a number but zero")));
        }
        if self.column.is_none() && self.aggregate != Aggregate::Count {
            let message = "missing key \"column\"; only the aggregate \"count\" can do without";
            return Some(("column", message.to_owned()));
        }
        None
    }
}

/// A condition on one column.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// Column of the source.
    pub(super) column: String,
    /// The value is this.
    is: Option<Scalar>,
    /// The value is not this; a missing value is not.
    is_not: Option<Scalar>,
    /// The value is one of these.
    one_of: Option<Vec<Scalar>>,
    /// The value is none of these; a missing value is not.
    none_of: Option<Vec<Scalar>>,
    /// The number is larger.
    above: Option<f64>,
    /// The number is as large or larger.
    at_least: Option<f64>,
    /// The number is smaller.
    below: Option<f64>,
    /// The number is as small or smaller.
    at_most: Option<f64>,
    /// The list holds this text.
    has: Option<String>,
    /// The list does not hold this text.
    has_not: Option<String>,
    /// Whether there is a value.
    present: Option<bool>,
}

/// The one test of a condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    OneOf { values: Vec<Scalar>, negated: bool },
    Above(f64),
    AtLeast(f64),
    Below(f64),
    AtMost(f64),
    Has { text: String, negated: bool },
    Present(bool),
}

impl Condition {
    /// The test, if there is exactly one.
    pub(super) fn test(&self) -> Option<Test> {
        let one_of = |values: Vec<Scalar>, negated| Test::OneOf { values, negated };
        let has = |text: String, negated| Test::Has { text, negated };
        let mut tests = [
            self.is.clone().map(|value| one_of(vec![value], false)),
            self.is_not.clone().map(|value| one_of(vec![value], true)),
            self.one_of.clone().map(|values| one_of(values, false)),
            self.none_of.clone().map(|values| one_of(values, true)),
            self.above.map(Test::Above),
            self.at_least.map(Test::AtLeast),
            self.below.map(Test::Below),
            self.at_most.map(Test::AtMost),
            self.has.clone().map(|text| has(text, false)),
            self.has_not.clone().map(|text| has(text, true)),
            self.present.map(Test::Present),
        ]
        .into_iter()
        .flatten();
        let test = tests.next()?;
        tests.next().is_none().then_some(test)
    }
}

/// A text, number or boolean to compare with.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Text(String),
    Number(f64),
    Bool(bool),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text, a number, true or false")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number as f64))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

/// The name of a table: part of `# table:` lines and LaTeX labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableName(pub(super) String);

impl<'de> Deserialize<'de> for TableName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = TableName;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("lower-case letters, digits and hyphens")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TableName, E> {
                let plain = |letter: char| {
                    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
                };
                if !text.is_empty() && text.chars().all(plain) {
                    Ok(TableName(text.to_owned()))
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }
        }
        deserializer.deserialize_any(NameVisitor)
    }
}

impl JsonSchema for TableName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TableName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[a-z0-9-]+$" })
    }
}

/// A table of keys, or a text that stands for its most important one.
#[derive(Debug, Clone)]
pub(super) struct TextOrTable<T>(pub(super) T);

/// What a text alone stands for.
pub(super) trait FromText {
    fn from_text(text: &str) -> Self;
    const EXPECTED: &'static str;
}

impl FromText for RowKey {
    fn from_text(text: &str) -> Self {
        Self { column: text.to_owned(), heading: None, missing: None, letters: None }
    }

    const EXPECTED: &'static str = "the name of a column, or { column, heading, missing, letters }";
}

impl FromText for SortKey {
    fn from_text(text: &str) -> Self {
        Self { by: text.to_owned(), descending: false }
    }

    const EXPECTED: &'static str = "a heading, or { by, descending }";
}

impl<'de, T: Deserialize<'de> + FromText> Deserialize<'de> for TextOrTable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTableVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + FromText> Visitor<'de> for TextOrTableVisitor<T> {
            type Value = TextOrTable<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(T::EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextOrTable(T::from_text(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(TextOrTable)
            }
        }
        deserializer.deserialize_any(TextOrTableVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for TextOrTable<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("TextOr{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "type": "string" }, table] })
    }
}

/// The JSON Schema of a paper's declaration.
#[must_use]
pub fn paper_json_schema() -> serde_json::Value {
    schemars::schema_for!(PaperFile).to_value()
}

impl Paper {
    /// Parses the text of a declaration; `path` is what messages call it.
    ///
    /// # Errors
    /// [`DeclarationError`] names the line, the key, what was found and what is expected.
    pub fn parse(
        text: impl Into<Cow<'static, str>>,
        path: &Path,
    ) -> Result<Self, DeclarationError> {
        let text = text.into();
        let file: PaperFile =
            toml::from_str(&text).map_err(|error| syntax_error(&text, path, error))?;
        let PaperFile { title, table: tables } = file;
        let paper = Self { path: path.to_owned(), text, title, tables };
        paper.check()?;
        Ok(paper)
    }

    /// The title.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Names of the tables in order.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.name.get_ref().0.as_str())
    }

    /// Leaves only the table of that name; `false` and nothing changed if there is none.
    #[must_use]
    pub fn keep_only(&mut self, name: &str) -> bool {
        let known = self.table_names().any(|known| known == name);
        if known {
            self.tables.retain(|table| table.name.get_ref().0 == name);
        }
        known
    }

    /// An error at a place of the declaration.
    pub(super) fn fault(
        &self,
        span: Range<usize>,
        key: &str,
        message: impl Into<String>,
    ) -> DeclarationError {
        DeclarationError {
            path: self.path.clone(),
            line: Some(line_of(&self.text, span.start)),
            key: Some(key.to_owned()),
            message: message.into(),
        }
    }

    /// What the text alone can be wrong about.
    fn check(&self) -> Result<(), DeclarationError> {
        if self.tables.is_empty() {
            let message = "the paper has no table; expected at least one [[table]]";
            return Err(self.fault(0..0, "table", message));
        }
        let mut names = BTreeSet::new();
        for table in &self.tables {
            let name = table.name.get_ref();
            if !names.insert(name) {
                let message =
                    format!("two tables have the name \"{}\"; expected every name once", name.0);
                return Err(self.fault(table.name.span(), "name", message));
            }
            self.check_table(table)?;
        }
        Ok(())
    }

    fn check_table(&self, table: &TableDeclaration) -> Result<(), DeclarationError> {
        if table.columns.is_empty() {
            let message = "the table has no column; expected at least one";
            return Err(self.fault(table.name.span(), "columns", message));
        }
        self.check_conditions(&table.conditions)?;
        let keys = table.rows.iter().map(|key| (key.get_ref().0.heading().to_owned(), key.span()));
        let columns =
            table.columns.iter().map(|column| (column.get_ref().printed_heading(), column.span()));
        let mut headings = BTreeSet::new();
        for (heading, span) in keys.chain(columns) {
            if headings.contains(&heading) {
                let message =
                    format!("two columns are headed \"{heading}\"; expected every heading once");
                return Err(self.fault(span, "heading", message));
            }
            headings.insert(heading);
        }
        for column in &table.columns {
            if let Some((key, message)) = column.get_ref().fault() {
                return Err(self.fault(column.span(), key, message));
            }
            self.check_conditions(&column.get_ref().conditions)?;
        }
        for sort in &table.sort {
            let by = &sort.get_ref().0.by;
            if !headings.contains(by) {
                let known: Vec<String> =
                    headings.iter().map(|name| format!("\"{name}\"")).collect();
                let message =
                    format!("no column is headed \"{by}\"; expected {}", known.join(", "));
                return Err(self.fault(sort.span(), "sort", message));
            }
        }
        Ok(())
    }

    fn check_conditions(&self, conditions: &[Spanned<Condition>]) -> Result<(), DeclarationError> {
        for condition in conditions {
            if condition.get_ref().test().is_none() {
                let message = "a condition has not exactly one test; expected one of is, is_not, \
                               one_of, none_of, above, at_least, below, at_most, has, has_not, present";
                return Err(self.fault(condition.span(), "where", message));
            }
        }
        Ok(())
    }
}

/// An error of the TOML reader.
fn syntax_error(text: &str, path: &Path, error: toml::de::Error) -> DeclarationError {
    let TomlFault { line, key, message } = TomlFault::new(text, error);
    DeclarationError { path: path.to_owned(), line, key, message }
}
