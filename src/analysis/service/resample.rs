//! Bootstrap intervals from a handful of runs, or from the items of a suite.

use rayon::prelude::*;

use crate::stats::CONFIDENCE_LEVEL;
use crate::stats::random::Stream;

/// Resamples of every interval.
pub const RESAMPLES: usize = 10_000;

/// The central 95% of what `statistic` makes of each resample; each has a random stream of its own, so
/// that equal seeds give equal numbers on any count of threads.
///
/// The ends are order statistics, rounded outwards: a resample may be infinite (a latency without
/// bound, a sweep in which no rate is good), and there is nothing between that and a number.
pub(super) fn interval(seed: u64, statistic: impl Fn(&mut Stream) -> f64 + Sync) -> (f64, f64) {
    let mut values: Vec<f64> = (0..RESAMPLES)
        .into_par_iter()
        .map(|resample| statistic(&mut Stream::new(seed, resample as u64)))
        .collect();
    values.sort_by(f64::total_cmp);
    let tail = (RESAMPLES - 1) as f64 * (1.0 - CONFIDENCE_LEVEL) / 2.0;
    let outer = tail.floor() as usize;
    (values[outer], values[RESAMPLES - 1 - outer])
}

/// As many values as there are, drawn with replacement into `drawn`.
pub(super) fn draw(values: &[f64], stream: &mut Stream, drawn: &mut Vec<f64>) {
    drawn.clear();
    drawn.extend((0..values.len()).map(|_| values[stream.below(values.len())]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{mean, median};

    #[test]
    fn the_interval_of_a_mean_is_about_two_standard_errors_wide() {
        // 100 values 0 to 99: population variance (100² - 1) / 12 = 833.25, standard error of the mean
        // √(833.25 / 100) = 2.887, so 49.5 ± 1.96 · 2.887 = 43.84 to 55.16; the ends of 10,000
        // resamples scatter by about 0.1.
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let (low, high) = interval(7, |stream| {
            let mut drawn = Vec::new();
            draw(&values, stream, &mut drawn);
            mean(&drawn).unwrap()
        });
        assert!((low - 43.84).abs() < 0.4 && (high - 55.16).abs() < 0.4, "{low} to {high}");
    }

    #[test]
    fn the_interval_of_a_median_of_five_is_as_counted() {
        // A median of five draws of five is the smallest value when three or more draws hit it:
        // Σ C(5,k) 0.2^k 0.8^(5-k) for k ≥ 3 = 0.0512 + 0.0064 + 0.00032 = 5.8% > 2.5%. So the interval
        // runs from the smallest to the largest value.
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        let ends = interval(1, |stream| {
            let mut drawn = Vec::new();
            draw(&values, stream, &mut drawn);
            median(&mut drawn).unwrap()
        });
        assert_eq!(ends, (1.0, 5.0));
    }

    #[test]
    fn equal_seeds_give_equal_intervals_on_any_count_of_threads() {
        let on = |threads: usize, seed| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| interval(seed, |stream| stream.below(1_000_000) as f64))
        };
        assert_eq!(on(1, 3), on(4, 3));
        assert_ne!(on(1, 3), on(1, 4));
    }
}
