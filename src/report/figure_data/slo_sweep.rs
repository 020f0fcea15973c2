//! `slo-sweep`: tables `sweep` and `goodput`.

use std::collections::BTreeMap;

use wattrace_figures::{SloSweep, SweepLine, SweepPoint};

use super::{FigureDataError, Found, Keyed, Source, is_synthetic};
use crate::error::ReportError;
use crate::provenance::SyntheticShare;
use crate::results::StoredTable;

/// Spec and configuration.
type Key = (String, String);

/// The request rate of a goodput: `None` within where requests were sent without a limit.
type Chosen = BTreeMap<Key, Option<f64>>;

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let sweep = source.table("sweep")?;
    let goodput = source.table("goodput")?;
    let (chosen, mut synthetic) = chosen(&goodput)?;
    synthetic |= source.results.manifest().synthetic == SyntheticShare::All;
    let mut specs: BTreeMap<String, BTreeMap<String, Vec<SweepPoint>>> = BTreeMap::new();
    for (key, point) in points(&sweep)? {
        specs.entry(key.0).or_default().entry(key.1).or_default().push(point);
    }
    let limit = |column, spec: &str| limit(&sweep, column, spec);
    let mut figures: Vec<Keyed> = Vec::new();
    for (spec, configurations) in specs {
        let lines = configurations.into_iter().map(|(configuration, points)| {
            let rate = chosen.get(&(spec.clone(), configuration.clone()));
            line(configuration, points, rate)
        });
        let figure = SloSweep {
            subject: format!("spec {}", spec.get(..12).unwrap_or(&spec)),
            synthetic,
            ttft_limit_ms: limit("slo_ttft_p99_ms", &spec)?,
            tpot_limit_ms: limit("slo_tpot_p99_ms", &spec)?,
            lines: lines.collect(),
        };
        figures.push((spec.get(..12).unwrap_or(&spec).to_owned(), Box::new(figure)));
    }
    source.some(figures, "no configuration was measured at a request rate")
}

fn points(sweep: &StoredTable) -> Result<Vec<(Key, SweepPoint)>, ReportError> {
    let (spec, configuration) = (sweep.text("spec_hash")?, sweep.text("configuration")?);
    let number = |column| sweep.numbers(column);
    let (rate, output) = (number("request_rate")?, number("output_tok_s")?);
    let (ttft, tpot) = (number("ttft_p99_ms")?, number("tpot_p99_ms")?);
    let row = |row: usize| {
        let point = SweepPoint {
            request_rate: rate[row],
            ttft_p99_ms: ttft[row],
            tpot_p99_ms: tpot[row],
            output_tok_s: output[row],
        };
        Some(((spec[row].clone()?, configuration[row].clone()?), point))
    };
    Ok((0..sweep.rows).filter_map(row).collect())
}

/// The rates of the goodputs, and whether one of them rests on simulated runs.
fn chosen(goodput: &StoredTable) -> Result<(Chosen, bool), ReportError> {
    let (spec, configuration) = (goodput.text("spec_hash")?, goodput.text("configuration")?);
    let (value, rate) = (goodput.numbers("goodput_tok_s")?, goodput.numbers("request_rate")?);
    let flags = goodput.text_lists("flags")?;
    let row = |row: usize| {
        value[row]?;
        Some(((spec[row].clone()?, configuration[row].clone()?), rate[row]))
    };
    let synthetic = flags.iter().any(|flags| is_synthetic(flags.as_ref()));
    Ok(((0..goodput.rows).filter_map(row).collect(), synthetic))
}

fn line(
    configuration: String,
    mut points: Vec<SweepPoint>,
    rate: Option<&Option<f64>>,
) -> SweepLine {
    // Requests sent without a limit rank highest.
    let key = |point: &SweepPoint| point.request_rate.unwrap_or(f64::INFINITY);
    points.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let chosen = rate.and_then(|rate| points.iter().position(|point| point.request_rate == *rate));
    SweepLine { configuration, points, chosen }
}

/// A limit of a spec, where the table tells it.
fn limit(sweep: &StoredTable, column: &str, wanted: &str) -> Result<Option<f64>, ReportError> {
    let Ok(limits) = sweep.numbers(column) else { return Ok(None) };
    let specs = sweep.text("spec_hash")?;
    let own = |row: &usize| specs[*row].as_deref() == Some(wanted);
    Ok((0..sweep.rows).filter(own).find_map(|row| limits[row]))
}
