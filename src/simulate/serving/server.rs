//! A server with continuous batching, iteration by iteration.
//!
//! Every iteration gives one token to each decoding sequence and spends a budget of prompt tokens on
//! the requests that wait, first come first served. A prompt that is done yields its request's first
//! token at the end of the iteration. Tokens are not stored one by one: a request's tokens are the ends
//! of the iterations from its first to its last.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::RngExt;
use rand_distr::{Exp1, StandardNormal};
use wattrace_schema::RequestStatus;
use wattrace_trace::format::workload::WorkloadRequest;

use crate::plan::{Arrival, FailurePlan, Lengths, TransientPlan};
use crate::profile::PowerProfile;
use crate::random::Stream;
use crate::step_law::{StepLaw, Work};
use crate::{MAX_RUN_SECONDS, nanoseconds_to_seconds, seconds_to_ns};

/// A simulated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) send_ns: i64,
    pub(super) end_ns: i64,
    pub(super) input_tokens: u32,
    /// Tokens after which it leaves; fewer than were wanted when it fails.
    pub(super) output_tokens: u32,
    pub(super) status: RequestStatus,
    /// Iteration whose end is its first token, if it has any token.
    pub(super) first_step: u32,
}

impl Request {
    /// Iteration whose end is its last token.
    pub(super) const fn last_step(&self) -> u32 {
        self.first_step + self.output_tokens.saturating_sub(1)
    }
}

/// One iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) work: Work,
}

/// True power of one board, as the server's state has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BoardPower {
    pub(super) ready_w: f64,
    pub(super) active_w: f64,
    pub(super) limit_w: f64,
    pub(super) weight_j_per_gb: f64,
    pub(super) kv_j_per_gb: f64,
    pub(super) prefill_j_per_token: f64,
    pub(super) boards: f64,
}

/// What requests look like and how they come.
#[derive(Debug, Clone)]
pub(super) struct Load<'a> {
    pub(super) arrival: Arrival,
    /// Of [`Arrival::Trace`]: requests in the order of arrival.
    pub(super) trace: &'a [WorkloadRequest],
    pub(super) requests: Option<u32>,
    pub(super) seconds: Option<f64>,
    pub(super) ramp_s: f64,
    pub(super) input_tokens: Lengths,
    pub(super) output_tokens: Lengths,
    pub(super) failures: Option<&'a FailurePlan>,
}

/// The server and everything that it has done so far.
#[derive(Debug)]
pub(super) struct Server<'a> {
    pub(super) law: StepLaw,
    pub(super) power: BoardPower,
    pub(super) max_batch: usize,
    pub(super) prefill_chunk: u32,
    pub(super) transient: &'a TransientPlan,
    /// When the transient begins to decay; before that it is whole.
    pub(super) transient_start_ns: Option<i64>,
    pub(super) run_start_ns: i64,
    pub(super) steps: Vec<Step>,
    /// Power of one nominal board.
    pub(super) profile: PowerProfile,
}

/// A run that would last too long.
#[derive(Debug)]
pub(super) struct TooLong;

/// A request between sending and end.
#[derive(Debug)]
struct InFlight {
    index: usize,
    /// Prompt tokens still to process.
    prompt_left: u32,
}

