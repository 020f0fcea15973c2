//! Cumulative energy counters: wraps, resets and stalls.

use wattrace_schema::{Interval, NANOS_PER_SECOND, Scope, Series};

/// What is known about the source of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CounterSource {
    /// Intended time between samples, ns.
    pub(crate) nominal_interval_ns: f64,
    /// Time between updates of the counter, ns, where known.
    pub(crate) refresh_ns: Option<f64>,
    /// Range after which the counter starts again from zero, J, where known.
    pub(crate) wrap_j: Option<f64>,
    /// What it measures.
    pub(crate) scope: Scope,
}

/// A counter made to rise: wraps unwrapped, resets bridged with nothing.
#[derive(Debug)]
pub(super) struct Rising {
    pub(super) series: Series,
    resets: Vec<Interval>,
    wraps: Vec<Interval>,
}

/// Makes a counter monotone. A fall is a wrap when the source declares its range and the energy that
/// the wrap implies is physically possible in that time; otherwise it is a reset, and the segment in
/// which it happened counts as nothing, since what was lost cannot be known.
pub(super) fn monotone(energy_j: &Series, source: &CounterSource) -> Rising {
    let mut rising = Rising { series: energy_j.clone(), resets: Vec::new(), wraps: Vec::new() };
    let mut offset_j = 0.0;
    for index in 1..energy_j.len() {
        let step_j = energy_j.value[index] - energy_j.value[index - 1];
        if step_j < 0.0 {
            let segment = Interval::new(energy_j.t_ns[index - 1], energy_j.t_ns[index]);
            let unwrapped_j = source.wrap_j.map(|wrap_j| step_j + wrap_j).filter(|unwrapped_j| {
                let limit_j = source.scope.power_ceiling_w() * segment.duration_s();
                *unwrapped_j >= 0.0 && *unwrapped_j <= limit_j
            });
            if let Some(unwrapped_j) = unwrapped_j {
                offset_j += unwrapped_j - step_j;
                rising.wraps.push(segment);
            } else {
                offset_j -= step_j;
                rising.resets.push(segment);
            }
        }
        rising.series.value[index] = energy_j.value[index] + offset_j;
    }
    rising
}

impl Rising {
    /// Seconds of `window` inside segments in which the counter was reset.
    pub(super) fn seconds_reset_in(&self, window: Interval) -> f64 {
        // An empty sum would be minus zero.
        self.resets.iter().fold(0.0, |sum, segment| sum + overlap_s(*segment, window))
    }

    /// Whether the counter wrapped inside `window`.
    pub(super) fn wrapped_in(&self, window: Interval) -> bool {
        self.wraps.iter().any(|segment| overlap_s(*segment, window) > 0.0)
    }
}

fn overlap_s(a: Interval, b: Interval) -> f64 {
    Interval::new(a.start_ns.max(b.start_ns), a.end_ns.min(b.end_ns)).duration_s().max(0.0)
}

/// Whether the counter stands still inside `window` for longer than `limit_ns` while power is above
/// zero. Without power samples nothing says that it should have moved.
pub(super) fn is_stale(
    energy_j: &Series,
    power_w: &Series,
    window: Interval,
    limit_ns: f64,
) -> bool {
    let first = energy_j.t_ns.partition_point(|t| *t < window.start_ns);
    let past = energy_j.t_ns.partition_point(|t| *t <= window.end_ns);
    let mut start = first;
    for index in first + 1..=past {
        let same = index < past && energy_j.value[index] == energy_j.value[index - 1];
        if same {
            continue;
        }
        let plateau = Interval::new(energy_j.t_ns[start], energy_j.t_ns[index - 1]);
        if plateau.duration_s() * NANOS_PER_SECOND > limit_ns && has_power_in(power_w, plateau) {
            return true;
        }
        start = index;
    }
    false
}

/// Whether power is above zero anywhere in `window`: at a sample in it, or at one of its neighbours.
fn has_power_in(power_w: &Series, window: Interval) -> bool {
    let first = power_w.t_ns.partition_point(|t| *t < window.start_ns).saturating_sub(1);
    let past = power_w.t_ns.partition_point(|t| *t <= window.end_ns) + 1;
    let past = past.min(power_w.len());
    power_w.value.get(first..past).is_some_and(|values| values.iter().any(|value| *value > 0.0))
}
