//! The true energy of every request, and where a perfect instrument would find the steady state.
//!
//! Written from the definitions, on the server's own iterations, so that it shares nothing with code
//! that works on recorded rows.

use wattrace_schema::RequestStatus;

use super::server::{Request, Step};

/// True energies of the requests of a formal stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attribution {
    /// Of each request, J; `None` for those that failed.
    pub(super) energy_j: Vec<Option<f64>>,
    /// Formal energy in which no successful request generated.
    pub(super) unattributed_j: f64,
}

/// Splits the energy of `formal_ns` over the successful requests. Between two neighbouring times at
/// which one of them starts or ends generating, each one's share is its share of their tokens. Every
/// iteration gives each decoding request one token; a first token counts in the time that it begins.
pub(super) fn attribute(
    requests: &[Request],
    steps: &[Step],
    formal_ns: (i64, i64),
    energy_j: impl Fn(i64, i64) -> f64,
) -> Attribution {
    let successful = |index: &usize| requests[*index].status == RequestStatus::Ok;
    let mut by_start: Vec<usize> = (0..requests.len()).filter(successful).collect();
    let mut by_end = by_start.clone();
    by_start.sort_by_key(|index| requests[*index].first_step);
    by_end.sort_by_key(|index| requests[*index].last_step());
    let mut boundaries: Vec<u32> = by_start
        .iter()
        .flat_map(|index| [requests[*index].first_step, requests[*index].last_step()])
        .collect();
    boundaries.sort_unstable();
    boundaries.dedup();

    let mut result = Attribution { energy_j: vec![None; requests.len()], unattributed_j: 0.0 };
    // Energy of a request that generated from the first boundary on without joining or leaving; the
    // share of one that stayed for a while is the difference between its end and its start.
    let mut per_stayer_j = 0.0;
    let mut at_start_j = vec![0.0; requests.len()];
    let (mut next_start, mut next_end) = (0, 0);
    let mut previous_ns = formal_ns.0;
    let mut previous_step = None;
    let mut staying = 0_u32;
    let mut joined: Vec<usize> = Vec::new();
    for boundary in boundaries.into_iter().map(Some).chain([None]) {
        let now_ns = boundary.map_or(formal_ns.1, |step| steps[step as usize].end_ns);
        let interval_j = energy_j(previous_ns, now_ns);
        let iterations = match (previous_step, boundary) {
            (Some(previous), Some(now)) => now - previous,
            _ => 0,
        };
        let mut starting: Vec<usize> = Vec::new();
        while let Some(index) = by_start.get(next_start) {
            if boundary != Some(requests[*index].first_step) {
                break;
            }
            starting.push(*index);
            next_start += 1;
        }
        // A first token at the very end of the formal stage has no time of its own.
        let at_the_end = boundary.is_some() && now_ns >= formal_ns.1;
        let firsts = joined.len() + if at_the_end { starting.len() } else { 0 };
        let tokens = u64::from(staying) * u64::from(iterations) + firsts as u64;
        if tokens == 0 {
            result.unattributed_j += interval_j;
        } else {
            let per_token_j = interval_j / tokens as f64;
            per_stayer_j += per_token_j * f64::from(iterations);
            let late: &[usize] = if at_the_end { &starting } else { &[] };
            for index in joined.drain(..).chain(late.iter().copied()) {
                *result.energy_j[index].get_or_insert(0.0) += per_token_j;
            }
        }
        while let Some(index) = by_end.get(next_end) {
            let request = &requests[*index];
            if boundary != Some(request.last_step()) {
                break;
            }
            if request.output_tokens > 1 {
                *result.energy_j[*index].get_or_insert(0.0) += per_stayer_j - at_start_j[*index];
                staying -= 1;
            }
            next_end += 1;
        }
        for index in &starting {
            at_start_j[*index] = per_stayer_j;
            staying += u32::from(requests[*index].output_tokens > 1);
        }
        joined = if at_the_end { Vec::new() } else { starting };
        previous_ns = now_ns;
        previous_step = boundary;
    }
    result
}

/// The steady window by the published rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steady {
    /// Place of the first request in the order of ends, from 0.
    pub(super) first_request: usize,
    /// End of the request before that one, or the beginning of the formal stage.
    pub(super) start_ns: i64,
    /// Tokens of successful requests after the start.
    pub(super) tokens: u64,
}

/// Requests of a window.
const WINDOW: usize = 100;
/// Largest coefficient of variation of a settled window.
const MAX_VARIATION: f64 = 0.03;

