//! Importers of other tools' raw formats: one file or folder each, one line in [`FORMATS`].
//!
//! Most formats read one file to [`Part`]s: streams of rows and what the file knows of the run. The same
//! reader serves an import of its own, where every part becomes a run, and a [`join()`], where several
//! inputs become one run. [`import_mapped`] reads tables of any tool by a declared mapping.

mod aiperf;
mod alumet;
mod amd_smi;
mod archive_sink;
mod cadence;
mod claim_rows;
mod client_statistics;
mod clock;
mod codecarbon;
mod dating;
pub mod dcgm;
mod delimited;
mod folders;
mod follow;
mod genai_perf;
mod guidellm;
mod head;
mod inference_perf;
mod inferencex;
mod input;
mod ipmi_dcmi;
mod join;
mod json;
mod json_objects;
mod lines;
mod llama_bench;
mod llamacpp;
mod llm_inference_bench;
mod local_time;
mod log_line;
mod map;
mod mlenergy_leaderboard;
mod mlenergy_raw;
mod mlperf_power;
mod nvidia_dmon;
mod nvidia_smi;
mod part;
mod pdu_csv;
mod placement;
mod power_log;
mod quantity;
pub mod redfish;
mod request_row;
mod rocm_smi;
mod scalar;
mod scrape;
mod sglang_bench;
pub mod sglang_log;
mod skipped;
mod splitwise;
mod step_times;
mod together;
mod token_count;
mod tokenpowerbench;
mod trtllm_stats;
mod vllm_bench;
pub mod vllm_log;
mod wattameter;
pub mod workload;
mod zeus;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::Digest as _;
use wattrace_schema::{Provenance, TimestampNs};

pub use clock::{Anchor, AnchorInstant};
pub use dating::Seen;
pub use follow::{LogReader, STEP_LOGS, StepLog, detect_step_log, find_step_log};
pub use head::Head;
pub use input::{Bytes, Input, Progress, STANDARD_INPUT};
pub use join::{ClockOffset, Join, JoinInput, Role, join};
pub use lines::{Line, Lines};
pub use local_time::{DateOrder, check_zone};
pub use map::{Mapping, import_mapped, mapping_json_schema};
pub use part::{Part, Sink};
pub use scrape::EngineValue;
pub use skipped::Skipped;

use crate::TraceError;
use archive_sink::ArchiveSink;
use together::RunInputs;

/// What an importer needs to know besides its inputs.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Anything skipped is an error.
    pub strict: bool,
    /// Time zone of times that are logged without one: a name such as `America/Los_Angeles`, `UTC`, or
    /// an offset such as `-07:00`.
    pub time_zone: Option<String>,
    /// Year of the first time in logs that have none.
    pub year: Option<i16>,
    /// Order of day and month in dates that may be read both ways.
    pub date_order: Option<DateOrder>,
    /// Ties a clock that counts from an unknown instant to the calendar.
    pub anchor: Option<Anchor>,
    /// Time between the readings of a log without times.
    pub interval_ns: Option<u64>,
    /// Name of the run; further ones of the same import get a number.
    pub run_id: Option<String>,
    /// Stamps of the lifecycle, by name; they come before what the inputs state.
    pub stages: Vec<(String, TimestampNs)>,
    /// Command line, for the provenance.
    pub command: String,
    /// Told of what is read.
    pub progress: Option<Progress>,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportSummary {
    /// Folders of the runs written, in order.
    pub runs: Vec<PathBuf>,
    /// What was decided or skipped, with file and line.
    pub notes: Vec<String>,
    /// Runs that could not be imported, each with its reason; the others are written all the same.
    pub failed: Vec<String>,
}

impl ImportSummary {
    /// Adds what another import did.
    fn extend(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.notes.extend(other.notes);
        self.failed.extend(other.failed);
    }

    /// Adds an error with its causes.
    fn fail(&mut self, error: &TraceError) {
        self.failed.push(error.with_causes());
    }
}

/// One format: its name, what it can and cannot give, and how it is recognised and read.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// Which tool writes it.
    pub title: &'static str,
    /// What can be recovered from it.
    pub recovers: &'static str,
    /// What cannot.
    pub lacks: &'static str,
    /// How it is recognised and read.
    pub reader: Reader,
}

