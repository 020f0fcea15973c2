//! The published procedure: idle baseline, launch, ready, warm-up, formal requests, shutdown, release.

mod probe;
mod process;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use wattrace_schema::TimestampNs;

use crate::Context;
use crate::live::Release;
use crate::load::{Load, Say, Sent};
use crate::recording::{RecordError, Recording};
use crate::store::{Joined, Stage, StoreError};

use probe::Look;
pub use probe::Probe;
pub use process::ExitReason;
use process::{Group, NOWHERE, next_number, shell};

/// What the lifecycle waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The user asks to end: Ctrl-C, or SIGTERM and alike.
    Interrupted {
        /// Whether by Ctrl-C.
        by_ctrl_c: bool,
    },
    /// The recording can no longer be written.
    RecordingFailed,
    /// A command, or the sending of requests, has ended.
    Exited {
        /// Which; no two of a program have the same.
        number: u64,
        /// How.
        reason: ExitReason,
    },
}

/// What `run` does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The service and its arguments. Empty: it runs already, and only requests are sent.
    pub command: Vec<String>,
    /// Length of the idle baseline.
    pub idle: Duration,
    /// How to know that the service is ready; at once if absent.
    pub ready: Option<Probe>,
    /// Longest time until it is.
    pub ready_wait: Duration,
    /// Shell command of one warm-up request.
    pub warmup: Option<String>,
    /// How many.
    pub warmup_count: u32,
    /// What fills the formal window.
    pub formal: Formal,
    /// Requests that are sent from here, warm-up and formal ones, instead of `warmup` and `formal`.
    pub load: Option<Arc<Load>>,
    /// Longest time that the service may take to end.
    pub shutdown_wait: Duration,
    /// Time that every board must stay near its idle power.
    pub release_hold: Duration,
    /// Longest wait for that.
    pub release_wait: Duration,
}

/// What fills the formal window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Formal {
    /// A shell command sends the requests and ends with the last.
    Command(String),
    /// Nothing is sent from here; the window has this length.
    Time(Duration),
    /// The window lasts until the service ends by itself.
    UntilExit,
}

/// How a run came out.
#[derive(Debug)]
pub struct Outcome {
    /// The run that was written.
    pub joined: Joined,
    /// Exit code to pass on: the service's if it ended by itself, else that of the formal requests.
    pub code: u8,
    /// Whether the user ended it.
    pub was_interrupted: bool,
    /// What went wrong in the procedure.
    pub failures: Vec<String>,
}

/// Why the procedure goes on to the shutdown before its time.
#[derive(Debug)]
enum Cut {
    Interrupted {
        by_ctrl_c: bool,
    },
    RecordingFailed,
    /// The service ended before it should.
    Exited(ExitReason),
    /// The service ended when it should.
    Finished(ExitReason),
    /// Something failed.
    Failed(String),
    /// A stamp could not be written.
    Store(StoreError),
}

