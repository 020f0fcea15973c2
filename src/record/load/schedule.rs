//! When requests are due, in nanoseconds after the first. Pure: the same settings give the same times.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// Requests at random times whose gaps are exponential with mean `1 / rate`, a Poisson process; the first
/// is due at once. Endless.
pub(super) fn poisson(rate: f64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut next_ns = 0_u64;
    std::iter::repeat_with(move || {
        let due_ns = next_ns;
        // Inverse transform: 1 - u lies in (0, 1], so the logarithm is finite.
        let gap_s = -(1.0 - random.random::<f64>()).ln() / rate;
        next_ns = next_ns.saturating_add((gap_s * SECOND_NS).round() as u64);
        due_ns
    })
}

/// Requests in even steps, each rounded by itself so that nothing adds up. Endless.
pub(super) fn constant(rate: f64) -> impl Iterator<Item = u64> {
    (0_u64..).map(move |index| (index as f64 * SECOND_NS / rate).round() as u64)
}

/// The times of a trace, `speed_up` times as fast.
pub(super) fn replay(offsets_ns: &[u64], speed_up: f64) -> impl Iterator<Item = u64> {
    offsets_ns.iter().map(move |offset_ns| (*offset_ns as f64 / speed_up).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_steps_do_not_drift() {
        let due: Vec<_> = constant(3.0).take(4).collect();
        assert_eq!(due, [0, 333_333_333, 666_666_667, 1_000_000_000]);
        assert_eq!(constant(3.0).nth(3_000_000), Some(1_000_000_000_000_000));
    }

    #[test]
    fn a_trace_keeps_its_times_and_may_run_faster() {
        let trace = [0, 1_000_000_000, 1_500_000_001];
        assert_eq!(replay(&trace, 1.0).collect::<Vec<_>>(), trace);
        assert_eq!(replay(&trace, 4.0).collect::<Vec<_>>(), [0, 250_000_000, 375_000_000]);
    }

    #[test]
    fn random_times_follow_from_the_seed() {
        let first = |seed| poisson(10.0, seed).take(1_000).collect::<Vec<_>>();
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
        assert_eq!(first(7)[0], 0);
        assert!(first(7).is_sorted());
    }

    /// Exponential gaps of mean 1/rate have mean 100 ms and standard deviation 100 ms at 10 a second; over
    /// n = 100,000 the mean's standard error is 100 / sqrt(n) = 0.316 ms, that of the standard deviation
    /// about 100 x sqrt(2 / n) = 0.447 ms (the kurtosis of an exponential is 9), and the share above the
    /// mean is 1/e with a standard error of sqrt(0.368 x 0.632 / n) = 0.0015. Each within 4 of them.
    #[test]
    fn gaps_of_random_times_are_exponential() {
        let due: Vec<_> = poisson(10.0, 1).take(100_001).collect();
        let gaps_ms: Vec<f64> =
            due.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let count = gaps_ms.len() as f64;
        let mean_ms = gaps_ms.iter().sum::<f64>() / count;
        let variance = gaps_ms.iter().map(|gap_ms| (gap_ms - mean_ms).powi(2)).sum::<f64>() / count;
        let above = gaps_ms.iter().filter(|gap_ms| **gap_ms > 100.0).count() as f64 / count;
        assert!((mean_ms - 100.0).abs() < 4.0 * 0.316, "{mean_ms}");
        assert!((variance.sqrt() - 100.0).abs() < 4.0 * 0.447, "{}", variance.sqrt());
        assert!((above - (-1.0_f64).exp()).abs() < 4.0 * 0.0015, "{above}");
    }
}
