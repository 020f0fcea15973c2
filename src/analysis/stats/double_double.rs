//! Sums and products that keep about 32 digits.
//!
//! A number is the unevaluated sum of two `f64`. The error-free transformations are those of
//! Knuth (sum) and of the fused multiply-add (product); see Ogita, Rump and Oishi, "Accurate sum
//! and dot product", SIAM J. Sci. Comput. 26 (2005).

use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

/// `hi + lo`, where `lo` is below the rounding of `hi`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct DoubleDouble {
    pub(super) hi: f64,
    pub(super) lo: f64,
}

impl DoubleDouble {
    pub(super) const ZERO: Self = Self { hi: 0.0, lo: 0.0 };

    /// The exact difference of two numbers.
    pub(super) fn difference(a: f64, b: f64) -> Self {
        Self::exact_sum(a, -b)
    }

    /// The quotient by a power of two, which is exact.
    pub(super) fn divided_by_power_of_two(self, power: f64) -> Self {
        Self { hi: self.hi / power, lo: self.lo / power }
    }

    fn exact_sum(a: f64, b: f64) -> Self {
        let hi = a + b;
        let b_part = hi - a;
        Self { hi, lo: (a - (hi - b_part)) + (b - b_part) }
    }

    /// As `exact_sum`, for `|a| >= |b|`.
    fn exact_sum_ordered(a: f64, b: f64) -> Self {
        let hi = a + b;
        Self { hi, lo: b - (hi - a) }
    }
}

impl From<f64> for DoubleDouble {
    fn from(value: f64) -> Self {
        Self { hi: value, lo: 0.0 }
    }
}

impl Add for DoubleDouble {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let high = Self::exact_sum(self.hi, other.hi);
        let low = Self::exact_sum(self.lo, other.lo);
        let sum = Self::exact_sum_ordered(high.hi, high.lo + low.hi);
        Self::exact_sum_ordered(sum.hi, sum.lo + low.lo)
    }
}

impl AddAssign for DoubleDouble {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for DoubleDouble {
    type Output = Self;

    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for DoubleDouble {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for DoubleDouble {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let product = self.hi * other.hi;
        let rounding = self.hi.mul_add(other.hi, -product);
        Self::exact_sum_ordered(product, rounding + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Sum for DoubleDouble {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::ZERO, |sum, value| sum + value)
    }
}

/// The sum of `values`, rounded once.
pub(super) fn accurate_sum(values: impl Iterator<Item = f64>) -> f64 {
    values.map(DoubleDouble::from).sum::<DoubleDouble>().hi
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_keeps_what_a_single_double_drops() {
        // 1e16 + 1 is not representable; plain addition gives 0 here.
        assert_eq!(accurate_sum([1e16, 1.0, -1e16].into_iter()), 1.0);
    }

    #[test]
    fn a_product_keeps_its_rounding() {
        // (1 + e)(1 - e) = 1 - e²; in one double the product is 1.
        let e = 2f64.powi(-30);
        let product = DoubleDouble::from(1.0 + e) * DoubleDouble::from(1.0 - e);
        assert_eq!((product - DoubleDouble::from(1.0)).hi, -(e * e));
    }

    #[test]
    fn a_difference_of_close_numbers_is_exact() {
        let difference = DoubleDouble::difference(1.0, 1e-30);
        assert_eq!((difference.hi, difference.lo), (1.0, -1e-30));
    }
}
