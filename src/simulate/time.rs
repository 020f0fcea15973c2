//! From the plan's units of time to nanoseconds and back.

/// Longest that a run may last; simulated time, not the computer's.
pub(crate) const MAX_RUN_SECONDS: f64 = 30.0 * 86_400.0;

/// The nearest whole nanosecond. Plans are bounded to far less than 64 bits hold.
pub(crate) fn seconds_to_ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

pub(crate) fn milliseconds_to_ns(milliseconds: f64) -> i64 {
    (milliseconds * 1e6).round() as i64
}

pub(crate) fn nanoseconds_to_seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}
