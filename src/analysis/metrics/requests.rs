//! Counts, tokens and rates of the formal requests.

use wattrace_schema::{Flag, FlagSet, Reason, Requests, Run};

use super::{BENCHMARK, Context, MetricRow, PROJECT, declare};
use crate::options::ServiceLevel;
use crate::outcome::{Outcome, Value};

declare! {
    REQUESTS_TOTAL "requests_total" U64 Count Client BENCHMARK,
        "Formal requests, successful or not.";
    REQUESTS_FAILED "requests_failed" U64 Count Client BENCHMARK,
        "Formal requests that were not successful: another status than ok, or no count of output tokens.";
    OUTPUT_TOKENS "output_tokens" U64 Token Client BENCHMARK,
        "Output tokens of successful formal requests.";
    OUTPUT_THROUGHPUT_TOK_S "output_throughput_tok_s" F64 TokenPerSecond Client BENCHMARK,
        "Output tokens of successful formal requests divided by the duration of the formal window.";
    REQUEST_THROUGHPUT_REQ_S "request_throughput_req_s" F64 RequestPerSecond Client PROJECT,
        "Successful formal requests divided by the duration of the formal window.";
    REQUEST_GOODPUT_REQ_S "request_goodput_req_s" F64 RequestPerSecond Client PROJECT,
        "Successful formal requests that keep every service-level limit given, divided by the duration of the formal window; a request with fewer than two tokens has a time per output token of 0.";
}

/// What the request log says in total, computed once.
pub(super) struct RequestLog {
    /// Indices of the successful formal requests; the reason if the run has no request log.
    pub(super) successful: Result<Vec<usize>, Reason>,
    total: u64,
    tokens: u64,
    /// What a reader must know of every value that rests on output tokens.
    pub(super) flags: FlagSet,
}

impl RequestLog {
    pub(super) fn of(run: &Run) -> Self {
        let mut log = Self {
            successful: Err(Reason::NoRequests),
            total: 0,
            tokens: 0,
            flags: FlagSet::EMPTY,
        };
        let Some(requests) = &run.requests else { return log };
        let mut successful = Vec::with_capacity(requests.len());
        for index in (0..requests.len()).filter(|index| requests.is_formal(*index)) {
            log.total += 1;
            if let Some(tokens) = requests.successful_tokens(index) {
                log.tokens += u64::from(tokens);
                log.flags.insert_if(tokens == 0, Flag::ZeroTokenRequest);
                log.flags.insert_if(is_reversed(requests, index), Flag::TimesReversed);
                successful.push(index);
            }
        }
        log.successful = Ok(successful);
        log
    }

    /// Output tokens of successful formal requests.
    pub(super) fn tokens(&self) -> Result<u64, Reason> {
        self.successful.as_ref().map(|_| self.tokens).map_err(|reason| *reason)
    }

    /// Output tokens as a divisor: never zero.
    pub(super) fn tokens_for_ratio(&self) -> Result<f64, Reason> {
        match self.successful.as_ref().map_err(|reason| *reason)? {
            successful if successful.is_empty() => Err(Reason::NoSuccessfulRequests),
            _ if self.tokens == 0 => Err(Reason::NoOutputTokens),
            _ => Ok(self.tokens as f64),
        }
    }

    /// An outcome that every formal request stands behind.
    fn of_formal(&self, mut outcome: Outcome) -> Outcome {
        outcome.evidence.rows = self.successful.is_ok().then_some(self.total);
        outcome
    }

    /// An outcome that the successful formal requests stand behind.
    fn of_successful(&self, mut outcome: Outcome) -> Outcome {
        outcome.evidence.rows = self.successful_count().ok();
        outcome
    }

    /// Number of successful formal requests.
    fn successful_count(&self) -> Result<u64, Reason> {
        self.successful.as_ref().map(|requests| requests.len() as u64).map_err(|reason| *reason)
    }
}

