//! Least squares with slopes that may not be negative.

use argmin::core::{Error, Executor, IterState, KV, Problem, Solver, State, TerminationReason};
use nalgebra::{DMatrix, DVector};
use wattrace_schema::{Flag, FlagSet, Reason};

use super::design::{Design, FitFailure};
use super::estimate::Estimate;
use super::factor::Factored;
use super::linear::{LinearFit, least_squares};

/// A fit with some slopes held at zero.
#[derive(Debug, Clone, PartialEq)]
pub struct NonNegativeFit {
    /// Estimates in the order of the design, the intercept first. Those at the boundary are zero
    /// and have no error.
    pub coefficients: Vec<Estimate>,
    /// Names of the terms held at zero.
    pub at_boundary: Vec<String>,
    /// Least squares on the remaining terms: their errors and covariance take the held terms as
    /// known to be zero.
    pub free: LinearFit,
    /// What a reader of the table must know, for programs.
    pub flags: FlagSet,
    /// What a reader of the table must know, in sentences.
    pub notes: Vec<String>,
}

/// Fits `design` by least squares under the condition that the slopes named in `non_negative` are
/// not below zero.
///
/// # Errors
/// Those of [`least_squares`]; [`Reason::InvalidInput`] for a name that is no term of the design;
/// [`Reason::NotConverged`] if the solver fails.
pub fn non_negative_least_squares(
    design: &Design,
    non_negative: &[&str],
) -> Result<NonNegativeFit, FitFailure> {
    check_names(design, non_negative)?;
    let factored = Factored::new(design)?;
    let constrained: Vec<bool> = design.names().map(|name| non_negative.contains(&name)).collect();
    let target = factored.orthonormal_solution(design.response());
    let free = solve(factored.triangle().clone(), target, &constrained)?;
    let held: Vec<&str> =
        design.names().zip(&free).filter(|(_, free)| !**free).map(|(name, _)| name).collect();
    let free = least_squares(&design.with_terms(|term| !held.contains(&term.name.as_str())))?;
    Ok(assemble(design, &held, free))
}

fn check_names(design: &Design, non_negative: &[&str]) -> Result<(), FitFailure> {
    let terms: Vec<&str> = design.terms().iter().map(|term| term.name.as_str()).collect();
    let Some(unknown) = non_negative.iter().find(|name| !terms.contains(name)) else {
        return Ok(());
    };
    let message = format!(
        "\"{unknown}\" cannot be held from below: it is not one of the terms {}",
        terms.join(", ")
    );
    Err(FitFailure::new(Reason::InvalidInput, message))
}

fn assemble(design: &Design, held: &[&str], free: LinearFit) -> NonNegativeFit {
    let coefficient = |name| free.coefficient(name).cloned();
    let coefficients = design
        .names()
        .map(|name| coefficient(name).unwrap_or_else(|| Estimate::fixed(name, 0.0)))
        .collect();
    let mut flags = free.flags;
    flags.insert_if(!held.is_empty(), Flag::AtBoundary);
    let mut notes = free.notes.clone();
    for name in held {
        notes.push(format!(
            "\"{name}\" is held at zero, where it would otherwise turn negative; it has no error, and the errors of the other terms take it as known."
        ));
    }
    let at_boundary = held.iter().map(|&name| name.to_owned()).collect();
    NonNegativeFit { coefficients, at_boundary, free, flags, notes }
}

/// Which coefficients are free at the minimum of `|R g - target|²` with `g_j >= 0` for the
/// constrained ones.
fn solve(
    r: DMatrix<f64>,
    target: DVector<f64>,
    constrained: &[bool],
) -> Result<Vec<bool>, FitFailure> {
    let solver = ActiveSet {
        free: constrained.iter().map(|constrained| !constrained).collect(),
        constrained: constrained.to_vec(),
    };
    // Every pass lowers the loss and so meets a new set of free terms; 3 per term is ample in
    // practice (Lawson and Hanson 1974, chapter 23).
    let passes = 3 * constrained.len() as u64 + 3;
    let start = vec![0.0; constrained.len()];
    let result = Executor::new(TriangularProblem { r, target }, solver)
        .configure(|state| state.param(start).max_iters(passes))
        .run();
    let reason = |result: &str| {
        FitFailure::new(
            Reason::NotConverged,
            format!("non-negative least squares did not converge: {result}"),
        )
    };
    let result = result.map_err(|error| reason(&error.to_string()))?;
    match result.state().get_termination_reason() {
        Some(TerminationReason::SolverConverged) => Ok(result.solver().free.clone()),
        Some(other) => Err(reason(other.text())),
        None => Err(reason("it did not end")),
    }
}

/// Least squares after the orthogonal factor is taken out: minimise `|R g - target|²`.
struct TriangularProblem {
    r: DMatrix<f64>,
    target: DVector<f64>,
}

