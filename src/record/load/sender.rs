//! Sends the requests of a run: the warm-up, then the formal ones.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use wattrace_schema::{RequestStage, RequestStatus, TimestampNs};

use super::client::Client;
use super::requests::{Form, LoadRequest, RequestSet, check_extra};
use super::{Arrival, LoadError, LoadOptions, RequestSource, Say, schedule};
use crate::lock::lock;
use crate::sampler::Punctuality;
use crate::{Context, redact};

/// Stack of a thread that sends one request: enough for the handshake of an encrypted connection.
const STACK: usize = 512 << 10;

/// Time between lines of progress.
const PROGRESS_NS: i64 = 5_000_000_000;

/// Requests to one endpoint.
#[derive(Debug)]
pub struct Load {
    options: LoadOptions,
    client: Client,
    set: RequestSet,
    offsets_ns: Vec<u64>,
}

/// What was sent in one stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sent {
    /// Requests that were sent.
    pub requests: u64,
    /// Those that failed or were not answered in time.
    pub failed: u64,
    /// Those that were broken off from here.
    pub cancelled: u64,
    /// Answers that the server gave no count of output tokens for.
    pub uncounted: u64,
    /// Why the first one failed.
    pub first_failure: Option<String>,
    /// When the last one ended.
    pub last_end: Option<TimestampNs>,
    /// Times that a request was due and had to wait, since too many were under way.
    pub held_back: u64,
}

impl Sent {
    /// What went wrong, in one line.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let cause = self.first_failure.as_deref()?;
        Some(format!("{} of {} requests failed, the first: {cause}", self.failed, self.requests))
    }
}

impl Load {
    /// Reads the requests and prepares to send them.
    ///
    /// # Errors
    /// [`LoadError`]; nothing was sent then.
    pub fn open(options: LoadOptions) -> Result<Self, LoadError> {
        check_extra(&options.extra).map_err(LoadError::Extra)?;
        let client = Client::open(&options)?;
        let form = Form {
            api: options.api,
            model: options.model.clone(),
            extra: options.extra.clone(),
            seed: options.seed,
        };
        let set = RequestSet::open(&options.source, form)?;
        let offsets_ns = match options.arrival {
            Arrival::Replay { .. } => set.offsets_ns()?,
            _ => Vec::new(),
        };
        Ok(Self { options, client, set, offsets_ns })
    }

    /// Keys of `run.json` that follow from what is sent.
    #[must_use]
    pub fn description(&self) -> Value {
        let (mut dataset, mut trace) = self.set.names(&self.options.source);
        if !matches!(self.options.arrival, Arrival::Replay { .. }) {
            // Only the lengths of a trace are used.
            dataset = dataset.or(trace.take());
        }
        let request_rate = match self.options.arrival {
            Arrival::Closed { .. } => None,
            Arrival::Poisson { rate } | Arrival::Constant { rate } => Some(rate),
            Arrival::Replay { speed_up } => mean_rate(&self.offsets_ns, speed_up),
        };
        let mut workload = json!({});
        if let Some(dataset) = dataset {
            workload["dataset"] = dataset.into();
        }
        if let Some(trace) = trace {
            workload["trace"] = trace.into();
        }
        if let Some(request_rate) = request_rate {
            workload["request_rate"] = request_rate.into();
        }
        let mut description = json!({ "workload": workload });
        if let Some(model) = &self.options.model {
            description["model"] = json!({ "name": model });
        }
        description
    }

    /// Warm-up requests that are to be sent.
    #[must_use]
    pub const fn warm_up_count(&self) -> u32 {
        self.options.warm_up
    }

    /// Breaks off what is under way, from another thread, and sends nothing more.
    pub fn cancel(&self) {
        self.client.cancel();
    }

    /// Sends the warm-up requests, one after another; ends with the first that fails.
    pub fn warm_up(&self, context: &Context, say: &Say<'_>) -> Sent {
        let stage = Stage::new(self, context, RequestStage::Warmup, say);
        for index in 0..self.options.warm_up as usize {
            if !stage.send(&self.set.warm_up(index), None) || stage.lock().sent.failed > 0 {
                break;
            }
        }
        stage.end()
    }

    /// Sends the formal requests, and comes back when every answer is there.
    pub fn formal(&self, context: &Context, say: &Say<'_>) -> Sent {
        self.note(context);
        let stage = Stage::new(self, context, RequestStage::Formal, say);
        match self.options.arrival {
            Arrival::Closed { concurrency } => self.closed(&stage, concurrency),
            Arrival::Poisson { rate } => {
                self.open_loop(&stage, schedule::poisson(rate, self.options.seed));
            }
            Arrival::Constant { rate } => self.open_loop(&stage, schedule::constant(rate)),
            Arrival::Replay { speed_up } => {
                self.open_loop(&stage, schedule::replay(&self.offsets_ns, speed_up));
            }
        }
        stage.end()
    }

