//! Values of an engine's metrics as Prometheus text, for `engine.parquet`.

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
        let (name, labels, rest) = match line.find('{') {
            Some(open) => {
                // A label's text may hold braces; the value after the last one has none.
                let close = line.rfind('}').filter(|close| *close > open)?;
                (&line[..open], Some(&line[open + 1..close]), &line[close + 1..])
            }
            None => {
                let (name, rest) = line.split_once(char::is_whitespace)?;
                (name, None, rest)
            }
        };
        let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
        let name = name.trim();
        if name.is_empty() || name.starts_with('#') {
            return None;
        }
        let labels = labels.filter(|labels| !labels.is_empty());
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
        for line in ["", "# TYPE a 1", "a", "a{ 1", "a b", "{} 1", "a}{ 1"] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
