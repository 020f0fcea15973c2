//! A number of tokens as clients write it: a whole number, by some as `64.0`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenCount(pub(super) u32);

impl<'de> Deserialize<'de> for TokenCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = TokenCount;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number of tokens from 0 to 4294967295")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<TokenCount, E> {
        u32::try_from(value)
            .map(TokenCount)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<TokenCount, E> {
        u32::try_from(value)
            .map(TokenCount)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<TokenCount, E> {
        if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
            Ok(TokenCount(value as u32))
        } else {
            Err(E::invalid_value(serde::de::Unexpected::Float(value), &self))
        }
    }
}

/// The number, where there is one.
pub(super) fn count(tokens: Option<TokenCount>) -> Option<u32> {
    tokens.map(|TokenCount(tokens)| tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_counts_however_written() {
        let parse =
            |text| serde_json::from_str::<TokenCount>(text).map_err(|error| error.to_string());
        assert_eq!(parse("64"), Ok(TokenCount(64)));
        assert_eq!(parse("64.0"), Ok(TokenCount(64)));
        for text in ["-1", "64.5", "4294967296", "1e300", "\"64\"", "null", "[]"] {
            let message = parse(text).unwrap_err();
            assert!(
                message.contains("expected a whole number of tokens from 0 to 4294967295"),
                "{message}"
            );
        }
    }
}
