//! Importers of other tools' raw formats: one file or folder each, one line in [`FORMATS`].

mod folders;
mod lines;
mod local_time;
mod mlenergy_leaderboard;

mod mlperf_power;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::Digest as _;
use wattrace_schema::Provenance;

use crate::TraceError;

/// What an importer needs to know besides its inputs.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Anything skipped is an error.
    pub strict: bool,
    /// Time zone of times that are logged without one: a name such as `America/Los_Angeles`, `UTC`, or
    /// an offset such as `-07:00`.
    pub time_zone: Option<String>,
    /// Command line, for the provenance.
    pub command: String,
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
    /// Says by content, never by extension, why `input` (a file or a folder) looks like this format;
    /// `None` if it does not.
    pub detect: fn(input: &Path) -> Option<String>,
    /// Reads `input` (a file, or a folder that is searched for runs) and writes runs below `archive`.
    pub import: fn(
        input: &Path,
        archive: &Path,
        options: &ImportOptions,
    ) -> Result<ImportSummary, TraceError>,
}

/// Every format, by name.
pub const FORMATS: &[Format] = &[mlenergy_leaderboard::FORMAT, mlperf_power::FORMAT];

/// A format that an input looks like.
#[derive(Debug, Clone)]
pub struct Detection {
    /// The format.
    pub format: &'static Format,
    /// What in the input says so.
    pub reason: String,
}

/// The format of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Every format that `input` looks like, with the reason.
#[must_use]
pub fn detect(input: &Path) -> Vec<Detection> {
    FORMATS
        .iter()
        .filter_map(|format| (format.detect)(input).map(|reason| Detection { format, reason }))
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
    let format = find(name).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let names = names.join(", ");
        TraceError::Other(format!("no format is called \"{name}\"; expected one of {names}"))
    })?;
    let mut summary = ImportSummary::default();
    for input in inputs {
        match (format.import)(input, archive, options) {
            Ok(imported) => summary.extend(imported),
            Err(error) => summary.fail(&error),
        }
    }
    Ok(summary)
}

/// What was left out of a file: how often, where first, and why there.
#[derive(Debug, Default)]
struct Skipped {
    count: u64,
    first: Option<(u64, String)>,
}

impl Skipped {
    /// Counts a line that is left out; with `strict` it is an error instead.
    fn add(
        &mut self,
        strict: bool,
        path: &Path,
        line: u64,
        message: String,
    ) -> Result<(), TraceError> {
        if strict {
            return Err(TraceError::Format { path: path.to_owned(), line: Some(line), message });
        }
        self.count += 1;
        self.first.get_or_insert((line, message));
        Ok(())
    }

    /// The note about it, if anything was left out.
    fn note(&self, path: &Path) -> Option<String> {
        let (line, message) = self.first.as_ref()?;
        let (file, count) = (file_name(path), self.count);
        Some(match count {
            1 => format!("{file} line {line} skipped: {message}"),
            _ => format!("{file}: {count} lines skipped, the first is line {line}: {message}"),
        })
    }
}

/// The last part of a path, for messages about a file whose folder is named elsewhere.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
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
        recorder: Some("wattrace".into()),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        command: Some(options.command.clone()),
        imported_from: Some(format!("{format}: {}", sources.join(", "))),
        notes,
    })
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
mod tests;
