//! Every bounded quantity of a plan in one list: its name, the words that messages use for it, and its
//! range. The ranges keep any plan within what nanoseconds in 64 bits and the memory of a workstation
//! can hold; they are no judgement of what is realistic.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A number with a range and words for it.
trait Quantity: Sized {
    type Number: Number;
    const WORDS: &'static str;
    const RANGE: (Self::Number, Self::Number);
    fn new(number: Self::Number) -> Self;
}

/// How a TOML number becomes the quantity's own type.
trait Number: Copy + PartialOrd + fmt::Display {
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

struct Bounded<Q>(PhantomData<Q>);

impl<Q: Quantity> Bounded<Q> {
    fn accept<E: Error>(&self, number: Option<Q::Number>, found: Unexpected) -> Result<Q, E> {
        let (min, max) = Q::RANGE;
        let inside = number.filter(|number| min <= *number && *number <= max);
        inside.map(Q::new).ok_or_else(|| E::invalid_value(found, self))
    }
}

impl<Q: Quantity> Visitor<'_> for Bounded<Q> {
    type Value = Q;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = Q::RANGE;
        write!(formatter, "{} from {min} to {max}", Q::WORDS)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Q, E> {
        self.accept(Q::Number::from_integer(value), Unexpected::Signed(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Q, E> {
        self.accept(Q::Number::from_float(value), Unexpected::Float(value))
    }
}

macro_rules! quantities {
    ($number:ty; $($name:ident $words:literal $min:literal to $max:literal;)+) => {$(
        #[doc = concat!("Bounded number of ", $words, ".")]
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub(crate) struct $name($number);

        impl $name {
            /// A default that stands in the code; the compiler refuses one that is out of range.
            #[allow(dead_code, reason = "not every quantity has a default")]
            pub(crate) const fn constant(value: $number) -> Self {
                let (min, max) = <Self as Quantity>::RANGE;
                assert!(min <= value && value <= max);
                Self(value)
            }

            pub(crate) const fn get(self) -> $number {
                self.0
            }
        }

        impl Quantity for $name {
            type Number = $number;
            const WORDS: &'static str = $words;
            const RANGE: ($number, $number) = ($min, $max);

            fn new(number: $number) -> Self {
                Self(number)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Bounded(PhantomData))
            }
        }
    )+};
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
    Efficiency "shares" 0.01 to 1.0;
    TokensPerSecond "tokens per second" 1.0 to 1e9;
    RequestsPerSecond "requests per second" 0.01 to 1e6;
    Shape "units" 0.0 to 5.0;
    BytesPerValue "bytes" 0.1 to 16.0;
}

quantities! { u32;
    Count "items" 1 to 10_000_000;
    CountOrNone "items" 0 to 10_000_000;
    Repeats "repeats" 1 to 100_000;
    Boards "boards" 1 to 1024;
    Batch "sequences" 1 to 100_000;
    Tokens "tokens" 1 to 10_000_000;
    Dimension "elements" 1 to 100_000_000;
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
