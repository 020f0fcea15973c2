//! An estimated number with its error and interval, and the quantiles behind the interval.

use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};

/// The level of every confidence interval.
pub const CONFIDENCE_LEVEL: f64 = 0.95;

/// An estimated coefficient. Units are those of the response over those of the column.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The term it belongs to.
    pub name: String,
    /// The estimate.
    pub value: f64,
    /// Standard error; absent for a coefficient held at a bound.
    pub std_error: Option<f64>,
    /// Lower end of the 95% interval.
    pub low: Option<f64>,
    /// Upper end of the 95% interval.
    pub high: Option<f64>,
}

impl Estimate {
    /// An estimate with the interval `value ± critical · std_error`; `critical` comes from
    /// [`t_critical`].
    #[must_use]
    pub fn with_interval(name: &str, value: f64, std_error: f64, critical: f64) -> Self {
        let half_width = critical * std_error;
        Self {
            name: name.to_owned(),
            value,
            std_error: Some(std_error),
            low: Some(value - half_width),
            high: Some(value + half_width),
        }
    }

    /// A value that was fixed, not estimated: it has no error.
    #[must_use]
    pub fn fixed(name: &str, value: f64) -> Self {
        Self { name: name.to_owned(), value, std_error: None, low: None, high: None }
    }
}

/// The t with `P(|T| <= t) = 0.95` for Student's distribution with `degrees_of_freedom >= 1`.
///
/// # Panics
/// If `degrees_of_freedom` is zero: no such distribution exists.
#[must_use]
pub fn t_critical(degrees_of_freedom: usize) -> f64 {
    let distribution = student_t(degrees_of_freedom);
    let upper_tail = (1.0 - CONFIDENCE_LEVEL) / 2.0;
    let mut t = distribution.inverse_cdf(1.0 - upper_tail);
    // The library inverts to about six digits for few degrees of freedom; Newton's method on the
    // tail probability gives the rest.
    for _ in 0..4 {
        t += (distribution.sf(t) - upper_tail) / distribution.pdf(t);
    }
    t
}

/// The probability that Student's t is at least `|t|` away from zero.
pub(super) fn two_sided_t_p_value(t: f64, degrees_of_freedom: usize) -> f64 {
    (2.0 * student_t(degrees_of_freedom).sf(t.abs())).min(1.0)
}

fn student_t(degrees_of_freedom: usize) -> StudentsT {
    assert!(degrees_of_freedom > 0, "Student's t needs at least one degree of freedom");
    StudentsT::new(0.0, 1.0, degrees_of_freedom as f64)
        .expect("location 0, scale 1 and positive degrees of freedom are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_exact() {
        for (df, expected) in CRITICAL_VALUES {
            let relative = (t_critical(df) - expected).abs() / expected;
            assert!(relative < 1e-12, "df {df}: {} against {expected}", t_critical(df));
        }
    }

    // Root of the regularised incomplete beta function, mpmath 1.4.1 with 30 digits.
    const CRITICAL_VALUES: [(usize, f64); 9] = [
        (1, 12.706204736174705),
        (2, 4.302652729749464),
        (3, 3.1824463052837096),
        (4, 2.7764451051977944),
        (7, 2.3646242515927853),
        (26, 2.055529438642873),
        (119, 1.98009987645694),
        (596, 1.9639522633470066),
        (10_000, 1.9602012398906263),
    ];
}
