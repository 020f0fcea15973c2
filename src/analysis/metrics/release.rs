//! When power is back at its idle baseline after the service has gone.

use wattrace_schema::{
    DevicePower, EnergyMethod, Flag, FlagSet, Interpolation, Interval, PowerSource, Reason, Series,
    Stages,
};

use super::{BENCHMARK, Context, MetricRow, declare, windows};
use crate::outcome::{Outcome, Value};
use crate::series::{DeviceSet, max_gap_ns, value_between, window_energy};

declare! {
    RELEASE_CLOSED "release_closed" Bool None Accelerators BENCHMARK,
        "Whether every accelerator came back to within 5% of its idle baseline and stayed there for 30 s before monitoring ended.";
    RELEASE_END "release_end" Time Timestamp Accelerators BENCHMARK,
        "Earliest sample time at or after formal_end, process_exit and memory_released from which every accelerator stays within 5% of its time-weighted mean idle power for 30 s.";
    RELEASE_SECONDS "release_seconds" F64 Second Accelerators BENCHMARK,
        "Time from formal_end to release_end.";
}

/// Largest distance from the baseline, relative to it.
const TOLERANCE: f64 = 0.05;
/// How long power must stay near the baseline.
const HOLD_NS: i64 = 30_000_000_000;

/// Where a run's release ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    formal_end_ns: i64,
    /// `None` when power did not come back and stay before monitoring ended.
    end_ns: Option<i64>,
    pub(super) flags: FlagSet,
}

impl Release {
    /// [formal_end, release_end].
    pub(super) fn window(&self) -> Result<Interval, Reason> {
        let end_ns = self.end_ns.ok_or(Reason::ReleaseNotClosed)?;
        Ok(Interval::new(self.formal_end_ns, end_ns))
    }
}

/// Finds the release end and fills its metrics.
pub(super) fn fill(context: &Context<'_>, row: &mut MetricRow) -> Result<Release, Reason> {
    let release = find(context);
    match &release {
        Ok(release) => {
            let end = release.end_ns.ok_or(Reason::ReleaseNotClosed);
            let seconds =
                end.map(|end_ns| Interval::new(release.formal_end_ns, end_ns).duration_s());
            let closed = Outcome::of(Value::Bool(release.end_ns.is_some()));
            row.set(&RELEASE_CLOSED, closed.with_flags(release.flags));
            row.set(&RELEASE_END, Outcome::from(end.map(Value::Time)).with_flags(release.flags));
            row.set(&RELEASE_SECONDS, Outcome::number(seconds).with_flags(release.flags));
        }
        Err(reason) => {
            for metric in METRICS {
                row.set(metric, Outcome::missing(*reason));
            }
        }
    }
    release
}

fn find(context: &Context<'_>) -> Result<Release, Reason> {
    let set = context.accelerators.as_ref().map_err(|reason| *reason)?;
    let stages = &context.run.manifest.stages;
    let formal_end_ns = stages.formal_end.ok_or(Reason::NoStamp)?.nanos();
    let baselines_w = idle_baselines_w(set, stages)?;

    let mut flags = FlagSet::EMPTY;
    let unstamped = stages.process_exit.is_none() || stages.memory_released.is_none();
    flags.insert_if(unstamped, Flag::ReleaseStampMissing);
    let not_before_ns = [stages.process_exit, stages.memory_released]
        .into_iter()
        .flatten()
        .map(|stamp| stamp.nanos())
        .fold(formal_end_ns, i64::max);
    let last_common_ns =
        set.devices.iter().filter_map(|(device, _)| device.power_w.t_ns.last().copied()).min();
    let monitor_end_ns = stages
        .monitor_end
        .map(|stamp| stamp.nanos())
        .or(last_common_ns)
        .ok_or(Reason::NoPowerSamples)?;

    let window = Interval::new(formal_end_ns, monitor_end_ns);
    let bands: Vec<Band<'_>> = set
        .devices
        .iter()
        .zip(&baselines_w)
        .map(|((device, source), baseline_w)| Band::of(device, source, *baseline_w, window))
        .collect();
    let end_ns = earliest_hold(&bands, not_before_ns, monitor_end_ns);
    Ok(Release { formal_end_ns, end_ns, flags })
}

