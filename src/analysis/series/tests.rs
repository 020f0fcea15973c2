//! Energies over windows, worked by hand.

use proptest::prelude::*;
use wattrace_schema::{EnergyMethod, Flag, Interpolation, Interval, Reason, Scope, Series};

use super::counter::CounterSource;
use super::{EnergyCurve, accelerators, max_gap_ns, node, window_energy};
use crate::test_run::{SECOND, add_device, series, serving};

const NOMINAL_NS: f64 = 1e9;

fn seconds(start: f64, end: f64) -> Interval {
    Interval::new((start * 1e9).round() as i64, (end * 1e9).round() as i64)
}

fn power(samples: &[(f64, f64)], window: Interval) -> Result<EnergyCurve, Reason> {
    EnergyCurve::from_power(&series(samples), Interpolation::Linear, window, NOMINAL_NS)
}

fn counter_source(wrap_j: Option<f64>) -> CounterSource {
    CounterSource {
        nominal_interval_ns: NOMINAL_NS,
        refresh_ns: None,
        wrap_j,
        scope: Scope::GpuBoard,
    }
}

fn counter(samples: &[(f64, f64)], window: Interval, wrap_j: Option<f64>) -> EnergyCurve {
    let constant = series(&[(0.0, 100.0), (1000.0, 100.0)]);
    EnergyCurve::from_counter(&series(samples), &constant, window, &counter_source(wrap_j)).unwrap()
}

#[test]
fn trapezoid_interpolates_both_edges() {
    // Power rises 100 W/s from 0 at t=0 to 400 at t=4. From 0.5 (50 W) to 3.25 (325 W):
    // (50 + 325) / 2 * 2.75 = 515.625 J.
    let curve = power(
        &[(0.0, 0.0), (1.0, 100.0), (2.0, 200.0), (3.0, 300.0), (4.0, 400.0)],
        seconds(0.5, 3.25),
    )
    .unwrap();
    assert!((curve.total_j() - 515.625).abs() < 1e-9, "{}", curve.total_j());
    assert!(curve.flags.is_empty());
    assert_eq!(curve.samples, 3);
}

#[test]
fn a_kink_between_samples_is_followed() {
    // 0..1: 100 W flat = 100 J; 1..2: 100 to 300 = 200 J; 2..2.5: 300 to 200 = 125 J.
    let curve = power(&[(0.0, 100.0), (1.0, 100.0), (2.0, 300.0), (3.0, 100.0)], seconds(0.0, 2.5))
        .unwrap();
    assert!((curve.total_j() - 425.0).abs() < 1e-9);
}

#[test]
fn an_edge_is_held_for_three_median_intervals_and_no_longer() {
    let samples: Vec<_> = (0..=10).map(|t| (f64::from(t), 100.0)).collect();
    let held = power(&samples, seconds(0.0, 13.0)).unwrap();
    assert!((held.total_j() - 1300.0).abs() < 1e-9);
    assert!(held.flags.contains(Flag::EdgeHeld));
    assert_eq!(power(&samples, seconds(0.0, 13.1)).unwrap_err(), Reason::NotCovered);
    assert_eq!(power(&samples, seconds(-3.1, 5.0)).unwrap_err(), Reason::NotCovered);
}

#[test]
fn a_gap_is_bridged_and_its_share_reported() {
    // Samples each second, but none between 4 and 9: 5 s of the 10 s window lie in the gap.
    let samples: Vec<_> = (0..=10)
        .filter(|t| *t <= 4 || *t >= 9)
        .map(|t| (f64::from(t), f64::from(t) * 10.0))
        .collect();
    let curve = power(&samples, seconds(0.0, 10.0)).unwrap();
    assert!((curve.total_j() - 500.0).abs() < 1e-9, "a straight line is bridged exactly");
    assert!(curve.flags.contains(Flag::SamplingGap));
    assert!((curve.gap_s - 5.0).abs() < 1e-12);
    // A window that begins inside the gap counts only its own part of it.
    let inside = power(&samples, seconds(6.0, 10.0)).unwrap();
    assert!((inside.gap_s - 3.0).abs() < 1e-12);
}

