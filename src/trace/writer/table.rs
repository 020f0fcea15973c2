//! Writes one Parquet file from rows that come one at a time.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    Float32Builder, Float64Builder, ListBuilder, StringBuilder, TimestampNanosecondBuilder,
    UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use sha2::{Digest, Sha256};
use wattrace_schema::{Column, ColumnType, FileEntry, Presence, Table};

use crate::TraceError;
use crate::digest::hex;

/// Rows of a row group. A reader holds one row group at a time, so this bounds its memory.
const ROW_GROUP_ROWS: usize = 1 << 16;

/// A row group also ends once its lists hold this many items: 200 gaps a request would otherwise make
/// row groups of 100 MB.
const ROW_GROUP_LIST_ITEMS: usize = 1 << 22;

/// The same where little memory may be used.
const SPARING_ROW_GROUP_LIST_ITEMS: usize = 1 << 16;

/// Rows of a row group of a segment, which is written and merged where little memory may be used.
const SEGMENT_ROW_GROUP_ROWS: usize = 1 << 13;

/// The value of one column in one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    U16(u16),
    U32(Option<u32>),
    U64(Option<u64>),
    F32(Option<f32>),
    F64(Option<f64>),
    Text(Option<&'a str>),
    Time(Option<i64>),
    ListU32(Option<&'a [u32]>),
    ListU64(Option<&'a [u64]>),
}

/// Values of one column that await their row group.
#[derive(Debug)]
enum ColumnBuilder {
    U16(UInt16Builder),
    U32(UInt32Builder),
    U64(UInt64Builder),
    F32(Float32Builder),
    F64(Float64Builder),
    Text(StringBuilder),
    Time(TimestampNanosecondBuilder),
    ListU32(ListBuilder<UInt32Builder>),
    ListU64(ListBuilder<UInt64Builder>),
}

impl ColumnBuilder {
    fn new(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::U16 => Self::U16(UInt16Builder::new()),
            ColumnType::U32 => Self::U32(UInt32Builder::new()),
            ColumnType::U64 => Self::U64(UInt64Builder::new()),
            ColumnType::F32 => Self::F32(Float32Builder::new()),
            ColumnType::F64 => Self::F64(Float64Builder::new()),
            ColumnType::Text => Self::Text(StringBuilder::new()),
            ColumnType::Time => {
                Self::Time(TimestampNanosecondBuilder::new().with_data_type(column_type.arrow()))
            }
            ColumnType::ListU32 => Self::ListU32(ListBuilder::new(UInt32Builder::new())),
            ColumnType::ListU64 => Self::ListU64(ListBuilder::new(UInt64Builder::new())),
        }
    }

    /// Appends a value; says whether it was one (not null), and how many list items it added.
    fn append(&mut self, cell: Cell<'_>) -> (bool, usize) {
        match (self, cell) {
            (Self::U16(builder), Cell::U16(value)) => {
                builder.append_value(value);
                (true, 0)
            }
            (Self::U32(builder), Cell::U32(value)) => {
                builder.append_option(value);
                (value.is_some(), 0)
            }
            (Self::U64(builder), Cell::U64(value)) => {
                builder.append_option(value);
                (value.is_some(), 0)
            }
            (Self::F32(builder), Cell::F32(value)) => {
                builder.append_option(value);
                (value.is_some(), 0)
            }
            (Self::F64(builder), Cell::F64(value)) => {
                builder.append_option(value);
                (value.is_some(), 0)
            }
            (Self::Text(builder), Cell::Text(value)) => {
                builder.append_option(value);
                (value.is_some(), 0)
            }
            (Self::Time(builder), Cell::Time(value)) => {
                builder.append_option(value);
                (value.is_some(), 0)
            }
            (Self::ListU32(builder), Cell::ListU32(items)) => {
                builder.values().append_slice(items.unwrap_or_default());
                builder.append(items.is_some());
                (items.is_some(), items.map_or(0, <[u32]>::len))
            }
            (Self::ListU64(builder), Cell::ListU64(items)) => {
                builder.values().append_slice(items.unwrap_or_default());
                builder.append(items.is_some());
                (items.is_some(), items.map_or(0, <[u64]>::len))
            }
            (builder, cell) => {
                unreachable!(
                    "a row lists its cells in the order of the table: {builder:?} {cell:?}"
                )
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::U16(builder) => Arc::new(builder.finish()),
            Self::U32(builder) => Arc::new(builder.finish()),
            Self::U64(builder) => Arc::new(builder.finish()),
            Self::F32(builder) => Arc::new(builder.finish()),
            Self::F64(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Time(builder) => Arc::new(builder.finish()),
            Self::ListU32(builder) => Arc::new(builder.finish()),
            Self::ListU64(builder) => Arc::new(builder.finish()),
        }
    }
}

/// A file whose SHA-256 is computed as it is written.
#[derive(Debug)]
struct HashedFile {
    file: BufWriter<File>,
    sha256: Sha256,
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// One table on its way to disk. The file holds the columns that have had a value so far; when another
/// optional column gets its first value after row groups were written, they are written anew with it,
/// so that equal rows give equal bytes however late a column begins.
#[derive(Debug)]
pub(super) struct TableWriter {
    table: &'static Table,
    path: PathBuf,
    builders: Vec<ColumnBuilder>,
    /// Whether a column is part of the file: not optional, or it has had a value.
    present: Vec<bool>,
    pending_rows: usize,
    pending_items: usize,
    /// Rows and list items at which a row group ends.
    row_group: (usize, usize),
    /// Whether the file is written with the least effort instead of small.
    is_brief: bool,
    rows: u64,
    file: Option<(SchemaRef, ArrowWriter<HashedFile>)>,
}

impl TableWriter {
    pub(super) fn new(table: &'static Table, folder: &Path) -> Self {
        let row_group = (ROW_GROUP_ROWS, ROW_GROUP_LIST_ITEMS);
        Self::at(table, folder.join(table.file), row_group)
    }

    /// A writer of a segment, which has another name than the table's own file.
    pub(super) fn segment(table: &'static Table, path: PathBuf) -> Self {
        Self::at(table, path, (SEGMENT_ROW_GROUP_ROWS, SPARING_ROW_GROUP_LIST_ITEMS))
    }

    /// A writer of a segment that is soon merged with others, or joined at the end: processor time counts,
    /// size does not.
    pub(super) fn brief_segment(table: &'static Table, path: PathBuf) -> Self {
        Self { is_brief: true, ..Self::segment(table, path) }
    }

    /// Ends row groups at fewer list items, which takes less memory.
    pub(super) const fn spare_memory(&mut self) {
        self.row_group.1 = SPARING_ROW_GROUP_LIST_ITEMS;
    }

    fn at(table: &'static Table, path: PathBuf, row_group: (usize, usize)) -> Self {
        Self {
            table,
            path,
            builders: table.columns.iter().map(|c| ColumnBuilder::new(c.column_type)).collect(),
            present: table.columns.iter().map(|c| c.presence != Presence::Optional).collect(),
            pending_rows: 0,
            pending_items: 0,
            row_group,
            is_brief: false,
            rows: 0,
            file: None,
        }
    }

    /// Name of the file within the run's folder.
    pub(super) const fn file_name(&self) -> &'static str {
        self.table.file
    }

    /// Appends one row, its cells in the order of the table's columns.
    pub(super) fn append(&mut self, cells: &[Cell<'_>]) -> Result<(), TraceError> {
        for ((builder, present), cell) in self.builders.iter_mut().zip(&mut self.present).zip(cells)
        {
            let (has_value, items) = builder.append(*cell);
            *present |= has_value;
            self.pending_items += items;
        }
        self.pending_rows += 1;
        let (most_rows, most_items) = self.row_group;
        if self.pending_rows >= most_rows || self.pending_items >= most_items {
            self.write_row_group()?;
        }
        Ok(())
    }

    /// Writes what is pending and closes the file; `None` when the table never had a row.
    pub(super) fn finish(mut self) -> Result<Option<FileEntry>, TraceError> {
        if self.pending_rows > 0 {
            self.write_row_group()?;
        }
        let Some((_, writer)) = self.file.take() else { return Ok(None) };
        let sha256 = self.close(writer)?;
        Ok(Some(FileEntry { sha256, rows: self.rows }))
    }

    fn write_row_group(&mut self) -> Result<(), TraceError> {
        let columns: Vec<ArrayRef> = self
            .builders
            .iter_mut()
            .zip(&self.present)
            .map(|(builder, present)| (builder.finish(), *present))
            .filter_map(|(array, present)| present.then_some(array))
            .collect();
        let schema = self.schema();
        let (_, mut writer) = match self.file.take() {
            None => (schema.clone(), self.open(schema.clone())?),
            Some(open) if open.0 == schema => open,
            Some((_, narrow)) => (schema.clone(), self.widen(narrow, &schema)?),
        };
        let failed = |error: &dyn std::fmt::Display| self.unwritable(error);
        let batch =
            RecordBatch::try_new(schema.clone(), columns).map_err(|error| failed(&error))?;
        writer.write(&batch).and_then(|()| writer.flush()).map_err(|error| failed(&error))?;
        self.file = Some((schema, writer));
        self.rows += self.pending_rows as u64;
        self.pending_rows = 0;
        self.pending_items = 0;
        Ok(())
    }

    /// The columns that are part of the file now, with unit and meaning beside each.
    fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self
            .table
            .columns
            .iter()
            .zip(&self.present)
            .filter(|(_, present)| **present)
            .map(|(column, _)| field(column))
            .collect();
        Arc::new(Schema::new(fields))
    }

    fn open(&self, schema: SchemaRef) -> Result<ArrowWriter<HashedFile>, TraceError> {
        let file = File::create_new(&self.path).map_err(TraceError::io("create", &self.path))?;
        let file = HashedFile { file: BufWriter::new(file), sha256: Sha256::new() };
        let properties = properties(self.table, &schema, self.is_brief);
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(self.is_brief);
        ArrowWriter::try_new_with_options(file, schema, options).map_err(|e| self.unwritable(&e))
    }

    /// Closes the file and gives the SHA-256 of its bytes.
    fn close(&self, writer: ArrowWriter<HashedFile>) -> Result<String, TraceError> {
        let mut file = writer.into_inner().map_err(|error| self.unwritable(&error))?;
        file.flush().map_err(TraceError::io("write", &self.path))?;
        Ok(hex(&file.sha256.finalize()))
    }

    /// Writes the row groups so far anew, with the columns of `schema`.
    fn widen(
        &self,
        narrow: ArrowWriter<HashedFile>,
        schema: &SchemaRef,
    ) -> Result<ArrowWriter<HashedFile>, TraceError> {
        self.close(narrow)?;
        let narrow_path = self.path.with_extension("narrow");
        fs::rename(&self.path, &narrow_path).map_err(TraceError::io("rename", &self.path))?;
        let file = File::open(&narrow_path).map_err(TraceError::io("open", &narrow_path))?;
        let mut wide = self.open(schema.clone())?;
        copy_row_groups(&file, schema, &mut wide).map_err(|error| self.unwritable(&error))?;
        fs::remove_file(&narrow_path).map_err(TraceError::io("remove", &narrow_path))?;
        Ok(wide)
    }

    fn unwritable(&self, error: &dyn std::fmt::Display) -> TraceError {
        TraceError::Other(format!("cannot write \"{}\": {error}", self.path.display()))
    }
}

/// Copies every row group of `file`, with null for the columns that it lacks.
fn copy_row_groups(
    file: &File,
    schema: &SchemaRef,
    wide: &mut ArrowWriter<HashedFile>,
) -> parquet::errors::Result<()> {
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new())?;
    for index in 0..metadata.metadata().num_row_groups() {
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone()?, metadata.clone())
                .with_row_groups(vec![index])
                .with_batch_size(ROW_GROUP_ROWS)
                .build()?;
        for batch in reader {
            let batch = batch?;
            let columns = schema
                .fields()
                .iter()
                .map(|field| {
                    batch
                        .column_by_name(field.name())
                        .cloned()
                        .unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
                })
                .collect();
            wide.write(&RecordBatch::try_new(schema.clone(), columns)?)?;
        }
        wide.flush()?;
    }
    Ok(())
}

fn field(column: &Column) -> Field {
    let nullable = column.presence != Presence::Required;
    let metadata = [("unit", column.unit.ucum()), ("meaning", column.meaning)]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| (key.to_owned(), text.to_owned()));
    Field::new(column.name, column.column_type.arrow(), nullable)
        .with_metadata(metadata.collect::<std::collections::HashMap<_, _>>())
}

/// Encodings chosen for size and for the time that decoding takes: times and counts of nanoseconds as
/// differences, the rest by dictionary where that pays. A brief file has no dictionaries, statistics or
/// indexes, and a compression without state: Zstandard asks for the features of the processor for each
/// column, which takes a virtual machine longer than all the rest.
fn properties(table: &Table, schema: &Schema, is_brief: bool) -> WriterProperties {
    let builder = WriterProperties::builder();
    let builder = if is_brief {
        builder
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
    } else {
        builder
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
    };
    let mut properties = builder
        .set_created_by(format!("wattrace {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("wattrace.table".to_owned(), table.name.to_owned()),
            KeyValue::new("wattrace.table_version".to_owned(), table.version.to_string()),
        ]));
    for field in schema.fields() {
        let path = match field.data_type() {
            DataType::Timestamp(..) | DataType::UInt64 => vec![field.name().clone()],
            DataType::List(item) if *item.data_type() == DataType::UInt64 => {
                vec![field.name().clone(), "list".to_owned(), item.name().clone()]
            }
            _ => continue,
        };
        let path = ColumnPath::new(path);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
