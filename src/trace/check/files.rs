//! Rules about the files of a run: whether they are there, whole, and as declared.

use wattrace_schema::{RunKind, tables};

use super::{Place, Report, Subject};
use crate::TraceError;
use crate::manifest::RUN_JSON;
use crate::reader::not_hashed as not_hashed_finding;

/// The rule that each error of reading breaks.
fn rule(error: &TraceError) -> &'static str {
    match error {
        TraceError::Manifest { .. } => "manifest-valid",
        TraceError::Io { path, .. } if path.ends_with(RUN_JSON) => "manifest-valid",
        TraceError::Outside { .. } => "file-inside",
        TraceError::MissingFile { .. } => "file-missing",
        TraceError::Mismatch { what: "SHA-256", .. } => "file-hash",
        TraceError::Mismatch { .. } => "file-rows",
        TraceError::MissingColumn { .. } => "column-missing",
        TraceError::ColumnType { .. } => "column-type",
        TraceError::Value { .. } => "value-valid",
        _ => "file-readable",
    }
}

/// Reports the errors of reading that break the rule.
fn errors(subject: &Subject<'_>, report: &mut Report) {
    for error in &subject.errors {
        if rule(error) == report.check.id {
            let (place, message) = describe(subject, error);
            report.add(place, message);
        }
    }
}

/// Where an error is, and its message without the path that says the same.
fn describe(subject: &Subject<'_>, error: &TraceError) -> (Place, String) {
    let path = match error {
        TraceError::Io { path, .. }
        | TraceError::Outside { path, .. }
        | TraceError::Manifest { path, .. }
        | TraceError::MissingFile { path, .. }
        | TraceError::Parquet { path, .. }
        | TraceError::MissingColumn { path, .. }
        | TraceError::ColumnType { path, .. }
        | TraceError::Value { path, .. }
        | TraceError::Mismatch { path, .. } => path,
        other => return (Place::file(RUN_JSON), other.to_string()),
    };
    let place = Place::file(subject.file_name(path));
    match error {
        TraceError::Io { action, source, .. } => (place, format!("cannot {action}: {source}")),
        TraceError::Manifest { message, .. } | TraceError::Parquet { message, .. } => {
            (place, message.clone())
        }
        TraceError::MissingColumn { column, expected, .. } => {
            (place.column(column), format!("the column is missing; expected {expected}"))
        }
        TraceError::ColumnType { column, found, expected, .. } => {
            (place.column(column), format!("{found}; expected {expected}"))
        }
        TraceError::Value { column, row, found, expected, .. } => {
            (place.column(column).row(*row), format!("{found}; expected {expected}"))
        }
        TraceError::Outside { target, .. } => {
            (place, format!("it leads out of the archive to \"{}\"", target.display()))
        }
        TraceError::MissingFile { rows, .. } => {
            (place, format!("it is missing, but run.json lists it with {rows} rows"))
        }
        TraceError::Mismatch { what, found, expected, .. } => {
            (place, format!("its {what} is {found}, but run.json says {expected}"))
        }
        other => (place, other.to_string()),
    }
}

pub(super) fn manifest_valid(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

pub(super) fn inside(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

/// Also the spec, which run.json names by a key of its own.
pub(super) fn missing(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
    let spec = subject.manifest.as_ref().and_then(|manifest| manifest.spec.as_ref());
    if let Some(spec) = spec.filter(|spec| !subject.location.folder.join(spec).is_file()) {
        let message = "it is missing, but run.json names it as the spec".to_owned();
        report.add(Place::file(spec.as_str()), message);
    }
}

pub(super) fn hash(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

pub(super) fn rows(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

pub(super) fn not_hashed(subject: &Subject<'_>, report: &mut Report) {
    for name in &subject.not_listed {
        report.findings.push(not_hashed_finding(name));
    }
}

pub(super) fn readable(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

pub(super) fn empty(subject: &Subject<'_>, report: &mut Report) {
    for (table, rows) in &subject.rows {
        if *rows == 0 {
            let message = format!("it has no rows; expected a row for {}, or no file", table.row);
            report.add(Place::file(table.file), message);
        }
    }
}

pub(super) fn column_missing(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

pub(super) fn column_type(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

pub(super) fn value_valid(subject: &Subject<'_>, report: &mut Report) {
    errors(subject, report);
}

/// Runs imported from other tools' logs may lack some and still give all that they can.
pub(super) fn tables_of_kind(subject: &Subject<'_>, report: &mut Report) {
    let Some(manifest) = &subject.manifest else { return };
    let expected = match manifest.kind {
        RunKind::Serving => [tables::POWER, tables::REQUESTS].as_slice(),
        RunKind::Decode => &[tables::POWER, tables::STEPS],
        RunKind::Summary => &[],
    };
    for table in expected {
        if !subject.location.folder.join(table.file).exists() {
            let message = format!("it is missing; a {} run usually has it", manifest.kind.name());
            report.add(Place::file(table.file), message);
        }
    }
}
