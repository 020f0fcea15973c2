//! One Parquet file: its bytes, what run.json says of them, and its columns as declared.

use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use wattrace_schema::{Column, ColumnType, FileEntry, Presence, Table};

use super::column::Batch;
use crate::digest::sha256_hex;
use crate::{RunLocation, TraceError};

/// Rows decoded at once. Most files come in one batch; a larger one stays within some megabytes.
const BATCH_ROWS: usize = 1 << 16;

/// A Parquet file that was read but not yet understood.
#[derive(Debug)]
pub(crate) struct FileBytes {
    path: PathBuf,
    table: &'static Table,
    bytes: Bytes,
}

/// A Parquet file whose footer is sound and whose columns are known.
#[derive(Debug)]
pub(crate) struct TableFile {
    pub(super) path: PathBuf,
    table: &'static Table,
    bytes: Bytes,
    /// The footer, with the schema in which columns are decoded.
    metadata: ArrowReaderMetadata,
    /// Arrow types as the writer of the file saw them.
    written: Arc<Schema>,
}

impl FileBytes {
    /// Reads the file of `table`, once and whole; `None` when the run has no such file.
    pub(crate) fn read(
        location: &RunLocation,
        table: &'static Table,
        entry: Option<&FileEntry>,
    ) -> Result<Option<Self>, TraceError> {
        let path = location.folder.join(table.file);
        if fs::symlink_metadata(&path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
            return match entry {
                Some(entry) => Err(TraceError::MissingFile { path, rows: entry.rows }),
                None => Ok(None),
            };
        }
        let path = location.file(table.file)?;
        let bytes = fs::read(&path).map_err(TraceError::io("read", &path))?;
        Ok(Some(Self::new(path, table, bytes)))
    }

    /// The bytes of the file of `table`, which lie at `path`.
    pub(crate) fn new(path: PathBuf, table: &'static Table, bytes: Vec<u8>) -> Self {
        Self { path, table, bytes: Bytes::from(bytes) }
    }

    /// Compares the SHA-256 of the bytes with run.json.
    pub(crate) fn verify_digest(&self, entry: &FileEntry) -> Result<(), TraceError> {
        let found = sha256_hex(&self.bytes);
        if found.eq_ignore_ascii_case(&entry.sha256) {
            return Ok(());
        }
        Err(TraceError::Mismatch {
            path: self.path.clone(),
            what: "SHA-256",
            found,
            expected: entry.sha256.clone(),
        })
    }

    /// Reads the footer.
    pub(crate) fn parse(self) -> Result<TableFile, TraceError> {
        let Self { path, table, bytes } = self;
        if let Some(problem) = frame_problem(&bytes) {
            return Err(TraceError::Parquet { path, message: problem.to_owned() });
        }
        let written =
            guarded(&path, || ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()))?;
        let footer = written.metadata().clone();
        if let Some(message) = footer_problem(&footer, table, bytes.len()) {
            return Err(TraceError::Parquet { path, message });
        }
        let plain = guarded(&path, || {
            parquet_to_arrow_schema(footer.file_metadata().schema_descr(), None)
        })?;
        let decoded = decoded_schema(table, &plain);
        let metadata = guarded(&path, || {
            let options = ArrowReaderOptions::new().with_schema(Arc::new(decoded));
            ArrowReaderMetadata::try_new(footer, options)
        })?;
        let written = written.schema().clone();
        Ok(TableFile { path, table, bytes, metadata, written })
    }
}

impl TableFile {
    /// Reads and verifies the file of `table`; `None` when the run has no such file. The digest is
    /// compared before anything is decoded, so that only bytes their writer vouched for are.
    pub(crate) fn open(
        location: &RunLocation,
        table: &'static Table,
        entry: Option<&FileEntry>,
        verify: bool,
    ) -> Result<Option<Self>, TraceError> {
        let Some(file) = FileBytes::read(location, table, entry)? else { return Ok(None) };
        let entry = entry.filter(|_| verify);
        if let Some(entry) = entry {
            file.verify_digest(entry)?;
        }
        let file = file.parse()?;
        if let Some(entry) = entry {
            file.verify_rows(entry)?;
        }
        Ok(Some(file))
    }

