//! AIPerf: one request a line in `profile_export.jsonl`, one scrape of one board a line in
//! `gpu_telemetry_export.jsonl`. Both count nanoseconds since 1970.
//!
//! Chunks are not tokens: `inter_chunk_latency` gives the gaps, the number of tokens stands apart. The
//! cumulative energy of the telemetry is in megajoules.

mod requests;
mod telemetry;

use super::{Format, Head, ImportOptions, Input, Reader, Sink};
use crate::TraceError;

pub(super) const FORMAT: Format = Format {
    name: "aiperf",
    title: "AIPerf: profile_export.jsonl and gpu_telemetry_export.jsonl",
    recovers: "requests with times of chunks, failed and cancelled ones too; power, energy counters, temperature and utilisation of boards",
    lacks: "model, engine, start-up and release; tokens of each chunk",
    reader: Reader::Parts { detect, read },
};

fn detect(head: &Head) -> Option<String> {
    let path = head.path().display();
    if head.has_json_paths(requests::KEYS) {
        return Some(format!("\"{path}\" has the metadata and metrics of AIPerf's requests"));
    }
    head.has_json_paths(telemetry::KEYS)
        .then(|| format!("\"{path}\" has timestamp_ns, gpu_index and telemetry_data of AIPerf"))
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    if input.head().has_json_paths(telemetry::KEYS) {
        telemetry::read(input, options, sink)
    } else {
        requests::read(input, options, sink)
    }
}

#[cfg(test)]
pub(super) mod tests;
