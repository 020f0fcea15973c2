//! Sweeps of request rates and the goodput that comes of them.

use wattrace_schema::{Flag, RequestStatus};

use super::accuracy::{OwnedScores, rule, scores};
use super::*;
use crate::test_run::{request, set_requests};

const GOOD: [f64; 5] = [100.0; 5];
const SLOW: [f64; 5] = [900.0; 5];

/// The goodput of one configuration with a rate a line: rate, output rate, TTFT of five repeats.
fn goodput(rates: &[(Option<f64>, f64, [f64; 5])]) -> GoodputRow {
    let runs: Vec<_> = rates
        .iter()
        .flat_map(|(rate, output_tok_s, ttft_ms)| repeats("c", *rate, *output_tok_s, *ttft_ms))
        .collect();
    let sweeps = sweeps(&runs);
    assert_eq!(sweeps.len(), 1);
    sweeps[0].goodput(42)
}

#[test]
fn a_failure_pushes_the_percentile_over_the_objective() {
    // Rates 1 and 2 serve 100 requests each in time, but one of rate 2 times out: its p99 is infinite.
    let run_at = |rate: f64, failures: usize| {
        let mut run = serving(101);
        run.manifest.configuration = Some("c".into());
        run.manifest.workload.request_rate = Some(rate);
        let requests: Vec<_> = (0..100)
            .map(|index| {
                let send = f64::from(index);
                request(send, send + 0.1, send + 0.3, 11)
            })
            .collect();
        set_requests(&mut run, &requests);
        run.requests.as_mut().unwrap().status[..failures].fill(RequestStatus::Timeout);
        measure(&run, &rules())
    };
    let runs = [run_at(1.0, 0), run_at(2.0, 1)];
    let sweeps = sweeps(&runs);
    let rows = sweeps[0].rows();
    assert_eq!((rows[0].meets_slo, rows[0].ttft_p99_ms), (Ok(true), Ok(100.0)));
    assert_eq!((rows[1].meets_slo, rows[1].ttft_p99_ms), (Ok(false), Err(Reason::P99Unbounded)));
    assert_eq!((rows[1].sent, rows[1].failed), (Ok(100), Ok(1)));
    let goodput = sweeps[0].goodput(1);
    assert_eq!(goodput.request_rate, Ok(Some(1.0)));
    // 100 requests of 11 tokens in 101 s.
    assert_close(goodput.goodput_tok_s.unwrap(), 1100.0 / 101.0);
    assert_eq!(goodput.goodput_ci_low, Err(Reason::SingleValue));
    assert!(goodput.flags.contains(Flag::TooFewRepeats));
    assert!(!goodput.flags.contains(Flag::AtSweepEnd));
}

#[test]
fn the_goodput_is_the_median_at_the_highest_good_rate() {
    let row = goodput(&[
        (Some(1.0), 50.0, GOOD),
        (Some(2.0), 90.0, [499.0, 500.0, 500.0, 510.0, 2000.0]),
        (Some(4.0), 140.0, SLOW),
    ]);
    // Output rates 90 to 94; the median TTFT is 500, just at the limit.
    assert_eq!(row.goodput_tok_s, Ok(92.0));
    assert_eq!(row.request_rate, Ok(Some(2.0)));
    assert_eq!((row.goodput_low, row.goodput_high), (Ok(90.0), Ok(94.0)));
    assert_close(row.variance_band.unwrap(), 4.0 / 92.0);
    assert_eq!(row.n_runs, 5);
    assert!(row.flags.is_empty());
}

#[test]
fn a_failed_lower_rate_and_a_good_highest_rate_are_flagged() {
    let row = goodput(&[(Some(1.0), 50.0, SLOW), (Some(2.0), 90.0, GOOD), (None, 99.0, SLOW)]);
    assert_eq!(row.request_rate, Ok(Some(2.0)));
    assert!(row.flags.contains(Flag::NonMonotone) && !row.flags.contains(Flag::AtSweepEnd));
    // No rate is the highest of all.
    let row = goodput(&[(None, 99.0, GOOD), (Some(1000.0), 90.0, GOOD)]);
    assert_eq!(row.request_rate, Ok(None));
    assert!(row.flags.contains(Flag::AtSweepEnd) && !row.flags.contains(Flag::NonMonotone));
}

