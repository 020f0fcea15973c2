//! Writes result tables as Parquet and CSV, whole or piece by piece.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{KeyValueMetadata, ParquetCompression, ParquetWriter, StatisticsOptions};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::ReportError;
use crate::provenance::Provenance;
use crate::table::{ColumnValues, ResultTable};
use crate::{csv, frame};

/// Rows collected before a row group is written. It bounds the memory of a table written piece by
/// piece; a reader skips row groups by their statistics.
const ROW_GROUP_ROWS: usize = 131_072;

/// A file of the results, as `results.json` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Name within the results folder.
    pub file: String,
    /// SHA-256 of its bytes, 64 hexadecimal digits.
    pub sha256: String,
}

/// A table of the results, as `results.json` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenTable {
    /// Name of the table.
    pub name: String,
    /// What a row is.
    pub row: String,
    /// Number of rows.
    pub rows: u64,
    /// Names of the columns in order.
    pub columns: Vec<String>,
    /// Its files.
    pub files: Vec<WrittenFile>,
}

/// Writes a table as `<name>.parquet` and `<name>.csv` into `dir`.
///
/// # Errors
/// When a file cannot be written.
pub fn write_table(
    dir: &Path,
    table: &ResultTable,
    provenance: &Provenance,
) -> Result<WrittenTable, ReportError> {
    let mut writer = TableWriter::create(dir, table, provenance)?;
    writer.write_rows(table)?;
    writer.finish()
}

/// Writes a table piece by piece, so that its length does not matter to memory. The files appear
/// under their names only once [`TableWriter::finish`] has succeeded.
pub struct TableWriter {
    parquet: PartialFile,
    csv: PartialFile,
    parquet_rows: BatchedWriter<BufWriter<File>>,
    csv_rows: BufWriter<File>,
    pending: ResultTable,
    rows: u64,
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TableWriter")
            .field("table", &self.pending.name())
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl TableWriter {
    /// Starts the files of a table with the columns of `table`; its rows are not written yet.
    ///
    /// # Errors
    /// When a file cannot be created.
    pub fn create(
        dir: &Path,
        table: &ResultTable,
        provenance: &Provenance,
    ) -> Result<Self, ReportError> {
        let mut pending = table.clone();
        pending.clear();
        let (parquet, parquet_file) = PartialFile::create(dir, table.name(), "parquet")?;
        let (csv, csv_file) = PartialFile::create(dir, table.name(), "csv")?;

        let schema = frame::from_table(&pending)
            .map_err(ReportError::parquet("write", &parquet.path))?
            .schema()
            .clone();
        let mut metadata = provenance.key_values(table);
        metadata.push(portable_schema(table));
        let parquet_rows = ParquetWriter::new(BufWriter::new(parquet_file))
            .with_compression(ParquetCompression::Zstd(None))
            .with_statistics(StatisticsOptions::full())
            .set_parallel(false)
            .with_key_value_metadata(Some(KeyValueMetadata::from_static(metadata)))
            .batched(&schema)
            .map_err(ReportError::parquet("write", &parquet.path))?;

        let mut csv_rows = BufWriter::new(csv_file);
        csv::write_heading(table, &mut csv_rows).map_err(ReportError::io("write", &csv.path))?;
        Ok(Self { parquet, csv, parquet_rows, csv_rows, pending, rows: 0 })
    }

    /// Adds rows behind those written so far.
    ///
    /// # Errors
    /// When the columns differ from the table's, or a file cannot be written.
    pub fn append(&mut self, rows: ResultTable) -> Result<(), ReportError> {
        self.check_columns(&rows)?;
        csv::write_rows(&rows, &mut self.csv_rows)
            .map_err(ReportError::io("write", &self.csv.path))?;
        self.rows += rows.rows() as u64;
        // The columns have just been compared, so that appending cannot fail.
        let appended = self.pending.append(rows);
        debug_assert!(appended);
        if self.pending.rows() >= ROW_GROUP_ROWS {
            self.write_pending()?;
        }
        Ok(())
    }

    /// Writes a whole table at once, without copying it.
    fn write_rows(&mut self, table: &ResultTable) -> Result<(), ReportError> {
        self.check_columns(table)?;
        csv::write_rows(table, &mut self.csv_rows)
            .map_err(ReportError::io("write", &self.csv.path))?;
        self.rows += table.rows() as u64;
        write_row_group(&mut self.parquet_rows, table, &self.parquet.path)
    }

    fn check_columns(&self, rows: &ResultTable) -> Result<(), ReportError> {
        if self.pending.same_columns(rows) {
            return Ok(());
        }
        let names = |table: &ResultTable| {
            let names: Vec<_> = table.columns().iter().map(|column| column.name.as_str()).collect();
            names.join(", ")
        };
        Err(ReportError::Columns {
            table: self.pending.name().to_owned(),
            found: names(rows),
            expected: names(&self.pending),
        })
    }

    fn write_pending(&mut self) -> Result<(), ReportError> {
        write_row_group(&mut self.parquet_rows, &self.pending, &self.parquet.path)?;
        self.pending.clear();
        Ok(())
    }

    /// Completes the files and gives them their names.
    ///
    /// # Errors
    /// When a file cannot be written or renamed.
    pub fn finish(mut self) -> Result<WrittenTable, ReportError> {
        if self.pending.rows() > 0 {
            self.write_pending()?;
        }
        self.parquet_rows.finish().map_err(ReportError::parquet("write", &self.parquet.path))?;
        self.csv_rows.flush().map_err(ReportError::io("write", &self.csv.path))?;
        Ok(WrittenTable {
            name: self.pending.name().to_owned(),
            row: self.pending.row_meaning().to_owned(),
            rows: self.rows,
            columns: self.pending.columns().iter().map(|column| column.name.clone()).collect(),
            files: vec![self.parquet.complete()?, self.csv.complete()?],
        })
    }
}

fn write_row_group(
    writer: &mut BatchedWriter<BufWriter<File>>,
    rows: &ResultTable,
    path: &Path,
) -> Result<(), ReportError> {
    frame::from_table(rows)
        .and_then(|frame| writer.write_batch(&frame))
        .map_err(ReportError::parquet("write", path))
}

/// A file under a temporary name; removed when it is dropped before it is complete.
pub(crate) struct PartialFile {
    pub(crate) path: PathBuf,
    partial: PathBuf,
    file: String,
    complete: bool,
}

impl PartialFile {
    pub(crate) fn create(
        dir: &Path,
        name: &str,
        extension: &str,
    ) -> Result<(Self, File), ReportError> {
        let file = format!("{name}.{extension}");
        let partial = dir.join(format!(".{file}.partial"));
        let handle = File::create(&partial).map_err(ReportError::io("create", &partial))?;
        Ok((Self { path: dir.join(&file), partial, file, complete: false }, handle))
    }

