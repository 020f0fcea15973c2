//! The cell bootstrap: how much would the coefficients move with other cells?
//!
//! Runs of one cell err together, so cells are drawn, with replacement, and a drawn cell brings all
//! its rows (Cameron, Gelbach and Miller, "Bootstrap-based improvements for inference with clustered
//! errors", Review of Economics and Statistics 90, 2008: the pairs cluster bootstrap).

use std::collections::BTreeMap;

use rayon::prelude::*;
use wattrace_schema::Reason;

use super::design::{Design, FitFailure};
use super::estimate::CONFIDENCE_LEVEL;
use super::factor::Factored;
use super::random::Stream;
use super::sample::percentiles;

/// The coefficients of every resample.
///
/// Resample `i` draws the same cells for every design with the same clusters, so that two models
/// can be compared resample by resample.
#[derive(Debug, Clone, PartialEq)]
pub struct Resamples {
    /// Coefficients in a row, the intercept first.
    width: usize,
    coefficients: Vec<f64>,
    determined: Vec<bool>,
}

impl Resamples {
    /// Resamples drawn.
    #[must_use]
    pub fn requested(&self) -> usize {
        self.determined.len()
    }

    /// Resamples whose cells did not determine the coefficients (too few distinct ones); they are
    /// left out of every interval.
    #[must_use]
    pub fn undetermined(&self) -> usize {
        self.determined.iter().filter(|&&determined| !determined).count()
    }

    /// The coefficients of one resample, the intercept first; `None` if its cells did not determine
    /// them.
    #[must_use]
    pub fn coefficients(&self, resample: usize) -> Option<&[f64]> {
        let start = resample * self.width;
        self.determined[resample].then(|| &self.coefficients[start..start + self.width])
    }

    /// The 95% percentile interval of whatever `statistic` makes of the coefficients; `None` if no
    /// resample determined them.
    #[must_use]
    pub fn interval(&self, mut statistic: impl FnMut(&[f64]) -> f64) -> Option<(f64, f64)> {
        let mut values: Vec<f64> = (0..self.requested())
            .filter_map(|resample| self.coefficients(resample))
            .map(&mut statistic)
            .collect();
        percentile_interval(&mut values)
    }
}

/// The central 95% of resampled values; `None` if there are none.
pub(super) fn percentile_interval(values: &mut [f64]) -> Option<(f64, f64)> {
    let tail = (1.0 - CONFIDENCE_LEVEL) / 2.0;
    percentiles(values, &[tail, 1.0 - tail]).map(|ends| (ends[0], ends[1]))
}

/// Refits `design` on `resamples` draws of as many cells as it has clusters, each draw from a random
/// stream of its own: equal seeds give equal numbers on any count of threads.
///
/// # Errors
/// Those of [`least_squares`](super::least_squares), and [`Reason::OneCell`] with a single cluster.
pub fn cell_bootstrap(
    design: &Design,
    resamples: usize,
    seed: u64,
) -> Result<Resamples, FitFailure> {
    let factored = Factored::new(design)?;
    let cells = CellSums::new(design, &factored);
    if cells.count() < 2 {
        let message = "all rows lie in one cell, so there is nothing to resample".to_owned();
        return Err(FitFailure::new(Reason::OneCell, message));
    }
    let width = design.coefficients();
    let mut coefficients = vec![0.0; resamples * width];
    let determined = coefficients
        .par_chunks_mut(width)
        .enumerate()
        .map_init(
            || vec![0.0; cells.width],
            |sums, (index, found)| {
                cells.draw(&mut Stream::new(seed, index as u64), sums);
                cells.solve(sums, found)
            },
        )
        .collect();
    Ok(Resamples { width, coefficients, determined })
}

/// Normal equations of every cell, in the orthonormal basis of the whole design and for the
/// residuals of the whole fit. There the cross products of all cells add up to the identity and
/// the right-hand sides to zero: nothing is lost by working with cross products.
struct CellSums {
    /// Coefficients.
    k: usize,
    /// Numbers a cell: the lower triangle of the cross products by rows, then the right-hand side.
    width: usize,
    sums: Vec<f64>,
    estimate: Vec<f64>,
    /// From the orthonormal basis to coefficients, by rows.
    raw_factor: Vec<f64>,
}

