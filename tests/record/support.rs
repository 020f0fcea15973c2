//! Starting the program, and reading what it wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wattrace_schema::{DevicePower, EngineMetric, Run};
use wattrace_trace::{
    Finding, ReadOptions, RunLocation, check_archive, check_run, find_runs, list_archive, read_run,
};

/// A folder that holds an archive and what else a test needs.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A place with `boards.csv`: two boards that are always at 100 W and 101 W, so that they are at their idle
    /// power as soon as anybody looks.
    pub(crate) fn with_calm_boards() -> Self {
        let place = Self::new();
        place.write("boards.csv", "t,device,power_w,energy_j\n0,gpu0,100,0\n0,gpu1,101,0\n");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.path("archive")
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `wattrace-record` with these words, in which `{}` stands for this place. It keeps no space free:
    /// the machine that tests run on may have little.
    pub(crate) fn record(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wattrace-record"));
        let place = self.folder.path().display().to_string();
        command.args(words.iter().map(|word| word.replace("{}", &place)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn output(&self, words: &[&str]) -> Output {
        self.record(words).output().unwrap()
    }

    /// Standard error with this place shortened.
    pub(crate) fn stderr(&self, output: &Output) -> String {
        let place = self.folder.path().display().to_string();
        String::from_utf8(output.stderr.clone()).unwrap().replace(&place, "{}")
    }

    pub(crate) fn location(&self, run_id: &str) -> RunLocation {
        let runs = find_runs(&self.archive()).unwrap();
        runs.into_iter().find(|run| run.relative == run_id).unwrap()
    }

    pub(crate) fn run(&self, run_id: &str) -> Run {
        read_run(&self.location(run_id), ReadOptions::default()).unwrap().run
    }

    /// One of the engine's metrics, by labels.
    pub(crate) fn engine_metric(
        &self,
        run_id: &str,
        name: &'static [&'static str],
    ) -> Vec<EngineMetric> {
        let options = ReadOptions { engine_metrics: name, ..ReadOptions::default() };
        read_run(&self.location(run_id), options).unwrap().run.engine_metrics
    }

    /// Everything that breaks a rule, of all runs and of the archive.
    pub(crate) fn broken_rules(&self) -> Vec<Finding> {
        let listing = list_archive(&self.archive()).unwrap();
        let runs = listing.runs.iter().map(check_run).collect();
        let checked = check_archive(&listing, runs);
        let of_archive = checked.archive.iter();
        let results = of_archive.chain(checked.runs.iter().flat_map(|run| &run.checks));
        results
            .filter(|result| result.outcome == wattrace_trace::Outcome::Broken)
            .flat_map(|result| result.findings.clone())
            .collect()
    }
}

/// `run` with the calm boards of a place and short waits, and what else a test gives.
pub(crate) fn run_words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = [
        "run",
        "--out",
        "{}/archive/run",
        "--power",
        "replay={}/boards.csv",
        "--keep-free",
        "0",
        "--flush",
        "0.2",
        "--idle",
        "0.5",
        "--release-hold",
        "0.3",
        "--release-wait",
        "60",
        "--shutdown-wait",
        "20",
    ];
    words.iter().chain(more).copied().collect()
}

/// Rules that a busy machine breaks: a read comes late, and the gap is said truly.
pub(crate) fn is_about_lateness(finding: &Finding) -> bool {
    matches!(finding.check, "power-gap" | "power-coverage" | "counter-stalls")
}

/// The device of a run.
pub(crate) fn device<'a>(run: &'a Run, source: &str, name: &str) -> &'a DevicePower {
    let found = run.power.iter().find(|device| {
        run.manifest.power_sources[device.source].id == source && device.device == name
    });
    found.unwrap_or_else(|| panic!("no device {name} of {source}"))
}

/// Waits until `ready`, which something else brings about.
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !ready() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the run "run" of a place is in its formal window.
pub(crate) fn wait_for_formal_window(place: &Place) {
    let journal = place.path("archive/run.partial/journal.jsonl");
    wait_until("the formal window began", || {
        let text = std::fs::read_to_string(&journal);
        text.is_ok_and(|text| text.contains("\"formal_start\""))
    });
}

pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

/// A library with NVML's calls.
pub(crate) fn mock_nvml() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &LIBRARY.get_or_init(|| library("mock_nvml.c")).1
}

/// A library with amd-smi's calls.
pub(crate) fn mock_amd_smi() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &LIBRARY.get_or_init(|| library("mock_amd_smi.c")).1
}

/// A library with ROCm SMI's calls.
pub(crate) fn mock_rocm_smi() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &LIBRARY.get_or_init(|| library("mock_rocm_smi.c")).1
}

/// Records a library that is told to fail now and then (`MOCK_name_FAULTS`), until board 0 was read 40 times,
/// and ends the recording in order. Gives what was printed, and how often each board was read.
pub(crate) fn record_faults(
    place: &Place,
    words: &[&str],
    name: &str,
) -> (Output, impl Fn(&str) -> usize + use<>) {
    let log = place.path("reads.log");
    let mut command = place.record(words);
    command.env(format!("MOCK_{name}_FAULTS"), "1").env(format!("MOCK_{name}_LOG"), &log);
    let child = command.spawn().unwrap();
    let reads_of = move |board: &str| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(&format!("{board} "))).count()
    };
    wait_until("board 0 was read 40 times", || reads_of("0") >= 40);
    signal(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", place.stderr(&output));
    (output, reads_of)
}

/// Builds a library from one of the C files beside this one.
fn library(source: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join(source).with_extension("so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record").join(source);
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .expect("a C compiler is there, since zstd is built from C");
    assert!(status.success());
    (folder, library)
}

/// A program beside the Python of the tests, where `make test` installs peers. Without it the test is
/// skipped, unless the environment says that it must be there.
pub(crate) fn python_program(name: &str) -> Option<PathBuf> {
    let python = std::env::var_os("WATTRACE_PYTHON");
    let program = python.and_then(|python| Some(Path::new(&python).parent()?.join(name)));
    let found = program.filter(|program| program.exists());
    if found.is_none() {
        crate::peers::skip(&format!("{name} is not beside WATTRACE_PYTHON"));
    }
    found
}

/// The whole number between two texts that follow each other in a run's notes.
pub(crate) fn number_between(notes: &str, before: &str, after: &str) -> i64 {
    let found = notes.split(before).skip(1).find_map(|rest| {
        let (number, _) = rest.split_once(after)?;
        number.parse().ok()
    });
    found.unwrap_or_else(|| panic!("no \"{before}N{after}\" in {notes}"))
}

/// What the recorder counted as failed: device and cause, with how often.
pub(crate) fn failures(run: &Run) -> Vec<(String, String, u64)> {
    let cost = run.manifest.recorder_cost.as_ref().unwrap();
    let failures = cost["failures"].as_array().unwrap();
    let text = |failure: &serde_json::Value, key: &str| failure[key].as_str().unwrap().to_owned();
    failures
        .iter()
        .map(|it| (text(it, "device"), text(it, "cause"), it["count"].as_u64().unwrap()))
        .collect()
}
