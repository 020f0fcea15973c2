//! Where an engine gives its metrics.

use std::fmt;
use std::str::FromStr;

use ureq::http::Uri;

/// An `http` address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress {
    url: String,
    authority: String,
}

impl MetricsAddress {
    /// The address as it was given.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected an address such as http://127.0.0.1:8000/metrics";
        let uri: Uri = text.parse().map_err(|error| format!("{error}; {expected}"))?;
        if uri.scheme_str() != Some("http") {
            return Err(expected.to_owned());
        }
        match uri.authority() {
            // Whatever stands before an "@" is a secret that would be written into the run.
            Some(authority) if !authority.as_str().contains('@') => {
                Ok(Self { url: text.to_owned(), authority: authority.to_string() })
            }
            _ => Err(format!("names no host, or a user; {expected}")),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_http_without_a_user() {
        let address: MetricsAddress = "http://[::1]:8000/metrics".parse().unwrap();
        assert_eq!(address.authority(), "[::1]:8000");
        for text in
            ["localhost:8000", "https://h/metrics", "http://u:p@h/metrics", "http://a b/", ""]
        {
            assert!(text.parse::<MetricsAddress>().is_err(), "{text}");
        }
    }
}