impl Server<'_> {
    /// Serves one load from `start_ns`, which is the end of the profile, until its last request has
    /// ended; returns the requests in the order of sending.
    pub(super) fn serve(
        &mut self,
        load: &Load,
        requests: &mut Stream,
        step_times: &mut Stream,
    ) -> Result<Vec<Request>, TooLong> {
        let mut client = Client::new(load, self.profile.end_ns(), requests);
        let mut waiting: VecDeque<InFlight> = VecDeque::new();
        let mut decoding: Vec<usize> = Vec::new();
        let mut prompts_done: Vec<usize> = Vec::new();
        loop {
            let now_ns = self.profile.end_ns();
            if nanoseconds_to_seconds(now_ns - self.run_start_ns) > MAX_RUN_SECONDS {
                return Err(TooLong);
            }
            while let Some(index) = client.arrived(now_ns) {
                let prompt_left = client.requests[index].input_tokens;
                waiting.push_back(InFlight { index, prompt_left });
            }
            if decoding.is_empty() && waiting.is_empty() {
                let Some(next_ns) = client.next_arrival_ns() else { break };
                self.profile.hold(next_ns, self.power.ready_w);
                continue;
            }
            let step_index = u32::try_from(self.steps.len()).map_err(|_| TooLong)?;
            let mut work = decode_work(&client.requests, &decoding, step_index);
            work.prefill_tokens = self.prefill(&mut waiting, decoding.len(), &mut prompts_done);
            let end_ns = self.step(work, step_times);

            decoding.retain(|index| {
                let stays = client.requests[*index].last_step() > step_index;
                if !stays {
                    client.end(*index, end_ns);
                }
                stays
            });
            for index in prompts_done.drain(..) {
                client.requests[index].first_step = step_index;
                if client.requests[index].output_tokens > 1 {
                    decoding.push(index);
                } else {
                    client.end(index, end_ns);
                }
            }
        }
        Ok(client.finish())
    }

    /// Spends the iteration's budget of prompt tokens; the requests whose prompts are done go to
    /// `prompts_done`.
    fn prefill(
        &self,
        waiting: &mut VecDeque<InFlight>,
        decoding: usize,
        prompts_done: &mut Vec<usize>,
    ) -> u32 {
        let mut budget = self.prefill_chunk;
        while budget > 0 && decoding + prompts_done.len() < self.max_batch {
            let Some(first) = waiting.front_mut() else { break };
            let taken = budget.min(first.prompt_left);
            first.prompt_left -= taken;
            budget -= taken;
            if first.prompt_left == 0 {
                prompts_done.push(first.index);
                waiting.pop_front();
            }
        }
        self.prefill_chunk - budget
    }

    /// Runs one iteration: its time and its power. Returns its end.
    fn step(&mut self, work: Work, step_times: &mut Stream) -> i64 {
        let start_ns = self.profile.end_ns();
        let settling = self.settling(start_ns);
        let slowdown = 1.0 + settling * self.transient.step_time_percent.get() / 100.0;
        let end_ns = start_ns + self.law.duration_ns(&work, slowdown, step_times);
        let power = &self.power;
        let read_j = power.weight_j_per_gb * self.law.weight_gb()
            + power.kv_j_per_gb * self.law.kv_gb(&work)
            + power.prefill_j_per_token * f64::from(work.prefill_tokens);
        let settled_w =
            power.active_w + read_j / (power.boards * nanoseconds_to_seconds(end_ns - start_ns));
        let power_w = settled_w * (1.0 + settling * self.transient.power_percent.get() / 100.0);
        self.profile.hold(end_ns, power_w.min(power.limit_w));
        self.steps.push(Step { start_ns, end_ns, work });
        end_ns
    }

    /// Share of the transient that is left.
    fn settling(&self, t_ns: i64) -> f64 {
        let since_ns = self.transient_start_ns.map_or(0, |start| (t_ns - start).max(0));
        (-nanoseconds_to_seconds(since_ns) / self.transient.time_constant_s.get()).exp()
    }
}

/// What an iteration does for the decoding sequences.
fn decode_work(requests: &[Request], decoding: &[usize], step_index: u32) -> Work {
    let mut work = Work { batch: decoding.len() as u32, ..Work::default() };
    for index in decoding {
        let request = &requests[*index];
        // The first token came from the prompt; the first decode step attends to the prompt alone.
        let history = request.input_tokens + (step_index - request.first_step - 1);
        work.history_tokens += u64::from(history);
        work.max_sequence_tokens = work.max_sequence_tokens.max(history + 1);
    }
    work
}

/// The load generator: draws requests in the order of sending and hears when they end.
struct Client<'a> {
    load: &'a Load<'a>,
    stream: &'a mut Stream,
    requests: Vec<Request>,
    /// Times to send at, earliest first. Requests are drawn when they are sent.
    due: BinaryHeap<Reverse<i64>>,
    /// Requests drawn or due.
    planned: u32,
    start_ns: i64,
    latest_send_ns: i64,
}

impl<'a> Client<'a> {
    fn new(load: &'a Load<'a>, start_ns: i64, stream: &'a mut Stream) -> Self {
        let span_ns = load.seconds.map_or(i64::MAX, seconds_to_ns);
        let latest_send_ns = start_ns.saturating_add(span_ns);
        let due = BinaryHeap::new();
        let requests = Vec::new();
        let mut client = Self { load, stream, requests, due, planned: 0, start_ns, latest_send_ns };
        match load.arrival {
            Arrival::Closed { concurrency } => {
                let share = load.ramp_s / f64::from(concurrency);
                for number in 0..concurrency {
                    client.plan(start_ns + seconds_to_ns(share * f64::from(number)));
                }
            }
            Arrival::Poisson { .. } => client.plan_after_poisson_pause(start_ns),
            Arrival::Trace => client.plan_next_of_trace(),
        }
        client
    }

