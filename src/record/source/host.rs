//! Hosts with a port, as `--power` names them.

use std::fmt;

/// `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPort {
    /// A name or an address, without brackets.
    pub(super) host: String,
    /// Its port.
    pub(super) port: u16,
}

impl HostPort {
    /// Reads a host; `default_port` where it names none. The error says what is wrong.
    pub(super) fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let error =
            |problem: &str| format!("\"{text}\" {problem}; expected HOST, HOST:PORT or [V6]:PORT");
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(|| error("lacks a bracket"))?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| error("is no IPv6 address"))?;
                let port = match rest {
                    "" => None,
                    rest => Some(rest.strip_prefix(':').ok_or_else(|| error("lacks a colon"))?),
                };
                (host, port)
            }
            // More than one colon is a bare IPv6 address.
            None if text.matches(':').count() > 1 => {
                text.parse::<std::net::Ipv6Addr>().map_err(|_| error("is no IPv6 address"))?;
                (text, None)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.starts_with('-') || !host.chars().all(is_name) {
            return Err(error("is no host"));
        }
        let port = match port {
            None => default_port,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(error("has no port from 1 to 65535")),
            },
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_a_port() {
        for (text, shown) in [
            ("pdu", "pdu:161"),
            ("pdu.rack-3:1161", "pdu.rack-3:1161"),
            ("10.0.0.1:7", "10.0.0.1:7"),
            ("fe80::1", "[fe80::1]:161"),
            ("[fe80::1]", "[fe80::1]:161"),
            ("[::1]:99", "[::1]:99"),
        ] {
            assert_eq!(HostPort::parse(text, 161).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_host_is_said() {
        let texts =
            ["", ":1", "a:", "a:0", "a:65536", "-x", "a b", "u:p@h", "[::1", "[x]:1", "[::1]1"];
        let messages = texts.map(|text| {
            let message = HostPort::parse(text, 161).unwrap_err();
            message.split(';').next().unwrap_or_default().to_owned()
        });
        insta::assert_snapshot!(messages.join("\n"), @r#"
        "" is no host
        ":1" is no host
        "a:" has no port from 1 to 65535
        "a:0" has no port from 1 to 65535
        "a:65536" has no port from 1 to 65535
        "-x" is no host
        "a b" is no host
        "u:p@h" has no port from 1 to 65535
        "[::1" lacks a bracket
        "[x]:1" is no IPv6 address
        "[::1]1" lacks a colon
        "#);
    }
}
