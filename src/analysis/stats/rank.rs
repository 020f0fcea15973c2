//! Whether two measures order the same things alike.

use rayon::prelude::*;
use wattrace_schema::Reason;

use super::bootstrap::percentile_interval;
use super::design::FitFailure;
use super::estimate::two_sided_t_p_value;
use super::random::Stream;

/// Up to this many pairs, the p-value comes from all orders; beyond it, from Student's t.
pub const EXACT_LIMIT: usize = 9;

/// Below this many pairs, agreement of ranks is not reported.
pub const FEWEST_PAIRS: usize = 3;

/// How a p-value of a rank correlation was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PValueMethod {
    /// The share of all orders whose |ρ| is at least as large.
    Exact,
    /// Student's t with `n - 2` degrees of freedom.
    StudentT,
}

impl PValueMethod {
    /// The code in result tables.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::StudentT => "student-t",
        }
    }
}

/// Agreement of two orders.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankAgreement {
    /// Pairs compared.
    pub n: usize,
    /// Spearman's ρ: the correlation of the ranks, ties sharing their average rank.
    pub spearman_rho: f64,
    /// Two-sided p-value of ρ = 0.
    pub p_value: f64,
    /// How the p-value was computed.
    pub p_method: PValueMethod,
    /// Kendall's τ-b, which allows for ties.
    pub kendall_tau_b: f64,
    /// 95% percentile bootstrap interval of ρ over pairs; `None` if no resample has an order.
    pub interval: Option<(f64, f64)>,
    /// Resamples without an order (all values of a side tied), left out of the interval.
    pub undetermined_resamples: usize,
}

/// Compares the orders that `x` and `y` give to the same things, one value each.
///
/// ```
/// use wattrace_analysis::stats::rank_agreement;
///
/// // One swap of neighbours among four: ρ = 1 - 6 · 2 / (4 · 15), τ = (5 - 1) / 6.
/// let agreement = rank_agreement(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0], 1000, 7)?;
/// assert!((agreement.spearman_rho - 0.8).abs() < 1e-12);
/// assert!((agreement.kendall_tau_b - 2.0 / 3.0).abs() < 1e-12);
/// # Ok::<(), wattrace_analysis::stats::FitFailure>(())
/// ```
///
/// # Errors
/// [`Reason::TooFewModels`] below [`FEWEST_PAIRS`], [`Reason::AllTied`] if one side has only one
/// value, [`Reason::InvalidInput`] for values that are not finite and for sides of different
/// lengths.
pub fn rank_agreement(
    x: &[f64],
    y: &[f64],
    resamples: usize,
    seed: u64,
) -> Result<RankAgreement, FitFailure> {
    check_pairs(x, y)?;
    let ranks = CentredRanks::new(x, y);
    let Some(spearman_rho) = ranks.correlation() else {
        let side = if ranks.x_squares == 0 { "first" } else { "second" };
        let message = format!("the {side} measure has the same value for all {} models", x.len());
        return Err(FitFailure::new(Reason::AllTied, message));
    };
    let (p_value, p_method) = if x.len() <= EXACT_LIMIT {
        (ranks.exact_p_value(), PValueMethod::Exact)
    } else {
        (student_t_p_value(spearman_rho, x.len()), PValueMethod::StudentT)
    };
    let mut resampled = bootstrap_correlations(x, y, resamples, seed);
    Ok(RankAgreement {
        n: x.len(),
        spearman_rho,
        p_value,
        p_method,
        kendall_tau_b: kendall_tau_b(x, y),
        undetermined_resamples: resamples - resampled.len(),
        interval: percentile_interval(&mut resampled),
    })
}

/// The rank of every value, from 1 for the smallest; tied values share the average of their ranks.
///
/// ```
/// assert_eq!(wattrace_analysis::stats::average_ranks(&[30.0, 10.0, 30.0]), [2.5, 1.0, 2.5]);
/// ```
#[must_use]
pub fn average_ranks(values: &[f64]) -> Vec<f64> {
    doubled_ranks(values).into_iter().map(|doubled| doubled as f64 / 2.0).collect()
}

/// Twice the average ranks: whole numbers, so that sums of them are exact.
fn doubled_ranks(values: &[f64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    // `==` and not the total order decides ties: -0 and 0 are one value.
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let (first, last) = (start + 1, start + tied.len());
        for &index in tied {
            ranks[index] = (first + last) as i64;
        }
        start = last;
    }
    ranks
}

