//! `ipmitool`'s shell, kept running.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::super::host::HostPort;
use super::super::secrets::Secrets;
use crate::HelperCpu;

/// Cause of a read that got no answer in its time.
const NO_ANSWER: &str = "no answer in time";

/// What the shell prints when it waits for a command.
const PROMPT: &str = "ipmitool> ";

/// Longest that a log-in, and a command, may go on before the shell is started anew. A controller that was
/// restarted does not know the session, and would leave every command without an answer.
const LONGEST_LOG_IN: Duration = Duration::from_secs(20);
const LONGEST_COMMAND: Duration = Duration::from_secs(5);

/// Time for the shell to close its session, of which a controller has few.
const LOG_OUT: Duration = Duration::from_millis(500);

/// More than this is no answer to any command used here.
const LONGEST_REPLY: usize = 64 << 10;

/// Keys of a file of credentials, and of the environment after `WATTRACE_IPMI_`.
const KEYS: [&str; 5] = ["user", "password", "kg", "cipher_suite", "privilege"];

/// What logs in to a controller. Only names of keys appear when it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct IpmiLogin {
    user: String,
    password: String,
    kg: Option<String>,
    cipher_suite: Option<u8>,
    privilege: &'static str,
}

impl fmt::Debug for IpmiLogin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IpmiLogin(***)")
    }
}

impl IpmiLogin {
    /// Reads lines `key = value`: `user`, `password`, and if need be `kg` (the controller's key),
    /// `cipher_suite` and `privilege` (`user` unless given, which reading needs).
    ///
    /// # Errors
    /// The file cannot be read or holds something else; the message shows no value.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let named = |problem| format!("\"{}\": {problem}", path.display());
        Self::from_secrets(&Secrets::from_file(path, &KEYS)?).map_err(named)
    }

    /// Takes the same keys from variables such as `WATTRACE_IPMI_USER`; `None` where none is set.
    ///
    /// # Errors
    /// As [`IpmiLogin::from_file`].
    pub fn from_environment() -> Result<Option<Self>, String> {
        let secrets = Secrets::from_environment("WATTRACE_IPMI", &KEYS)?;
        (!secrets.is_empty()).then(|| Self::from_secrets(&secrets)).transpose()
    }

    fn from_secrets(secrets: &Secrets) -> Result<Self, String> {
        let needed = |key| secrets.get(key).map(str::to_owned).ok_or(format!("{key} is missing"));
        let suite = |text: &str| match text.parse() {
            // Suites without integrity or encryption would let anybody send readings.
            Ok(suite @ (3 | 8 | 12 | 17)) => Ok(suite),
            _ => Err("cipher_suite is none that encrypts with AES; expected 3, 8, 12 or 17"),
        };
        let privileges =
            [("user", "USER"), ("operator", "OPERATOR"), ("administrator", "ADMINISTRATOR")];
        Ok(Self {
            user: needed("user")?,
            password: needed("password")?,
            kg: secrets.get("kg").map(str::to_owned),
            cipher_suite: secrets.get("cipher_suite").map(suite).transpose()?,
            privilege: secrets.choice("privilege", &privileges)?.unwrap_or("USER"),
        })
    }
}

/// How `ipmitool` is started.
#[derive(Debug)]
pub(super) struct ClientCommand {
    arguments: Vec<String>,
    /// Secrets, which the process list does not show.
    environment: Vec<(&'static str, Hidden)>,
}

/// A text that does not appear when it is shown.
struct Hidden(String);

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl ClientCommand {
    /// The controller of this machine.
    pub(super) fn local() -> Self {
        let arguments = ["-I", "open", "shell"].map(str::to_owned).into();
        Self { arguments, environment: Vec::new() }
    }

    /// A controller by RMCP+.
    pub(super) fn remote(host: &HostPort, login: &IpmiLogin) -> Self {
        let port = host.port.to_string();
        // -E: the password is in the environment. -N, -R: seconds between tries, and how many.
        let mut arguments: Vec<String> = [
            "-I",
            "lanplus",
            "-H",
            &host.host,
            "-p",
            &port,
            "-U",
            &login.user,
            "-E",
            "-L",
            login.privilege,
            "-N",
            "1",
            "-R",
            "2",
        ]
        .map(str::to_owned)
        .into();
        let mut environment = vec![("IPMI_PASSWORD", Hidden(login.password.clone()))];
        if let Some(kg) = &login.kg {
            arguments.push("-K".to_owned());
            environment.push(("IPMI_KGKEY", Hidden(kg.clone())));
        }
        if let Some(suite) = login.cipher_suite {
            arguments.extend(["-C".to_owned(), suite.to_string()]);
        }
        arguments.push("shell".to_owned());
        Self { arguments, environment }
    }

    fn start(&self) -> Result<Shell, String> {
        let cannot = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                "the program ipmitool is missing; install it (Debian: apt-get install ipmitool)"
                    .to_owned()
            }
            _ => format!("ipmitool cannot be started: {error}"),
        };
        let (output, input) = io::pipe().map_err(cannot)?;
        let mut command = Command::new("ipmitool");
        command
            .args(&self.arguments)
            .env_remove("IPMITOOL_PASSWORD")
            // Its line editor would mix signs for the terminal into what it prints.
            .env("TERM", "dumb")
            .env("INPUTRC", "/dev/null")
            .envs(self.environment.iter().map(|(name, value)| (name, &value.0)))
            .stdin(Stdio::piped())
            .stdout(input.try_clone().map_err(cannot)?)
            .stderr(input)
            // Ctrl-C at the terminal is for the recorder, which then ends the shell.
            .process_group(0);
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(cannot)?;
        // Both ends of its output belong to the child alone, so that its end is seen.
        drop(command);
        let stdin = child.stdin.take().expect("it was asked for a pipe");
        let mut shell = Shell {
            child,
            stdin,
            chunks: channel().1,
            output: String::new(),
            busy_until: Some(Instant::now() + LONGEST_LOG_IN),
        };
        shell.chunks = read_along(output).map_err(cannot)?;
        Ok(shell)
    }
}