impl TriangularProblem {
    /// Least squares on the free coefficients, zero for the others. The columns of a triangular
    /// factor without zeros on its diagonal are independent.
    fn solve_free(&self, free: &[bool]) -> Result<DVector<f64>, Error> {
        let indices: Vec<usize> = (0..free.len()).filter(|&index| free[index]).collect();
        let decomposition = self.r.select_columns(&indices).qr();
        let rotated = decomposition.q().tr_mul(&self.target);
        let solved = decomposition
            .r()
            .solve_upper_triangular(&rotated)
            .ok_or_else(|| Error::msg("the free terms are linearly dependent"))?;
        let mut coefficients = DVector::zeros(free.len());
        for (&index, value) in indices.iter().zip(&solved) {
            coefficients[index] = *value;
        }
        Ok(coefficients)
    }

    /// How fast the loss falls as each coefficient grows, over the length of its column: the cosine
    /// of residual and column times the length of the residual.
    fn descent(&self, coefficients: &DVector<f64>) -> DVector<f64> {
        let residual = &self.target - &self.r * coefficients;
        let descent = self.r.column_iter().map(|column| column.dot(&residual) / column.norm());
        DVector::from_iterator(coefficients.len(), descent)
    }
}

/// The active-set method of Lawson and Hanson, "Solving Least Squares Problems", Prentice-Hall
/// 1974, chapter 23. One iteration frees the held coefficient that lowers the loss fastest and
/// holds again what turns negative.
struct ActiveSet {
    free: Vec<bool>,
    constrained: Vec<bool>,
}

/// Descents below this share of the length of the centred response are rounding.
const DESCENT_TOLERANCE: f64 = 1e-12;

type ActiveSetState = IterState<Vec<f64>, (), (), (), (), f64>;

impl ActiveSet {
    /// The held coefficient whose growth lowers the loss fastest, if any does.
    fn steepest(&self, problem: &TriangularProblem, at: &DVector<f64>) -> Option<usize> {
        let descent = problem.descent(at);
        // The first entry is the mean of the response, which matters only through its rounding.
        let spread = problem.target.rows_range(1..).norm();
        let rounding = DESCENT_TOLERANCE * spread + f64::EPSILON * problem.target.norm();
        (0..self.free.len())
            .filter(|&index| !self.free[index] && descent[index] > rounding)
            .max_by(|&a, &b| descent[a].total_cmp(&descent[b]))
    }

    /// Moves from a feasible point towards the solution of the free coefficients, holding each that
    /// reaches zero on the way.
    fn descend(
        &mut self,
        problem: &TriangularProblem,
        mut feasible: DVector<f64>,
    ) -> Result<DVector<f64>, Error> {
        loop {
            let goal = problem.solve_free(&self.free)?;
            let blocking = (0..goal.len())
                .filter(|&index| self.constrained[index] && self.free[index] && goal[index] <= 0.0)
                .map(|index| (index, share_to_zero(feasible[index], goal[index])))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((index, share)) = blocking else { return Ok(goal) };
            feasible += (goal - &feasible) * share;
            feasible[index] = 0.0;
            self.free[index] = false;
        }
    }
}

/// How far on the way from `start`, which is not negative, to `goal`, which is not positive, zero
/// lies.
fn share_to_zero(start: f64, goal: f64) -> f64 {
    if start > 0.0 { start / (start - goal) } else { 0.0 }
}

impl Solver<TriangularProblem, ActiveSetState> for ActiveSet {
    fn name(&self) -> &str {
        "Lawson-Hanson active set"
    }

    fn init(
        &mut self,
        problem: &mut Problem<TriangularProblem>,
        state: ActiveSetState,
    ) -> Result<(ActiveSetState, Option<KV>), Error> {
        let start = problem.problem("least_squares_count", |p| p.solve_free(&self.free))?;
        Ok((state.param(start.as_slice().to_vec()), None))
    }

