//! Every bounded quantity of a plan in one list: its name, the words that messages use for it, and its
//! range. The ranges keep any plan within what nanoseconds in 64 bits and the memory of a workstation
//! can hold; they are no judgement of what is realistic.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

macro_rules! quantities {
    ($number:ty; $($name:ident $words:literal $min:literal to $max:literal;)+) => {$(
        #[doc = concat!($words, ".")]
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub(crate) struct $name($number);

        impl $name {
            /// A default that stands in the code; the compiler refuses one that is out of range.
            pub(crate) const fn constant(value: $number) -> Self {
                assert!(value >= $min && value <= $max);
                Self(value)
            }

            pub(crate) const fn get(self) -> $number {
                self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Bounded;
                impl Visitor<'_> for Bounded {
                    type Value = $name;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(formatter, "{} from {} to {}", $words, $min, $max)
                    }

                    fn visit_i64<E: Error>(self, value: i64) -> Result<$name, E> {
                        let error = || E::invalid_value(Unexpected::Signed(value), &self);
                        let number = Number::from_integer(value).ok_or_else(error)?;
                        if ($min..=$max).contains(&number) { Ok($name(number)) } else { Err(error()) }
                    }

                    fn visit_f64<E: Error>(self, value: f64) -> Result<$name, E> {
                        let number = Number::from_float(value);
                        let number = number.ok_or_else(|| E::invalid_type(Unexpected::Float(value), &self))?;
                        if ($min..=$max).contains(&number) {
                            Ok($name(number))
                        } else {
                            Err(E::invalid_value(Unexpected::Float(value), &self))
                        }
                    }
                }
                deserializer.deserialize_any(Bounded)
            }
        }
    )+};
}

/// How a TOML number becomes the quantity's own type.
trait Number: Sized {
    fn from_integer(value: i64) -> Option<Self>;
    fn from_float(value: f64) -> Option<Self>;
}

impl Number for f64 {
    fn from_integer(value: i64) -> Option<Self> {
        Some(value as Self)
    }

    fn from_float(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Number for u32 {
    fn from_integer(value: i64) -> Option<Self> {
        Self::try_from(value).ok()
    }

    fn from_float(_: f64) -> Option<Self> {
        None
    }
}

impl Number for u64 {
    fn from_integer(value: i64) -> Option<Self> {
        Self::try_from(value).ok()
    }

    fn from_float(_: f64) -> Option<Self> {
        None
    }
}

quantities! { f64;
    Seconds "seconds" 0.0 to 1e6;
    PositiveSeconds "seconds" 0.001 to 1e6;
    Milliseconds "milliseconds" 0.0 to 1e6;
    SignedMilliseconds "milliseconds" -1e6 to 1e6;
    IntervalMilliseconds "milliseconds" 1.0 to 1e6;
    Microseconds "microseconds" 0.0 to 1e6;
    Watts "watts" 0.0 to 1e6;
    Joules "joules" 0.0 to 1e12;
    PositiveJoules "joules" 1.0 to 1e12;
    JoulesPerToken "joules per token" 0.0 to 1e4;
    SignedJoulesPerToken "joules per token" -1e4 to 1e4;
    JoulesPerGigabyte "joules per gigabyte" 0.0 to 1e4;
    GigabytesPerSecond "gigabytes per second" 0.001 to 1e6;
    Percent "percent" 0.0 to 100.0;
    PercentBeyond "percent" 0.0 to 10_000.0;
    SignedPercent "percent" -100.0 to 100.0;
    Efficiency "a share" 0.01 to 1.0;
    TokensPerSecond "tokens per second" 1.0 to 1e9;
    RequestsPerSecond "requests per second" 0.01 to 1e6;
    Shape "a shape" 0.0 to 5.0;
    BytesPerValue "bytes" 0.1 to 16.0;
}

quantities! { u32;
    Count "a count" 1 to 10_000_000;
    CountOrNone "a count" 0 to 10_000_000;
    Repeats "repeats" 1 to 100_000;
    Boards "boards" 1 to 1024;
    Batch "sequences" 1 to 100_000;
    Tokens "tokens" 1 to 10_000_000;
    Dimension "a size" 1 to 100_000_000;
}

quantities! { u64;
    Parameters "parameters" 1 to 1_000_000_000_000_000;
}

/// The quantities whose absence means none.
macro_rules! zero_by_default {
    ($($name:ident)+) => {$(
        impl Default for $name {
            fn default() -> Self {
                Self::constant(0.0)
            }
        }
    )+};
}

zero_by_default! {
    Seconds Milliseconds SignedMilliseconds Watts Joules JoulesPerToken Percent PercentBeyond SignedPercent
}