/// Has the kernel kill the child when the recorder is killed. Its end of input would not do: `ipmitool`
/// then tries again for ever.
#[expect(unsafe_code, reason = "only code between fork and exec can ask for it")]
fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the kernel was asked.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
    };
    // SAFETY: the closure makes two system calls and touches no memory but its own.
    unsafe { command.pre_exec(ask) };
}

/// Reads a pipe on a thread of its own, so that waiting for it can end.
fn read_along(mut output: io::PipeReader) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, chunks) = channel();
    let read = move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("ipmitool".to_owned()).stack_size(128 << 10).spawn(read)?;
    Ok(chunks)
}

/// A running shell.
#[derive(Debug)]
struct Shell {
    child: Child,
    stdin: ChildStdin,
    chunks: Receiver<Vec<u8>>,
    /// What it printed since the last command.
    output: String,
    /// Until when its prompt is awaited at the longest; `None` while it waits for a command.
    busy_until: Option<Instant>,
}

/// How waiting for the prompt ended without it.
enum NoPrompt {
    Late,
    Ended,
}

impl Shell {
    /// Waits for the prompt and gives what was printed before it.
    fn prompt(&mut self, deadline: Instant) -> Result<String, NoPrompt> {
        loop {
            if let Some(text) = self.output.strip_suffix(PROMPT) {
                let text = text.to_owned();
                self.output.clear();
                self.busy_until = None;
                return Ok(text);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) if self.output.len() < LONGEST_REPLY => {
                    self.output.push_str(&String::from_utf8_lossy(&chunk));
                }
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(NoPrompt::Ended),
                Err(RecvTimeoutError::Timeout) => return Err(NoPrompt::Late),
            }
        }
    }

    /// What it said before it ended.
    fn last_words(&self) -> String {
        let line = self.output.lines().map(str::trim).rfind(|line| !line.is_empty());
        line.map_or_else(
            || "ipmitool ended without a word".to_owned(),
            |line| line.strip_prefix("Error: ").unwrap_or(line).to_owned(),
        )
    }

    /// Lets it log out if it can, else kills it; gives the processor time that it took beyond `seen`.
    fn end(mut self, seen: &mut HelperCpu) -> Duration {
        if self.busy_until.is_none() && self.stdin.write_all(b"exit\n").is_ok() {
            let deadline = Instant::now() + LOG_OUT;
            while let Err(NoPrompt::Late) | Ok(_) = self.prompt(deadline) {
                if Instant::now() >= deadline {
                    break;
                }
            }
        }
        let cpu = seen.since_last(&self.child);
        // One that has ended already cannot be killed, which is no matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
        cpu
    }
}

/// Whether the controller gave no answer at all: it is gone, or was restarted and does not know the session.
/// What it refuses comes with its completion code, `rsp=`.
fn is_unanswered(text: &str) -> bool {
    text.lines()
        .any(|line| line.starts_with("Unable to send RAW command") && !line.contains("rsp="))
}

/// A shell that is started again whenever it ends or hangs.
#[derive(Debug)]
pub(super) struct Client {
    command: ClientCommand,
    shell: Option<Shell>,
    /// What the present shell took as far as it was told.
    seen: HelperCpu,
    /// Processor time of shells that ended, not told yet.
    ended_cpu: Duration,
}

impl Client {
    pub(super) fn new(command: ClientCommand) -> Self {
        Self { command, shell: None, seen: HelperCpu::default(), ended_cpu: Duration::ZERO }
    }

