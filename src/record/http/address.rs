//! Addresses of services.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ureq::http::Uri;

/// An `http` or `https` address without a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// As it was given.
    text: String,
    /// Host and port as they were given.
    authority: String,
    host: String,
    port: Option<u16>,
    is_encrypted: bool,
    path: String,
}

/// Why a text is no such address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" {problem}; expected an address such as http://127.0.0.1:8000")]
pub struct AddressError {
    /// The text, without what stands before an `@`.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Address {
    /// The address as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host and port, as they were given.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The host; an IPv6 address stands in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, the usual one of the scheme if none is given.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.is_encrypted { 443 } else { 80 })
    }

    /// Path and query; `/` if there are none.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is an `https` address.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Scheme, host and port, before which no path stands.
    pub(crate) fn base(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Whether what is sent there stays on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let unusable = |problem| AddressError { text: without_user(text), problem };
        let uri: Uri = text.parse().map_err(|_| unusable("is no address"))?;
        let authority = uri.authority().ok_or_else(|| unusable("names no host"))?;
        // What stands here appears in the process list and in run.json.
        if authority.as_str().contains('@') {
            return Err(unusable("holds a user or a password, which others could read"));
        }
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(unusable("is neither http nor https")),
        };
        if authority.host().is_empty() {
            return Err(unusable("names no host"));
        }
        let port = authority.port_u16();
        if port.is_none() && authority.as_str() != authority.host() {
            return Err(unusable("has a port that cannot be"));
        }
        Ok(Self {
            text: text.to_owned(),
            authority: authority.to_string(),
            host: authority.host().to_owned(),
            port,
            is_encrypted,
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The text without what stands before an `@`.
fn without_user(text: &str) -> String {
    let start = text.find("://").map_or(0, |scheme| scheme + 3);
    match text.rfind('@') {
        Some(at) if start <= at => format!("{}***{}", &text[..start], &text[at..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_a_host_a_port_and_a_path() {
        let parts = |text: &str| {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let Address { authority, host, path, .. } = &address;
            format!("{authority} {host} {} {path} {}", address.port(), address.is_encrypted())
        };
        assert_eq!(parts("http://localhost:8000"), "localhost:8000 localhost 8000 / false");
        assert_eq!(parts("https://h/metrics?a=b"), "h h 443 /metrics?a=b true");
        assert_eq!(parts("http://[::1]/v1"), "[::1] [::1] 80 /v1 false");
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_its_secret() {
        let message = |text: &str| text.parse::<Address>().unwrap_err().to_string();
        let texts = [
            "127.0.0.1:8000",
            "http://me:secret@host/v1",
            "me:secret@host",
            "ftp://host",
            "http:// host",
            "http://",
            "http://host:99999",
            "/metrics",
            "",
        ];
        insta::assert_snapshot!(texts.map(message).join("\n"), @r#"
        "127.0.0.1:8000" is neither http nor https; expected an address such as http://127.0.0.1:8000
        "http://***@host/v1" holds a user or a password, which others could read; expected an address such as http://127.0.0.1:8000
        "***@host" holds a user or a password, which others could read; expected an address such as http://127.0.0.1:8000
        "ftp://host" is neither http nor https; expected an address such as http://127.0.0.1:8000
        "http:// host" is no address; expected an address such as http://127.0.0.1:8000
        "http://" is no address; expected an address such as http://127.0.0.1:8000
        "http://host:99999" has a port that cannot be; expected an address such as http://127.0.0.1:8000
        "/metrics" names no host; expected an address such as http://127.0.0.1:8000
        "" is no address; expected an address such as http://127.0.0.1:8000
        "#);
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        let is_loopback = |text: &str| text.parse::<Address>().unwrap().is_loopback();
        for text in ["http://LocalHost:1", "http://127.0.0.2", "http://[::1]:80"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in ["http://host", "http://10.0.0.1", "http://localhost.example.org"] {
            assert!(!is_loopback(text), "{text}");
        }
    }
}