    /// The declaration of the file.
    pub(crate) const fn table(&self) -> &'static Table {
        self.table
    }

    /// Whether the file has a column of that name.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.metadata.schema().column_with_name(name).is_some()
    }

    /// Rows that the footer claims.
    pub(crate) fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or_default()
    }

    /// Compares the row count with run.json.
    pub(crate) fn verify_rows(&self, entry: &FileEntry) -> Result<(), TraceError> {
        if self.rows() == entry.rows {
            return Ok(());
        }
        Err(TraceError::Mismatch {
            path: self.path.clone(),
            what: "row count",
            found: self.rows().to_string(),
            expected: entry.rows.to_string(),
        })
    }

    /// Checks that a declared column is there, once, and has a type that can be read as declared.
    pub(crate) fn verify_column(&self, column: &'static Column) -> Result<(), TraceError> {
        let mut found = (self.written.fields().iter())
            .zip(self.metadata.schema().fields())
            .filter(|(written, _)| written.name() == column.name);
        let expected = column.column_type.name();
        let Some((written, decoded)) = found.next() else {
            return match column.presence {
                // An absent column is the same as one of nulls: the run still yields what it can.
                Presence::Optional | Presence::Nullable => Ok(()),
                Presence::Required => Err(TraceError::MissingColumn {
                    path: self.path.clone(),
                    column: column.name,
                    expected,
                }),
            };
        };
        let found = if found.next().is_some() {
            "there more than once".to_owned()
        } else if !accepts(column, written.data_type()) {
            type_name(written.data_type())
        } else if !decodes(column, decoded.data_type()) {
            type_name(decoded.data_type())
        } else {
            return Ok(());
        };
        Err(TraceError::ColumnType {
            path: self.path.clone(),
            column: column.name,
            found,
            expected,
        })
    }

    /// Decodes the named columns, batch by batch, and hands each batch to `consume`.
    pub(crate) fn read(
        &self,
        columns: &[&'static str],
        mut consume: impl FnMut(Batch<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        for name in columns {
            if let Some(column) = self.table.column(name) {
                self.verify_column(column)?;
            }
        }
        let fields = self.metadata.schema().fields();
        let wanted = fields
            .iter()
            .enumerate()
            .filter(|(_, field)| columns.contains(&field.name().as_str()))
            .map(|(index, _)| index);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), wanted);
        let mut reader = guarded(&self.path, || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(
                self.bytes.clone(),
                self.metadata.clone(),
            )
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
        })?;
        let mut first_row = 0;
        let mut next = || -> Result<Option<RecordBatch>, TraceError> {
            guarded(&self.path, || reader.next().transpose().map_err(ParquetError::from))
        };
        while let Some(batch) = next()? {
            let rows = batch.num_rows() as u64;
            consume(Batch { file: self, columns: batch, first_row })?;
            first_row += rows;
        }
        if first_row == self.rows() {
            return Ok(());
        }
        Err(TraceError::Parquet {
            path: self.path.clone(),
            message: format!(
                "its footer says {} rows, but {first_row} could be decoded",
                self.rows()
            ),
        })
    }
}

/// Runs a piece of the Parquet decoder. Its errors become ours, and so do its panics: on bytes made to
/// mislead it some of its arithmetic is unchecked, and one bad file must not stop the other runs. The
/// decoder's state is dropped either way, so nothing half-changed is seen again.
fn guarded<T>(
    path: &Path,
    decode: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TraceError> {
    let unreadable = |message: String| TraceError::Parquet { path: path.to_owned(), message };
    quiet_panics();
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(false);
    match result {
        Ok(result) => result.map_err(|error| unreadable(decoder_message(error))),
        Err(_) => Err(unreadable("its bytes contradict each other".to_owned())),
    }
}

thread_local! {
    /// Whether this thread is inside [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics that [`guarded`] catches off the standard error stream, where they would look like a
/// failure of the program rather than of a file. Every other panic is reported as before.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                report(panic);
            }
        }));
    });
}

/// What the decoder says, without the name of its error type before it.
fn decoder_message(error: ParquetError) -> String {
    match error {
        ParquetError::General(message)
        | ParquetError::NYI(message)
        | ParquetError::EOF(message)
        | ParquetError::ArrowError(message) => message,
        other => other.to_string(),
    }
}

/// What is wrong with the first and last bytes, which tell a file that was cut off from one that was
/// never Parquet.
fn frame_problem(bytes: &[u8]) -> Option<&'static str> {
    const MAGIC: &[u8] = b"PAR1";
    if bytes.is_empty() {
        Some("it is empty")
    } else if !bytes.starts_with(MAGIC) {
        Some("it does not begin with PAR1, as Parquet files do")
    } else if !bytes.ends_with(MAGIC) || bytes.len() < 3 * MAGIC.len() {
        Some("it does not end with PAR1, so it was cut off or is still being written")
    } else {
        None
    }
}

/// What the footer says that cannot be.
fn footer_problem(footer: &ParquetMetaData, table: &Table, file_bytes: usize) -> Option<String> {
    let rows = footer.file_metadata().num_rows();
    let in_groups: i128 = footer.row_groups().iter().map(|g| i128::from(g.num_rows())).sum();
    if rows < 0 || i128::from(rows) != in_groups {
        return Some(format!("its footer says {rows} rows, but its row groups hold {in_groups}"));
    }
    // Columns that nobody declared may be as they like.
    let declared = |chunk: &&ColumnChunkMetaData| {
        let root = chunk.column_path().parts().first();
        root.is_some_and(|root| table.column(root).is_some())
    };
    let mut chunks = footer.row_groups().iter().flat_map(|group| group.columns()).filter(declared);
    chunks.find_map(|chunk| chunk_problem(chunk, file_bytes))
}

