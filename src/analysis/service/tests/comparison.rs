//! Two configurations side by side.

use wattrace_schema::Flag;

use super::accuracy::{OwnedScores, rule, scores};
use super::*;

const GOOD: [f64; 5] = [100.0, 101.0, 102.0, 103.0, 104.0];
const SLOW: [f64; 5] = [900.0; 5];

fn subject<'run>(sweep: &'run Sweep<'run>) -> Subject<'run> {
    Subject { sweep, accuracy: None, vendor: Some("nvidia"), accelerator: Some("H200") }
}

/// Rows of `candidate` against `production`, each with its own runs.
fn rows(production: &[RunMeasurement], candidate: &[RunMeasurement]) -> Vec<ComparisonRow> {
    let (production, candidate) = (sweeps(production), sweeps(candidate));
    compare(&subject(&production[0]), &subject(&candidate[0]), Allowed::default(), 42).unwrap()
}

fn row<'rows>(rows: &'rows [ComparisonRow], metric: &str) -> &'rows ComparisonRow {
    rows.iter().find(|row| row.metric == metric).unwrap()
}

/// Rates 1 (good) and 2 (slow): the goodput is not at the end of the sweep.
fn sweep_of(configuration: &str, output_tok_s: f64, ttft_ms: [f64; 5]) -> Vec<RunMeasurement> {
    let mut runs = repeats(configuration, Some(1.0), output_tok_s, ttft_ms);
    runs.extend(repeats(configuration, Some(2.0), output_tok_s, SLOW));
    runs
}

#[test]
fn apart_is_better_or_worse_and_overlapping_is_neither() {
    // 100 to 104 against 110 to 114 tok/s; TTFT 100 to 104 against 201 to 205 ms.
    let slower_start = GOOD.map(|ttft_ms| ttft_ms + 101.0);
    let rows =
        rows(&sweep_of("production", 100.0, GOOD), &sweep_of("candidate", 110.0, slower_start));
    let goodput = row(&rows, "goodput_tok_s");
    assert_eq!(goodput.verdict, Verdict::Better);
    assert_eq!(goodput.difference, Ok(10.0));
    assert_eq!((goodput.reference_side.median, goodput.side.median), (Ok(102.0), Ok(112.0)));
    assert_eq!((goodput.side.low, goodput.side.high, goodput.side.n), (Ok(110.0), Ok(114.0), 5));
    let (low, high) = (goodput.ci_low.unwrap(), goodput.ci_high.unwrap());
    assert!((6.0..10.0).contains(&low) && high > 10.0 && high <= 14.0, "{low} to {high}");
    assert_eq!(row(&rows, "ttft_p99_ms").verdict, Verdict::Worse);
    assert_eq!(row(&rows, "ttft_p99_ms").request_rates, Some([Some(1.0), Some(1.0)]));
    let tpot = row(&rows, "tpot_p99_ms");
    assert_eq!(
        (tpot.verdict, tpot.reason, tpot.difference),
        (Verdict::Inconclusive, None, Ok(0.0))
    );
    // No node source on either side.
    let joules = row(&rows, "tokens_per_joule");
    assert_eq!((joules.verdict, joules.reason), (Verdict::Inconclusive, Some(Reason::NoNodePower)));

    // 100 to 104 against 101 to 105.
    let overlapping =
        self::rows(&sweep_of("production", 100.0, GOOD), &sweep_of("candidate", 101.0, GOOD));
    assert_eq!(row(&overlapping, "goodput_tok_s").verdict, Verdict::Inconclusive);
}

#[test]
fn four_runs_are_too_few_for_a_verdict() {
    let mut few = sweep_of("candidate", 200.0, GOOD);
    few.remove(4);
    let rows = rows(&sweep_of("production", 100.0, GOOD), &few);
    let goodput = row(&rows, "goodput_tok_s");
    assert_eq!(goodput.reason, Some(Reason::TooFewRepeats));
    assert_eq!((goodput.verdict, goodput.side.n), (Verdict::Inconclusive, 4));
    assert!(goodput.flags.contains(Flag::TooFewRepeats));
}

#[test]
fn a_goodput_at_the_end_of_its_sweep_cannot_be_called_worse() {
    let at_end = repeats("candidate", Some(1.0), 50.0, GOOD);
    let production = sweep_of("production", 100.0, GOOD);
    let worse = rows(&production, &at_end);
    let goodput = row(&worse, "goodput_tok_s");
    assert_eq!(
        (goodput.verdict, goodput.reason),
        (Verdict::Inconclusive, Some(Reason::SweepTooShort))
    );
    // Better than that it may well be.
    let better = rows(&production, &repeats("candidate", Some(1.0), 150.0, GOOD));
    assert_eq!(row(&better, "goodput_tok_s").verdict, Verdict::Better);
}

