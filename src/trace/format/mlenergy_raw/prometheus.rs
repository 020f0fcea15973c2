//! `prometheus.json`: the engine's metrics as text, scrape by scrape.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};

use super::super::clock::epoch_clock;
use super::super::json::{Elements, Failure, Fields};
use super::super::json_objects::objects;
use super::super::{EngineValue, ImportOptions, Input, Part, Sink, quantity};
use crate::{EngineRow, TraceError};

/// What tells this file.
pub(super) const KEYS: &[&str] = &["collection_interval", "timeline.timestamp", "timeline.metrics"];

/// Times are floats of seconds since 1970, which step by this.
const RESOLUTION_NS: u64 = 238;

#[derive(Debug, Deserialize)]
struct Scrape {
    timestamp: f64,
    metrics: Option<String>,
}

struct Document<'a> {
    input: &'a Input,
    options: &'a ImportOptions,
    sink: &'a mut dyn Sink,
    failure: Failure,
    part: Part,
    rows: u64,
    not_numbers: u64,
}

pub(super) fn read(
    input: &Input,
    options: &ImportOptions,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    sink.begin(&input.stem())?;
    let failure = Failure::default();
    let part = Part { clock: epoch_clock(RESOLUTION_NS), ..Part::default() };
    let mut document =
        Document { input, options, sink, failure: failure.clone(), part, rows: 0, not_numbers: 0 };
    objects(input, &failure, &mut document)?;
    if document.rows == 0 {
        return Err(input.error(None, "holds no value of a metric; expected a timeline of scrapes"));
    }
    if document.not_numbers > 0 {
        document
            .part
            .notes
            .push(format!("values of metrics that are not finite, null: {}", document.not_numbers));
    }
    document.sink.end(document.part)
}

impl Fields for Document<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key != "timeline" {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        }
        let failure = self.failure.clone();
        map.next_value_seed(Elements::new(&failure, |index, scrape| self.scrape(index, &scrape)))
    }
}

impl Document<'_> {
    fn scrape(&mut self, index: usize, scrape: &Scrape) -> Result<(), TraceError> {
        let number = index as u64 + 1;
        let skip = |part: &mut Part, message| {
            let (strict, path) = (self.options.strict, self.input.path());
            part.skipped.add(strict, path, number, "values, by scrape counted from 1,", message)
        };
        let t_ns = match quantity::epoch_seconds(scrape.timestamp) {
            Ok(t_ns) => t_ns,
            Err(message) => return skip(&mut self.part, format!("timestamp: {message}")),
        };
        for line in scrape.metrics.iter().flat_map(|metrics| metrics.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some(EngineValue { name, labels, value }) = EngineValue::parse(line) else {
                let message = format!("\"{}\" is no value of a metric", line.escape_debug());
                skip(&mut self.part, message)?;
                continue;
            };
            self.not_numbers += u64::from(value.is_none());
            self.rows += 1;
            self.sink.engine(EngineRow {
                t_ns,
                name: name.to_owned(),
                labels: labels.map(str::to_owned),
                value,
            })?;
        }
        Ok(())
    }
}
