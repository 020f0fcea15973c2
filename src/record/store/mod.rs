//! The files of a recording: segments and a journal in `RUN.partial`, joined into `RUN` at the end.

mod join;
mod journal;
mod segments;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use wattrace_schema::{FileEntry, RunManifest};
use wattrace_trace::{RunWriter, SegmentRows, TraceError, write_segment};

use crate::clock::ClockPair;
use crate::context::{Context, FailureCount};
use crate::cost::Cost;
use crate::sink::Rows;

pub(crate) use join::join;
pub use join::{Joined, convert};
pub use journal::Stage;
use journal::{Entry, Journal};
pub use segments::{Merge, Merged};
use segments::{SegmentName, SmallSegments};

/// Suffix of the folder of an unfinished run.
const PARTIAL: &str = ".partial";

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
    /// The run was finished before.
    #[error("\"{}\" is finished already; there is nothing to convert", path.display())]
    Finished { path: PathBuf },
    /// It was cut off before anything was written.
    #[error("\"{}\" holds no rows: it ended before the first write; remove it", path.display())]
    Empty { path: PathBuf },
    /// The journal's first line is not what a recorder writes.
    #[error("\"{}\" does not begin as a journal does; the recording cannot be finished", path.display())]
    NoStart { path: PathBuf },
    /// Too little space.
    #[error(
        "{} are free at \"{}\"; expected at least {} ({purpose})",
        size(*free_bytes), path.display(), size(*needed_bytes)
    )]
    Space { path: PathBuf, free_bytes: u64, needed_bytes: u64, purpose: &'static str },
    /// A defect of the recorder.
    #[error(
        "the thread that writes panicked; finish what was written with wattrace-record convert"
    )]
    Panic,
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

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// Bytes that a user without privileges may still write where `path` lies.
pub(crate) fn free_bytes(path: &Path) -> Result<u64, StoreError> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|error| StoreError::io("find the free space of", path)(error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Fills the folder of a new unfinished run; gives it opened, and its journal.
fn begin(
    folder: &Path,
    manifest: &RunManifest,
    first: ClockPair,
    flush_s: f64,
) -> Result<(File, Journal), StoreError> {
    let logs = folder.join(LOGS);
    fs::create_dir(&logs).map_err(StoreError::io("create folder", &logs))?;
    let opened = File::open(folder).map_err(StoreError::io("open", folder))?;
    let mut journal = Journal::create(folder).map_err(StoreError::io("create", folder))?;
    let start = wattrace_schema::TimestampNs::from_nanos(first.wall_ns);
    let recording = format!("{start} by process {}", std::process::id());
    let manifest = Box::new(manifest.clone());
    for entry in [Entry::Start { recording, flush_s, manifest }, Entry::Clock { pair: first }] {
        journal.append(&entry).map_err(StoreError::io("write the journal of", folder))?;
    }
    Ok((opened, journal))
}

/// The files of a recording that goes on.
#[derive(Debug)]
pub struct Store {
    path: RunPath,
    folder: PathBuf,
    /// The folder, opened: what was renamed in it is told to reach the disk.
    opened: File,
    journal: Journal,
    /// Segments written, small ones and merged ones.
    segments: u64,
    small: SmallSegments,
    /// Bytes of all segments ever written, and of those that lie there.
    written_bytes: u64,
    held_bytes: u64,
    keep_free_bytes: u64,
    known_failures: Vec<FailureCount>,
    known_events_left_out: usize,
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
                purpose: "--keep-free",
            });
        }
        fs::create_dir(&folder).map_err(|source| match source.kind() {
            // Another recorder was faster.
            io::ErrorKind::AlreadyExists => StoreError::Unfinished { path: folder.clone() },
            _ => StoreError::io("create folder", &folder)(source),
        })?;
        let (opened, journal) = begin(&folder, manifest, first, flush_s).inspect_err(|_| {
            // Nothing was recorded. What cannot be removed is said to be unfinished by the next attempt.
            let _ = fs::remove_dir_all(&folder);
        })?;
        Ok(Self {
            path,
            folder,
            opened,
            journal,
            segments: 0,
            small: SmallSegments::default(),
            written_bytes: 0,
            held_bytes: 0,
            keep_free_bytes,
            known_failures: Vec::new(),
            known_events_left_out: 0,
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

    /// Bytes of segments and journal written so far.
    #[must_use]
    pub const fn bytes_written(&self) -> u64 {
        self.written_bytes + self.journal.bytes_written
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
        for event in context.clock.take_events() {
            self.append(&Entry::ClockEvent(event))?;
        }
        let left_out = context.clock.events_left_out();
        if left_out > 0 && self.known_events_left_out == 0 {
            context.note("further steps of the wall clock were left out of clock_events");
        }
        self.known_events_left_out = left_out;
        let failures = context.failures();
        let new = failures.iter().filter(|failure| !self.known_failures.contains(failure));
        let new: Vec<FailureCount> = new.cloned().collect();
        if !new.is_empty() {
            self.append(&Entry::Failures { failures: new })?;
            self.known_failures = failures;
        }
        for text in context.take_notes() {
            self.append(&Entry::Note { text })?;
        }
        for text in context.take_losses() {
            self.append(&Entry::Loss { text })?;
        }
        self.append(&Entry::Cost(cost))?;
        self.sync()
    }

    /// Small segments that should become one by now; those of one table at a time.
    pub fn take_due_merge(&mut self) -> Option<Merge> {
        self.small.take_due(&self.folder)
    }

    /// Lets a merged segment count instead of the small ones, which are removed.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn merged(&mut self, merge: &Merge, merged: &Merged) -> Result<(), StoreError> {
        self.note_segment(merge.name, &merged.entry, merged.bytes)?;
        self.sync()?;
        merge.remove_small();
        self.held_bytes = self.held_bytes.saturating_sub(merge.small_bytes);
        Ok(())
    }

    /// Whether enough space is left to go on: what the user wants kept free, and room to join what was
    /// recorded so far.
    ///
    /// # Errors
    /// [`StoreError::Space`] if not.
    pub fn check_space(&self) -> Result<(), StoreError> {
        let held_bytes = self.held_bytes + self.journal.bytes_written;
        let needed_bytes = self.keep_free_bytes.saturating_add(held_bytes);
        let free_bytes = free_bytes(&self.folder)?;
        if free_bytes < needed_bytes {
            let path = self.folder.clone();
            let purpose = "--keep-free, and room to join what was recorded";
            return Err(StoreError::Space { path, free_bytes, needed_bytes, purpose });
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
        self.sync()?;
        // The journal stays locked until the run has its name.
        join(&self.path)
    }

    fn write(&mut self, rows: SegmentRows) -> Result<(), StoreError> {
        let name = SegmentName::small(rows.table(), self.segments + 1);
        let written = segments::write_whole(&self.folder, name, |path| write_segment(path, rows))?;
        let Some((entry, bytes)) = written else { return Ok(()) };
        self.segments += 1;
        self.small.add(name, bytes);
        self.note_segment(name, &entry, bytes)
    }

    fn note_segment(
        &mut self,
        name: SegmentName,
        entry: &FileEntry,
        bytes: u64,
    ) -> Result<(), StoreError> {
        self.written_bytes += bytes;
        self.held_bytes += bytes;
        let file = name.to_string();
        self.append(&Entry::Segment { file, sha256: entry.sha256.clone(), rows: entry.rows })
    }

    /// Waits until names and journal lie on the disk.
    fn sync(&self) -> Result<(), StoreError> {
        let synced = self.opened.sync_all().and_then(|()| self.journal.sync());
        synced.map_err(StoreError::io("write the journal of", &self.folder))
    }

    fn append(&mut self, entry: &Entry) -> Result<(), StoreError> {
        self.journal.append(entry).map_err(StoreError::io("write the journal of", &self.folder))
    }
}
