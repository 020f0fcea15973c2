//! One spec, and everything that was measured under it: one page and one raw JSON.

use serde_json::{Map, Value, json};
use wattrace_schema::spec::LockedSpec;
use wattrace_schema::{Flag, Reason};

use crate::page::service_page;
use crate::provenance::Provenance;
use crate::service::ServiceTables;

/// A spec-driven report. It has no dates: equal inputs give equal bytes.
#[derive(Debug, Clone)]
pub struct ServiceReport {
    /// The spec.
    pub spec: LockedSpec,
    /// What was measured under it.
    pub tables: ServiceTables,
    /// How the numbers came about.
    pub provenance: Provenance,
    /// The command line that made the report, without the place that it was written to.
    pub command_line: Vec<String>,
    /// Runs of the input that were made under another spec, or none.
    pub other_runs: usize,
    /// What a reader must know of the inputs.
    pub warnings: Vec<String>,
}

impl ServiceReport {
    /// What the report does not cover, one sentence each.
    #[must_use]
    pub fn not_covered(&self) -> Vec<String> {
        let coverage = self.tables.view("coverage");
        let named = (0..coverage.rows())
            .filter(|row| !coverage.list(*row, "not_measured").is_empty())
            .map(|row| {
                format!(
                    "{}: the spec names {}, which no run measured.",
                    coverage.text(row, "dimension").unwrap_or_default().replace('_', " "),
                    coverage.list(row, "not_measured").join(", ")
                )
            });
        let goodput = self.tables.view("goodput");
        let nowhere =
            |column: &str| (0..goodput.rows()).all(|row| goodput.number(row, column).is_none());
        let flagged = |flag: Flag| {
            (0..goodput.rows())
                .any(|row| goodput.list(row, "flags").iter().any(|code| code == flag.code()))
        };
        let sentences = [
            (
                nowhere("node_power_w"),
                "Node power was not measured, so there are no tokens per joule.",
            ),
            (nowhere("board_power_w"), "Board power was not measured."),
            (nowhere("mbu"), "Memory bandwidth utilisation could not be had."),
            (
                self.tables.view("accuracy").rows() == 0,
                "The spec sets no accuracy gate: nothing says whether the configurations answer equally well.",
            ),
            (flagged(Flag::TooFewRepeats), "Fewer than five runs stand behind some values."),
            (
                flagged(Flag::AtSweepEnd),
                "Some sweeps end before the objective fails: the true goodput may be higher.",
            ),
            (
                self.tables.view("accelerator_health").rows() == 0,
                "Clocks, temperatures and throttling were not recorded.",
            ),
        ];
        let said = sentences
            .into_iter()
            .filter(|(applies, _)| *applies)
            .map(|(_, sentence)| sentence.to_owned());
        let others = (self.other_runs > 0).then(|| {
            format!(
                "{} further runs of the input were made under another spec or none.",
                self.other_runs
            )
        });
        named.chain(said).chain(others).collect()
    }

    /// The raw report.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tables: Map<String, Value> = self
            .tables
            .iter()
            .map(|table| (table.name.clone(), Value::Array(table.to_json())))
            .collect();
        let spec: Value = serde_json::from_str(&self.spec.canonical_json())
            .unwrap_or_else(|_| Value::String(self.spec.canonical_json()));
        json!({
            "tool": "wattrace",
            "tool_version": self.provenance.tool_version,
            "metric_definitions_version": self.provenance.metric_definitions_version,
            "command_line": self.command_line,
            "options": self.provenance.options,
            "archive_sha256": self.provenance.archive_sha256,
            "synthetic": self.provenance.synthetic.name(),
            "spec_hash": self.spec.hash(),
            "spec": spec,
            "spec_unknown_fields": self.spec.unknown_fields(),
            "not_covered": self.not_covered(),
            "warnings": self.warnings,
            "tables": tables,
            "flags": words(self.flags().into_iter().map(|flag| (flag.code(), flag.meaning()))),
            "reasons": words(self.reasons().into_iter().map(|one| (one.code(), one.meaning()))),
        })
    }

    /// The page.
    #[must_use]
    pub fn to_page(&self) -> String {
        service_page(self)
    }

    /// Every flag of the tables.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let mut flags: Vec<_> =
            self.tables.iter().flat_map(|table| self.tables.view(&table.name).flags()).collect();
        flags.sort_unstable();
        flags.dedup();
        flags
    }

    /// Every reason of the tables.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let mut reasons: Vec<_> =
            self.tables.iter().flat_map(|table| self.tables.view(&table.name).reasons()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }
}

fn words(words: impl Iterator<Item = (&'static str, &'static str)>) -> Map<String, Value> {
    words.map(|(code, meaning)| (code.to_owned(), meaning.into())).collect()
}
