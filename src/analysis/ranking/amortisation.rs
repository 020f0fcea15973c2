//! Start-up and release energy spread over more and more requests.

use wattrace_schema::{FlagSet, Reason};

use super::{RunIdentity, ServingRun};
use crate::metrics::Amortisation;

/// The numbers of requests over which start and release are spread: 1, 2, 5 in every decade up to a
/// million.
pub const AMORTISED_REQUESTS: [u64; 19] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000,
];

/// One run that answers one number of requests, or why the run cannot say.
#[derive(Debug, Clone, PartialEq)]
pub struct AmortisationRow {
    /// The run.
    pub run: RunIdentity,
    /// The number of requests and the service that answers them.
    pub service: Result<(u64, Amortisation), Reason>,
    /// What a reader must know of the values.
    pub flags: FlagSet,
}

/// A row for every number of requests; a run that lacks a value has one row with the reason.
pub(super) fn amortisation(runs: &[&ServingRun]) -> Vec<AmortisationRow> {
    let row = |run: &ServingRun, service| AmortisationRow {
        run: run.identity.clone(),
        service,
        flags: run.flags(),
    };
    let mut rows = Vec::new();
    for run in runs {
        match service(run) {
            Ok(service) => {
                rows.extend(AMORTISED_REQUESTS.map(|requests| row(run, Ok((requests, service)))));
            }
            Err(reason) => rows.push(row(run, Err(reason))),
        }
    }
    rows
}

fn service(run: &ServingRun) -> Result<Amortisation, Reason> {
    let values = &run.values;
    Ok(Amortisation {
        fixed_j: values.fixed_energy_j?,
        steady_j_per_request: values.steady_j_per_request?,
        tokens_per_request: values.mean_request_output_tokens?,
    })
}
