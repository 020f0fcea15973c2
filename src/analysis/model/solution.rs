//! A solved design, by whichever method.

use nalgebra::DVector;
use serde::Serialize;
use wattrace_schema::FlagSet;

use crate::stats::{
    self, Design, Estimate, FitFailure, LinearFit, NonNegativeFit, RobustFit, huber, least_squares,
    non_negative_least_squares, t_critical,
};

/// How coefficients are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitMethod {
    /// Ordinary least squares.
    #[default]
    Ols,
    /// Huber's robust estimator: runs far off count less.
    Huber,
    /// Least squares in which no coefficient but the constant may be negative.
    NonNegative,
}

impl FitMethod {
    /// The name in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ols => "ols",
            Self::Huber => "huber",
            Self::NonNegative => "non-negative",
        }
    }

    /// What it is, in words.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ols => "ordinary least squares",
            Self::Huber => "Huber's robust estimator",
            Self::NonNegative => "least squares, no coefficient but the constant negative",
        }
    }
}

/// What a solution expects at one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub(super) value: f64,
    /// Standard error for a single new run.
    pub(super) std_error: f64,
    /// 95% interval for a single new run.
    pub(super) interval: (f64, f64),
}

/// A solved design.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Solution {
    Ols(LinearFit),
    Huber { fit: RobustFit, r_squared: Option<f64> },
    NonNegative { fit: NonNegativeFit, free: Vec<bool> },
}

impl Solution {
    /// Solves `design` by `method`.
    ///
    /// # Errors
    /// Those of the method.
    pub(super) fn of(design: &Design, method: FitMethod) -> Result<Self, FitFailure> {
        match method {
            FitMethod::Ols => least_squares(design).map(Self::Ols),
            FitMethod::Huber => {
                let fit = huber(design)?;
                let r_squared = r_squared(design.response(), &fit.residuals);
                Ok(Self::Huber { fit, r_squared })
            }
            FitMethod::NonNegative => {
                let names: Vec<&str> = design.names().skip(1).collect();
                let fit = non_negative_least_squares(design, &names)?;
                let held = |name: &str| fit.at_boundary.iter().any(|held| held == name);
                let free = names.iter().map(|name| !held(name)).collect();
                Ok(Self::NonNegative { fit, free })
            }
        }
    }

    /// Coefficients, the constant first.
    pub(super) fn estimates(&self) -> &[Estimate] {
        match self {
            Self::Ols(fit) => &fit.coefficients,
            Self::Huber { fit, .. } => &fit.coefficients,
            Self::NonNegative { fit, .. } => &fit.coefficients,
        }
    }

    /// The cluster-robust estimate of one coefficient, where the method has one.
    pub(super) fn cluster_robust(&self, name: &str) -> Option<&Estimate> {
        let fit = match self {
            Self::Ols(fit) => fit,
            Self::Huber { .. } => return None,
            Self::NonNegative { fit, .. } => &fit.free,
        };
        let robust = fit.cluster_robust.as_ref().ok()?;
        robust.coefficients.iter().find(|estimate| estimate.name == name)
    }

    pub(super) fn df_residual(&self) -> usize {
        match self {
            Self::Ols(fit) => fit.df_residual,
            Self::Huber { fit, .. } => fit.n - fit.k,
            Self::NonNegative { fit, .. } => fit.free.df_residual,
        }
    }

    pub(super) fn r_squared(&self) -> Option<f64> {
        match self {
            Self::Ols(fit) => fit.r_squared,
            Self::Huber { r_squared, .. } => *r_squared,
            Self::NonNegative { fit, .. } => fit.free.r_squared,
        }
    }

    /// Standard deviation of residuals; for Huber's estimator their robust scale.
    pub(super) fn residual_std(&self) -> f64 {
        match self {
            Self::Ols(fit) => fit.residual_std,
            Self::Huber { fit, .. } => fit.scale,
            Self::NonNegative { fit, .. } => fit.free.residual_std,
        }
    }

    pub(super) fn flags(&self) -> FlagSet {
        match self {
            Self::Ols(fit) => fit.flags,
            Self::Huber { .. } => FlagSet::EMPTY,
            Self::NonNegative { fit, .. } => fit.flags,
        }
    }

    pub(super) fn notes(&self) -> &[String] {
        match self {
            Self::Ols(fit) => &fit.notes,
            Self::Huber { fit, .. } => &fit.notes,
            Self::NonNegative { fit, .. } => &fit.notes,
        }
    }

    /// What it expects at one value per term.
    pub(super) fn expect(&self, at: &[f64]) -> Expected {
        match self {
            Self::Ols(fit) => from_prediction(fit.predict(at)),
            Self::Huber { fit, .. } => expect_robust(fit, at),
            Self::NonNegative { fit, free } => {
                let kept = at.iter().zip(free).filter(|(_, free)| **free);
                from_prediction(fit.free.predict(&kept.map(|(x, _)| *x).collect::<Vec<f64>>()))
            }
        }
    }
}

fn from_prediction(prediction: stats::Prediction) -> Expected {
    Expected {
        value: prediction.value,
        std_error: prediction.std_error,
        interval: prediction.interval,
    }
}

fn expect_robust(fit: &RobustFit, at: &[f64]) -> Expected {
    let row = DVector::from_iterator(fit.k, std::iter::once(1.0).chain(at.iter().copied()));
    let value = fit.coefficients.iter().zip(&row).map(|(b, x)| b.value * x).sum::<f64>();
    let of_mean = (row.transpose() * &fit.covariance * &row)[0].max(0.0);
    let std_error = fit.scale.hypot(of_mean.sqrt());
    let half_width = t_critical(fit.n - fit.k) * std_error;
    Expected { value, std_error, interval: (value - half_width, value + half_width) }
}

fn r_squared(response: &[f64], residuals: &[f64]) -> Option<f64> {
    let mean = stats::mean(response)?;
    let total: f64 = response.iter().map(|y| (y - mean).powi(2)).sum();
    let left: f64 = residuals.iter().map(|r| r * r).sum();
    (total > 0.0).then(|| 1.0 - left / total)
}
