//! Asking an engine over HTTP, and counting when it does not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use super::MetricsAddress;
use crate::Context;

/// Largest answer that is read.
const MOST_BYTES: u64 = 16 << 20;

/// Longest time that an answer may take; an engine under load answers late.
const ANSWER: Duration = Duration::from_secs(5);

/// An engine that is asked again and again.
#[derive(Debug)]
pub(crate) struct Endpoint<'a> {
    address: &'a MetricsAddress,
    agent: ureq::Agent,
    answers: u64,
    /// Why there was no answer since the last one, and how often. An engine that is not up yet, or not any
    /// more, is no failure; where another answer follows one, these were.
    pending: BTreeMap<String, u64>,
    before_first: BTreeMap<String, u64>,
}

impl<'a> Endpoint<'a> {
    pub(crate) fn new(address: &'a MetricsAddress) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER))
            .max_redirects(0)
            .http_status_as_error(false)
            // The environment may name a proxy for the world; engines are asked directly.
            .proxy(None)
            // A connection that the engine closes meanwhile would fail the next question.
            .max_idle_connections(0)
            .user_agent(concat!("wattrace-record/", env!("CARGO_PKG_VERSION")));
        Self {
            address,
            agent: config.build().new_agent(),
            answers: 0,
            pending: BTreeMap::new(),
            before_first: BTreeMap::new(),
        }
    }

    /// Whether the last question was answered.
    pub(crate) fn is_up(&self) -> bool {
        self.answers > 0 && self.pending.is_empty()
    }

    /// Asks once.
    ///
    /// # Errors
    /// Why there is no answer, in short and without changing numbers.
    pub(crate) fn ask(&self) -> Result<String, String> {
        let mut response = self.agent.get(self.address.url()).call().map_err(|e| cause(&e))?;
        if response.status() != 200 {
            return Err(format!("it answered with HTTP {}", response.status().as_u16()));
        }
        response
            .body_mut()
            .with_config()
            .limit(MOST_BYTES)
            .lossy_utf8(true)
            .read_to_string()
            .map_err(|error| cause(&error))
    }

    /// An answer was of use: what failed since the one before is counted for `source`.
    pub(crate) fn answered(&mut self, context: &Context, source: &str) {
        let pending = std::mem::take(&mut self.pending);
        if self.answers == 0 {
            self.before_first = pending;
        } else {
            self.count(&pending, context, source);
        }
        self.answers += 1;
    }

    /// There was no answer, or none of use.
    pub(crate) fn failed(&mut self, cause: String) {
        *self.pending.entry(cause).or_insert(0) += 1;
    }

    fn count(&self, causes: &BTreeMap<String, u64>, context: &Context, source: &str) {
        for (cause, count) in causes {
            for _ in 0..*count {
                context.count_failure(source, self.address.authority(), cause);
            }
        }
    }

    /// What came of the questions, for the notes. If there never was an answer, each was a failure.
    pub(crate) fn summary(&self, context: &Context, source: &str) -> String {
        if self.answers == 0 {
            self.count(&self.pending, context, source);
            return format!("there was no answer ({})", counted(&self.pending));
        }
        let mut summary = format!("{} answers", self.answers);
        for (causes, when) in [
            (&self.before_first, "before the first answer, questions without one"),
            (&self.pending, "after the last answer, questions without one"),
        ] {
            if !causes.is_empty() {
                summary += &format!("; {when}: {}", counted(causes));
            }
        }
        summary
    }
}

fn counted(causes: &BTreeMap<String, u64>) -> String {
    let counts: Vec<String> =
        causes.iter().map(|(cause, count)| format!("{cause} ({count})")).collect();
    counts.join(", ")
}

fn cause(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::HostNotFound => "the host is not known".to_owned(),
        ureq::Error::ConnectionFailed => "no connection".to_owned(),
        ureq::Error::BodyExceedsLimit(_) => "its answer is too large".to_owned(),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            "no answer in time".to_owned()
        }
        ureq::Error::Io(error) => error.kind().to_string(),
        _ => "its answer is no HTTP".to_owned(),
    }
}
