//! Ordinary least squares.

use nalgebra::DMatrix;
use wattrace_schema::{Flag, FlagSet};

use super::covariance::{ClusterRobust, cluster_robust};
use super::design::{Design, FitFailure};
use super::double_double::accurate_sum;
use super::estimate::{Estimate, t_critical};
use super::factor::{Basis, Factored, Solution};

/// Above this condition number of the standardised design, single coefficients are not identified.
pub const CONDITION_LIMIT: f64 = 30.0;

/// Below this count of clusters, cluster-robust errors are themselves uncertain.
pub const FEW_CLUSTERS: usize = 20;

/// A least-squares fit with classical and cluster-robust errors.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearFit {
    /// Rows.
    pub n: usize,
    /// Coefficients, the intercept included.
    pub k: usize,
    /// `n - k`.
    pub df_residual: usize,
    /// Estimates, the intercept first, with classical standard errors and t intervals at
    /// `df_residual`.
    pub coefficients: Vec<Estimate>,
    /// Classical covariance of the coefficients, `s² (X'X)⁻¹`.
    pub covariance: DMatrix<f64>,
    /// The same estimates with errors that allow for correlation within clusters.
    pub cluster_robust: Result<ClusterRobust, FitFailure>,
    /// Share of the response's variation that the fit explains; absent for a constant response.
    pub r_squared: Option<f64>,
    /// Sum of squared residuals.
    pub sum_squared_residuals: f64,
    /// `s = sqrt(sum_squared_residuals / df_residual)`, in units of the response.
    pub residual_std: f64,
    /// Response minus fitted value, one a row.
    pub residuals: Vec<f64>,
    /// Fitted value, one a row.
    pub fitted: Vec<f64>,
    /// Diagonal of the hat matrix, one a row: the share of a row in its own fitted value.
    pub leverage: Vec<f64>,
    /// Largest over smallest singular value of the centred columns at unit variance, without
    /// intercept; 1 where there are no columns.
    pub condition_number: f64,
    /// Variance inflation factor of every term, without the intercept: by how much the other
    /// terms inflate the variance of its coefficient.
    pub variance_inflation: Vec<f64>,
    /// Likelihood with normal errors; absent without any residual, where it has no bound.
    pub information: Option<InformationCriteria>,
    /// What a reader of the table must know, for programs.
    pub flags: FlagSet,
    /// What a reader of the table must know, in sentences.
    pub notes: Vec<String>,
    basis: Basis,
    /// The coefficients in the variables of `basis`.
    centred_coefficients: Vec<f64>,
}

/// Measures for comparing fits of one response; smaller criteria are better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InformationCriteria {
    /// Largest log-likelihood under normal errors.
    pub log_likelihood: f64,
    /// Akaike's criterion, `2k - 2 log L`; the variance is not counted in k, as in statsmodels.
    pub aic: f64,
    /// Schwarz's criterion, `k ln n - 2 log L`.
    pub bic: f64,
}

/// What a fit expects at one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Expected response.
    pub value: f64,
    /// Standard error of the expected response.
    pub mean_std_error: f64,
    /// 95% t interval of the expected response.
    pub mean_interval: (f64, f64),
    /// Standard error of a single new response.
    pub std_error: f64,
    /// 95% t interval for a single new response.
    pub interval: (f64, f64),
}

/// Fits `design` by ordinary least squares.
///
/// ```
/// use wattrace_analysis::stats::{Design, Term, least_squares};
///
/// // y = 1 + 2 x, with errors +0.1, -0.1, -0.1, +0.1 that are orthogonal to both columns.
/// let x = Term::new("x", vec![0.0, 1.0, 2.0, 3.0]);
/// let design = Design::new("c", vec![1.1, 2.9, 4.9, 7.1], vec![x], vec![0, 1, 2, 3])?;
/// let fit = least_squares(&design)?;
/// assert!((fit.coefficients[1].value - 2.0).abs() < 1e-12);
/// assert_eq!(fit.df_residual, 2);
/// # Ok::<(), wattrace_analysis::stats::FitFailure>(())
/// ```
///
/// # Errors
/// [`Reason::TooFewRuns`] without at least one row more than coefficients,
/// [`Reason::ConstantCoordinate`] for a term with one value, [`Reason::RankDeficient`] for terms
/// that are combinations of each other; the message names the terms.
///
/// [`Reason::TooFewRuns`]: wattrace_schema::Reason::TooFewRuns
/// [`Reason::ConstantCoordinate`]: wattrace_schema::Reason::ConstantCoordinate
/// [`Reason::RankDeficient`]: wattrace_schema::Reason::RankDeficient
pub fn least_squares(design: &Design) -> Result<LinearFit, FitFailure> {
    let factored = Factored::new(design)?;
    let solution = factored.solve(design.response());
    Ok(assemble(design, &factored, &solution))
}

