//! Metrics of whole runs, worked by hand.

use proptest::prelude::*;
use wattrace_schema::{Claim, Flag, Reason, RequestStatus, Run, Scope};

use super::{RunAnalysis, analyze, catalogue};
use crate::options::{Options, ServiceLevel, SteadyRule, SteadyWindows};
use crate::outcome::Value;
use crate::test_run::{SECOND, TestRequest, add_device, request, serving, set_requests, stamp};

/// Constant power, sampled each second from `from` to `to`.
fn flat(from: i32, to: i32, power_w: f64) -> Vec<(f64, f64)> {
    (from..=to).map(|t| (f64::from(t), power_w)).collect()
}

fn number(analysis: &RunAnalysis, metric: &str) -> f64 {
    let outcome = analysis.metrics.get(metric).unwrap();
    outcome.as_f64().unwrap_or_else(|reason| panic!("{metric} is missing: {reason}"))
}

fn reason(analysis: &RunAnalysis, metric: &str) -> Reason {
    analysis.metrics.get(metric).unwrap().value.unwrap_err()
}

#[track_caller]
fn assert_close(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{value} is not {expected}"
    );
}

#[test]
fn names_are_unique_and_definitions_are_sentences() {
    let metrics = catalogue();
    let names: std::collections::BTreeSet<_> = metrics.iter().map(|m| m.name).collect();
    assert_eq!(names.len(), metrics.len());
    for metric in &metrics {
        assert!(metric.definition.ends_with('.'), "{}", metric.name);
        assert!(!metric.source.is_empty(), "{}", metric.name);
    }
}

#[test]
fn every_metric_has_a_value_or_a_reason() {
    let analysis = analyze(&serving(10), &Options::default());
    assert_eq!(analysis.metrics.iter().count(), catalogue().len());
    for metric in ["formal_energy_j", "idle_power_w", "steady_reached", "release_closed"] {
        assert_eq!(reason(&analysis, metric), Reason::NoGpuPower, "{metric}");
    }
    assert_eq!(reason(&analysis, "node_energy_j"), Reason::NoNodePower);
    assert_eq!(reason(&analysis, "ttft_p50_ms"), Reason::NoRequests);
}

/// 10 s at 100 W; request 0 generates over (0, 10], request 1 over (4, 8].
fn overlapping(first: TestRequest, second: TestRequest) -> RunAnalysis {
    let mut run = serving(10);
    add_device(&mut run, Scope::GpuBoard, "gpu0", &flat(-1, 11, 100.0), &[]);
    set_requests(&mut run, &[first, second]);
    analyze(&run, &Options::default())
}

fn energies(analysis: &RunAnalysis) -> Vec<f64> {
    let mut requests = analysis.requests.clone().unwrap();
    requests.sort_by_key(|request| request.request);
    requests.iter().map(|request| request.energy_j.unwrap()).collect()
}

#[test]
fn two_overlapping_requests_share_by_their_token_rates() {
    // Even spacing: request 0 has 10 tokens over 10 s (1/s), request 1 has 12 over 4 s (3/s).
    // (0,4]: 400 J to request 0. (4,8]: 400 J, a quarter to request 0. (8,10]: 200 J to request 0.
    let analysis = overlapping(request(0.0, 0.0, 10.0, 10), request(3.0, 4.0, 8.0, 12));
    let energies = energies(&analysis);
    assert_close(energies[0], 700.0);
    assert_close(energies[1], 300.0);
    assert_close(number(&analysis, "unattributed_energy_j"), 0.0);
    assert_close(number(&analysis, "formal_j_per_token"), 1000.0 / 22.0);
}

#[test]
fn recorded_gaps_place_the_tokens() {
    // Request 0: tokens at 0, 1, 2, 3, 9 s (gaps 1, 1, 1, 6 s), ends at 10 (the last token came at 9).
    // Request 1: tokens at 4, 5, 8 s, ends at 8.
    // Boundaries 0, 4, 8, 10. Interval (0,4]: tokens of request 0 at 0 (first), 1, 2, 3: 400 J to it.
    // (4,8]: request 1's first at 4, then 5 and 8: 3 tokens of request 1, none of request 0: 400 J.
    // (8,10]: request 0's token at 9: 200 J.
    let first = TestRequest { gaps_ms: vec![1000, 1000, 1000, 6000], ..request(0.0, 0.0, 10.0, 5) };
    let second = TestRequest { gaps_ms: vec![1000, 3000], ..request(3.0, 4.0, 8.0, 3) };
    let analysis = overlapping(first, second);
    assert_eq!(energies(&analysis), [600.0, 400.0]);
    assert!(!analysis.flags.contains(Flag::ChunkMismatch));
    // The gaps: 1, 1, 1, 6, 1, 3 s; the 50th percentile of six values lies between the third and fourth.
    assert_close(number(&analysis, "itl_p50_ms"), 1000.0);
    assert_close(number(&analysis, "itl_mean_ms"), 13_000.0 / 6.0);
}