    /// How many requests there are at most.
    fn count(&self) -> usize {
        match (self.options.count, self.options.time) {
            (Some(count), _) => count,
            (None, Some(_)) => usize::MAX,
            (None, None) => self.set.len(),
        }
    }

    fn time_ns(&self) -> u64 {
        self.options
            .time
            .map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Says in `run.json` what was asked for.
    fn note(&self, context: &Context) {
        let arrival = match self.options.arrival {
            Arrival::Closed { concurrency } => format!("{concurrency} at once"),
            Arrival::Poisson { rate } => format!("{rate} a second at random times"),
            Arrival::Constant { rate } => format!("{rate} a second in even steps"),
            Arrival::Replay { speed_up } => {
                format!("at the times of the file, {speed_up} times as fast")
            }
        };
        let seed = self.options.seed;
        context.note(format!("load: requests to {}, {arrival}, seed {seed}", self.client.url()));
        if self.client.is_unverified() {
            context.note(format!(
                "load: what {} answered was not verified by its certificate (--insecure)",
                self.client.url().authority()
            ));
        }
        if !self.options.extra.is_empty() {
            let extra = redact::json(Value::Object(self.options.extra.clone()));
            context.note(format!("load: fields added to every request: {extra}"));
        }
        self.set.notes().iter().for_each(|note| context.note(note.clone()));
    }

    fn closed(&self, stage: &Stage<'_>, concurrency: usize) {
        let next = AtomicUsize::new(0);
        let count = self.count();
        let start_ns = stage.now_ns();
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let is_late =
                    stage.now_ns().saturating_sub(start_ns).unsigned_abs() >= self.time_ns();
                if index >= count || is_late || !stage.send(&self.set.request(index), None) {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..concurrency.min(count) {
                if let Err(error) = thread().spawn_scoped(scope, work) {
                    stage
                        .context
                        .note(format!("load: fewer requests at once than asked for: {error}"));
                    break;
                }
            }
        });
    }

    /// Sends each request when it is due, however long the answers to others take.
    fn open_loop(&self, stage: &Stage<'_>, due_ns: impl Iterator<Item = u64>) {
        let clock = stage.context.clock.clock();
        let gate = Gate::new(self.options.max_in_flight);
        let start_ns = stage.now_ns();
        std::thread::scope(|scope| {
            for (index, offset_ns) in due_ns.enumerate().take(self.count()) {
                // The body is made before its time, not at it.
                let request = self.set.request(index);
                let due_ns = start_ns.saturating_add_unsigned(offset_ns);
                if offset_ns >= self.time_ns() || clock.wait(self.client.cancelled(), due_ns) {
                    break;
                }
                gate.enter();
                // It may have had to wait until it was too late.
                let waited_ns = stage.now_ns().saturating_sub(start_ns).unsigned_abs();
                if waited_ns >= self.time_ns() {
                    break;
                }
                let gate = &gate;
                let work = move || {
                    stage.send(&request, Some(due_ns));
                    gate.leave();
                };
                if let Err(error) = thread().spawn_scoped(scope, work) {
                    stage.context.note(format!("load: sending ended early: {error}"));
                    break;
                }
                if stage.is_over() {
                    break;
                }
            }
        });
        stage.lock().sent.held_back = gate.held_back();
    }
}

/// Requests a second of a trace as it is replayed; none where it takes no time.
fn mean_rate(offsets_ns: &[u64], speed_up: f64) -> Option<f64> {
    let last_ns = offsets_ns.last().filter(|last_ns| **last_ns > 0)?;
    Some((offsets_ns.len() - 1) as f64 * 1e9 / (*last_ns as f64) * speed_up)
}

fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("request".to_owned()).stack_size(STACK)
}

/// Lets so many through at once.
#[derive(Debug)]
struct Gate {
    most: usize,
    state: Mutex<GateState>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    inside: usize,
    held_back: u64,
}

impl Gate {
    fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), left: Condvar::new() }
    }

    fn enter(&self) {
        let mut state = lock(&self.state);
        if state.inside >= self.most {
            state.held_back += 1;
            let full = |state: &mut GateState| state.inside >= self.most;
            state = self.left.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        }
        state.inside += 1;
    }

    fn leave(&self) {
        lock(&self.state).inside -= 1;
        self.left.notify_one();
    }

    fn held_back(&self) -> u64 {
        lock(&self.state).held_back
    }
}

/// One stage while it goes on.
struct Stage<'a> {
    load: &'a Load,
    context: &'a Context,
    stage: RequestStage,
    say: &'a Say<'a>,
    state: Mutex<StageState>,
    /// The recording takes no more rows.
    is_closed: AtomicBool,
    sending: AtomicU64,
}

struct StageState {
    sent: Sent,
    lateness: Punctuality,
    started_ns: i64,
    said_ns: i64,
}

impl<'a> Stage<'a> {
    fn new(load: &'a Load, context: &'a Context, stage: RequestStage, say: &'a Say<'a>) -> Self {
        let now_ns = context.clock.clock().monotonic_ns();
        let state = StageState {
            sent: Sent::default(),
            lateness: Punctuality::default(),
            started_ns: now_ns,
            said_ns: now_ns,
        };
        Self {
            load,
            context,
            stage,
            say,
            state: Mutex::new(state),
            is_closed: AtomicBool::new(false),
            sending: AtomicU64::new(0),
        }
    }

