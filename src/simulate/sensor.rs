//! What imperfect sensors make of true power.

use rand::RngExt;
use rand_distr::StandardNormal;
use wattrace_schema::{PowerSource, Reading, Scope};
use wattrace_trace::{PowerRow, RunWriter, TraceError};

use crate::plan::SensorPlan;
use crate::profile::PowerProfile;
use crate::random::Stream;
use crate::{RunError, milliseconds_to_ns, nanoseconds_to_seconds};

/// A device whose true power follows the run's profile: `base_w + gain · profile`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) base_w: f64,
    pub(crate) gain: f64,
}

impl Device {
    pub(crate) fn power_w(&self, profile: &PowerProfile, t_ns: i64) -> f64 {
        self.base_w + self.gain * profile.power_w(t_ns)
    }

    pub(crate) fn energy_j(&self, profile: &PowerProfile, from_ns: i64, to_ns: i64) -> f64 {
        self.base_w * nanoseconds_to_seconds(to_ns - from_ns)
            + self.gain * profile.energy_j(from_ns, to_ns)
    }
}

/// When a source samples, on the run's clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    /// Recorded from here …
    pub(crate) start_ns: i64,
    /// … to here.
    pub(crate) end_ns: i64,
    /// Where the source's own interval holds, rather than the one outside the formal stage.
    pub(crate) fine_ns: (i64, i64),
    /// Readings that the recorder takes besides, each exactly then.
    pub(crate) extra_ns: Vec<i64>,
    /// Spans without samples.
    pub(crate) gaps_ns: Vec<(i64, i64)>,
    /// When counters restart from zero.
    pub(crate) counter_resets_ns: Vec<i64>,
}

/// The entry of `power_sources` for a sensor.
fn power_source(id: &str, sensor: &SensorPlan) -> PowerSource {
    let average = sensor.reading == Reading::Average;
    let offset_ns = milliseconds_to_ns(sensor.clock_offset_ms.get());
    PowerSource {
        id: id.to_owned(),
        scope: sensor.scope,
        reading: sensor.reading,
        averaging_window_ms: average.then(|| sensor.averaging_window_ms.get()),
        nominal_interval_ms: sensor.interval_ms.get(),
        counter_wrap_j: sensor.counter.as_ref().and_then(|c| c.wrap_j).map(|wrap| wrap.get()),
        counter_refresh_ms: sensor
            .counter
            .as_ref()
            .map(|counter| counter.refresh_ms.get())
            .filter(|refresh_ms| *refresh_ms > 0.0),
        accuracy_percent: sensor.accuracy_percent.map(|percent| percent.get()),
        clock_offset_ns: (offset_ns != 0).then_some(offset_ns),
        clock_offset_uncertainty_ns: None,
        interpolation: wattrace_schema::Interpolation::Linear,
    }
}

/// The entries of `power_sources` for the sensors of a run.
pub(crate) fn power_sources(sensors: &[(String, SensorPlan)]) -> Vec<PowerSource> {
    sensors.iter().map(|(id, sensor)| power_source(id, sensor)).collect()
}

/// Whether the sensor measures the boards, one by one; any other measures the node as a whole.
pub(crate) const fn measures_boards(sensor: &SensorPlan) -> bool {
    matches!(sensor.scope, Scope::GpuBoard | Scope::GpuModule)
}

/// The longer of the sensor's intervals.
pub(crate) fn longest_interval_ns(sensor: &SensorPlan) -> i64 {
    let outside = sensor.interval_outside_formal_ms.unwrap_or(sensor.interval_ms);
    milliseconds_to_ns(sensor.interval_ms.get().max(outside.get()))
}

/// Rows of one source that a run may have.
const MAX_ROWS: i64 = 200_000_000;

/// Refuses a sensor that would fill the disk.
pub(crate) fn check_size(
    id: &str,
    sensor: &SensorPlan,
    devices: usize,
    schedule: &Schedule,
) -> Result<(), RunError> {
    let outside = sensor.interval_outside_formal_ms.unwrap_or(sensor.interval_ms);
    let (fine_start_ns, fine_end_ns) = schedule.fine_ns;
    let fine_ns = fine_end_ns - fine_start_ns;
    let other_ns = schedule.end_ns - schedule.start_ns - fine_ns;
    let per_device = fine_ns / milliseconds_to_ns(sensor.interval_ms.get())
        + other_ns / milliseconds_to_ns(outside.get());
    let rows = per_device.saturating_mul(devices as i64);
    if rows <= MAX_ROWS {
        return Ok(());
    }
    Err(RunError::Message(format!(
        "sensor \"{id}\" would have {rows} rows; expected at most {MAX_ROWS} (sample less often)"
    )))
}

/// Samples one device and writes the rows in the order of time; returns their number.
pub(crate) fn record(
    writer: &mut RunWriter,
    source: &str,
    sensor: &SensorPlan,
    device: &Device,
    profile: &PowerProfile,
    schedule: &Schedule,
    stream: &mut Stream,
) -> Result<u64, TraceError> {
    let gain = 1.0 + sensor.gain_error_percent.get() / 100.0;
    let counter = Counter::new(sensor, device, profile, schedule, gain, stream);
    let clock_ns = milliseconds_to_ns(sensor.clock_offset_ms.get())
        + milliseconds_to_ns(sensor.clock_error_ms.get());
    let lost = sensor.lost_percent.get() / 100.0;
    let mut rows = 0;
    for t_ns in sample_times(sensor, schedule, stream) {
        // Numbers are drawn for lost samples too, so that losing one changes no other.
        let power_w = read_power_w(sensor, device, profile, t_ns, gain, stream);
        let is_lost = stream.random_bool(lost) && !schedule.extra_ns.contains(&t_ns);
        let in_gap = schedule.gaps_ns.iter().any(|(start, end)| (*start..*end).contains(&t_ns));
        if is_lost || in_gap {
            continue;
        }
        writer.power(PowerRow {
            t_ns: t_ns - clock_ns,
            source: source.to_owned(),
            device: device.name.clone(),
            power_w: Some(power_w),
            energy_j: counter.as_ref().map(|counter| counter.read_j(device, profile, t_ns)),
            ..PowerRow::default()
        })?;
        rows += 1;
    }
    Ok(rows)
}

