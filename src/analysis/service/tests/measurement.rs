//! One run over its window.

use wattrace_schema::{Claim, Flag, RequestStatus};

use super::*;
use crate::test_run::{TestRequest, request, set_requests, stamp};

/// `count` requests, one every second from 0, each with its first token after 100 ms and ten more at
/// 20 ms: TTFT 100 ms, TPOT 20 ms.
fn fast_requests(count: usize) -> Vec<TestRequest> {
    (0..count)
        .map(|index| {
            let send = index as f64;
            request(send, send + 0.1, send + 0.3, 11)
        })
        .collect()
}

fn number(outcome: &Outcome) -> f64 {
    outcome.as_f64().unwrap_or_else(|reason| panic!("no value: {reason}"))
}

#[test]
fn requests_count_when_sent_and_tokens_when_generated() {
    let mut run = serving(100);
    set_requests(
        &mut run,
        &[
            // Sent before the window; 12 tokens evenly over (8, 20]: 10 of them in (10, 20].
            request(5.0, 8.0, 20.0, 12),
            // In the window: TTFT 1 s, 21 tokens over (31, 51], TPOT 20 s / 20.
            request(30.0, 31.0, 51.0, 21),
            // Sent in the window, generated after it: TTFT 3 s, TPOT 9 s / 9.
            request(59.0, 62.0, 71.0, 10),
            // Sent at the end of the window, which is outside.
            request(60.0, 95.0, 96.0, 2),
        ],
    );
    let rules = ServiceRules {
        window: WindowRule { warmup_s: 10.0, length_s: Some(50.0) },
        ..ServiceRules::default()
    };
    let measured = measure(&run, &rules);
    assert_eq!((measured.sent, measured.failed), (Ok(2), Ok(0)));
    assert_close(number(&measured.output_tok_s), 31.0 / 50.0);
    // Two values: position 0.99 between 1000 and 3000 ms.
    assert_close(number(&measured.ttft_p99_ms), 2980.0);
    assert_close(number(&measured.tpot_p99_ms), 1000.0);
}

#[test]
fn one_failure_in_a_hundred_makes_the_percentile_infinite() {
    // 100 values: position 98.01 lies between the 99th and the 100th, which is infinite.
    let mut run = serving(101);
    set_requests(&mut run, &fast_requests(100));
    assert_close(number(&measure(&run, &rules()).ttft_p99_ms), 100.0);
    run.requests.as_mut().unwrap().status[50] = RequestStatus::Timeout;
    let measured = measure(&run, &rules());
    assert_eq!(measured.ttft_p99_ms.value, Err(Reason::P99Unbounded));
    assert_eq!(measured.tpot_p99_ms.value, Err(Reason::P99Unbounded));
    assert_eq!((measured.sent, measured.failed), (Ok(100), Ok(1)));

    // 101 values: position 99 exactly, the largest finite one.
    let mut run = serving(102);
    set_requests(&mut run, &fast_requests(101));
    run.requests.as_mut().unwrap().status[50] = RequestStatus::Error;
    assert_close(number(&measure(&run, &rules()).ttft_p99_ms), 100.0);
}

#[test]
fn a_failed_request_has_no_tokens_and_one_token_has_no_tpot() {
    let mut run = serving(10);
    set_requests(&mut run, &[request(0.0, 1.0, 5.0, 40), request(0.0, 2.0, 2.0, 1)]);
    let measured = measure(&run, &rules());
    assert_close(number(&measured.output_tok_s), 41.0 / 10.0);
    assert_close(number(&measured.tpot_p99_ms), 4000.0 / 39.0);
    run.requests.as_mut().unwrap().status[0] = RequestStatus::Cancelled;
    let measured = measure(&run, &rules());
    assert_close(number(&measured.output_tok_s), 1.0 / 10.0);
    // The failure is the only value of TPOT left.
    assert_eq!(measured.tpot_p99_ms.value, Err(Reason::P99Unbounded));
}

#[test]
fn a_formal_stage_shorter_than_the_window_is_no_measurement() {
    let mut run = serving(100);
    set_requests(&mut run, &fast_requests(100));
    add_flat(&mut run, Scope::Node, "node", 100, 1000.0);
    let rules = ServiceRules {
        window: WindowRule { warmup_s: 30.0, length_s: Some(70.1) },
        ..ServiceRules::default()
    };
    let measured = measure(&run, &rules);
    for outcome in [&measured.output_tok_s, &measured.ttft_p99_ms, &measured.node_power_w] {
        assert_eq!(outcome.value, Err(Reason::FormalTooShort));
    }
    assert_eq!(measured.sent, Err(Reason::FormalTooShort));
    let exact = WindowRule { warmup_s: 30.0, length_s: Some(70.0) };
    assert!(exact.window(&run.manifest.stages).is_ok());
    run.manifest.stages.formal_end = stamp(20.0);
    let whole = WindowRule { warmup_s: 30.0, length_s: None };
    assert_eq!(whole.window(&run.manifest.stages), Err(Reason::EmptyWindow));
}

