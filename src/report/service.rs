//! The tables of spec-driven reports, computed just now or read back: commands treat both alike.

use wattrace_analysis::service::{Candidate, CapacityRow, ServiceAnalysis, capacity};
use wattrace_schema::{Flag, FlagSet, Reason};

use crate::error::ReportError;
use crate::results::{Results, StoredTable};
use crate::tables::{capacity_table, service_tables};
use crate::view::TableView;

/// The tables of spec-driven reports.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceTables {
    tables: Vec<StoredTable>,
}

impl ServiceTables {
    /// The tables of an analysis.
    #[must_use]
    pub fn of(service: &ServiceAnalysis) -> Self {
        Self { tables: service_tables(service).iter().map(StoredTable::from).collect() }
    }

    /// The tables of a results folder; those that it lacks are empty.
    ///
    /// # Errors
    /// When a table is listed but missing, changed or not readable.
    pub fn read(results: &Results) -> Result<Self, ReportError> {
        let mut tables = Self::of(&ServiceAnalysis::default());
        for table in &mut tables.tables {
            if results.has_table(&table.name) {
                *table = results.table(&table.name)?;
            }
        }
        Ok(tables)
    }

    /// Whether no run took part.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view("goodput").rows() == 0
    }

    /// The tables, in the order in which they are best read.
    pub fn iter(&self) -> impl Iterator<Item = &StoredTable> {
        self.tables.iter()
    }

    /// The table of that name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&StoredTable> {
        self.tables.iter().find(|table| table.name == name)
    }

    pub(crate) fn view(&self, name: &str) -> TableView<'_> {
        static NONE: StoredTable =
            StoredTable { name: String::new(), rows: 0, columns: Vec::new() };
        TableView::of(self.table(name).unwrap_or(&NONE))
    }

    /// Hashes of the specs that runs were made under.
    #[must_use]
    pub fn spec_hashes(&self) -> Vec<String> {
        let specs = self.view("specs");
        (0..specs.rows())
            .filter_map(|row| specs.text(row, "spec_hash").map(str::to_owned))
            .collect()
    }

    /// Only what belongs to one spec.
    #[must_use]
    pub fn of_spec(&self, spec_hash: &str) -> Self {
        let runs = self.view("service_runs");
        let of_spec: Vec<&str> = (0..runs.rows())
            .filter(|row| runs.text(*row, "spec_hash") == Some(spec_hash))
            .filter_map(|row| runs.text(row, "run_id"))
            .collect();
        let tables = self
            .tables
            .iter()
            .map(|table| {
                let view = TableView::of(table);
                table.filtered(|row| match table.name.as_str() {
                    "accelerator_health" => {
                        view.text(row, "run_id").is_some_and(|run| of_spec.contains(&run))
                    }
                    "comparison" => {
                        view.text(row, "spec_hash") == Some(spec_hash)
                            && view.text(row, "reference_spec_hash") == Some(spec_hash)
                    }
                    _ => view.text(row, "spec_hash") == Some(spec_hash),
                })
            })
            .collect();
        Self { tables }
    }

    /// These tables with the capacity of another fleet: `cards` that run `reference` today, or what each
    /// spec names.
    #[must_use]
    pub fn with_fleet(mut self, cards: u64, reference: Option<&str>) -> Self {
        let rows: Vec<CapacityRow> = self
            .spec_hashes()
            .iter()
            .enumerate()
            .flat_map(|(row, spec_hash)| {
                let specs = self.view("specs");
                let reference = reference.or_else(|| specs.text(row, "reference"));
                capacity(cards, reference, &self.candidates(spec_hash))
            })
            .collect();
        let fleet = StoredTable::from(&capacity_table(&rows));
        for table in self.tables.iter_mut().filter(|table| table.name == fleet.name) {
            *table = fleet.clone();
        }
        self
    }

    /// Goodput and accuracy of every configuration of a spec.
    fn candidates(&self, spec_hash: &str) -> Vec<Candidate> {
        let (goodput, accuracy) = (self.view("goodput"), self.view("accuracy"));
        (0..goodput.rows())
            .filter(|row| goodput.text(*row, "spec_hash") == Some(spec_hash))
            .map(|row| {
                let configuration = goodput.text(row, "configuration");
                let gate = (0..accuracy.rows()).find(|gate| {
                    accuracy.text(*gate, "spec_hash") == Some(spec_hash)
                        && accuracy.text(*gate, "configuration") == configuration
                });
                let passes = gate.and_then(|gate| accuracy.yes(gate, "passes"));
                let flags: FlagSet = goodput
                    .list(row, "flags")
                    .iter()
                    .filter_map(|code| Flag::from_code(code))
                    .collect();
                let goodput_tok_s = goodput.number(row, "goodput_tok_s").ok_or_else(|| {
                    goodput.reason(row, "goodput_tok_s").unwrap_or(Reason::NoValues)
                });
                Candidate {
                    spec_hash: Some(spec_hash.to_owned()),
                    configuration: configuration.map(str::to_owned),
                    goodput_tok_s,
                    passes: passes.ok_or(Reason::NoScores),
                    flags,
                }
            })
            .collect()
    }
}
