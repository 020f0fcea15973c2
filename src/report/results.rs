//! `results.json`: what a results folder holds and how it came about; and the way back to its tables.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use polars::prelude::{ParquetReader, SerReader};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wattrace_analysis::metrics::DEFINITIONS_VERSION;

use crate::error::ReportError;
use crate::frame;
use crate::provenance::{Provenance, SyntheticShare};
use crate::record::RunRecord;
use crate::table::{ColumnValues, ResultTable};
use crate::write::{PartialFile, WrittenFile, WrittenTable, sha256_of};

const FILE: &str = "results.json";

/// How many runs an archive has, and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunCounts {
    /// All runs.
    pub total: u64,
    /// Runs that could be analysed.
    pub analysed: u64,
    /// Runs that could not be read.
    pub failed: u64,
    /// Runs that are simulated.
    pub synthetic: u64,
    /// Runs of each kind; those without a readable run.json count as `unknown`.
    pub by_kind: BTreeMap<String, u64>,
}

impl RunCounts {
    /// Counts runs.
    #[must_use]
    pub fn of(records: &[RunRecord]) -> Self {
        let mut counts = Self::default();
        for record in records {
            counts.total += 1;
            counts.analysed += u64::from(record.analysis.is_ok());
            counts.failed += u64::from(record.analysis.is_err());
            counts.synthetic += u64::from(record.is_synthetic());
            let kind = record.manifest.as_ref().map_or("unknown", |manifest| manifest.kind.name());
            *counts.by_kind.entry(kind.to_owned()).or_default() += 1;
        }
        counts
    }
}

/// `results.json`, whole. It has no dates: equal archives and options give equal bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultsManifest {
    /// Name of the program.
    pub tool: String,
    /// Its version.
    pub tool_version: String,
    /// Version of the metric definitions.
    pub metric_definitions_version: u32,
    /// The command line, as far as the results depend on it.
    pub command_line: Vec<String>,
    /// Options that the values depend on.
    pub options: Value,
    /// Digest of the archive, where one was taken.
    pub archive_sha256: Option<String>,
    /// How much of the archive is simulated.
    pub synthetic: SyntheticShare,
    /// The runs and what became of them.
    pub runs: RunCounts,
    /// What a reader of the results must know.
    pub warnings: Vec<String>,
    /// The tables and their files.
    pub tables: Vec<WrittenTable>,
}

impl ResultsManifest {
    /// A manifest of results without tables.
    #[must_use]
    pub fn new(provenance: &Provenance, command_line: Vec<String>, runs: RunCounts) -> Self {
        Self {
            tool: "wattrace".to_owned(),
            tool_version: provenance.tool_version.clone(),
            metric_definitions_version: provenance.metric_definitions_version,
            command_line,
            options: provenance.options.clone(),
            archive_sha256: provenance.archive_sha256.clone(),
            synthetic: provenance.synthetic,
            runs,
            warnings: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Writes `results.json`, after all tables.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), ReportError> {
        let (partial, mut file) = PartialFile::create(dir, "results", "json")?;
        let mut text = serde_json::to_string_pretty(self).map_err(|error| {
            ReportError::Invalid { path: partial.path.clone(), message: error.to_string() }
        })?;
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(ReportError::io("write", &partial.path))?;
        partial.complete().map(|_| ())
    }
}

/// Removes the tables of earlier results from a folder, so that none is left beside new ones as if it
/// belonged to them. Only files that a `results.json` lists are removed, and it itself.
///
/// # Errors
/// When a listed file cannot be removed.
pub fn remove_earlier_results(dir: &Path) -> Result<(), ReportError> {
    let path = dir.join(FILE);
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(()) };
    let Ok(manifest) = serde_json::from_str::<ResultsManifest>(&text) else { return Ok(()) };
    let listed = manifest.tables.iter().flat_map(|table| &table.files).map(|file| &file.file);
    let here = |name: &&String| Path::new(name).components().count() == 1;
    for name in listed.filter(here).map(String::as_str).chain([FILE]) {
        let path = dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(ReportError::io("remove", &path)(error));
            }
            _ => (),
        }
    }
    Ok(())
}