/// How a format is recognised, by content and never by extension, and read.
#[derive(Debug, Clone, Copy)]
pub enum Reader {
    /// A run is spread over several files of a folder: the importer finds and writes runs itself.
    Runs {
        /// Says why the file or folder looks like this format; `None` if it does not.
        detect: fn(input: &Path) -> Option<String>,
        /// Reads a file, or a folder that is searched for runs, and writes runs below `archive`.
        import: fn(
            input: &Path,
            archive: &Path,
            options: &ImportOptions,
        ) -> Result<ImportSummary, TraceError>,
    },
    /// One file holds one or more parts.
    Parts {
        /// Says why a file that begins like this looks like this format; `None` if it does not.
        detect: fn(head: &Head) -> Option<String>,
        /// Reads the file and gives its parts to `sink`.
        read: fn(
            input: &Input,
            options: &ImportOptions,
            sink: &mut dyn Sink,
        ) -> Result<(), TraceError>,
    },
}

/// Every format, by name.
pub const FORMATS: &[Format] = &[
    aiperf::FORMAT,
    alumet::FORMAT,
    amd_smi::FORMAT,
    codecarbon::FORMAT,
    dcgm::FORMAT,
    genai_perf::FORMAT,
    guidellm::FORMAT,
    inference_perf::FORMAT,
    inferencex::FORMAT,
    ipmi_dcmi::FORMAT,
    llama_bench::FORMAT,
    llamacpp::FORMAT,
    llm_inference_bench::FORMAT,
    mlenergy_leaderboard::FORMAT,
    mlenergy_raw::FORMAT,
    mlperf_power::FORMAT,
    nvidia_dmon::FORMAT,
    nvidia_smi::FORMAT,
    pdu_csv::FORMAT,
    redfish::FORMAT,
    rocm_smi::FORMAT,
    sglang_bench::FORMAT,
    sglang_log::FORMAT,
    splitwise::FORMAT,
    tokenpowerbench::FORMAT,
    trtllm_stats::FORMAT,
    vllm_bench::FORMAT,
    vllm_log::FORMAT,
    wattameter::FORMAT,
    zeus::FORMAT,
];

/// A format that an input looks like.
#[derive(Debug, Clone)]
pub struct Detection {
    /// The format.
    pub format: &'static Format,
    /// What in the input says so.
    pub reason: String,
}

impl Format {
    /// Says why `input`, a file or a folder, looks like this format; `None` if it does not.
    #[must_use]
    pub fn detect(&self, input: &Path) -> Option<String> {
        match self.reader {
            Reader::Runs { detect, .. } => detect(input),
            Reader::Parts { detect, .. } if input.is_dir() => {
                let files = files_below(input).ok()?;
                files.iter().find_map(|file| detect(&Input::new(file).head()))
            }
            Reader::Parts { detect, .. } => detect(&Input::new(input).head()),
        }
    }

    /// Reads `input`, a file or a folder, and writes runs below `archive`.
    fn import(
        &self,
        input: &Path,
        archive: &Path,
        options: &ImportOptions,
        ids: &mut BTreeMap<String, u32>,
    ) -> Result<ImportSummary, TraceError> {
        let (detect, read) = match self.reader {
            Reader::Runs { import, .. } => return import(input, archive, options),
            Reader::Parts { detect, read } => (detect, read),
        };
        let files = if input.is_dir() {
            let mut files = files_below(input)?;
            files.retain(|file| detect(&Input::new(file).head()).is_some());
            if files.is_empty() {
                return Err(TraceError::Format {
                    path: input.to_owned(),
                    line: None,
                    message: format!("holds no file of the format {}", self.name),
                });
            }
            files
        } else {
            vec![input.to_owned()]
        };
        let mut summary = ImportSummary::default();
        for run in together::runs(self.name, files) {
            let result = match run {
                RunInputs::One(file) => {
                    let input = Input::new(&file).with_progress(options.progress.clone());
                    let mut sink = ArchiveSink::new(self.name, &input, archive, options, ids);
                    let result = read(&input, options, &mut sink);
                    summary.extend(sink.into_summary());
                    result
                }
                RunInputs::Several { name, join } => {
                    let named = options.run_id.as_deref().unwrap_or(&name);
                    let run_id = Some(archive_sink::unique_id(ids, named));
                    let options = ImportOptions { run_id, ..options.clone() };
                    join::join(&join, archive, &options).map(|joined| summary.extend(joined))
                }
            };
            if let Err(error) = result {
                summary.fail(&error);
            }
        }
        Ok(summary)
    }
}

