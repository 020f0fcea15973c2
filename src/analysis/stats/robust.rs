//! Huber's M-estimator: least squares for most rows, least absolute deviations for the outlying ones.

use argmin::core::{CostFunction, Error, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use nalgebra::{DMatrix, DVector};
use wattrace_schema::Reason;

use super::design::{Design, FitFailure};
use super::double_double::accurate_sum;
use super::estimate::{Estimate, t_critical};
use super::factor::{Factored, Solution};
use super::sample::median;

/// Residuals beyond this many scales count by their size, not by their square. With it the estimator
/// keeps 95% of the efficiency of least squares when errors are normal (Huber 1964).
pub const HUBER_THRESHOLD: f64 = 1.345;

/// Median absolute value of a standard normal variable.
const NORMAL_MEDIAN_DEVIATION: f64 = 0.674_489_750_196_081_7;

/// A robust fit. Its errors are asymptotic: trustworthy with many rows only.
#[derive(Debug, Clone, PartialEq)]
pub struct RobustFit {
    /// Rows.
    pub n: usize,
    /// Coefficients, the intercept included.
    pub k: usize,
    /// Estimates, the intercept first, with asymptotic errors and t intervals at `n - k`.
    pub coefficients: Vec<Estimate>,
    /// Asymptotic covariance of the coefficients (Huber, "Robust Statistics", Wiley 1981,
    /// section 7.6, with its correction for the count of coefficients).
    pub covariance: DMatrix<f64>,
    /// Robust standard deviation of the residuals, in units of the response: their median absolute
    /// value over 0.6745.
    pub scale: f64,
    /// Weight of every row: 1 within the threshold, smaller the further out it lies.
    pub weights: Vec<f64>,
    /// Response minus fitted value, one a row.
    pub residuals: Vec<f64>,
    /// Fitted value, one a row.
    pub fitted: Vec<f64>,
    /// What a reader of the table must know.
    pub notes: Vec<String>,
}

/// Changes of scale that count as none.
const SCALE_TOLERANCE: f64 = 1e-13;
const SCALE_PASSES: usize = 500;
/// After so many passes the scale goes half the way only, in case it swings between two values.
const UNDAMPED_PASSES: usize = 50;

/// Fits `design` with Huber's loss at [`HUBER_THRESHOLD`] scales, the scale being that of the fit's
/// own residuals.
///
/// # Errors
/// Those of [`least_squares`](super::least_squares); [`Reason::ExactFit`] if over half of the rows
/// are fitted exactly, so that there is no scale; [`Reason::NotConverged`] if scale and
/// coefficients find no common solution.
pub fn huber(design: &Design) -> Result<RobustFit, FitFailure> {
    let factored = Factored::new(design)?;
    let start = factored.solve(design.response());
    let scale = median_scale(&start.residuals);
    let (solution, scale) = match rounding_only(design, &start.residuals)? {
        true => (start, scale),
        false => Search::new(design, &factored).settle(start, scale)?,
    };
    Ok(assemble(design, &factored, solution, scale))
}

/// What rounding of the response alone may leave as residuals.
fn rounding_of(design: &Design) -> f64 {
    4.0 * f64::EPSILON * design.response().iter().fold(0.0f64, |max, y| max.max(y.abs()))
}

/// Whether all least-squares residuals are mere rounding; an error if only those of most rows are.
fn rounding_only(design: &Design, residuals: &[f64]) -> Result<bool, FitFailure> {
    let rounding = rounding_of(design);
    if median_scale(residuals) > rounding {
        return Ok(false);
    }
    let exact = residuals.iter().filter(|r| r.abs() <= rounding).count();
    if exact == residuals.len() {
        return Ok(true);
    }
    let message = format!(
        "least squares fits {exact} of {} rows exactly, so the residuals have no robust scale",
        residuals.len()
    );
    Err(FitFailure::new(Reason::ExactFit, message))
}

fn median_scale(residuals: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    median(&mut sizes).expect("a factored design has rows") / NORMAL_MEDIAN_DEVIATION
}

/// The gradient of the loss at its minimum, over what it could be: the threshold times √n.
const GRADIENT_TOLERANCE: f64 = 1e-13;
const NEWTON_STEPS: usize = 50;

/// The search for coefficients and a scale that fit each other.
struct Search<'a> {
    design: &'a Design,
    factored: &'a Factored,
    /// The orthonormal basis of the columns.
    rows: Vec<DVector<f64>>,
}

impl<'a> Search<'a> {
    fn new(design: &'a Design, factored: &'a Factored) -> Self {
        let rows = (0..design.rows()).map(|row| factored.orthonormal_row(row)).collect();
        Self { design, factored, rows }
    }

