//! The journal of a recording: one JSON object a line, appended as things happen. With the segments it
//! holds all that `run.json` needs, so that a run that was cut off can be finished.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use wattrace_schema::{RunManifest, Stages, TimestampNs};

use crate::clock::{ClockEvent, ClockPair};
use crate::context::FailureCount;
use crate::cost::Cost;
use crate::store::segments::SegmentName;

/// Name of the journal in the folder of an unfinished run.
pub(crate) const JOURNAL: &str = "journal.jsonl";

/// A stamp of the lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each variant is the stamp of run.json that it names")]
pub enum Stage {
    IdleStart,
    IdleEnd,
    Launch,
    Ready,
    WarmupStart,
    FormalStart,
    FormalEnd,
    ProcessExit,
    MemoryReleased,
    MonitorEnd,
    DecodeStart,
    DecodeEnd,
}

impl Stage {
    /// Where the stamp stands.
    const fn of(self, stages: &mut Stages) -> &mut Option<TimestampNs> {
        match self {
            Self::IdleStart => &mut stages.idle_start,
            Self::IdleEnd => &mut stages.idle_end,
            Self::Launch => &mut stages.launch,
            Self::Ready => &mut stages.ready,
            Self::WarmupStart => &mut stages.warmup_start,
            Self::FormalStart => &mut stages.formal_start,
            Self::FormalEnd => &mut stages.formal_end,
            Self::ProcessExit => &mut stages.process_exit,
            Self::MemoryReleased => &mut stages.memory_released,
            Self::MonitorEnd => &mut stages.monitor_end,
            Self::DecodeStart => &mut stages.decode_start,
            Self::DecodeEnd => &mut stages.decode_end,
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// The first line: what was known when the recording began.
    Start { recording: String, flush_s: f64, manifest: Box<RunManifest> },
    /// A segment lies on disk under its final name. A merged one counts instead of those that its name
    /// covers.
    Segment { file: String, sha256: String, rows: u64 },
    /// A stage of the lifecycle was reached.
    Stamp { stage: Stage, t: TimestampNs },
    /// Both clocks were read.
    Clock { pair: ClockPair },
    /// The wall clock was stepped, or the machine suspended.
    ClockEvent(ClockEvent),
    /// Failures whose count has changed, with the count so far.
    Failures { failures: Vec<FailureCount> },
    /// The cost so far, instead of the one before.
    Cost(Cost),
    /// A sentence for `provenance.notes`.
    Note { text: String },
    /// A sentence about something of the run that is missing.
    Loss { text: String },
    /// The recording had to end before its time.
    EndedEarly { cause: String },
    /// The recording ended in order; no row is missing.
    End { t: TimestampNs },
}

/// A journal that is appended to.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    pub(crate) bytes_written: u64,
    /// Whether a line may have been cut; another after it would be lost in it.
    is_torn: bool,
}

impl Journal {
    /// Makes the journal and locks it: the lock tells `convert` that a recorder is at work, and ends
    /// with the program however that ends.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let file = File::create_new(folder.join(JOURNAL))?;
        lock(&file)?;
        Ok(Self { file, bytes_written: 0, is_torn: false })
    }

    /// Appends a line in one write, so that no other line is cut by a kill.
    pub(crate) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if self.is_torn {
            return Err(io::Error::other("an earlier line could not be written"));
        }
        self.file.write_all(&line).inspect_err(|_| self.is_torn = true)?;
        self.bytes_written += line.len() as u64;
        Ok(())
    }

    /// Waits until what was appended lies on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Locks a journal for this program, or fails if another has.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)
}

/// All that a journal says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) recording: String,
    pub(crate) flush_s: f64,
    pub(crate) manifest: RunManifest,
    /// Digests of the segments that count.
    pub(crate) segments: BTreeMap<SegmentName, String>,
    pub(crate) first_clock: Option<ClockPair>,
    pub(crate) last_clock: Option<ClockPair>,
    pub(crate) clock_pairs: u64,
    pub(crate) events: Vec<ClockEvent>,
    pub(crate) failures: Vec<FailureCount>,
    pub(crate) cost: Option<Cost>,
    pub(crate) notes: Vec<String>,
    pub(crate) losses: Vec<String>,
    pub(crate) ended_early: Option<String>,
    pub(crate) end: Option<TimestampNs>,
    /// Lines that could not be read.
    pub(crate) damaged_lines: usize,
}

/// Reads a journal line by line, since that of a long recording is large. What follows the last line end
/// was cut off and does not count; `None` if the first line does not say how the recording began.
pub(crate) fn read(mut journal: impl BufRead) -> io::Result<Option<Recorded>> {
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| -> io::Result<bool> {
        line.clear();
        journal.read_until(b'\n', line)?;
        Ok(line.ends_with(b"\n"))
    };
    if !next(&mut line)? {
        return Ok(None);
    }
    let Ok(first) = serde_json::from_slice::<Entry>(&line) else { return Ok(None) };
    let Entry::Start { recording, flush_s, manifest } = first else { return Ok(None) };
    let mut recorded = Recorded {
        recording,
        flush_s,
        manifest: *manifest,
        segments: BTreeMap::new(),
        first_clock: None,
        last_clock: None,
        clock_pairs: 0,
        events: Vec::new(),
        failures: Vec::new(),
        cost: None,
        notes: Vec::new(),
        losses: Vec::new(),
        ended_early: None,
        end: None,
        damaged_lines: 0,
    };
    while next(&mut line)? {
        match serde_json::from_slice(&line) {
            Ok(entry) => recorded.apply(entry),
            Err(_) => recorded.damaged_lines += 1,
        }
    }
    Ok(Some(recorded))
}

impl Recorded {
    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Start { .. } => self.damaged_lines += 1,
            Entry::Segment { file, sha256, .. } => match SegmentName::parse(&file) {
                Some(name) => {
                    if name.is_merged {
                        self.segments.retain(|known, _| !name.covers(known));
                    }
                    self.segments.insert(name, sha256);
                }
                None => self.damaged_lines += 1,
            },
            Entry::Stamp { stage, t } => *stage.of(&mut self.manifest.stages) = Some(t),
            Entry::Clock { pair } => {
                self.first_clock.get_or_insert(pair);
                self.last_clock = Some(pair);
                self.clock_pairs += 1;
            }
            Entry::ClockEvent(event) => self.events.push(event),
            Entry::Failures { failures } => {
                for new in failures {
                    let is_same = |known: &&mut FailureCount| {
                        (&known.source, &known.device, &known.cause)
                            == (&new.source, &new.device, &new.cause)
                    };
                    match self.failures.iter_mut().find(is_same) {
                        Some(known) => known.count = new.count,
                        None => self.failures.push(new),
                    }
                }
            }
            Entry::Cost(cost) => self.cost = Some(cost),
            Entry::Note { text } => self.notes.push(text),
            Entry::Loss { text } => self.losses.push(text),
            Entry::EndedEarly { cause } => self.ended_early = Some(cause),
            Entry::End { t } => self.end = Some(t),
        }
    }
}