#[test]
fn the_longest_ordinary_distance_depends_on_the_window() {
    // Start-up at 1 Hz, then requests at 10 Hz.
    let t_ns: Vec<i64> =
        (0..10).map(|s| s * SECOND).chain((100..200).map(|t| t * SECOND / 10)).collect();
    assert_eq!(max_gap_ns(&t_ns, seconds(0.0, 9.0), 0.1e9), 3e9);
    assert_eq!(max_gap_ns(&t_ns, seconds(10.0, 20.0), 1e9), 0.3e9);
    // Two samples only: the nominal interval counts.
    assert_eq!(max_gap_ns(&t_ns, seconds(2.0, 3.0), 0.1e9), 0.3e9);
    // An even number of intervals (1, 1, 2, 2): the median lies between the middle ones.
    let uneven: Vec<i64> = [0, 1, 2, 4, 6].iter().map(|s| s * SECOND).collect();
    assert_eq!(max_gap_ns(&uneven, seconds(0.0, 6.0), 1e9), 4.5e9);
}

#[test]
fn a_step_source_holds_its_last_value() {
    // 100 W from 0, 300 W from 4: [1, 6] is 3 s at 100 and 2 s at 300.
    let samples = series(&[(0.0, 100.0), (4.0, 300.0), (20.0, 300.0)]);
    let curve =
        EnergyCurve::from_power(&samples, Interpolation::Hold, seconds(1.0, 6.0), NOMINAL_NS)
            .unwrap();
    assert!((curve.total_j() - 900.0).abs() < 1e-9);
    assert!(curve.flags.is_empty(), "silence is not a gap for a logger that drops repeats");
}

#[test]
fn a_counter_is_interpolated_at_both_edges() {
    // 100 J/s; from 0.5 to 3.25 is 275 J.
    let curve = counter(
        &[(0.0, 1000.0), (1.0, 1100.0), (2.0, 1200.0), (4.0, 1400.0)],
        seconds(0.5, 3.25),
        None,
    );
    assert!((curve.total_j() - 275.0).abs() < 1e-9);
}

#[test]
fn a_counter_reset_loses_its_segment_and_says_how_long() {
    // 100 J/s up to t=2, driver reload between 2 and 3, then again from 10. Of [0, 5]: 200 + 0 + 200.
    let samples =
        [(0.0, 5000.0), (1.0, 5100.0), (2.0, 5200.0), (3.0, 10.0), (4.0, 110.0), (5.0, 210.0)];
    let curve = counter(&samples, seconds(0.0, 5.0), None);
    assert!((curve.total_j() - 400.0).abs() < 1e-9);
    assert!(curve.flags.contains(Flag::CounterReset));
    assert!((curve.counter_lost_s - 1.0).abs() < 1e-12);
    // A window that ends before the reset is untouched by it.
    assert!(!counter(&samples, seconds(0.0, 2.0), None).flags.contains(Flag::CounterReset));
}

#[test]
fn a_counter_wrap_is_unwrapped_when_its_range_is_known() {
    // Range 1000 J: 900, 1000 -> 0 (wrap: +100 J), 100, 200.
    let samples = [(0.0, 900.0), (1.0, 0.0), (2.0, 100.0), (3.0, 200.0)];
    let curve = counter(&samples, seconds(0.0, 3.0), Some(1000.0));
    assert!((curve.total_j() - 300.0).abs() < 1e-9);
    assert!(curve.flags.contains(Flag::CounterWrap) && !curve.flags.contains(Flag::CounterReset));
}

