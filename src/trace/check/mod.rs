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

/// Declares the rules: id, severity, what each looks at and by which function, and its sentence.
macro_rules! checks {
    ($($id:tt $severity:ident $test:ident($function:path) $rule:literal;)+) => {
        /// Every rule, in the order of the checklist.
        pub const CHECKS: &[Check] = &[$(Check {
            id: $id,
            severity: Severity::$severity,
            rule: $rule,
            test: Test::$test($function),
        },)+];
    };
}

checks! {
    "archive-links" Error Archive(archive::links)
        "no symbolic link leads to a folder outside the archive";
    "archive-folders" Error Archive(archive::folders)
        "every folder can be listed";
    "run-finished" Warning Archive(archive::finished)
        "no run was left unfinished";
    "run-id-unique" Error Archive(archive::run_id_unique)
        "every run_id is unique in the archive";
    "cell-one-side" Error Archive(archive::cell_one_side)
        "no cell of a setting is both in the fit and held out";
    "manifest-valid" Error Files(files::manifest_valid)
        "run.json can be read and makes sense";
    "file-inside" Error Files(files::inside)
        "no file of a run lies outside the archive";
    "file-missing" Error Files(files::missing)
        "every file that run.json names is there";
    "file-hash" Error Files(files::hash)
        "every file has the SHA-256 that run.json gives";
    "file-rows" Error Files(files::rows)
        "every file has as many rows as run.json says";
    FILE_NOT_HASHED Warning Files(files::not_hashed)
        "every Parquet file is listed in run.json";
    "file-readable" Error Files(files::readable)
        "every Parquet file can be decoded";
    "file-empty" Warning Files(files::empty)
        "no Parquet file is empty";
    "column-missing" Error Files(files::column_missing)
        "every required column is there";
    "column-type" Error Files(files::column_type)
        "every column has its declared type, or one that converts without loss";
    "value-valid" Error Files(files::value_valid)
        "every value can be read: no null where a value is required, no unknown name, no number out of range";
    "tables-of-kind" Note Files(files::tables_of_kind)
        "the run has the tables that its kind calls for";
    "stamps-present" Warning Manifest(stamps::present)
        "the stamps that bound the measurement are there";
    "stamps-lifecycle" Note Manifest(stamps::lifecycle)
        "a serving run has the stamps of its whole lifecycle";
    "stamps-order" Error Manifest(stamps::order)
        "stamps do not run backwards";
    "stamps-window" Warning Manifest(stamps::window_length)
        "every measured window has a length";
    "model-geometry" Warning Manifest(manifest::geometry)
        "a decode run has the model geometry that the energy model needs";
    "model-dense" Note Manifest(manifest::dense)
        "the model of a decode run is dense";
    "claims-present" Warning Manifest(manifest::claims_present)
        "a summary run has claims";
    "claims-unit" Warning Manifest(manifest::claims_unit)
        "every claim has the unit that its metric is named for";
    "average-window" Warning Manifest(manifest::average_window)
        "a source that reads averages says over how long";
    NEGATIVE_POWER Error Power(power::negative)
        "no power or counter value is negative";
    NOT_FINITE_POWER Error Power(power::not_finite)
        "no power or counter value is NaN or infinite";
    "power-absent" Note Power(power::absent)
        "every row has a power or a counter value";
    "power-ceiling" Warning Power(power::ceiling)
        "no power, and no step of a counter, is above what its scope can draw";
    "power-order" Note Power(power::order)
        "power rows are sorted by source, device and time";
    "power-duplicate-time" Warning Power(power::duplicate_time)
        "no two rows of a device share a time";
    "power-coverage" Warning Power(power::coverage)
        "samples of every device cover every window";
    "power-gap" Warning Power(power::gap)
        "no two neighbouring samples in a window are further apart than three sample intervals";
    "counter-falls" Warning Power(counters::falls)
        "no energy counter falls, unless it wraps as its source declares";
    "counter-stalls" Warning Power(counters::stalls)
        "no energy counter stands still for more than three sample intervals while power is above zero";
    "counter-asked" Warning Power(counters::asked)
        "a stage that asks for the counter has one on every accelerator";
    "source-used" Warning Power(scopes::source_used)
        "every power source has rows";
    "scope-overlap" Warning Power(scopes::overlap)
        "no device is measured by two sources of one scope";
    "scope-board-and-module" Note Power(scopes::board_and_module)
        "accelerators are measured either as boards or as modules";
    "device-count" Warning Power(scopes::device_count)
        "as many accelerators are measured as hardware.count says";
    "request-order" Note Requests(requests::order)
        "requests are sorted by sending time and id";
    "request-id-unique" Error Requests(requests::id_unique)
        "every request_id is unique in its run";
    "request-times" Error Requests(requests::times)
        "no request ends before it starts or has its first token outside that time";
    "request-durations" Error Requests(requests::durations)
        "no request has a time to first token longer than its whole time";
    "request-outside-formal" Warning Requests(requests::outside_formal)
        "formal requests lie inside the formal window";
    "request-tokens-timed" Warning Requests(requests::tokens_timed)
        "every successful request with output tokens has its times";
    "request-tokens-counted" Warning Requests(requests::tokens_counted)
        "every successful request has a count of output tokens";
    "request-zero-tokens" Warning Requests(requests::zero_tokens)
        "no successful request has zero output tokens";
    "request-reasoning" Error Requests(requests::reasoning)
        "no request has more reasoning tokens than output tokens";
    "request-chunks" Warning Requests(requests::chunks)
        "the chunks of every successful request add up to its output tokens less the first";
    "request-gap-sum" Warning Requests(requests::gap_sum)
        "the gaps of a request fit between its first token and its end";
    "step-order" Note Steps(steps::order)
        "steps are sorted by replica, end and number";
    "step-unique" Warning Steps(steps::unique)
        "no step of a replica is logged twice";
    "step-times" Error Steps(steps::times)
        "no step ends before it starts";
    "step-overlap" Warning Steps(steps::overlap)
        "no two steps of a replica overlap in time";
    "step-outside-decode" Warning Steps(steps::outside_decode)
        "every step lies inside the decode window";
    "step-iterations" Error Steps(steps::iterations)
        "every row covers at least one iteration";
    "step-tokens" Note Steps(steps::tokens)
        "every step yields tokens";
    "step-prefill" Warning Steps(steps::prefill)
        "no step of the decode window prefills";
    "step-history" Note Steps(steps::history)
        "every step says how much history it read";
    "step-replicas" Warning Steps(steps::replicas)
        "no step names a replica beyond engine.replicas";
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
