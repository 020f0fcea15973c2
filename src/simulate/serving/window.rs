//! What a perfect instrument would say of the window that a spec names.

use serde::Serialize;
use wattrace_schema::spec::LockedSpec;
use wattrace_schema::{RequestStatus, TimestampNs};

use super::Lifecycle;
use super::attribution::tokens_after;
use super::server::Request;
use crate::{nanoseconds_to_seconds, seconds_to_ns};

/// The part of `truth.json` that spec-driven reports are checked against.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct WindowTruth {
    spec_hash: String,
    start: TimestampNs,
    end: TimestampNs,
    sent: usize,
    failed: usize,
    output_tokens: u64,
    output_tok_s: f64,
    /// Null when failures make it infinite, or no request was sent.
    ttft_p99_ms: Option<f64>,
    tpot_p99_ms: Option<f64>,
    meets_slo: bool,
    node_power_w: f64,
    board_power_w: f64,
    tokens_per_joule: f64,
}

impl WindowTruth {
    /// `None` when the formal stage ends before the window does.
    pub(super) fn of(spec: &LockedSpec, life: &Lifecycle) -> Option<Self> {
        let workload = &spec.fields().workload;
        let start_ns = life.timeline.formal_start_ns + seconds_to_ns(workload.warmup_s.get());
        let end_ns = start_ns + seconds_to_ns(workload.window_s.get());
        if end_ns > life.timeline.formal_end_ns {
            return None;
        }
        let seconds = nanoseconds_to_seconds(end_ns - start_ns);
        let successful = |request: &&Request| request.status == RequestStatus::Ok;
        let output_tokens: u64 = life
            .formal
            .iter()
            .filter(successful)
            .map(|request| {
                tokens_after(request, &life.steps, start_ns)
                    - tokens_after(request, &life.steps, end_ns)
            })
            .sum();
        let sent: Vec<&Request> = life
            .formal
            .iter()
            .filter(|request| (start_ns..end_ns).contains(&request.send_ns))
            .collect();
        let failed = sent.len() - sent.iter().copied().filter(successful).count();
        let p99 = |latency_ms: &dyn Fn(&Request) -> Option<f64>| {
            let infinite = std::iter::repeat_n(f64::INFINITY, failed);
            let finite = sent.iter().copied().filter(successful).filter_map(latency_ms);
            p99_of(finite.chain(infinite).collect())
        };
        let first_ns = |request: &Request| life.steps[request.first_step as usize].end_ns;
        let ttft_p99_ms =
            p99(&|request| Some(nanoseconds_to_seconds(first_ns(request) - request.send_ns) * 1e3));
        let tpot_p99_ms = p99(&|request| {
            let gaps = request.output_tokens.checked_sub(1).filter(|gaps| *gaps > 0)?;
            let generating = nanoseconds_to_seconds(request.end_ns - first_ns(request));
            Some(generating * 1e3 / f64::from(gaps))
        });
        let slo = &spec.fields().slo;
        let keeps = |p99_ms: Option<f64>, limit_ms: f64| p99_ms.is_some_and(|ms| ms <= limit_ms);
        let output_tok_s = output_tokens as f64 / seconds;
        let node_power_w = life.node.energy_j(&life.profile, start_ns, end_ns) / seconds;
        let boards_j: f64 =
            life.boards.iter().map(|board| board.energy_j(&life.profile, start_ns, end_ns)).sum();
        Some(Self {
            spec_hash: spec.hash().to_owned(),
            start: TimestampNs::from_nanos(start_ns),
            end: TimestampNs::from_nanos(end_ns),
            sent: sent.len(),
            failed,
            output_tokens,
            output_tok_s,
            ttft_p99_ms,
            tpot_p99_ms,
            meets_slo: keeps(ttft_p99_ms, slo.ttft_p99_ms.get())
                && keeps(tpot_p99_ms, slo.tpot_p99_ms.get()),
            node_power_w,
            board_power_w: boards_j / seconds,
            tokens_per_joule: output_tok_s / node_power_w,
        })
    }
}

/// The value at position 0.99 (n - 1), between its neighbours; `None` when that is infinite.
fn p99_of(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let position = 0.99 * values.len().checked_sub(1)? as f64;
    let (lower, share) = (position.floor() as usize, position.fract());
    let value = match values.get(lower + 1) {
        Some(upper) if share > 0.0 => values[lower] + share * (upper - values[lower]),
        _ => values[lower],
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_lies_between_neighbours_and_may_be_infinite() {
        // 101 values: position 99.
        assert_eq!(p99_of((0..=100).rev().map(f64::from).collect()), Some(99.0));
        // Position 0.99 between 1 and 3.
        assert_eq!(p99_of(vec![3.0, 1.0]), Some(1.0 + 0.99 * 2.0));
        assert_eq!(p99_of(vec![1.0, f64::INFINITY]), None);
        assert_eq!(p99_of(Vec::new()), None);
    }
}