#[test]
fn an_interval_without_a_token_belongs_to_nobody() {
    // As above, but request 1's tokens come at 4 and 8 and request 0 is silent from 3 to 9; nobody
    // generates before 2 when both start there.
    let first = TestRequest { gaps_ms: vec![1000], ..request(0.0, 2.0, 3.0, 2) };
    let second = TestRequest { gaps_ms: vec![4000], ..request(0.0, 4.0, 8.0, 2) };
    // Boundaries 0, 2, 3, 4, 8, 10: (0,2] 200 J to nobody; (2,3] request 0; (3,4] nobody;
    // (4,8] request 1; (8,10] nobody.
    let analysis = overlapping(first, second);
    assert_eq!(energies(&analysis), [100.0, 400.0]);
    assert_close(number(&analysis, "unattributed_energy_j"), 500.0);
}

#[test]
fn a_one_token_request_at_the_end_belongs_to_the_last_interval() {
    let analysis = overlapping(request(0.0, 0.0, 10.0, 9), request(9.0, 10.0, 10.0, 1));
    // Request 0: 0.9 tokens/s over 10 s in one interval (0,10] together with 1 token: 9 of 10 shares.
    let energies = energies(&analysis);
    assert_close(energies[0], 900.0);
    assert_close(energies[1], 100.0);
}

#[test]
fn chunks_that_do_not_add_up_are_weighted() {
    // Two chunks (the first and one after a gap) for 10 tokens: 5 each.
    let first = TestRequest { gaps_ms: vec![9000], ..request(0.0, 0.0, 10.0, 10) };
    // Boundaries 0, 4, 8, 10: chunk of 5 in (0,4] and 5 in (8,10]; request 1 has 4 tokens in (4,8].
    let analysis = overlapping(first, request(3.0, 4.0, 8.0, 4));
    let energies = energies(&analysis);
    assert_close(energies[0], 600.0);
    assert_close(energies[1], 400.0);
    assert!(analysis.flags.contains(Flag::ChunkMismatch));
}

#[test]
fn a_request_without_first_token_spreads_from_sending() {
    let mut first = request(2.0, 0.0, 6.0, 8);
    first.first = None;
    let analysis = overlapping(first, request(6.0, 6.0, 10.0, 4));
    let energies = energies(&analysis);
    assert_close(energies[0], 400.0);
    assert_close(energies[1], 400.0);
    assert!(analysis.flags.contains(Flag::NoFirstToken));
    assert_close(number(&analysis, "output_tokens"), 12.0);
    assert_close(number(&analysis, "ttft_p50_ms"), 0.0);
}

#[test]
fn a_missing_end_leaves_no_steady_state() {
    let mut first = request(0.0, 0.0, 6.0, 8);
    first.end = None;
    let analysis = overlapping(first, request(6.0, 6.0, 10.0, 4));
    // The other request is attributed without it: it generates over (6, 10].
    assert_eq!(analysis.requests.as_ref().unwrap()[1].energy_j, None);
    assert_close(analysis.requests.as_ref().unwrap()[0].energy_j.unwrap(), 400.0);
    assert_close(number(&analysis, "unattributed_energy_j"), 600.0);
    assert!(analysis.flags.contains(Flag::MissingEnd));
    assert_eq!(analysis.requests.as_ref().unwrap()[0].window_cv, None);
    assert_eq!(reason(&analysis, "steady_j_per_token"), Reason::MissingEnd);
    assert_close(number(&analysis, "formal_j_per_token"), 1000.0 / 12.0);
}