impl LinearFit {
    /// The estimate of the term `name`, if the fit has one.
    #[must_use]
    pub fn coefficient(&self, name: &str) -> Option<&Estimate> {
        self.coefficients.iter().find(|estimate| estimate.name == name)
    }

    /// Whether the residuals are no larger than the rounding of the stored response, so that they
    /// measure no error at all.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let sizes = self.fitted.iter().zip(&self.residuals).map(|(f, r)| (f + r).abs());
        self.residual_std <= 4.0 * f64::EPSILON * sizes.fold(0.0, f64::max)
    }

    /// The expected response at one value per term, in the order of the design's terms.
    ///
    /// # Panics
    /// If the count of values differs from the count of terms.
    #[must_use]
    pub fn predict(&self, at: &[f64]) -> Prediction {
        assert_eq!(at.len(), self.k - 1, "one value per term is needed");
        let centred = self.basis.centred(at);
        let value: f64 = centred.iter().zip(&self.centred_coefficients).map(|(x, b)| x * b).sum();
        let leverage = self.basis.orthonormal(&centred).norm_squared();
        let mean_std_error = self.residual_std * leverage.sqrt();
        let std_error = self.residual_std * (1.0 + leverage).sqrt();
        let critical = t_critical(self.df_residual);
        let interval = |error: f64| (value - critical * error, value + critical * error);
        Prediction {
            value,
            mean_std_error,
            mean_interval: interval(mean_std_error),
            std_error,
            interval: interval(std_error),
        }
    }
}

fn assemble(design: &Design, factored: &Factored, solution: &Solution) -> LinearFit {
    let (n, k) = (design.rows(), design.coefficients());
    let df_residual = n - k;
    let values = factored.raw_coefficients(&solution.centred);
    let residuals = solution.residuals.clone();
    let sum_squared_residuals = accurate_sum(residuals.iter().map(|r| r * r));
    let residual_std = (sum_squared_residuals / df_residual as f64).sqrt();
    let raw_factor = factored.raw_factor();
    let critical = t_critical(df_residual);
    let coefficients = design
        .names()
        .zip(&values)
        .zip(raw_factor.row_iter())
        .map(|((name, &value), row)| {
            Estimate::with_interval(name, value, residual_std * row.norm(), critical)
        })
        .collect();
    let leverage = (0..n).map(|row| factored.orthonormal_row(row).norm_squared()).collect();
    let mut fit = LinearFit {
        n,
        k,
        df_residual,
        coefficients,
        covariance: &raw_factor * raw_factor.transpose() * residual_std.powi(2),
        cluster_robust: cluster_robust(design, factored, &values, &residuals),
        r_squared: r_squared(design.response(), sum_squared_residuals),
        sum_squared_residuals,
        residual_std,
        fitted: design.response().iter().zip(&residuals).map(|(y, r)| y - r).collect(),
        residuals,
        leverage,
        condition_number: factored.condition_number(),
        variance_inflation: factored.variance_inflation(),
        information: information_criteria(n, k, sum_squared_residuals),
        flags: FlagSet::EMPTY,
        notes: Vec::new(),
        basis: factored.basis().clone(),
        centred_coefficients: solution.centred.iter().map(|value| value.hi).collect(),
    };
    add_notes(&mut fit);
    fit
}

