//! The request to stop, which ends every wait of a recording.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::lock::lock;

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
        *lock(&self.raised) = true;
        self.changed.notify_all();
    }

    /// Takes it back, for what is asked again and again.
    pub(crate) fn lower(&self) {
        *lock(&self.raised) = false;
    }

    /// Whether it was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        *lock(&self.raised)
    }

    /// Waits until it is raised, for `time` at most; says whether it was. The system may end the wait early.
    #[must_use]
    #[inline(always)]
    pub fn wait_for(&self, time: Duration) -> bool {
        let raised = lock(&self.raised);
        if *raised {
            return true;
        }
        *self.changed.wait_timeout(raised, time).unwrap_or_else(PoisonError::into_inner).0
    }
}
