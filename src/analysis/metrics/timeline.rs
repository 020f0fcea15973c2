//! A run's power over time and its stages, on one time axis.

use wattrace_schema::{Interval, Reason, Run};

use super::{MetricRow, windows};
use crate::outcome::Value;
use crate::series::{self, PowerBin, power_bins};

/// Bins of a run's power: as many as a figure one column wide can show.
pub const TIMELINE_BINS: usize = 600;

/// A stage of a run and its window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageWindow {
    /// idle, startup, formal, steady, release or decode.
    pub stage: &'static str,
    /// Its window.
    pub window: Interval,
}

/// A run's power over time and its stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// From when offsets count: the first binned sample; the first stage of a run without power.
    pub origin_ns: i64,
    /// All accelerators together, or why there is nothing.
    pub accelerators: Result<Vec<PowerBin>, Reason>,
    /// The node, or why there is nothing.
    pub node: Result<Vec<PowerBin>, Reason>,
    /// The stages that the run has stamps of, in the order in which they began.
    pub stages: Vec<StageWindow>,
}

/// The timeline of a run whose metrics are `metrics`; `None` for a run without power and stamps.
#[must_use]
pub fn timeline(run: &Run, metrics: &MetricRow) -> Option<Timeline> {
    let bins = |set: Result<series::DeviceSet<'_>, Reason>| power_bins(&set?, TIMELINE_BINS);
    let accelerators = bins(series::accelerators(run));
    let node = bins(series::node(run));
    let stages = stages(run, metrics);
    let first = |bins: &Result<Vec<PowerBin>, Reason>| {
        bins.as_ref().ok()?.first().map(|bin| bin.interval.start_ns)
    };
    let sampled = [first(&accelerators), first(&node)].into_iter().flatten().min();
    let stamped = stages.first().map(|stage| stage.window.start_ns);
    Some(Timeline { origin_ns: sampled.or(stamped)?, accelerators, node, stages })
}

fn stages(run: &Run, metrics: &MetricRow) -> Vec<StageWindow> {
    let stamps = &run.manifest.stages;
    let formal = windows::formal(stamps);
    let time = |metric: &str| match metrics.get(metric)?.value {
        Ok(Value::Time(t_ns)) => Some(t_ns),
        _ => None,
    };
    let within = |start_ns: Option<i64>, end_ns: Option<i64>| {
        Some(Interval::new(start_ns?, end_ns?)).filter(|window| window.start_ns < window.end_ns)
    };
    let formal_end = formal.ok().map(|window| window.end_ns);
    let mut stages: Vec<StageWindow> = [
        ("idle", windows::idle(stamps).ok()),
        ("startup", windows::startup(stamps).ok()),
        ("formal", formal.ok()),
        ("steady", within(time("steady_start"), formal_end)),
        ("release", within(formal_end, time("release_end"))),
        ("decode", windows::decode(stamps).ok()),
    ]
    .into_iter()
    .filter_map(|(stage, window)| Some(StageWindow { stage, window: window? }))
    .collect();
    stages.sort_by_key(|stage| stage.window.start_ns);
    stages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::metrics::analyze;

    /// Two boards at 100 W and 200 W for 30 s, a formal window from 10 s to 20 s.
    fn run() -> Run {
        let manifest = serde_json::from_str(
            r#"{"schema_version": 1, "run_id": "r", "kind": "serving", "model": {"name": "m"},
                "hardware": {"accelerator": "H100", "count": 2},
                "stages": {"formal_start": "1970-01-01T00:00:10Z", "formal_end": "1970-01-01T00:00:20Z"},
                "power_sources": [{"id": "meter", "scope": "gpu-board", "reading": "instant",
                    "nominal_interval_ms": 1000.0}]}"#,
        )
        .unwrap();
        let device = |device: &str, power_w: f64| wattrace_schema::DevicePower {
            device: device.into(),
            power_w: wattrace_schema::Series {
                t_ns: (0..=30).map(|second| second * 1_000_000_000).collect(),
                value: vec![power_w; 31],
            },
            ..Default::default()
        };
        Run {
            manifest,
            power: vec![device("gpu0", 100.0), device("gpu1", 200.0)],
            requests: None,
            steps: None,
            accuracy: Vec::new(),
            accelerators: Vec::new(),
            engine_metrics: Vec::new(),
        }
    }

    #[test]
    fn a_run_has_its_power_and_the_stages_it_stamped() {
        let run = run();
        let timeline = timeline(&run, &analyze(&run, &Options::default()).metrics).unwrap();
        assert_eq!(timeline.origin_ns, 0);
        let bins = timeline.accelerators.unwrap();
        assert_eq!((bins.len(), bins[29].mean_w, bins[29].samples), (30, 300.0, 4));
        assert_eq!(timeline.node, Err(Reason::NoNodePower));
        let window = Interval::new(10_000_000_000, 20_000_000_000);
        assert_eq!(timeline.stages, [StageWindow { stage: "formal", window }]);
    }

    #[test]
    fn a_run_without_power_counts_from_its_first_stage() {
        let mut run = run();
        run.power.clear();
        let metrics = analyze(&run, &Options::default()).metrics;
        let timeline = timeline(&run, &metrics).unwrap();
        assert_eq!(timeline.origin_ns, 10_000_000_000);
        assert_eq!(timeline.accelerators, Err(Reason::NoGpuPower));
    }
}
