//! Values of a plan that are more than a number.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{
    Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
    value::MapAccessDeserializer,
};
use wattrace_schema::TimestampNs;

use super::quantity::{Shape, Tokens};

/// One value, or a list of values that each make runs of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OneOrMany<T>(Vec<T>);

impl<T> OneOrMany<T> {
    /// A single value.
    pub(crate) fn one(value: T) -> Self {
        Self(vec![value])
    }

    /// The values, at least one.
    pub(crate) fn values(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrManyVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a value or a list of at least one")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                Ok(OneOrMany(vec![T::deserialize(value.into_deserializer())?]))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
                Ok(OneOrMany(vec![T::deserialize(value.into_deserializer())?]))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
                Ok(OneOrMany(vec![T::deserialize(value.into_deserializer())?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                if values.is_empty() {
                    return Err(A::Error::invalid_length(0, &self));
                }
                Ok(OneOrMany(values))
            }
        }

        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

/// Part of a run's id, and so of a folder's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(String);

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("1 to 100 letters, digits, dots, hyphens or underscores, a letter or digit first")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Name, E> {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
                let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
                if begins_well && text.len() <= 100 && text.chars().all(plain) {
                    Ok(Name(text.to_owned()))
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }
        }
        deserializer.deserialize_any(NameVisitor)
    }
}

/// When the first run of a plan begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start(TimestampNs);

impl Start {
    pub(crate) const fn nanos(self) -> i64 {
        self.0.nanos()
    }
}

impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Up to 100,000 runs an hour apart, and 30 days of the last one, must stay before 2262.
        const LATEST: i64 = 5_680_281_600_000_000_000; // 2150-01-01T00:00:00Z
        let time = TimestampNs::deserialize(deserializer)?;
        if (0..=LATEST).contains(&time.nanos()) {
            Ok(Self(time))
        } else {
            Err(D::Error::custom(format_args!(
                "{time} is out of range; expected a time between 1970 and 2150"
            )))
        }
    }
}

/// How many tokens a prompt or an answer has: a number, or bounds with a distribution between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Lengths {
    /// Always the same.
    Fixed(u32),
    /// Every length between the bounds equally often.
    Uniform { min: u32, max: u32 },
    /// Log-normal, held within the bounds.
    LogNormal { min: u32, max: u32, median: f64, sigma: f64 },
}

impl<'de> Deserialize<'de> for Lengths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Bounds {
            min: Tokens,
            max: Tokens,
            median: Option<Tokens>,
            sigma: Option<Shape>,
        }

        struct LengthsVisitor;
        impl<'de> Visitor<'de> for LengthsVisitor {
            type Value = Lengths;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .write_str("a number of tokens, { min, max }, or { min, max, median, sigma }")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Lengths, E> {
                Tokens::deserialize(value.into_deserializer()).map(|t| Lengths::Fixed(t.get()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Lengths, A::Error> {
                let bounds = Bounds::deserialize(MapAccessDeserializer::new(map))?;
                let (min, max) = (bounds.min.get(), bounds.max.get());
                if min > max {
                    return Err(A::Error::custom(format_args!(
                        "min is {min} and max is {max}; expected min to be at most max"
                    )));
                }
                match (bounds.median, bounds.sigma) {
                    (None, None) => Ok(Lengths::Uniform { min, max }),
                    (Some(median), Some(sigma)) if (min..=max).contains(&median.get()) => {
                        let median = f64::from(median.get());
                        Ok(Lengths::LogNormal { min, max, median, sigma: sigma.get() })
                    }
                    (Some(median), Some(_)) => Err(A::Error::custom(format_args!(
                        "median is {}; expected it between min {min} and max {max}",
                        median.get()
                    ))),
                    _ => Err(A::Error::custom(
                        "one of median and sigma is missing; expected both or neither",
                    )),
                }
            }
        }
        deserializer.deserialize_any(LengthsVisitor)
    }
}