    /// Alternates between the coefficients for a scale and the scale of their residuals until both
    /// stay.
    fn settle(&self, start: Solution, scale: f64) -> Result<(Solution, f64), FitFailure> {
        let rounding = rounding_of(self.design);
        let (mut solution, mut scale) = (start, scale);
        for pass in 0..SCALE_PASSES {
            solution = self.minimise(&solution, scale)?;
            let next = median_scale(&solution.residuals);
            // At the rounding of the response there is nothing left to refine.
            if (next - scale).abs() <= SCALE_TOLERANCE * scale || next <= rounding {
                return Ok((solution, next));
            }
            scale = if pass < UNDAMPED_PASSES { next } else { (scale * next).sqrt() };
        }
        let message = format!("the scale of the residuals did not settle in {SCALE_PASSES} passes");
        Err(FitFailure::new(Reason::NotConverged, message))
    }

    /// The coefficients at which the loss is smallest. Quasi-Newton steps find their neighbourhood;
    /// there the loss is quadratic, and Newton steps give the rest of the digits.
    fn minimise(&self, start: &Solution, scale: f64) -> Result<Solution, FitFailure> {
        let unmoved = DVector::zeros(self.design.coefficients());
        let tolerance = GRADIENT_TOLERANCE * HUBER_THRESHOLD * (self.rows.len() as f64).sqrt();
        let mut solution = self.moved(start, &self.loss(start, scale).approach(), scale);
        for _ in 0..NEWTON_STEPS {
            let loss = self.loss(&solution, scale);
            let slope = loss.slope(&unmoved);
            if slope.norm() <= tolerance {
                return Ok(solution);
            }
            let Some(curvature) = loss.curvature().cholesky() else { break };
            solution = self.moved(&solution, &-curvature.solve(&slope), scale);
        }
        let message = "Huber's loss was not minimised: too few rows lie near the fit".to_owned();
        Err(FitFailure::new(Reason::NotConverged, message))
    }

    fn loss<'b>(&'b self, solution: &'b Solution, scale: f64) -> HuberLoss<'b> {
        HuberLoss { rows: &self.rows, residuals: &solution.residuals, scale }
    }

    fn moved(&self, from: &Solution, scaled: &DVector<f64>, scale: f64) -> Solution {
        self.factored.moved(self.design.response(), from, &(scaled * scale))
    }
}

/// `Σ ρ(r_i / scale)` with `ρ(v) = v²/2` up to the threshold c and `c|v| - c²/2` beyond, as a
/// function of a step in the orthonormal basis, in units of the scale.
#[derive(Clone, Copy)]
struct HuberLoss<'a> {
    rows: &'a [DVector<f64>],
    /// Before the step.
    residuals: &'a [f64],
    scale: f64,
}

impl HuberLoss<'_> {
    /// A step into the neighbourhood of the minimum. If the solver gives up there is no step;
    /// whether that does, the Newton steps find out.
    fn approach(self) -> DVector<f64> {
        const MEMORY: usize = 7;
        const ITERATIONS: u64 = 100;
        let unmoved = vec![0.0; self.rows[0].len()];
        let solver: LBFGS<_, Vec<f64>, Vec<f64>, f64> =
            LBFGS::new(MoreThuenteLineSearch::new(), MEMORY);
        let run = Executor::new(self, solver)
            .configure(|state| state.param(unmoved.clone()).max_iters(ITERATIONS))
            .run();
        let found = run.ok().and_then(|result| result.state().get_best_param().cloned());
        DVector::from_vec(found.unwrap_or(unmoved))
    }

    fn standardised(&self, step: &DVector<f64>) -> impl Iterator<Item = (&DVector<f64>, f64)> {
        let residuals = self.rows.iter().zip(self.residuals);
        residuals.map(move |(row, residual)| (row, residual / self.scale - row.dot(step)))
    }

    fn slope(&self, step: &DVector<f64>) -> DVector<f64> {
        let mut slope = DVector::zeros(step.len());
        for (row, v) in self.standardised(step) {
            slope.axpy(-psi(v), row, 1.0);
        }
        slope
    }

    /// The second derivative where no step is taken.
    fn curvature(&self) -> DMatrix<f64> {
        let unmoved = DVector::zeros(self.rows[0].len());
        let mut curvature = DMatrix::zeros(unmoved.len(), unmoved.len());
        for (row, v) in self.standardised(&unmoved) {
            if v.abs() <= HUBER_THRESHOLD {
                curvature.ger(1.0, row, row, 1.0);
            }
        }
        curvature
    }
}

/// Derivative of Huber's loss.
fn psi(v: f64) -> f64 {
    v.clamp(-HUBER_THRESHOLD, HUBER_THRESHOLD)
}

