//! Units of columns and metrics.

/// Unit of a column or metric. `ucum` is the code of the Unified Code for Units of Measure where one
/// exists; `symbol` is what people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the unit that it names")]
pub enum Unit {
    None,
    Timestamp,
    Nanosecond,
    Millisecond,
    Second,
    Watt,
    Joule,
    JoulePerToken,
    JoulePerRequest,
    Token,
    TokenPerSecond,
    TokenPerJoule,
    RequestPerSecond,
    SecondPerToken,
    GigabytePerToken,
    Byte,
    Megahertz,
    Celsius,
    Percent,
    Ratio,
    Count,
    JoulePerGigabyte,
    JoulePerIteration,
    SecondPerGigabyte,
    GigabytePerSecond,
    StepPerSecond,
    Point,
}

impl Unit {
    /// What is printed in a table heading; empty for [`Unit::None`] and [`Unit::Timestamp`].
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::None | Self::Timestamp => "",
            Self::Nanosecond => "ns",
            Self::Millisecond => "ms",
            Self::Second => "s",
            Self::Watt => "W",
            Self::Joule => "J",
            Self::JoulePerToken => "J/token",
            Self::JoulePerRequest => "J/request",
            Self::Token => "tokens",
            Self::TokenPerSecond => "tok/s",
            Self::TokenPerJoule => "tok/J",
            Self::RequestPerSecond => "req/s",
            Self::SecondPerToken => "s/token",
            Self::GigabytePerToken => "GB/token",
            Self::Byte => "B",
            Self::Megahertz => "MHz",
            Self::Celsius => "°C",
            Self::Percent => "%",
            Self::Ratio | Self::Count => "1",
            Self::JoulePerGigabyte => "J/GB",
            Self::JoulePerIteration => "J/iteration",
            Self::SecondPerGigabyte => "s/GB",
            Self::GigabytePerSecond => "GB/s",
            Self::StepPerSecond => "steps/s",
            Self::Point => "points",
        }
    }

    /// The UCUM code; tokens and requests are annotations there, since they are counts.
    #[must_use]
    pub const fn ucum(self) -> &'static str {
        match self {
            Self::None | Self::Timestamp => "",
            Self::Nanosecond => "ns",
            Self::Millisecond => "ms",
            Self::Second => "s",
            Self::Watt => "W",
            Self::Joule => "J",
            Self::JoulePerToken => "J/{token}",
            Self::JoulePerRequest => "J/{request}",
            Self::Token => "{token}",
            Self::TokenPerSecond => "{token}/s",
            Self::TokenPerJoule => "{token}/J",
            Self::RequestPerSecond => "{request}/s",
            Self::SecondPerToken => "s/{token}",
            Self::GigabytePerToken => "GBy/{token}",
            Self::Byte => "By",
            Self::Megahertz => "MHz",
            Self::Celsius => "Cel",
            Self::Percent => "%",
            Self::Ratio | Self::Count => "1",
            Self::JoulePerGigabyte => "J/GBy",
            Self::JoulePerIteration => "J/{iteration}",
            Self::SecondPerGigabyte => "s/GBy",
            Self::GigabytePerSecond => "GBy/s",
            Self::StepPerSecond => "{step}/s",
            Self::Point => "{point}",
        }
    }
}