    fn next_iter(
        &mut self,
        problem: &mut Problem<TriangularProblem>,
        mut state: ActiveSetState,
    ) -> Result<(ActiveSetState, Option<KV>), Error> {
        let at = state.take_param().map(DVector::from_vec);
        let at = at.ok_or_else(|| Error::msg("the solver was not given a starting point"))?;
        let next = problem.problem("least_squares_count", |problem| {
            let Some(index) = self.steepest(problem, &at) else { return Ok(None) };
            self.free[index] = true;
            self.descend(problem, at.clone()).map(Some)
        })?;
        Ok(match next {
            Some(next) => (state.param(next.as_slice().to_vec()), None),
            None => {
                let state = state.param(at.as_slice().to_vec());
                (state.terminate_with(TerminationReason::SolverConverged), None)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Term;
    use super::super::known_answers::eight_cells;
    use super::*;

    #[test]
    fn without_negative_slopes_it_is_least_squares() {
        let design = eight_cells();
        let fit = non_negative_least_squares(&design, &["alpha", "beta", "p_tau_w"]).unwrap();
        assert_eq!(fit.coefficients, least_squares(&design).unwrap().coefficients);
        assert!(fit.at_boundary.is_empty() && !fit.flags.contains(Flag::AtBoundary));
    }

    #[test]
    fn a_negative_slope_is_held_and_the_others_refitted() {
        // Orthogonal columns ±1: slopes are means of products, 2 and -1, and holding the second
        // leaves the first as it is.
        let a = Term::new("a", vec![1.0, 1.0, -1.0, -1.0, 1.0, -1.0]);
        let b = Term::new("b", vec![1.0, -1.0, 1.0, -1.0, 0.0, 0.0]);
        let response = vec![6.0, 8.0, 2.0, 4.0, 7.5, 2.5];
        let design = Design::new("c", response, vec![a, b], (0..6).collect()).unwrap();
        let plain = least_squares(&design).unwrap();
        assert!((plain.coefficients[2].value + 1.0).abs() < 1e-14);
        let fit = non_negative_least_squares(&design, &["a", "b"]).unwrap();
        assert!((fit.coefficients[1].value - plain.coefficients[1].value).abs() < 1e-14);
        assert_eq!(fit.coefficients[2], Estimate::fixed("b", 0.0));
        assert_eq!(fit.at_boundary, ["b"]);
        assert!(fit.flags.contains(Flag::AtBoundary));
        assert_eq!(fit.free.k, 2);
        insta::assert_snapshot!(fit.notes.last().unwrap(), @r#""b" is held at zero, where it would otherwise turn negative; it has no error, and the errors of the other terms take it as known."#);
    }

    #[test]
    fn a_constant_response_holds_every_slope() {
        let x = Term::new("x", vec![0.0, 1.0, 2.0, 4.0]);
        let design = Design::new("c", vec![0.7; 4], vec![x], vec![0, 1, 2, 3]).unwrap();
        let fit = non_negative_least_squares(&design, &["x"]).unwrap();
        assert_eq!(fit.at_boundary, ["x"]);
        assert_eq!(fit.coefficients[0].value, 0.7);
    }

    #[test]
    fn only_named_slopes_are_held() {
        let x = Term::new("x", vec![0.0, 1.0, 2.0, 3.0]);
        let design =
            Design::new("c", vec![5.0, 3.1, 0.9, -1.0], vec![x], vec![0, 1, 2, 3]).unwrap();
        let free = non_negative_least_squares(&design, &[]).unwrap();
        assert!((free.coefficients[1].value + 2.02).abs() < 1e-12);
        let held = non_negative_least_squares(&design, &["x"]).unwrap();
        assert!((held.coefficients[0].value - 2.0).abs() < 1e-15);
        let failure = non_negative_least_squares(&design, &["c"]).unwrap_err();
        assert_eq!(failure.reason, Reason::InvalidInput);
        insta::assert_snapshot!(failure, @r#""c" cannot be held from below: it is not one of the terms x"#);
    }

    proptest! {
        // Karush-Kuhn-Tucker: feasible, free residuals orthogonal, and no held term that would
        // lower the loss by growing. For a convex problem this is the minimum.
        #[test]
        fn the_optimality_conditions_hold(
            rows in prop::collection::vec(prop::collection::vec(-3.0..3.0, 6), 8..25),
        ) {
            let column = |index: usize| rows.iter().map(|row| row[index]).collect::<Vec<f64>>();
            let names = ["p", "q", "r", "s", "t"];
            let terms = names.iter().enumerate().map(|(i, &n)| Term::new(n, column(i))).collect();
            let design =
                Design::new("c", column(5), terms, (0..rows.len()).collect()).unwrap();
            let bounded = ["p", "q", "r", "s"];
            let fit = non_negative_least_squares(&design, &bounded).unwrap();
            let residuals = &fit.free.residuals;
            let length = fit.free.sum_squared_residuals.sqrt();
            for (term, estimate) in design.terms().iter().zip(&fit.coefficients[1..]) {
                let mean = term.column.iter().sum::<f64>() / rows.len() as f64;
                let centred = term.column.iter().map(|x| x - mean);
                let slope: f64 = centred.zip(residuals).map(|(x, r)| x * r).sum();
                let bound = bounded.contains(&term.name.as_str());
                prop_assert!(!bound || estimate.value >= 0.0);
                if fit.at_boundary.contains(&term.name) {
                    prop_assert!(bound && slope <= 1e-11 * length);
                } else {
                    prop_assert!(slope.abs() <= 1e-11 * length);
                }
            }
        }
    }
}