/// What is wrong with the place or the packing of one column in one row group.
fn chunk_problem(chunk: &ColumnChunkMetaData, file_bytes: usize) -> Option<String> {
    let column = chunk.column_path().string();
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let bytes = chunk.compressed_size();
    let end = start.checked_add(bytes).and_then(|end| usize::try_from(end).ok());
    if start < 0 || bytes < 0 || end.is_none_or(|end| end > file_bytes) {
        return Some(format!(
            "column \"{column}\" would be {bytes} bytes at byte {start} of a file of {file_bytes}"
        ));
    }
    let codec = match chunk.compression() {
        Compression::BROTLI(_) => "brotli",
        Compression::LZO => "lzo",
        _ => return None,
    };
    Some(format!(
        "column \"{column}\" is compressed with {codec}; expected zstd, snappy, gzip, lz4 or none"
    ))
}

/// The types in which columns are decoded: those of the Parquet file itself (without the Arrow types
/// that its writer noted, so that large strings and views are plain strings), and dictionaries for
/// texts that repeat, so that each is looked at once a batch rather than once a row.
fn decoded_schema(table: &Table, plain: &Schema) -> Schema {
    let fields: Vec<Field> = plain
        .fields()
        .iter()
        .map(|field| {
            let is_label = table.column(field.name()).is_some_and(is_label);
            if is_label && *field.data_type() == DataType::Utf8 {
                let dictionary =
                    DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
                field.as_ref().clone().with_data_type(dictionary)
            } else {
                field.as_ref().clone()
            }
        })
        .collect();
    Schema::new_with_metadata(fields, plain.metadata().clone())
}

/// Texts of which a file holds few different ones.
fn is_label(column: &Column) -> bool {
    use wattrace_schema::tables::{
        accuracy_column, engine_column, power_column, request_column, step_column,
    };
    const LABELS: [&str; 8] = [
        power_column::source,
        power_column::device,
        request_column::stage,
        request_column::status,
        step_column::graph_mode,
        engine_column::name,
        engine_column::labels,
        accuracy_column::suite,
    ];
    column.column_type == ColumnType::Text && LABELS.contains(&column.name)
}

/// Whether values of `found` can be read as the column declares, if each value allows it.
fn accepts(column: &Column, found: &DataType) -> bool {
    if *found == DataType::Null {
        return true;
    }
    match column.column_type {
        ColumnType::Text => match found {
            DataType::Dictionary(_, value) => is_text(value),
            _ => is_text(found),
        },
        ColumnType::Time => matches!(
            found,
            DataType::Timestamp(
                TimeUnit::Nanosecond | TimeUnit::Microsecond | TimeUnit::Millisecond,
                Some(zone)
            ) if is_utc(zone)
        ),
        ColumnType::ListU32 | ColumnType::ListU64 => match found {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => is_number(item.data_type()),
            _ => false,
        },
        _ => is_number(found),
    }
}

/// Whether the type in which the column is decoded is the one that [`Batch`] expects. It differs where
/// the Arrow types that a writer noted promise more than the Parquet file itself says.
fn decodes(column: &Column, decoded: &DataType) -> bool {
    match (column.column_type, decoded) {
        (_, DataType::Null)
        | (ColumnType::Time, DataType::Timestamp(..))
        | (ColumnType::Text, DataType::Utf8 | DataType::Dictionary(..)) => true,
        (ColumnType::ListU32 | ColumnType::ListU64, DataType::List(item)) => {
            is_number(item.data_type())
        }
        (ColumnType::Time | ColumnType::Text | ColumnType::ListU32 | ColumnType::ListU64, _) => {
            false
        }
        (_, number) => is_number(number),
    }
}

fn is_number(found: &DataType) -> bool {
    found.is_integer() || found.is_floating()
}

fn is_text(found: &DataType) -> bool {
    matches!(found, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_utc(zone: &str) -> bool {
    ["UTC", "Etc/UTC", "Z", "+00:00", "+0000", "00:00"].contains(&zone)
}

/// The name of a type in the words of the contract.
fn type_name(found: &DataType) -> String {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match found {
        DataType::Boolean => "bool".to_owned(),
        DataType::Float16 => "halffloat".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_owned(),
        DataType::Timestamp(precision, Some(zone)) => {
            format!("timestamp[{}, {zone}]", unit(precision))
        }
        DataType::Timestamp(precision, None) => {
            format!("timestamp[{}] without a time zone", unit(precision))
        }
        DataType::Duration(precision) => format!("duration[{}]", unit(precision)),
        DataType::List(item) | DataType::LargeList(item) => {
            format!("list<{}>", type_name(item.data_type()))
        }
        DataType::Dictionary(_, value) => format!("dictionary<{}>", type_name(value)),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::Map(..) => "map".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}
