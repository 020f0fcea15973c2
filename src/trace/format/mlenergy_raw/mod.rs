//! The raw layout of the ML.ENERGY benchmark, version 3: `results.json`, and `prometheus.json` beside it.
//!
//! `results.json` has the power of every board and every request, but requests have no times: only how
//! long they took. The energy of a request is derived there (steady joules per token times length), not
//! measured, and is not taken. The power monitor drops repeated readings, so power is a step function.

mod prometheus;
mod results;

use super::{Format, Head, ImportOptions, Input, Reader, Sink};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "mlenergy-raw",
    title: "ML.ENERGY benchmark v3, raw: results.json and prometheus.json",
    recovers: "power and temperature of boards, the formal window, requests with durations and gaps, the engine's metrics, claimed energies",
    lacks: "times of requests, start-up and release, model geometry",
    reader: Reader::Parts { detect, read },
};

fn detect(head: &Head) -> Option<String> {
    let path = head.path().display();
    if results::matches(head) {
        return Some(format!("\"{path}\" has the steady-state energy and requests of ML.ENERGY"));
    }
    head.has_json_paths(prometheus::KEYS).then(|| {
        format!("\"{path}\" has collection_interval and a timeline of metrics of ML.ENERGY")
    })
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    if input.head().has_json_paths(prometheus::KEYS) {
        prometheus::read(input, options, sink)
    } else {
        results::read(input, options, sink)
    }
}

#[cfg(test)]
pub(super) mod tests;
