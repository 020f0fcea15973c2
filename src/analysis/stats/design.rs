//! A response, the columns that explain it, and the clusters that its rows come from.

use std::collections::BTreeSet;

use wattrace_schema::Reason;

/// Values larger than this in size are refused: nothing measured is, and their squares could
/// overflow.
pub const MAGNITUDE_LIMIT: f64 = 1e100;

/// Why a statistic cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FitFailure {
    /// The reason that stands in result tables.
    pub reason: Reason,
    /// What was found, and where.
    pub message: String,
}

impl FitFailure {
    pub(super) fn new(reason: Reason, message: String) -> Self {
        Self { reason, message }
    }
}

/// One explanatory column of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Name of the coefficient.
    pub name: String,
    /// One value a row.
    pub column: Vec<f64>,
}

impl Term {
    /// A named column.
    pub fn new(name: impl Into<String>, column: Vec<f64>) -> Self {
        Self { name: name.into(), column }
    }
}

/// The rows of a linear model with an intercept: finite values, columns of one length, distinct
/// names. Whether the rows determine the coefficients is for the fit to find out.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    intercept: String,
    response: Vec<f64>,
    terms: Vec<Term>,
    clusters: Vec<usize>,
}

impl Design {
    /// Checks and keeps a design. `intercept` names the constant; `clusters` labels the rows that
    /// belong together (repeats of one cell share a label).
    ///
    /// # Errors
    /// [`Reason::InvalidInput`] for a value that is not finite or beyond [`MAGNITUDE_LIMIT`], for
    /// columns of different lengths, and for a name given twice.
    pub fn new(
        intercept: impl Into<String>,
        response: Vec<f64>,
        terms: Vec<Term>,
        clusters: Vec<usize>,
    ) -> Result<Self, FitFailure> {
        let design = Self { intercept: intercept.into(), response, terms, clusters };
        design.check_names()?;
        design.check_lengths()?;
        check_values("the response", &design.response)?;
        for term in &design.terms {
            check_values(&format!("term \"{}\"", term.name), &term.column)?;
        }
        Ok(design)
    }

    /// The dependent variable, one value a row.
    #[must_use]
    pub fn response(&self) -> &[f64] {
        &self.response
    }

    /// The explanatory columns, without the intercept.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The cluster label of every row.
    #[must_use]
    pub fn clusters(&self) -> &[usize] {
        &self.clusters
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.response.len()
    }

    /// Number of coefficients, the intercept included.
    #[must_use]
    pub fn coefficients(&self) -> usize {
        self.terms.len() + 1
    }

    /// Names of the coefficients, the intercept first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.intercept.as_str()).chain(self.terms.iter().map(|t| t.name.as_str()))
    }

    /// The same rows with only those terms for which `keep` holds.
    #[must_use]
    pub fn with_terms(&self, mut keep: impl FnMut(&Term) -> bool) -> Self {
        let terms = self.terms.iter().filter(|term| keep(term)).cloned().collect();
        Self { terms, ..self.clone() }
    }

    /// The same terms with only those rows for which `keep(row)` holds; for instance all clusters
    /// but one.
    #[must_use]
    pub fn with_rows(&self, mut keep: impl FnMut(usize) -> bool) -> Self {
        let rows: Vec<usize> = (0..self.rows()).filter(|&row| keep(row)).collect();
        let pick = |column: &[f64]| rows.iter().map(|&row| column[row]).collect();
        Self {
            intercept: self.intercept.clone(),
            response: pick(&self.response),
            terms: self.terms.iter().map(|t| Term::new(&t.name, pick(&t.column))).collect(),
            clusters: rows.iter().map(|&row| self.clusters[row]).collect(),
        }
    }

    fn check_names(&self) -> Result<(), FitFailure> {
        let mut seen = BTreeSet::new();
        for name in self.names() {
            if !seen.insert(name) {
                let message = format!("the design has two terms named \"{name}\"");
                return Err(FitFailure::new(Reason::InvalidInput, message));
            }
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<(), FitFailure> {
        let rows = self.rows();
        let terms = self.terms.iter().map(|t| (format!("term \"{}\"", t.name), t.column.len()));
        let clusters = ("the cluster column".to_owned(), self.clusters.len());
        for (what, length) in terms.chain([clusters]) {
            if length != rows {
                let message = format!("{what} has {length} rows where the response has {rows}");
                return Err(FitFailure::new(Reason::InvalidInput, message));
            }
        }
        Ok(())
    }
}

fn check_values(what: &str, values: &[f64]) -> Result<(), FitFailure> {
    let usable = |value: &f64| value.is_finite() && value.abs() <= MAGNITUDE_LIMIT;
    let Some(row) = values.iter().position(|value| !usable(value)) else {
        return Ok(());
    };
    let message = format!(
        "{what} is {:?} in row {row} (counted from 0); a finite number up to {MAGNITUDE_LIMIT:e} in size is needed",
        values[row]
    );
    Err(FitFailure::new(Reason::InvalidInput, message))
}
