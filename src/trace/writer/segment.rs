//! Segments: the rows of one table over a short time, in a file of their own, and how many of them
//! become one table. What records for days writes a segment now and then, so that it loses little when
//! it is cut off.

use std::cmp::Ordering;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use wattrace_schema::tables::{ENGINE, POWER, REQUESTS, STEPS, power_column, request_column};
use wattrace_schema::{Column, ColumnType, FileEntry, RequestStage, Table};

use super::table::{Cell, TableWriter};
use super::{EngineRow, PowerRow, RequestRow, StepRow};
use crate::TraceError;
use crate::digest::sha256_hex;

/// Rows of one table; they are sorted before they are written.
#[derive(Debug)]
#[expect(missing_docs, reason = "each variant is the table that it names")]
pub enum SegmentRows {
    Power(Vec<PowerRow<Arc<str>>>),
    Requests(Vec<RequestRow>),
    Steps(Vec<StepRow>),
    Engine(Vec<EngineRow>),
}

impl SegmentRows {
    /// The table that they belong to.
    #[must_use]
    pub const fn table(&self) -> &'static Table {
        match self {
            Self::Power(_) => &POWER,
            Self::Requests(_) => &REQUESTS,
            Self::Steps(_) => &STEPS,
            Self::Engine(_) => &ENGINE,
        }
    }
}

/// Writes rows to a new file at `path`, sorted by the table's sort key; `None`, and no file, without
/// rows. The file reaches the disk before this returns.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn write_segment(path: &Path, rows: SegmentRows) -> Result<Option<FileEntry>, TraceError> {
    let mut writer = TableWriter::brief_segment(rows.table(), path.to_owned());
    match rows {
        SegmentRows::Power(mut rows) => {
            rows.sort_by(|a, b| {
                (&a.source, &a.device, a.t_ns).cmp(&(&b.source, &b.device, b.t_ns))
            });
            rows.iter().try_for_each(|row| writer.append(&row.cells()))?;
        }
        SegmentRows::Requests(mut rows) => {
            rows.sort_by(|a, b| (a.t_send_ns, &a.request_id).cmp(&(b.t_send_ns, &b.request_id)));
            rows.iter().try_for_each(|row| writer.append(&row.cells()))?;
        }
        SegmentRows::Steps(mut rows) => {
            rows.sort_by_key(|row| (row.replica, row.t_end_ns, row.step));
            rows.iter().try_for_each(|row| writer.append(&row.cells()))?;
        }
        SegmentRows::Engine(mut rows) => {
            rows.sort_by(|a, b| (a.t_ns, &a.name, &a.labels).cmp(&(b.t_ns, &b.name, &b.labels)));
            rows.iter().try_for_each(|row| writer.append(&row.cells()))?;
        }
    }
    finish_segment(path, writer)
}

/// Writes the rows of several segments of one table, given in the order in which they were written, to a
/// new one at `path`, sorted by the table's sort key. The file reaches the disk before this returns.
///
/// # Errors
/// When a segment cannot be read, or the file exists or cannot be written.
pub fn merge_segments(
    path: &Path,
    table: &'static Table,
    segments: &[PathBuf],
) -> Result<Option<FileEntry>, TraceError> {
    let mut writer = TableWriter::segment(table, path.to_owned());
    join(table, segments, &mut writer)?;
    finish_segment(path, writer)
}

fn finish_segment(path: &Path, writer: TableWriter) -> Result<Option<FileEntry>, TraceError> {
    let entry = writer.finish()?;
    if entry.is_some() {
        let sync = File::open(path).and_then(|file| file.sync_all());
        sync.map_err(TraceError::io("write to disk", path))?;
    }
    Ok(entry)
}