impl CostFunction for HuberLoss<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, step: &Vec<f64>) -> Result<f64, Error> {
        let loss = |v: f64| match v.abs() {
            size if size <= HUBER_THRESHOLD => v * v / 2.0,
            size => HUBER_THRESHOLD * (size - HUBER_THRESHOLD / 2.0),
        };
        let step = DVector::from_column_slice(step);
        Ok(self.standardised(&step).map(|(_, v)| loss(v)).sum())
    }
}

impl Gradient for HuberLoss<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, step: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(self.slope(&DVector::from_column_slice(step)).as_slice().to_vec())
    }
}

fn assemble(design: &Design, factored: &Factored, solution: Solution, scale: f64) -> RobustFit {
    let (n, k) = (design.rows(), design.coefficients());
    let values = factored.raw_coefficients(&solution.centred);
    let residuals = solution.residuals;
    let raw_factor = factored.raw_factor();
    let variance = asymptotic_variance(&residuals, scale, k);
    let critical = t_critical(n - k);
    let std_errors = raw_factor.row_iter().map(|row| variance.sqrt() * row.norm());
    let coefficients = design
        .names()
        .zip(&values)
        .zip(std_errors)
        .map(|((name, &value), error)| Estimate::with_interval(name, value, error, critical))
        .collect();
    let weights: Vec<f64> = residuals.iter().map(|&r| weight(r, scale)).collect();
    RobustFit {
        n,
        k,
        coefficients,
        covariance: &raw_factor * raw_factor.transpose() * variance,
        scale,
        notes: notes(&weights),
        weights,
        fitted: design.response().iter().zip(&residuals).map(|(y, r)| y - r).collect(),
        residuals,
    }
}

/// `ψ(v) / v`.
fn weight(residual: f64, scale: f64) -> f64 {
    let limit = HUBER_THRESHOLD * scale;
    if residual.abs() <= limit { 1.0 } else { limit / residual.abs() }
}

/// What takes the place of s² in `s² (X'X)⁻¹`:
/// `κ² [Σ ψ² / (n - k)] / [mean ψ']² · scale²`, with `κ = 1 + k/n · var ψ' / (mean ψ')²`.
fn asymptotic_variance(residuals: &[f64], scale: f64, coefficients: usize) -> f64 {
    if scale == 0.0 {
        return 0.0;
    }
    let (n, k) = (residuals.len() as f64, coefficients as f64);
    let inside = residuals.iter().filter(|r| r.abs() <= HUBER_THRESHOLD * scale).count() as f64 / n;
    let kappa = 1.0 + k / n * (inside * (1.0 - inside)) / (inside * inside);
    let squares = accurate_sum(residuals.iter().map(|r| psi(r / scale).powi(2)));
    (kappa * scale / inside).powi(2) * squares / (n - k)
}