impl CellSums {
    fn new(design: &Design, factored: &Factored) -> Self {
        let k = design.coefficients();
        let width = triangle(k) + k;
        let solution = factored.solve(design.response());
        let mut by_cell: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (row, &label) in design.clusters().iter().enumerate() {
            let cell = by_cell.entry(label).or_insert_with(|| vec![0.0; width]);
            let basis = factored.orthonormal_row(row);
            for i in 0..k {
                for j in 0..=i {
                    cell[triangle(i) + j] += basis[i] * basis[j];
                }
                cell[triangle(k) + i] += basis[i] * solution.residuals[row];
            }
        }
        Self {
            k,
            width,
            sums: by_cell.into_values().flatten().collect(),
            estimate: factored.raw_coefficients(&solution.centred),
            raw_factor: factored.raw_factor().transpose().as_slice().to_vec(),
        }
    }

    fn count(&self) -> usize {
        self.sums.len() / self.width
    }

    /// Adds up as many cells as there are, drawn with replacement.
    fn draw(&self, stream: &mut Stream, sums: &mut [f64]) {
        sums.fill(0.0);
        for _ in 0..self.count() {
            let start = stream.below(self.count()) * self.width;
            for (sum, cell) in sums.iter_mut().zip(&self.sums[start..start + self.width]) {
                *sum += cell;
            }
        }
    }

    /// Solves for the coefficients of the drawn cells; false if they do not determine them.
    fn solve(&self, sums: &mut [f64], coefficients: &mut [f64]) -> bool {
        let (matrix, change) = sums.split_at_mut(triangle(self.k));
        if !solve_in_place(matrix, change) {
            return false;
        }
        for (row, coefficient) in coefficients.iter_mut().enumerate() {
            let factor = &self.raw_factor[row * self.k..(row + 1) * self.k];
            *coefficient =
                self.estimate[row] + factor.iter().zip(&*change).map(|(f, c)| f * c).sum::<f64>();
        }
        true
    }
}

/// Entries in a lower triangle of `size` rows; also where row `size` starts.
const fn triangle(size: usize) -> usize {
    size * (size + 1) / 2
}

/// Share of a column's square that must be left after the other columns are taken out of it.
/// Solving loses as many digits as the share has zeros, so at least six remain.
const SMALLEST_PIVOT_SHARE: f64 = 1e-9;

