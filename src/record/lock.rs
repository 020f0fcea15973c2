//! Locks of values that are never left half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a lock holds, also after a thread that held it has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
