//! What recording itself costs.

use std::sync::Mutex;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::sampler::Punctuality;

/// Processor time, memory, bytes and punctuality of the recorder, as `recorder_cost` of `run.json` holds
/// them. What could not be measured is null.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Time since the recording began, s.
    pub elapsed_s: f64,
    /// Processor time of the recorder, user and system, with that of `helper_cpu_s` but without the
    /// commands of the lifecycle, s.
    pub cpu_s: f64,
    /// Processor time of programs that power sources keep running, such as `ipmitool`, s.
    #[serde(default)]
    pub helper_cpu_s: f64,
    /// The same as a share of one core.
    pub cpu_percent: f64,
    /// Largest resident memory, B.
    pub peak_resident_bytes: Option<u64>,
    /// Bytes of segments and journal.
    pub bytes_written: u64,
    /// Reads of power sources.
    pub ticks: u64,
    /// Reads that were due and did not happen.
    pub missed_ticks: u64,
    /// Lateness that 99 of 100 reads kept, ms.
    pub p99_lateness_ms: Option<f64>,
    /// Longest lateness, ms.
    pub worst_lateness_ms: f64,
}

impl Cost {
    /// What was used up to now. Processor time counts from the start of the program.
    #[must_use]
    pub fn measure(elapsed_ns: i64, bytes_written: u64, punctuality: &Mutex<Punctuality>) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let elapsed_s = elapsed_ns as f64 / 1e9;
        let punctuality = punctuality.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let helper_cpu_s = punctuality.helper_cpu_s;
        let cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9 + helper_cpu_s;
        Self {
            elapsed_s,
            cpu_s,
            helper_cpu_s,
            cpu_percent: if elapsed_s > 0.0 { 100.0 * cpu_s / elapsed_s } else { 0.0 },
            peak_resident_bytes: peak_resident_bytes(),
            bytes_written,
            ticks: punctuality.ticks,
            missed_ticks: punctuality.missed_ticks,
            p99_lateness_ms: punctuality.p99_ns().map(|late_ns| late_ns as f64 / 1e6),
            worst_lateness_ms: punctuality.worst_ns as f64 / 1e6,
        }
    }
}

/// The line `VmHWM:   12345 kB` of Linux's `/proc/self/status`.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
