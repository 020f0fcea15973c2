//! Reads one power source at fixed times.
//!
//! A tick finds the caches of the processor emptied by whatever ran since the last one, so it costs as much
//! as it touches different code. What is small and on its way is therefore inlined by order, here and in
//! what it calls; the program as a whole is compiled for size.

use std::sync::{Arc, Mutex};

use wattrace_trace::EngineRow;

use crate::context::Context;
use crate::live::Live;
use crate::lock::lock;
use crate::sink::SampledRow;
use crate::source::{PowerSource, Reading};

/// Width of a bucket of lateness below [`FINE_BUCKETS`], and above it.
const FINE_NS: u64 = 10_000;
const COARSE_NS: u64 = 1_000_000;
const FINE_BUCKETS: usize = 1_000;
const COARSE_BUCKETS: usize = 1_000;

/// How punctual the ticks of a recording were.
#[derive(Debug, Clone, PartialEq)]
pub struct Punctuality {
    /// Sources that were read once at least.
    pub sources: usize,
    /// Ticks that were read.
    pub ticks: u64,
    /// Ticks that passed while an earlier read still went on, or the machine was busy.
    pub missed_ticks: u64,
    /// Longest lateness.
    pub worst_ns: u64,
    /// Counts by lateness: 10 us wide up to 10 ms, then 1 ms wide up to 1 s, then all the rest.
    buckets: Vec<u64>,
}

impl Default for Punctuality {
    fn default() -> Self {
        let buckets = vec![0; FINE_BUCKETS + COARSE_BUCKETS];
        Self { sources: 0, ticks: 0, missed_ticks: 0, worst_ns: 0, buckets }
    }
}

impl Punctuality {
    /// Counts a tick that came so late.
    #[inline(always)]
    pub(crate) fn add(&mut self, late_ns: u64) {
        self.ticks += 1;
        self.worst_ns = self.worst_ns.max(late_ns);
        let fine = usize::try_from(late_ns / FINE_NS).unwrap_or(usize::MAX);
        let coarse = usize::try_from(late_ns / COARSE_NS).unwrap_or(usize::MAX);
        let bucket = if fine < FINE_BUCKETS {
            fine
        } else {
            // The coarse buckets begin at 10 ms, where the fine ones end.
            (FINE_BUCKETS + coarse - FINE_BUCKETS / 100).min(self.buckets.len() - 1)
        };
        self.buckets[bucket] += 1;
    }

    /// The lateness that 99 of 100 ticks kept: the upper edge of its bucket, but no more than the worst.
    /// `None` without ticks.
    #[must_use]
    pub fn p99_ns(&self) -> Option<u64> {
        let rank = (self.ticks * 99).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        let edge = if bucket < FINE_BUCKETS {
            (bucket as u64 + 1) * FINE_NS
        } else if bucket + 1 < self.buckets.len() {
            ((bucket - FINE_BUCKETS + FINE_BUCKETS / 100) as u64 + 1) * COARSE_NS
        } else {
            self.worst_ns
        };
        Some(edge.min(self.worst_ns))
    }
}

/// A device that is read.
#[derive(Debug)]
struct SampledDevice {
    /// Id of the stream.
    source: Arc<str>,
    name: Arc<str>,
    /// Its number in what is known live.
    live: Option<usize>,
    /// Whether it ever gave power or a counter.
    has_value: bool,
}

/// Reads one source; a thread runs it.
#[derive(Debug)]
pub struct Sampler {
    source: Box<dyn PowerSource>,
    context: Arc<Context>,
    live: Arc<Live>,
    punctuality: Arc<Mutex<Punctuality>>,
    /// Every device of every stream.
    devices: Vec<Vec<SampledDevice>>,
    interval_ns: i64,
    start_ns: i64,
    tick: i64,
    /// Kept between reads, so that they need no fresh memory.
    readings: Vec<Reading>,
    rows: Vec<SampledRow>,
    /// Whether the latest read gave nothing of any device.
    has_failed: bool,
}

impl Sampler {
    /// A sampler whose first tick is due at `start_ns` on the monotonic clock.
    #[must_use]
    pub fn new(
        source: Box<dyn PowerSource>,
        interval_ns: i64,
        start_ns: i64,
        context: Arc<Context>,
        live: Arc<Live>,
        punctuality: Arc<Mutex<Punctuality>>,
    ) -> Self {
        let devices = source
            .streams()
            .iter()
            .map(|stream| {
                let source: Arc<str> = stream.entry.id.as_str().into();
                let device = |name: &String| {
                    let live = live.register(stream.entry.scope, name);
                    let (source, name) = (source.clone(), name.as_str().into());
                    SampledDevice { source, name, live, has_value: false }
                };
                stream.devices.iter().map(device).collect()
            })
            .collect();
        Self {
            source,
            context,
            live,
            punctuality,
            devices,
            interval_ns,
            start_ns,
            tick: 0,
            readings: Vec::new(),
            rows: Vec::new(),
            has_failed: false,
        }
    }

    /// Reads at every tick until the recording stops, and once more then, so that the last sample of
    /// every device lies after whatever was stamped before the stop. A source that failed just before would
    /// only hold up the end. A device without any value is noted as a loss.
    pub fn run(mut self) {
        while self.next_tick() {}
        if !self.has_failed {
            let _ = self.read();
        }
        let silent = self.devices.iter().flatten().filter(|device| !device.has_value);
        for SampledDevice { source, name, .. } in silent {
            self.context.lose(format!(
                "{source} {name} gave neither power nor energy in the whole recording; \
                 recorder_cost.failures says why"
            ));
        }
    }

