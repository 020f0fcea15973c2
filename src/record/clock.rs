//! The two clocks of a recording: the monotonic one that measures, and the wall clock that dates.
//!
//! What happens to the clocks of a machine, and what becomes of it:
//!
//! - The wall clock is **stepped** (by hand, by NTP when it starts, by the kernel for a leap second): it
//!   differs from the monotonic clock by more than before. Times of the run do not move; the step is noted
//!   in `clock_events`.
//! - The wall clock is **slewed** (by NTP as long as it runs, by servers that smear a leap second): Linux
//!   slews the monotonic clock with it, so both go on to agree and nothing is noted. Durations are as
//!   true as the slewed clock: ntpd changes its pace by at most 500 parts in a million, chrony for a short
//!   time by more.
//! - The machine is **suspended**: Linux's `CLOCK_MONOTONIC` stands still meanwhile, so what measures here
//!   is `CLOCK_BOOTTIME`, which goes on. The rows have a gap as long as the suspension, samples after
//!   it are dated right, the ticks that passed are counted as missed, and the suspension is noted in
//!   `clock_events`.
//! - A virtual machine is **paused** by its host: some hosts let the clocks go on and some do not. In the
//!   latter case the wall clock is stepped once NTP finds out, which is noted like any step.

use std::sync::{Arc, Mutex, MutexGuard};

use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};
use wattrace_schema::TimestampNs;

use crate::Stop;
use crate::lock::lock;

/// Nanoseconds in a second, as an integer.
const SECOND_NS: i64 = 1_000_000_000;

/// A step of the wall clock smaller than this is not told from the reading of two clocks in a row.
const SMALLEST_STEP_NS: i64 = 1_000_000;

/// Readings taken of both clocks; the one whose two monotonic readings lie closest together is kept.
const PAIR_READINGS: usize = 5;

/// What a recording asks of time. Tests replace it by a clock that they set.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds on a clock that never steps; its zero is arbitrary.
    fn monotonic_ns(&self) -> i64;

    /// Nanoseconds since the Unix epoch on a clock that may be stepped at any time.
    fn wall_ns(&self) -> i64;

    /// How long the machine has been suspended since it was started, nanoseconds.
    fn suspended_ns(&self) -> i64 {
        0
    }

    /// Waits until `monotonic_ns` reaches `until_ns`, or until `stop` is raised if that comes first.
    /// Says whether it was raised.
    fn wait(&self, stop: &Stop, until_ns: i64) -> bool;
}

/// The clock that measures. Linux has one that goes on while the machine is suspended.
#[cfg(target_os = "linux")]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const STEADY: ClockId = ClockId::Monotonic;

/// The clocks of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic_ns(&self) -> i64 {
        nanos(clock_gettime(STEADY))
    }

    fn wall_ns(&self) -> i64 {
        nanos(clock_gettime(ClockId::Realtime))
    }

    fn suspended_ns(&self) -> i64 {
        nanos(clock_gettime(STEADY)) - nanos(clock_gettime(ClockId::Monotonic))
    }

    fn wait(&self, stop: &Stop, until_ns: i64) -> bool {
        loop {
            let left_ns = until_ns - self.monotonic_ns();
            match u64::try_from(left_ns) {
                Ok(left_ns) if left_ns > 0 => {
                    if stop.wait_for(std::time::Duration::from_nanos(left_ns)) {
                        return true;
                    }
                }
                _ => return stop.is_raised(),
            }
        }
    }
}

#[inline(always)]
fn nanos(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(SECOND_NS).saturating_add(time.tv_nsec)
}

/// When something was read, on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Before the read.
    pub start_ns: i64,
    /// After it.
    pub end_ns: i64,
}

impl Span {
    /// Runs `read` and says when it ran.
    #[inline(always)]
    pub fn of<T>(clock: &dyn Clock, read: impl FnOnce() -> T) -> (Self, T) {
        let start_ns = clock.monotonic_ns();
        let value = read();
        (Self { start_ns, end_ns: clock.monotonic_ns() }, value)
    }

    /// The middle, which dates the value: it was taken somewhere between both ends.
    #[must_use]
    #[inline(always)]
    pub const fn middle_ns(self) -> i64 {
        self.start_ns + (self.end_ns - self.start_ns) / 2
    }

    /// How long the read took.
    #[must_use]
    #[inline(always)]
    pub const fn length_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns).unsigned_abs()
    }
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPair {
    /// The monotonic clock.
    pub monotonic_ns: i64,
    /// The wall clock, nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// Half the time between the two monotonic readings around the wall clock's.
    pub uncertainty_ns: i64,
}

impl ClockPair {
    /// Reads both clocks.
    #[must_use]
    #[inline(always)]
    pub fn take(clock: &dyn Clock) -> Self {
        let readings = (0..PAIR_READINGS).map(|_| {
            let (span, wall_ns) = Span::of(clock, || clock.wall_ns());
            let uncertainty_ns = (span.end_ns - span.start_ns) / 2;
            Self { monotonic_ns: span.middle_ns(), wall_ns, uncertainty_ns }
        });
        readings.min_by_key(|pair| pair.uncertainty_ns).expect("at least one reading is taken")
    }

    /// Wall clock less monotonic clock, which is constant until the wall clock is stepped.
    #[inline(always)]
    const fn difference_ns(self) -> i64 {
        self.wall_ns - self.monotonic_ns
    }
}

