//! The files of a recording: segments and a journal in `RUN.partial`, joined into `RUN` at the end.

mod join;
mod journal;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use wattrace_schema::RunManifest;
use wattrace_trace::{RunWriter, SegmentRows, TraceError, write_segment};

use crate::clock::{ClockPair, WallStep};
use crate::context::{Context, FailureCount};
use crate::cost::Cost;
use crate::sink::Rows;

pub(crate) use join::join;
pub use join::{Joined, convert};
pub use journal::Stage;
use journal::{Entry, Journal};

/// Suffix of the folder of an unfinished run.
const PARTIAL: &str = ".partial";

/// Suffix of a segment that is being written.
const WRITING: &str = "writing";

/// Folder of raw logs.
const LOGS: &str = "logs";

/// Why a recording cannot be written, or not be finished.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the facts that the message prints")]
pub enum StoreError {
    /// The name of the run's folder cannot be used.
    #[error("\"{}\" names no folder for a run; expected a path such as archive/run-1", path.display())]
    Name { path: PathBuf },
    /// An unfinished run of that name lies there.
    #[error(
        "\"{}\" exists already: a recorder is writing it, or was cut off; finish it with \
         wattrace-record convert, or choose another name",
        path.display()
    )]
    Unfinished { path: PathBuf },
    /// Another recorder is at work there.
    #[error("\"{}\" is being written by another recorder; stop that first", path.display())]
    InUse { path: PathBuf },
    /// There is nothing to finish.
    #[error("\"{}\" holds no recording; expected a folder with a journal.jsonl", path.display())]
    NoRecording { path: PathBuf },
    /// It was cut off before anything was written.
    #[error("\"{}\" holds no rows: it ended before the first write; remove it", path.display())]
    Empty { path: PathBuf },
    /// The journal's first line is not what a recorder writes.
    #[error("\"{}\" does not begin as a journal does; the recording cannot be finished", path.display())]
    NoStart { path: PathBuf },
    /// Too little space.
    #[error(
        "{} MiB are free at \"{}\"; expected at least {} MiB (--keep-free)",
        free_bytes >> 20, path.display(), needed_bytes >> 20
    )]
    Space { path: PathBuf, free_bytes: u64, needed_bytes: u64 },
    /// The operating system refused.
    #[error("cannot {action} \"{}\"", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file of the run cannot be read or written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl StoreError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Where a run will lie, and where it lies until it is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPath {
    /// Folder that holds the run.
    pub archive: PathBuf,
    /// Name of the run's folder, and its id.
    pub run_id: String,
}

impl RunPath {
    /// Splits the path of a run; a `.partial` at its end does not count.
    ///
    /// # Errors
    /// [`StoreError::Name`] when it does not end in a name in UTF-8.
    pub fn new(path: &Path) -> Result<Self, StoreError> {
        let name = path.file_name().and_then(|name| name.to_str());
        let run_id = name.map(|name| name.strip_suffix(PARTIAL).unwrap_or(name));
        match run_id {
            Some(run_id) if !run_id.is_empty() => {
                let archive = match path.parent() {
                    Some(parent) if parent != Path::new("") => parent.to_owned(),
                    _ => PathBuf::from("."),
                };
                Ok(Self { archive, run_id: run_id.to_owned() })
            }
            _ => Err(StoreError::Name { path: path.to_owned() }),
        }
    }

    /// The finished run.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.archive.join(&self.run_id)
    }

    /// The unfinished one.
    #[must_use]
    pub fn partial(&self) -> PathBuf {
        self.archive.join(format!("{}{PARTIAL}", self.run_id))
    }

    /// Where the output of the command that is run goes while the run is unfinished.
    #[must_use]
    pub fn command_log(&self) -> PathBuf {
        self.partial().join(LOGS).join("command.log")
    }
}

