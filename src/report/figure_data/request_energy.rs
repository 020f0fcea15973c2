//! `request-energy`: table `requests`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wattrace_figures::RequestEnergy;

use super::{FigureDataError, Found, Keyed, Source};

/// Energy per token, coefficient of variation of the window from here.
type Request = (f64, Option<f64>);

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let requests = source.table("requests")?;
    let run_ids = requests.text("run_id")?;
    let (energy, cv) = (requests.numbers("j_per_token")?, requests.numbers("window_cv")?);
    let order = requests.counts("order")?;
    let mut of_run: BTreeMap<&str, BTreeMap<u64, Request>> = BTreeMap::new();
    for row in 0..requests.rows {
        if let (Some(run_id), Some(order), Some(energy)) = (&run_ids[row], order[row], energy[row])
        {
            of_run.entry(run_id).or_default().insert(order, (energy, cv[row]));
        }
    }
    let has: BTreeSet<String> = of_run.keys().map(|run_id| (*run_id).to_owned()).collect();
    let (drawn, note) = source.runs_to_draw(&has);
    let (window_requests, threshold) = steady_rule(source)?;
    let figure = |run_id: &String| -> Keyed {
        // `drawn` is chosen among these.
        let requests = of_run.get(run_id.as_str()).into_iter().flat_map(BTreeMap::values);
        let (j_per_token, window_cv) = requests.copied().unzip();
        let figure = RequestEnergy {
            run_id: run_id.clone(),
            synthetic: source.runs.is_synthetic(run_id),
            j_per_token,
            window_cv,
            window_requests,
            threshold,
            steady_first_request: source.runs.count(run_id, "steady_first_request"),
        };
        (run_id.clone(), Box::new(figure))
    };
    let figures: Vec<Keyed> = drawn.iter().map(figure).collect();
    if figures.is_empty() {
        return Err(source.lacking("no run has requests with energy per token"));
    }
    Ok(Found { figures, note })
}

/// Size and threshold of the steady-state windows, as `results.json` records them.
fn steady_rule(source: &Source<'_>) -> Result<(u64, f64), FigureDataError> {
    let steady = &source.results.manifest().options["metrics"]["steady"];
    let rule = (steady["size"].as_u64(), steady["cv"].as_f64());
    match rule {
        (Some(size), Some(cv)) => Ok((size, cv)),
        _ => Err(FigureDataError::Lacking(format!(
            "needs the steady-state rule in results.json; options.metrics.steady is {}",
            if steady == &Value::Null { "missing".to_owned() } else { steady.to_string() }
        ))),
    }
}
