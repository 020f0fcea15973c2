//! What recording itself costs.

use std::process::Child;
use std::sync::Mutex;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::lock::lock;
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
    /// The same as a share of one core.
    pub cpu_percent: f64,
    /// Processor time of programs that power sources keep running, such as `ipmitool`, s.
    #[serde(default)]
    pub helper_cpu_s: f64,
    /// Largest resident memory since the program started, B; in a sweep, of this run and those before.
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
    /// What was used up to now: `own_cpu` by the recorder itself and `helper_cpu` by programs that it runs,
    /// both since the recording began.
    #[must_use]
    pub fn measure(
        elapsed_ns: i64,
        bytes_written: u64,
        own_cpu: Duration,
        helper_cpu: Duration,
        punctuality: &Mutex<Punctuality>,
    ) -> Self {
        let elapsed_s = elapsed_ns as f64 / 1e9;
        let punctuality = lock(punctuality);
        let helper_cpu_s = helper_cpu.as_secs_f64();
        let cpu_s = own_cpu.as_secs_f64() + helper_cpu_s;
        Self {
            elapsed_s,
            cpu_s,
            cpu_percent: if elapsed_s > 0.0 { 100.0 * cpu_s / elapsed_s } else { 0.0 },
            helper_cpu_s,
            peak_resident_bytes: peak_resident_bytes(),
            bytes_written,
            ticks: punctuality.ticks,
            missed_ticks: punctuality.missed_ticks,
            p99_lateness_ms: punctuality.p99_ns().map(|late_ns| late_ns as f64 / 1e6),
            worst_lateness_ms: punctuality.worst_ns as f64 / 1e6,
        }
    }
}

/// Processor time of this program since it started.
pub(crate) fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// The line `VmHWM:   12345 kB` of Linux's `/proc/self/status`.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Follows the processor time of a program that a power source runs, be it one that stays or a new one
/// each time.
#[derive(Debug, Default)]
pub(crate) struct HelperCpu {
    process: u32,
    seen: Duration,
}

impl HelperCpu {
    /// What the program took since the last time, or since its start if it is another one. It must not have
    /// been waited for yet: the system forgets it then. What is not known counts as nothing.
    pub(crate) fn since_last(&mut self, child: &Child) -> Duration {
        if self.process != child.id() {
            *self = Self { process: child.id(), seen: Duration::ZERO };
        }
        let time = cpu_time_of(self.process);
        let new = time.saturating_sub(self.seen);
        self.seen = self.seen.max(time);
        new
    }
}

/// Linux counts processor time in ticks of this length wherever it shows them (`USER_HZ` is 100).
const TICK_MS: u64 = 10;

/// Processor time of another process: what its first thread took, to the nanosecond, or what all of its
/// threads and the children that it waited for took, in ticks; whichever is more.
fn cpu_time_of(process: u32) -> Duration {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}"));
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
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_time_of_a_helper_is_counted_once_while_it_runs_and_when_it_has_ended() {
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; read end";
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", busy]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "done\n");
            child
        };
        let mut cpu = HelperCpu::default();
        // Twenty thousand rounds of a shell take milliseconds, on any machine.
        let plausible = Duration::from_micros(500)..Duration::from_secs(60);
        let mut child = start();
        let first = cpu.since_last(&child);
        assert!(plausible.contains(&first), "{first:?}");
        // It waits for its input now, so nothing comes on top.
        assert!(cpu.since_last(&child) < first);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(cpu.since_last(&child), Duration::ZERO);
        let mut child = start();
        let second = cpu.since_last(&child);
        assert!(plausible.contains(&second), "{second:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
