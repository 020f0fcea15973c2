//! The rules that an archive must keep: one file a family, one line in [`CHECKS`] each.
//!
//! A check looks at the rows as they stand in the files, before anything is sorted or left out, and
//! reports all that it sees rather than stopping at the first.

mod archive;
mod counters;
mod device;
mod files;
mod manifest;
mod power;
mod render;
mod requests;
mod scopes;
mod stamps;
mod steps;
mod subject;

use serde::Serialize;
use wattrace_schema::{Requests, RunManifest, Split, Steps};

use crate::finding::{FILE_NOT_HASHED, Finding, NEGATIVE_POWER, NOT_FINITE_POWER, Severity};
use crate::reader::power::PowerRows;
use crate::{ArchiveListing, RunLocation};
use subject::{Subject, TableState};

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Stable id, in kebab case.
    pub id: &'static str,
    /// How bad it is when the rule is broken. A broken rule of [`Severity::Note`] counts as kept.
    pub severity: Severity,
    /// The rule as a sentence, which is the line of the checklist.
    pub rule: &'static str,
    test: Test,
}

/// What a rule looks at, and how. A rule about something that a run does not have, or that could not be
/// read, is not checked.
#[derive(Debug, Clone, Copy)]
enum Test {
    /// The files of a run, whatever their state.
    Files(fn(&Subject<'_>, &mut Report)),
    Manifest(fn(&RunManifest, &mut Report)),
    Power(fn(&RunManifest, &PowerRows, &mut Report)),
    Requests(fn(&RunManifest, &Requests, &mut Report)),
    Steps(fn(&RunManifest, &Steps, &mut Report)),
    /// The archive as a whole, once its runs have been looked at.
    Archive(fn(&ArchiveListing, &[RunCheck], &mut Report)),
}

/// Every rule, in the order of the checklist.
pub const CHECKS: &[Check] = &[
    check(
        "archive-links",
        Severity::Error,
        "no symbolic link leads to a folder outside the archive",
        Test::Archive(archive::links),
    ),
    check(
        "archive-folders",
        Severity::Error,
        "every folder can be listed",
        Test::Archive(archive::folders),
    ),
    check(
        "run-finished",
        Severity::Warning,
        "no run was left unfinished",
        Test::Archive(archive::finished),
    ),
    check(
        "run-id-unique",
        Severity::Error,
        "every run_id is unique in the archive",
        Test::Archive(archive::run_id_unique),
    ),
    check(
        "cell-one-side",
        Severity::Error,
        "no cell of a setting is both in the fit and held out",
        Test::Archive(archive::cell_one_side),
    ),
    check(
        "manifest-valid",
        Severity::Error,
        "run.json can be read and makes sense",
        Test::Files(files::manifest_valid),
    ),
    check(
        "file-inside",
        Severity::Error,
        "no file of a run lies outside the archive",
        Test::Files(files::inside),
    ),
    check(
        "file-missing",
        Severity::Error,
        "every file that run.json names is there",
        Test::Files(files::missing),
    ),
    check(
        "file-hash",
        Severity::Error,
        "every file has the SHA-256 that run.json gives",
        Test::Files(files::hash),
    ),
    check(
        "file-rows",
        Severity::Error,
        "every file has as many rows as run.json says",
        Test::Files(files::rows),
    ),
    check(
        FILE_NOT_HASHED,
        Severity::Warning,
        "every Parquet file is listed in run.json",
        Test::Files(files::not_hashed),
    ),
    check(
        "file-readable",
        Severity::Error,
        "every Parquet file can be decoded",
        Test::Files(files::readable),
    ),
    check("file-empty", Severity::Warning, "no Parquet file is empty", Test::Files(files::empty)),
    check(
        "column-missing",
        Severity::Error,
        "every required column is there",
        Test::Files(files::column_missing),
    ),
    check(
        "column-type",
        Severity::Error,
        "every column has its declared type, or one that converts without loss",
        Test::Files(files::column_type),
    ),
    check(
        "value-valid",
        Severity::Error,
        "every value can be read: no null where a value is required, no unknown name, no number out of range",
        Test::Files(files::value_valid),
    ),
    check(
        "tables-of-kind",
        Severity::Note,
        "the run has the tables that its kind calls for",
        Test::Files(files::tables_of_kind),
    ),
    check(
        "stamps-present",
        Severity::Warning,
        "the stamps that bound the measurement are there",
        Test::Manifest(stamps::present),
    ),
    check(
        "stamps-lifecycle",
        Severity::Note,
        "a serving run has the stamps of its whole lifecycle",
        Test::Manifest(stamps::lifecycle),
    ),
    check(
        "stamps-order",
        Severity::Error,
        "stamps do not run backwards",
        Test::Manifest(stamps::order),
    ),
    check(
        "stamps-window",
        Severity::Warning,
        "every measured window has a length",
        Test::Manifest(stamps::window_length),
    ),
    check(
        "model-geometry",
        Severity::Warning,
        "a decode run has the model geometry that the energy model needs",
        Test::Manifest(manifest::geometry),
    ),
    check(
        "model-dense",
        Severity::Note,
        "the model of a decode run is dense",
        Test::Manifest(manifest::dense),
    ),
    check(
        "claims-present",
        Severity::Warning,
        "a summary run has claims",
        Test::Manifest(manifest::claims_present),
    ),
    check(
        "claims-unit",
        Severity::Warning,
        "every claim has the unit that its metric is named for",
        Test::Manifest(manifest::claims_unit),
    ),
    check(
        "average-window",
        Severity::Warning,
        "a source that reads averages says over how long",
        Test::Manifest(manifest::average_window),
    ),
    check(
        NEGATIVE_POWER,
        Severity::Error,
        "no power or counter value is negative",
        Test::Power(power::negative),
    ),
    check(
        NOT_FINITE_POWER,
        Severity::Error,
        "no power or counter value is NaN or infinite",
        Test::Power(power::not_finite),
    ),
    check(
        "power-absent",
        Severity::Note,
        "every row has a power or a counter value",
        Test::Power(power::absent),
    ),
    check(
        "power-ceiling",
        Severity::Warning,
        "no power, and no step of a counter, is above what its scope can draw",
        Test::Power(power::ceiling),
    ),
    check(
        "power-order",
        Severity::Note,
        "power rows are sorted by source, device and time",
        Test::Power(power::order),
    ),
    check(
        "power-duplicate-time",
        Severity::Warning,
        "no two rows of a device share a time",
        Test::Power(power::duplicate_time),
    ),
    check(
        "power-coverage",
        Severity::Warning,
        "samples of every device cover every window",
        Test::Power(power::coverage),
    ),
    check(
        "power-gap",
        Severity::Warning,
        "no two neighbouring samples in a window are further apart than three sample intervals",
        Test::Power(power::gap),
    ),
    check(
        "counter-falls",
        Severity::Warning,
        "no energy counter falls, unless it wraps as its source declares",
        Test::Power(counters::falls),
    ),
    check(
        "counter-stalls",
        Severity::Warning,
        "no energy counter stands still for more than three sample intervals while power is above zero",
        Test::Power(counters::stalls),
    ),
    check(
        "counter-asked",
        Severity::Warning,
        "a stage that asks for the counter has one on every accelerator",
        Test::Power(counters::asked),
    ),
    check(
        "source-used",
        Severity::Warning,
        "every power source has rows",
        Test::Power(scopes::source_used),
    ),
    check(
        "scope-overlap",
        Severity::Warning,
        "no device is measured by two sources of one scope",
        Test::Power(scopes::overlap),
    ),
    check(
        "scope-board-and-module",
        Severity::Note,
        "accelerators are measured either as boards or as modules",
        Test::Power(scopes::board_and_module),
    ),
    check(
        "device-count",
        Severity::Warning,
        "as many accelerators are measured as hardware.count says",
        Test::Power(scopes::device_count),
    ),
    check(
        "request-order",
        Severity::Note,
        "requests are sorted by sending time and id",
        Test::Requests(requests::order),
    ),
    check(
        "request-id-unique",
        Severity::Error,
        "every request_id is unique in its run",
        Test::Requests(requests::id_unique),
    ),
    check(
        "request-times",
        Severity::Error,
        "no request ends before it starts or has its first token outside that time",
        Test::Requests(requests::times),
    ),
    check(
        "request-durations",
        Severity::Error,
        "no request has a time to first token longer than its whole time",
        Test::Requests(requests::durations),
    ),
    check(
        "request-outside-formal",
        Severity::Warning,
        "formal requests lie inside the formal window",
        Test::Requests(requests::outside_formal),
    ),
    check(
        "request-tokens-timed",
        Severity::Warning,
        "every successful request with output tokens has its times",
        Test::Requests(requests::tokens_timed),
    ),
    check(
        "request-tokens-counted",
        Severity::Warning,
        "every successful request has a count of output tokens",
        Test::Requests(requests::tokens_counted),
    ),
    check(
        "request-zero-tokens",
        Severity::Warning,
        "no successful request has zero output tokens",
        Test::Requests(requests::zero_tokens),
    ),
    check(
        "request-reasoning",
        Severity::Error,
        "no request has more reasoning tokens than output tokens",
        Test::Requests(requests::reasoning),
    ),
    check(
        "request-chunks",
        Severity::Warning,
        "the chunks of every successful request add up to its output tokens less the first",
        Test::Requests(requests::chunks),
    ),
    check(
        "request-gap-sum",
        Severity::Warning,
        "the gaps of a request fit between its first token and its end",
        Test::Requests(requests::gap_sum),
    ),
    check(
        "step-order",
        Severity::Note,
        "steps are sorted by replica, end and number",
        Test::Steps(steps::order),
    ),
    check(
        "step-unique",
        Severity::Warning,
        "no step of a replica is logged twice",
        Test::Steps(steps::unique),
    ),
    check(
        "step-times",
        Severity::Error,
        "no step ends before it starts",
        Test::Steps(steps::times),
    ),
    check(
        "step-overlap",
        Severity::Warning,
        "no two steps of a replica overlap in time",
        Test::Steps(steps::overlap),
    ),
    check(
        "step-outside-decode",
        Severity::Warning,
        "every step lies inside the decode window",
        Test::Steps(steps::outside_decode),
    ),
    check(
        "step-iterations",
        Severity::Error,
        "every row covers at least one iteration",
        Test::Steps(steps::iterations),
    ),
    check("step-tokens", Severity::Note, "every step yields tokens", Test::Steps(steps::tokens)),
    check(
        "step-prefill",
        Severity::Warning,
        "no step of the decode window prefills",
        Test::Steps(steps::prefill),
    ),
    check(
        "step-history",
        Severity::Note,
        "every step says how much history it read",
        Test::Steps(steps::history),
    ),
    check(
        "step-replicas",
        Severity::Warning,
        "no step names a replica beyond engine.replicas",
        Test::Steps(steps::replicas),
    ),
];

const fn check(id: &'static str, severity: Severity, rule: &'static str, test: Test) -> Check {
    Check { id, severity, rule, test }
}

/// How one rule came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Kept, or broken only in a way that is worth a note.
    Kept,
    /// Broken.
    Broken,
    /// There was nothing to check, or it could not be read.
    NotChecked,
}

/// One rule applied to one run, or to the archive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// Id of the rule.
    pub check: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// Why it was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where it is broken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Every rule about runs, applied to one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunCheck {
    /// The run's folder below the archive.
    pub run: String,
    /// Its id, if run.json could be read.
    pub run_id: Option<String>,
    /// The rules, in the order of [`CHECKS`].
    pub checks: Vec<CheckResult>,
    /// Setting, cell and side of the validation, where a run has a cell and a side.
    #[serde(skip)]
    place: Option<(String, String, Split)>,
}

