//! `wattrace-record attach`.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use wattrace_record::RecordingOptions;
use wattrace_record::lifecycle::Event;
use wattrace_record::store::Stage;

use super::{begin, exit_code, listen, need_power, options, report, runs_no_command, say};
use crate::args::{Attach, Shared};
use crate::exit::Failure;

/// Longest wait for the first reading of every power source.
const FIRST_READS: Duration = Duration::from_secs(5);

/// Time between looks at the process whose end is waited for.
const PROCESS_POLL: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &Attach, shared: &Shared) -> Result<u8, Failure> {
    need_power(&args.recording)?;
    runs_no_command(&args.recording)?;
    let pid = args.pid.map(process).transpose()?;
    record(&options(&args.recording)?, args.seconds, pid, shared)
}

/// Records until the time is over, the process ends or the user ends it.
pub(super) fn record(
    options: &RecordingOptions,
    seconds: Option<Duration>,
    pid: Option<Pid>,
    shared: &Shared,
) -> Result<u8, Failure> {
    let (sender, events) = listen()?;
    let recording = begin(options, &sender, shared)?;
    recording.wait_for_first_reads(FIRST_READS);
    recording.stamp(Stage::FormalStart)?;
    say(shared)("recording; Ctrl-C ends it");
    let deadline = seconds.map(|time| Instant::now() + time);
    let was_interrupted = wait(&events, deadline, pid);
    // The window ends after the last request in it.
    recording.close_proxies();
    let stamped = recording.stamp(Stage::FormalEnd);
    // If writing failed before, its error says more than the stamp's.
    let joined = recording.finish()?;
    stamped?;
    report(&joined, &[], shared)?;
    // Without another end, Ctrl-C is how a recording is meant to end.
    let is_cut = was_interrupted && (seconds.is_some() || pid.is_some());
    Ok(exit_code(&joined, is_cut, false).code())
}

fn process(pid: u32) -> Result<Pid, Failure> {
    let known = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let known = known.filter(|pid| is_alive(*pid));
    known.ok_or_else(|| anyhow::anyhow!("--pid {pid}: there is no such process").into())
}

/// A process that may not be signalled is there all the same.
fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// Waits for whatever ends the recording; says whether it was the user.
fn wait(events: &Receiver<Event>, deadline: Option<Instant>, pid: Option<Pid>) -> bool {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let poll = pid.map(|_| PROCESS_POLL);
        let event = match left.into_iter().chain(poll).min() {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(time) => events.recv_timeout(time),
        };
        match event {
            Ok(Event::Interrupted { .. }) => return true,
            Ok(Event::RecordingFailed) | Err(RecvTimeoutError::Disconnected) => return false,
            Ok(Event::Exited { .. }) => (),
            Err(RecvTimeoutError::Timeout) => {
                let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                if is_over || pid.is_some_and(|pid| !is_alive(pid)) {
                    return false;
                }
            }
        }
    }
}
