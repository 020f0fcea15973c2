//! What recording itself costs.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::sampler::Punctuality;

/// Processor time, memory, bytes and punctuality of the recorder, as `recorder_cost` of `run.json` holds
/// them. What could not be measured is null.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Time since the recording began, s.
    pub elapsed_s: f64,
    /// Processor time of the recorder, user and system, and of the programs that power sources ran, but
    /// not of the commands that are measured, s.
    pub cpu_s: f64,
    /// The part of it that programs took which power sources ran, s.
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
    /// What was used up to now. Processor time counts from the start of the program; that of helpers is
    /// given.
    #[must_use]
    pub fn measure(
        elapsed_ns: i64,
        bytes_written: u64,
        helper_cpu: Duration,
        punctuality: &Mutex<Punctuality>,
    ) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let helper_cpu_s = helper_cpu.as_secs_f64();
        let cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9 + helper_cpu_s;
        let elapsed_s = elapsed_ns as f64 / 1e9;
        let punctuality = punctuality.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

/// Time between looks at whether a program has ended.
const ENDED_POLL: Duration = Duration::from_millis(2);

/// Waits until a program ends that a power source ran, kills it after `limit`, and gives how it ended and
/// the processor time that it took. What is not known of that time counts as none.
///
/// # Errors
/// When the system cannot say how it ended.
pub fn wait_for_helper(child: &mut Child, limit: Duration) -> io::Result<(ExitStatus, Duration)> {
    let pid = Pid::from_child(child);
    let deadline = Instant::now() + limit;
    // It is looked at without being reaped, since /proc knows it only until then.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(pid), look)?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
            break;
        }
        std::thread::sleep(ENDED_POLL);
    }
    let time = cpu_time_of(pid);
    Ok((child.wait()?, time))
}

/// Linux counts processor time in ticks of this length wherever it shows them (`USER_HZ` is 100).
const TICK_MS: u64 = 10;

/// Processor time of another process: what its first thread took, to the nanosecond, or what all of its
/// threads and the children that it waited for took, in ticks; whichever is more.
fn cpu_time_of(pid: Pid) -> Duration {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
    let first_thread = read("schedstat").ok().and_then(|text| {
        text.split(' ').next().and_then(|time_ns| time_ns.parse().ok()).map(Duration::from_nanos)
    });
    let all = read("stat").ok().and_then(|text| {
        // The name of the program, which may hold anything, ends with the last bracket.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        // utime, stime, cutime and cstime are fields 14 to 17; the state after the name is field 3.
        let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok());
        let ticks = ticks.sum::<Option<u64>>()?;
        Some(Duration::from_millis(ticks.checked_mul(TICK_MS)?))
    });
    first_thread.max(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_time_of_a_helper_is_known_and_a_helper_that_hangs_is_killed() {
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3";
        let mut child = Command::new("sh").args(["-c", busy]).spawn().unwrap();
        let (status, time) = wait_for_helper(&mut child, Duration::from_secs(120)).unwrap();
        assert_eq!(status.code(), Some(3));
        // Twenty thousand rounds of a shell take milliseconds, on any machine.
        assert!(time > Duration::from_micros(500), "{time:?}");
        assert!(time < Duration::from_secs(60), "{time:?}");

        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let (status, time) = wait_for_helper(&mut child, Duration::from_millis(10)).unwrap();
        assert_eq!(status.code(), None);
        assert!(time < Duration::from_secs(1), "{time:?}");
    }
}
