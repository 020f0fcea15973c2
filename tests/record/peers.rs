//! Programs of other makers, run on loopback.

use std::ffi::OsStr;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A running program, ended when this is dropped.
pub(crate) struct Peer(Child);

impl Peer {
    /// Starts it without input; its output goes to the file `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let output = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let errors = output.try_clone().unwrap();
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().unwrap();
        Self(child)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// A running recorder, killed when this is dropped, also by a test that fails.
pub(crate) struct Recorder(Option<Child>);

impl Recorder {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    fn child(&mut self) -> Child {
        self.0.take().expect("it is taken once, by whatever ends it")
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().expect("it has not ended").id()
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(mut self) -> Output {
        let child = self.child();
        crate::support::signal(&child, rustix::process::Signal::INT);
        child.wait_with_output().unwrap()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}

/// The path of a program. Where it is not installed the test that asks says so and is skipped, unless
/// WATTRACE_PEERS=required.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    // A user's PATH often lacks the folders where Debian keeps servers.
    let servers = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = folders.chain(servers).map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// Says that a test is skipped, or fails it where the peers are required.
pub(crate) fn skip(reason: &str) {
    let is_required = std::env::var_os("WATTRACE_PEERS").as_deref() == Some(OsStr::new("required"));
    assert!(!is_required, "{reason}; expected what `make peers` installs");
    println!("skipped: {reason} (make peers installs it)");
}

/// A UDP port of 127.0.0.1 that nobody uses now.
pub(crate) fn free_udp_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Processes that a process started and that run `program`.
pub(crate) fn children(parent: u32, program: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // "PID (NAME) STATE PARENT ..."; one that ended and was not waited for has state Z.
        let Some((name, rest)) = stat.rsplit_once(") ") else { return false };
        let mut fields = rest.split(' ');
        name.ends_with(&format!("({program}"))
            && fields.next() != Some("Z")
            && fields.next() == Some(&parent.to_string())
    };
    numbers.filter(is_child).collect()
}
