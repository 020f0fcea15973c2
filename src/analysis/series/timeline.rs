//! Power over time in bins few enough to draw.

use wattrace_schema::{Interpolation, Interval, NANOS_PER_SECOND, Reason, Series};

use super::devices::DeviceSet;

/// Power of a set of devices, all together, within a short time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerBin {
    /// The time.
    pub interval: Interval,
    /// Time-weighted mean, W.
    pub mean_w: f64,
    /// Lowest power, W.
    pub min_w: f64,
    /// Highest power, W.
    pub max_w: f64,
    /// Samples of all devices; none means that the values are interpolated.
    pub samples: u64,
}

/// Power of all devices of `set` together over the time in which all were sampled, in at most `most`
/// bins of equal length, and no more than a device has intervals between samples. Between samples
/// power runs as the source says: along a straight line, or level.
///
/// # Errors
/// [`Reason::NoPowerSamples`] if a device has none, [`Reason::NotCovered`] if the devices have no time
/// in common.
pub fn power_bins(set: &DeviceSet<'_>, most: usize) -> Result<Vec<PowerBin>, Reason> {
    let span = common_span(set)?;
    let inside = |series: &Series| {
        let first = series.t_ns.partition_point(|t| *t < span.start_ns);
        let past = series.t_ns.partition_point(|t| *t <= span.end_ns);
        first..past
    };
    let intervals = set.devices.iter().map(|(device, _)| inside(&device.power_w).len());
    let intervals = intervals.max().unwrap_or(0).saturating_sub(1);
    let edges = edges(span, intervals.clamp(1, most.max(1)));

    let mut knots = edges.clone();
    for (device, _) in &set.devices {
        knots.extend_from_slice(&device.power_w.t_ns[inside(&device.power_w)]);
    }
    knots.sort_unstable();
    knots.dedup();
    let mut before = vec![0.0; knots.len()];
    let mut from = vec![0.0; knots.len()];
    for (device, source) in &set.devices {
        add_power(&device.power_w, source.interpolation, &knots, &mut before, &mut from);
    }
    let count = |interval: Interval| -> u64 {
        // The last bin has its end, which no other bin begins with.
        let is_last = interval.end_ns == span.end_ns;
        let of = |series: &Series| {
            let first = series.t_ns.partition_point(|t| *t < interval.start_ns);
            let past = series
                .t_ns
                .partition_point(|t| *t < interval.end_ns || (is_last && *t == interval.end_ns));
            past - first
        };
        set.devices.iter().map(|(device, _)| of(&device.power_w) as u64).sum()
    };
    Ok(edges
        .windows(2)
        .map(|edge| {
            let interval = Interval::new(edge[0], edge[1]);
            let first = knots.partition_point(|t| *t < interval.start_ns);
            let last = knots.partition_point(|t| *t < interval.end_ns);
            bin(
                interval,
                &knots[first..=last],
                &from[first..last],
                &before[first + 1..=last],
                count(interval),
            )
        })
        .collect())
}

/// A bin from its knots, the power from each on (the last excepted), and that up to each (the first
/// excepted).
fn bin(interval: Interval, knots: &[i64], from: &[f64], before: &[f64], samples: u64) -> PowerBin {
    let energy_j: f64 = knots
        .windows(2)
        .zip(from.iter().zip(before))
        .map(|(knot, (start_w, end_w))| {
            let seconds = knot[1].abs_diff(knot[0]) as f64 / NANOS_PER_SECOND;
            (start_w + end_w) / 2.0 * seconds
        })
        .sum();
    let values = || from.iter().chain(before).copied();
    PowerBin {
        interval,
        mean_w: energy_j / interval.duration_s(),
        min_w: values().fold(f64::INFINITY, f64::min),
        max_w: values().fold(f64::NEG_INFINITY, f64::max),
        samples,
    }
}

