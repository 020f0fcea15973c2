//! What a user may choose about the computation; recorded with every result.

use serde::Serialize;

/// How many consecutive windows must be calm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyWindows {
    /// This many, one after the other.
    Count(usize),
    /// Every whole window to the end, two at least.
    All,
}

/// When a service counts as steady: windows of `size` requests, each with a coefficient of variation
/// of request energy per token below `cv`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SteadyRule {
    /// Requests of a window.
    pub size: usize,
    /// Upper bound of the coefficient of variation, exclusive.
    pub cv: f64,
    /// Consecutive windows that must satisfy it.
    pub windows: SteadyWindows,
}

impl Default for SteadyRule {
    fn default() -> Self {
        Self { size: 100, cv: 0.03, windows: SteadyWindows::Count(2) }
    }
}

impl SteadyRule {
    /// Successful requests below which the rule cannot be satisfied.
    #[must_use]
    pub fn requests_needed(&self) -> usize {
        let windows = match self.windows {
            SteadyWindows::Count(count) => count,
            SteadyWindows::All => 2,
        };
        self.size.saturating_mul(windows)
    }
}

/// Limits that a request must keep to count for request goodput; absent limits are not asked.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ServiceLevel {
    /// Time to first token, ms.
    pub ttft_ms: Option<f64>,
    /// Time per output token, ms.
    pub tpot_ms: Option<f64>,
    /// Time from sending to end, ms.
    pub e2e_ms: Option<f64>,
}

/// Options of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Options {
    /// When a service counts as steady.
    pub steady: SteadyRule,
    /// Limits for request goodput.
    pub service_level: Option<ServiceLevel>,
}