    /// Waits for the next tick and reads; false once the recording has stopped.
    pub fn next_tick(&mut self) -> bool {
        let clock = &self.context.clock;
        let due_ns = self.start_ns + self.tick * self.interval_ns;
        if clock.clock().wait(&self.context.stop, due_ns) {
            return false;
        }
        let now_ns = clock.clock().monotonic_ns();
        let late_ns = (now_ns - due_ns).max(0);
        clock.observe();
        // After a long wait this read is that of the latest tick that is due; those before it were missed.
        let first = self.tick;
        let tick = self.due_tick(now_ns).max(first);
        let is_open = self.read();
        // The same if the read was long.
        let next = self.due_tick(self.context.clock.clock().monotonic_ns()).max(tick + 1);
        let mut punctuality = lock(&self.punctuality);
        punctuality.add(late_ns.unsigned_abs());
        punctuality.sources += usize::from(first == 0);
        punctuality.missed_ticks += (next - first - 1).unsigned_abs();
        drop(punctuality);
        self.tick = next;
        is_open
    }

    /// The latest tick that is due at a time.
    #[inline(always)]
    const fn due_tick(&self, now_ns: i64) -> i64 {
        (now_ns - self.start_ns).div_euclid(self.interval_ns)
    }

    /// Reads every device and hands the rows over; false when they are not taken any more.
    #[inline(always)]
    fn read(&mut self) -> bool {
        self.readings.clear();
        self.source.read(self.context.clock.clock(), &mut self.readings);
        self.context.add_helper_cpu(self.source.take_helper_cpu());
        let gave_nothing = |reading: &Reading| {
            let Reading { sample, failures, .. } = reading;
            sample.power_w.is_none() && sample.energy_j.is_none() && !failures.is_empty()
        };
        self.has_failed = !self.readings.is_empty() && self.readings.iter().all(gave_nothing);
        let mut averages = Vec::new();
        for reading in &self.readings {
            let SampledDevice { source, name: device, live, has_value } =
                &mut self.devices[reading.stream][reading.device];
            for cause in &reading.failures {
                self.context.count_failure(source, device, cause);
            }
            let sample = valid(&reading.sample, |cause| {
                self.context.count_failure(source, device, cause);
            });
            *has_value |= sample.power_w.is_some() || sample.energy_j.is_some();
            let middle_ns = reading.span.middle_ns();
            if let Some(number) = live {
                self.live.observe(*number, middle_ns, &sample);
            }
            let t_ns = self.context.clock.run_time_ns(middle_ns);
            averages.extend(sample.average_power_w.map(|average_w| EngineRow {
                t_ns,
                name: "power_average_w".to_owned(),
                labels: Some(format!("source=\"{source}\",device=\"{device}\"")),
                value: Some(average_w),
            }));
            self.rows.push(SampledRow {
                t_ns,
                source: source.clone(),
                device: device.clone(),
                power_w: sample.power_w,
                energy_j: sample.energy_j,
                temperature_c: sample.temperature_c,
                sm_clock_mhz: sample.sm_clock_mhz,
                mem_clock_mhz: sample.mem_clock_mhz,
                memory_used_bytes: sample.memory_used_bytes,
                utilization_percent: sample.utilization_percent,
                throttle_reasons: sample.throttle_reasons,
                read_ns: Some(reading.span.length_ns()),
            });
        }
        let sink = &self.context.sink;
        let is_open = sink.power(self.rows.drain(..)).is_ok();
        is_open && (averages.is_empty() || sink.engine(averages).is_ok())
    }
}

/// The sample without what no measurement can be: not finite, or negative power or energy.
#[inline(always)]
fn valid(
    sample: &crate::source::Sample,
    mut failed: impl FnMut(&'static str),
) -> crate::source::Sample {
    let mut sample = *sample;
    let possible = |value: f64| value.is_finite() && value >= 0.0;
    if sample.power_w.is_some_and(|power_w| !possible(power_w)) {
        failed("power is negative or not finite");
        sample.power_w = None;
    }
    if sample.energy_j.is_some_and(|energy_j| !possible(energy_j)) {
        failed("the energy counter is negative or not finite");
        sample.energy_j = None;
    }
    sample.average_power_w = sample.average_power_w.filter(|value| possible(*value));
    sample.temperature_c = sample.temperature_c.filter(|value| value.is_finite());
    sample.utilization_percent = sample.utilization_percent.filter(|value| value.is_finite());
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_is_the_edge_of_its_bucket() {
        let mut punctuality = Punctuality::default();
        assert_eq!(punctuality.p99_ns(), None);
        // 98 ticks below 10 us, one at 25 us, one at 12.3 ms: rank 99 is the one at 25 us.
        (0..98).for_each(|_| punctuality.add(5_000));
        punctuality.add(25_000);
        punctuality.add(12_300_000);
        assert_eq!(punctuality.p99_ns(), Some(30_000));
        // A second late one moves rank 100 of 101 to the bucket from 12 to 13 ms, whose edge lies
        // above the worst.
        punctuality.add(12_200_000);
        assert_eq!(punctuality.p99_ns(), Some(12_300_000));
        punctuality.add(5_000_000_000);
        punctuality.add(5_000_000_000);
        assert_eq!(punctuality.p99_ns(), Some(5_000_000_000));
        assert_eq!(punctuality.worst_ns, 5_000_000_000);
    }
}