/// The time in which every device was sampled.
fn common_span(set: &DeviceSet<'_>) -> Result<Interval, Reason> {
    let mut span = Interval::new(i64::MIN, i64::MAX);
    for (device, _) in &set.devices {
        let t_ns = &device.power_w.t_ns;
        let (Some(first), Some(last)) = (t_ns.first(), t_ns.last()) else {
            return Err(Reason::NoPowerSamples);
        };
        span = Interval::new(span.start_ns.max(*first), span.end_ns.min(*last));
    }
    if span.start_ns < span.end_ns && !set.devices.is_empty() {
        Ok(span)
    } else {
        Err(Reason::NotCovered)
    }
}

/// `bins` + 1 times that cut `span` into parts as equal as whole nanoseconds allow.
fn edges(span: Interval, bins: usize) -> Vec<i64> {
    let length = i128::from(span.end_ns) - i128::from(span.start_ns);
    // More bins than nanoseconds would have no length.
    let bins = i128::try_from(bins).unwrap_or(1).min(length);
    (0..=bins)
        .map(|index| {
            let t_ns = i128::from(span.start_ns) + length * index / bins;
            // Between two times of 64 bits.
            t_ns as i64
        })
        .collect()
}

/// Adds a device's power just before each of `knots` and from it on. They are sorted and lie within
/// the samples; the samples among them are all there.
fn add_power(
    series: &Series,
    interpolation: Interpolation,
    knots: &[i64],
    before: &mut [f64],
    from: &mut [f64],
) {
    let mut next = 0;
    for (index, knot) in knots.iter().enumerate() {
        while next < series.len() && series.t_ns[next] < *knot {
            next += 1;
        }
        // The span ends no later than the samples of any device, so that `next` is one of them.
        let sample = series.value[next];
        let earlier = next.checked_sub(1);
        let between = earlier.map_or(sample, |earlier| match interpolation {
            Interpolation::Hold => series.value[earlier],
            Interpolation::Linear => {
                let passed = knot.abs_diff(series.t_ns[earlier]) as f64;
                let whole = series.t_ns[next].abs_diff(series.t_ns[earlier]) as f64;
                series.value[earlier] + (sample - series.value[earlier]) * (passed / whole)
            }
        });
        before[index] += between;
        from[index] += if series.t_ns[next] == *knot { sample } else { between };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wattrace_schema::{DevicePower, EnergyMethod, FlagSet, PowerSource};

    use super::super::window_energy;
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn source(interpolation: &str) -> PowerSource {
        serde_json::from_str(&format!(
            r#"{{"id": "meter", "scope": "gpu-board", "reading": "instant", "nominal_interval_ms": 1000.0,
                "interpolation": "{interpolation}"}}"#
        ))
        .unwrap()
    }

    fn device(samples: &[(i64, f64)]) -> DevicePower {
        let power_w = Series {
            t_ns: samples.iter().map(|sample| sample.0).collect(),
            value: samples.iter().map(|sample| sample.1).collect(),
        };
        DevicePower { power_w, ..DevicePower::default() }
    }

    fn bins_of(
        devices: &[DevicePower],
        source: &PowerSource,
        most: usize,
    ) -> Result<Vec<PowerBin>, Reason> {
        let devices = devices.iter().map(|device| (device, source)).collect();
        power_bins(&DeviceSet { devices, flags: FlagSet::EMPTY }, most)
    }

    #[test]
    fn two_devices_add_up_in_each_bin() {
        // Device a rises from 100 W to 300 W over 4 s; b is at 50 W from 0 s to 6 s. Both are there over
        // [0, 4]: halves of 2 s. First: 100 to 200 W, mean 150, plus 50; second: mean 250, plus 50.
        let a = device(&[(0, 100.0), (2 * SECOND, 200.0), (4 * SECOND, 300.0)]);
        let b = device(&[(0, 50.0), (3 * SECOND, 50.0), (6 * SECOND, 50.0)]);
        let bins = bins_of(&[a, b], &source("linear"), 2).unwrap();
        let interval = |start, end| Interval::new(start * SECOND, end * SECOND);
        assert_eq!(
            bins,
            [
                // Samples: a at 0; b at 0.
                PowerBin {
                    interval: interval(0, 2),
                    mean_w: 200.0,
                    min_w: 150.0,
                    max_w: 250.0,
                    samples: 2
                },
                // a at 2 and 4; b at 3.
                PowerBin {
                    interval: interval(2, 4),
                    mean_w: 300.0,
                    min_w: 250.0,
                    max_w: 350.0,
                    samples: 3
                },
            ]
        );
    }

    #[test]
    fn held_power_is_level_up_to_the_next_sample() {
        // 100 W for 3 s, then 400 W for 1 s; bins of 2 s: 100, and (100 + 400)/2 = 250.
        let steps = device(&[(0, 100.0), (3 * SECOND, 400.0), (4 * SECOND, 0.0)]);
        let bins = bins_of(&[steps], &source("hold"), 2).unwrap();
        let values: Vec<_> = bins.iter().map(|bin| (bin.mean_w, bin.min_w, bin.max_w)).collect();
        assert_eq!(values, [(100.0, 100.0, 100.0), (250.0, 100.0, 400.0)]);
    }

    #[test]
    fn a_bin_is_never_shorter_than_the_sampling() {
        let bins = bins_of(&[device(&[(0, 1.0), (SECOND, 3.0)])], &source("linear"), 600).unwrap();
        assert_eq!(bins.len(), 1);
        assert_eq!(bins[0].mean_w, 2.0);
    }

    #[test]
    fn without_common_samples_there_is_a_reason() {
        let linear = source("linear");
        assert_eq!(bins_of(&[device(&[])], &linear, 10), Err(Reason::NoPowerSamples));
        let early = device(&[(0, 1.0), (1, 1.0)]);
        let late = device(&[(5, 1.0), (6, 1.0)]);
        assert_eq!(bins_of(&[early, late], &linear, 10), Err(Reason::NotCovered));
        assert_eq!(bins_of(&[device(&[(0, 1.0)])], &linear, 10), Err(Reason::NotCovered));
    }

    proptest! {
        #[test]
        fn the_bins_hold_the_energy_of_the_whole(
            steps in prop::collection::vec((1_i64..3_000_000_000, 0.0_f64..1000.0), 2..60),
            offset in 0_i64..1_000_000_000,
            most in 1_usize..50,
            hold in any::<bool>(),
        ) {
            let mut t_ns = 1_700_000_000_000_000_000;
            let samples: Vec<(i64, f64)> = steps.iter().map(|(step, power_w)| { t_ns += step; (t_ns, *power_w) }).collect();
            let shifted: Vec<(i64, f64)> = samples.iter().map(|(t_ns, power_w)| (t_ns + offset, 2.0 * power_w)).collect();
            prop_assume!(shifted[0].0 < samples[samples.len() - 1].0);
            let devices = [device(&samples), device(&shifted)];
            let source = source(if hold { "hold" } else { "linear" });
            let bins = bins_of(&devices, &source, most).unwrap();
            let set = DeviceSet { devices: devices.iter().map(|device| (device, &source)).collect(), flags: FlagSet::EMPTY };
            let span = Interval::new(shifted[0].0, samples[samples.len() - 1].0);
            let whole_j = window_energy(&set, span, EnergyMethod::Trapezoid).unwrap().total_j();
            let binned_j: f64 = bins.iter().map(|bin| bin.mean_w * bin.interval.duration_s()).sum();
            prop_assert!((whole_j - binned_j).abs() <= 1e-9 * whole_j.max(1.0), "{whole_j} {binned_j}");
            for bin in &bins {
                prop_assert!(bin.min_w <= bin.mean_w * (1.0 + 1e-9) && bin.mean_w <= bin.max_w * (1.0 + 1e-9));
            }
        }
    }
}