#[test]
fn failed_and_warm_up_requests_do_not_count() {
    let mut run = serving(10);
    add_device(&mut run, Scope::GpuBoard, "gpu0", &flat(-1, 11, 100.0), &[]);
    set_requests(
        &mut run,
        &[request(0.0, 1.0, 2.0, 10), request(0.0, 1.0, 2.0, 10), request(0.0, 2.0, 4.0, 10)],
    );
    let requests = run.requests.as_mut().unwrap();
    requests.status[0] = RequestStatus::Timeout;
    requests.stage[1] = wattrace_schema::RequestStage::Warmup;
    let analysis = analyze(&run, &Options::default());
    assert_close(number(&analysis, "requests_total"), 2.0);
    assert_close(number(&analysis, "requests_failed"), 1.0);
    assert_close(number(&analysis, "output_tokens"), 10.0);
    assert_close(number(&analysis, "output_throughput_tok_s"), 1.0);
    assert_close(number(&analysis, "ttft_p99_ms"), 2000.0);
    assert_close(number(&analysis, "tpot_p50_ms"), 2000.0 / 9.0);
    assert_close(number(&analysis, "e2e_mean_ms"), 4000.0);
    assert_eq!(reason(&analysis, "e2e_std_ms"), Reason::SingleValue);
    assert_close(number(&analysis, "e2e_std_population_ms"), 0.0);
}

#[test]
fn goodput_counts_requests_within_every_limit() {
    let mut run = serving(10);
    set_requests(
        &mut run,
        // TTFT 1 s and 3 s; TPOT 0.5 s and, with one token, 0.
        &[request(0.0, 1.0, 2.0, 3), request(0.0, 3.0, 3.0, 1), request(0.0, 1.0, 5.0, 2)],
    );
    let goodput = |service_level| {
        let options = Options { service_level: Some(service_level), ..Options::default() };
        number(&analyze(&run, &options), "request_goodput_req_s")
    };
    let level = ServiceLevel { ttft_ms: Some(1000.0), ..ServiceLevel::default() };
    assert_close(goodput(level), 0.2);
    let level = ServiceLevel { tpot_ms: Some(500.0), ..ServiceLevel::default() };
    assert_close(goodput(level), 0.2);
    let level = ServiceLevel { ttft_ms: Some(2000.0), tpot_ms: Some(500.0), e2e_ms: None };
    assert_close(goodput(level), 0.1);
    assert_eq!(reason(&analyze(&run, &Options::default()), "request_goodput_req_s"), Reason::NoSlo);
}

#[test]
fn chunks_count_as_many_short_gaps() {
    let mut run = serving(10);
    set_requests(&mut run, &[TestRequest { gaps_ms: vec![600, 100], ..request(0.0, 1.0, 2.0, 5) }]);
    run.requests.as_mut().unwrap().gaps.tokens = vec![3, 1];
    // Gaps 200, 200, 200, 100 ms.
    let analysis = analyze(&run, &Options::default());
    assert_close(number(&analysis, "itl_mean_ms"), 175.0);
    assert_close(number(&analysis, "itl_p50_ms"), 200.0);
}

#[test]
fn durations_stand_in_where_clock_times_are_missing() {
    let mut run = serving(10);
    add_device(&mut run, Scope::GpuBoard, "gpu0", &flat(-1, 11, 100.0), &[]);
    set_requests(&mut run, &[request(0.0, 1.0, 2.0, 5)]);
    let requests = run.requests.as_mut().unwrap();
    requests.t_send_ns[0] = None;
    requests.t_first_token_ns[0] = None;
    requests.t_end_ns[0] = None;
    requests.ttft_ns[0] = Some(250_000_000);
    requests.e2e_ns[0] = Some(1_250_000_000);
    let analysis = analyze(&run, &Options::default());
    assert_close(number(&analysis, "ttft_p50_ms"), 250.0);
    assert_close(number(&analysis, "tpot_p50_ms"), 250.0);
    assert_close(number(&analysis, "e2e_p50_ms"), 1250.0);
    assert_eq!(reason(&analysis, "unattributed_energy_j"), Reason::NoRequestTimes);
    assert_eq!(reason(&analysis, "steady_reached"), Reason::NoRequestTimes);
}