#[test]
fn no_good_rate_is_a_reason() {
    let row = goodput(&[(Some(1.0), 50.0, SLOW), (Some(2.0), 90.0, SLOW)]);
    assert_eq!(row.reason(), Some(Reason::NoRateMeetsSlo));
    assert_eq!(row.request_rate, Err(Reason::NoRateMeetsSlo));
    assert_eq!(row.node_power_w, Err(Reason::NoRateMeetsSlo));
    assert_eq!(row.goodput_ci_low, Err(Reason::NoRateMeetsSlo));
}

#[test]
fn most_repeats_decide_even_when_others_have_no_bound() {
    let unbounded = f64::INFINITY;
    let row = goodput(&[(Some(1.0), 50.0, [100.0, 110.0, 120.0, unbounded, unbounded])]);
    assert_eq!(row.goodput_tok_s, Ok(52.0));
    let row = goodput(&[(Some(1.0), 50.0, [100.0, 110.0, unbounded, unbounded, unbounded])]);
    assert_eq!(row.reason(), Some(Reason::NoRateMeetsSlo));
}

#[test]
fn the_interval_redraws_the_runs_of_every_rate() {
    // At rate 2 three runs of five are good. A redrawn median is good when at least three draws are:
    // Σ C(5,k) 0.6^k 0.4^(5-k), k ≥ 3, is 0.683. So 32% of resamples fall back to rate 1, whose runs
    // are all good: its medians are the output rates 50 to 54.
    let row =
        goodput(&[(Some(1.0), 50.0, GOOD), (Some(2.0), 90.0, [100.0, 100.0, 100.0, 900.0, 900.0])]);
    assert_eq!(row.request_rate, Ok(Some(2.0)));
    assert_eq!((row.request_rate_ci_low, row.request_rate_ci_high), (Ok(Some(1.0)), Ok(Some(2.0))));
    // The lowest 2.5% of all are the lowest 8% of rate 1. A median of five draws is the smallest value
    // in 5.8% of resamples, 1.8% of all, so the end is the next one. At rate 2 three draws at least
    // are good ones, of 90 to 92 tokens/s, so the median is 92 at most.
    assert_eq!((row.goodput_ci_low, row.goodput_ci_high), (Ok(51.0), Ok(92.0)));
    assert_eq!(
        row,
        goodput(
            &[(Some(1.0), 50.0, GOOD), (Some(2.0), 90.0, [100.0, 100.0, 100.0, 900.0, 900.0]),]
        )
    );

    // Without a lower rate to fall back to, the lower end is nothing.
    let row = goodput(&[(Some(2.0), 90.0, [100.0, 100.0, 100.0, 900.0, 900.0])]);
    assert_eq!(row.goodput_ci_low, Err(Reason::NoRateMeetsSlo));
    assert_eq!(row.request_rate_ci_low, Err(Reason::NoRateMeetsSlo));
    assert_eq!(row.goodput_ci_high, Ok(92.0));
}

#[test]
fn tokens_per_joule_is_the_median_of_ratios() {
    // Ratios 2, 3 and 1.1: median 2. The ratio of medians would be 110 / 50 = 2.2.
    let runs: Vec<_> = [(100.0, 50.0), (120.0, 40.0), (110.0, 100.0)]
        .iter()
        .enumerate()
        .map(|(repeat, (output_tok_s, power_w))| {
            let run = measured("c", Some(1.0), repeat, [*output_tok_s, 100.0, 40.0]);
            RunMeasurement {
                node_power_w: Outcome::of(Value::F64(*power_w)),
                tokens_per_joule: Outcome::of(Value::F64(output_tok_s / power_w)),
                ..run
            }
        })
        .collect();
    let row = sweeps(&runs)[0].goodput(1);
    assert_close(row.tokens_per_joule.unwrap(), 2.0);
    assert_eq!(row.node_power_w, Ok(50.0));
    assert!(row.flags.contains(Flag::TooFewRepeats));
}