/// Cholesky's method on a packed lower triangle; the solution replaces the right-hand side. False
/// if the matrix is singular.
fn solve_in_place(matrix: &mut [f64], right_hand_side: &mut [f64]) -> bool {
    let k = right_hand_side.len();
    for i in 0..k {
        for j in 0..=i {
            let products: f64 =
                (0..j).map(|m| matrix[triangle(i) + m] * matrix[triangle(j) + m]).sum();
            let entry = matrix[triangle(i) + j];
            let rest = entry - products;
            if i > j {
                matrix[triangle(i) + j] = rest / matrix[triangle(j) + j];
            } else if rest > SMALLEST_PIVOT_SHARE * entry {
                matrix[triangle(i) + i] = rest.sqrt();
            } else {
                return false;
            }
        }
    }
    for i in 0..k {
        let known: f64 = (0..i).map(|m| matrix[triangle(i) + m] * right_hand_side[m]).sum();
        right_hand_side[i] = (right_hand_side[i] - known) / matrix[triangle(i) + i];
    }
    for i in (0..k).rev() {
        let known: f64 = (i + 1..k).map(|m| matrix[triangle(m) + i] * right_hand_side[m]).sum();
        right_hand_side[i] = (right_hand_side[i] - known) / matrix[triangle(i) + i];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::known_answers::eight_cells;
    use super::super::{Term, least_squares};
    use super::*;

    /// The rows of `design` in the order in which resample `index` draws their cells.
    fn drawn(design: &Design, seed: u64, index: u64) -> Design {
        let labels: std::collections::BTreeSet<usize> = design.clusters().iter().copied().collect();
        let labels: Vec<usize> = labels.into_iter().collect();
        let mut stream = Stream::new(seed, index);
        let mut rows = Vec::new();
        for _ in 0..labels.len() {
            let label = labels[stream.below(labels.len())];
            rows.extend((0..design.rows()).filter(|&row| design.clusters()[row] == label));
        }
        let pick = |column: &[f64]| rows.iter().map(|&row| column[row]).collect();
        let terms = design.terms().iter().map(|t| Term::new(&t.name, pick(&t.column))).collect();
        let clusters = rows.iter().map(|&row| design.clusters()[row]).collect();
        Design::new("c", pick(design.response()), terms, clusters).unwrap()
    }

    #[test]
    fn a_resample_is_the_fit_of_its_cells() {
        let design = eight_cells();
        let resamples = cell_bootstrap(&design, 200, 11).unwrap();
        let mut compared = 0;
        for index in 0..200 {
            let Some(coefficients) = resamples.coefficients(index) else { continue };
            let fit = least_squares(&drawn(&design, 11, index as u64)).unwrap();
            for (computed, estimate) in coefficients.iter().zip(&fit.coefficients) {
                let scale = estimate.value.abs().max(estimate.std_error.unwrap());
                assert!((computed - estimate.value).abs() < 1e-8 * scale, "resample {index}");
            }
            compared += 1;
        }
        assert!(compared > 150, "{compared}");
    }

    #[test]
    fn equal_seeds_give_equal_resamples_on_any_count_of_threads() {
        let design = eight_cells();
        let on = |threads: usize, seed| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| cell_bootstrap(&design, 500, seed).unwrap())
        };
        assert_eq!(on(1, 5), on(4, 5));
        assert_ne!(on(1, 5), on(1, 6));
    }

    #[test]
    fn undetermined_resamples_are_counted_and_left_out() {
        // Two cells with one x each: a draw of one cell twice cannot give a slope.
        let x = Term::new("x", vec![0.0, 0.0, 1.0, 1.0]);
        let design = Design::new("c", vec![0.9, 1.1, 2.9, 3.1], vec![x], vec![0, 0, 1, 1]).unwrap();
        let resamples = cell_bootstrap(&design, 1000, 3).unwrap();
        // Half of the draws: 500 ± 16.
        assert!((resamples.undetermined() as i32 - 500).abs() < 80);
        let (low, high) = resamples.interval(|coefficients| coefficients[1]).unwrap();
        assert!((low - 2.0).abs() < 1e-12 && (high - 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_cell_cannot_be_resampled() {
        let x = Term::new("x", vec![0.0, 1.0, 2.0, 3.0]);
        let design = Design::new("c", vec![1.0, 2.0, 2.0, 4.0], vec![x], vec![7; 4]).unwrap();
        assert_eq!(cell_bootstrap(&design, 10, 0).unwrap_err().reason, Reason::OneCell);
    }

    #[test]
    fn the_interval_has_about_the_width_of_the_cluster_robust_one() {
        // 40 cells of five rows with an effect of each cell: enough for the two to agree roughly.
        let mut stream = Stream::new(20, 0);
        let effects: Vec<f64> = (0..40).map(|_| stream.normal()).collect();
        let x: Vec<f64> = (0..200).map(|_| stream.normal()).collect();
        let response =
            (0..200).map(|row| 3.0 * x[row] + effects[row / 5] + stream.normal()).collect();
        let clusters = (0..200).map(|row| row / 5).collect();
        let design = Design::new("c", response, vec![Term::new("x", x)], clusters).unwrap();
        let robust = least_squares(&design).unwrap().cluster_robust.unwrap();
        let resamples = cell_bootstrap(&design, 4000, 1).unwrap();
        for (index, estimate) in robust.coefficients.iter().enumerate() {
            let (low, high) = resamples.interval(|coefficients| coefficients[index]).unwrap();
            let ratio = (high - low) / (estimate.high.unwrap() - estimate.low.unwrap());
            assert!((0.8..1.2).contains(&ratio), "{ratio}");
        }
    }
}