#[test]
fn stages_add_up_to_the_lifecycle() {
    let mut run = serving(10);
    // Idle at 60 W until -20, start-up at 100 W until 0, formal at 200 W until 10, then 60 W.
    let mut power = flat(-40, -21, 60.0);
    power.extend(flat(-20, -1, 100.0));
    power.extend(flat(0, 10, 200.0));
    power.extend(flat(11, 60, 60.0));
    let counter: Vec<_> =
        (-40..=60).map(|t| (f64::from(t), 1000.0 + 200.0 * f64::from(t + 40))).collect();
    add_device(&mut run, Scope::GpuBoard, "gpu0", &power, &counter);
    let stages = &mut run.manifest.stages;
    stages.idle_start = stamp(-40.0);
    stages.idle_end = stamp(-21.0);
    stages.launch = stamp(-20.0);
    stages.process_exit = stamp(10.5);
    stages.memory_released = stamp(11.5);
    stages.monitor_end = stamp(60.0);
    set_requests(&mut run, &[request(0.0, 1.0, 10.0, 50)]);
    let analysis = analyze(&run, &Options::default());
    assert_close(number(&analysis, "idle_power_w"), 60.0);
    // 19 s at 100 W and one second rising from 100 to 200 W.
    assert_close(number(&analysis, "startup_energy_j"), 1900.0 + 150.0);
    // The counter counts for the formal stage by default: 10 s at 200 J/s.
    assert_close(number(&analysis, "formal_energy_j"), 2000.0);
    assert_close(number(&analysis, "formal_energy_trapezoid_j"), 2000.0);
    assert_close(number(&analysis, "formal_energy_method_difference"), 0.0);
    // Release ends at 12, the first sample at or after memory_released; 10 to 11 falls from 200 to 60.
    assert_close(number(&analysis, "release_seconds"), 2.0);
    assert_close(number(&analysis, "release_energy_j"), 130.0 + 60.0);
    assert_close(number(&analysis, "release_energy_counter_j"), 400.0);
    assert_close(number(&analysis, "release_energy_method_difference"), (400.0 - 190.0) / 190.0);
    assert_close(number(&analysis, "lifecycle_energy_j"), 2050.0 + 2000.0 + 190.0);
    assert_close(number(&analysis, "lifecycle_j_per_token"), 4240.0 / 50.0);
    assert_close(number(&analysis, "lifecycle_power_w"), 4240.0 / 32.0);
}

/// A run that is released: idle 100 W, formal stage to 10 s, then the power given, each second.
fn released(after: &[f64], monitor_end_s: Option<f64>) -> RunAnalysis {
    let mut run = serving(10);
    let mut power = flat(-40, -1, 100.0);
    power.extend(flat(0, 10, 300.0));
    power.extend(after.iter().enumerate().map(|(index, p)| (11.0 + index as f64, *p)));
    add_device(&mut run, Scope::GpuBoard, "gpu0", &power, &[]);
    let stages = &mut run.manifest.stages;
    stages.idle_start = stamp(-40.0);
    stages.idle_end = stamp(-1.0);
    stages.process_exit = stamp(10.0);
    stages.memory_released = stamp(10.0);
    stages.monitor_end = monitor_end_s.and_then(stamp);
    analyze(&run, &Options::default())
}

#[test]
fn release_needs_a_second_attempt_after_a_relapse() {
    // In band from 11 to 15, out at 16 (106 W), back from 17 on.
    let mut after = vec![104.0, 100.0, 100.0, 100.0, 100.0, 106.0];
    after.extend([101.0; 40]);
    let analysis = released(&after, Some(57.0));
    assert_eq!(analysis.metrics.get("release_end").unwrap().value, Ok(Value::Time(17 * SECOND)));
    assert_close(number(&analysis, "release_seconds"), 7.0);
}

#[test]
fn release_must_be_held_until_monitoring_ends() {
    // Back in band at 11; the hold ends at 41.
    let after = [100.0; 40];
    assert_close(number(&released(&after, Some(41.0)), "release_seconds"), 1.0);
    let too_short = released(&after, Some(40.9));
    assert_eq!(too_short.metrics.get("release_closed").unwrap().value, Ok(Value::Bool(false)));
    for metric in ["release_end", "release_energy_j", "lifecycle_energy_j", "lifecycle_j_per_token"]
    {
        assert_eq!(reason(&too_short, metric), Reason::ReleaseNotClosed, "{metric}");
    }
    // Without a stamp monitoring ends with the last sample, at 50.
    assert_close(number(&released(&after, None), "release_seconds"), 1.0);
}

