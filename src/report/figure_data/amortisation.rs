//! `amortisation`: table `amortisation`, and the N of the shares in `runs`.

use std::collections::{BTreeMap, BTreeSet};

use wattrace_figures::{Amortisation, AmortisationCurve, AmortisationPoint, ShareMark};

use super::{FigureDataError, Found, Keyed, Source};

/// Columns of `runs` with the number of requests at which the fixed share falls below a limit.
const MARKS: [(&str, f64); 3] = [
    ("requests_to_fixed_share_10_percent", 0.1),
    ("requests_to_fixed_share_5_percent", 0.05),
    ("requests_to_fixed_share_1_percent", 0.01),
];

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let table = source.table("amortisation")?;
    let run_ids = table.text("run_id")?;
    let requests = table.counts("requests")?;
    let (energy, share) = (table.numbers("j_per_token")?, table.numbers("fixed_share")?);
    let mut of_run: BTreeMap<String, Vec<AmortisationPoint>> = BTreeMap::new();
    for row in 0..table.rows {
        let point = || {
            let (j_per_token, fixed_share) = (energy[row]?, share[row]?);
            Some(AmortisationPoint { requests: requests[row]? as f64, j_per_token, fixed_share })
        };
        if let (Some(run_id), Some(point)) = (&run_ids[row], point()) {
            of_run.entry(run_id.clone()).or_default().push(point);
        }
    }
    let has: BTreeSet<String> = of_run.keys().cloned().collect();
    let (drawn, note) = source.runs_to_draw(&has);
    // One figure a task and engine: their requests are alike.
    let mut by_task: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for run_id in &drawn {
        let name = |column| source.runs.text(run_id, column).unwrap_or("unnamed");
        by_task.entry(format!("{} {}", name("task"), name("engine"))).or_default().push(run_id);
    }
    let figures: Vec<Keyed> = by_task
        .into_iter()
        .map(|(key, run_ids)| {
            let curve = |run_id: &&String| curve(source, run_id, &of_run[*run_id]);
            let figure = Amortisation {
                subject: key.clone(),
                synthetic: run_ids.iter().any(|run_id| source.runs.is_synthetic(run_id)),
                curves: run_ids.iter().map(curve).collect(),
            };
            (key, Box::new(figure) as _)
        })
        .collect();
    if figures.is_empty() {
        return Err(source.lacking("no run has start-up, steady and release energy"));
    }
    Ok(Found { figures, note })
}

fn curve(source: &Source<'_>, run_id: &str, points: &[AmortisationPoint]) -> AmortisationCurve {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.requests.total_cmp(&b.requests));
    let model = source.runs.text(run_id, "model").unwrap_or("unnamed model");
    let mark = |(column, share): (&str, f64)| {
        Some(ShareMark { share, requests: source.runs.count(run_id, column)? as f64 })
    };
    AmortisationCurve {
        name: format!("{model} ({run_id})"),
        points,
        // A share that is small from the first request on has no place on a logarithmic axis.
        marks: MARKS.into_iter().filter_map(mark).filter(|mark| mark.requests > 0.0).collect(),
    }
}