pub(super) fn fill(context: &Context<'_>, row: &mut MetricRow) {
    let log = &context.log;
    let total = log.successful_count().map(|_| Value::U64(log.total));
    let failed = log.successful_count().map(|successful| Value::U64(log.total - successful));
    row.set(&REQUESTS_TOTAL, log.of_formal(Outcome::from(total)));
    row.set(&REQUESTS_FAILED, log.of_formal(Outcome::from(failed)));
    let tokens = Outcome::from(log.tokens().map(Value::U64)).with_flags(log.flags);
    row.set(&OUTPUT_TOKENS, log.of_successful(tokens));

    let duration_s = context.formal.map(|formal| formal.duration_s());
    let per_second = |count: Result<f64, Reason>| {
        let mut outcome = Outcome::number(count).divided_by(duration_s);
        outcome.window = context.formal.ok();
        log.of_successful(outcome)
    };
    row.set(
        &OUTPUT_THROUGHPUT_TOK_S,
        per_second(log.tokens().map(|tokens| tokens as f64)).with_flags(log.flags),
    );
    let successful = log.successful_count().map(|count| count as f64);
    row.set(&REQUEST_THROUGHPUT_REQ_S, per_second(successful));
    row.set(&REQUEST_GOODPUT_REQ_S, per_second(requests_within(context)));
}

/// Successful formal requests that keep every limit.
fn requests_within(context: &Context<'_>) -> Result<f64, Reason> {
    let successful = context.log.successful.as_ref().map_err(|reason| *reason)?;
    let limits = context.options.service_level.ok_or(Reason::NoSlo)?;
    let requests = context.run.requests.as_ref().ok_or(Reason::NoRequests)?;
    Ok(successful.iter().filter(|index| keeps(requests, **index, &limits)).count() as f64)
}

fn keeps(requests: &Requests, index: usize, limits: &ServiceLevel) -> bool {
    let within = |value: Option<f64>, limit: Option<f64>| match (value, limit) {
        (_, None) => true,
        (Some(value), Some(limit)) => value <= limit,
        (None, Some(_)) => false,
    };
    let short = requests.output_tokens[index].is_some_and(|tokens| tokens < 2);
    let tpot_ms = if short { Some(0.0) } else { tpot_ms(requests, index) };
    within(ttft_ms(requests, index), limits.ttft_ms)
        && within(tpot_ms, limits.tpot_ms)
        && within(e2e_ms(requests, index), limits.e2e_ms)
}

const NANOS_PER_MILLISECOND: f64 = 1e6;

/// Milliseconds from `from` to `to`, or the given duration where a clock time is missing; `None` where
/// time runs backwards.
fn milliseconds(from: Option<i64>, to: Option<i64>, otherwise_ns: Option<u64>) -> Option<f64> {
    match (from, to) {
        // Subtracted in integers: a time since 1970 in a 64-bit float steps by 238 ns.
        (Some(from), Some(to)) => {
            (to >= from).then(|| to.abs_diff(from) as f64 / NANOS_PER_MILLISECOND)
        }
        _ => otherwise_ns.map(|ns| ns as f64 / NANOS_PER_MILLISECOND),
    }
}

/// Whether a request's times run backwards.
fn is_reversed(requests: &Requests, index: usize) -> bool {
    let times =
        [requests.t_send_ns[index], requests.t_first_token_ns[index], requests.t_end_ns[index]];
    !times.into_iter().flatten().is_sorted()
}

/// Time to first token of a request, ms.
pub(crate) fn ttft_ms(requests: &Requests, index: usize) -> Option<f64> {
    milliseconds(
        requests.t_send_ns[index],
        requests.t_first_token_ns[index],
        requests.ttft_ns[index],
    )
}

/// Time from sending to end of a request, ms.
pub(super) fn e2e_ms(requests: &Requests, index: usize) -> Option<f64> {
    milliseconds(requests.t_send_ns[index], requests.t_end_ns[index], requests.e2e_ns[index])
}

/// Time per output token after the first of a request, ms; `None` with fewer than two tokens.
pub(crate) fn tpot_ms(requests: &Requests, index: usize) -> Option<f64> {
    let tokens = requests.output_tokens[index].filter(|tokens| *tokens >= 2)?;
    let without_clock_ns = match (requests.e2e_ns[index], requests.ttft_ns[index]) {
        (Some(e2e_ns), Some(ttft_ns)) => e2e_ns.checked_sub(ttft_ns),
        _ => None,
    };
    let generating_ms =
        milliseconds(requests.t_first_token_ns[index], requests.t_end_ns[index], without_clock_ns)?;
    Some(generating_ms / f64::from(tokens - 1))
}
