//! Points in time and windows between them, in whole nanoseconds.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: f64 = 1e9;

/// A text that is not an RFC 3339 time, or one outside the years 1677 to 2262 that 64-bit
/// nanoseconds can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimestampError {
    /// The text as it was given.
    pub text: String,
}

impl fmt::Display for TimestampError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "\"{}\" is not a time; expected RFC 3339 such as \"2026-01-31T12:00:00.123456789Z\" \
             between the years 1678 and 2261",
            self.text
        )
    }
}

impl std::error::Error for TimestampError {}

/// A point in time: nanoseconds since 1970-01-01T00:00:00Z on the clock of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampNs(i64);

impl TimestampNs {
    /// A time from nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339 text; an offset other than `Z` is converted to UTC.
    ///
    /// # Errors
    /// [`TimestampError`] when the text is no such time or does not fit 64-bit nanoseconds.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        let error = || TimestampError { text: text.to_owned() };
        let timestamp: jiff::Timestamp = text.parse().map_err(|_| error())?;
        i64::try_from(timestamp.as_nanosecond()).map(Self).map_err(|_| error())
    }
}

impl fmt::Display for TimestampNs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_nanosecond(i128::from(self.0))
            .expect("every 64-bit count of nanoseconds lies within the years 1677 to 2262");
        write!(formatter, "{timestamp}")
    }
}

impl Serialize for TimestampNs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimestampNs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for TimestampNs {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "RFC 3339, UTC, up to nine fractional digits"
        })
    }
}

/// A window of time; `start <= end` is the caller's business and is checked where windows are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// First instant, nanoseconds since the Unix epoch.
    pub start_ns: i64,
    /// Last instant, nanoseconds since the Unix epoch.
    pub end_ns: i64,
}

impl Interval {
    /// A window between two times.
    #[must_use]
    pub const fn new(start_ns: i64, end_ns: i64) -> Self {
        Self { start_ns, end_ns }
    }

    /// Length in seconds; negative when the window ends before it starts.
    #[must_use]
    pub fn duration_s(self) -> f64 {
        seconds_between(self.start_ns, self.end_ns)
    }
}

/// Seconds from `start_ns` to `end_ns`. The subtraction is done in integers (and in 128 bits, so that
/// absurd stamps cannot overflow): a time since 1970 in a 64-bit float steps by 238 ns.
fn seconds_between(start_ns: i64, end_ns: i64) -> f64 {
    (i128::from(end_ns) - i128::from(start_ns)) as f64 / NANOS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_nine_digits_survives_the_round_trip() {
        let time = TimestampNs::parse("2026-01-31T12:00:00.123456789Z").unwrap();
        assert_eq!(time.nanos() % 1_000_000_000, 123_456_789);
        assert_eq!(time.to_string(), "2026-01-31T12:00:00.123456789Z");
    }

    #[test]
    fn an_offset_becomes_utc() {
        let time = TimestampNs::parse("2026-01-31T05:00:00-07:00").unwrap();
        assert_eq!(time.to_string(), "2026-01-31T12:00:00Z");
    }

    #[test]
    fn a_local_time_is_refused() {
        let message = TimestampNs::parse("2026-01-31 12:00:00").unwrap_err().to_string();
        assert!(message.starts_with("\"2026-01-31 12:00:00\" is not a time"), "{message}");
    }

    #[test]
    fn extremes_print() {
        assert!(TimestampNs::from_nanos(i64::MIN).to_string().starts_with("1677"));
        assert!(TimestampNs::from_nanos(i64::MAX).to_string().starts_with("2262"));
        assert!(Interval::new(i64::MIN, i64::MAX).duration_s() > 1.8e10);
    }
}
