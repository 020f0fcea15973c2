//! Asking an engine over HTTP, and counting when it does not answer.

use std::collections::BTreeMap;

use crate::Context;
use crate::http::{Address, Client, HttpOptions};

/// An engine that is asked again and again.
#[derive(Debug)]
pub(crate) struct Endpoint {
    client: Client,
    answers: u64,
    /// Why there was no answer since the last one, and how often. An engine that is not up yet, or not any
    /// more, is no failure; where another answer follows one, these were.
    pending: BTreeMap<String, u64>,
    before_first: BTreeMap<String, u64>,
}

impl Endpoint {
    /// An engine at an address. Nothing is asked yet.
    ///
    /// # Errors
    /// What is wrong with the certificates to trust.
    pub(crate) fn new(address: &Address, options: &HttpOptions) -> Result<Self, String> {
        Ok(Self {
            client: Client::of_engine(address.clone(), options)?,
            answers: 0,
            pending: BTreeMap::new(),
            before_first: BTreeMap::new(),
        })
    }

    pub(crate) const fn address(&self) -> &Address {
        self.client.address()
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
        let answer = self.client.get(self.client.path());
        answer.map(|answer| answer.text).map_err(|failure| failure.cause)
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
                context.count_failure(source, self.address().authority(), cause);
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
        if self.client.is_unverified() {
            summary += ", not verified by a certificate (--insecure)";
        }
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
