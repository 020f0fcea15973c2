//! The checklist as text.

use std::fmt::Write;

use super::{ArchiveCheck, CHECKS, CheckResult, Outcome, RunCheck};
use crate::{Finding, Severity};

/// How one rule came out over an archive.
#[derive(Debug, Default)]
struct Tally {
    kept: usize,
    broken: usize,
    not_checked: usize,
}

impl Tally {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Kept => self.kept += 1,
            Outcome::Broken => self.broken += 1,
            Outcome::NotChecked => self.not_checked += 1,
        }
    }
}

impl ArchiveCheck {
    /// The checklist, one line a rule, and below it every finding with its place and id. `[x]` is kept,
    /// `[ ]` broken, and `[-]` a rule that no run had anything for.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        for check in CHECKS {
            let mut tally = Tally::default();
            let in_runs = self.runs.iter().flat_map(|run| &run.checks);
            for result in self.archive.iter().chain(in_runs).filter(|r| r.check == check.id) {
                tally.count(result.outcome);
            }
            let mark = match tally {
                Tally { broken: 1.., .. } => "[ ]",
                Tally { kept: 1.., .. } => "[x]",
                _ => "[-]",
            };
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, "{mark} {}", check.rule);
            if tally.broken > 0 && self.archive.iter().all(|result| result.check != check.id) {
                let runs = tally.kept + tally.broken;
                let _ = write!(text, " (broken in {} of {runs} runs)", tally.broken);
            }
            text.push('\n');
        }
        let findings = self.render_findings();
        if !findings.is_empty() {
            let _ = write!(text, "\n{findings}");
        }
        let _ = write!(text, "\n{}", self.summary());
        text
    }

    /// Every finding, a line each: the archive's, then those of each run.
    fn render_findings(&self) -> String {
        let mut text = String::new();
        for finding in self.archive.iter().flat_map(|result| &result.findings) {
            write_finding(&mut text, "", finding);
        }
        for run in &self.runs {
            for finding in run.findings() {
                write_finding(&mut text, &run.run, finding);
            }
        }
        text
    }

    fn summary(&self) -> String {
        let count = |severity: Severity| {
            let in_runs = self.runs.iter().flat_map(RunCheck::findings);
            let in_archive = self.archive.iter().flat_map(|result: &CheckResult| &result.findings);
            in_runs.chain(in_archive).filter(|finding| finding.severity == severity).count()
        };
        let passing = self.runs.iter().filter(|run| run.passes()).count();
        format!(
            "{} runs, {passing} without a broken rule; {} errors, {} warnings, {} notes\n",
            self.runs.len(),
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::Note)
        )
    }
}

fn write_finding(text: &mut String, run: &str, finding: &Finding) {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let separator = if run.is_empty() { "" } else { "/" };
    let _ = write!(text, "{severity}[{}] {run}{separator}{}", finding.check, finding.file);
    if let Some(column) = finding.column {
        let _ = write!(text, " {column}");
    }
    if let Some(row) = finding.row {
        let _ = write!(text, " row {row}");
    }
    let _ = writeln!(text, ": {}", finding.message);
}
