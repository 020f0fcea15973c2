//! Means, spreads and percentiles of a sample.
//!
//! What a sample cannot give is `None`: the spread of one value, the mean of nothing, the mean of
//! values of which one is infinite.

/// Sums are kept in this many parts, added up at the end: one after the other would wait for each
/// addition, and would round worse.
const LANES: usize = 8;

/// The sum of `term` over `values`: always the same for the same values in the same order.
fn sum_of(values: &[f64], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest: f64 = chunks.remainder().iter().map(|value| term(*value)).sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += term(*value);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// Mean and spread of a sample.
///
/// ```
/// use wattrace_analysis::stats::Moments;
///
/// // Mean 5, squared deviations 9 + 1 + 1 + 9 = 20.
/// let moments = Moments::of(&[2.0, 4.0, 6.0, 8.0]).unwrap();
/// assert_eq!(moments.mean, 5.0);
/// assert_eq!(moments.sample_std(), Some((20.0f64 / 3.0).sqrt()));
/// assert_eq!(moments.population_std(), 5.0f64.sqrt());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: usize,
    /// The arithmetic mean.
    pub mean: f64,
    squared_deviations: f64,
}

impl Moments {
    /// The moments of a sample; `None` for an empty one, or one with a value that is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = mean(values)?;
        let squared_deviations = sum_of(values, |value| (value - mean) * (value - mean));
        let moments = Self { count: values.len(), mean, squared_deviations };
        squared_deviations.is_finite().then_some(moments)
    }

    /// The sample standard deviation, with divisor `n - 1`; `None` below two values.
    #[must_use]
    pub fn sample_std(&self) -> Option<f64> {
        (self.count >= 2).then(|| (self.squared_deviations / (self.count - 1) as f64).sqrt())
    }

    /// The population standard deviation, with divisor `n`.
    #[must_use]
    pub fn population_std(&self) -> f64 {
        (self.squared_deviations / self.count as f64).sqrt()
    }
}

/// The arithmetic mean; `None` for an empty sample or one with a value that is not finite.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mean = sum_of(values, |value| value) / values.len() as f64;
    mean.is_finite().then_some(mean)
}

/// The sample standard deviation, with divisor `n - 1`; `None` below two values or with a value
/// that is not finite.
#[must_use]
pub fn sample_std(values: &[f64]) -> Option<f64> {
    Moments::of(values)?.sample_std()
}

/// The population standard deviation, with divisor `n`; `None` for an empty sample or one with a
/// value that is not finite.
#[must_use]
pub fn population_std(values: &[f64]) -> Option<f64> {
    Moments::of(values).map(|moments| moments.population_std())
}

