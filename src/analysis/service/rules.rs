//! What a spec asks of every run: the window, the objective, the rated bandwidth.

use serde::Serialize;
use wattrace_schema::spec::{LockedSpec, Slo};
use wattrace_schema::{Interval, NANOS_PER_SECOND, Reason, Stages};

use super::subject::SpecOrigin;

/// The part of the formal stage that counts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct WindowRule {
    /// From formal_start to the start of the window, s.
    pub warmup_s: f64,
    /// Length of the window, s; `None`: to the end of the formal stage.
    pub length_s: Option<f64>,
}

impl WindowRule {
    /// The whole formal stage, for runs without a spec.
    pub const WHOLE: Self = Self { warmup_s: 0.0, length_s: None };

    /// [formal_start + warmup_s, … + length_s].
    ///
    /// # Errors
    /// [`Reason::NoStamp`], [`Reason::EmptyWindow`], or [`Reason::FormalTooShort`] for a formal stage
    /// that ends before the window does.
    pub fn window(&self, stages: &Stages) -> Result<Interval, Reason> {
        let formal_end = stages.formal_end.map(|stamp| stamp.nanos());
        let formal_start = stages.formal_start.ok_or(Reason::NoStamp)?.nanos();
        let later = |from: i64, seconds: f64| {
            from.saturating_add((seconds * NANOS_PER_SECOND).round() as i64)
        };
        let start = later(formal_start, self.warmup_s);
        let end = match self.length_s {
            Some(length_s) => later(start, length_s),
            None => formal_end.ok_or(Reason::NoStamp)?,
        };
        if formal_end.is_some_and(|formal_end| formal_end < end) {
            return Err(Reason::FormalTooShort);
        }
        if end <= start {
            return Err(Reason::EmptyWindow);
        }
        Ok(Interval::new(start, end))
    }
}

/// The service-level objective: both percentiles must keep their limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Objective {
    /// Highest 99th percentile of the time to first token, ms.
    pub ttft_p99_ms: f64,
    /// Highest 99th percentile of the time per output token, ms.
    pub tpot_p99_ms: f64,
}

impl From<&Slo> for Objective {
    fn from(slo: &Slo) -> Self {
        Self { ttft_p99_ms: slo.ttft_p99_ms.get(), tpot_p99_ms: slo.tpot_p99_ms.get() }
    }
}

/// What every run of one report is measured by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceRules {
    /// Hash of the spec; `None` for rules that were given without one.
    pub spec_hash: Option<String>,
    /// Where the spec comes from; `None` without one.
    pub origin: Option<SpecOrigin>,
    /// The part of the formal stage that counts.
    pub window: WindowRule,
    /// The objective; `None`: no rate has a verdict.
    pub objective: Option<Objective>,
    /// Rated memory bandwidth of one accelerator for runs that do not say it, GB/s (1 GB = 1e9 B).
    pub hbm_bandwidth_gb_s: Option<f64>,
}

impl From<&LockedSpec> for ServiceRules {
    fn from(spec: &LockedSpec) -> Self {
        let fields = spec.fields();
        Self {
            spec_hash: Some(spec.hash().to_owned()),
            origin: Some(SpecOrigin::Run),
            window: WindowRule {
                warmup_s: fields.workload.warmup_s.get(),
                length_s: Some(fields.workload.window_s.get()),
            },
            objective: Some(Objective::from(&fields.slo)),
            hbm_bandwidth_gb_s: Some(fields.hardware.hbm_bandwidth_gb_s.get()),
        }
    }
}