#[test]
fn a_run_without_a_value_is_left_out_and_told() {
    let mut runs = repeats("c", Some(1.0), 50.0, GOOD);
    runs[0].ttft_p99_ms = Outcome::missing(Reason::NoRequestTimes);
    runs[0].output_tok_s = Outcome::missing(Reason::NoRequestTimes);
    let row = &sweeps(&runs)[0].rows()[0];
    // 51, 52, 53, 54 are left.
    assert_eq!((row.n_runs, row.output_tok_s), (5, Ok(52.5)));
    assert!(row.flags.contains(Flag::RunsLeftOut));

    // A rate whose runs have no latencies at all is undecided, not failed.
    let mut runs = repeats("c", Some(2.0), 90.0, GOOD);
    for run in &mut runs {
        run.ttft_p99_ms = Outcome::missing(Reason::NoRequestTimes);
    }
    runs.extend(repeats("c", Some(1.0), 50.0, GOOD));
    let row = sweeps(&runs)[0].goodput(1);
    assert_eq!(row.request_rate, Ok(Some(1.0)));
    assert!(row.flags.contains(Flag::RateUndecided) && !row.flags.contains(Flag::AtSweepEnd));
}

#[test]
fn specs_and_configurations_make_their_own_sweeps_whatever_the_order_of_runs() {
    let mut runs = repeats("b", Some(2.0), 90.0, GOOD);
    runs.extend(repeats("a", None, 10.0, GOOD));
    runs.extend(repeats("a", Some(3.0), 70.0, GOOD));
    let mut other_spec = repeats("a", Some(3.0), 70.0, GOOD);
    for run in &mut other_spec {
        run.rules.spec_hash = Some("0000".into());
    }
    runs.extend(other_spec);
    let names = |runs: &[RunMeasurement]| -> Vec<_> {
        sweeps(runs)
            .iter()
            .map(|sweep| {
                let rates: Vec<_> = sweep.points.iter().map(|point| point.request_rate).collect();
                (sweep.spec_hash.clone(), sweep.configuration.clone(), rates)
            })
            .collect()
    };
    let text = |text: &str| Some(text.to_owned());
    let expected = [
        (text("0000"), text("a"), vec![Some(3.0)]),
        (text("5bec"), text("a"), vec![Some(3.0), None]),
        (text("5bec"), text("b"), vec![Some(2.0)]),
    ];
    assert_eq!(names(&runs), expected);
    let rows: Vec<_> = sweeps(&runs).iter().flat_map(Sweep::rows).collect();
    runs.reverse();
    assert_eq!(names(&runs), expected);
    assert_eq!(sweeps(&runs).iter().flat_map(Sweep::rows).collect::<Vec<_>>(), rows);
}

#[test]
fn a_fleet_is_sized_by_goodput_and_only_by_what_keeps_its_accuracy() {
    let mut runs = repeats("production", Some(1.0), 998.0, GOOD);
    runs.extend(repeats("candidate", Some(1.0), 1398.0, GOOD));
    runs.extend(repeats("fast but wrong", Some(1.0), 1998.0, GOOD));
    runs.extend(repeats("too slow", Some(1.0), 2998.0, SLOW));
    let goodputs: Vec<_> = sweeps(&runs).iter().map(|sweep| sweep.goodput(1)).collect();
    let scores = [
        scores("production", &[80; 3]),
        scores("candidate", &[80; 3]),
        scores("fast but wrong", &[70; 3]),
    ];
    let gates = accuracy_gate(&rule(), Some("5bec"), &scores.each_ref().map(OwnedScores::view), 1);
    let candidates: Vec<_> = goodputs.iter().map(|row| Candidate::of(row, &gates)).collect();
    let rows = capacity(100, Some("production"), &candidates);
    let of =
        |name: &str| rows.iter().find(|row| row.configuration.as_deref() == Some(name)).unwrap();
    // 100 · 1000 / 1400 = 71.4.
    assert_eq!((of("candidate").cards_needed, of("candidate").cards_saved()), (Ok(72), Some(28)));
    assert_eq!(of("production").cards_needed, Ok(100));
    assert_eq!(of("fast but wrong").reason(), Some(Reason::AccuracyFailed));
    assert_eq!(of("fast but wrong").goodput_tok_s, Ok(2000.0));
    assert_eq!(of("too slow").reason(), Some(Reason::NoRateMeetsSlo));
    assert!(of("too slow").flags.contains(Flag::AccuracyNotMeasured));
    for reference in [Some("absent"), None] {
        let rows = capacity(100, reference, &candidates);
        assert_eq!(rows[0].reason(), Some(Reason::NoReference));
    }
}
