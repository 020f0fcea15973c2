//! Ordinary least squares.
//!
//! The columns are centred and scaled, factored by Householder QR, and the solution is refined with
//! residuals that carry twice the digits. Centring removes the collinearity with the intercept
//! that large offsets cause. Refinement then makes the coefficients those of the stored numbers,
//! correct to the last digits, instead of losing as many digits as the square of the condition
//! number has (Björck, "Numerical Methods for Least Squares Problems", SIAM 1996, section 6.6:
//! corrected seminormal equations).

use nalgebra::{DMatrix, DVector};
use wattrace_schema::{Flag, FlagSet, Reason};

use super::covariance::{ClusterRobust, cluster_robust};
use super::design::{Design, FitFailure, Term};
use super::double_double::{DoubleDouble, accurate_sum};
use super::estimate::{Estimate, t_critical};

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
    /// Likelihood with normal errors; absent for an exact fit, whose likelihood has no bound.
    pub information: Option<InformationCriteria>,
    /// What a reader of the table must know, for programs.
    pub flags: FlagSet,
    /// What a reader of the table must know, in sentences.
    pub notes: Vec<String>,
    basis: Basis,
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

    /// The expected response at one value per term, in the order of the design's terms.
    ///
    /// # Panics
    /// If the count of values differs from the count of terms.
    #[must_use]
    pub fn predict(&self, at: &[f64]) -> Prediction {
        assert_eq!(at.len(), self.k - 1, "one value per term is needed");
        let centred = self.basis.centred(at);
        let value = centred.iter().zip(&self.basis.solution).map(|(x, b)| x * b).sum::<f64>();
        let leverage = self.basis.leverage(&centred);
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

/// The change of variables in which a fit is solved: terms become `(x - centre) / scale`.
#[derive(Debug, Clone, PartialEq)]
struct Basis {
    centre: Vec<f64>,
    scale: Vec<f64>,
    /// Coefficients of the centred, scaled columns; the first is the constant.
    solution: Vec<f64>,
    /// Inverse of the triangular factor of `[1, centred columns]`.
    r_inverse: DMatrix<f64>,
}

impl Basis {
    /// One row of the centred, scaled design, the constant first.
    fn centred(&self, at: &[f64]) -> Vec<f64> {
        let terms = at.iter().zip(&self.centre).zip(&self.scale);
        std::iter::once(1.0).chain(terms.map(|((x, centre), scale)| (x - centre) / scale)).collect()
    }

    fn leverage(&self, centred: &[f64]) -> f64 {
        orthonormal_row(&self.r_inverse, centred).norm_squared()
    }
}

/// The row `a' R⁻¹` of the orthonormal factor.
fn orthonormal_row(r_inverse: &DMatrix<f64>, centred: &[f64]) -> DVector<f64> {
    r_inverse.tr_mul(&DVector::from_column_slice(centred))
}

/// A design in centred, scaled columns with its triangular factor.
///
/// Scales are powers of two and a centred value is kept as an exact difference, so the change of
/// variables loses nothing.
pub(super) struct Factored {
    centre: Vec<f64>,
    scale: Vec<f64>,
    /// By term, then by row; without the constant.
    columns: Vec<Vec<DoubleDouble>>,
    r: DMatrix<f64>,
    r_inverse: DMatrix<f64>,
    condition_number: f64,
}

/// The least-squares solution in the variables of a [`Factored`] design.
pub(super) struct Solution {
    /// The constant first.
    pub(super) centred: Vec<DoubleDouble>,
    /// One a row, in units of the response.
    pub(super) residuals: Vec<f64>,
}

/// Refinement gains at least two digits a pass for any design that passes the rank test; it stops
/// long before.
const REFINEMENT_PASSES: usize = 20;

impl Factored {
    pub(super) fn new(design: &Design) -> Result<Self, FitFailure> {
        check_row_count(design)?;
        let (mut centre, mut scale, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for term in design.terms() {
            let centred = CentredColumn::new(term)?;
            centre.push(centred.centre);
            scale.push(centred.scale);
            columns.push(centred.values);
        }
        let rows = design.rows();
        let matrix = DMatrix::from_fn(rows, columns.len() + 1, |row, column| match column {
            0 => 1.0,
            _ => columns[column - 1][row].hi,
        });
        let r = matrix.qr().r();
        let condition_number = check_rank(design, &scale, &r)?;
        let r_inverse = r
            .solve_upper_triangular(&DMatrix::identity(r.nrows(), r.ncols()))
            .ok_or_else(|| rank_deficient(design.terms().iter().map(|t| t.name.as_str())))?;
        Ok(Self { centre, scale, columns, r, r_inverse, condition_number })
    }

    /// Least squares for `response`: every pass solves for the correction that the present residuals,
    /// computed with twice the digits, ask for.
    pub(super) fn solve(&self, response: &[f64]) -> Solution {
        let mut centred = vec![DoubleDouble::ZERO; self.columns.len() + 1];
        let mut last_correction = f64::INFINITY;
        for _ in 0..REFINEMENT_PASSES {
            let gradient = self.gradient(&self.residuals(response, &centred));
            let correction = &self.r_inverse * self.r_inverse.tr_mul(&gradient);
            for (value, step) in centred.iter_mut().zip(&correction) {
                *value += DoubleDouble::from(*step);
            }
            // In the norm of the fitted values, which weighs the coefficients against each other.
            let size = (&self.r * &correction).norm();
            if size == 0.0 || size > 0.5 * last_correction {
                break;
            }
            last_correction = size;
        }
        let residuals = self.residuals(response, &centred).iter().map(|r| r.hi).collect();
        Solution { centred, residuals }
    }

    fn residuals(&self, response: &[f64], centred: &[DoubleDouble]) -> Vec<DoubleDouble> {
        let mut residuals: Vec<DoubleDouble> =
            response.iter().map(|&y| DoubleDouble::from(y) - centred[0]).collect();
        for (column, &coefficient) in self.columns.iter().zip(&centred[1..]) {
            for (residual, &x) in residuals.iter_mut().zip(column) {
                *residual = *residual - x * coefficient;
            }
        }
        residuals
    }

    fn gradient(&self, residuals: &[DoubleDouble]) -> DVector<f64> {
        let constant = residuals.iter().copied().sum::<DoubleDouble>().hi;
        let terms = self.columns.iter().map(|column| {
            column.iter().zip(residuals).map(|(&x, &r)| x * r).sum::<DoubleDouble>().hi
        });
        DVector::from_iterator(self.columns.len() + 1, std::iter::once(constant).chain(terms))
    }

    /// Row `row` of the orthonormal factor Q.
    pub(super) fn orthonormal_row(&self, row: usize) -> DVector<f64> {
        let centred: Vec<f64> =
            std::iter::once(1.0).chain(self.columns.iter().map(|column| column[row].hi)).collect();
        orthonormal_row(&self.r_inverse, &centred)
    }

    /// Coefficients of the raw columns: `b_j = g_j / scale_j`, and the constant moved back from
    /// the centre to zero.
    pub(super) fn raw_coefficients(&self, centred: &[DoubleDouble]) -> Vec<f64> {
        let mut constant = centred[0];
        let mut raw = vec![0.0];
        for ((&g, &centre), &scale) in centred[1..].iter().zip(&self.centre).zip(&self.scale) {
            let slope = g.divided_by_power_of_two(scale);
            constant = constant - slope * DoubleDouble::from(centre);
            raw.push(slope.hi);
        }
        raw[0] = constant.hi;
        raw
    }

    /// The matrix F that turns a vector in the orthonormal basis Q into raw coefficients, so that
    /// `(X'X)⁻¹ = F F'`.
    pub(super) fn raw_factor(&self) -> DMatrix<f64> {
        let mut factor = self.r_inverse.clone();
        for (term, (&centre, &scale)) in self.centre.iter().zip(&self.scale).enumerate() {
            for column in 0..factor.ncols() {
                let slope = factor[(term + 1, column)] / scale;
                factor[(term + 1, column)] = slope;
                factor[(0, column)] -= centre * slope;
            }
        }
        factor
    }

    /// `|z_j|² (Z'Z)⁻¹_jj`, which is `1 / (1 - R_j²)` for the regression of term j on the others.
    fn variance_inflation(&self) -> Vec<f64> {
        let inflation = |term: usize| {
            let spread: f64 = self.r.column(term + 1).rows_range(1..).norm_squared();
            (spread * self.r_inverse.row(term + 1).norm_squared()).max(1.0)
        };
        (0..self.columns.len()).map(inflation).collect()
    }
}

/// `(x - centre) / scale`, exactly.
struct CentredColumn {
    centre: f64,
    scale: f64,
    values: Vec<DoubleDouble>,
}

impl CentredColumn {
    fn new(term: &Term) -> Result<Self, FitFailure> {
        let column = &term.column;
        let largest = column.iter().fold(0.0f64, |max, x| max.max(x.abs()));
        let centre = accurate_sum(column.iter().copied()) / column.len() as f64;
        let centred: Vec<_> = column.iter().map(|&x| DoubleDouble::difference(x, centre)).collect();
        let spread = centred.iter().fold(0.0f64, |max, x| max.max(x.hi.abs()));
        // A column that differs from a constant only in the last bit or two was constant before it
        // was rounded.
        if spread <= 4.0 * f64::EPSILON * largest {
            let message =
                format!("term \"{}\" has the same value, {}, in every row", term.name, column[0]);
            return Err(FitFailure::new(Reason::ConstantCoordinate, message));
        }
        let scale = power_of_two_below(spread);
        let values = centred.iter().map(|x| x.divided_by_power_of_two(scale)).collect();
        Ok(Self { centre, scale, values })
    }
}

/// The largest power of two that is not above a positive number.
fn power_of_two_below(value: f64) -> f64 {
    const EXPONENT_BITS: u64 = 0x7ff0_0000_0000_0000;
    f64::from_bits(value.max(f64::MIN_POSITIVE).to_bits() & EXPONENT_BITS)
}

fn check_row_count(design: &Design) -> Result<(), FitFailure> {
    let (n, k) = (design.rows(), design.coefficients());
    if n > k {
        return Ok(());
    }
    let names: Vec<&str> = design.names().collect();
    let message = if n == k {
        format!(
            "{n} rows fit {k} coefficients ({}) exactly and leave no error to estimate",
            names.join(", ")
        )
    } else {
        format!("{n} rows cannot determine {k} coefficients ({})", names.join(", "))
    };
    Err(FitFailure::new(Reason::TooFewRuns, message))
}

/// The condition number of the standardised design, or which terms depend on each other.
///
/// A design counts as rank deficient when rounding alone could make it so. Storing a column changes
/// it by about ε of its size, and centring leaves that change while the column shrinks to its
/// spread; so the smallest singular value of the unit columns means nothing below
/// ε · size / spread. The factor 64 covers columns that were computed from others in a few steps.
fn check_rank(design: &Design, scale: &[f64], r: &DMatrix<f64>) -> Result<f64, FitFailure> {
    let terms = design.terms();
    if terms.is_empty() {
        return Ok(1.0);
    }
    let mut unit = r.view((1, 1), (terms.len(), terms.len())).into_owned();
    let mut rounding = 1.0f64;
    for (index, term) in terms.iter().enumerate() {
        let spread = unit.column(index).norm();
        let size =
            DVector::from_iterator(term.column.len(), term.column.iter().map(|x| x / scale[index]))
                .norm();
        rounding = rounding.max(size / spread);
        unit.column_mut(index).unscale_mut(spread);
    }
    let decomposition = unit.svd(false, true);
    let values = &decomposition.singular_values;
    let (largest, smallest) = (values.max(), values.min());
    if smallest > 64.0 * f64::EPSILON * rounding {
        return Ok(largest / smallest);
    }
    // The right singular vector of the smallest value holds the weights of the dependent sum.
    let weights = decomposition.v_t.as_ref().map(|v_t| v_t.row(values.imin()).abs());
    let involved = |index: usize| weights.as_ref().is_none_or(|w| w[index] > 1e-6 * w.max());
    Err(rank_deficient(
        terms
            .iter()
            .enumerate()
            .filter(|&(index, _)| involved(index))
            .map(|(_, t)| t.name.as_str()),
    ))
}

fn rank_deficient<'a>(names: impl Iterator<Item = &'a str>) -> FitFailure {
    let quoted: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    let message = format!(
        "terms {} are linearly dependent: each is a combination of the others and a constant",
        quoted.join(", ")
    );
    FitFailure::new(Reason::RankDeficient, message)
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
        condition_number: factored.condition_number,
        variance_inflation: factored.variance_inflation(),
        information: information_criteria(n, k, sum_squared_residuals),
        flags: FlagSet::EMPTY,
        notes: Vec::new(),
        basis: Basis {
            centre: factored.centre.clone(),
            scale: factored.scale.clone(),
            solution: solution.centred.iter().map(|value| value.hi).collect(),
            r_inverse: factored.r_inverse.clone(),
        },
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