/// Every file below a folder, sorted by path.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let folders = folders::walk(folder)?;
    let files = folders
        .into_iter()
        .flat_map(|folder| folder.files.into_iter().map(move |file| folder.path.join(file)));
    Ok(files.collect())
}

/// The format of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format of that name.
///
/// # Errors
/// There is none; the message lists those that are.
fn require(name: &str) -> Result<&'static Format, TraceError> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let names = names.join(", ");
        TraceError::Other(format!("no format is called \"{name}\"; expected one of {names}"))
    })
}

/// Every format that `input` looks like, with the reason.
#[must_use]
pub fn detect(input: &Path) -> Vec<Detection> {
    FORMATS
        .iter()
        .filter_map(|format| format.detect(input).map(|reason| Detection { format, reason }))
        .collect()
}

/// Imports every input in the format called `name` into `archive`. An input that cannot be read is
/// listed in [`ImportSummary::failed`] and does not stop the others.
///
/// # Errors
/// When no format has that name.
pub fn import(
    name: &str,
    inputs: &[PathBuf],
    archive: &Path,
    options: &ImportOptions,
) -> Result<ImportSummary, TraceError> {
    let format = require(name)?;
    let mut summary = ImportSummary::default();
    let mut ids = BTreeMap::new();
    for input in inputs {
        match format.import(input, archive, options, &mut ids) {
            Ok(imported) => summary.extend(imported),
            Err(error) => summary.fail(&error),
        }
    }
    Ok(summary)
}

/// The last part of a path, for messages about a file whose folder is named elsewhere.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Whether an import may call a run so.
///
/// # Errors
/// It may not; the text says what is expected.
pub fn check_run_name(text: &str) -> Result<(), String> {
    if !text.is_empty() && safe_run_id(text) == text {
        return Ok(());
    }
    Err("expected letters, digits, \".\", \"-\" and \"_\", not beginning with \".\", 200 at most"
        .into())
}

/// `text` as the name of a folder: letters, digits, `.`, `-` and `_`; anything else becomes `_`.
fn safe_run_id(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let id: String = text.chars().take(MAX_CHARS).map(safe).collect();
    match id.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => id,
    }
}

/// The provenance of a run that `format` read from `files`, with the digest of each.
fn provenance(
    format: &str,
    files: &[&Path],
    options: &ImportOptions,
    notes: Vec<String>,
) -> Result<Provenance, TraceError> {
    let mut sources = Vec::new();
    for path in files {
        sources.push(format!("{} (SHA-256 {})", file_name(path), sha256(path)?));
    }
    Ok(Provenance {
        imported_from: Some(format!("{format}: {}", sources.join(", "))),
        notes,
        ..wattrace_provenance(options)
    })
}

/// The provenance of anything that this program imports, without its sources.
fn wattrace_provenance(options: &ImportOptions) -> Provenance {
    Provenance {
        recorder: Some("wattrace".into()),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        command: Some(options.command.clone()),
        ..Provenance::default()
    }
}

/// The SHA-256 of a file, read in pieces.
fn sha256(path: &Path) -> Result<String, TraceError> {
    let mut file = std::fs::File::open(path).map_err(TraceError::io("read", path))?;
    let mut digest = sha2::Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut buffer).map_err(TraceError::io("read", path))?;
        if length == 0 {
            return Ok(crate::digest::hex(&digest.finalize()));
        }
        digest.update(&buffer[..length]);
    }
}

/// The first bytes of a file, at most `limit`; none if it cannot be read.
fn head(path: &Path, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // A file that fails half way is judged by what could be read.
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
