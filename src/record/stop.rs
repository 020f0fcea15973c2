//! The request to stop, which ends every wait of a recording.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Seen by every thread once it is raised.
#[derive(Debug, Default)]
pub struct Stop {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// A stop that is not raised.
    #[must_use]
    pub const fn new() -> Self {
        Self { raised: Mutex::new(false), changed: Condvar::new() }
    }

    /// Asks every thread to stop.
    pub fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Takes it back, for what is asked again and again.
    pub(crate) fn lower(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Whether it was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `time`, or until it is raised; says whether it was.
    #[must_use]
    pub fn wait_for(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        while !*raised {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            raised =
                self.changed.wait_timeout(raised, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
