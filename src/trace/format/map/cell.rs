//! One value of a row, whatever its table was stored as.

use parquet::record::Field;
use serde_json::Value;

use super::super::quantity;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Absent,
    Text(String),
    Number(f64),
    /// Nanoseconds since 1970, where the table itself knows times.
    Time(i64),
    List(Vec<f64>),
}

impl Cell {
    pub(super) fn of_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Absent,
            // The digits of a number stay as they are written, so that epoch times keep them.
            Value::Number(number) => Self::Text(number.to_string()),
            Value::Bool(truth) => Self::Text(truth.to_string()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(list) => list
                .iter()
                .map(Value::as_f64)
                .collect::<Option<Vec<f64>>>()
                .map_or_else(|| Self::Text(value.to_string()), Self::List),
            Value::Object(_) => Self::Text(value.to_string()),
        }
    }

    pub(super) fn of_toml(value: &toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::Text(text.clone()),
            toml::Value::Float(number) => Self::Number(*number),
            other => Self::Text(other.to_string()),
        }
    }

    pub(super) fn of_parquet(field: &Field) -> Self {
        match field {
            Field::Null => Self::Absent,
            Field::Float(number) => Self::Number(f64::from(*number)),
            Field::Double(number) => Self::Number(*number),
            Field::Str(text) => Self::Text(text.clone()),
            Field::TimestampMillis(millis) => {
                millis.checked_mul(1_000_000).map_or(Self::Absent, Self::Time)
            }
            Field::TimestampMicros(micros) => {
                micros.checked_mul(1000).map_or(Self::Absent, Self::Time)
            }
            Field::ListInternal(list) => list
                .elements()
                .iter()
                .map(|element| Self::of_parquet(element).number().ok())
                .collect::<Option<Vec<f64>>>()
                .map_or_else(|| Self::Text(field.to_string()), Self::List),
            other => Self::Text(other.to_string()),
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Text(text) => quantity::is_absent(text),
            Self::Number(number) => number.is_nan(),
            Self::Time(_) | Self::List(_) => false,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Absent => String::new(),
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Time(nanos) => nanos.to_string(),
            Self::List(list) => format!("{list:?}"),
        }
    }

    pub(super) fn number(&self) -> Result<f64, String> {
        let number = match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Absent | Self::Time(_) | Self::List(_) => None,
        };
        number
            .filter(|number| number.is_finite())
            .ok_or_else(|| format!("\"{}\" is no number", self.text().escape_debug()))
    }

    pub(super) fn count(&self) -> Result<u32, String> {
        let number = self.number()?;
        if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
            Ok(number as u32)
        } else {
            Err(format!("{number} is no whole number from 0 to {}", u32::MAX))
        }
    }

    /// A list of numbers; text may be one in JSON.
    pub(super) fn list(&self) -> Result<Vec<f64>, String> {
        match self {
            Self::List(list) => Ok(list.clone()),
            Self::Text(text) => serde_json::from_str(text).map_err(|_| {
                format!("\"{}\" is no list of numbers such as [0.1, 0.2]", text.escape_debug())
            }),
            _ => Err(format!("\"{}\" is no list of numbers", self.text().escape_debug())),
        }
    }
}