/// The first request from which two neighbouring windows of 100 requests vary by less than 3%.
pub(super) fn steady_window(
    requests: &[Request],
    steps: &[Step],
    formal_start_ns: i64,
    energy_j: &[Option<f64>],
) -> Option<Steady> {
    let mut order: Vec<usize> = (0..requests.len()).filter(|i| energy_j[*i].is_some()).collect();
    order.sort_by_key(|index| (requests[*index].end_ns, requests[*index].send_ns, *index));
    let per_token: Vec<f64> = order
        .iter()
        .filter_map(|index| Some(energy_j[*index]? / f64::from(requests[*index].output_tokens)))
        .collect();
    let settled = |from: usize| variation(&per_token[from..from + WINDOW]) < MAX_VARIATION;
    let last = per_token.len().checked_sub(2 * WINDOW)?;
    let first_request = (0..=last).find(|from| settled(*from) && settled(from + WINDOW))?;
    let start_ns = first_request
        .checked_sub(1)
        .map_or(formal_start_ns, |before| requests[order[before]].end_ns);
    let tokens = order.iter().map(|index| tokens_after(&requests[*index], steps, start_ns)).sum();
    Some(Steady { first_request, start_ns, tokens })
}

/// Standard deviation (n − 1) over mean.
fn variation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0)).sqrt() / mean
}

/// Tokens of a request that come after `t_ns`.
pub(super) fn tokens_after(request: &Request, steps: &[Step], t_ns: i64) -> u64 {
    if request.output_tokens == 0 {
        return 0;
    }
    let own = &steps[request.first_step as usize..=request.last_step() as usize];
    (own.len() - own.partition_point(|step| step.end_ns <= t_ns)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step_law::Work;

    /// Steps of 1 s, ending at 1 s, 2 s, …
    fn one_second_steps(count: i64) -> Vec<Step> {
        let second = 1_000_000_000;
        (0..count)
            .map(|k| Step { start_ns: k * second, end_ns: (k + 1) * second, work: Work::default() })
            .collect()
    }

    fn request(first_step: u32, output_tokens: u32) -> Request {
        let end_ns = i64::from(first_step + output_tokens) * 1_000_000_000;
        let status = RequestStatus::Ok;
        Request { send_ns: 0, end_ns, input_tokens: 1, output_tokens, status, first_step }
    }

    /// 100 W.
    fn energy(from_ns: i64, to_ns: i64) -> f64 {
        100.0 * (to_ns - from_ns) as f64 / 1e9
    }

    #[test]
    fn two_requests_share_their_overlap_by_tokens() {
        // A has tokens at 1, 2, 3, 4 s; B at 3, 4, 5 s. Boundaries: 1, 3, 4, 5 s.
        // (0, 1]: nobody, 100 J. (1, 3]: A alone, 200 J. (3, 4]: A has the token at 4 s, B those at
        // 3 s and 4 s: A 100/3, B 200/3. (4, 5]: B, 100 J. (5, 6]: nobody, 100 J.
        let requests = [request(0, 4), request(2, 3)];
        let found = attribute(&requests, &one_second_steps(6), (0, 6_000_000_000), energy);
        let [a, b] = [found.energy_j[0].unwrap(), found.energy_j[1].unwrap()];
        assert!((a - (200.0 + 100.0 / 3.0)).abs() < 1e-9, "{a}");
        assert!((b - (200.0 / 3.0 + 100.0)).abs() < 1e-9, "{b}");
        assert_eq!(found.unattributed_j, 200.0);
    }

    #[test]
    fn a_single_token_counts_in_the_time_that_it_begins() {
        // A has tokens at 1, 2, 3 s; C its only one at 2 s. (2, 3]: A one token, C one: 50 J each.
        // (1, 2]: A has its first token of 1 s and that of 2 s, 100 J.
        let requests = [request(0, 3), request(1, 1)];
        let found = attribute(&requests, &one_second_steps(3), (0, 3_000_000_000), energy);
        assert_eq!(found.energy_j, [Some(150.0), Some(50.0)]);
        assert_eq!(found.unattributed_j, 100.0);
    }

    #[test]
    fn a_single_token_at_the_end_shares_the_last_interval() {
        // A: 1, 2, 3 s; C at 3 s, the end. Boundaries 1, 3: (1, 3] has A's three tokens and C's one.
        let requests = [request(0, 3), request(2, 1)];
        let found = attribute(&requests, &one_second_steps(3), (0, 3_000_000_000), energy);
        assert_eq!(found.energy_j, [Some(150.0), Some(50.0)]);
    }

    #[test]
    fn the_steady_window_begins_after_the_last_unsettled_request() {
        // One request a second, one token each. The first 37 cost 2 J, the others 1 J: window i is
        // settled once it holds none of the first 37, so i = 37, and it starts at the end of number 36.
        let requests: Vec<Request> = (0..300).map(|k| request(k, 1)).collect();
        let energy: Vec<Option<f64>> =
            (0..300).map(|k| Some(if k < 37 { 2.0 } else { 1.0 })).collect();
        let steady = steady_window(&requests, &one_second_steps(300), 0, &energy).unwrap();
        assert_eq!(steady.first_request, 37);
        assert_eq!(steady.start_ns, 37_000_000_000);
        assert_eq!(steady.tokens, 263);
        assert_eq!(
            steady_window(&requests[..230], &one_second_steps(300), 0, &energy[..230]),
            None
        );
    }
}