impl From<StoreError> for Cut {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Said to whoever pressed it once.
const CTRL_C_AGAIN: &str = "Ctrl-C again kills COMMAND";

/// Time between looks at the release of power and memory.
const RELEASE_POLL: Duration = Duration::from_millis(100);

/// Longest wait for the first reading of every power source.
const FIRST_READS: Duration = Duration::from_secs(5);

/// Goes through the procedure and finishes the recording, whatever happens on the way. `say` gets a line
/// of progress now and then.
///
/// # Errors
/// When the run cannot be written; its unfinished folder stays.
pub fn run(
    recording: Recording,
    plan: &Plan,
    events: &Receiver<Event>,
    sender: &Sender<Event>,
    say: &Say<'_>,
) -> Result<Outcome, RecordError> {
    let mut procedure = Procedure {
        recording: &recording,
        plan,
        events,
        sender,
        say,
        service: None,
        formal_code: None,
        was_interrupted: false,
        was_ctrl_c: false,
    };
    let cut = procedure.measure().err();
    procedure.was_interrupted = matches!(cut, Some(Cut::Interrupted { .. }));
    let mut failures = Vec::new();
    let mut service_exit = None;
    match cut {
        Some(Cut::Exited(reason)) => {
            service_exit = Some(reason);
            failures.push(format!("COMMAND ended before its time: {reason}"));
        }
        Some(Cut::Finished(reason)) => service_exit = Some(reason),
        Some(Cut::Failed(message)) => failures.push(message),
        Some(Cut::Store(error)) => say(&format!("warning: {error}")),
        Some(Cut::Interrupted { by_ctrl_c: true }) if procedure.service.is_some() => {
            procedure.was_ctrl_c = true;
            say(CTRL_C_AGAIN);
        }
        Some(Cut::Interrupted { .. } | Cut::RecordingFailed) | None => (),
    }
    failures.extend(procedure.end(service_exit.is_some()));
    let (formal_code, was_interrupted) = (procedure.formal_code, procedure.was_interrupted);
    for failure in &failures {
        recording.context().note(failure.clone());
    }
    let code = match service_exit {
        Some(reason) if reason.code() != 0 => reason.code(),
        _ => formal_code.unwrap_or(0),
    };
    let joined = recording.finish()?;
    Ok(Outcome { joined, code, was_interrupted, failures })
}

/// The procedure and how far it has come.
struct Procedure<'a> {
    recording: &'a Recording,
    plan: &'a Plan,
    events: &'a Receiver<Event>,
    sender: &'a Sender<Event>,
    say: &'a Say<'a>,
    service: Option<Group>,
    formal_code: Option<u8>,
    was_interrupted: bool,
    /// Whether Ctrl-C was pressed, which a second one hastens.
    was_ctrl_c: bool,
}

