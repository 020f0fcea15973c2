//! The stage windows of a run.

use wattrace_schema::{Interval, Reason, Stages, TimestampNs};

fn between(start: Option<TimestampNs>, end: Option<TimestampNs>) -> Result<Interval, Reason> {
    let (Some(start), Some(end)) = (start, end) else { return Err(Reason::NoStamp) };
    if end <= start {
        return Err(Reason::EmptyWindow);
    }
    Ok(Interval::new(start.nanos(), end.nanos()))
}

/// [idle_start, idle_end].
pub(super) fn idle(stages: &Stages) -> Result<Interval, Reason> {
    between(stages.idle_start, stages.idle_end)
}

/// [launch, formal_start].
pub(super) fn startup(stages: &Stages) -> Result<Interval, Reason> {
    between(stages.launch, stages.formal_start)
}

/// [formal_start, formal_end].
pub(super) fn formal(stages: &Stages) -> Result<Interval, Reason> {
    between(stages.formal_start, stages.formal_end)
}

/// [decode_start, decode_end].
pub(super) fn decode(stages: &Stages) -> Result<Interval, Reason> {
    between(stages.decode_start, stages.decode_end)
}