    /// Gives the file its name. Whatever was written to it must have been flushed.
    pub(crate) fn complete(mut self) -> Result<WrittenFile, ReportError> {
        let sha256 = sha256_of(&self.partial)?;
        fs::rename(&self.partial, &self.path)
            .map_err(ReportError::io("rename a finished file to", &self.path))?;
        self.complete = true;
        Ok(WrittenFile { file: std::mem::take(&mut self.file), sha256 })
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.complete {
            // Nothing useful can be done if the leftover cannot be removed either.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// SHA-256 of a file, 64 hexadecimal digits.
pub(crate) fn sha256_of(path: &Path) -> Result<String, ReportError> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path).map_err(ReportError::io("read", path))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut buffer).map_err(ReportError::io("read", path))?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The Arrow schema that readers restore columns by, in types that all of them know. polars would name
/// its own string views here, and pandas refuses lists of those.
fn portable_schema(table: &ResultTable) -> (String, String) {
    let fields: Vec<Field> = table
        .columns()
        .iter()
        .map(|column| {
            let data_type = match column.values {
                ColumnValues::Text(_) => DataType::Utf8,
                ColumnValues::F64(_) => DataType::Float64,
                ColumnValues::U64(_) => DataType::UInt64,
                ColumnValues::Bool(_) => DataType::Boolean,
                ColumnValues::Time(_) => {
                    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
                }
                ColumnValues::TextList(_) => DataType::new_list(DataType::Utf8, true),
            };
            Field::new(&column.name, data_type, true)
        })
        .collect();
    (ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(&Schema::new(fields)))
}