/// A results folder that was opened for reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    dir: PathBuf,
    manifest: ResultsManifest,
}

impl Results {
    /// Opens a results folder; its numbers must rest on this program's metric definitions.
    ///
    /// # Errors
    /// When there is no `results.json`, it is not valid, or its definitions are of another version.
    pub fn open(dir: &Path) -> Result<Self, ReportError> {
        let path = dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ReportError::NoResults { path: dir.to_owned() });
            }
            Err(error) => return Err(ReportError::io("read", &path)(error)),
        };
        let invalid = |error: serde_json::Error| ReportError::Invalid {
            path: path.clone(),
            message: error.to_string(),
        };
        // The version is looked at first: another version may have another structure.
        let any: Value = serde_json::from_str(&text).map_err(invalid)?;
        let found = any.get("metric_definitions_version").and_then(Value::as_u64);
        if let Some(found) = found.and_then(|found| u32::try_from(found).ok())
            && found != DEFINITIONS_VERSION
        {
            return Err(ReportError::DefinitionsVersion {
                path,
                found,
                expected: DEFINITIONS_VERSION,
            });
        }
        let manifest = serde_json::from_value(any).map_err(invalid)?;
        Ok(Self { dir: dir.to_owned(), manifest })
    }

    /// `results.json`.
    #[must_use]
    pub const fn manifest(&self) -> &ResultsManifest {
        &self.manifest
    }

    /// Whether the results hold a table of that name.
    #[must_use]
    pub fn has_table(&self, name: &str) -> bool {
        self.manifest.tables.iter().any(|table| table.name == name)
    }

    /// Reads a table back from its Parquet file, whose digest must be the listed one.
    ///
    /// # Errors
    /// When there is no such table, or its file is missing, changed or not readable.
    pub fn table(&self, name: &str) -> Result<StoredTable, ReportError> {
        let parquet = format!("{name}.parquet");
        let listed = self.manifest.tables.iter().find(|table| table.name == name);
        let file = listed.and_then(|table| table.files.iter().find(|file| file.file == parquet));
        let Some(file) = file else {
            let names: Vec<_> =
                self.manifest.tables.iter().map(|table| table.name.as_str()).collect();
            return Err(ReportError::NoTable {
                path: self.dir.clone(),
                table: name.to_owned(),
                available: names.join(", "),
            });
        };
        let path = self.verify(file)?;
        StoredTable::read(name, &path)
    }

    /// The names of the files with this extension, whose digests must be the listed ones.
    ///
    /// # Errors
    /// When a file is missing or changed.
    pub fn verified_files(&self, extension: &str) -> Result<Vec<&str>, ReportError> {
        let files = self.manifest.tables.iter().flat_map(|table| &table.files);
        files
            .filter(|file| Path::new(&file.file).extension().is_some_and(|end| end == extension))
            .map(|file| self.verify(file).map(|_| file.file.as_str()))
            .collect()
    }

    /// The path of a listed file, whose digest must be the listed one.
    fn verify(&self, file: &WrittenFile) -> Result<PathBuf, ReportError> {
        let path = self.dir.join(&file.file);
        let found = sha256_of(&path)?;
        if found == file.sha256 {
            Ok(path)
        } else {
            Err(ReportError::Changed { path, found, expected: file.sha256.clone() })
        }
    }
}

/// A column of a table that was read back.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredColumn {
    /// Name of the column.
    pub name: String,
    /// Its values, one a row.
    pub values: ColumnValues,
}

/// A table that was read back.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTable {
    /// Name of the table.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// The columns in order.
    pub columns: Vec<StoredColumn>,
}

impl From<&ResultTable> for StoredTable {
    /// The table as it reads back.
    fn from(table: &ResultTable) -> Self {
        let column = |column: &crate::ResultColumn| StoredColumn {
            name: column.name.clone(),
            values: column.values.clone(),
        };
        Self {
            name: table.name().to_owned(),
            rows: table.rows(),
            columns: table.columns().iter().map(column).collect(),
        }
    }
}