/// Digest and number of rows of a segment as it lies on disk.
///
/// # Errors
/// When it cannot be read, or is no whole Parquet file.
pub fn segment_entry(path: &Path) -> Result<FileEntry, TraceError> {
    let bytes = std::fs::read(path).map_err(TraceError::io("read", path))?;
    let sha256 = sha256_hex(&bytes);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes));
    let reader = reader.map_err(|error| TraceError::Parquet {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    let rows = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
    Ok(FileEntry { sha256, rows })
}

/// The latest time of each power source in a segment of power, nanoseconds since the Unix epoch, in the
/// order of the sources' ids.
///
/// # Errors
/// When the segment cannot be read.
pub fn last_power_times(path: &Path) -> Result<Vec<(String, i64)>, TraceError> {
    let mut times = std::collections::BTreeMap::new();
    let names = [power_column::source, power_column::t];
    for batch in read(path, Some(&names), None)? {
        let batch = batch?;
        let [source, t] = names.map(|name| column(&POWER, &batch, name));
        for row in 0..batch.num_rows() {
            let source = key_of(source.0, source.1.as_ref(), row);
            let Cell::Time(Some(t_ns)) = cell(t.0, t.1.as_ref(), row) else { continue };
            if let Key::Text(source) = source {
                let latest = times.entry(source).or_insert(t_ns);
                *latest = t_ns.max(*latest);
            }
        }
    }
    Ok(times.into_iter().collect())
}

/// The latest end of a formal request in a segment of requests, nanoseconds since the Unix epoch.
///
/// # Errors
/// When the segment cannot be read.
pub fn last_formal_end(path: &Path) -> Result<Option<i64>, TraceError> {
    let mut latest = None;
    let names = [request_column::stage, request_column::t_end];
    for batch in read(path, Some(&names), None)? {
        let batch = batch?;
        let [stage, t_end] = names.map(|name| column(&REQUESTS, &batch, name));
        for row in 0..batch.num_rows() {
            let Cell::Text(Some(stage)) = cell(stage.0, stage.1.as_ref(), row) else { continue };
            if let Cell::Time(Some(t_ns)) = cell(t_end.0, t_end.1.as_ref(), row)
                && stage == RequestStage::Formal.name()
            {
                latest = latest.max(Some(t_ns));
            }
        }
    }
    Ok(latest)
}

/// What joining segments appended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JoinedRows {
    /// Rows.
    pub rows: u64,
    /// Power sources that they name.
    pub sources: Vec<String>,
}

/// One value of a sort key; null comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Null,
    Number(i128),
    Text(String),
}

/// Rows of one segment that share the columns before the time in the sort key.
#[derive(Debug)]
struct Group {
    key: Vec<Key>,
    segment: usize,
    rows: Range<usize>,
    /// Time of the first row, which is the earliest.
    first: Key,
}

/// A row that waits for its turn.
#[derive(Debug)]
struct Waiting {
    key: Vec<Key>,
    /// The batch's arrays in the order of the table's columns.
    arrays: Arc<Vec<Option<ArrayRef>>>,
    row: usize,
}

/// Appends the rows of `segments` to `writer` in the order of the table's sort key.
pub(super) fn join(
    table: &'static Table,
    segments: &[PathBuf],
    writer: &mut TableWriter,
) -> Result<JoinedRows, TraceError> {
    let time = table.sort_key.iter().position(|name| {
        table.column(name).is_some_and(|column| column.column_type == ColumnType::Time)
    });
    let (group_by, order_by) = table.sort_key.split_at(time.unwrap_or(0));
    let mut groups = Vec::new();
    for (index, path) in segments.iter().enumerate() {
        groups.extend(groups_of(table, path, index, group_by, order_by[0])?);
    }
    // Segments of one group stay in the order in which they were written.
    groups.sort_by(|a, b| (&a.key, a.segment).cmp(&(&b.key, b.segment)));
    let mut joined = JoinedRows::default();
    for same in groups.chunk_by(|a, b| a.key == b.key) {
        joined.rows += join_group(table, segments, same, order_by, writer)?;
        if let (true, Some(Key::Text(source))) = (table.name == POWER.name, same[0].key.first()) {
            joined.sources.push(source.clone());
        }
    }
    joined.sources.dedup();
    Ok(joined)
}