/// Time-weighted mean idle power of each device, W.
fn idle_baselines_w(set: &DeviceSet<'_>, stages: &Stages) -> Result<Vec<f64>, Reason> {
    let idle = windows::idle(stages).map_err(|_| Reason::NoBaseline)?;
    let energy =
        window_energy(set, idle, EnergyMethod::Trapezoid).map_err(|_| Reason::NoBaseline)?;
    Ok(energy.curves.iter().map(|curve| curve.total_j() / idle.duration_s()).collect())
}

/// A time from which a device is out of its band or not sampled, and the earliest time after it at
/// which a new attempt makes sense.
#[derive(Debug, Clone, Copy)]
struct Violation {
    from_ns: i64,
    resume_ns: i64,
}

/// One device's power and the band that it must keep.
struct Band<'run> {
    power_w: &'run Series,
    interpolation: Interpolation,
    baseline_w: f64,
    /// For each sample, the first violation after it.
    next_violation: Vec<Violation>,
}

impl<'run> Band<'run> {
    fn of(
        device: &'run DevicePower,
        source: &PowerSource,
        baseline_w: f64,
        window: Interval,
    ) -> Self {
        let power_w = &device.power_w;
        let nominal_ns = source.nominal_interval_ms * 1e6;
        let max_gap_ns = max_gap_ns(&power_w.t_ns, window, nominal_ns);
        let mut band = Self {
            power_w,
            interpolation: source.interpolation,
            baseline_w,
            next_violation: Vec::with_capacity(power_w.len()),
        };
        // Filled from the last sample backwards, so that each sample takes over what follows it.
        // Past the last sample the device is unknown once the ordinary sample distance has gone by.
        let mut next = Violation { from_ns: i64::MAX, resume_ns: i64::MAX };
        if let Some(last_ns) = power_w.t_ns.last() {
            next.from_ns = last_ns.saturating_add(max_gap_ns as i64).saturating_add(1);
        }
        for index in (0..power_w.len()).rev() {
            if let Some(following_ns) = power_w.t_ns.get(index + 1).copied() {
                let t_ns = power_w.t_ns[index];
                let gap = following_ns.abs_diff(t_ns) as f64 > max_gap_ns;
                if gap && source.interpolation == Interpolation::Linear {
                    next = Violation { from_ns: t_ns.saturating_add(1), resume_ns: following_ns };
                } else if !band.holds(power_w.value[index + 1]) {
                    let resume_ns = following_ns.saturating_add(1);
                    next = Violation { from_ns: following_ns, resume_ns };
                }
            }
            band.next_violation.push(next);
        }
        band.next_violation.reverse();
        band
    }

    fn holds(&self, power_w: f64) -> bool {
        (power_w - self.baseline_w).abs() <= TOLERANCE * self.baseline_w
    }

    /// Whether the device keeps the band from `t_ns` for the hold; otherwise the earliest time at which
    /// a new attempt makes sense.
    fn keeps_from(&self, t_ns: i64) -> Result<(), i64> {
        let later_ns = t_ns.saturating_add(1);
        let power_w = value_between(self.power_w, self.interpolation, t_ns).ok_or(later_ns)?;
        if !self.holds(power_w) {
            return Err(later_ns);
        }
        // The last sample at or before t: a sampling gap after it reaches into the hold.
        let sample = self.power_w.t_ns.partition_point(|t| *t <= t_ns).saturating_sub(1);
        let violation = self.next_violation[sample];
        if violation.from_ns <= t_ns.saturating_add(HOLD_NS) {
            return Err(violation.resume_ns.max(later_ns));
        }
        Ok(())
    }
}

/// The earliest sample time of any device, not before `not_before_ns`, from which every device keeps
/// its band for the whole hold, the hold ending by `monitor_end_ns`. A failed attempt says where the
/// next one can begin.
fn earliest_hold(bands: &[Band<'_>], not_before_ns: i64, monitor_end_ns: i64) -> Option<i64> {
    let mut candidates: Vec<i64> = bands
        .iter()
        .flat_map(|band| {
            let first = band.power_w.t_ns.partition_point(|t| *t < not_before_ns);
            band.power_w.t_ns[first..].iter().copied()
        })
        .collect();
    candidates.sort_unstable();
    candidates.dedup();
    let mut next = 0;
    while let Some(t_ns) = candidates.get(next).copied() {
        if t_ns.saturating_add(HOLD_NS) > monitor_end_ns {
            return None;
        }
        match bands.iter().filter_map(|band| band.keeps_from(t_ns).err()).max() {
            None => return Some(t_ns),
            Some(resume_ns) => next += candidates[next..].partition_point(|t| *t < resume_ns),
        }
    }
    None
}
