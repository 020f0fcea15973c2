//! Records power, requests and decode steps of a serving machine into a run of an archive.
//!
//! Threads read ([`source`]) and hand rows over ([`Sink`]); one thread writes them. Every time comes from
//! one monotonic clock ([`clock`]).

pub mod clock;
mod context;
mod sink;
pub mod source;
mod stop;

pub use context::{Context, FailureCount};
pub use sink::{Closed, Rows, Sink};
pub use stop::Stop;