fn notes(weights: &[f64]) -> Vec<String> {
    let reduced = weights.iter().filter(|&&weight| weight < 1.0).count();
    vec![
        format!(
            "Huber's loss with threshold {HUBER_THRESHOLD}; the scale is the median absolute residual over 0.6745."
        ),
        format!("{reduced} of {} rows lie beyond the threshold and count less.", weights.len()),
        "Standard errors are asymptotic (Huber 1981); with few rows they are rough.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::known_answers::eight_cells;
    use super::super::random::Stream;
    use super::super::{Term, least_squares};
    use super::*;

    #[test]
    fn estimates_and_errors_agree_with_statsmodels() {
        // statsmodels 0.15.0, RLM with HuberT(1.345), cov="H1": tests/peer/cluster_robust.py. It
        // iterates reweighted least squares until the deviance stays, to about nine digits.
        let fit = huber(&eight_cells()).unwrap();
        let values =
            [0.13869474714471702, 2.2635419212224592, 2.0703175784318995, 128.0891153804247];
        let errors =
            [0.09938193550118325, 0.3520289567797324, 0.18374258092515222, 42.83038128840572];
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-8 * b.abs(), "{a} against {b}");
        for (index, estimate) in fit.coefficients.iter().enumerate() {
            close(estimate.value, values[index]);
            close(estimate.std_error.unwrap(), errors[index]);
            close(fit.covariance[(index, index)].sqrt(), errors[index]);
        }
        close(fit.scale, 0.07202106849306067);
        close(fit.weights[23], 0.2218944629528072);
        insta::assert_snapshot!(fit.notes.join("\n"), @"
        Huber's loss with threshold 1.345; the scale is the median absolute residual over 0.6745.
        6 of 24 rows lie beyond the threshold and count less.
        Standard errors are asymptotic (Huber 1981); with few rows they are rough.
        ");
    }

    /// `y = 1 + 2 x` at 40 points with small normal errors.
    fn line() -> (Vec<f64>, Vec<f64>) {
        let mut stream = Stream::new(8, 0);
        let x: Vec<f64> = (0..40).map(|i| f64::from(i) / 4.0).collect();
        let y = x.iter().map(|x| 1.0 + 2.0 * x + 0.05 * stream.normal()).collect();
        (x, y)
    }

    fn design(x: &[f64], y: Vec<f64>) -> Design {
        let clusters = (0..y.len()).collect();
        Design::new("c", y, vec![Term::new("x", x.to_vec())], clusters).unwrap()
    }

    #[test]
    fn wild_rows_hardly_move_it() {
        let (x, mut y) = line();
        for row in [33, 36, 38] {
            y[row] += 1000.0;
        }
        let design = design(&x, y);
        let fit = huber(&design).unwrap();
        assert!((fit.coefficients[1].value - 2.0).abs() < 0.02);
        assert!((least_squares(&design).unwrap().coefficients[1].value - 2.0).abs() > 1.0);
        assert!(fit.weights[33] < 1e-3);
    }

    #[test]
    fn at_the_solution_the_clipped_residuals_are_orthogonal_to_the_columns() {
        let (x, mut y) = line();
        y[5] -= 3.0;
        let fit = huber(&design(&x, y)).unwrap();
        let clipped: Vec<f64> =
            fit.residuals.iter().zip(&fit.weights).map(|(r, w)| r * w / fit.scale).collect();
        assert!(clipped.iter().sum::<f64>().abs() < 1e-10);
        assert!(clipped.iter().zip(&x).map(|(c, x)| c * x).sum::<f64>().abs() < 1e-10);
        let mut sizes: Vec<f64> = fit.residuals.iter().map(|r| r.abs()).collect();
        assert!((median(&mut sizes).unwrap() / fit.scale - NORMAL_MEDIAN_DEVIATION).abs() < 1e-12);
    }

    #[test]
    fn without_outlying_rows_it_is_least_squares() {
        // Residuals ±1 alternate: scale 1 / 0.6745 = 1.48, threshold 1.99, nothing beyond it.
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let y = (0..20).map(|i| f64::from(3 * i) + if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let design = design(&x, y);
        let (robust, plain) = (huber(&design).unwrap(), least_squares(&design).unwrap());
        for (a, b) in robust.coefficients.iter().zip(&plain.coefficients) {
            assert!((a.value - b.value).abs() < 1e-12);
            assert!((a.std_error.unwrap() - b.std_error.unwrap()).abs() < 1e-12);
        }
    }

    #[test]
    fn exact_rows_are_recovered_in_spite_of_outliers() {
        let x: Vec<f64> = (0..12).map(f64::from).collect();
        let exact: Vec<f64> = x.iter().map(|x| 0.1 + 0.3 * x).collect();
        let fit = huber(&design(&x, exact.clone())).unwrap();
        assert!((fit.coefficients[1].value - 0.3).abs() < 1e-15);
        let mut spoiled = exact;
        spoiled[4] = 50.0;
        spoiled[9] = -7.0;
        let fit = huber(&design(&x, spoiled)).unwrap();
        assert!((fit.coefficients[1].value - 0.3).abs() < 1e-12, "{:?}", fit.coefficients);
    }

    #[test]
    fn errors_without_a_variance_do_not_stop_it() {
        // Cauchy errors: a ratio of two normal numbers.
        for seed in 0..500 {
            let mut stream = Stream::new(seed, 0);
            let x: Vec<f64> = (0..15).map(|_| stream.normal()).collect();
            let y = x.iter().map(|x| 5.0 - x + stream.normal() / stream.normal()).collect();
            let fit = huber(&design(&x, y)).unwrap();
            let clipped = fit.residuals.iter().zip(&fit.weights).map(|(r, w)| r * w / fit.scale);
            assert!(clipped.sum::<f64>().abs() < 1e-9, "seed {seed}");
        }
    }

    #[test]
    fn without_a_scale_it_is_refused() {
        // A step column fits the last row exactly whatever it is; the others are exact already but
        // for one that least squares cannot reach.
        let x = vec![0.0; 8].into_iter().chain([1.0, 1.0]).collect::<Vec<_>>();
        let y = vec![2.0; 8].into_iter().chain([5.0, 9.0]).collect();
        let failure = huber(&design(&x, y)).unwrap_err();
        assert_eq!(failure.reason, Reason::ExactFit);
        insta::assert_snapshot!(failure, @"least squares fits 8 of 10 rows exactly, so the residuals have no robust scale");
    }
}