/// Doubled ranks less their mean: whole numbers that sum to zero.
struct CentredRanks {
    x: Vec<i64>,
    y: Vec<i64>,
    x_squares: i64,
    y_squares: i64,
}

impl CentredRanks {
    fn new(x: &[f64], y: &[f64]) -> Self {
        // Ranks average (n + 1) / 2, with or without ties.
        let mean = x.len() as i64 + 1;
        let centred = |values| doubled_ranks(values).iter().map(|r| r - mean).collect::<Vec<_>>();
        let (x, y) = (centred(x), centred(y));
        let squares = |ranks: &[i64]| ranks.iter().map(|r| r * r).sum();
        let (x_squares, y_squares) = (squares(&x), squares(&y));
        Self { x, y, x_squares, y_squares }
    }

    fn products(&self) -> i64 {
        self.x.iter().zip(&self.y).map(|(x, y)| x * y).sum()
    }

    /// Spearman's ρ; `None` if a side has no order.
    fn correlation(&self) -> Option<f64> {
        if self.x_squares == 0 || self.y_squares == 0 {
            return None;
        }
        // One root of the product: equal orders then give exactly 1.
        let scale = (self.x_squares as f64 * self.y_squares as f64).sqrt();
        Some((self.products() as f64 / scale).clamp(-1.0, 1.0))
    }

    /// The share of all n! assignments of the y ranks to the x ranks with |ρ| at least as large.
    /// ρ is the sum of products over a constant, so whole sums are compared and nothing is rounded.
    fn exact_p_value(&self) -> f64 {
        let mut y = self.y.clone();
        let threshold = self.products().abs();
        let extreme = count_extreme_orders(&self.x, &mut y, 0, threshold);
        let orders: u64 = (1..=self.x.len() as u64).product();
        extreme as f64 / orders as f64
    }
}

/// Counts the orders of `y` for which |sum + Σ x·y| reaches `threshold`.
fn count_extreme_orders(x: &[i64], y: &mut [i64], sum: i64, threshold: i64) -> u64 {
    let Some((&first, rest)) = x.split_first() else {
        return u64::from(sum.abs() >= threshold);
    };
    let mut count = 0;
    for choice in 0..y.len() {
        y.swap(0, choice);
        let with_choice = sum + first * y[0];
        count += count_extreme_orders(rest, &mut y[1..], with_choice, threshold);
        y.swap(0, choice);
    }
    count
}

/// `t = ρ sqrt((n - 2) / (1 - ρ²))`.
fn student_t_p_value(rho: f64, n: usize) -> f64 {
    let df = n - 2;
    let unexplained = (1.0 - rho) * (1.0 + rho);
    if unexplained == 0.0 {
        return 0.0;
    }
    two_sided_t_p_value(rho * (df as f64 / unexplained).sqrt(), df)
}

/// `(concordant - discordant) / sqrt((pairs - ties in x) (pairs - ties in y))`. Both sides have an
/// order, so neither factor is zero.
fn kendall_tau_b(x: &[f64], y: &[f64]) -> f64 {
    let (mut balance, mut x_ordered, mut y_ordered) = (0i64, 0u64, 0u64);
    for i in 0..x.len() {
        for j in 0..i {
            let (x_order, y_order) = (order(x[i], x[j]), order(y[i], y[j]));
            balance += x_order * y_order;
            x_ordered += x_order.unsigned_abs();
            y_ordered += y_order.unsigned_abs();
        }
    }
    balance as f64 / (x_ordered as f64 * y_ordered as f64).sqrt()
}

/// 1, 0 or -1 as `a` is above, equal to or below `b`.
fn order(a: f64, b: f64) -> i64 {
    i64::from(a > b) - i64::from(a < b)
}

/// ρ of every resample of pairs that has an order, by index of resample.
fn bootstrap_correlations(x: &[f64], y: &[f64], resamples: usize, seed: u64) -> Vec<f64> {
    let resample = |index: usize| {
        let mut stream = Stream::new(seed, index as u64);
        let drawn: Vec<usize> = (0..x.len()).map(|_| stream.below(x.len())).collect();
        let pick = |values: &[f64]| drawn.iter().map(|&pair| values[pair]).collect::<Vec<_>>();
        CentredRanks::new(&pick(x), &pick(y)).correlation()
    };
    let found: Vec<Option<f64>> = (0..resamples).into_par_iter().map(resample).collect();
    found.into_iter().flatten().collect()
}