#[test]
fn a_fall_that_would_need_impossible_power_is_a_reset() {
    // Range 262,144 J, but 1 s for 262,094 J would be 262 kW on one board.
    let samples = [(0.0, 100.0), (1.0, 50.0), (2.0, 150.0), (3.0, 250.0)];
    let curve = counter(&samples, seconds(0.0, 3.0), Some(262_144.0));
    assert!((curve.total_j() - 200.0).abs() < 1e-9);
    assert!(curve.flags.contains(Flag::CounterReset));
}

#[test]
fn a_counter_that_stands_still_under_power_is_stale() {
    let mut samples: Vec<_> = (0..=20).map(|t| (f64::from(t), 100.0 * f64::from(t))).collect();
    assert!(!counter(&samples, seconds(0.0, 20.0), None).flags.contains(Flag::CounterStale));
    for sample in &mut samples[5..=9] {
        sample.1 = 500.0;
    }
    assert!(counter(&samples, seconds(0.0, 20.0), None).flags.contains(Flag::CounterStale));
    // A source that says its counter refreshes every 5 s is not stale for that.
    let slow = CounterSource { refresh_ns: Some(5e9), ..counter_source(None) };
    let constant = series(&[(0.0, 100.0), (20.0, 100.0)]);
    let curve =
        EnergyCurve::from_counter(&series(&samples), &constant, seconds(0.0, 20.0), &slow).unwrap();
    assert!(!curve.flags.contains(Flag::CounterStale));
}

#[test]
fn devices_are_added_and_one_uncovered_device_leaves_no_value() {
    let mut run = serving(10);
    run.manifest.hardware.count = 2;
    let flat = |p: f64| -> Vec<(f64, f64)> { (0..=10).map(|t| (f64::from(t), p)).collect() };
    add_device(&mut run, Scope::GpuBoard, "gpu0", &flat(100.0), &[]);
    add_device(&mut run, Scope::GpuBoard, "gpu1", &flat(50.0), &[]);
    add_device(&mut run, Scope::Node, "node", &flat(400.0), &[]);
    let set = accelerators(&run).unwrap();
    let energy = window_energy(&set, seconds(0.0, 10.0), EnergyMethod::Trapezoid).unwrap();
    assert!((energy.total_j() - 1500.0).abs() < 1e-9, "the node is not mixed in");
    assert!(!energy.flags.contains(Flag::DeviceCountMismatch));
    let wall =
        window_energy(&node(&run).unwrap(), seconds(0.0, 10.0), EnergyMethod::Trapezoid).unwrap();
    assert!((wall.total_j() - 4000.0).abs() < 1e-9);
    run.power[1].power_w = series(&flat(50.0)[..4]);
    let set = accelerators(&run).unwrap();
    let missing = window_energy(&set, seconds(0.0, 10.0), EnergyMethod::Trapezoid);
    assert_eq!(missing.unwrap_err(), Reason::NotCovered);
}

#[test]
fn the_same_device_on_two_sources_counts_once() {
    let mut run = serving(10);
    let flat: Vec<_> = (0..=10).map(|t| (f64::from(t), 100.0)).collect();
    add_device(&mut run, Scope::GpuBoard, "gpu0", &flat, &[]);
    run.manifest.power_sources.push(crate::test_run::source("average", Scope::GpuBoard));
    let mut again = run.power[0].clone();
    again.source = 1;
    run.power.push(again);
    let set = accelerators(&run).unwrap();
    assert_eq!(set.devices.len(), 1);
    assert!(set.flags.contains(Flag::OverlappingSources));
}

#[test]
fn absurd_times_do_not_overflow() {
    let samples = Series { t_ns: vec![i64::MIN, 0, i64::MAX], value: vec![1.0, 1.0, 1.0] };
    let window = Interval::new(i64::MIN, i64::MAX);
    let curve =
        EnergyCurve::from_power(&samples, Interpolation::Linear, window, NOMINAL_NS).unwrap();
    assert!((curve.total_j() / window.duration_s() - 1.0).abs() < 1e-9);
}

