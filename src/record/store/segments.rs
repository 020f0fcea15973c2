//! Names of segments, and which of them become one.
//!
//! A recording of three days writes 13,000 times, so each write's small segments are merged once there are
//! [`MERGED_SEGMENTS`] of a table. A merged segment is named after the first and last of them, and counts
//! once the journal says so; only then are they removed. Whenever this is cut off, each row lies in a
//! segment that counts, and in no two.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use wattrace_schema::tables::{ENGINE, POWER, REQUESTS, STEPS};
use wattrace_schema::{FileEntry, Table};
use wattrace_trace::{TraceError, merge_segments};

use super::StoreError;

/// Small segments of a table that become one: at 20 s between writes, those of 20 minutes.
const MERGED_SEGMENTS: usize = 60;

/// Bytes of small segments that are merged even if they are fewer; merging needs memory for a multiple.
const MERGED_BYTES: u64 = 4 << 20;

/// Tables that are recorded.
const TABLES: [&Table; 4] = [&POWER, &REQUESTS, &STEPS, &ENGINE];

/// Suffix of a segment that is being written.
const WRITING: &str = "writing";

/// What the name of a segment says: `power-00000007.parquet` is the seventh that was written,
/// `power-00000001-00000060.parquet` those of power among the first sixty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentName {
    /// Name of its table.
    table: &'static str,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) is_merged: bool,
}

impl SegmentName {
    pub(super) const fn small(table: &'static Table, number: u64) -> Self {
        Self { table: table.name, first: number, last: number, is_merged: false }
    }

    pub(super) fn table(&self) -> &'static Table {
        let known = TABLES.into_iter().find(|table| table.name == self.table);
        known.expect("names are made of known tables only")
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".parquet")?.split('-');
        let table = parts.next()?;
        let table = TABLES.into_iter().find(|known| known.name == table)?.name;
        let number = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten()
        };
        let first = number(parts.next()?)?;
        let last = parts.next().map(number);
        let is_merged = last.is_some();
        let last = last.unwrap_or(Some(first))?;
        parts.next().is_none().then_some(Self { table, first, last, is_merged })
    }

    /// Whether the rows of `other` went into this segment.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.is_merged
            && !other.is_merged
            && self.table == other.table
            && (self.first..=self.last).contains(&other.first)
    }
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (table, first, last) = (self.table, self.first, self.last);
        if self.is_merged {
            write!(formatter, "{table}-{first:08}-{last:08}.parquet")
        } else {
            write!(formatter, "{table}-{first:08}.parquet")
        }
    }
}

/// Writes a new segment under its name, whole or not at all, and gives what it holds and its bytes. `write`
/// gets the path to write to.
pub(super) fn write_whole(
    folder: &Path,
    name: SegmentName,
    write: impl FnOnce(&Path) -> Result<Option<FileEntry>, TraceError>,
) -> Result<Option<(FileEntry, u64)>, StoreError> {
    let path = folder.join(name.to_string());
    let writing = path.with_extension(WRITING);
    let written = write(&writing).inspect_err(|_| {
        // Nothing may be half there; if this fails too, `convert` ignores the file.
        let _ = fs::remove_file(&writing);
    })?;
    let Some(entry) = written else { return Ok(None) };
    let bytes = fs::metadata(&writing).map_or(0, |metadata| metadata.len());
    fs::rename(&writing, &path).map_err(StoreError::io("rename", &writing))?;
    Ok(Some((entry, bytes)))
}