#[test]
fn a_gap_inside_the_hold_fails_it() {
    let mut run_after = vec![100.0; 60];
    // One sample missing is ordinary (2 s); five missing in a row are a gap of 6 s: 25 to 31.
    run_after.truncate(60);
    let mut run = serving(10);
    let mut power = flat(-40, -1, 100.0);
    power.extend(flat(0, 10, 300.0));
    power.extend(flat(11, 70, 100.0).into_iter().filter(|(t, _)| !(26.0..=30.0).contains(t)));
    add_device(&mut run, Scope::GpuBoard, "gpu0", &power, &[]);
    let stages = &mut run.manifest.stages;
    stages.idle_start = stamp(-40.0);
    stages.idle_end = stamp(-1.0);
    stages.monitor_end = stamp(70.0);
    let analysis = analyze(&run, &Options::default());
    assert_eq!(analysis.metrics.get("release_end").unwrap().value, Ok(Value::Time(31 * SECOND)));
    assert!(analysis.flags.contains(Flag::ReleaseStampMissing));
}

#[test]
fn every_device_must_be_back() {
    let mut run = serving(10);
    run.manifest.hardware.count = 2;
    let power = |back: i32| {
        let mut power = flat(-40, -1, 100.0);
        power.extend(flat(0, back - 1, 300.0));
        power.extend(flat(back, 80, 100.0));
        power
    };
    add_device(&mut run, Scope::GpuBoard, "gpu0", &power(12), &[]);
    // The second device is sampled half a second later.
    let shifted: Vec<_> = power(20).into_iter().map(|(t, p)| (t + 0.5, p)).collect();
    add_device(&mut run, Scope::GpuBoard, "gpu1", &shifted, &[]);
    let stages = &mut run.manifest.stages;
    stages.idle_start = stamp(-39.0);
    stages.idle_end = stamp(-2.0);
    stages.process_exit = stamp(10.0);
    stages.memory_released = stamp(10.0);
    stages.monitor_end = stamp(80.0);
    let analysis = analyze(&run, &Options::default());
    assert_eq!(
        analysis.metrics.get("release_end").unwrap().value,
        Ok(Value::Time(20 * SECOND + SECOND / 2))
    );
}

/// Requests one after the other, 1 s each with 10 tokens, at a power that gives each its level.
fn one_after_the_other(power_w: &[f64]) -> Run {
    let seconds = power_w.len() as i64;
    let mut run = serving(seconds);
    // A counter is exact at every second, so each request's energy is its own power times 1 s.
    let mut total = 0.0;
    let mut counter = vec![(0.0, 0.0)];
    for (index, power) in power_w.iter().enumerate() {
        total += power;
        counter.push(((index + 1) as f64, total));
    }
    let power: Vec<_> = (0..=seconds).map(|t| (t as f64, 100.0)).collect();
    add_device(&mut run, Scope::GpuBoard, "gpu0", &power, &counter);
    let requests: Vec<_> =
        (0..power_w.len()).map(|i| request(i as f64, i as f64, (i + 1) as f64, 10)).collect();
    set_requests(&mut run, &requests);
    run
}

/// The first `wild` requests alternate between 50 W and 150 W; then 100 W until 300 requests.
fn settling(wild: usize) -> RunAnalysis {
    let power: Vec<f64> = (0..300)
        .map(|i| {
            if i >= wild {
                100.0
            } else if i % 2 == 0 {
                50.0
            } else {
                150.0
            }
        })
        .collect();
    analyze(&one_after_the_other(&power), &Options::default())
}

#[test]
fn the_steady_window_starts_at_the_first_request() {
    let analysis = settling(0);
    assert_eq!(analysis.metrics.get("steady_first_request").unwrap().value, Ok(Value::U64(0)));
    assert_eq!(analysis.metrics.get("steady_start").unwrap().value, Ok(Value::Time(0)));
    assert_close(number(&analysis, "steady_j_per_token"), 10.0);
    assert_close(number(&analysis, "steady_tokens"), 3000.0);
}

#[test]
fn the_steady_window_starts_at_the_second_request() {
    // One value of 50 among 99 of 100: mean 99.5, sample variance 25, CV 0.05025: not calm.
    let analysis = settling(1);
    assert_eq!(analysis.metrics.get("steady_first_request").unwrap().value, Ok(Value::U64(1)));
    assert_eq!(analysis.metrics.get("steady_start").unwrap().value, Ok(Value::Time(SECOND)));
    assert_close(number(&analysis, "steady_energy_j"), 299.0 * 100.0);
}