/// The median of a sample, which is reordered; `None` for an empty one. See [`percentiles`].
pub fn median(values: &mut [f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// One percentile of a sample, which is reordered; `None` for an empty one. See [`percentiles`].
pub fn percentile(values: &mut [f64], quantile: f64) -> Option<f64> {
    percentiles(values, &[quantile]).map(|found| found[0])
}

/// Several percentiles of one sample, in the order of `quantiles` (each from 0 to 1).
///
/// A percentile is read off at position `(n - 1) · q` of the sorted values and interpolates
/// linearly between its neighbours. Values may be `+∞` (a request that never ended): a percentile
/// whose upper neighbour is infinite is infinite, unless its position falls exactly on the lower
/// one. The values are reordered by selection, not sorted: the cost is that of a few passes.
/// `None` for an empty sample.
///
/// ```
/// use wattrace_analysis::stats::percentiles;
///
/// let mut values = [40.0, 10.0, 30.0, 20.0];
/// // Positions 1.5 and 2.7 of 10, 20, 30, 40.
/// assert_eq!(percentiles(&mut values, &[0.5, 0.9]), Some(vec![25.0, 37.0]));
/// ```
///
/// # Panics
/// If a quantile lies outside 0 to 1.
pub fn percentiles(values: &mut [f64], quantiles: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() {
        return None;
    }
    let positions: Vec<Position> =
        quantiles.iter().map(|&quantile| Position::new(values.len(), quantile)).collect();
    let mut wanted: Vec<usize> =
        positions.iter().flat_map(|position| [position.lower, position.upper()]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    place_order_statistics(values, &wanted);
    Some(positions.iter().map(|position| position.read(values)).collect())
}

/// A place between two order statistics.
struct Position {
    lower: usize,
    /// Share of the way from `lower` to the next, below 1.
    fraction: f64,
}

impl Position {
    fn new(count: usize, quantile: f64) -> Self {
        assert!((0.0..=1.0).contains(&quantile), "quantile {quantile} lies outside 0 to 1");
        let position = (count - 1) as f64 * quantile;
        // 100 · 0.07 is 7.000000000000001 in binary, but the seventh value is meant.
        let nearest = position.round();
        if (position - nearest).abs() <= 4.0 * f64::EPSILON * nearest {
            return Self { lower: nearest as usize, fraction: 0.0 };
        }
        Self { lower: position.floor() as usize, fraction: position.fract() }
    }

    /// Index of the upper neighbour; the lower one again where the position is exact.
    fn upper(&self) -> usize {
        if self.fraction > 0.0 { self.lower + 1 } else { self.lower }
    }

    fn read(&self, ordered: &[f64]) -> f64 {
        let (lower, upper) = (ordered[self.lower], ordered[self.upper()]);
        if self.fraction == 0.0 || lower == upper {
            return lower;
        }
        // Rounding must not carry the value past its neighbour.
        (lower + self.fraction * (upper - lower)).min(upper)
    }
}

/// Reorders `values` so that each index of `wanted` (ascending) holds what it would after sorting.
fn place_order_statistics(values: &mut [f64], wanted: &[usize]) {
    let mut settled = 0;
    for &index in wanted {
        // All values left of `settled` are no larger than the rest, so only the rest is searched.
        values[settled..].select_nth_unstable_by(index - settled, f64::total_cmp);
        settled = index + 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INFINITE: f64 = f64::INFINITY;

    #[test]
    fn what_a_sample_cannot_give_is_absent() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, INFINITE]), None);
        assert_eq!(sample_std(&[3.0]), None);
        assert_eq!(sample_std(&[3.0, INFINITE]), None);
        assert_eq!(population_std(&[3.0]), Some(0.0));
        assert_eq!(population_std(&[]), None);
        assert_eq!(median(&mut []), None);
        assert_eq!(percentiles(&mut [], &[0.5]), None);
    }

    #[test]
    fn the_spread_survives_a_large_offset() {
        // Deviations -1, 0, 1 around 1e15: sample variance 1. Sums of squares would lose it.
        assert_eq!(sample_std(&[1e15 - 1.0, 1e15, 1e15 + 1.0]), Some(1.0));
    }

    #[test]
    fn percentiles_interpolate_between_neighbours() {
        // Sorted 1, 2, 4, 8, 16. Positions 0, 1, 2, 3.6, 3.96, 4.
        let mut values = [8.0, 1.0, 16.0, 4.0, 2.0];
        let found = percentiles(&mut values, &[0.0, 0.25, 0.5, 0.9, 0.99, 1.0]).unwrap();
        let expected = [1.0, 2.0, 4.0, 8.0 + 0.6 * 8.0, 8.0 + 0.96 * 8.0, 16.0];
        for (computed, expected) in found.iter().zip(expected) {
            assert!((computed - expected).abs() < 1e-12, "{computed} against {expected}");
        }
        assert_eq!(median(&mut [7.0]), Some(7.0));
    }

    #[test]
    fn an_infinite_upper_neighbour_makes_the_percentile_infinite() {
        // 101 values, the last infinite: p99 falls on index 99 exactly, p99.5 on 99.5.
        let mut values: Vec<f64> = (0..100).map(f64::from).chain([INFINITE]).collect();
        let found = percentiles(&mut values, &[0.99, 0.995, 1.0]).unwrap();
        assert_eq!(found, [99.0, INFINITE, INFINITE]);
        // All infinite: no NaN from ∞ - ∞.
        assert_eq!(percentile(&mut [INFINITE; 4], 0.4), Some(INFINITE));
    }

    #[test]
    fn a_position_that_is_whole_in_decimals_is_exact() {
        // (n - 1) q is 7, 14 and 28, but comes out of binary multiplication a little above.
        for (count, quantile, index) in [(101, 0.07, 7), (101, 0.14, 14), (101, 0.28, 28)] {
            assert_ne!(f64::from(count - 1) * quantile, f64::from(index));
            let mut values: Vec<f64> =
                (0..count).map(|i| if i <= index { f64::from(i) } else { INFINITE }).collect();
            assert_eq!(percentile(&mut values, quantile), Some(f64::from(index)));
        }
    }

    proptest! {
        #[test]
        fn selection_agrees_with_sorting(
            values in prop::collection::vec(-50i32..50, 1..80),
            quantiles in prop::collection::vec(0.0..=1.0, 1..6),
        ) {
            let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let expected: Vec<f64> = quantiles
                .iter()
                .map(|&quantile| Position::new(sorted.len(), quantile).read(&sorted))
                .collect();
            prop_assert_eq!(percentiles(&mut values, &quantiles).unwrap(), expected);
        }

        #[test]
        fn a_percentile_lies_between_minimum_and_maximum(
            mut values in prop::collection::vec(-1e6..1e6, 1..60),
            quantile in 0.0..=1.0,
        ) {
            let low = values.iter().copied().fold(INFINITE, f64::min);
            let high = values.iter().copied().fold(-INFINITE, f64::max);
            let found = percentile(&mut values, quantile).unwrap();
            prop_assert!(found >= low && found <= high);
        }
    }
}
