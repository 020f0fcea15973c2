//! The columns of one coefficient: estimate, errors and intervals.

use wattrace_analysis::model::CoefficientRow;
use wattrace_schema::Unit;

use crate::table::TableBuilder;

/// Adds the columns of one coefficient, which all begin with its name.
pub(super) fn coefficient<'rows, R>(
    table: TableBuilder<'rows, R>,
    name: &str,
    unit: Unit,
    meaning: &str,
    of: impl Fn(&'rows R) -> Option<&'rows CoefficientRow> + Copy,
) -> TableBuilder<'rows, R> {
    let column = |suffix: &str| format!("{name}_{suffix}");
    let says = |what: &str| format!("{what} of `{name}`.");
    table
        .number(name, unit, meaning, move |row| of(row).map(|found| found.value))
        .number(column("se"), unit, says("Standard error"), move |row| of(row)?.se)
        .number(column("low"), unit, says("Lower end of the 95% t interval"), move |row| {
            of(row)?.low
        })
        .number(column("high"), unit, says("Upper end of the 95% t interval"), move |row| {
            of(row)?.high
        })
        .number(
            column("cluster_se"),
            unit,
            says("Cell-cluster-robust standard error"),
            move |row| of(row)?.cluster_se,
        )
        .number(
            column("cluster_low"),
            unit,
            says("Lower end of the cluster-robust 95% interval"),
            move |row| of(row)?.cluster_low,
        )
        .number(
            column("cluster_high"),
            unit,
            says("Upper end of the cluster-robust 95% interval"),
            move |row| of(row)?.cluster_high,
        )
        .number(
            column("bootstrap_low"),
            unit,
            says("Lower end of the cell-bootstrap 95% interval"),
            move |row| of(row)?.bootstrap_low,
        )
        .number(
            column("bootstrap_high"),
            unit,
            says("Upper end of the cell-bootstrap 95% interval"),
            move |row| of(row)?.bootstrap_high,
        )
        .boolean(
            column("not_identified"),
            format!("Whether the data cannot tell `{name}` from the other coefficients."),
            move |row| of(row).map(|found| found.not_identified),
        )
}
