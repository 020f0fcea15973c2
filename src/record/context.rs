//! What every thread of a recording shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wattrace_schema::RequestStage;

use crate::clock::{Clock, RunClock};
use crate::cost::process_cpu_time;
use crate::lock::lock;
use crate::{Sink, Stop};

/// Different causes kept for one source; further ones are counted together.
const MOST_CAUSES: usize = 32;

/// Sources whose causes are kept; there are never that many, unless their names are made up.
const MOST_FAILURES: usize = 2048;

/// Characters of a cause that are kept.
const LONGEST_CAUSE: usize = 300;

/// Notes that are kept of a run.
const MOST_NOTES: usize = 1000;

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
    notes: Mutex<Notes>,
    losses: Mutex<Vec<String>>,
    /// Start of the formal window, run time; the latest time of all while it has not begun.
    formal_start_ns: AtomicI64,
    helper_cpu_ns: AtomicU64,
    /// Completions that proxies saw so far, which numbers them.
    pub(crate) proxied: AtomicU64,
    /// What the program had used before, such as for the runs of a sweep before this one.
    cpu_before: Duration,
}

#[derive(Debug, Default)]
struct Notes {
    new: Vec<String>,
    /// Those taken out and those left out as well.
    count: usize,
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
            losses: Mutex::default(),
            formal_start_ns: AtomicI64::new(i64::MAX),
            helper_cpu_ns: AtomicU64::new(0),
            proxied: AtomicU64::new(0),
            cpu_before: process_cpu_time(),
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
    /// changing numbers, since equal ones are counted together. Of different causes, only so many are
    /// kept apart that memory stays bounded however long the recording lasts.
    pub fn count_failure(&self, source: &str, device: &str, cause: &str) {
        let mut failures = lock(&self.failures);
        let cause = cause.char_indices().nth(LONGEST_CAUSE).map_or(cause, |(end, _)| &cause[..end]);
        let key = (source.to_owned(), device.to_owned(), cause.to_owned());
        if let Some(count) = failures.get_mut(&key) {
            *count += 1;
            return;
        }
        let causes = failures.keys().filter(|(other, ..)| other == source).count();
        let other = |source: &str| (source.to_owned(), String::new(), "other causes".to_owned());
        let key = if causes >= MOST_CAUSES {
            other(source)
        } else if failures.len() >= MOST_FAILURES {
            other("other sources")
        } else {
            key
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

    /// Adds a sentence to `provenance.notes` of `run.json`; of a run, the first 1000 are kept.
    pub fn note(&self, text: impl Into<String>) {
        let mut notes = lock(&self.notes);
        if notes.count < MOST_NOTES {
            notes.new.push(text.into());
        } else if notes.count == MOST_NOTES {
            notes.new.push("further notes were left out".to_owned());
        }
        notes.count += 1;
    }

    /// Says that something of the run is missing, once for each cause: it goes into the run's notes, and whoever
    /// recorded the run is told at the end.
    pub fn lose(&self, text: String) {
        lock(&self.losses).push(text);
    }

    /// What is missing, as far as it was said since the last time.
    #[must_use]
    pub fn take_losses(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.losses))
    }

    /// Notes since the last time.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.notes).new)
    }

    /// Adds processor time of a program that a power source ran, which is a cost of recording.
    pub fn add_helper_cpu(&self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.helper_cpu_ns.fetch_add(time_ns, Ordering::Relaxed);
    }

    /// Processor time of this program since the context was made.
    #[must_use]
    pub fn own_cpu(&self) -> Duration {
        process_cpu_time().saturating_sub(self.cpu_before)
    }

    /// Processor time of all programs that power sources ran.
    #[must_use]
    pub fn helper_cpu(&self) -> Duration {
        Duration::from_nanos(self.helper_cpu_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn the_processor_time_of_a_recording_is_its_own() {
        let before = Context::new(Arc::new(SystemClock));
        while before.own_cpu() < Duration::from_millis(50) {}
        let context = Context::new(Arc::new(SystemClock));
        assert!(before.own_cpu() >= context.own_cpu() + Duration::from_millis(50));
    }

    #[test]
    fn what_is_remembered_of_failures_and_notes_is_bounded() {
        let context = Context::new(Arc::new(SystemClock));
        for number in 0..10_000 {
            context.count_failure("bmc", "node", &format!("cause {number}"));
            context.count_failure("bmc", "node", "it does not answer");
            context.count_failure(&format!("source {number}"), "node", &"long ".repeat(1000));
            context.note(format!("note {number}"));
        }
        let failures = context.failures();
        // "other causes" of bmc and of the other sources come on top.
        assert!(failures.len() <= MOST_FAILURES + 2, "{}", failures.len());
        let count = |source: &str, cause: &str| {
            let found = failures.iter().find(|f| f.source == source && f.cause == cause);
            found.unwrap().count
        };
        assert_eq!(count("bmc", "it does not answer"), 10_000);
        // 32 causes of bmc are kept: the frequent one and the first 31 of the others.
        assert_eq!(count("bmc", "other causes"), 10_000 - 31);
        assert_eq!(failures.iter().map(|f| f.count).sum::<u64>(), 30_000);
        assert!(failures.iter().all(|f| f.cause.chars().count() <= LONGEST_CAUSE));
        let notes = context.take_notes();
        assert_eq!(notes.len(), MOST_NOTES + 1);
        assert_eq!(notes[MOST_NOTES], "further notes were left out");
        context.note("one more");
        assert!(context.take_notes().is_empty());
    }
}