impl StoredTable {
    /// The rows as JSON objects; times are RFC 3339 text.
    #[must_use]
    pub fn to_json(&self) -> Vec<Value> {
        (0..self.rows)
            .map(|row| {
                let cell =
                    |column: &StoredColumn| (column.name.clone(), column.values.cell_json(row));
                Value::Object(self.columns.iter().map(cell).collect())
            })
            .collect()
    }

    /// The rows that are kept.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(usize) -> bool) -> Self {
        let keep: Vec<bool> = (0..self.rows).map(keep).collect();
        let column = |column: &StoredColumn| StoredColumn {
            name: column.name.clone(),
            values: column.values.filtered(&keep),
        };
        Self {
            name: self.name.clone(),
            rows: keep.iter().filter(|keep| **keep).count(),
            columns: self.columns.iter().map(column).collect(),
        }
    }

    /// Reads a Parquet file.
    fn read(name: &str, path: &Path) -> Result<Self, ReportError> {
        let file = File::open(path).map_err(ReportError::io("read", path))?;
        let frame =
            ParquetReader::new(file).finish().map_err(ReportError::parquet("read", path))?;
        let columns = frame
            .columns()
            .iter()
            .map(|column| {
                let values = frame::values(column).ok_or_else(|| ReportError::Parquet {
                    action: "read",
                    path: path.to_owned(),
                    message: format!("column \"{}\" has type {}", column.name(), column.dtype()),
                })?;
                Ok(StoredColumn { name: column.name().to_string(), values })
            })
            .collect::<Result<_, ReportError>>()?;
        Ok(Self { name: name.to_owned(), rows: frame.height(), columns })
    }

    /// The values of a column.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn column(&self, name: &str) -> Result<&ColumnValues, ReportError> {
        self.columns
            .iter()
            .find(|column| column.name == name)
            .map(|column| &column.values)
            .ok_or_else(|| {
                let expected = "a column of the table; run `wattrace analyze` again if an earlier version \
                                made these results";
                self.column_error(name, "missing", expected)
            })
    }

    /// The values of a column of text.
    ///
    /// # Errors
    /// When there is no such column, or it has another type.
    pub fn text(&self, name: &str) -> Result<&[Option<String>], ReportError> {
        match self.column(name)? {
            ColumnValues::Text(values) => Ok(values),
            other => Err(self.column_error(name, other.type_name(), "string")),
        }
    }

    /// The values of a column of numbers.
    ///
    /// # Errors
    /// When there is no such column, or it has another type.
    pub fn numbers(&self, name: &str) -> Result<&[Option<f64>], ReportError> {
        match self.column(name)? {
            ColumnValues::F64(values) => Ok(values),
            other => Err(self.column_error(name, other.type_name(), "double")),
        }
    }

    /// The values of a column of yes and no.
    ///
    /// # Errors
    /// When there is no such column, or it has another type.
    pub fn booleans(&self, name: &str) -> Result<&[Option<bool>], ReportError> {
        match self.column(name)? {
            ColumnValues::Bool(values) => Ok(values),
            other => Err(self.column_error(name, other.type_name(), "bool")),
        }
    }

    /// The values of a column of counts.
    ///
    /// # Errors
    /// When there is no such column, or it has another type.
    pub fn counts(&self, name: &str) -> Result<&[Option<u64>], ReportError> {
        match self.column(name)? {
            ColumnValues::U64(values) => Ok(values),
            other => Err(self.column_error(name, other.type_name(), "uint64")),
        }
    }

    /// The values of a column of times, ns since the Unix epoch.
    ///
    /// # Errors
    /// When there is no such column, or it has another type.
    pub fn times(&self, name: &str) -> Result<&[Option<i64>], ReportError> {
        match self.column(name)? {
            ColumnValues::Time(values) => Ok(values),
            other => Err(self.column_error(name, other.type_name(), "timestamp[ns, UTC]")),
        }
    }

    /// The values of a column of lists of text.
    ///
    /// # Errors
    /// When there is no such column, or it has another type.
    pub fn text_lists(&self, name: &str) -> Result<&[Option<Vec<String>>], ReportError> {
        match self.column(name)? {
            ColumnValues::TextList(values) => Ok(values),
            other => Err(self.column_error(name, other.type_name(), "list<string>")),
        }
    }

    fn column_error(
        &self,
        column: &str,
        found: &'static str,
        expected: &'static str,
    ) -> ReportError {
        let (table, column) = (self.name.clone(), column.to_owned());
        ReportError::Column { table, column, found, expected }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{fixtures, tables, write_table};

    fn write_results(dir: &Path) -> Vec<RunRecord> {
        let records = vec![
            fixtures::serving("serving-b"),
            fixtures::node_only("node-a"),
            fixtures::unreadable("runs/broken", "\"run.json\" is missing"),
        ];
        let provenance = Provenance {
            tool_version: "0.1.0".into(),
            metric_definitions_version: DEFINITIONS_VERSION,
            options: json!({}),
            archive_sha256: None,
            synthetic: SyntheticShare::of(records.iter().map(RunRecord::is_synthetic)),
        };
        let command = vec!["wattrace".to_owned(), "analyze".to_owned()];
        let mut manifest = ResultsManifest::new(&provenance, command, RunCounts::of(&records));
        for table in [tables::runs(&records), tables::metrics(&records)] {
            manifest.tables.push(write_table(dir, &table, &provenance).unwrap());
        }
        manifest.write(dir).unwrap();
        records
    }

    #[test]
    fn results_read_back_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let records = write_results(dir.path());
        let results = Results::open(dir.path()).unwrap();
        let counts = &results.manifest().runs;
        assert_eq!((counts.total, counts.analysed, counts.failed, counts.synthetic), (3, 2, 1, 1));
        assert_eq!(counts.by_kind, [("serving".to_owned(), 2), ("unknown".to_owned(), 1)].into());
        assert_eq!(results.manifest().synthetic, SyntheticShare::Some);

        let stored = results.table("runs").unwrap();
        let written = tables::runs(&records);
        assert_eq!(stored.rows, written.rows());
        for (stored, written) in stored.columns.iter().zip(written.columns()) {
            assert_eq!((&stored.name, &stored.values), (&written.name, &written.values));
        }
        let names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("partial"))
            .collect();
        assert_eq!(names, Vec::<String>::new());
    }

    #[test]
    fn columns_are_asked_for_by_name_and_type() {
        let dir = tempfile::tempdir().unwrap();
        write_results(dir.path());
        let runs = Results::open(dir.path()).unwrap().table("runs").unwrap();
        assert_eq!(runs.numbers("formal_j_per_token").unwrap()[2], Some(20.0));
        assert_eq!(runs.text("run_id").unwrap()[0].as_deref(), Some("node-a"));
        assert_eq!(
            runs.numbers("run_id").unwrap_err().to_string(),
            "table \"runs\" column \"run_id\" is string; expected double"
        );
        assert!(runs.text("colour").unwrap_err().to_string().contains("\"colour\" is missing"));
    }

    #[test]
    fn another_version_of_the_definitions_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write_results(dir.path());
        let path = dir.path().join("results.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let own = format!("\"metric_definitions_version\": {DEFINITIONS_VERSION}");
        let newer = format!("\"metric_definitions_version\": {}", DEFINITIONS_VERSION + 1);
        std::fs::write(&path, text.replace(&own, &newer)).unwrap();
        let message = Results::open(dir.path()).unwrap_err().to_string();
        assert!(
            message.contains("run `wattrace analyze` again or use a newer wattrace"),
            "{message}"
        );
    }

    #[test]
    fn a_folder_without_results_and_a_broken_list_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let message = Results::open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("holds no results.json"), "{message}");
        std::fs::write(dir.path().join("results.json"), "{").unwrap();
        let message = Results::open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("is not a valid results.json"), "{message}");
    }

    #[test]
    fn a_changed_or_missing_table_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write_results(dir.path());
        let results = Results::open(dir.path()).unwrap();
        let message = results.table("fits").unwrap_err().to_string();
        assert!(message.contains("has no table \"fits\"; it has runs, metrics"), "{message}");
        std::fs::write(dir.path().join("runs.parquet"), "else").unwrap();
        let message = results.table("runs").unwrap_err().to_string();
        assert!(message.contains("but results.json says"), "{message}");
    }
}