/// The groups of one segment, whose rows are sorted.
fn groups_of(
    table: &'static Table,
    path: &Path,
    segment: usize,
    group_by: &[&str],
    time: &str,
) -> Result<Vec<Group>, TraceError> {
    let names: Vec<&str> = group_by.iter().copied().chain([time]).collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut offset = 0;
    for batch in read(path, Some(&names), None)? {
        let batch = batch?;
        let columns: Vec<_> = group_by.iter().map(|name| column(table, &batch, name)).collect();
        let time = column(table, &batch, time);
        let value = |(column, array): &(&'static Column, Option<ArrayRef>), row| {
            key_of(column, array.as_ref(), row)
        };
        for row in 0..batch.num_rows() {
            let is_like_before = row > 0
                && columns.iter().all(|(column, array)| {
                    cell(column, array.as_ref(), row) == cell(column, array.as_ref(), row - 1)
                });
            if let (true, Some(group)) = (is_like_before, groups.last_mut()) {
                group.rows.end += 1;
                continue;
            }
            let key: Vec<Key> = columns.iter().map(|column| value(column, row)).collect();
            match groups.last_mut() {
                Some(group) if group.key == key => group.rows.end += 1,
                _ => {
                    let at = offset + row;
                    let first = value(&time, row);
                    groups.push(Group { key, segment, rows: at..at + 1, first });
                }
            }
        }
        offset += batch.num_rows();
    }
    Ok(groups)
}

/// Appends the rows of one group. A row is written once no later segment can hold an earlier one.
fn join_group(
    table: &'static Table,
    segments: &[PathBuf],
    groups: &[Group],
    order_by: &[&str],
    writer: &mut TableWriter,
) -> Result<u64, TraceError> {
    let mut earliest_later: Vec<Option<&Key>> = vec![None; groups.len()];
    for index in (1..groups.len()).rev() {
        let own = &groups[index].first;
        earliest_later[index - 1] = Some(earliest_later[index].map_or(own, |later| later.min(own)));
    }
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut rows = 0;
    for (group, later) in groups.iter().zip(earliest_later) {
        for batch in read(&segments[group.segment], None, Some(group.rows.clone()))? {
            let batch = batch?;
            let columns: Vec<_> = order_by.iter().map(|name| column(table, &batch, name)).collect();
            let arrays =
                table.columns.iter().map(|column| batch.column_by_name(column.name).cloned());
            let arrays = Arc::new(arrays.collect::<Vec<_>>());
            waiting.extend((0..batch.num_rows()).map(|row| {
                let key = columns.iter().map(|(column, array)| key_of(column, array.as_ref(), row));
                Waiting { key: key.collect(), arrays: arrays.clone(), row }
            }));
            // The segment is sorted: what follows in it is no earlier than the last row.
            let last = waiting.last().map(|waiting| waiting.key[0].clone());
            let bound = last.as_ref().into_iter().chain(later).min();
            rows += append_ready(table, &mut waiting, bound, writer)?;
        }
        rows += append_ready(table, &mut waiting, later, writer)?;
    }
    Ok(rows)
}

/// Appends the rows that wait and lie before `bound`, or all without one, in the order of their keys.
fn append_ready(
    table: &'static Table,
    waiting: &mut Vec<Waiting>,
    bound: Option<&Key>,
    writer: &mut TableWriter,
) -> Result<u64, TraceError> {
    waiting.sort_by(|a, b| a.key.cmp(&b.key));
    let ready = bound.map_or(waiting.len(), |bound| {
        waiting.partition_point(|waiting| waiting.key[0].cmp(bound) == Ordering::Less)
    });
    for waiting in waiting.drain(..ready) {
        append(table, &waiting.arrays, waiting.row, writer)?;
    }
    Ok(ready as u64)
}