#[test]
fn the_steady_window_starts_at_the_thirty_eighth_request() {
    let analysis = settling(37);
    assert_eq!(analysis.metrics.get("steady_first_request").unwrap().value, Ok(Value::U64(37)));
    assert_close(number(&analysis, "steady_tokens"), 2630.0);
    assert_close(number(&analysis, "steady_power_w"), 100.0);
}

#[test]
fn a_service_that_never_settles_has_no_steady_value() {
    let analysis = settling(300);
    assert_eq!(analysis.metrics.get("steady_reached").unwrap().value, Ok(Value::Bool(false)));
    assert_eq!(reason(&analysis, "steady_j_per_token"), Reason::SteadyNotReached);
    // Settling at 101 leaves 199 calm requests: one too few for two windows.
    assert_eq!(reason(&settling(101), "steady_start"), Reason::SteadyNotReached);
}

#[test]
fn too_few_requests_are_said_so() {
    let analysis = analyze(&one_after_the_other(&[100.0; 199]), &Options::default());
    assert_eq!(analysis.metrics.get("steady_reached").unwrap().value, Ok(Value::Bool(false)));
    assert_eq!(reason(&analysis, "steady_j_per_token"), Reason::TooFewRequests);
}

#[test]
fn all_windows_to_the_end_may_be_asked_for() {
    // Calm for 250 requests, then wild for 50: two windows are calm, but not all to the end.
    let mut power = vec![100.0; 250];
    power.extend((0..50).map(|i| if i % 2 == 0 { 50.0 } else { 150.0 }));
    let run = one_after_the_other(&power);
    let rule = |windows| Options {
        steady: SteadyRule { windows, ..SteadyRule::default() },
        ..Options::default()
    };
    let two = analyze(&run, &rule(SteadyWindows::Count(2)));
    assert_eq!(two.metrics.get("steady_first_request").unwrap().value, Ok(Value::U64(0)));
    let all = analyze(&run, &rule(SteadyWindows::All));
    // From request 1 on, 299 requests are two whole windows (1..=200) and a rest that is not asked.
    assert_eq!(all.metrics.get("steady_first_request").unwrap().value, Ok(Value::U64(1)));
}

