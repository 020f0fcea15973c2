//! The F test of a smaller model inside a larger one.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use wattrace_schema::Reason;

use super::design::{Design, FitFailure, Term};
use super::double_double::accurate_sum;
use super::factor::Factored;
use super::linear::least_squares;

/// Whether the terms that a smaller model lacks explain more than chance would.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FTest {
    /// Variance explained by each extra coefficient over residual variance of the larger model.
    pub f_statistic: f64,
    /// Extra coefficients of the larger model.
    pub df_numerator: usize,
    /// Residual degrees of freedom of the larger model.
    pub df_denominator: usize,
    /// Probability of an F at least as large if the smaller model were true, with normal,
    /// independent errors of equal variance.
    pub p_value: f64,
}

/// How much of a centred column the larger model may leave unexplained before the models count as
/// not nested: room for the rounding of a column that was computed from others, no more.
const SPAN_TOLERANCE: f64 = 1e-9;

/// Tests `restricted` against `full`: `F = ((SSR_r - SSR_f) / q) / (SSR_f / df_f)`.
///
/// ```
/// use wattrace_analysis::stats::{Design, Term, nested_f_test};
///
/// let x = Term::new("x", vec![-1.0, 1.0, -1.0, 1.0]);
/// let full = Design::new("c", vec![1.0, 3.0, 1.0, 5.0], vec![x], vec![0, 1, 2, 3])?;
/// // Mean 2.5, SSR_r = 11; with x the means are 1 and 4, SSR_f = 2: F = 9 / (2 / 2).
/// let test = nested_f_test(&full, &full.with_terms(|_| false))?;
/// assert!((test.f_statistic - 9.0).abs() < 1e-12);
/// # Ok::<(), wattrace_analysis::stats::FitFailure>(())
/// ```
///
/// # Errors
/// [`Reason::InvalidInput`] if the responses differ or a term of `restricted` is no combination of
/// the terms of `full`; [`Reason::ExactFit`] if `full` fits the response to its rounding; those of
/// [`least_squares`].
pub fn nested_f_test(full: &Design, restricted: &Design) -> Result<FTest, FitFailure> {
    check_nested(full, restricted)?;
    let (full, restricted) = (least_squares(full)?, least_squares(restricted)?);
    if full.is_exact() {
        let message =
            "the larger model fits the response to its rounding and leaves nothing to test against"
                .to_owned();
        return Err(FitFailure::new(Reason::ExactFit, message));
    }
    let df_numerator = full.k - restricted.k;
    let df_denominator = full.df_residual;
    // Rounding may leave a difference of nothing slightly negative.
    let explained = (restricted.sum_squared_residuals - full.sum_squared_residuals).max(0.0);
    let f_statistic =
        explained / df_numerator as f64 / (full.sum_squared_residuals / df_denominator as f64);
    let p_value = f_upper_tail(f_statistic, df_numerator, df_denominator);
    Ok(FTest { f_statistic, df_numerator, df_denominator, p_value })
}

fn check_nested(full: &Design, restricted: &Design) -> Result<(), FitFailure> {
    let refuse = |message: String| Err(FitFailure::new(Reason::InvalidInput, message));
    if full.response() != restricted.response() {
        return refuse("the two models explain different responses".to_owned());
    }
    let (larger, smaller) = (full.coefficients(), restricted.coefficients());
    if smaller >= larger {
        return refuse(format!(
            "a model with {smaller} coefficients is not inside one with {larger}"
        ));
    }
    let factored = Factored::new(full)?;
    match restricted.terms().iter().find(|term| !is_in_span(&factored, term)) {
        Some(term) => refuse(format!(
            "term \"{}\" is not a combination of the larger model's terms, so the models are not nested",
            term.name
        )),
        None => Ok(()),
    }
}