/// Every rule, applied to an archive and each of its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArchiveCheck {
    /// The rules about the archive as a whole.
    pub archive: Vec<CheckResult>,
    /// Its runs, in the order of their folders.
    pub runs: Vec<RunCheck>,
}

impl RunCheck {
    /// Everything that was found, in the order of the rules.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.checks.iter().flat_map(|result| &result.findings)
    }

    /// Whether no rule is broken; notes break none.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.checks.iter().all(|result| result.outcome != Outcome::Broken)
    }
}

impl ArchiveCheck {
    /// Whether no rule is broken, neither by the archive nor by a run; notes break none.
    #[must_use]
    pub fn passes(&self) -> bool {
        let kept = |result: &CheckResult| result.outcome != Outcome::Broken;
        self.archive.iter().all(kept) && self.runs.iter().all(RunCheck::passes)
    }
}

/// Applies every rule about runs to one run. Runs may be checked in any order and in parallel.
#[must_use]
pub fn check_run(location: &RunLocation) -> RunCheck {
    let subject = Subject::load(location);
    let checks = CHECKS.iter().filter_map(|check| apply(check, &subject)).collect();
    let manifest = subject.manifest.as_ref();
    RunCheck {
        run: location.relative.clone(),
        run_id: manifest.map(|manifest| manifest.run_id.clone()),
        checks,
        place: manifest.and_then(|manifest| {
            Some((manifest.setting_or_default(), manifest.cell.clone()?, manifest.split?))
        }),
    }
}