/// Rows of a file, as batches: some columns, or all; some rows, or all.
fn read(
    path: &Path,
    columns: Option<&[&str]>,
    rows: Option<Range<usize>>,
) -> Result<impl Iterator<Item = Result<RecordBatch, TraceError>> + use<>, TraceError> {
    let broken = |error: &dyn std::fmt::Display| TraceError::Parquet {
        path: path.to_owned(),
        message: error.to_string(),
    };
    let file = File::open(path).map_err(TraceError::io("open", path))?;
    let mut builder =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| broken(&error))?;
    if let Some(columns) = columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    if let Some(rows) = rows {
        // Row groups without any of the rows are not read at all.
        let mut touched = Vec::new();
        let (mut start, mut skipped) = (0, 0);
        for (index, group) in builder.metadata().row_groups().iter().enumerate() {
            let end = start + usize::try_from(group.num_rows()).unwrap_or(0);
            if end <= rows.start {
                skipped = end;
            } else if start < rows.end {
                touched.push(index);
            }
            start = end;
        }
        builder = builder
            .with_row_groups(touched)
            .with_offset(rows.start - skipped)
            .with_limit(rows.len());
    }
    let reader = builder.build().map_err(|error| broken(&error))?;
    let path = path.to_owned();
    Ok(reader.map(move |batch| {
        batch
            .map_err(|error| TraceError::Parquet { path: path.clone(), message: error.to_string() })
    }))
}

/// The declared column and its values, if the file has it.
fn column(
    table: &'static Table,
    batch: &RecordBatch,
    name: &str,
) -> (&'static Column, Option<ArrayRef>) {
    let declared = table.column(name).expect("a sort key names columns of its table");
    (declared, batch.column_by_name(name).cloned())
}

fn key_of(column: &Column, array: Option<&ArrayRef>, row: usize) -> Key {
    match cell(column, array, row) {
        Cell::U16(value) => Key::Number(value.into()),
        Cell::U32(Some(value)) => Key::Number(value.into()),
        Cell::U64(Some(value)) => Key::Number(value.into()),
        Cell::Time(Some(value)) => Key::Number(value.into()),
        Cell::Text(Some(value)) => Key::Text(value.to_owned()),
        _ => Key::Null,
    }
}

fn append(
    table: &'static Table,
    arrays: &[Option<ArrayRef>],
    row: usize,
    writer: &mut TableWriter,
) -> Result<(), TraceError> {
    let cells = table.columns.iter().zip(arrays);
    let cells: Vec<Cell<'_>> =
        cells.map(|(column, array)| cell(column, array.as_ref(), row)).collect();
    writer.append(&cells)
}

/// The value of `column` in one row of a segment, whose arrays have the declared types.
fn cell<'a>(column: &Column, array: Option<&'a ArrayRef>, row: usize) -> Cell<'a> {
    let array = array.filter(|array| array.is_valid(row));
    match column.column_type {
        // The only columns of this type are required.
        ColumnType::U16 => {
            Cell::U16(array.map_or(0, |array| array.as_primitive::<UInt16Type>().value(row)))
        }
        ColumnType::U32 => {
            Cell::U32(array.map(|array| array.as_primitive::<UInt32Type>().value(row)))
        }
        ColumnType::U64 => {
            Cell::U64(array.map(|array| array.as_primitive::<UInt64Type>().value(row)))
        }
        ColumnType::F32 => {
            Cell::F32(array.map(|array| array.as_primitive::<Float32Type>().value(row)))
        }
        ColumnType::F64 => {
            Cell::F64(array.map(|array| array.as_primitive::<Float64Type>().value(row)))
        }
        ColumnType::Text => Cell::Text(array.map(|array| array.as_string::<i32>().value(row))),
        ColumnType::Time => Cell::Time(
            array.map(|array| array.as_primitive::<TimestampNanosecondType>().value(row)),
        ),
        ColumnType::ListU32 => Cell::ListU32(array.map(|array| {
            let list = array.as_list::<i32>();
            let (start, end) = (list.value_offsets()[row], list.value_offsets()[row + 1]);
            &list.values().as_primitive::<UInt32Type>().values()[start as usize..end as usize]
        })),
        ColumnType::ListU64 => Cell::ListU64(array.map(|array| {
            let list = array.as_list::<i32>();
            let (start, end) = (list.value_offsets()[row], list.value_offsets()[row + 1]);
            &list.values().as_primitive::<UInt64Type>().values()[start as usize..end as usize]
        })),
    }
}
