//! Records power, requests and decode steps of a serving machine into a run of an archive.
//!
//! Threads read ([`source`]) and hand rows over ([`Sink`]); one thread writes them as segments beside a
//! journal ([`store`]), which become a run at the end, or later if the recorder was killed. Every time
//! comes from one monotonic clock ([`clock`]).

pub mod clock;
mod completion;
mod context;
mod cost;
mod describe;
pub mod http;
pub mod lifecycle;
pub mod live;
pub mod load;
mod lock;
mod metrics;
pub mod proxy;
mod recording;
pub mod redact;
pub mod sampler;
mod sink;
pub mod source;
pub mod steps;
mod stop;
pub mod store;

pub use context::{Context, FailureCount};
pub use cost::Cost;
pub(crate) use cost::HelperCpu;
pub use describe::{Description, DescriptionError};
pub use recording::{DEFAULT_FLUSH, OpenSources, RecordError, Recording, RecordingOptions};
pub use sink::{Closed, Rows, Sink};
pub use stop::Stop;
