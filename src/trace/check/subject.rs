//! Everything of a run that the rules look at, read as far as it can be.

use std::fs;
use std::path::Path;

use wattrace_schema::tables::{self, TABLES};
use wattrace_schema::{FileEntry, Requests, RunManifest, Steps, Table};

use crate::digest::sha256_hex;
use crate::manifest::RUN_JSON;
use crate::reader::file::{FileBytes, TableFile};
use crate::reader::{power, read_manifest, requests, steps};
use crate::{RunLocation, TraceError};

/// One run, read as far as it can be; what could not be read is in `errors`.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) location: &'a RunLocation,
    pub(super) manifest: Option<RunManifest>,
    pub(super) power: TableState<power::PowerRows>,
    pub(super) requests: TableState<Requests>,
    pub(super) steps: TableState<Steps>,
    /// Rows of each table that could be opened.
    pub(super) rows: Vec<(&'static Table, u64)>,
    pub(super) errors: Vec<TraceError>,
    /// Parquet files that run.json does not list.
    pub(super) not_listed: Vec<String>,
}

/// One table of a run, in the order of its file.
#[derive(Debug)]
pub(super) enum TableState<T> {
    Absent(&'static str),
    Unreadable(&'static str),
    Read(T),
}

impl<T> TableState<T> {
    /// The rows, or why there are none.
    pub(super) fn rows(&self) -> Result<&T, String> {
        match self {
            Self::Read(rows) => Ok(rows),
            Self::Absent(file) => Err(format!("the run has no {file}")),
            Self::Unreadable(file) => Err(format!("{file} could not be read")),
        }
    }
}

impl<'a> Subject<'a> {
    pub(super) fn load(location: &'a RunLocation) -> Self {
        let mut subject = Subject {
            location,
            manifest: None,
            power: TableState::Absent(tables::POWER.file),
            requests: TableState::Absent(tables::REQUESTS.file),
            steps: TableState::Absent(tables::STEPS.file),
            rows: Vec::new(),
            errors: Vec::new(),
            not_listed: Vec::new(),
        };
        let manifest = match read_manifest(location) {
            Ok(manifest) => manifest,
            Err(error) => {
                subject.errors.push(error);
                return subject;
            }
        };
        subject.load_tables(&manifest);
        subject.verify_other_files(&manifest);
        subject.not_listed = parquet_files(&location.folder)
            .into_iter()
            .filter(|name| !manifest.files.contains_key(name))
            .collect();
        subject.manifest = Some(manifest);
        subject
    }

    fn load_tables(&mut self, manifest: &RunManifest) {
        let location = self.location;
        self.power = self.load_table(&tables::POWER, manifest, &power::COLUMNS, |file| {
            power::read_power(file, location, manifest, true)
        });
        self.requests = self.load_table(
            &tables::REQUESTS,
            manifest,
            &requests::COLUMNS,
            requests::read_requests,
        );
        self.steps = self.load_table(&tables::STEPS, manifest, &steps::COLUMNS, steps::read_steps);
        for table in [&tables::ENGINE, &tables::ACCURACY] {
            // Their values are only looked at as declared, which is done for the columns not read.
            self.load_table(table, manifest, &[], |_| Ok(()));
        }
    }

    /// Reads a table by `read`, which looks at `columns`, and every other declared column besides.
    fn load_table<T>(
        &mut self,
        table: &'static Table,
        manifest: &RunManifest,
        columns: &[&str],
        read: impl FnOnce(&TableFile) -> Result<T, TraceError>,
    ) -> TableState<T> {
        let file = match self.open(table, manifest.files.get(table.file)) {
            Ok(Some(file)) => file,
            Ok(None) => return TableState::Absent(table.file),
            Err(error) => {
                self.errors.push(error);
                return TableState::Unreadable(table.file);
            }
        };
        self.rows.push((table, file.rows()));
        let columns_before = self.errors.len();
        self.errors.extend(table.columns.iter().filter_map(|c| file.verify_column(c).err()));
        let sound = self.errors.len() == columns_before;
        let rows = read(&file);
        if sound {
            self.errors.extend(verify_columns(&file, columns).err());
        }
        match rows {
            Ok(rows) => TableState::Read(rows),
            Err(error) => {
                let is_reported = matches!(
                    error,
                    TraceError::MissingColumn { .. } | TraceError::ColumnType { .. }
                );
                if !is_reported {
                    self.errors.push(error);
                }
                TableState::Unreadable(table.file)
            }
        }
    }

    /// Opens a table; a file that differs from run.json is an error, but read all the same.
    fn open(
        &mut self,
        table: &'static Table,
        entry: Option<&FileEntry>,
    ) -> Result<Option<TableFile>, TraceError> {
        let Some(file) = FileBytes::read(self.location, table, entry)? else { return Ok(None) };
        self.errors.extend(entry.and_then(|entry| file.verify_digest(entry).err()));
        let file = file.parse()?;
        self.errors.extend(entry.and_then(|entry| file.verify_rows(entry).err()));
        Ok(Some(file))
    }

    /// Files that run.json names beside the declared tables: they must be there and have their digest.
    fn verify_other_files(&mut self, manifest: &RunManifest) {
        for (name, entry) in &manifest.files {
            if TABLES.iter().any(|table| table.file == name) {
                continue;
            }
            if !self.location.folder.join(name).exists() {
                let path = self.location.folder.join(name);
                self.errors.push(TraceError::MissingFile { path, rows: entry.rows });
                continue;
            }
            let bytes = self
                .location
                .file(name)
                .and_then(|path| fs::read(&path).map_err(TraceError::io("read", &path)));
            match bytes.map(|bytes| sha256_hex(&bytes)) {
                Ok(found) if found.eq_ignore_ascii_case(&entry.sha256) => (),
                Ok(found) => self.errors.push(TraceError::Mismatch {
                    path: self.location.folder.join(name),
                    what: "SHA-256",
                    found,
                    expected: entry.sha256.clone(),
                }),
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// The name of a file of this run, as it stands in findings.
    pub(super) fn file_name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.location.folder).unwrap_or(path);
        let name = name.to_string_lossy().into_owned();
        if name.is_empty() { RUN_JSON.to_owned() } else { name }
    }
}

/// Decodes the declared columns that are not among `read`, for their errors alone.
fn verify_columns(file: &TableFile, read: &[&str]) -> Result<(), TraceError> {
    let declared = file.table().columns;
    let others: Vec<_> = declared.iter().filter(|column| !read.contains(&column.name)).collect();
    let names: Vec<_> = others.iter().map(|column| column.name).collect();
    file.read(&names, |mut batch| others.iter().try_for_each(|column| batch.verify(column)))
}

/// Names of the Parquet files in a folder, sorted. A folder that cannot be listed has none: that its
/// files cannot be read is found elsewhere.
fn parquet_files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".parquet"))
        .collect();
    names.sort();
    names
}
