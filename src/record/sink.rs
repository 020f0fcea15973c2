//! Where rows go: any thread hands them over, one thread writes them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use wattrace_trace::{EngineRow, PowerRow, RequestRow, StepRow};

use crate::Stop;
use crate::lock::lock;

/// A row of power whose names are those of its device and shared by all of its rows.
pub(crate) type SampledRow = PowerRow<Arc<str>>;

/// Rows that wait for the next flush, some 20 MB. When writing falls this far behind, whoever hands over
/// rows waits, so that memory stays bounded; a power source then misses ticks, which are counted.
const MOST_ROWS: usize = 100_000;

/// Rows at which the writer is woken before its next flush is due, so that nobody has to wait for it.
const MANY_ROWS: usize = MOST_ROWS / 2;

/// Gaps between the tokens of requests that take as much memory as a row.
const GAPS_OF_A_ROW: usize = 16;

/// Rows of one flush interval.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each field holds the rows of the table that it names")]
pub struct Rows {
    pub power: Vec<SampledRow>,
    pub requests: Vec<RequestRow>,
    pub steps: Vec<StepRow>,
    pub engine: Vec<EngineRow>,
}

impl Rows {
    /// Rows of all tables together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.power.len() + self.requests.len() + self.steps.len() + self.engine.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The recording has ended, or its files can no longer be written: rows are not taken any more, and the
/// thread that brought them should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the recording has ended")]
pub struct Closed;

/// Takes rows from every thread, and gives them to the one that writes.
#[derive(Debug, Default)]
pub struct Sink {
    state: Mutex<State>,
    /// Signalled when rows were taken out or the sink was closed.
    taken: Condvar,
    /// Raised while many rows wait, or when the writer is wanted for another reason.
    wake: Stop,
}

#[derive(Debug, Default)]
struct State {
    rows: Rows,
    /// Rows that the gaps of the requests count for, beside the rows themselves.
    gap_rows: usize,
    closed: bool,
}

impl Sink {
    /// A sink without rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands over rows of power.
    ///
    /// # Errors
    /// [`Closed`] when rows are not taken any more.
    pub fn power(&self, rows: impl IntoIterator<Item = SampledRow>) -> Result<(), Closed> {
        self.open()?.rows.power.extend(rows);
        Ok(())
    }

    /// Hands over a request that has ended, however it ended.
    ///
    /// # Errors
    /// [`Closed`] when rows are not taken any more.
    pub fn request(&self, row: RequestRow) -> Result<(), Closed> {
        let mut state = self.open()?;
        let gaps = [row.itl_ns.as_ref().map(Vec::len), row.itl_tokens.as_ref().map(Vec::len)];
        state.gap_rows += gaps.into_iter().flatten().sum::<usize>() / GAPS_OF_A_ROW;
        state.rows.requests.push(row);
        Ok(())
    }

    /// Hands over decode iterations.
    ///
    /// # Errors
    /// [`Closed`] when rows are not taken any more.
    pub fn steps(&self, rows: impl IntoIterator<Item = StepRow>) -> Result<(), Closed> {
        self.open()?.rows.steps.extend(rows);
        Ok(())
    }

    /// Hands over readings of the engine's own metrics.
    ///
    /// # Errors
    /// [`Closed`] when rows are not taken any more.
    pub fn engine(&self, rows: impl IntoIterator<Item = EngineRow>) -> Result<(), Closed> {
        self.open()?.rows.engine.extend(rows);
        Ok(())
    }

    /// Everything handed over since the last time.
    #[must_use]
    pub fn take(&self) -> Rows {
        let mut state = self.lock();
        // As many readings of power are likely to come next: they find their memory there.
        let power = Vec::with_capacity(state.rows.power.len());
        let rows = std::mem::replace(&mut state.rows, Rows { power, ..Rows::default() });
        state.gap_rows = 0;
        self.wake.lower();
        drop(state);
        self.taken.notify_all();
        rows
    }

    /// What the writer waits for between flushes; lowered when rows are taken out.
    #[must_use]
    pub const fn wake(&self) -> &Stop {
        &self.wake
    }

    /// Takes no more rows; those handed over can still be taken out.
    pub fn close(&self) {
        self.lock().closed = true;
        self.taken.notify_all();
    }

    /// Whether rows are not taken any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The state once there is room for more rows.
    #[inline(always)]
    fn open(&self) -> Result<MutexGuard<'_, State>, Closed> {
        let full = |state: &mut State| {
            let waiting = state.rows.len() + state.gap_rows;
            if waiting >= MANY_ROWS {
                self.wake.raise();
            }
            !state.closed && waiting >= MOST_ROWS
        };
        let state =
            self.taken.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if state.closed { Err(Closed) } else { Ok(state) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_until_it_is_closed_and_given_out_once() {
        let sink = Sink::new();
        sink.power([SampledRow::default(), SampledRow::default()]).unwrap();
        assert_eq!(sink.take().power.len(), 2);
        sink.power([SampledRow::default()]).unwrap();
        sink.close();
        assert_eq!(sink.power([SampledRow::default()]), Err(Closed));
        assert_eq!(sink.take().len(), 1);
        assert!(sink.take().is_empty());
    }

    #[test]
    fn the_writer_is_woken_when_many_rows_wait_and_not_before() {
        let sink = Sink::new();
        sink.power(vec![SampledRow::default(); MANY_ROWS - 1]).unwrap();
        sink.power([SampledRow::default()]).unwrap();
        assert!(!sink.wake().is_raised());
        sink.power([SampledRow::default()]).unwrap();
        assert!(sink.wake().is_raised());
        assert_eq!(sink.take().len(), MANY_ROWS + 1);
        assert!(!sink.wake().is_raised());
    }

    #[test]
    fn the_gaps_of_requests_count_as_rows_do() {
        let sink = Sink::new();
        let request = |gaps: usize| RequestRow {
            request_id: "r".to_owned(),
            stage: wattrace_schema::RequestStage::Formal,
            t_send_ns: Some(0),
            t_first_token_ns: Some(1),
            t_end_ns: Some(2),
            status: wattrace_schema::RequestStatus::Ok,
            error: None,
            input_tokens: None,
            output_tokens: None,
            reasoning_tokens: None,
            itl_ns: Some(vec![1; gaps]),
            itl_tokens: None,
            ttft_ns: None,
            e2e_ns: None,
        };
        sink.request(request(16 * MOST_ROWS)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sink.request(request(16)));
            // The second is taken only once the first has gone.
            assert_eq!(sink.take().requests.len(), 1);
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(sink.take().requests[0].itl_ns.as_ref().unwrap().len(), 16);
    }

    #[test]
    fn whoever_brings_rows_waits_while_writing_is_far_behind() {
        let sink = Sink::new();
        sink.power(vec![SampledRow::default(); MOST_ROWS]).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sink.power([SampledRow::default()]));
            assert_eq!(sink.take().len(), MOST_ROWS);
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(sink.take().len(), 1);
    }
}
