//! A spec's content without its layout: what is hashed and compared.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::decimal::Decimal;

/// A value of a spec: maps are sorted, numbers are exact, text stays text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the kind that it names")]
pub enum Value {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

impl fmt::Display for Value {
    /// Canonical JSON: sorted keys, no white space, one spelling for each number.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("null"),
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => write_text(formatter, text),
            Self::List(entries) => {
                formatter.write_str("[")?;
                for (index, entry) in entries.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(formatter, "{comma}{entry}")?;
                }
                formatter.write_str("]")
            }
            Self::Map(fields) => {
                formatter.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    formatter.write_str(if index > 0 { "," } else { "" })?;
                    write_text(formatter, name)?;
                    write!(formatter, ":{value}")?;
                }
                formatter.write_str("}")
            }
        }
    }
}

fn write_text(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    formatter.write_str(&serde_json::Value::from(text).to_string())
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => match number.to_u32() {
                Some(count) => serializer.serialize_u32(count),
                None => serializer.serialize_f64(number.to_f64()),
            },
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(entries) => entries.serialize(serializer),
            Self::Map(fields) => fields.serialize(serializer),
        }
    }
}

impl schemars::JsonSchema for Value {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}

/// A field that two specs do not share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Path of the field, such as `slo.ttft_p99_ms`.
    pub field: String,
    /// Its value in the first spec; `None` where the field is absent.
    pub first: Option<Value>,
    /// Its value in the second.
    pub second: Option<Value>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "absent".to_owned(), Value::to_string)
        };
        write!(formatter, "{}: {} -> {}", self.field, text(&self.first), text(&self.second))
    }
}

/// Every field that differs, in the order of paths; a list counts as one value.
pub(super) fn changes(first: &Value, second: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare("", Some(first), Some(second), &mut found);
    found
}

fn compare(
    path: &str,
    first: Option<&Value>,
    second: Option<&Value>,
    found: &mut Vec<FieldChange>,
) {
    if first == second {
        return;
    }
    let empty = BTreeMap::new();
    let (left, right) = match (first, second) {
        (Some(Value::Map(left)), Some(Value::Map(right))) => (left, right),
        // A section that only one side has is shown field by field.
        (Some(Value::Map(left)), None) if !left.is_empty() => (left, &empty),
        (None, Some(Value::Map(right))) if !right.is_empty() => (&empty, right),
        _ => {
            return found.push(FieldChange {
                field: path.to_owned(),
                first: first.cloned(),
                second: second.cloned(),
            });
        }
    };
    let names: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        compare(&path, left.get(name), right.get(name), found);
    }
}