fn check_pairs(x: &[f64], y: &[f64]) -> Result<(), FitFailure> {
    let refuse = |reason, message| Err(FitFailure::new(reason, message));
    if x.len() != y.len() {
        let message = format!("{} values cannot be paired with {}", x.len(), y.len());
        return refuse(Reason::InvalidInput, message);
    }
    if let Some(value) = x.iter().chain(y).find(|value| !value.is_finite()) {
        return refuse(Reason::InvalidInput, format!("a value to rank is {value}"));
    }
    if x.len() < FEWEST_PAIRS {
        let message = format!("{} models give no order; {FEWEST_PAIRS} are needed", x.len());
        return refuse(Reason::TooFewModels, message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Case {
        x: &'static [f64],
        y: &'static [f64],
        rho: f64,
        p: f64,
        tau: f64,
    }

    /// Printed by `tests/peer/rank_agreement.py` with scipy 1.17.1.
    const CASES: [Case; 12] = [
        Case { x: &[1.0, 2.0, 3.0], y: &[10.0, 20.0, 30.0], rho: 1.0, p: 1.0 / 3.0, tau: 1.0 },
        Case { x: &[1.0, 2.0, 3.0], y: &[3.0, 2.0, 1.0], rho: -1.0, p: 1.0 / 3.0, tau: -1.0 },
        Case {
            x: &[1.0, 2.0, 3.0, 4.0],
            y: &[1.0, 3.0, 2.0, 4.0],
            rho: 0.7999999999999999,
            p: 0.3333333333333333,
            tau: 0.6666666666666669,
        },
        Case {
            x: &[1.0, 2.0, 2.0, 4.0, 5.0],
            y: &[2.0, 1.0, 3.0, 5.0, 4.0],
            rho: 0.7181848464596079,
            p: 0.16666666666666666,
            tau: 0.5270462766947299,
        },
        Case {
            x: &[1.0, 1.0, 2.0, 3.0, 3.0, 4.0],
            y: &[2.0, 1.0, 2.0, 4.0, 3.0, 4.0],
            rho: 0.909090909090909,
            p: 0.027777777777777776,
            tau: 0.8461538461538463,
        },
        Case {
            x: &[0.41, 0.52, 0.38, 0.97, 1.44, 0.71, 2.2],
            y: &[0.5, 0.61, 0.66, 1.2, 1.1, 0.8, 3.0],
            rho: 0.8571428571428573,
            p: 0.023809523809523808,
            tau: 0.7142857142857143,
        },
        Case {
            x: &[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0],
            y: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
            rho: 0.8728715609439696,
            p: 0.02857142857142857,
            tau: 0.7559289460184544,
        },
        Case {
            x: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            y: &[2.0, 1.0, 3.0, 5.0, 4.0, 6.0, 7.0, 9.0, 8.0],
            rho: 0.9500000000000001,
            p: 0.0003527336860670194,
            tau: 0.8333333333333334,
        },
        Case {
            x: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            y: &[5.0, 1.0, 9.0, 4.0, 2.0, 8.0, 3.0, 7.0, 6.0],
            rho: 0.2333333333333333,
            p: 0.5517085537918871,
            tau: 0.1111111111111111,
        },
        Case {
            x: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
            y: &[3.0, 1.0, 4.0, 2.0, 6.0, 5.0, 9.0, 7.0, 10.0, 8.0],
            rho: 0.8666666666666665,
            p: 0.0011735381801554685,
            tau: 0.6888888888888888,
        },
        Case {
            x: &[1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0, 5.0, 6.0, 7.0, 8.0, 8.0],
            y: &[3.0, 1.0, 2.0, 2.0, 5.0, 4.0, 6.0, 6.0, 4.0, 9.0, 7.0, 8.0],
            rho: 0.8579162651571548,
            p: 0.0003574834583029658,
            tau: 0.6775074858941581,
        },
        Case {
            x: &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14.],
            y: &[4., 9., 1., 12., 0., 7., 14., 3., 10., 5., 13., 2., 8., 11., 6.],
            rho: 0.1857142857142857,
            p: 0.5075409629336736,
            tau: 0.12380952380952381,
        },
    ];

    #[test]
    fn agreement_matches_scipy_and_plain_enumeration() {
        for case in &CASES {
            let found = rank_agreement(case.x, case.y, 0, 0).unwrap();
            let expected_method =
                if case.x.len() <= 9 { PValueMethod::Exact } else { PValueMethod::StudentT };
            assert_eq!(found.p_method, expected_method);
            // Both sides compute in f64; scipy's rounding is below 1e-14, its t tail below 1e-12.
            assert!((found.spearman_rho - case.rho).abs() < 1e-14, "{found:?}");
            assert!((found.kendall_tau_b - case.tau).abs() < 1e-14, "{found:?}");
            assert!((found.p_value - case.p).abs() < 1e-12 * case.p, "{found:?}");
        }
    }

    #[test]
    fn equal_orders_beyond_the_exact_limit_have_zero_p_value() {
        let x: Vec<f64> = (0..13).map(f64::from).collect();
        let found = rank_agreement(&x, &x, 100, 1).unwrap();
        assert_eq!((found.spearman_rho, found.p_value), (1.0, 0.0));
        assert_eq!(found.interval, Some((1.0, 1.0)));
    }

    #[test]
    fn what_has_no_order_is_refused() {
        let refuse = |x: &[f64], y: &[f64]| rank_agreement(x, y, 10, 0).unwrap_err();
        let few = refuse(&[1.0, 2.0], &[1.0, 2.0]);
        assert_eq!(few.reason, Reason::TooFewModels);
        insta::assert_snapshot!(few, @"2 models give no order; 3 are needed");
        let tied = refuse(&[1.0, 2.0, 3.0], &[4.0; 3]);
        assert_eq!(tied.reason, Reason::AllTied);
        insta::assert_snapshot!(tied, @"the second measure has the same value for all 3 models");
        let infinite = refuse(&[1.0, f64::NAN, 3.0], &[4.0; 3]);
        assert_eq!(infinite.reason, Reason::InvalidInput);
        insta::assert_snapshot!(infinite, @"a value to rank is NaN");
        insta::assert_snapshot!(refuse(&[1.0], &[]), @"1 values cannot be paired with 0");
    }

    #[test]
    fn the_bootstrap_interval_is_seeded_and_counts_draws_without_order() {
        // Three pairs: a draw of one pair three times, 3 of 27 draws, has no order.
        let draw = |seed| rank_agreement(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0], 2700, seed).unwrap();
        assert_eq!(draw(4), draw(4));
        assert_ne!(draw(4).undetermined_resamples, draw(5).undetermined_resamples);
        // Expected 300 ± 16.
        assert!((draw(4).undetermined_resamples as i32 - 300).abs() < 80);
        assert_eq!(draw(4).interval, Some((-1.0, 1.0)));
    }

    fn three_to_eight_pairs() -> impl Strategy<Value = Vec<(i32, i32)>> {
        prop::collection::vec((-4..4, -4..4), 3..8)
    }

    proptest! {
        #[test]
        fn agreement_depends_only_on_order(pairs in three_to_eight_pairs()) {
            let x: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.0)).collect();
            let y: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
            let stretched: Vec<f64> = x.iter().map(|x| x.exp() + 3.0).collect();
            prop_assert_eq!(rank_agreement(&x, &y, 50, 1), rank_agreement(&stretched, &y, 50, 1));
        }

        #[test]
        fn reversing_one_side_changes_the_sign_and_not_the_p_value(pairs in three_to_eight_pairs()) {
            let x: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.0)).collect();
            let y: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
            let reversed: Vec<f64> = y.iter().map(|y| -y).collect();
            if let Ok(found) = rank_agreement(&x, &y, 0, 1) {
                let mirrored = rank_agreement(&x, &reversed, 0, 1).unwrap();
                prop_assert_eq!(found.spearman_rho, -mirrored.spearman_rho);
                prop_assert_eq!(found.kendall_tau_b, -mirrored.kendall_tau_b);
                prop_assert_eq!(found.p_value, mirrored.p_value);
                prop_assert!(found.p_value > 0.0 && found.p_value <= 1.0);
            }
        }
    }
}