/// Applies the rules about the archive as a whole, once each of `listing.runs` was checked.
#[must_use]
pub fn check_archive(listing: &ArchiveListing, mut runs: Vec<RunCheck>) -> ArchiveCheck {
    runs.sort_by(|a, b| a.run.cmp(&b.run));
    let archive = CHECKS
        .iter()
        .filter_map(|check| match check.test {
            Test::Archive(test) => Some(report(check, |report| test(listing, &runs, report))),
            _ => None,
        })
        .collect();
    ArchiveCheck { archive, runs }
}

/// The rules in machine form, as they stand in `schemas/`.
#[must_use]
pub fn checks_json() -> serde_json::Value {
    let checks = CHECKS.iter().map(|check| {
        let about = match check.test {
            Test::Archive(_) => "archive",
            Test::Files(_) => "files",
            Test::Manifest(_) => "run.json",
            Test::Power(_) => "power.parquet",
            Test::Requests(_) => "requests.parquet",
            Test::Steps(_) => "steps.parquet",
        };
        serde_json::json!({
            "id": check.id,
            "severity": check.severity,
            "about": about,
            "rule": check.rule,
        })
    });
    checks.collect()
}

/// Applies one rule to one run; `None` if it is about the archive.
fn apply(check: &Check, subject: &Subject<'_>) -> Option<CheckResult> {
    let manifest = subject.manifest.as_ref().ok_or_else(|| "run.json is not valid".to_owned());
    let result = match check.test {
        Test::Archive(_) => return None,
        Test::Files(test) => Ok(report(check, |report| test(subject, report))),
        Test::Manifest(test) => {
            manifest.map(|manifest| report(check, |report| test(manifest, report)))
        }
        Test::Power(test) => apply_to(check, manifest, &subject.power, test),
        Test::Requests(test) => apply_to(check, manifest, &subject.requests, test),
        Test::Steps(test) => apply_to(check, manifest, &subject.steps, test),
    };
    Some(result.unwrap_or_else(|reason| CheckResult {
        check: check.id,
        outcome: Outcome::NotChecked,
        reason: Some(reason),
        findings: Vec::new(),
    }))
}