fn r_squared(response: &[f64], sum_squared_residuals: f64) -> Option<f64> {
    let mean = accurate_sum(response.iter().copied()) / response.len() as f64;
    let total = accurate_sum(response.iter().map(|y| (y - mean).powi(2)));
    (total > 0.0).then(|| 1.0 - sum_squared_residuals / total)
}

/// Normal likelihood at its maximum: `-n/2 (ln 2π + ln(SSR/n) + 1)`.
fn information_criteria(n: usize, k: usize, ssr: f64) -> Option<InformationCriteria> {
    if ssr == 0.0 {
        return None;
    }
    let (n, k) = (n as f64, k as f64);
    let log_likelihood = -n / 2.0 * (std::f64::consts::TAU.ln() + (ssr / n).ln() + 1.0);
    let deviance = -2.0 * log_likelihood;
    Some(InformationCriteria {
        log_likelihood,
        aic: deviance + 2.0 * k,
        bic: deviance + k * n.ln(),
    })
}

fn add_notes(fit: &mut LinearFit) {
    if fit.is_exact() {
        fit.notes.push(
            "The fit is exact to the rounding of the response: its errors measure nothing."
                .to_owned(),
        );
    }
    fit.notes.push(
        "Standard errors are classical: they assume independent errors of equal variance."
            .to_owned(),
    );
    match &fit.cluster_robust {
        Ok(robust) => {
            fit.notes.push(format!(
                "Cluster-robust errors are CR1 over {} clusters, t with {} degrees of freedom.",
                robust.clusters, robust.degrees_of_freedom
            ));
            if robust.clusters < FEW_CLUSTERS {
                fit.flags.insert(Flag::FewClusters);
                fit.notes.push(format!(
                    "With fewer than {FEW_CLUSTERS} clusters, cluster-robust errors tend to be too small."
                ));
            }
        }
        Err(failure) => {
            fit.notes.push(format!("Cluster-robust errors are absent: {}.", failure.message));
        }
    }
    if fit.condition_number > CONDITION_LIMIT {
        fit.notes.push(format!(
            "The condition number, {:.1}, exceeds {CONDITION_LIMIT}: the terms are nearly dependent and single coefficients are not identified.",
            fit.condition_number
        ));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use wattrace_schema::Reason;

    use super::super::Term;
    use super::super::known_answers::eight_cells;
    use super::*;

    fn design(response: Vec<f64>, terms: &[(&str, Vec<f64>)]) -> Design {
        let terms = terms.iter().map(|(name, column)| Term::new(*name, column.clone())).collect();
        let clusters = (0..response.len()).collect();
        Design::new("c", response, terms, clusters).unwrap()
    }

    fn failure(response: Vec<f64>, terms: &[(&str, Vec<f64>)]) -> (Reason, String) {
        let failure = least_squares(&design(response, terms)).unwrap_err();
        (failure.reason, failure.message)
    }

    #[test]
    fn a_line_through_four_points() {
        // Means 1.5 and 4; Sxx = 5, Sxy = 4.5 + 0.35 + 0.3 + 4.65 = 9.8: slope 1.96, constant 1.06.
        // Residuals -0.06, 0.28, -0.38, 0.16: SSR 0.252, s² = 0.126, slope variance 0.126 / 5.
        let y = vec![1.0, 3.3, 4.6, 7.1];
        let fit = least_squares(&design(y, &[("x", vec![0.0, 1.0, 2.0, 3.0])])).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{a} against {b}");
        close(fit.coefficients[0].value, 1.06);
        close(fit.coefficients[1].value, 1.96);
        close(fit.sum_squared_residuals, 0.252);
        close(fit.coefficients[1].std_error.unwrap(), 0.0252f64.sqrt());
        // Leverage 1/4 + (x - 1.5)² / 5.
        for (leverage, expected) in fit.leverage.iter().zip([0.7, 0.3, 0.3, 0.7]) {
            close(*leverage, expected);
        }
        // t with two degrees of freedom at 0.975 is 4.302652729749464.
        close(fit.coefficients[1].high.unwrap(), 1.96 + 4.302652729749464 * 0.0252f64.sqrt());
    }

    #[test]
    fn too_few_rows_are_counted() {
        let x = ("x", vec![1.0, 2.0]);
        let (reason, message) = failure(vec![1.0, 2.0], std::slice::from_ref(&x));
        assert_eq!(reason, Reason::TooFewRuns);
        insta::assert_snapshot!(message, @"2 rows fit 2 coefficients (c, x) exactly and leave no error to estimate");
        let (reason, message) = failure(vec![1.0, 2.0], &[x, ("z", vec![2.0, 5.0])]);
        assert_eq!(reason, Reason::TooFewRuns);
        insta::assert_snapshot!(message, @"2 rows cannot determine 3 coefficients (c, x, z)");
        let (reason, _) = failure(vec![], &[]);
        assert_eq!(reason, Reason::TooFewRuns);
    }

    #[test]
    fn a_constant_term_is_named() {
        // 0.1 + 0.2 differs from 0.3 in the last bit: still one value.
        let third = ("tau", vec![0.3, 0.1 + 0.2, 0.3, 0.3, 0.3]);
        let x = ("x", vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        let (reason, message) = failure(vec![1.0, 2.0, 3.0, 4.0, 6.0], &[x, third]);
        assert_eq!(reason, Reason::ConstantCoordinate);
        insta::assert_snapshot!(message, @r#"term "tau" has the same value, 0.3, in every row"#);
    }

    #[test]
    fn dependent_terms_are_named_and_others_are_not() {
        let a = vec![0.31, 1.7, 2.9, 4.3, 4.7, 6.1, 7.9];
        let b = vec![5.3, 1.1, 0.7, 9.1, 2.3, 3.1, 0.2];
        let free = vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0];
        let sum = a.iter().zip(&b).map(|(a, b)| 0.1 * a + 0.7 * b + 11.0).collect();
        let response = vec![1.0, 2.0, 0.0, 4.0, 3.0, 7.0, 5.0];
        let (reason, message) =
            failure(response, &[("a", a), ("b", b), ("free", free), ("sum", sum)]);
        assert_eq!(reason, Reason::RankDeficient);
        insta::assert_snapshot!(message, @r#"terms "a", "b", "sum" are linearly dependent: each is a combination of the others and a constant"#);
    }

    #[test]
    fn invalid_designs_name_the_term_the_row_and_the_value() {
        let build = |response: Vec<f64>, name: &str, column: Vec<f64>, clusters: Vec<usize>| {
            let failure =
                Design::new("c", response, vec![Term::new(name, column)], clusters).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidInput);
            failure.message
        };
        let clusters = vec![0, 1];
        insta::assert_snapshot!(build(vec![1.0, 2.0], "x", vec![1.0, f64::NAN], clusters.clone()), @r#"term "x" is NaN in row 1 (counted from 0); a finite number up to 1e100 in size is needed"#);
        insta::assert_snapshot!(build(vec![1.0, f64::INFINITY], "x", vec![1.0, 2.0], clusters.clone()), @"the response is inf in row 1 (counted from 0); a finite number up to 1e100 in size is needed");
        insta::assert_snapshot!(build(vec![1.0, 2.0], "x", vec![1.0, -1e200], clusters.clone()), @r#"term "x" is -1e200 in row 1 (counted from 0); a finite number up to 1e100 in size is needed"#);
        insta::assert_snapshot!(build(vec![1.0, 2.0], "x", vec![1.0], clusters.clone()), @r#"term "x" has 1 rows where the response has 2"#);
        insta::assert_snapshot!(build(vec![1.0, 2.0], "x", vec![1.0, 3.0], vec![0]), @"the cluster column has 1 rows where the response has 2");
        insta::assert_snapshot!(build(vec![1.0, 2.0], "c", vec![1.0, 3.0], clusters), @r#"the design has two terms named "c""#);
    }

    #[test]
    fn clusters_no_more_than_coefficients_leave_the_classical_errors() {
        let x = Term::new("x", vec![0.0, 1.0, 2.0, 3.0]);
        let design = Design::new("c", vec![0.0, 2.0, 1.0, 4.0], vec![x], vec![3, 3, 8, 8]).unwrap();
        let fit = least_squares(&design).unwrap();
        assert!(fit.coefficients[1].std_error.unwrap() > 0.0);
        assert_eq!(fit.cluster_robust.as_ref().unwrap_err().reason, Reason::TooFewClusters);
        assert!(!fit.flags.contains(Flag::FewClusters));
        insta::assert_snapshot!(fit.notes.join("\n"), @"
        Standard errors are classical: they assume independent errors of equal variance.
        Cluster-robust errors are absent: 2 clusters cannot give errors for 2 coefficients.
        ");
    }

    #[test]
    fn notes_tell_what_the_errors_assume_and_what_is_doubtful() {
        let fit = least_squares(&eight_cells()).unwrap();
        assert!(fit.flags.contains(Flag::FewClusters));
        insta::assert_snapshot!(fit.notes.join("\n"), @"
        Standard errors are classical: they assume independent errors of equal variance.
        Cluster-robust errors are CR1 over 8 clusters, t with 7 degrees of freedom.
        With fewer than 20 clusters, cluster-robust errors tend to be too small.
        ");
        let x: Vec<f64> = (0..8).map(f64::from).collect();
        let near = x.iter().map(|x| x + 0.01 * (x * 7.0).sin()).collect();
        let response = vec![0.0, 1.0, 3.0, 2.0, 5.0, 4.0, 6.0, 9.0];
        let fit = least_squares(&design(response, &[("x", x), ("near", near)])).unwrap();
        insta::assert_snapshot!(fit.notes.last().unwrap(), @"The condition number, 948.0, exceeds 30: the terms are nearly dependent and single coefficients are not identified.");
    }

    #[test]
    fn a_constant_response_has_no_r_squared() {
        let fit = least_squares(&design(vec![2.0; 4], &[("x", vec![0.0, 1.0, 2.0, 4.0])])).unwrap();
        assert_eq!((fit.r_squared, fit.is_exact()), (None, true));
        assert_eq!(fit.coefficients[0].value, 2.0);
        assert!(fit.coefficients[1].value.abs() < 1e-30);
        insta::assert_snapshot!(fit.notes[0], @"The fit is exact to the rounding of the response: its errors measure nothing.");
    }

    #[test]
    fn a_fit_of_the_constant_alone_is_the_mean() {
        // 1, 2, 6: mean 3, variance (4 + 1 + 9) / 2 = 7, standard error sqrt(7 / 3).
        let fit = least_squares(&design(vec![1.0, 2.0, 6.0], &[])).unwrap();
        assert_eq!(fit.coefficients[0].value, 3.0);
        assert!((fit.coefficients[0].std_error.unwrap() - (7.0f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(fit.condition_number, 1.0);
        assert!((fit.predict(&[]).value - 3.0).abs() < 1e-15);
    }

    #[test]
    fn columns_far_from_zero_and_far_apart_in_size_lose_nothing() {
        // Seconds since 1970 in quarters, exact, beside parts per billion.
        let time: Vec<f64> = (0..6).map(|i| 1.75e9 + 0.25 * f64::from(i)).collect();
        let share = vec![1e-9, 3e-9, 2e-9, 7e-9, 5e-9, 4e-9];
        let response = (0..6).map(|i| 0.5 * f64::from(i) + 1e9 * share[i as usize]).collect();
        let fit = least_squares(&design(response, &[("time", time), ("share", share)])).unwrap();
        assert!((fit.coefficients[1].value - 2.0).abs() < 1e-14);
        assert!((fit.coefficients[2].value / 1e9 - 1.0).abs() < 1e-14);
    }

    /// Rows of a response and two columns that are certain to differ within each column.
    fn rows() -> impl Strategy<Value = Vec<(f64, f64, f64)>> {
        let row = (-10.0..10.0, -5.0..5.0, 0.0..3.0);
        prop::collection::vec(row, 3..20).prop_map(|mut rows| {
            rows.extend([(1.0, 6.0, 0.0), (2.0, 6.0, 4.0), (0.5, -6.0, 4.0), (0.0, -6.0, 0.5)]);
            rows
        })
    }

    fn from_rows(rows: &[(f64, f64, f64)]) -> Design {
        let pick = |value: fn(&(f64, f64, f64)) -> f64| rows.iter().map(value).collect::<Vec<_>>();
        design(pick(|row| row.0), &[("a", pick(|row| row.1)), ("b", pick(|row| row.2))])
    }

    fn assert_same(left: &LinearFit, right: &LinearFit) {
        for (a, b) in left.coefficients.iter().zip(&right.coefficients) {
            let scale = a.std_error.unwrap();
            assert!((a.value - b.value).abs() <= 1e-12 * scale.max(a.value.abs()));
            assert!((scale - b.std_error.unwrap()).abs() <= 1e-12 * scale);
        }
    }

    proptest! {
        #[test]
        fn the_order_of_rows_changes_nothing(rows in rows(), turn in 0usize..20) {
            let mut turned = rows.clone();
            turned.rotate_left(turn % rows.len());
            let last = turned.len() - 1;
            turned.swap(0, last);
            let (left, right) = (from_rows(&rows), from_rows(&turned));
            assert_same(&least_squares(&left).unwrap(), &least_squares(&right).unwrap());
        }

        #[test]
        fn residuals_are_orthogonal_to_every_column(rows in rows()) {
            let design = from_rows(&rows);
            let fit = least_squares(&design).unwrap();
            let length = fit.sum_squared_residuals.sqrt();
            prop_assert!(fit.residuals.iter().sum::<f64>().abs() <= 1e-13 * length * 5.0);
            for term in design.terms() {
                let product: f64 = term.column.iter().zip(&fit.residuals).map(|(x, r)| x * r).sum();
                let size = term.column.iter().map(|x| x * x).sum::<f64>().sqrt();
                prop_assert!(product.abs() <= 1e-13 * size * length);
            }
        }

        #[test]
        fn leverages_add_up_to_the_count_of_coefficients(rows in rows()) {
            let fit = least_squares(&from_rows(&rows)).unwrap();
            prop_assert!((fit.leverage.iter().sum::<f64>() - 3.0).abs() < 1e-12);
        }

        #[test]
        fn another_unit_rescales_one_coefficient_and_nothing_else(
            rows in rows(),
            power in -40i32..40,
        ) {
            let unit = 2f64.powi(power);
            let scaled: Vec<_> = rows.iter().map(|&(y, a, b)| (y, a * unit, b)).collect();
            let fit = least_squares(&from_rows(&rows)).unwrap();
            let mut other = least_squares(&from_rows(&scaled)).unwrap();
            prop_assert!((fit.condition_number - other.condition_number).abs() < 1e-9 * fit.condition_number);
            let slope = &mut other.coefficients[1];
            slope.value *= unit;
            slope.std_error = slope.std_error.map(|error| error * unit);
            assert_same(&fit, &other);
        }

        #[test]
        fn another_zero_point_moves_only_the_constant(rows in rows(), shift in -64i32..64) {
            let shift = f64::from(shift);
            // Quarters, so that the shifted column is exact.
            let quarters = |x: f64| (x * 4.0).round() / 4.0;
            let rounded: Vec<_> = rows.iter().map(|&(y, a, b)| (y, quarters(a), b)).collect();
            let shifted: Vec<_> = rounded.iter().map(|&(y, a, b)| (y, a + shift, b)).collect();
            let fit = least_squares(&from_rows(&rounded)).unwrap();
            let other = least_squares(&from_rows(&shifted)).unwrap();
            let moved = fit.coefficients[0].value - shift * fit.coefficients[1].value;
            let scale = fit.coefficients[0].std_error.unwrap() + moved.abs();
            prop_assert!((other.coefficients[0].value - moved).abs() < 1e-11 * scale);
            for index in [1, 2] {
                let (a, b) = (&fit.coefficients[index], &other.coefficients[index]);
                prop_assert!((a.value - b.value).abs() < 1e-12 * a.std_error.unwrap().max(a.value.abs()));
            }
        }
    }
}
