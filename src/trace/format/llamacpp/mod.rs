//! llama.cpp's server: `timings` of saved responses, or the server's log.
//!
//! Both know how long the prompt and the generation took from the moment a slot took the request, so time
//! in the queue is in neither. A log of high verbosity has the time of every token as well.

mod follow;
mod log;
mod responses;
mod steps;

use super::{Format, Head, ImportOptions, Input, Reader, Sink};
use crate::TraceError;

pub(super) use follow::follow;

pub(super) const FORMAT: Format = Format {
    name: "llamacpp",
    title: "llama.cpp: timings of responses, or the server's log",
    recovers: "requests with prompt and generation time, times of tokens and steps from a verbose log; geometry from a log",
    lacks: "time in the queue, power; calendar time without an anchor",
    reader: Reader::Parts { detect, read },
};

fn detect(head: &Head) -> Option<String> {
    let path = head.path().display();
    if head.has_json_paths(responses::KEYS) {
        return Some(format!(
            "\"{path}\" has timings with prompt_ms and predicted_ms of llama.cpp"
        ));
    }
    log::mark(head)
        .map(|mark| format!("\"{path}\" has lines with \"{mark}\" of llama.cpp's server"))
}

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    if input.head().has_json_paths(responses::KEYS) {
        responses::read(input, options, sink)
    } else {
        log::read(input, options, sink)
    }
}

#[cfg(test)]
pub(super) mod tests;