fn apply_to<T>(
    check: &Check,
    manifest: Result<&RunManifest, String>,
    table: &TableState<T>,
    test: fn(&RunManifest, &T, &mut Report),
) -> Result<CheckResult, String> {
    let (manifest, rows) = (manifest?, table.rows()?);
    Ok(report(check, |report| test(manifest, rows, report)))
}

fn report(check: &Check, test: impl FnOnce(&mut Report)) -> CheckResult {
    let mut report = Report { check: *check, findings: Vec::new() };
    test(&mut report);
    let broken = !report.findings.is_empty() && check.severity > Severity::Note;
    CheckResult {
        check: check.id,
        outcome: if broken { Outcome::Broken } else { Outcome::Kept },
        reason: None,
        findings: report.findings,
    }
}

/// Collects the findings of one rule.
#[derive(Debug)]
struct Report {
    check: Check,
    findings: Vec<Finding>,
}

/// Where a finding is.
#[derive(Debug, Clone, Default)]
struct Place {
    file: String,
    column: Option<&'static str>,
    row: Option<u64>,
}

impl Place {
    fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    fn column(self, column: &'static str) -> Self {
        Self { column: Some(column), ..self }
    }

    fn row(self, row: u64) -> Self {
        Self { row: Some(row), ..self }
    }
}

impl Report {
    fn add(&mut self, place: Place, message: String) {
        self.findings.push(Finding {
            check: self.check.id,
            severity: self.check.severity,
            file: place.file,
            column: place.column,
            row: place.row,
            message,
        });
    }

    /// Adds one finding for all the rows that break a rule: how many, and the first with what is wrong
    /// with it.
    fn add_rows(
        &mut self,
        place: Place,
        total: usize,
        what: &str,
        broken: impl Iterator<Item = (u64, String)>,
        expected: &str,
    ) {
        let mut broken = broken.fuse();
        let Some((row, first)) = broken.next() else { return };
        let count = 1 + broken.count();
        let message = format!("{count} of {total} {what}; the first: {first}; expected {expected}");
        self.add(place.row(row), message);
    }
}

#[cfg(test)]
mod tests;
