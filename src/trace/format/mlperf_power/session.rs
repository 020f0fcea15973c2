//! `client.json` and `server.json` of MLPerf's power measurement: when the session took place by clocks
//! that know their zone, and what the analyser said of itself.

use std::path::Path;

use serde::Deserialize;

use super::super::head;
use crate::TraceError;

/// These files are a few kB; the messages of a very long session could make them larger.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// What the two files say together.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Name that the marks of the samples start with.
    pub(super) name: Option<String>,
    /// Seconds west of UTC of the two machines' zones, without daylight saving.
    pub(super) zones_west_s: Vec<i64>,
    /// Start and end of the measured phase, seconds since 1970.
    pub(super) testing: Option<(f64, f64)>,
    /// Time between samples that the analyser was told.
    pub(super) interval_ms: Option<f64>,
    /// Mean uncertainty of the power, as PTDaemon computes it.
    pub(super) uncertainty_percent: Option<f64>,
    /// Mean power of all samples by PTDaemon's own count, and how many those were.
    pub(super) mean_watts: Option<(f64, u64)>,
    /// Maker and type of the analyser.
    pub(super) analyser: Option<String>,
}

#[derive(Deserialize)]
struct File {
    timezone: Option<i64>,
    session_name: Option<String>,
    #[serde(default)]
    phases: Phases,
    #[serde(default)]
    ptd_messages: Vec<Message>,
}

#[derive(Deserialize, Default)]
struct Phases {
    /// Pairs of seconds since 1970 and a monotonic clock.
    #[serde(default)]
    testing: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct Message {
    cmd: String,
    reply: String,
}

impl Session {
    /// Reads whichever of the two files there are.
    ///
    /// # Errors
    /// When one cannot be read, is not valid, or names another session than the other.
    pub(super) fn read(paths: &[&Path]) -> Result<Self, TraceError> {
        let mut session = Self::default();
        for path in paths {
            session.add(path)?;
        }
        Ok(session)
    }

    fn add(&mut self, path: &Path) -> Result<(), TraceError> {
        let error = |line, message| TraceError::Format { path: path.to_owned(), line, message };
        std::fs::metadata(path).map_err(TraceError::io("read", path))?;
        let bytes = head(path, MAX_JSON_BYTES);
        let file: File = serde_json::from_slice(&bytes).map_err(|cause| {
            error(Some(cause.line() as u64), format!("is not a power session: {cause}"))
        })?;
        if let Some(name) = file.session_name {
            match &self.name {
                Some(other) if *other != name => {
                    let message =
                        format!("is of session \"{name}\", the other file of \"{other}\"");
                    return Err(error(None, message));
                }
                _ => self.name = Some(name),
            }
        }
        self.zones_west_s.extend(file.timezone);
        for (epoch, _) in file.phases.testing {
            let (start, end) = self.testing.unwrap_or((epoch, epoch));
            self.testing = Some((start.min(epoch), end.max(epoch)));
        }
        self.add_messages(&file.ptd_messages);
        Ok(())
    }

    /// Reads PTDaemon's answers; the last ones before its stop are those of the measured phase.
    fn add_messages(&mut self, messages: &[Message]) {
        for message in messages {
            let reply: Vec<&str> = message.reply.split(',').collect();
            let number = |place: usize| reply.get(place).and_then(|text| text.parse::<f64>().ok());
            match (message.cmd.as_str(), reply[0]) {
                ("Identify", _) => self.analyser = analyser(&message.reply),
                ("Watts", "Watts") => {
                    let samples = reply.get(4).and_then(|text| text.parse().ok());
                    self.mean_watts = number(1).zip(samples);
                }
                ("Uncertainty", "Uncertainty") => {
                    self.uncertainty_percent =
                        number(1).filter(|share| *share > 0.0 && *share < 1.0).map(percent);
                }
                (command, _) => {
                    let interval =
                        command.strip_prefix("Go,").and_then(|rest| rest.split(',').next());
                    let interval = interval.and_then(|text| text.parse::<f64>().ok());
                    if let Some(interval) = interval.filter(|ms| ms.is_finite() && *ms > 0.0) {
                        self.interval_ms = Some(interval);
                    }
                }
            }
        }
    }
}

/// A share as a percentage of four decimals, which is what PTDaemon's six give.
fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

/// Maker and type from the last cell, `MAKER;TYPE;SERIAL;FIRMWARE`; the serial number is left out.
fn analyser(reply: &str) -> Option<String> {
    let mut parts = reply.rsplit(',').next()?.split(';');
    let (maker, kind) = (parts.next()?, parts.next()?);
    Some(format!("{maker} {kind}"))
}