impl Procedure<'_> {
    /// Up to the end of the formal window.
    fn measure(&mut self) -> Result<(), Cut> {
        if self.plan.command.is_empty() {
            self.recording.wait_for_first_reads(FIRST_READS);
        } else {
            self.idle()?;
            self.launch()?;
        }
        self.warm_up()?;
        self.formal()
    }

    fn idle(&mut self) -> Result<(), Cut> {
        self.recording.wait_for_first_reads(FIRST_READS);
        (self.say)(&format!("idle baseline, {} s", self.plan.idle.as_secs_f64()));
        self.recording.live().set_idle_window(true);
        self.recording.stamp(Stage::IdleStart)?;
        let waited = self.wait(self.plan.idle, None);
        self.recording.stamp(Stage::IdleEnd)?;
        self.recording.live().set_idle_window(false);
        waited.map(drop)
    }

    fn launch(&mut self) -> Result<(), Cut> {
        let log = self.recording.path().command_log();
        self.recording.stamp(Stage::Launch)?;
        let service = Group::start(&self.plan.command, &log, self.sender)
            .map_err(|error| Cut::Failed(format!("cannot start COMMAND: {error}")))?;
        self.service = Some(service);
        (self.say)(&format!("launched; its output goes to {}", log.display()));
        if let Some(probe) = &self.plan.ready {
            self.wait_until_ready(probe, &log)?;
        }
        self.recording.stamp(Stage::Ready)?;
        (self.say)("ready");
        Ok(())
    }

    fn wait_until_ready(&self, probe: &Probe, log: &Path) -> Result<(), Cut> {
        let deadline = Instant::now() + self.plan.ready_wait;
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut watch = probe.watch(log);
        loop {
            let is_ready = match watch.look() {
                Look::Ready => true,
                Look::NotYet => false,
                Look::Command(text) => {
                    let reason = self.command(text, Path::new(NOWHERE), left())?;
                    reason.is_some_and(|reason| reason.code() == 0)
                }
            };
            if is_ready {
                return Ok(());
            }
            if left().is_zero() {
                let seconds = self.plan.ready_wait.as_secs_f64();
                return Err(Cut::Failed(format!("COMMAND was not ready after {seconds} s")));
            }
            self.wait(probe::POLL.min(left()), None)?;
        }
    }

    fn warm_up(&mut self) -> Result<(), Cut> {
        if let Some(load) = &self.plan.load {
            if load.warm_up_count() == 0 {
                return Ok(());
            }
            self.recording.stamp(Stage::WarmupStart)?;
            (self.say)(&format!("warm-up, {} requests", load.warm_up_count()));
            let (sent, waited) = self.drive(load, Load::warm_up);
            waited?;
            return match sent.failure() {
                Some(failure) => Err(Cut::Failed(format!("warm-up: {failure}"))),
                None => Ok(()),
            };
        }
        let Some(warmup) = &self.plan.warmup else { return Ok(()) };
        self.recording.stamp(Stage::WarmupStart)?;
        for number in 1..=self.plan.warmup_count {
            let reason = self.requests(warmup, "warmup.log")?;
            if reason.code() != 0 {
                return Err(Cut::Failed(format!("warm-up request {number} failed: {reason}")));
            }
        }
        Ok(())
    }

    fn formal(&mut self) -> Result<(), Cut> {
        self.recording.stamp(Stage::FormalStart)?;
        (self.say)("formal window");
        if let Some(load) = &self.plan.load {
            let (sent, waited) = self.drive(load, Load::formal);
            self.end_formal(sent.last_end)?;
            waited?;
            return match sent.failure() {
                Some(failure) => Err(Cut::Failed(failure)),
                None => Ok(()),
            };
        }
        let result = match &self.plan.formal {
            Formal::Command(text) => self.requests(text, "formal.log").map(|reason| {
                self.formal_code = Some(reason.code());
                (reason.code() != 0).then(|| format!("the formal requests failed: {reason}"))
            }),
            Formal::Time(time) => self.wait(*time, None).map(|_| None),
            Formal::UntilExit => match self.wait_forever() {
                Cut::Exited(reason) => {
                    self.end_formal(None)?;
                    return Err(Cut::Finished(reason));
                }
                other => Err(other),
            },
        };
        self.end_formal(None)?;
        match result? {
            Some(failure) => Err(Cut::Failed(failure)),
            None => Ok(()),
        }
    }

    /// Ends the formal window with the last request that was sent from here, else now. What others still
    /// send through a proxy is broken off before, so that no request lies outside.
    fn end_formal(&self, last: Option<TimestampNs>) -> Result<(), StoreError> {
        let others_may_end_later = self.recording.close_proxies();
        match last {
            Some(last) if !others_may_end_later => self.recording.stamp_at(Stage::FormalEnd, last),
            _ => self.recording.stamp(Stage::FormalEnd).map(drop),
        }
    }

    /// Runs a shell command that sends requests to its end; its output goes to this log of the run.
    fn requests(&self, text: &str, log: &str) -> Result<ExitReason, Cut> {
        let log = self.recording.logs().join(log);
        let reason = self.command(text, &log, Duration::MAX)?;
        Ok(reason.unwrap_or(ExitReason::Unknown))
    }

    /// Runs a shell command to its end, or to that of `limit`, after which it is killed and gives `None`.
    fn command(&self, text: &str, log: &Path, limit: Duration) -> Result<Option<ExitReason>, Cut> {
        let mut group = Group::start(&shell(text), log, self.sender)
            .map_err(|error| Cut::Failed(format!("cannot start \"{text}\": {error}")))?;
        let waited = self.wait(limit, Some(group.number()));
        if !matches!(waited, Ok(Some(_))) {
            group.end(Duration::ZERO, || false);
        }
        waited
    }

    /// Sends the requests of a stage from a thread of its own, while this one waits for what may cut it
    /// short; the requests under way are broken off then.
    fn drive(
        &self,
        load: &Load,
        stage: fn(&Load, &Context, &Say<'_>) -> Sent,
    ) -> (Sent, Result<(), Cut>) {
        let number = next_number();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let sent = stage(load, self.recording.context(), self.say);
                // This thread's other end waits for it below.
                let event = Event::Exited { number, reason: ExitReason::Code(0) };
                let _ = self.sender.send(event);
                sent
            });
            let waited = self.wait(Duration::MAX, Some(number)).map(drop);
            if waited.is_err() {
                load.cancel();
            }
            match sending.join() {
                Ok(sent) => (sent, waited),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Waits for `time`, or until what has the number `awaited` ends, which gives how. The end of the
    /// service, a signal and a failed recording cut it short.
    fn wait(&self, time: Duration, awaited: Option<u64>) -> Result<Option<ExitReason>, Cut> {
        let service = self.service.as_ref().map(Group::number);
        let deadline = Instant::now().checked_add(time);
        loop {
            let event = match deadline {
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(deadline) => {
                    self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))
                }
            };
            match event {
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
                Ok(Event::Interrupted { by_ctrl_c }) => return Err(Cut::Interrupted { by_ctrl_c }),
                Ok(Event::RecordingFailed) => return Err(Cut::RecordingFailed),
                Ok(Event::Exited { number, reason }) if Some(number) == service => {
                    return Err(Cut::Exited(reason));
                }
                Ok(Event::Exited { number, reason }) if Some(number) == awaited => {
                    return Ok(Some(reason));
                }
                Ok(Event::Exited { .. }) => (),
            }
        }
    }

    fn wait_forever(&self) -> Cut {
        match self.wait(Duration::MAX, None) {
            Err(cut) => cut,
            Ok(_) => Cut::Failed("nothing is left to wait for".to_owned()),
        }
    }

    /// Shuts the service down, waits for the release, and stamps both. Says what went wrong.
    fn end(&mut self, has_exited: bool) -> Vec<String> {
        let mut failures = Vec::new();
        let Some(mut service) = self.service.take() else {
            self.stamp(Stage::MonitorEnd);
            return failures;
        };
        if !has_exited {
            (self.say)("shutdown");
            let (mut is_hastened, mut has_failed) = (false, false);
            let ended = service.end(self.plan.shutdown_wait, || {
                match self.events.try_recv() {
                    // The first one asks for what is going on anyway.
                    Ok(Event::Interrupted { by_ctrl_c }) => {
                        self.was_interrupted = true;
                        is_hastened |= self.was_ctrl_c && by_ctrl_c;
                        if by_ctrl_c && !self.was_ctrl_c {
                            self.was_ctrl_c = true;
                            (self.say)(CTRL_C_AGAIN);
                        }
                    }
                    Ok(Event::RecordingFailed) => has_failed = true,
                    Ok(Event::Exited { .. }) | Err(_) => (),
                }
                is_hastened
            });
            if has_failed {
                // It cuts the wait for the release short. The receiver is this procedure's own.
                let _ = self.sender.send(Event::RecordingFailed);
            }
            if !ended && is_hastened {
                let text = "COMMAND was killed, since Ctrl-C came again while it shut down";
                failures.push(text.to_owned());
            } else if !ended {
                let seconds = self.plan.shutdown_wait.as_secs_f64();
                failures.push(format!("COMMAND did not end within {seconds} s and was killed"));
            }
        }
        self.stamp(Stage::ProcessExit);
        // What COMMAND started and left behind would keep the boards busy.
        service.end(Duration::ZERO, || false);
        if !self.recording.context().sink.is_closed() {
            failures.extend(self.release());
        }
        self.stamp(Stage::MonitorEnd);
        failures
    }

    /// Waits until memory is free and every board was near its idle power for long enough. A
    /// Ctrl-C before goes on to here; one that comes now ends the wait.
    fn release(&mut self) -> Option<String> {
        let live = self.recording.live();
        live.begin_release();
        (self.say)("waiting for the release (Ctrl-C skips it)");
        let hold_ns = i64::try_from(self.plan.release_hold.as_nanos()).unwrap_or(i64::MAX);
        let deadline = Instant::now() + self.plan.release_wait;
        let mut is_memory_open = true;
        loop {
            if is_memory_open && live.memory_released() == Some(true) {
                self.stamp(Stage::MemoryReleased);
                live.begin_release();
                is_memory_open = false;
            }
            let is_memory_done = !is_memory_open || live.memory_released().is_none();
            match live.release(hold_ns) {
                Release::Unknown => {
                    let context = self.recording.context();
                    context.note("no idle power is known, so the release was not waited for");
                    return None;
                }
                Release::Held if is_memory_done => return None,
                Release::Held | Release::Waiting => (),
            }
            if Instant::now() >= deadline {
                let seconds = self.plan.release_wait.as_secs_f64();
                return Some(format!("power was not back at idle {seconds} s after the end"));
            }
            let cut = self.wait(RELEASE_POLL, None).err();
            if matches!(cut, Some(Cut::Interrupted { .. } | Cut::RecordingFailed)) {
                self.was_interrupted |= matches!(cut, Some(Cut::Interrupted { .. }));
                return Some("the wait for the release was cut short".to_owned());
            }
        }
    }

    fn stamp(&self, stage: Stage) {
        if let Err(error) = self.recording.stamp(stage) {
            (self.say)(&format!("warning: {error}"));
        }
    }
}