#[test]
fn node_and_board_power_stay_apart() {
    let mut run = serving(100);
    set_requests(&mut run, &fast_requests(100));
    add_flat(&mut run, Scope::GpuBoard, "gpu0", 100, 300.0);
    let board_only = measure(&run, &rules());
    assert_eq!(board_only.node_power_w.value, Err(Reason::NoNodePower));
    assert_eq!(board_only.tokens_per_joule.value, Err(Reason::NoNodePower));
    assert_close(number(&board_only.board_power_w), 300.0);

    // Node power rises from 0 to 1000 W: over [50, 100] its mean is 750 W. Requests 50 to 99 are sent
    // and answered there, 11 tokens each: 550 tokens in 50 s.
    let rising: Vec<_> = (0..=100).map(|t| (f64::from(t), 10.0 * f64::from(t))).collect();
    add_device(&mut run, Scope::Node, "node", &rising, &[]);
    let late = ServiceRules {
        window: WindowRule { warmup_s: 50.0, length_s: Some(50.0) },
        ..ServiceRules::default()
    };
    let measured = measure(&run, &late);
    assert_close(number(&measured.node_power_w), 750.0);
    assert_close(number(&measured.board_power_w), 300.0);
    assert_close(number(&measured.tokens_per_joule), 11.0 / 750.0);
}

#[test]
fn a_claimed_rate_serves_where_there_is_no_request_log() {
    let mut run = serving(100);
    add_flat(&mut run, Scope::Node, "node", 100, 6000.0);
    run.manifest.claims.push(Claim {
        metric: "output_throughput_tok_s".into(),
        value: 24_000.0,
        unit: "tok/s".into(),
        source: "summary".into(),
    });
    let measured = measure(&run, &rules());
    assert_close(number(&measured.tokens_per_joule), 4.0);
    assert!(measured.tokens_per_joule.flags.contains(Flag::ClaimedTokens));
    assert_eq!(measured.ttft_p99_ms.value, Err(Reason::NoRequests));

    let runs = [measured];
    let sweeps = sweeps(&runs);
    assert_eq!(sweeps[0].rows()[0].meets_slo, Err(Reason::NoRequests));
    let goodput = sweeps[0].goodput(1);
    assert_eq!(goodput.goodput_tok_s, Err(Reason::NoRequests));
    assert_eq!(goodput.board_power_w, Err(Reason::NoGpuPower));
    assert_close(goodput.tokens_per_joule.unwrap(), 4.0);
    assert!(goodput.flags.contains(Flag::ClaimedTokens));
}

#[test]
fn durations_without_clock_times_serve_only_the_whole_formal_stage() {
    let mut run = serving(10);
    set_requests(&mut run, &[request(0.0, 1.0, 5.0, 41)]);
    let requests = run.requests.as_mut().unwrap();
    (requests.t_send_ns[0], requests.t_first_token_ns[0], requests.t_end_ns[0]) =
        (None, None, None);
    (requests.ttft_ns[0], requests.e2e_ns[0]) = (Some(200_000_000), Some(1_000_000_000));
    let measured = measure(&run, &rules());
    assert_close(number(&measured.ttft_p99_ms), 200.0);
    assert_close(number(&measured.tpot_p99_ms), 20.0);
    assert_close(number(&measured.output_tok_s), 4.1);
    let part = ServiceRules {
        window: WindowRule { warmup_s: 1.0, length_s: None },
        ..ServiceRules::default()
    };
    let measured = measure(&run, &part);
    assert_eq!(measured.ttft_p99_ms.value, Err(Reason::NoRequestTimes));
    assert_eq!(measured.output_tok_s.value, Err(Reason::NoRequestTimes));
}

#[test]
fn a_request_without_an_end_belongs_to_the_whole_formal_stage_only() {
    // 41 tokens over (1, 5] s, and 19 of a request whose end is not known.
    let mut run = serving(10);
    set_requests(&mut run, &[request(0.0, 1.0, 5.0, 41), request(0.0, 1.0, 9.0, 19)]);
    run.requests.as_mut().unwrap().t_end_ns[1] = None;
    let measured = measure(&run, &rules());
    assert_close(number(&measured.output_tok_s), 6.0);
    assert!(measured.output_tok_s.flags.contains(Flag::MissingEnd));
    let part = ServiceRules {
        window: WindowRule { warmup_s: 1.0, length_s: None },
        ..ServiceRules::default()
    };
    assert_eq!(measure(&run, &part).output_tok_s.value, Err(Reason::MissingEnd));
}
