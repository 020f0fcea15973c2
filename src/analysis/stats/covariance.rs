//! Cluster-robust covariance of least-squares coefficients.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use wattrace_schema::Reason;

use super::design::{Design, FitFailure};
use super::estimate::{Estimate, t_critical};
use super::factor::Factored;

/// Estimates whose errors allow the rows of one cluster to err together (CR1).
///
/// `V = G/(G-1) · (N-1)/(N-K) · (X'X)⁻¹ (Σ_g X_g' u_g u_g' X_g) (X'X)⁻¹`; intervals use Student's t
/// with `G - 1` degrees of freedom. Cameron and Miller, "A practitioner's guide to cluster-robust
/// inference", Journal of Human Resources 50 (2015).
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterRobust {
    /// Distinct clusters, G.
    pub clusters: usize,
    /// `G - 1`.
    pub degrees_of_freedom: usize,
    /// The least-squares estimates, the intercept first, with cluster-robust errors.
    pub coefficients: Vec<Estimate>,
    /// Covariance of the coefficients.
    pub covariance: DMatrix<f64>,
}

pub(super) fn cluster_robust(
    design: &Design,
    factored: &Factored,
    values: &[f64],
    residuals: &[f64],
) -> Result<ClusterRobust, FitFailure> {
    let (n, k) = (design.rows(), design.coefficients());
    let scores = cluster_scores(design.clusters(), factored, residuals);
    let clusters = scores.len();
    if clusters <= k {
        let message = format!("{clusters} clusters cannot give errors for {k} coefficients");
        return Err(FitFailure::new(Reason::TooFewClusters, message));
    }
    let factor = factored.raw_factor();
    let mut covariance = DMatrix::zeros(k, k);
    for score in scores.values() {
        let influence = &factor * score;
        covariance += &influence * influence.transpose();
    }
    let (g, n, k) = (clusters as f64, n as f64, k as f64);
    covariance *= g / (g - 1.0) * (n - 1.0) / (n - k);
    let degrees_of_freedom = clusters - 1;
    let critical = t_critical(degrees_of_freedom);
    let coefficients = design
        .names()
        .zip(values)
        .enumerate()
        .map(|(index, (name, &value))| {
            let std_error = covariance[(index, index)].sqrt();
            Estimate::with_interval(name, value, std_error, critical)
        })
        .collect();
    Ok(ClusterRobust { clusters, degrees_of_freedom, coefficients, covariance })
}

/// `Q_g' u_g` of every cluster, by label: sums in the orthonormal basis, where nothing cancels.
fn cluster_scores(
    labels: &[usize],
    factored: &Factored,
    residuals: &[f64],
) -> BTreeMap<usize, DVector<f64>> {
    let mut scores = BTreeMap::new();
    for (row, (&label, &residual)) in labels.iter().zip(residuals).enumerate() {
        let contribution = factored.orthonormal_row(row) * residual;
        scores.entry(label).and_modify(|sum| *sum += &contribution).or_insert(contribution);
    }
    scores
}