/// Random samples: strictly increasing times from 0 to about 100 s, power up to 1 kW.
fn samples() -> impl Strategy<Value = Series> {
    prop::collection::vec((1_000_000_i64..2 * SECOND, 0.0..1000.0_f64), 5..100).prop_map(|steps| {
        let mut t_ns = 0;
        let mut series = Series::default();
        for (step, power) in steps {
            t_ns += step;
            series.t_ns.push(t_ns);
            series.value.push(power);
        }
        series
    })
}

proptest! {
    #[test]
    fn constant_power_gives_power_times_time(power in 1.0..1000.0_f64, a in 0.0..40.0_f64, length in 0.1..60.0_f64) {
        let samples: Vec<_> = (0..=100).map(|t| (f64::from(t), power)).collect();
        let window = seconds(a, a + length);
        let curve = super::EnergyCurve::from_power(&series(&samples), Interpolation::Linear, window, NOMINAL_NS).unwrap();
        prop_assert!((curve.total_j() / (power * window.duration_s()) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn cutting_a_window_in_two_adds_up(series in samples(), cut in 0.1..0.9_f64) {
        let (first, last) = (series.t_ns[0], series.t_ns[series.len() - 1]);
        let middle = first + ((last - first) as f64 * cut) as i64;
        for interpolation in [Interpolation::Linear, Interpolation::Hold] {
            let energy = |a, b| EnergyCurve::from_power(&series, interpolation, Interval::new(a, b), NOMINAL_NS).unwrap().total_j();
            let whole = energy(first, last);
            prop_assert!((energy(first, middle) + energy(middle, last) - whole).abs() <= 1e-9 * whole);
        }
    }

    #[test]
    fn shifting_all_times_changes_nothing(series in samples(), shift in -SECOND * 1_000_000..SECOND * 1_000_000) {
        let window = |by: i64| Interval::new(series.t_ns[0] + 12_345 + by, series.t_ns[series.len() - 1] + by);
        let mut moved = series.clone();
        moved.t_ns.iter_mut().for_each(|t| *t += shift);
        let here = EnergyCurve::from_power(&series, Interpolation::Linear, window(0), NOMINAL_NS).unwrap();
        let there = EnergyCurve::from_power(&moved, Interpolation::Linear, window(shift), NOMINAL_NS).unwrap();
        prop_assert_eq!(here.total_j(), there.total_j());
    }

    #[test]
    fn energy_until_a_time_is_the_energy_of_the_shorter_window(series in samples(), share in 0.01..0.99_f64) {
        let (first, last) = (series.t_ns[0], series.t_ns[series.len() - 1]);
        let until = first + ((last - first) as f64 * share) as i64;
        prop_assume!(until > first);
        for interpolation in [Interpolation::Linear, Interpolation::Hold] {
            let curve = EnergyCurve::from_power(&series, interpolation, Interval::new(first, last), NOMINAL_NS).unwrap();
            let shorter = EnergyCurve::from_power(&series, interpolation, Interval::new(first, until), NOMINAL_NS).unwrap();
            let mut sums = [0.0];
            curve.add_energy_until(&[until], &mut sums);
            prop_assert!((sums[0] - shorter.total_j()).abs() <= 1e-9 * curve.total_j());
        }
    }

    #[test]
    fn a_wrapped_counter_is_recovered(steps in prop::collection::vec(1.0..300.0_f64, 5..60)) {
        let wrap = 1000.0;
        let mut total = 0.0;
        let mut samples = vec![(0.0, 0.0)];
        for (index, step) in steps.iter().enumerate() {
            total += step;
            samples.push(((index + 1) as f64, total % wrap));
        }
        let curve = counter(&samples, seconds(0.0, steps.len() as f64), Some(wrap));
        prop_assert!((curve.total_j() - total).abs() < 1e-6);
    }
}