#[test]
fn latencies_are_compared_at_one_rate_even_without_bound() {
    let mut candidate = repeats("candidate", Some(1.0), 50.0, [f64::INFINITY; 5]);
    candidate.extend(repeats("candidate", Some(0.5), 30.0, GOOD));
    let production = sweep_of("production", 100.0, GOOD);
    let unbounded = rows(&production, &candidate);
    let ttft = row(&unbounded, "ttft_p99_ms");
    assert_eq!(ttft.verdict, Verdict::Worse);
    assert_eq!(
        (ttft.side.median, ttft.difference),
        (Err(Reason::P99Unbounded), Err(Reason::P99Unbounded))
    );
    assert_eq!(row(&unbounded, "goodput_tok_s").request_rates, Some([Some(1.0), Some(0.5)]));

    let elsewhere = rows(&production, &repeats("candidate", Some(3.0), 50.0, GOOD));
    assert_eq!(row(&elsewhere, "ttft_p99_ms").reason, Some(Reason::NoCommonRate));
    let none = rows(&production, &repeats("candidate", Some(1.0), 50.0, SLOW));
    assert_eq!(row(&none, "goodput_tok_s").reason, Some(Reason::NoRateMeetsSlo));
    assert_eq!(row(&none, "ttft_p99_ms").verdict, Verdict::Worse);
}

#[test]
fn unequal_specs_and_vendors_are_refused_unless_asked_for() {
    let production = sweep_of("production", 100.0, GOOD);
    let mut candidate = sweep_of("candidate", 110.0, GOOD);
    for run in &mut candidate {
        run.rules.spec_hash = Some("0000".into());
    }
    let (production, candidate) = (sweeps(&production), sweeps(&candidate));
    let (first, second) = (subject(&production[0]), subject(&candidate[0]));
    let refused = compare(&first, &second, Allowed::default(), 1).unwrap_err();
    insta::assert_snapshot!(refused, @r#""production" and "candidate" were not measured under one spec (5bec and 0000); allow unequal specs to compare them all the same, labelled so"#);
    let asked = Allowed { unequal_specs: true, cross_vendor: false };
    let rows = compare(&first, &second, asked, 1).unwrap();
    assert!(rows.iter().all(|row| row.flags.contains(Flag::UnequalSpecs)));

    let second = Subject { vendor: Some("amd"), accelerator: Some("MI355X"), ..second };
    let refused = compare(&first, &second, asked, 1).unwrap_err();
    insta::assert_snapshot!(refused, @r#""production" runs on H200 and "candidate" on MI355X, which are not known to be of one vendor; allow cross-vendor to compare them all the same, labelled so"#);
    let asked = Allowed { unequal_specs: true, cross_vendor: true };
    let rows = compare(&first, &second, asked, 1).unwrap();
    assert!(rows.iter().all(|row| row.flags.contains(Flag::CrossVendor)));
    // An unknown vendor is no reason to assume one, unless the accelerator is the same.
    let unknown = Subject { vendor: None, ..second };
    assert!(
        compare(&first, &unknown, Allowed { unequal_specs: true, cross_vendor: false }, 1).is_err()
    );
    let same_board = Subject { accelerator: Some("H200"), ..unknown };
    assert!(
        compare(&first, &same_board, Allowed { unequal_specs: true, cross_vendor: false }, 1)
            .is_ok()
    );
}

#[test]
fn accuracy_goes_by_the_interval_of_its_drop() {
    let owned = [scores("production", &[80; 3]), scores("candidate", &[60; 3])];
    let views = owned.each_ref().map(OwnedScores::view);
    let gates = accuracy_gate(&rule(), Some("5bec"), &views, 42);
    let (production, candidate) =
        (sweep_of("production", 100.0, GOOD), sweep_of("candidate", 100.0, GOOD));
    let (production, candidate) = (sweeps(&production), sweeps(&candidate));
    let first = Subject { accuracy: Some(&gates[0]), ..subject(&production[0]) };
    let second = Subject { accuracy: Some(&gates[1]), ..subject(&candidate[0]) };
    let rows = compare(&first, &second, Allowed::default(), 42).unwrap();
    let accuracy = row(&rows, "accuracy_points");
    assert_eq!(accuracy.verdict, Verdict::Worse);
    assert_eq!((accuracy.reference_side.median, accuracy.side.median), (Ok(80.0), Ok(60.0)));
    assert_close(accuracy.difference.unwrap(), -20.0);
    assert!(
        accuracy.ci_high.unwrap() < 0.0 && accuracy.ci_low.unwrap() < accuracy.ci_high.unwrap()
    );
}
