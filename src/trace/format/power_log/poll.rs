//! Answers that a loop polls from a device, each with the time at which it was asked.

use serde_json::{Map, Value};

use super::{Problem, Settings, Stamp, parse_stamp};

/// Gives every answer its time: that of the line before it, or else the anchor and the interval.
#[derive(Debug)]
pub(in super::super) struct PollClock {
    settings: Settings,
    /// What is polled, for messages.
    what: &'static str,
    stamped: bool,
    next: Option<i64>,
    tick: i64,
}

impl PollClock {
    pub(in super::super) const fn new(settings: Settings, what: &'static str) -> Self {
        Self { settings, what, stamped: false, next: None, tick: 0 }
    }

    /// Takes the time of the answer that follows.
    pub(in super::super) fn stamp(&mut self, stamp: Stamp) -> Result<i64, Problem> {
        let t_ns = self.settings.resolve(stamp)?;
        self.stamped = true;
        self.next = Some(t_ns);
        Ok(t_ns)
    }

    /// The time of an answer that begins now.
    pub(in super::super) fn answer(&mut self) -> Result<i64, Problem> {
        if let Some(t_ns) = self.next.take() {
            return Ok(t_ns);
        }
        if self.stamped {
            return Err(
                "has no time of its own; expected a line with one before each answer".into()
            );
        }
        let t_ns = self.settings.tick(self.tick, self.what)?;
        self.tick += 1;
        Ok(t_ns)
    }

    /// Whether times come from lines of the log; else from the anchor and the interval.
    pub(in super::super) const fn is_stamped(&self) -> bool {
        self.stamped
    }

    pub(in super::super) const fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// A record of a poll in JSON: when it was asked, and what was answered.
#[derive(Debug)]
pub(in super::super) struct Record<'a> {
    pub(in super::super) stamp: Stamp,
    pub(in super::super) body: &'a Value,
    /// Address that was asked, where the record names it.
    pub(in super::super) address: Option<&'a str>,
    /// How long the answer took.
    pub(in super::super) latency_ns: Option<u64>,
}

const TIMES: [&str; 5] = ["time", "timestamp", "poll_time", "t", "time_unix"];
const BODIES: [&str; 4] = ["body", "response", "data", "json"];
const ADDRESSES: [&str; 4] = ["uri", "url", "path", "endpoint"];
const LATENCIES: [(&str, f64); 5] = [
    ("latency_ms", 1e6),
    ("elapsed_ms", 1e6),
    ("latency_s", 1e9),
    ("elapsed_s", 1e9),
    ("latency_ns", 1.0),
];

impl<'a> Record<'a> {
    /// Reads `{"time": …, "uri": …, "latency_ms": …, "body": {…}}`; `None` if the object has no body.
    pub(in super::super) fn parse(object: &'a Map<String, Value>) -> Option<Result<Self, String>> {
        let first = |keys: &[&str]| keys.iter().find_map(|key| object.get(*key));
        let body = first(&BODIES).filter(|body| body.is_object())?;
        Some(Self::with_body(object, body, first(&ADDRESSES).and_then(Value::as_str)))
    }

    fn with_body(
        object: &'a Map<String, Value>,
        body: &'a Value,
        address: Option<&'a str>,
    ) -> Result<Self, String> {
        let Some((key, time)) = TIMES.iter().find_map(|key| Some((key, object.get(*key)?))) else {
            return Err(format!("has no time; expected one of the keys {}", TIMES.join(", ")));
        };
        let text = match time {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let stamp = parse_stamp(&text).ok_or_else(|| {
            format!("\"{key}\" is \"{text}\"; expected a time such as \"2025-01-31T12:34:56.789Z\"")
        })?;
        let latency_ns = LATENCIES.iter().find_map(|(key, scale)| {
            let nanos = object.get(*key)?.as_f64()? * scale;
            (0.0..1e15).contains(&nanos).then_some(nanos as u64)
        });
        Ok(Self { stamp, body, address, latency_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_own_time() {
        let mut clock = PollClock::new(Settings::default(), "it");
        clock.stamp(Stamp::Instant(7)).unwrap();
        assert_eq!(clock.answer(), Ok(7));
        assert_eq!(
            clock.answer().unwrap_err(),
            Problem::Skip(
                "has no time of its own; expected a line with one before each answer".into()
            )
        );
    }

    #[test]
    fn a_record_has_a_time_and_a_body() {
        let read = |text: &str| {
            let value: Value = serde_json::from_str(text).unwrap();
            let record = Record::parse(value.as_object().unwrap());
            record.map(|record| record.map(|record| (record.stamp, record.latency_ns)))
        };
        let time = Stamp::Instant(1_736_944_496_500_000_000);
        assert_eq!(
            read(r#"{"t": 1736944496.5, "latency_ms": 2.5, "body": {}}"#),
            Some(Ok((time, Some(2_500_000))))
        );
        assert_eq!(
            read(r#"{"time": "2025-01-15T12:34:56.5Z", "response": {}}"#),
            Some(Ok((time, None)))
        );
        assert_eq!(read(r#"{"t": 1}"#), None);
        insta::assert_snapshot!(read(r#"{"body": {}}"#).unwrap().unwrap_err(), @"has no time; expected one of the keys time, timestamp, poll_time, t, time_unix");
        insta::assert_snapshot!(read(r#"{"t": "noon", "body": {}}"#).unwrap().unwrap_err(), @r#""t" is "noon"; expected a time such as "2025-01-31T12:34:56.789Z""#);
    }
}
