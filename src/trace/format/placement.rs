//! Requests whose clock counts from an unknown instant: placed on the calendar by an anchor, or kept as
//! durations.

use wattrace_schema::{ClockBase, InputClock};

use super::{Anchor, ImportOptions, Input};
use crate::{RequestRow, StepRow, TraceError};

/// First and last time of an input on its own clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    ends: Option<(i64, i64)>,
}

impl Extent {
    /// Takes the times of a request into account.
    pub(super) fn add(&mut self, row: &RequestRow) {
        for time in [row.t_send_ns, row.t_first_token_ns, row.t_end_ns].into_iter().flatten() {
            let (first, last) = self.ends.unwrap_or((time, time));
            self.ends = Some((first.min(time), last.max(time)));
        }
    }
}

/// How the times of an input become times of the run.
#[derive(Debug, Clone)]
pub(super) enum Placement {
    /// They count from 1970.
    Epoch,
    /// An anchor gives what must be added.
    Anchored { anchor: Anchor, offset_ns: i64 },
    /// Nothing ties them to the calendar.
    Unknown,
}

impl Placement {
    /// Places a clock that is not the calendar's. `extent` reads the input once through; it is called
    /// only where an anchor is named.
    ///
    /// # Errors
    /// Those of `extent`, and an anchor that leads out of the years that nanoseconds can hold.
    pub(super) fn of(
        options: &ImportOptions,
        input: &Input,
        extent: impl FnOnce() -> Result<Extent, TraceError>,
    ) -> Result<Self, TraceError> {
        let Some(anchor) = options.anchor else { return Ok(Self::Unknown) };
        let (first, last) = extent()?.ends.unwrap_or_default();
        let offset_ns =
            anchor.offset_ns(first, last).map_err(|message| input.error(None, message))?;
        Ok(Self::Anchored { anchor, offset_ns })
    }

    /// The request on the clock of the run. Without one it keeps how long it took.
    ///
    /// # Errors
    /// A time leaves the years that nanoseconds can hold.
    pub(super) fn place(&self, mut row: RequestRow) -> Result<RequestRow, String> {
        match self {
            Self::Epoch => {}
            Self::Anchored { offset_ns, .. } => {
                for time in [&mut row.t_send_ns, &mut row.t_first_token_ns, &mut row.t_end_ns] {
                    *time = time.map(|time| shifted(time, *offset_ns)).transpose()?;
                }
            }
            Self::Unknown => {
                row.ttft_ns = since(row.t_send_ns, row.t_first_token_ns);
                row.e2e_ns = since(row.t_send_ns, row.t_end_ns);
                (row.t_send_ns, row.t_first_token_ns, row.t_end_ns) = (None, None, None);
            }
        }
        Ok(row)
    }

    /// The step on the clock of the run; `None` where nothing ties its clock to the calendar, since a step
    /// without times says nothing.
    pub(super) fn place_step(&self, mut row: StepRow) -> Option<StepRow> {
        match self {
            Self::Epoch => {}
            Self::Anchored { offset_ns, .. } => {
                row.t_end_ns = row.t_end_ns.checked_add(*offset_ns)?;
                row.t_start_ns = row.t_start_ns.and_then(|start| start.checked_add(*offset_ns));
            }
            Self::Unknown => return None,
        }
        Some(row)
    }

    /// What `run.json` says of the clock.
    pub(super) fn clock(&self, base: ClockBase, resolution_ns: u64) -> InputClock {
        match self {
            Self::Epoch => super::clock::epoch_clock(resolution_ns),
            Self::Anchored { anchor, offset_ns } => anchor.clock(base, *offset_ns, resolution_ns),
            Self::Unknown => {
                InputClock { base, resolution_ns: Some(resolution_ns), ..InputClock::default() }
            }
        }
    }

    /// A note where nothing ties the clock to the calendar.
    pub(super) fn note(&self) -> Option<String> {
        matches!(self, Self::Unknown).then(|| {
            "its clock counts from an unknown instant and no anchor is named (--anchor), so requests have \
             durations and no times"
                .to_owned()
        })
    }
}

fn shifted(time_ns: i64, offset_ns: i64) -> Result<i64, String> {
    time_ns.checked_add(offset_ns).ok_or_else(|| {
        format!("{time_ns} ns and the offset {offset_ns} ns leave the years 1677 to 2262")
    })
}

/// A duration; none where it would be negative, which is no duration.
fn since(start: Option<i64>, end: Option<i64>) -> Option<u64> {
    u64::try_from(end?.checked_sub(start?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn row(times: [Option<i64>; 3]) -> RequestRow {
        let [t_send_ns, t_first_token_ns, t_end_ns] = times;
        RequestRow {
            t_send_ns,
            t_first_token_ns,
            t_end_ns,
            ..super::super::request_row::bare_request("a".into())
        }
    }

    fn times(row: &RequestRow) -> [Option<i64>; 3] {
        [row.t_send_ns, row.t_first_token_ns, row.t_end_ns]
    }

    #[test]
    fn an_anchor_shifts_every_time() {
        let (_folder, path) = testing::file(b"");
        let mut options = testing::options();
        options.anchor = Some(Anchor::parse("end=1736944500").unwrap());
        let mut extent = Extent::default();
        extent.add(&row([Some(5), Some(7), None]));
        extent.add(&row([Some(6), None, Some(10)]));
        let placement = Placement::of(&options, &Input::new(&path), || Ok(extent)).unwrap();
        let end = 1_736_944_500_000_000_000;
        let placed = placement.place(row([Some(5), None, Some(10)])).unwrap();
        assert_eq!(times(&placed), [Some(end - 5), None, Some(end)]);
        assert!(placement.place(row([Some(i64::MAX), None, None])).is_err());
    }

    #[test]
    fn without_an_anchor_durations_stay() {
        let placed = Placement::Unknown.place(row([Some(5), Some(7), Some(10)])).unwrap();
        assert_eq!(times(&placed), [None; 3]);
        assert_eq!((placed.ttft_ns, placed.e2e_ns), (Some(2), Some(5)));
        // A time before the sending is none, not a huge one.
        let backward = Placement::Unknown.place(row([Some(5), Some(3), None])).unwrap();
        assert_eq!((backward.ttft_ns, backward.e2e_ns), (None, None));
    }
}