/// Bytes that a user without privileges may still write where `path` lies.
pub(crate) fn free_bytes(path: &Path) -> Result<u64, StoreError> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|error| StoreError::io("find the free space of", path)(error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The files of a recording that goes on.
#[derive(Debug)]
pub struct Store {
    path: RunPath,
    folder: PathBuf,
    journal: Journal,
    segments: u64,
    segment_bytes: u64,
    keep_free_bytes: u64,
    known_steps: usize,
    known_failures: Vec<FailureCount>,
}

impl Store {
    /// Makes the folder of an unfinished run. `manifest` is what is known at the start.
    ///
    /// # Errors
    /// When the run or an unfinished one of that name exists, the folder cannot be written, or less
    /// than `keep_free_bytes` are free.
    pub fn create(
        path: RunPath,
        manifest: &RunManifest,
        first: ClockPair,
        flush_s: f64,
        keep_free_bytes: u64,
    ) -> Result<Self, StoreError> {
        let folder = path.partial();
        if fs::symlink_metadata(&folder).is_ok() {
            return Err(StoreError::Unfinished { path: folder });
        }
        // Finds out now whether the id can be used, the run exists and the archive can be written; the
        // writer is dropped, which removes what it made, the archive included.
        drop(RunWriter::create(&path.archive, &path.run_id)?);
        fs::create_dir_all(&path.archive)
            .map_err(StoreError::io("create folder", &path.archive))?;
        let free = free_bytes(&path.archive)?;
        if free < keep_free_bytes {
            let path = path.archive.clone();
            return Err(StoreError::Space {
                path,
                free_bytes: free,
                needed_bytes: keep_free_bytes,
            });
        }
        fs::create_dir(&folder).map_err(StoreError::io("create folder", &folder))?;
        let logs = folder.join(LOGS);
        fs::create_dir(&logs).map_err(StoreError::io("create folder", &logs))?;
        let mut journal = Journal::create(&folder).map_err(StoreError::io("create", &folder))?;
        let start = wattrace_schema::TimestampNs::from_nanos(first.wall_ns);
        let recording = format!("{start} by process {}", std::process::id());
        let manifest = Box::new(manifest.clone());
        let begin = [Entry::Start { recording, flush_s, manifest }, Entry::Clock { pair: first }];
        for entry in begin {
            journal.append(&entry).map_err(StoreError::io("write the journal of", &folder))?;
        }
        Ok(Self {
            path,
            folder,
            journal,
            segments: 0,
            segment_bytes: 0,
            keep_free_bytes,
            known_steps: 0,
            known_failures: Vec::new(),
        })
    }

    /// Where the run lies.
    #[must_use]
    pub const fn path(&self) -> &RunPath {
        &self.path
    }

    /// Folder for raw logs, which go into the run as they are.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.folder.join(LOGS)
    }

    /// Bytes of segments and journal so far.
    #[must_use]
    pub const fn bytes_written(&self) -> u64 {
        self.segment_bytes + self.journal.bytes_written
    }

    /// Notes that a stage was reached.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn stamp(
        &mut self,
        stage: Stage,
        t: wattrace_schema::TimestampNs,
    ) -> Result<(), StoreError> {
        self.append(&Entry::Stamp { stage, t })
    }

    /// Writes rows as segments, and what else is new into the journal.
    ///
    /// # Errors
    /// When a file cannot be written; a segment that was begun is removed then.
    pub fn flush(&mut self, rows: Rows, context: &Context, cost: Cost) -> Result<(), StoreError> {
        let tables = [
            SegmentRows::Power(rows.power),
            SegmentRows::Requests(rows.requests),
            SegmentRows::Steps(rows.steps),
            SegmentRows::Engine(rows.engine),
        ];
        for rows in tables {
            self.write(rows)?;
        }
        let pair = context.clock.observe();
        self.append(&Entry::Clock { pair })?;
        let steps: Vec<WallStep> = context.clock.steps();
        for step in &steps[self.known_steps..] {
            self.append(&Entry::WallStep(*step))?;
        }
        self.known_steps = steps.len();
        let failures = context.failures();
        if failures != self.known_failures {
            self.append(&Entry::Failures { failures: failures.clone() })?;
            self.known_failures = failures;
        }
        for text in context.take_notes() {
            self.append(&Entry::Note { text })?;
        }
        self.append(&Entry::Cost(cost))?;
        self.journal.sync().map_err(StoreError::io("write the journal of", &self.folder))
    }

    /// Whether enough space is left to go on: what the user wants kept free, and room to join what was
    /// recorded so far.
    ///
    /// # Errors
    /// [`StoreError::Space`] if not.
    pub fn check_space(&self) -> Result<(), StoreError> {
        let needed_bytes = self.keep_free_bytes.saturating_add(self.bytes_written());
        let free_bytes = free_bytes(&self.folder)?;
        if free_bytes < needed_bytes {
            let path = self.folder.clone();
            return Err(StoreError::Space { path, free_bytes, needed_bytes });
        }
        Ok(())
    }

    /// Notes that the recording has to end before its time.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn end_early(&mut self, cause: &StoreError) -> Result<(), StoreError> {
        self.append(&Entry::EndedEarly { cause: cause.to_string() })
    }

    /// Notes that no row is missing, and joins everything into the run.
    ///
    /// # Errors
    /// When a file cannot be written; the unfinished run stays as it is then.
    pub fn finish(mut self, t: wattrace_schema::TimestampNs) -> Result<Joined, StoreError> {
        self.append(&Entry::End { t })?;
        self.journal.sync().map_err(StoreError::io("write the journal of", &self.folder))?;
        // The journal stays locked until the run has its name.
        join(&self.path)
    }

    fn write(&mut self, rows: SegmentRows) -> Result<(), StoreError> {
        let name = format!("{}-{:08}.parquet", rows.table().name, self.segments + 1);
        let path = self.folder.join(&name);
        let writing = path.with_extension(WRITING);
        let written = write_segment(&writing, rows).inspect_err(|_| {
            // Nothing may be half there; if this fails too, `convert` ignores the file.
            let _ = fs::remove_file(&writing);
        })?;
        let Some(entry) = written else { return Ok(()) };
        self.segments += 1;
        self.segment_bytes += fs::metadata(&writing).map_or(0, |metadata| metadata.len());
        fs::rename(&writing, &path).map_err(StoreError::io("rename", &writing))?;
        self.append(&Entry::Segment { file: name, sha256: entry.sha256, rows: entry.rows })
    }

    fn append(&mut self, entry: &Entry) -> Result<(), StoreError> {
        self.journal.append(entry).map_err(StoreError::io("write the journal of", &self.folder))
    }
}