    /// Has a shell that waits for a command. One that is still logging in or busy at the deadline is kept,
    /// so that a slow controller is ready at some later read.
    pub(super) fn ready(&mut self, deadline: Instant) -> Result<(), String> {
        let mut shell = match self.shell.take() {
            Some(shell) => shell,
            None => self.command.start()?,
        };
        let Some(limit) = shell.busy_until else {
            self.shell = Some(shell);
            return Ok(());
        };
        match shell.prompt(deadline) {
            Ok(text) if is_unanswered(&text) => {
                self.ended_cpu += shell.end(&mut self.seen);
                Err(NO_ANSWER.to_owned())
            }
            // Whatever it answered to a command before is too old now.
            Ok(_) => {
                self.shell = Some(shell);
                Ok(())
            }
            Err(NoPrompt::Late) => {
                if Instant::now() < limit {
                    self.shell = Some(shell);
                } else {
                    self.ended_cpu += shell.end(&mut self.seen);
                }
                Err(NO_ANSWER.to_owned())
            }
            Err(NoPrompt::Ended) => {
                let words = shell.last_words();
                self.ended_cpu += shell.end(&mut self.seen);
                Err(words)
            }
        }
    }

    /// Gives a command and takes what it prints; [`Client::ready`] comes first.
    pub(super) fn ask(&mut self, command: &str, deadline: Instant) -> Result<String, String> {
        let lost = || "the session ended".to_owned();
        let mut shell = self.shell.take().ok_or_else(lost)?;
        shell.busy_until = Some(Instant::now() + LONGEST_COMMAND);
        let is_sent = writeln!(shell.stdin, "{command}").is_ok();
        let answer = if is_sent { shell.prompt(deadline) } else { Err(NoPrompt::Ended) };
        match answer {
            Ok(text) if is_unanswered(&text) => {
                self.ended_cpu += shell.end(&mut self.seen);
                Err(NO_ANSWER.to_owned())
            }
            Ok(text) => {
                self.shell = Some(shell);
                // The shell repeats the command first.
                Ok(text.strip_prefix(command).unwrap_or(&text).to_owned())
            }
            Err(NoPrompt::Late) => {
                self.shell = Some(shell);
                Err(NO_ANSWER.to_owned())
            }
            Err(NoPrompt::Ended) => {
                self.ended_cpu += shell.end(&mut self.seen);
                Err(lost())
            }
        }
    }

    /// Processor time of all shells since this was asked the last time.
    pub(super) fn take_cpu(&mut self) -> Duration {
        let present = self.shell.as_ref().map(|shell| self.seen.since_last(&shell.child));
        std::mem::take(&mut self.ended_cpu) + present.unwrap_or_default()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(shell) = self.shell.take() {
            shell.end(&mut self.seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_answer() {
        let silent =
            "raw 0x2c 0x02\nUnable to send RAW command (channel=0x0 netfn=0x2c lun=0x0 cmd=0x2)\n";
        assert!(is_unanswered(silent));
        assert!(!is_unanswered(&silent.replace(" cmd=0x2)", " cmd=0x2 rsp=0xcb): not found")));
        assert!(!is_unanswered(" dc d2 04\n"));
    }

    fn login(lines: &[(&str, &str)]) -> Result<IpmiLogin, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        let text: String = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        std::fs::write(&path, text).unwrap();
        IpmiLogin::from_file(&path).map_err(|message| {
            let (_, problem) = message.split_once("\": ").unwrap();
            problem.to_owned()
        })
    }

    #[test]
    fn the_password_and_the_key_are_in_the_environment_and_not_among_the_arguments() {
        let login = login(&[
            ("user", "meter"),
            ("password", "s3cret"),
            ("kg", "k3y"),
            ("cipher_suite", "3"),
            ("privilege", "Administrator"),
        ])
        .unwrap();
        let host = HostPort::parse("[fe80::1]:1623", 623).unwrap();
        let command = ClientCommand::remote(&host, &login);
        assert_eq!(
            command.arguments.join(" "),
            "-I lanplus -H fe80::1 -p 1623 -U meter -E -L ADMINISTRATOR -N 1 -R 2 -K -C 3 shell"
        );
        let environment: Vec<_> =
            command.environment.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
        assert_eq!(environment, ["IPMI_PASSWORD=s3cret", "IPMI_KGKEY=k3y"]);
        for shown in [format!("{command:?}"), format!("{login:?}")] {
            assert!(!shown.contains("s3cret") && !shown.contains("k3y"), "{shown}");
        }
    }

    #[test]
    fn a_log_in_that_lacks_something_or_would_not_be_safe_is_refused() {
        let given = [("user", "meter"), ("password", "s3cret")];
        let with = |more| [given[0], given[1], more];
        assert_eq!(login(&given[..1]).unwrap_err(), "password is missing");
        assert_eq!(
            login(&with(("cipher_suite", "0"))).unwrap_err(),
            "cipher_suite is none that encrypts with AES; expected 3, 8, 12 or 17"
        );
        assert_eq!(
            login(&with(("privilege", "root"))).unwrap_err(),
            "privilege is none of those known; expected user, operator, administrator"
        );
    }
}