    /// Plans one request unless the load is complete.
    fn plan(&mut self, send_ns: i64) {
        let more = self.load.requests.is_none_or(|requests| self.planned < requests);
        if more && send_ns <= self.latest_send_ns {
            self.planned += 1;
            self.due.push(Reverse(send_ns));
        }
    }

    fn plan_after_poisson_pause(&mut self, t_ns: i64) {
        if let Arrival::Poisson { rate } = self.load.arrival {
            let pause: f64 = self.stream.sample(Exp1);
            self.plan(t_ns + seconds_to_ns(pause / rate));
        }
    }

    fn plan_next_of_trace(&mut self) {
        if let (Arrival::Trace, Some(next)) =
            (self.load.arrival, self.load.trace.get(self.planned as usize))
        {
            self.plan(self.start_ns.saturating_add_unsigned(next.offset_ns));
        }
    }

    fn next_arrival_ns(&self) -> Option<i64> {
        self.due.peek().map(|Reverse(due_ns)| *due_ns)
    }

    /// Sends the next request if it is due.
    fn arrived(&mut self, now_ns: i64) -> Option<usize> {
        let send_ns = self.next_arrival_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.due.pop();
        let request = self.draw(send_ns);
        self.requests.push(request);
        self.plan_after_poisson_pause(send_ns);
        self.plan_next_of_trace();
        Some(self.requests.len() - 1)
    }

    fn draw(&mut self, send_ns: i64) -> Request {
        // Requests of a trace are due in its order, one at a time.
        let (input_tokens, wanted) = match self.load.trace.get(self.requests.len()) {
            Some(request) => (request.input_tokens, request.output_tokens),
            None => (
                draw_length(self.load.input_tokens, self.stream),
                draw_length(self.load.output_tokens, self.stream),
            ),
        };
        let (status, output_tokens) = self.draw_fate(wanted);
        Request { send_ns, end_ns: send_ns, input_tokens, output_tokens, status, first_step: 0 }
    }

    /// How the request ends, and after how many tokens.
    fn draw_fate(&mut self, wanted: u32) -> (RequestStatus, u32) {
        let Some(failures) = self.load.failures else { return (RequestStatus::Ok, wanted) };
        let draw = self.stream.random_range(0.0..100.0);
        let error = failures.error_percent.get();
        let timeout = error + failures.timeout_percent.get();
        let cancelled = timeout + failures.cancelled_percent.get();
        if draw < error {
            (RequestStatus::Error, 0)
        } else if draw < timeout {
            (RequestStatus::Timeout, self.stream.random_range(0..=wanted))
        } else if draw < cancelled {
            (RequestStatus::Cancelled, self.stream.random_range(1..=wanted))
        } else {
            (RequestStatus::Ok, wanted)
        }
    }

    /// Ends a request; in a closed loop its client then sends the next.
    fn end(&mut self, index: usize, step_end_ns: i64) {
        let request = &mut self.requests[index];
        request.end_ns = match (request.status, self.load.failures) {
            (RequestStatus::Timeout, Some(failures)) => {
                step_end_ns.max(request.send_ns + seconds_to_ns(failures.timeout_s.get()))
            }
            _ => step_end_ns,
        };
        let end_ns = request.end_ns;
        if matches!(self.load.arrival, Arrival::Closed { .. }) {
            self.plan(end_ns);
        }
    }

    fn finish(self) -> Vec<Request> {
        self.requests
    }
}

fn draw_length(lengths: Lengths, stream: &mut Stream) -> u32 {
    match lengths {
        Lengths::Fixed(tokens) => tokens,
        Lengths::Uniform { min, max } => stream.random_range(min..=max),
        Lengths::LogNormal { min, max, median, sigma } => {
            let deviate: f64 = stream.sample(StandardNormal);
            // The cast saturates, so that no deviate is too large.
            ((median * (sigma * deviate).exp()).round() as u32).clamp(min, max)
        }
    }
}
