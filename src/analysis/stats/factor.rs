//! A design made ready for solving: centred, scaled, factored, and judged.
//!
//! The columns are centred and scaled, factored by Householder QR, and the solution is refined with
//! residuals that carry twice the digits. Centring removes the collinearity with the intercept
//! that large offsets cause. Refinement then makes the coefficients those of the stored numbers,
//! correct to the last digits, instead of losing as many digits as the square of the condition
//! number has (Björck, "Numerical Methods for Least Squares Problems", SIAM 1996, section 6.6:
//! corrected seminormal equations).

use nalgebra::{DMatrix, DVector};
use wattrace_schema::Reason;

use super::design::{Design, FitFailure, Term};
use super::double_double::{DoubleDouble, accurate_sum};

/// The change of variables in which a design is solved: a term becomes `(x - centre) / scale`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Basis {
    centre: Vec<f64>,
    scale: Vec<f64>,
    /// Inverse of the triangular factor of `[1, centred and scaled columns]`.
    r_inverse: DMatrix<f64>,
}

impl Basis {
    /// One value per term in the centred, scaled variables, the constant first.
    pub(super) fn centred(&self, at: &[f64]) -> Vec<f64> {
        let terms = at.iter().zip(&self.centre).zip(&self.scale);
        std::iter::once(1.0).chain(terms.map(|((x, centre), scale)| (x - centre) / scale)).collect()
    }

    /// A row of the centred, scaled design in the orthonormal basis: `a' R⁻¹`.
    pub(super) fn orthonormal(&self, centred: &[f64]) -> DVector<f64> {
        self.r_inverse.tr_mul(&DVector::from_column_slice(centred))
    }
}

/// A design in centred, scaled columns with its triangular factor.
///
/// Scales are powers of two and a centred value is kept as an exact difference, so the change of
/// variables loses nothing.
pub(super) struct Factored {
    basis: Basis,
    /// By term, then by row; without the constant.
    columns: Vec<Vec<DoubleDouble>>,
    r: DMatrix<f64>,
    condition_number: f64,
}

/// Coefficients in the variables of a [`Factored`] design, and what they leave.
pub(super) struct Solution {
    /// The constant first.
    pub(super) centred: Vec<DoubleDouble>,
    /// One a row, in units of the response.
    pub(super) residuals: Vec<f64>,
}

/// Refinement gains at least two digits a pass for any design that passes the rank test; it stops
/// long before.
const REFINEMENT_PASSES: usize = 20;

/// A correction of this share is near the end of what two doubles hold (2⁻¹⁰⁶).
const REFINED: f64 = 1e-30;

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
        let basis = Basis { centre, scale, r_inverse };
        Ok(Self { basis, columns, r, condition_number })
    }

    pub(super) fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Largest over smallest singular value of the standardised columns.
    pub(super) fn condition_number(&self) -> f64 {
        self.condition_number
    }

    /// Least squares for `response`: every pass solves for the correction that the present residuals,
    /// computed with twice the digits, ask for.
    pub(super) fn solve(&self, response: &[f64]) -> Solution {
        let mut centred = vec![DoubleDouble::ZERO; self.columns.len() + 1];
        let mut last_correction = f64::INFINITY;
        for _ in 0..REFINEMENT_PASSES {
            let gradient = self.gradient(&self.residuals(response, &centred));
            let r_inverse = &self.basis.r_inverse;
            let correction = r_inverse * r_inverse.tr_mul(&gradient);
            for (value, step) in centred.iter_mut().zip(&correction) {
                *value += DoubleDouble::from(*step);
            }
            // In the norm of the fitted values, which weighs the coefficients against each other.
            let size = (&self.r * &correction).norm();
            let whole = DVector::from_iterator(centred.len(), centred.iter().map(|c| c.hi));
            if size <= REFINED * (&self.r * whole).norm() || size > 0.5 * last_correction {
                break;
            }
            last_correction = size;
        }
        self.solution(response, centred)
    }

    /// The fit that lies `change` away from `from` in the orthonormal basis, its residuals computed
    /// afresh.
    pub(super) fn moved(
        &self,
        response: &[f64],
        from: &Solution,
        change: &DVector<f64>,
    ) -> Solution {
        let mut centred = from.centred.clone();
        for (value, step) in centred.iter_mut().zip(&(&self.basis.r_inverse * change)) {
            *value += DoubleDouble::from(*step);
        }
        self.solution(response, centred)
    }

    fn solution(&self, response: &[f64], centred: Vec<DoubleDouble>) -> Solution {
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

    /// The triangular factor of `[1, centred and scaled columns]`. Its columns have the signs of the
    /// terms.
    pub(super) fn triangle(&self) -> &DMatrix<f64> {
        &self.r
    }

    /// The least-squares solution in the orthonormal basis, `Q'y`.
    pub(super) fn orthonormal_solution(&self, response: &[f64]) -> DVector<f64> {
        let solution = self.solve(response);
        let centred = solution.centred.iter().map(|value| value.hi);
        &self.r * DVector::from_iterator(solution.centred.len(), centred)
    }

    /// Row `row` of the orthonormal factor Q.
    pub(super) fn orthonormal_row(&self, row: usize) -> DVector<f64> {
        let centred: Vec<f64> =
            std::iter::once(1.0).chain(self.columns.iter().map(|column| column[row].hi)).collect();
        self.basis.orthonormal(&centred)
    }

    /// Coefficients of the raw columns: `b_j = g_j / scale_j`, and the constant moved back from
    /// the centre to zero.
    pub(super) fn raw_coefficients(&self, centred: &[DoubleDouble]) -> Vec<f64> {
        let mut constant = centred[0];
        let mut raw = vec![0.0];
        for ((&g, &centre), &scale) in
            centred[1..].iter().zip(&self.basis.centre).zip(&self.basis.scale)
        {
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
        let mut factor = self.basis.r_inverse.clone();
        for (term, (&centre, &scale)) in self.basis.centre.iter().zip(&self.basis.scale).enumerate()
        {
            for column in 0..factor.ncols() {
                let slope = factor[(term + 1, column)] / scale;
                factor[(term + 1, column)] = slope;
                factor[(0, column)] -= centre * slope;
            }
        }
        factor
    }

    /// `|z_j|² (Z'Z)⁻¹_jj`, which is `1 / (1 - R_j²)` for the regression of term j on the others.
    pub(super) fn variance_inflation(&self) -> Vec<f64> {
        let inflation = |term: usize| {
            let spread: f64 = self.r.column(term + 1).rows_range(1..).norm_squared();
            (spread * self.basis.r_inverse.row(term + 1).norm_squared()).max(1.0)
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