    fn now_ns(&self) -> i64 {
        self.context.clock.clock().monotonic_ns()
    }

    /// Whether no more is to be sent.
    fn is_over(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed) || self.load.client.cancelled().is_raised()
    }

    /// Sends one request and records it; false once no more is to be sent. Nothing is sent then.
    fn send(&self, request: &LoadRequest, due_ns: Option<i64>) -> bool {
        if self.is_over() {
            return false;
        }
        self.sending.fetch_add(1, Ordering::Relaxed);
        let clock = &self.context.clock;
        let (sent_ns, observed) = self.load.client.send(&request.body, clock.clock());
        self.sending.fetch_sub(1, Ordering::Relaxed);
        let row = observed.row(clock, request.id.clone(), self.stage, sent_ns);
        let mut state = self.lock();
        let sent = &mut state.sent;
        sent.requests += 1;
        sent.last_end = sent.last_end.max(row.t_end_ns.map(TimestampNs::from_nanos));
        match row.status {
            RequestStatus::Ok => sent.uncounted += u64::from(row.output_tokens.is_none()),
            RequestStatus::Cancelled => sent.cancelled += 1,
            RequestStatus::Error | RequestStatus::Timeout => {
                sent.failed += 1;
                sent.first_failure.get_or_insert_with(|| row.error.clone().unwrap_or_default());
            }
        }
        if let Some(due_ns) = due_ns {
            state.lateness.add(sent_ns.saturating_sub(due_ns).max(0).unsigned_abs());
        }
        self.progress(&mut state);
        drop(state);
        // Where many rows wait to be written, this waits too.
        if self.context.sink.request(row).is_err() {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        !self.is_over()
    }

    fn progress(&self, state: &mut StageState) {
        let now_ns = self.now_ns();
        if now_ns - state.said_ns < PROGRESS_NS {
            return;
        }
        state.said_ns = now_ns;
        let seconds =
            Duration::from_nanos((now_ns - state.started_ns).unsigned_abs()).as_secs_f64();
        let Sent { requests, failed, .. } = state.sent;
        (self.say)(&format!(
            "{requests} {} requests answered, {failed} of them failed, {} under way, {:.1} a second",
            self.stage.name(),
            self.sending.load(Ordering::Relaxed),
            requests as f64 / seconds,
        ));
    }

    /// Notes what has to be known of the stage, and gives what was sent.
    fn end(self) -> Sent {
        let context = self.context;
        let name = self.stage.name();
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let sent = state.sent;
        let Sent { requests, failed, .. } = sent;
        (self.say)(&format!("{requests} {name} requests, {failed} of them failed"));
        if let Some(p99_ns) = state.lateness.p99_ns() {
            let lateness = format!(
                "load: {name} requests were sent late by {:.3} ms (99 of 100) and by {:.3} ms at most",
                p99_ns as f64 / 1e6,
                state.lateness.worst_ns as f64 / 1e6
            );
            (self.say)(&lateness);
            context.note(lateness);
        }
        if sent.held_back > 0 {
            context.note(format!(
                "load: {} requests had to wait for others, since {} were under way (--max-in-flight)",
                sent.held_back, self.load.options.max_in_flight
            ));
        }
        if sent.uncounted > 0 {
            context.note(format!(
                "load: {} answers to {name} requests came without a usage that could be read, so \
                 their tokens are unknown",
                sent.uncounted
            ));
        }
        let repeats = (sent.requests as usize).saturating_sub(self.load.set.len());
        if repeats > 0 && matches!(self.load.options.source, RequestSource::File(_)) {
            context.note(format!(
                "load: the file has {} requests and was begun again; the last {repeats} repeat earlier \
                 ones",
                self.load.set.len()
            ));
        }
        sent
    }

    fn lock(&self) -> MutexGuard<'_, StageState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_most_are_inside_and_those_that_wait_are_counted() {
        let gate = Gate::new(2);
        gate.enter();
        gate.enter();
        std::thread::scope(|scope| {
            let third = scope.spawn(|| gate.enter());
            while gate.held_back() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(gate.state.lock().unwrap().inside, 2);
            gate.leave();
            third.join().unwrap();
        });
        let inside = gate.state.lock().unwrap().inside;
        assert_eq!((inside, gate.held_back()), (2, 1));
    }

    /// 4 gaps in 2 s are 2 a second, and 6 at three times the speed.
    #[test]
    fn the_rate_of_a_trace_is_that_of_its_gaps() {
        let offsets_ns = [0, 100, 200, 300, 2_000_000_000];
        assert_eq!(mean_rate(&offsets_ns, 3.0), Some(6.0));
        assert_eq!(mean_rate(&[0], 1.0), None);
        assert_eq!(mean_rate(&[0, 0], 1.0), None);
    }
}