/// The small segments that were not merged yet, by table.
#[derive(Debug, Default)]
pub(super) struct SmallSegments(BTreeMap<&'static str, Vec<(SegmentName, u64)>>);

impl SmallSegments {
    pub(super) fn add(&mut self, name: SegmentName, bytes: u64) {
        self.0.entry(name.table).or_default().push((name, bytes));
    }

    /// Takes out those of one table that should become one by now.
    pub(super) fn take_due(&mut self, folder: &Path) -> Option<Merge> {
        for segments in self.0.values_mut() {
            let bytes: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
            if segments.len() < MERGED_SEGMENTS && bytes < MERGED_BYTES {
                continue;
            }
            let segments = std::mem::take(segments);
            // A single one that is as large as this stays as it is.
            if let [(first, _), .., (last, _)] = segments[..] {
                let name = SegmentName { last: last.last, is_merged: true, ..first };
                let small = segments.into_iter().map(|(name, _)| name).collect();
                return Some(Merge { folder: folder.to_owned(), name, small, small_bytes: bytes });
            }
        }
        None
    }
}

/// Small segments of one table that become one.
#[derive(Debug)]
pub struct Merge {
    folder: PathBuf,
    pub(super) name: SegmentName,
    small: Vec<SegmentName>,
    pub(super) small_bytes: u64,
}

impl Merge {
    /// Writes the merged segment, which does not count until [`super::Store::merged`]. This takes its time;
    /// the store can be used meanwhile.
    ///
    /// # Errors
    /// When a segment cannot be read or the merged one not be written. The small ones stay and count.
    pub fn write(&self) -> Result<Merged, StoreError> {
        let paths: Vec<_> = self.small().collect();
        let written = write_whole(&self.folder, self.name, |path| {
            merge_segments(path, self.name.table(), &paths)
        })?;
        let (entry, bytes) = written
            .ok_or_else(|| TraceError::Other(format!("segments of {} hold no rows", self.name)))?;
        Ok(Merged { entry, bytes })
    }

    fn small(&self) -> impl Iterator<Item = PathBuf> {
        self.small.iter().map(|name| self.folder.join(name.to_string()))
    }

    /// Removes the small segments. One that stays is ignored by `convert`.
    pub(super) fn remove_small(&self) {
        for path in self.small() {
            let _ = fs::remove_file(path);
        }
    }
}

/// A merged segment that was written.
#[derive(Debug)]
pub struct Merged {
    pub(super) entry: FileEntry,
    pub(super) bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_it_is_written() {
        for name in ["power-00000007.parquet", "requests-00000001-00000060.parquet"] {
            assert_eq!(SegmentName::parse(name).unwrap().to_string(), name);
        }
        for name in
            ["power.parquet", "power-a.parquet", "fans-1.parquet", "power-1-2-3.parquet", "power-1"]
        {
            assert_eq!(SegmentName::parse(name), None, "{name}");
        }
        let merged = SegmentName::parse("power-00000001-00000060.parquet").unwrap();
        let covers = |name: &str| merged.covers(&SegmentName::parse(name).unwrap());
        assert!(covers("power-00000001.parquet") && covers("power-00000060.parquet"));
        assert!(!covers("power-00000061.parquet") && !covers("requests-00000002.parquet"));
        assert!(!covers("power-00000001-00000060.parquet"));
    }

    #[test]
    fn segments_are_due_when_they_are_many_or_large() {
        let folder = Path::new("run.partial");
        let mut small = SmallSegments::default();
        // Numbers are shared by the tables.
        for number in 1..120 {
            assert!(small.take_due(folder).is_none(), "{number}");
            let table = if number % 2 == 0 { &REQUESTS } else { &POWER };
            small.add(SegmentName::small(table, number), 1000);
        }
        let merge = small.take_due(folder).unwrap();
        assert_eq!(merge.name.to_string(), "power-00000001-00000119.parquet");
        assert_eq!((merge.small.len(), merge.small_bytes), (60, 60_000));
        assert!(small.take_due(folder).is_none(), "59 of requests are too few");
        small.add(SegmentName::small(&REQUESTS, 120), MERGED_BYTES);
        let merge = small.take_due(folder).unwrap();
        assert_eq!(merge.name.to_string(), "requests-00000002-00000120.parquet");
        small.add(SegmentName::small(&REQUESTS, 121), MERGED_BYTES);
        assert!(small.take_due(folder).is_none(), "one alone is not merged");
        small.add(SegmentName::small(&REQUESTS, 122), 1000);
        assert!(small.take_due(folder).is_none());
    }
}
