//! Finds the runs of an archive, and what looks like one but is not.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wattrace_schema::tables::TABLES;

use crate::TraceError;
use crate::digest::{hex, sha256_hex};
use crate::manifest::RUN_JSON;
use crate::writer::PARTIAL_SUFFIX;

/// Where a run lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunLocation {
    /// Folder of the run below the archive, with forward slashes; `.` when the archive is the run.
    pub relative: String,
    /// The folder.
    pub folder: PathBuf,
    /// The archive, with symbolic links resolved; no file outside it is read.
    pub root: PathBuf,
}

impl RunLocation {
    /// The path of a file of the run, if it resolves to a place inside the archive.
    ///
    /// # Errors
    /// [`TraceError::Outside`] when a symbolic link leads out of the archive, [`TraceError::Io`] when
    /// there is no such file.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf, TraceError> {
        let path = self.folder.join(name);
        let target = fs::canonicalize(&path).map_err(TraceError::io("read", &path))?;
        if target.starts_with(&self.root) {
            Ok(path)
        } else {
            Err(TraceError::Outside { path, target })
        }
    }
}

/// What a walk through an archive found; each list is in the order of relative paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArchiveListing {
    /// Folders that hold a `run.json`. Reading one may still fail.
    pub runs: Vec<RunLocation>,
    /// Folders that were never finished: tables without a `run.json`, or a name that ends in `.partial`.
    pub unfinished: Vec<RunLocation>,
    /// Symbolic links to folders outside the archive, which are not followed.
    pub outside: Vec<RunLocation>,
    /// Folders that could not be listed, each with the reason.
    pub unreadable: Vec<(RunLocation, String)>,
}

/// Walks through `archive`. Symbolic links to folders are not followed: inside the archive their
/// target is found by its own name, and outside it nothing is read. A link to a folder outside that
/// holds a `run.json` is listed as a run all the same, so that reading it gives its error.
///
/// # Errors
/// When `archive` itself cannot be listed.
pub fn list_archive(archive: &Path) -> Result<ArchiveListing, TraceError> {
    let root = fs::canonicalize(archive).map_err(TraceError::io("open archive", archive))?;
    fs::read_dir(archive).map_err(TraceError::io("list archive", archive))?;
    let mut listing = ArchiveListing::default();
    let mut pending =
        vec![RunLocation { relative: ".".to_owned(), folder: archive.to_owned(), root }];
    while let Some(location) = pending.pop() {
        match Entries::of(&location) {
            Ok(entries) => listing.add(location, entries, &mut pending),
            Err(error) => listing.unreadable.push((location, error.to_string())),
        }
    }
    listing.runs.sort();
    listing.unfinished.sort();
    listing.outside.sort();
    listing.unreadable.sort();
    Ok(listing)
}

/// Every folder below `archive` that holds a `run.json`, in the order of their relative paths. A folder
/// that cannot be listed, or a link out of the archive that leads to a run, is among them, so that
/// reading it gives its error rather than silence.
///
/// # Errors
/// When the archive cannot be listed or holds no run.
pub fn find_runs(archive: &Path) -> Result<Vec<RunLocation>, TraceError> {
    let mut listing = list_archive(archive)?;
    listing.runs.extend(listing.unreadable.into_iter().map(|(location, _)| location));
    listing.runs.sort();
    if listing.runs.is_empty() {
        return Err(TraceError::NoRuns { path: archive.to_owned() });
    }
    Ok(listing.runs)
}

/// One SHA-256 over a whole archive, as 64 hexadecimal digits: of the lines
/// `RELATIVE PATH <tab> SHA-256 of run.json <newline>` of `runs` in the order of their paths, with the
/// word `unreadable` for a `run.json` that cannot be read. Since every `run.json` holds the digests of
/// its Parquet files, equal digests mean equal data wherever those are verified.
#[must_use]
pub fn archive_digest(runs: &[RunLocation]) -> String {
    let mut runs: Vec<_> = runs.iter().collect();
    runs.sort();
    let mut digest = Sha256::new();
    for run in runs {
        let run_json = run
            .file(RUN_JSON)
            .ok()
            .and_then(|path| fs::read(path).ok())
            .map_or_else(|| "unreadable".to_owned(), |bytes| sha256_hex(&bytes));
        digest.update(format!("{}\t{run_json}\n", run.relative));
    }
    hex(&digest.finalize())
}

/// What lies in one folder, as far as it matters here.
#[derive(Debug, Default)]
struct Entries {
    has_run_json: bool,
    has_table: bool,
    folders: Vec<OsString>,
    links: Vec<OsString>,
}

impl Entries {
    fn of(location: &RunLocation) -> std::io::Result<Self> {
        let mut entries = Self::default();
        for entry in fs::read_dir(&location.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                entries.folders.push(name);
            } else if name == RUN_JSON {
                entries.has_run_json = true;
            } else if kind.is_symlink() && entry.path().is_dir() {
                entries.links.push(name);
            } else if TABLES.iter().any(|table| name == table.file) {
                entries.has_table = true;
            }
        }
        Ok(entries)
    }
}

impl ArchiveListing {
    fn add(&mut self, location: RunLocation, entries: Entries, pending: &mut Vec<RunLocation>) {
        for name in entries.links {
            let link = location.below(&name);
            let leads_out =
                fs::canonicalize(&link.folder).is_ok_and(|target| !target.starts_with(&link.root));
            if leads_out {
                if link.folder.join(RUN_JSON).exists() {
                    self.runs.push(link.clone());
                }
                self.outside.push(link);
            }
        }
        if location.relative.ends_with(PARTIAL_SUFFIX) {
            self.unfinished.push(location);
            return;
        }
        pending.extend(entries.folders.iter().map(|name| location.below(name)));
        if entries.has_run_json {
            self.runs.push(location);
        } else if entries.has_table {
            self.unfinished.push(location);
        }
    }
}

impl RunLocation {
    fn below(&self, name: &OsStr) -> Self {
        let shown = name.to_string_lossy();
        let relative = match self.relative.as_str() {
            "." => shown.into_owned(),
            parent => format!("{parent}/{shown}"),
        };
        Self { relative, folder: self.folder.join(name), root: self.root.clone() }
    }
}

#[cfg(test)]
mod tests;