/// What happened to the clocks, as `clock_events` of `run.json` holds it. `after` is the run time of the
/// last reading before it, `before` that of the first reading after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields that all share are explained above")]
pub enum ClockEvent {
    /// The wall clock was stepped.
    WallStep {
        after: TimestampNs,
        before: TimestampNs,
        /// How far it jumped; negative if backwards.
        step_ns: i64,
    },
    /// The machine was suspended.
    Suspended {
        after: TimestampNs,
        before: TimestampNs,
        /// For how long.
        length_ns: i64,
    },
}

/// Events that are kept of a run; a clock that is stepped over and over would fill the memory. Those that
/// follow are counted.
const MOST_EVENTS: usize = 1000;

/// The clock of one run: the wall clock at the start, carried on by the monotonic clock. Whatever is
/// done to the wall clock meanwhile, differences of run times are true durations.
#[derive(Debug)]
pub struct RunClock {
    clock: Arc<dyn Clock>,
    first: ClockPair,
    watch: Mutex<Watch>,
}

/// What was seen of the clocks so far.
#[derive(Debug)]
struct Watch {
    last: ClockPair,
    suspended_ns: i64,
    pairs: u64,
    events: Vec<ClockEvent>,
    /// Events of the run, those taken out and those left out as well.
    event_count: usize,
}

impl Watch {
    fn note(&mut self, event: ClockEvent) {
        if self.event_count < MOST_EVENTS {
            self.events.push(event);
        }
        self.event_count += 1;
    }
}

impl RunClock {
    /// Takes the first pair.
    #[must_use]
    pub fn start(clock: Arc<dyn Clock>) -> Self {
        let first = ClockPair::take(clock.as_ref());
        let watch = Mutex::new(Watch {
            last: first,
            suspended_ns: clock.suspended_ns(),
            pairs: 1,
            events: Vec::new(),
            event_count: 0,
        });
        Self { clock, first, watch }
    }

    /// The clocks underneath.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// The pair that run times are derived from.
    #[must_use]
    pub const fn first(&self) -> ClockPair {
        self.first
    }

    /// Run time of a moment on the monotonic clock, nanoseconds since the Unix epoch.
    #[must_use]
    #[inline(always)]
    pub const fn run_time_ns(&self, monotonic_ns: i64) -> i64 {
        self.first.wall_ns + (monotonic_ns - self.first.monotonic_ns)
    }

    /// Run time now.
    #[must_use]
    pub fn now(&self) -> TimestampNs {
        TimestampNs::from_nanos(self.run_time_ns(self.clock.monotonic_ns()))
    }

    /// Takes another pair, and notes whether the wall clock was stepped, or the machine suspended, since
    /// the last.
    pub fn observe(&self) -> ClockPair {
        let pair = ClockPair::take(self.clock.as_ref());
        let suspended_ns = self.clock.suspended_ns();
        let mut watch = self.watch();
        // Two threads may take pairs at once; the older one says nothing new.
        if pair.monotonic_ns < watch.last.monotonic_ns {
            return pair;
        }
        let step_ns = pair.difference_ns() - watch.last.difference_ns();
        let noise_ns = SMALLEST_STEP_NS + pair.uncertainty_ns + watch.last.uncertainty_ns;
        let time = |pair: ClockPair| TimestampNs::from_nanos(self.run_time_ns(pair.monotonic_ns));
        let (after, before) = (time(watch.last), time(pair));
        if step_ns.abs() > noise_ns {
            watch.note(ClockEvent::WallStep { after, before, step_ns });
        }
        let length_ns = suspended_ns - watch.suspended_ns;
        if length_ns > SMALLEST_STEP_NS {
            watch.note(ClockEvent::Suspended { after, before, length_ns });
        }
        watch.last = pair;
        watch.suspended_ns = suspended_ns;
        watch.pairs += 1;
        pair
    }

    /// Events since the last time. Of a run, no more than 1000 are given out.
    #[must_use]
    pub fn take_events(&self) -> Vec<ClockEvent> {
        std::mem::take(&mut self.watch().events)
    }

    /// How many events there were beyond those that are given out.
    #[must_use]
    pub fn events_left_out(&self) -> usize {
        self.watch().event_count.saturating_sub(MOST_EVENTS)
    }

    /// How many pairs were taken.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.watch().pairs
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        lock(&self.watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_dated_at_its_middle() {
        let span = Span { start_ns: 1_000, end_ns: 1_500 };
        assert_eq!((span.middle_ns(), span.length_ns()), (1_250, 500));
    }

    #[test]
    fn the_clocks_of_the_system_show_no_step_and_a_wait_ends_with_its_time_or_the_stop() {
        let clock = RunClock::start(Arc::new(SystemClock));
        let stop = Stop::new();
        let until_ns = clock.clock().monotonic_ns() + 1_000_000;
        assert!(!clock.clock().wait(&stop, until_ns));
        assert!(clock.clock().monotonic_ns() >= until_ns);
        stop.raise();
        assert!(clock.clock().wait(&stop, i64::MAX));
        let pair = clock.observe();
        assert_eq!(clock.pairs(), 2);
        let carried_ns = clock.run_time_ns(pair.monotonic_ns);
        assert!(
            (carried_ns - pair.wall_ns).abs() < 50_000_000,
            "unless somebody sets the clock now"
        );
    }
}