#[test]
fn ties_in_the_end_are_ordered_by_sending_then_id() {
    let mut run = serving(10);
    add_device(&mut run, Scope::GpuBoard, "gpu0", &flat(-1, 11, 100.0), &[]);
    set_requests(
        &mut run,
        &[request(1.0, 2.0, 5.0, 4), request(0.0, 2.0, 5.0, 4), request(0.0, 2.0, 5.0, 4)],
    );
    let analysis = analyze(&run, &Options::default());
    let order: Vec<_> = analysis.requests.unwrap().iter().map(|request| request.request).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn node_values_use_a_claimed_rate_only_without_a_request_log() {
    let mut run = serving(10);
    add_device(&mut run, Scope::Node, "node", &flat(0, 10, 500.0), &[]);
    run.manifest.claims.push(Claim {
        metric: "output_throughput_tok_s".into(),
        value: 1000.0,
        unit: "tok/s".into(),
        source: "a table".into(),
    });
    let analysis = analyze(&run, &Options::default());
    assert_close(number(&analysis, "node_sample_mean_power_w"), 500.0);
    assert_close(number(&analysis, "node_sample_mean_j_per_token"), 0.5);
    assert_close(number(&analysis, "node_j_per_token"), 0.5);
    assert!(analysis.flags.contains(Flag::ClaimedTokens));
    assert_eq!(analysis.claims[0].recomputed, Err(Reason::NoRequests));
    set_requests(&mut run, &[request(0.0, 1.0, 9.0, 2000)]);
    let measured = analyze(&run, &Options::default());
    assert_close(number(&measured, "node_j_per_token"), 2.5);
    assert!(!measured.flags.contains(Flag::ClaimedTokens));
    assert_close(measured.claims[0].relative_difference().unwrap(), -0.8);
}

#[test]
fn impossible_samples_and_times_are_flagged() {
    let mut run = serving(10);
    let mut power = flat(-1, 11, 100.0);
    power[5].1 = 5000.0;
    add_device(&mut run, Scope::GpuBoard, "gpu0", &power, &[]);
    set_requests(&mut run, &[request(2.0, 1.0, 4.0, 5), request(0.0, 1.0, 5.0, 5)]);
    let analysis = analyze(&run, &Options::default());
    assert!(analysis.metrics.get("formal_energy_j").unwrap().flags.contains(Flag::AboveCeiling));
    // The first request's first token came before it was sent: only the second has a time to it.
    assert_close(number(&analysis, "ttft_mean_ms"), 1000.0);
    assert!(analysis.metrics.get("ttft_mean_ms").unwrap().flags.contains(Flag::TimesReversed));
}

/// Random requests over a 20 s formal window, some with gaps, some without, some of one token.
fn random_requests() -> impl Strategy<Value = Vec<TestRequest>> {
    let one = (0.0..19.0_f64, 0.0..1.0_f64, 0.0..1.0_f64, 0_u32..40, any::<bool>(), any::<bool>());
    prop::collection::vec(one, 1..60).prop_map(|requests| {
        requests
            .into_iter()
            .map(|(send, to_first, to_end, tokens, gaps, instant)| {
                let first = send + (20.0 - send) * to_first * 0.5;
                let end = if instant { first } else { first + (20.0 - first) * to_end };
                let mut request = request(send, first, end, tokens);
                if gaps && tokens > 1 {
                    let each = ((end - first) * 1000.0) as u64 / u64::from(tokens);
                    request.gaps_ms = vec![each; tokens as usize - 1];
                }
                request
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn attributed_and_unattributed_energy_are_the_formal_energy(
        requests in random_requests(),
        power in prop::collection::vec(1.0..1000.0_f64, 21),
        with_counter in any::<bool>(),
    ) {
        let mut run = serving(20);
        let samples: Vec<_> = power.iter().enumerate().map(|(t, p)| (t as f64, *p)).collect();
        let mut total = 0.0;
        let counter: Vec<_> = samples.iter().map(|(t, p)| { total += p; (*t, total) }).collect();
        add_device(&mut run, Scope::GpuBoard, "gpu0", &samples, if with_counter { &counter } else { &[] });
        set_requests(&mut run, &requests);
        let analysis = analyze(&run, &Options::default());
        let formal = number(&analysis, "formal_energy_j");
        let attributed: f64 = analysis.requests.as_ref().unwrap().iter().filter_map(|r| r.energy_j).sum();
        let unattributed = number(&analysis, "unattributed_energy_j");
        prop_assert!((attributed + unattributed - formal).abs() <= 1e-9 * formal,
            "{attributed} + {unattributed} is not {formal}");
    }

    #[test]
    fn shifting_all_times_changes_no_metric(requests in random_requests(), shift_s in -1_000_000_i64..1_000_000) {
        let mut run = serving(20);
        add_device(&mut run, Scope::GpuBoard, "gpu0", &flat(-1, 21, 300.0), &[]);
        set_requests(&mut run, &requests);
        let here = analyze(&run, &Options::default());
        let by = shift_s * SECOND;
        let moved_stamp = |stamp: Option<wattrace_schema::TimestampNs>| {
            stamp.map(|stamp| wattrace_schema::TimestampNs::from_nanos(stamp.nanos() + by))
        };
        let stages = &mut run.manifest.stages;
        stages.formal_start = moved_stamp(stages.formal_start);
        stages.formal_end = moved_stamp(stages.formal_end);
        run.power[0].power_w.t_ns.iter_mut().for_each(|t| *t += by);
        let table = run.requests.as_mut().unwrap();
        for column in [&mut table.t_send_ns, &mut table.t_first_token_ns, &mut table.t_end_ns] {
            column.iter_mut().flatten().for_each(|t| *t += by);
        }
        let there = analyze(&run, &Options::default());
        for ((metric, a), (_, b)) in here.metrics.iter().zip(there.metrics.iter()) {
            if !matches!(a.value, Ok(Value::Time(_))) {
                prop_assert_eq!(a.value, b.value, "{}", metric.name);
            }
        }
        let energies = |analysis: &RunAnalysis| {
            analysis.requests.as_ref().unwrap().iter().map(|r| r.energy_j).collect::<Vec<_>>()
        };
        prop_assert_eq!(energies(&here), energies(&there));
    }
}
