//! What every thread of a recording shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use wattrace_schema::RequestStage;

use crate::clock::{Clock, RunClock};
use crate::{Sink, Stop};

/// Different causes kept for one source; further ones are counted together.
const MOST_CAUSES: usize = 32;

/// Failures of one kind, as `run.json` counts them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    /// Who failed: the id of a power source, `load`, `steps` and so on.
    pub source: String,
    /// What it failed at: a device, or empty.
    pub device: String,
    /// Why.
    pub cause: String,
    /// How often.
    pub count: u64,
}

/// The clock, the way out for rows, and the end of a recording. Whatever records takes an
/// `Arc<Context>` into its thread and ends it soon after `stop` is raised.
#[derive(Debug)]
pub struct Context {
    /// Dates everything.
    pub clock: RunClock,
    /// Takes rows.
    pub sink: Sink,
    /// Raised when the recording should end: reading stops, and the rows so far are written.
    pub stop: Stop,
    failures: Mutex<BTreeMap<(String, String, String), u64>>,
    notes: Mutex<Vec<String>>,
    /// Start of the formal window, run time; the latest time of all while it has not begun.
    formal_start_ns: AtomicI64,
}

impl Context {
    /// A context whose clock starts now.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock: RunClock::start(clock),
            sink: Sink::new(),
            stop: Stop::new(),
            failures: Mutex::default(),
            notes: Mutex::default(),
            formal_start_ns: AtomicI64::new(i64::MAX),
        }
    }

    /// Notes when the formal window began, run time.
    pub(crate) fn begin_formal(&self, t_ns: i64) {
        self.formal_start_ns.store(t_ns, Ordering::Relaxed);
    }

    /// The stage of a request that somebody else sent at this run time: what comes before the formal
    /// window warms up.
    #[must_use]
    pub fn stage_at(&self, t_ns: i64) -> RequestStage {
        let is_formal = t_ns >= self.formal_start_ns.load(Ordering::Relaxed);
        if is_formal { RequestStage::Formal } else { RequestStage::Warmup }
    }

    /// Counts a failure that lost a value but not the recording. `cause` is a short text without
    /// changing numbers, since equal ones are counted together.
    pub fn count_failure(&self, source: &str, device: &str, cause: &str) {
        let mut failures = lock(&self.failures);
        let key = (source.to_owned(), device.to_owned(), cause.to_owned());
        if let Some(count) = failures.get_mut(&key) {
            *count += 1;
            return;
        }
        let causes = failures.keys().filter(|(other, ..)| other == source).count();
        let key = if causes < MOST_CAUSES {
            key
        } else {
            (source.to_owned(), String::new(), "other causes".to_owned())
        };
        *failures.entry(key).or_insert(0) += 1;
    }

    /// Failures so far.
    #[must_use]
    pub fn failures(&self) -> Vec<FailureCount> {
        let failures = lock(&self.failures);
        let counts = failures.iter().map(|((source, device, cause), count)| FailureCount {
            source: source.clone(),
            device: device.clone(),
            cause: cause.clone(),
            count: *count,
        });
        counts.collect()
    }

    /// Adds a sentence to `provenance.notes` of `run.json`.
    pub fn note(&self, text: impl Into<String>) {
        lock(&self.notes).push(text.into());
    }

    /// Notes since the last time.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.notes))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
