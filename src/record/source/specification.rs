//! How the command line names a power source: `NAME`, or `NAME=VALUE`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::http::{Address, AddressError};

/// A power source as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSpecification {
    /// NVIDIA boards, by NVML.
    Nvml,
    /// AMD boards, by amd-smi's library.
    Amd,
    /// CPU packages and memory, by the counters under `/sys/class/powercap`.
    Rapl,
    /// Sensors under `/sys/class/hwmon`.
    Hwmon,
    /// A board controller, by Redfish.
    Redfish {
        /// Its address.
        url: String,
    },
    /// A board controller, by IPMI DCMI.
    Ipmi {
        /// Its host; the machine's own controller if absent.
        host: Option<String>,
    },
    /// An outlet of a power distribution unit, by SNMP.
    Snmp {
        /// Its host.
        host: String,
        /// The object that is read, with its unit after a colon where none is known; or two with a comma
        /// between, of power and of energy.
        oid: String,
    },
    /// A DCGM exporter.
    Dcgm {
        /// Its address.
        url: String,
    },
    /// A file of samples, given out again as time passes; for tests and benchmarks.
    Replay {
        /// CSV or Parquet with columns t, device, `power_w` and `energy_j`.
        file: PathBuf,
    },
}

/// Why a text names no power source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" {problem}; expected nvml, amd, rapl, hwmon, redfish=URL, ipmi, ipmi=HOST, \
     snmp=HOST,OID[:UNIT], dcgm=URL or replay=FILE"
)]
pub struct SpecificationError {
    /// The text as it was given.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl SourceSpecification {
    /// The name before `=`, which also begins the ids in `power_sources`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nvml => "nvml",
            Self::Amd => "amd",
            Self::Rapl => "rapl",
            Self::Hwmon => "hwmon",
            Self::Redfish { .. } => "redfish",
            Self::Ipmi { .. } => "ipmi",
            Self::Snmp { .. } => "snmp",
            Self::Dcgm { .. } => "dcgm",
            Self::Replay { .. } => "replay",
        }
    }

    /// Whose devices it reads, as far as the text tells; `None` is this machine. Exporters and PDUs may
    /// each speak for several machines.
    pub(super) fn place(&self) -> Option<String> {
        let without =
            |text: &str, port: &str| text.strip_suffix(port).unwrap_or(text).to_lowercase();
        match self {
            Self::Nvml | Self::Amd | Self::Rapl | Self::Hwmon | Self::Ipmi { host: None } => None,
            Self::Redfish { url } => {
                let (scheme, rest) = url.split_once("://").unwrap_or_default();
                let authority = rest.split('/').next().unwrap_or_default();
                let port = if scheme == "http" { ":80" } else { ":443" };
                Some(without(authority, port))
            }
            Self::Ipmi { host: Some(host) } => Some(without(host, ":623")),
            Self::Snmp { .. } | Self::Dcgm { .. } | Self::Replay { .. } => Some(self.to_string()),
        }
    }
}

impl FromStr for SourceSpecification {
    type Err = SpecificationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem| SpecificationError { text: text.to_owned(), problem };
        let (name, value) = match text.split_once('=') {
            Some((_, "")) => return Err(error("has nothing after \"=\"")),
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let address = |problem| {
            let url = value.ok_or_else(|| error(problem))?;
            let address: Result<Address, AddressError> = url.parse();
            address.map(|_| url.to_owned()).map_err(|other| error(other.problem))
        };
        match (name, value) {
            ("nvml", None) => Ok(Self::Nvml),
            ("amd", None) => Ok(Self::Amd),
            ("rapl", None) => Ok(Self::Rapl),
            ("hwmon", None) => Ok(Self::Hwmon),
            ("nvml" | "amd" | "rapl" | "hwmon", Some(_)) => Err(error("takes no value")),
            ("redfish", _) => Ok(Self::Redfish { url: address("has no address")? }),
            ("dcgm", _) => Ok(Self::Dcgm { url: address("has no address")? }),
            ("ipmi" | "snmp", Some(value)) if value.contains('@') => {
                Err(error("holds credentials, which others could read"))
            }
            ("ipmi", host) => Ok(Self::Ipmi { host: host.map(str::to_owned) }),
            ("snmp", value) => {
                let parts = value.and_then(|value| value.split_once(','));
                let (host, oid) = parts.ok_or_else(|| error("lacks a host and an object"))?;
                Ok(Self::Snmp { host: host.to_owned(), oid: oid.to_owned() })
            }
            ("replay", value) => {
                let file = value.ok_or_else(|| error("has no file"))?;
                Ok(Self::Replay { file: file.into() })
            }
            _ => Err(error("is no power source")),
        }
    }
}

impl fmt::Display for SourceSpecification {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())?;
        match self {
            Self::Nvml | Self::Amd | Self::Rapl | Self::Hwmon | Self::Ipmi { host: None } => Ok(()),
            Self::Redfish { url } | Self::Dcgm { url } => write!(formatter, "={url}"),
            Self::Ipmi { host: Some(host) } => write!(formatter, "={host}"),
            Self::Snmp { host, oid } => write!(formatter, "={host},{oid}"),
            Self::Replay { file } => write!(formatter, "={}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_read_back_as_it_is_shown() {
        for text in [
            "nvml",
            "amd",
            "rapl",
            "hwmon",
            "redfish=https://bmc/redfish/v1/Chassis/1",
            "ipmi",
            "ipmi=10.0.0.1",
            "snmp=[::1]:1161,1.3.6.1.4.1.318.1.1.26.4.3.1.5.1,1.3.6.1.4.1.1:0.1Wh",
            "dcgm=http://127.0.0.1:9400/metrics",
            "replay=power=1.csv",
        ] {
            let source: SourceSpecification = text.parse().unwrap();
            assert_eq!(source.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_source_is_said() {
        let messages = [
            "",
            "nvidia",
            "nvml=0",
            "redfish",
            "redfish=bmc",
            "redfish=https://u:p@bmc",
            "snmp=pdu",
            "ipmi=u:p@bmc",
            "replay=",
        ]
        .map(|text| {
            let message = text.parse::<SourceSpecification>().unwrap_err().to_string();
            message.split(';').next().unwrap_or_default().to_owned()
        });
        insta::assert_snapshot!(messages.join("\n"), @r#"
        "" is no power source
        "nvidia" is no power source
        "nvml=0" takes no value
        "redfish" has no address
        "redfish=bmc" is neither http nor https
        "redfish=https://u:p@bmc" holds a user or a password, which others could read
        "snmp=pdu" lacks a host and an object
        "ipmi=u:p@bmc" holds credentials, which others could read
        "replay=" has nothing after "="
        "#);
    }
}
