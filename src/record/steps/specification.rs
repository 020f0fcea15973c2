//! How the command line names a log of decode iterations.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use wattrace_trace::format::{STEP_LOGS, StepLog, find_step_log};

use crate::http::{Address, AddressError};

/// A log of decode iterations that is followed while it is written.
#[derive(Debug, Clone)]
pub struct StepsSpecification {
    /// What writes it; found out from its content if absent.
    pub log: Option<&'static StepLog>,
    /// Where it is written.
    pub place: LogPlace,
}

/// Where a log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPlace {
    /// The output of the command that is run.
    Command,
    /// A file.
    File(PathBuf),
    /// Nowhere: the engine gives its statistics to whoever asks, once.
    Address(Address),
}

/// The engine that gives statistics to whoever asks.
const ASKED: &str = "trtllm";

/// The word for the output of the command that is run.
const COMMAND: &str = "command";

impl FromStr for StepsSpecification {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (log, place) = match text.split_once('=') {
            Some((name, place)) if find_step_log(name).is_some() => (find_step_log(name), place),
            _ => (None, text),
        };
        if place.is_empty() {
            let names: Vec<&str> = STEP_LOGS.iter().map(|log| log.name).collect();
            return Err(format!(
                "names no log; expected command, FILE, or one of them after an engine ({}), such as \
                 vllm=FILE",
                names.join(", ")
            ));
        }
        let place = match place {
            COMMAND => LogPlace::Command,
            url if url.starts_with("http://") || url.starts_with("https://") => {
                if log.is_none_or(|log| log.name != ASKED) {
                    return Err(format!(
                        "names an address; only {ASKED}=URL can be asked for steps"
                    ));
                }
                LogPlace::Address(url.parse().map_err(|error: AddressError| error.to_string())?)
            }
            file => LogPlace::File(file.into()),
        };
        Ok(Self { log, place })
    }
}

impl fmt::Display for StepsSpecification {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(log) = self.log {
            write!(formatter, "{}=", log.name)?;
        }
        match &self.place {
            LogPlace::Command => formatter.write_str(COMMAND),
            LogPlace::File(path) => write!(formatter, "{}", path.display()),
            LogPlace::Address(address) => write!(formatter, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_named_with_or_without_its_engine() {
        let parsed = |text: &str| {
            let parsed: StepsSpecification = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
            (parsed.log.map(|log| log.name), parsed.place)
        };
        let file = |path: &str| LogPlace::File(path.into());
        assert_eq!(parsed("vllm=server.log"), (Some("vllm"), file("server.log")));
        assert_eq!(parsed("a=b.log"), (None, file("a=b.log")));
        assert_eq!(parsed("./command"), (None, file("./command")));
        assert_eq!(parsed("sglang=command"), (Some("sglang"), LogPlace::Command));
        assert_eq!(parsed("command"), (None, LogPlace::Command));
        let address = "http://127.0.0.1:8000/metrics";
        let asked = parsed(&format!("trtllm={address}"));
        assert_eq!(asked, (Some("trtllm"), LogPlace::Address(address.parse().unwrap())));
        for text in [address, "vllm=http://127.0.0.1/metrics", "trtllm=http://u@h/"] {
            assert!(text.parse::<StepsSpecification>().is_err(), "{text}");
        }
        assert!("vllm=".parse::<StepsSpecification>().unwrap_err().starts_with("names no log"));
    }
}
