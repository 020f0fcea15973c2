//! The numbers of figures, taken from result tables: one figure a file.

mod ablation_errors;
mod amortisation;
mod energy_batch_history;
mod power_timeline;
mod predicted_measured;
mod request_energy;
mod runs;
mod slo_sweep;
mod steady_lifecycle;
mod step_time;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use wattrace_figures::{FIGURES, Figure, FigureKind};

use crate::error::ReportError;
use crate::results::{Results, StoredTable};

use runs::Runs;

/// A figure ready to be drawn.
pub struct NamedFigure {
    /// Name of its files, without extension.
    pub stem: String,
    /// Its numbers.
    pub figure: Box<dyn Figure>,
}

impl std::fmt::Debug for NamedFigure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NamedFigure").field("stem", &self.stem).finish_non_exhaustive()
    }
}

/// What results give for one kind of figure.
#[derive(Debug)]
pub struct FigureSet {
    /// The kind.
    pub kind: &'static FigureKind,
    /// The figures: one, or one a run, setting or group.
    pub figures: Vec<NamedFigure>,
    /// What a reader must know: what was left out.
    pub note: Option<String>,
}

/// Why there is no figure of a kind.
#[derive(Debug, thiserror::Error)]
pub enum FigureDataError {
    /// The results lack what the figure shows.
    #[error("{0}")]
    Lacking(String),
    /// A table could not be read.
    #[error(transparent)]
    Table(#[from] ReportError),
}

/// A figure and what sets it apart from others of its kind; nothing if there is only one.
type Keyed = (String, Box<dyn Figure>);

/// The figures of a kind, and what was left out.
struct Found {
    figures: Vec<Keyed>,
    note: Option<String>,
}

impl From<Vec<Keyed>> for Found {
    fn from(figures: Vec<Keyed>) -> Self {
        Self { figures, note: None }
    }
}

type Extract = fn(&Source<'_>) -> Result<Found, FigureDataError>;

/// How each kind of figure gets its numbers, in the order of [`FIGURES`].
const EXTRACTS: [(&str, Extract); 9] = [
    ("power-timeline", power_timeline::figures),
    ("request-energy", request_energy::figures),
    ("steady-lifecycle", steady_lifecycle::figures),
    ("amortisation", amortisation::figures),
    ("predicted-measured", predicted_measured::figures),
    ("ablation-errors", ablation_errors::figures),
    ("energy-batch-history", energy_batch_history::figures),
    ("step-time", step_time::figures),
    ("slo-sweep", slo_sweep::figures),
];

/// Results, and which of their runs figures are wanted of.
struct Source<'a> {
    results: &'a Results,
    kind: &'static FigureKind,
    runs: &'a Runs,
    /// Ids of runs; empty for a choice of the program.
    wanted: &'a [String],
}

impl Source<'_> {
    /// A table that may not be there.
    fn table(&self, name: &str) -> Result<StoredTable, FigureDataError> {
        if self.results.has_table(name) {
            return Ok(self.results.table(name)?);
        }
        let needs = self.kind.needs;
        Err(FigureDataError::Lacking(format!(
            "needs {needs}; the results have no table \"{name}\""
        )))
    }

    fn lacking(&self, what: &str) -> FigureDataError {
        FigureDataError::Lacking(format!("needs {}; {what}", self.kind.needs))
    }

    /// `found`, unless it is empty.
    fn some(&self, figures: Vec<Keyed>, otherwise: &str) -> Result<Found, FigureDataError> {
        if figures.is_empty() { Err(self.lacking(otherwise)) } else { Ok(figures.into()) }
    }

    /// Runs to draw a figure each of, among those that `has` the numbers: the wanted ones, else the
    /// first of each kind of run. With them, what was left out.
    fn runs_to_draw(&self, has: &BTreeSet<String>) -> (Vec<String>, Option<String>) {
        if !self.wanted.is_empty() {
            let (drawn, without): (Vec<_>, Vec<_>) =
                self.wanted.iter().cloned().partition(|run_id| has.contains(run_id));
            let note =
                (!without.is_empty()).then(|| format!("no numbers of {}", without.join(", ")));
            return (drawn, note);
        }
        let drawn = self.runs.one_of_each(has);
        let note = (drawn.len() < has.len()).then(|| {
            format!(
                "{} of {} runs, the first of each kind; others with --run",
                drawn.len(),
                has.len()
            )
        });
        (drawn, note)
    }
}

/// The figures that `results` give for the kind of that name, of the runs in `wanted` where a figure
/// shows one run (empty: one run of each kind of runs).
///
/// # Errors
/// [`FigureDataError::Lacking`] if the results lack what the figure shows or a wanted run.
pub fn figures(
    results: &Results,
    kind: &'static FigureKind,
    wanted: &[String],
) -> Result<FigureSet, FigureDataError> {
    let runs = Runs::read(results)?;
    if let Some(unknown) = wanted.iter().find(|run_id| !runs.contains(run_id)) {
        return Err(FigureDataError::Lacking(format!("the results have no run \"{unknown}\"")));
    }
    let source = Source { results, kind, runs: &runs, wanted };
    let position = FIGURES.iter().position(|figure| figure.name == kind.name);
    // A test compares the two lists.
    let (_, extract) = EXTRACTS[position.unwrap_or_default()];
    let found = extract(&source)?;
    let mut stems = BTreeSet::new();
    let figures = found
        .figures
        .into_iter()
        .map(|(key, figure)| NamedFigure { stem: stem(kind.name, &key, &mut stems), figure })
        .collect();
    Ok(FigureSet { kind, figures, note: found.note })
}

/// A name of files that no other figure has: the kind, then the key in letters that any file system
/// takes.
fn stem(kind: &str, key: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = |letter: char| match letter {
        'A'..='Z' => letter.to_ascii_lowercase(),
        'a'..='z' | '0'..='9' | '.' | '_' => letter,
        _ => '-',
    };
    let words: String = key.chars().map(plain).collect();
    let parts: Vec<&str> = words.split('-').filter(|part| !part.is_empty()).collect();
    let mut stem = [&[kind], parts.as_slice()].concat().join("-");
    // File systems take 255 bytes; the extension and a number need some.
    stem.truncate(200);
    let first = stem.clone();
    let mut number = 2;
    while !taken.insert(stem.clone()) {
        stem = format!("{first}-{number}");
        number += 1;
    }
    stem
}

/// The index ranges of rows that follow each other with equal keys.
fn groups<K: PartialEq>(keys: &[K]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let mut start = 0;
    keys.chunk_by(|a, b| a == b).map(move |group| {
        let range = start..start + group.len();
        start = range.end;
        range
    })
}

/// The mean of some numbers; `None` of none.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

/// Whether a row's flags say that it rests on simulated runs.
fn is_synthetic(flags: Option<&Vec<String>>) -> bool {
    flags.is_some_and(|flags| {
        flags.iter().any(|flag| flag == wattrace_schema::Flag::Synthetic.code())
    })
}
