//! The engine's own estimate of memory bandwidth utilisation: a second opinion, never the value.

use wattrace_schema::{EngineMetric, Interpolation, Interval, Reason, Run};

use crate::metrics::BYTES_PER_GB;
use crate::series::value_between;

/// vLLM's running estimate of the bytes that one GPU has read from its memory.
const READ_BYTES_PER_GPU: &str = "vllm:estimated_read_bytes_per_gpu_total";

/// Metrics of `engine.parquet` that the estimate is made of.
pub const ENGINE_METRICS: &[&str] = &[READ_BYTES_PER_GPU];

/// Estimated bytes read per second and GPU, mean over the engine's label sets, as a share of the rated
/// bandwidth of one GPU.
///
/// # Errors
/// [`Reason::NoEngineEstimate`] without a counter that rises over the window, [`Reason::NotCovered`] for
/// one that was not polled on both sides of it, [`Reason::NoBandwidth`].
pub(super) fn estimated_mbu(
    run: &Run,
    window: Interval,
    otherwise_gb_s: Option<f64>,
) -> Result<f64, Reason> {
    let counters: Vec<&EngineMetric> =
        run.engine_metrics.iter().filter(|metric| metric.name == READ_BYTES_PER_GPU).collect();
    if counters.is_empty() {
        return Err(Reason::NoEngineEstimate);
    }
    let bandwidth_gb_s = run
        .manifest
        .hardware
        .hbm_bandwidth_gb_s
        .or(otherwise_gb_s)
        .filter(|gb_s| gb_s.is_finite() && *gb_s > 0.0)
        .ok_or(Reason::NoBandwidth)?;
    let rates = counters
        .iter()
        .map(|counter| bytes_per_second(counter, window))
        .collect::<Result<Vec<_>, _>>()?;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    Ok(mean / (bandwidth_gb_s * BYTES_PER_GB))
}

/// A counter that falls was restarted, and one that stands still was not switched on.
fn bytes_per_second(counter: &EngineMetric, window: Interval) -> Result<f64, Reason> {
    let at = |t_ns| {
        value_between(&counter.samples, Interpolation::Linear, t_ns).ok_or(Reason::NotCovered)
    };
    let bytes = at(window.end_ns)? - at(window.start_ns)?;
    if counter.samples.value.is_sorted() && bytes > 0.0 {
        Ok(bytes / window.duration_s())
    } else {
        Err(Reason::NoEngineEstimate)
    }
}