fn is_in_span(factored: &Factored, term: &Term) -> bool {
    let column = &term.column;
    let mean = accurate_sum(column.iter().copied()) / column.len() as f64;
    let spread: f64 = column.iter().map(|x| (x - mean).powi(2)).sum();
    let left: f64 = factored.solve(column).residuals.iter().map(|r| r * r).sum();
    left.sqrt() <= SPAN_TOLERANCE * spread.sqrt()
}

fn f_upper_tail(f_statistic: f64, df_numerator: usize, df_denominator: usize) -> f64 {
    FisherSnedecor::new(df_numerator as f64, df_denominator as f64)
        .expect("both degrees of freedom are at least one: the models were checked and fitted")
        .sf(f_statistic)
}

#[cfg(test)]
mod tests {
    use super::super::known_answers::{assert_close, eight_cells};
    use super::*;

    fn merged(design: &Design) -> Design {
        let terms = design.terms();
        let sum = terms[0].column.iter().zip(&terms[1].column).map(|(w, kv)| w + kv).collect();
        let terms = vec![Term::new("gamma", sum), terms[2].clone()];
        Design::new("c", design.response().to_vec(), terms, design.clusters().to_vec()).unwrap()
    }

    #[test]
    fn merging_two_terms_agrees_with_statsmodels() {
        let design = eight_cells();
        let test = nested_f_test(&design, &merged(&design)).unwrap();
        assert_eq!((test.df_numerator, test.df_denominator), (1, 20));
        assert_close(test.f_statistic, 0.5549903746676448);
        assert_close(test.p_value, 0.46495082760642925);
    }

    #[test]
    fn tails_are_exact() {
        for (f, numerator, denominator, expected) in F_TAILS {
            let relative = (f_upper_tail(f, numerator, denominator) - expected).abs() / expected;
            assert!(relative < 1e-9, "F {f} on {numerator}, {denominator}: {relative}");
        }
        assert_eq!(f_upper_tail(0.0, 2, 5), 1.0);
    }

    // Regularised incomplete beta function, mpmath 1.4.1 with 30 digits.
    const F_TAILS: [(f64, usize, usize, f64); 6] = [
        (4.1, 1, 20, 0.05644112184348545),
        (4.35, 2, 46, 0.018608939459991747),
        (161.4, 1, 1, 0.05000734813956431),
        (9.01, 3, 116, 2.0605264467405447e-5),
        (60.0, 2, 596, 1.8167901007374605e-24),
        (0.3, 5, 7, 0.8981557643278847),
    ];

    #[test]
    fn models_that_are_not_nested_are_refused() {
        let design = eight_cells();
        let full = design.with_terms(|term| term.name != "p_tau_w");
        let other = design.with_terms(|term| term.name == "p_tau_w");
        let failure = nested_f_test(&full, &other).unwrap_err();
        assert_eq!(failure.reason, Reason::InvalidInput);
        insta::assert_snapshot!(failure, @r#"term "p_tau_w" is not a combination of the larger model's terms, so the models are not nested"#);
        let failure = nested_f_test(&design, &design).unwrap_err();
        insta::assert_snapshot!(failure, @"a model with 4 coefficients is not inside one with 4");
    }

    #[test]
    fn another_response_is_refused() {
        let design = eight_cells();
        let doubled = design.response().iter().map(|y| 2.0 * y).collect();
        let other = Design::new("c", doubled, vec![], design.clusters().to_vec()).unwrap();
        let failure = nested_f_test(&design, &other).unwrap_err();
        insta::assert_snapshot!(failure, @"the two models explain different responses");
    }

    #[test]
    fn an_exact_fit_has_nothing_to_test_against() {
        let x = Term::new("x", vec![0.0, 1.0, 2.0, 3.0]);
        let full = Design::new("c", vec![1.0, 3.0, 5.0, 7.0], vec![x], vec![0; 4]).unwrap();
        let failure = nested_f_test(&full, &full.with_terms(|_| false)).unwrap_err();
        assert_eq!(failure.reason, Reason::ExactFit);
    }
}
