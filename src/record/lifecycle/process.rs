//! Commands that the lifecycle starts, each in a process group of its own.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::Event;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// By itself, with this code.
    Code(u8),
    /// By a signal.
    Signal(i32),
    /// The system did not say.
    Unknown,
}

impl ExitReason {
    /// The code that a shell would give for it.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::Unknown => 1,
        }
    }

    fn of(status: &io::Result<ExitStatus>) -> Self {
        let Ok(status) = status else { return Self::Unknown };
        match (status.code().map(u8::try_from), status.signal()) {
            (Some(Ok(code)), _) => Self::Code(code),
            (_, Some(signal)) => Self::Signal(signal),
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(signal) => write!(formatter, "ended by signal {signal}"),
            Self::Unknown => formatter.write_str("ended, the system does not say how"),
        }
    }
}

/// The words that run `text` in a shell.
pub(super) fn shell(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(str::to_owned).into()
}

/// Beginnings of the names of variables that hold log-ins for power sources. What is started has no use
/// for them, and its environment may be shown to others.
const LOG_INS: [&str; 3] = ["WATTRACE_REDFISH_", "WATTRACE_IPMI_", "WATTRACE_SNMP_"];

/// The command of these words, without input and without the log-ins.
fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if LOG_INS.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// A file that keeps nothing, for output that nobody needs.
pub(super) const NOWHERE: &str = "/dev/null";

/// A number that nothing started by this program had before.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Time between looks at whether a command or its process group has gone.
const GONE_POLL: Duration = Duration::from_millis(20);

/// A command and whatever it starts. A signal at the terminal does not reach it: the lifecycle ends it
/// when its turn comes.
#[derive(Debug)]
pub(super) struct Group {
    number: u64,
    leader: Pid,
    exited: Receiver<()>,
    is_reaped: bool,
}

impl Group {
    /// Starts `words`, whose output is appended to the file `log`. Its end is sent as
    /// [`Event::Exited`] with its number.
    pub(super) fn start(words: &[String], log: &Path, sender: &Sender<Event>) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let number = next_number();
        let mut child = command(words)
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("\"{}\": {error}", words[0])))?;
        let leader = Pid::from_child(&child);
        let (gone, exited) = channel();
        let sender = sender.clone();
        std::thread::Builder::new().name("wait".to_owned()).stack_size(128 << 10).spawn(
            move || {
                let reason = ExitReason::of(&child.wait());
                // Nobody may wait any more for either.
                let _ = gone.send(());
                let _ = sender.send(Event::Exited { number, reason });
            },
        )?;
        Ok(Self { number, leader, exited, is_reaped: false })
    }

    /// The number under which its end is told.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Asks the command to end, which then ends what it started; whatever is left of the group after `wait`,
    /// or once `is_hastened` says so and goes on to, is killed. Says whether nothing was.
    pub(super) fn end(&mut self, wait: Duration, mut is_hastened: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + wait;
        let mut may_wait = || !is_hastened() && Instant::now() < deadline;
        if !self.is_reaped {
            // An error here means that it has ended by now.
            let _ = kill_process(self.leader, Signal::TERM);
            self.is_reaped = loop {
                match self.exited.recv_timeout(GONE_POLL) {
                    Ok(()) => break true,
                    Err(RecvTimeoutError::Timeout) if may_wait() => (),
                    Err(_) => break false,
                }
            };
        }
        // Those that outlive it did not hear of it.
        let _ = kill_process_group(self.leader, Signal::TERM);
        while self.is_alive() && may_wait() {
            std::thread::sleep(GONE_POLL);
        }
        let is_gone = !self.is_alive();
        if !is_gone {
            let _ = kill_process_group(self.leader, Signal::KILL);
            if !self.is_reaped {
                self.is_reaped = self.exited.recv().is_ok();
            }
        }
        is_gone
    }

    fn is_alive(&self) -> bool {
        test_kill_process_group(self.leader).is_ok()
    }
}