/// Times of the samples, strictly increasing.
fn sample_times(sensor: &SensorPlan, schedule: &Schedule, stream: &mut Stream) -> Vec<i64> {
    let fine_step_ns = milliseconds_to_ns(sensor.interval_ms.get());
    let other_step_ns = sensor
        .interval_outside_formal_ms
        .map_or(fine_step_ns, |interval| milliseconds_to_ns(interval.get()));
    let (fine_start_ns, fine_end_ns) = schedule.fine_ns;
    let jitter_ns = sensor.jitter_ms.get() * 1e6;
    // Under half the shorter interval, so that jitter never reorders samples.
    let most_ns = 0.45 * fine_step_ns.min(other_step_ns) as f64;
    let mut times = Vec::new();
    let mut due_ns = schedule.start_ns + stream.random_range(0..other_step_ns.max(1));
    while due_ns <= schedule.end_ns {
        let deviate: f64 = stream.sample(StandardNormal);
        let t_ns = due_ns + (deviate * jitter_ns).clamp(-most_ns, most_ns) as i64;
        if (schedule.start_ns..=schedule.end_ns).contains(&t_ns) {
            times.push(t_ns);
        }
        due_ns = if (fine_start_ns..fine_end_ns).contains(&due_ns) {
            due_ns + fine_step_ns
        } else if due_ns < fine_start_ns {
            // A long interval before must not swallow its beginning.
            (due_ns + other_step_ns).min(fine_start_ns.max(due_ns + fine_step_ns))
        } else {
            due_ns + other_step_ns
        };
    }
    times.extend_from_slice(&schedule.extra_ns);
    times.sort_unstable();
    times.dedup();
    times
}

fn read_power_w(
    sensor: &SensorPlan,
    device: &Device,
    profile: &PowerProfile,
    t_ns: i64,
    gain: f64,
    stream: &mut Stream,
) -> f64 {
    let true_w = match sensor.reading {
        Reading::Instant => device.power_w(profile, t_ns),
        Reading::Average => {
            let window_ns = milliseconds_to_ns(sensor.averaging_window_ms.get());
            device.energy_j(profile, t_ns - window_ns, t_ns) / nanoseconds_to_seconds(window_ns)
        }
    };
    let absolute: f64 = stream.sample(StandardNormal);
    let relative: f64 = stream.sample(StandardNormal);
    let power_w = true_w * gain * (1.0 + relative * sensor.noise_percent.get() / 100.0)
        + absolute * sensor.noise_w.get();
    round_to(power_w, sensor.resolution_w.get()).max(0.0)
}

/// A cumulative counter of one device.
struct Counter<'a> {
    refresh_ns: i64,
    /// Its first update, at or just before the beginning of the recording.
    phase_ns: i64,
    resolution_j: f64,
    wrap_j: Option<f64>,
    /// Its value then.
    start_j: f64,
    resets_ns: &'a [i64],
    gain: f64,
}

impl<'a> Counter<'a> {
    fn new(
        sensor: &SensorPlan,
        device: &Device,
        profile: &PowerProfile,
        schedule: &'a Schedule,
        gain: f64,
        stream: &mut Stream,
    ) -> Option<Self> {
        let plan = sensor.counter.as_ref()?;
        let refresh_ns = milliseconds_to_ns(plan.refresh_ms.get());
        let wrap_j = plan.wrap_j.map(|wrap| wrap.get());
        // A counter that wraps starts so that the first wrap falls into the recording, if it is long
        // enough to hold one; any other has counted for a while.
        let draw: f64 = stream.random();
        let recorded_j = device.energy_j(profile, schedule.start_ns, schedule.end_ns);
        let start_j = match wrap_j {
            Some(wrap) => (wrap - (0.2 + 0.6 * draw) * recorded_j).max(0.0),
            None => 1e4 + 9e4 * draw,
        };
        let phase_ns = schedule.start_ns - stream.random_range(0..refresh_ns.max(1));
        Some(Self {
            refresh_ns,
            phase_ns,
            resolution_j: plan.resolution_j.get(),
            wrap_j,
            start_j,
            resets_ns: &schedule.counter_resets_ns,
            gain,
        })
    }

    fn read_j(&self, device: &Device, profile: &PowerProfile, t_ns: i64) -> f64 {
        let updated_ns = if self.refresh_ns == 0 {
            t_ns
        } else {
            t_ns - (t_ns - self.phase_ns).rem_euclid(self.refresh_ns)
        };
        let reset = self.resets_ns.iter().filter(|reset| **reset <= t_ns).max();
        let (since_ns, at_start_j) =
            reset.map_or((self.phase_ns, self.start_j), |reset| (*reset, 0.0));
        let counted_j = device.energy_j(profile, since_ns, updated_ns.max(since_ns)) * self.gain;
        let value_j = round_to(at_start_j + counted_j, self.resolution_j);
        self.wrap_j.map_or(value_j, |wrap| value_j.rem_euclid(wrap))
    }
}

/// The nearest multiple of `resolution`; the value itself when that is 0 or too fine to count.
fn round_to(value: f64, resolution: f64) -> f64 {
    let multiples = (value / resolution).round();
    if multiples.is_finite() { multiples * resolution } else { value }
}
