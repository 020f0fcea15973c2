//! The power package of srt-slurm: samples of all boards on the head node's clock, a manifest with the
//! topology, and a file for each window that was measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wattrace_schema::{Interval, Scope};

use super::super::power_log::{PowerLog, Problem, Rows, Source, power_cell, split_cells};
use super::super::{Input, Part, file_name, quantity};
use super::{Window, read_json, window_of};
use crate::{PowerRow, TraceError};

const HEADER: &str = "schema_version,timestamp_unix,scrape_seq,hostname,gpu_index,gpu_uuid,power_w";
const SOURCE: &str = "dcgm";
/// Version of the package that this code reads.
const VERSION: &str = "1";

/// Whether a line is the header of the samples.
pub(super) fn is_samples(line: &str) -> bool {
    line.trim_end() == HEADER
}

/// Files of a package.
#[derive(Debug)]
pub(super) struct Package {
    manifest: Option<PathBuf>,
    windows: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    status: Option<String>,
    publication_valid: Option<bool>,
    #[serde(default)]
    reason_codes: Vec<String>,
    samples_sha256: Option<String>,
    #[serde(default)]
    expected_devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
struct Device {
    hostname: String,
    gpu_index: u32,
    #[serde(default)]
    assignments: Vec<Assignment>,
}

#[derive(Debug, Deserialize)]
struct Assignment {
    worker_role: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WindowFile {
    status: Option<String>,
    benchmark_start_time_unix: Option<f64>,
    benchmark_end_time_unix: Option<f64>,
    concurrency: Option<u64>,
}

impl Package {
    /// The files that belong to `samples.csv`.
    pub(super) fn beside(samples: &Path) -> Self {
        let folder = samples.parent().unwrap_or(Path::new(""));
        let manifest = folder.join("manifest.json");
        let mut windows: Vec<PathBuf> = std::fs::read_dir(folder.join("windows"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        windows.sort();
        Self { manifest: manifest.is_file().then_some(manifest), windows }
    }

    /// The windows that were completed. Others, and what the manifest says, become notes.
    pub(super) fn windows(
        &self,
        shared: &mut Part,
        files: &mut Vec<PathBuf>,
        samples: &Path,
    ) -> Result<Vec<Window>, TraceError> {
        match &self.manifest {
            Some(path) => {
                let manifest: Manifest = read_json(path)?;
                shared.notes.extend(manifest.notes(samples)?);
                files.push(path.clone());
            }
            None => shared.notes.push("the package has no manifest.json".into()),
        }
        let mut windows = Vec::new();
        for path in &self.windows {
            let file: WindowFile = read_json(path)?;
            match file.window(path)? {
                Ok(window) => windows.push(window),
                Err(note) => shared.notes.push(note),
            }
        }
        Ok(windows)
    }
}

impl Manifest {
    fn notes(&self, samples: &Path) -> Result<Vec<String>, TraceError> {
        let mut notes = Vec::new();
        if let Some(status) = self.status.as_deref().filter(|status| *status != "completed") {
            notes.push(format!("the package's status is \"{}\"", status.escape_debug()));
        }
        if self.publication_valid != Some(true) {
            notes.push(format!(
                "the package does not call itself valid for publication: {}",
                match self.reason_codes.as_slice() {
                    [] => "no reason".to_owned(),
                    codes => codes.join(", "),
                }
            ));
        }
        if let Some(expected) = &self.samples_sha256 {
            let found = Input::new(samples).sha256()?;
            if !expected.eq_ignore_ascii_case(&found) {
                return Err(TraceError::Format {
                    path: samples.to_owned(),
                    line: None,
                    message: format!(
                        "its SHA-256 is {found}; expected {expected} as in manifest.json: the samples were \
                         changed"
                    ),
                });
            }
        }
        notes.extend(self.roles());
        Ok(notes)
    }

    /// Which boards prefill and which decode.
    fn roles(&self) -> Vec<String> {
        let mut roles: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for device in &self.expected_devices {
            let names = device.assignments.iter().filter_map(|work| work.worker_role.as_deref());
            for role in names {
                let board = format!("{}/{}", device.hostname, device.gpu_index);
                roles.entry(role).or_default().push(board);
            }
        }
        roles
            .into_iter()
            .map(|(role, boards)| format!("boards of role \"{role}\": {}", boards.join(", ")))
            .collect()
    }
}

impl WindowFile {
    /// The window, or why it is none.
    fn window(&self, path: &Path) -> Result<Result<Window, String>, TraceError> {
        let file = file_name(path);
        if self.status.as_deref() != Some("completed") {
            let status = self.status.as_deref().unwrap_or("none");
            return Ok(Err(format!(
                "{file} left out: its status is \"{}\"",
                status.escape_debug()
            )));
        }
        let ends = self.benchmark_start_time_unix.zip(self.benchmark_end_time_unix);
        let Some((start, end)) = ends else {
            return Ok(Err(format!("{file} left out: it states no start and end")));
        };
        let interval: Interval = window_of(path, start, end)?;
        let notes = self.concurrency.map(|count| format!("{file}: concurrency {count}"));
        Ok(Ok(Window {
            name: Input::new(path).stem(),
            interval: Some(interval),
            claims: Vec::new(),
            notes: notes.into_iter().collect(),
            file: Some(path.to_owned()),
        }))
    }
}

/// Reads `samples.csv`.
#[derive(Debug)]
pub(super) struct Samples {
    started: bool,
    /// Names of boards, by host and number.
    boards: BTreeMap<(String, String), String>,
    first_host: Option<String>,
}

impl Samples {
    pub(super) const fn new() -> Self {
        Self { started: false, boards: BTreeMap::new(), first_host: None }
    }

    /// Boards of the first host by their number, of others by host and number.
    fn board(&mut self, host: &str, index: &str) -> Result<String, String> {
        let key = (host.to_owned(), index.to_owned());
        if let Some(name) = self.boards.get(&key) {
            return Ok(name.clone());
        }
        let number: u16 = index
            .parse()
            .map_err(|_| format!("\"gpu_index\" is \"{index}\"; expected the number of a board"))?;
        let first = self.first_host.get_or_insert_with(|| host.to_owned());
        let name =
            if first == host { format!("gpu{number}") } else { format!("{host}-gpu{number}") };
        self.boards.insert(key, name.clone());
        Ok(name)
    }
}

impl PowerLog for Samples {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if !self.started {
            if !is_samples(line) {
                return Err(Problem::Stop(format!("has another header; expected \"{HEADER}\"")));
            }
            self.started = true;
            rows.declare(Source::average(
                SOURCE,
                Scope::GpuBoard,
                Some(super::super::nvidia_smi::AVERAGE_MS),
            ));
            return Ok(());
        }
        let cells = split_cells(line, ',');
        let [version, time, _, host, index, _, watts] = cells.as_slice() else {
            return Err(format!("has {} cells; expected 7 as in the header", cells.len()).into());
        };
        if version != VERSION {
            return Err(
                format!("\"schema_version\" is \"{version}\"; expected \"{VERSION}\"").into()
            );
        }
        let t_ns = quantity::decimal_nanos(time, "s").map_err(|_| {
            format!("\"timestamp_unix\" is \"{time}\"; expected seconds since 1970")
        })?;
        let power_w = power_cell(&"power_w", watts, "W")?;
        let device = self.board(host, index)?;
        let source = SOURCE.to_owned();
        rows.push(PowerRow { t_ns, source, device, power_w, ..PowerRow::default() });
        Ok(())
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        if let Some(host) = self.first_host.as_ref().filter(|_| !rows.is_empty()) {
            rows.note(format!(
                "boards gpu0 and on without a host are those of \"{}\"",
                host.escape_debug()
            ));
        }
        Ok(())
    }
}
