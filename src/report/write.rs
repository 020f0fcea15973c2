//! Writes result tables as Parquet and CSV, whole or piece by piece.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    CompatLevel, KeyValueMetadata, ParquetCompression, ParquetWriter, Schema, SchemaExt,
    StatisticsOptions,
};
use polars_parquet::write::{KeyValue, schema_to_metadata_key};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::ReportError;
use crate::provenance::Provenance;
use crate::table::ResultTable;
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

/// Writes a file whole, under a name without its extension.
///
/// # Errors
/// When the file cannot be written.
pub fn write_file(
    dir: &Path,
    name: &str,
    extension: &str,
    bytes: &[u8],
) -> Result<WrittenFile, ReportError> {
    let (partial, mut file) = PartialFile::create(dir, name, extension)?;
    file.write_all(bytes).map_err(ReportError::io("write", &partial.path))?;
    partial.complete()
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
        let mut metadata = vec![portable_arrow_schema(&schema)];
        metadata.extend(
            provenance
                .key_values(table)
                .into_iter()
                .map(|(key, value)| KeyValue { key, value: Some(value) }),
        );
        let parquet_rows = ParquetWriter::new(BufWriter::new(parquet_file))
            .with_compression(ParquetCompression::Zstd(None))
            .with_statistics(StatisticsOptions::full())
            .set_parallel(false)
            .with_key_value_metadata(Some(KeyValueMetadata::Static(metadata)))
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

/// The Arrow schema that the file declares, with plain strings and lists: polars would declare string
/// views, which pandas cannot read inside a list.
fn portable_arrow_schema(schema: &Schema) -> KeyValue {
    schema_to_metadata_key(&schema.to_arrow(CompatLevel::oldest()))
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

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, TimestampNanosecondType};
    use arrow_array::{Array, RecordBatch};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use serde_json::json;
    use wattrace_schema::Unit;

    use super::*;
    use crate::provenance::SyntheticShare;

    const T_NS: i64 = 1_700_000_000_123_456_789;

    fn provenance() -> Provenance {
        Provenance {
            tool_version: "0.1.0".into(),
            metric_definitions_version: 1,
            options: json!({"steady": {"size": 100}}),
            archive_sha256: Some("ab".repeat(32)),
            synthetic: SyntheticShare::Some,
        }
    }

    fn table(rows: std::ops::Range<u64>) -> ResultTable {
        let rows: Vec<u64> = rows.collect();
        ResultTable::of("sample", "one number", &rows)
            .text("id", "Name.", |row| (*row != 1).then(|| format!("r{row}")))
            .number("power_w", Unit::Watt, "Power.", |row| (*row > 0).then_some(0.1 * *row as f64))
            .count("rows", Unit::Count, "Rows.", |row| Some(*row))
            .boolean("odd", "Odd.", |row| Some(row % 2 == 1))
            .time("t", "Time.", |row| (*row == 0).then_some(T_NS))
            .text_list("flags", "Flags.", |row| Some(vec!["a".to_owned(); *row as usize % 3]))
            .build()
    }

    /// Reads a file with arrow-rs, which shares no code with polars.
    fn read(path: &Path) -> (RecordBatch, Vec<(String, Option<String>)>, usize) {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
        let file = builder.metadata().file_metadata().clone();
        let row_groups = builder.metadata().num_row_groups();
        let pairs = file.key_value_metadata().cloned().unwrap_or_default();
        let pairs = pairs.into_iter().map(|pair| (pair.key, pair.value)).collect();
        let mut batches = builder.with_batch_size(1 << 20).build().unwrap();
        (batches.next().unwrap().unwrap(), pairs, row_groups)
    }

    #[test]
    fn another_reader_finds_values_types_and_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let written = write_table(dir.path(), &table(0..3), &provenance()).unwrap();
        assert_eq!((written.rows, written.columns.len()), (3, 6));
        let (batch, pairs, _) = read(&dir.path().join("sample.parquet"));

        let text: Vec<Option<&str>> = batch["id"].as_string::<i64>().iter().collect();
        assert_eq!(text, [Some("r0"), None, Some("r2")]);
        let powers: Vec<Option<f64>> =
            batch["power_w"].as_primitive::<Float64Type>().iter().collect();
        assert_eq!(powers, [None, Some(0.1), Some(0.2)]);
        assert_eq!(batch["t"].data_type().to_string(), "Timestamp(ns, \"UTC\")");
        let times = batch["t"].as_primitive::<TimestampNanosecondType>();
        assert_eq!((times.value(0), times.is_null(1)), (T_NS, true));
        let lists = batch["flags"].as_list::<i64>();
        // Not Utf8View, which pandas cannot read inside a list.
        assert_eq!(lists.value_type().to_string(), "LargeUtf8");
        assert_eq!((0..3).map(|row| lists.value(row).len()).collect::<Vec<_>>(), [0, 1, 2]);

        let value = |key: &str| {
            pairs.iter().find(|(found, _)| found == key).and_then(|(_, value)| value.as_deref())
        };
        assert_eq!(value("wattrace.tool_version"), Some("0.1.0"));
        assert_eq!(value("wattrace.metric_definitions_version"), Some("1"));
        assert_eq!(value("wattrace.options"), Some(r#"{"steady":{"size":100}}"#));
        assert_eq!(value("wattrace.synthetic"), Some("some"));
        let units: serde_json::Value =
            serde_json::from_str(value("wattrace.units").unwrap()).unwrap();
        assert_eq!(units["power_w"], "W");
    }

    #[test]
    fn equal_tables_give_equal_bytes_and_the_listed_digests() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let a = write_table(first.path(), &table(0..1000), &provenance()).unwrap();
        let b = write_table(second.path(), &table(0..1000), &provenance()).unwrap();
        assert_eq!(a, b);
        for file in &a.files {
            let bytes = fs::read(first.path().join(&file.file)).unwrap();
            assert_eq!(bytes, fs::read(second.path().join(&file.file)).unwrap());
            let digest: String =
                Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(digest, file.sha256);
        }
    }

    #[test]
    fn pieces_make_the_same_rows_as_the_whole_in_bounded_row_groups() {
        let (whole, pieces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rows = ROW_GROUP_ROWS as u64 + 10;
        write_table(whole.path(), &table(0..rows), &provenance()).unwrap();
        let mut writer = TableWriter::create(pieces.path(), &table(0..0), &provenance()).unwrap();
        writer.append(table(0..ROW_GROUP_ROWS as u64)).unwrap();
        writer.append(table(0..0)).unwrap();
        writer.append(table(ROW_GROUP_ROWS as u64..rows)).unwrap();
        assert_eq!(writer.finish().unwrap().rows, rows);

        let csv = |dir: &tempfile::TempDir| fs::read(dir.path().join("sample.csv")).unwrap();
        assert!(csv(&whole) == csv(&pieces));
        let (batch, _, row_groups) = read(&pieces.path().join("sample.parquet"));
        assert_eq!((batch.num_rows() as u64, row_groups), (rows, 2));
    }

    #[test]
    fn a_table_without_rows_keeps_its_columns() {
        let dir = tempfile::tempdir().unwrap();
        write_table(dir.path(), &table(0..0), &provenance()).unwrap();
        let file = File::open(dir.path().join("sample.parquet")).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        assert_eq!(builder.schema().fields().len(), 6);
        let csv = fs::read_to_string(dir.path().join("sample.csv")).unwrap();
        assert_eq!(csv, "id,power_w,rows,odd,t,flags\n");
    }

    #[test]
    fn an_unfinished_table_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TableWriter::create(dir.path(), &table(0..0), &provenance()).unwrap();
        writer.append(table(0..5)).unwrap();
        drop(writer);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn rows_with_other_columns_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TableWriter::create(dir.path(), &table(0..0), &provenance()).unwrap();
        let other = ResultTable::of("sample", "one number", &[1_u64])
            .text("name", "Name.", |_| Some("x"))
            .build();
        assert_eq!(
            writer.append(other).unwrap_err().to_string(),
            "rows for table \"sample\" have columns name; expected id, power_w, rows, odd, t, flags"
        );
    }
}
