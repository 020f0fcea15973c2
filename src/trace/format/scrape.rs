//! Samples as Prometheus text, and the values of an engine's metrics for `engine.parquet`.

use std::collections::BTreeMap;

/// A sample: `name{label="text",…} value [time] [# exemplar]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    /// Name of the metric.
    pub(super) name: &'a str,
    /// What stands between the braces, as it stands there; none if nothing does.
    pub(super) labels: Option<&'a str>,
    /// Name and text of every label; the text as it stands between the quotes.
    pairs: Vec<(&'a str, &'a str)>,
    /// The value as it is written.
    pub(super) value: &'a str,
    /// The time as it is written: milliseconds since 1970 in Prometheus' text, seconds in OpenMetrics'.
    pub(super) time: Option<&'a str>,
}

impl<'a> Sample<'a> {
    /// Reads a line; `None` if it is no sample. Comments and empty lines are none.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
        let (name, rest) = line.split_at(name_end);
        if !is_name(name) {
            return None;
        }
        let (pairs, labels, rest) = match rest.trim_start().strip_prefix('{') {
            Some(inner) => {
                let (pairs, rest) = take_labels(inner)?;
                let text = &inner[..inner.len() - rest.len() - 1];
                (pairs, Some(text).filter(|text| !text.is_empty()), rest)
            }
            None => (Vec::new(), None, rest),
        };
        // An exemplar has braces and a value of its own.
        let mut cells = rest.split('#').next()?.split_whitespace();
        let (value, time) = (cells.next()?, cells.next());
        cells.next().is_none().then_some(Self { name, labels, pairs, value, time })
    }

    /// The labels with their escapes resolved.
    pub(super) fn label_texts(&self) -> BTreeMap<String, String> {
        self.pairs.iter().map(|(name, text)| ((*name).to_owned(), unescaped(text))).collect()
    }
}

/// Whether a metric may be called so.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    text.bytes().all(is_part) && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Labels after the opening brace, and what follows the closing one.
fn take_labels(text: &str) -> Option<(Vec<(&str, &str)>, &str)> {
    let mut labels = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let quoted = after.trim_start().strip_prefix('"')?;
        let end = closing_quote(quoted)?;
        labels.push((name.trim(), &quoted[..end]));
        rest = quoted[end + 1..].trim_start().trim_start_matches(',').trim_start();
    }
}

/// Where the quote is that ends a text which may hold escaped ones.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn unescaped(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => whole.push('\n'),
                other => whole.extend(other),
            },
            other => whole.push(other),
        }
    }
    whole
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineValue<'a> {
    /// Name of the metric.
    pub name: &'a str,
    /// Labels as they stand between the braces; none if there are none.
    pub labels: Option<&'a str>,
    /// The value; none if it is not finite.
    pub value: Option<f64>,
}

impl<'a> EngineValue<'a> {
    /// Reads a line such as `name{key="value"} 1.5`; `None` if it is none. Comments and empty lines are
    /// none either.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let Sample { name, labels, value, .. } = Sample::parse(line)?;
        let value: f64 = value.parse().ok()?;
        Some(Self { name, labels, value: Some(value).filter(|value| value.is_finite()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_names_and_labels() {
        let parsed = |line| EngineValue::parse(line).map(|v| (v.name, v.labels, v.value));
        assert_eq!(parsed("a 1e3"), Some(("a", None, Some(1000.0))));
        assert_eq!(parsed("a{} -1 17"), Some(("a", None, Some(-1.0))));
        assert_eq!(parsed("a:b{c=\"{}\"} NaN"), Some(("a:b", Some("c=\"{}\""), None)));
        assert_eq!(parsed("a +Inf"), Some(("a", None, None)));
        for line in
            ["", "# TYPE a 1", "a", "a{ 1", "a b", "{} 1", "a}{ 1", "a{b} 1", "a{b=\"c} 1", "1a 1"]
        {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn an_exemplar_is_no_part_of_the_value() {
        fn parsed(line: &str) -> Option<(&str, Option<&str>, Option<f64>)> {
            EngineValue::parse(line).map(|v| (v.name, v.labels, v.value))
        }
        let exemplar = "# {trace_id=\"a\"} 1 1700000000.5";
        let line = format!("x_total 5 {exemplar}");
        assert_eq!(parsed(&line), Some(("x_total", None, Some(5.0))));
        let line = format!("x_total{{a=\"#}}\",}} 5 1700000001.25 {exemplar}");
        assert_eq!(parsed(&line), Some(("x_total", Some("a=\"#}\","), Some(5.0))));
    }

    #[test]
    fn escapes_are_resolved_where_labels_are_read_one_by_one() {
        let sample = Sample::parse(r#"a { b = "x\"}\\" , c="1\n2" } 7 1000"#).unwrap();
        let labels: Vec<(String, String)> = sample.label_texts().into_iter().collect();
        let label = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(labels, [label("b", "x\"}\\"), label("c", "1\n2")]);
        assert_eq!((sample.name, sample.value, sample.time), ("a", "7", Some("1000")));
    }
}
