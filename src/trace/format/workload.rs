//! Request traces: when requests arrive, and how long their prompts and answers are. They are no runs but
//! the input of one: the simulator and load generators take them.
//!
//! Two formats are read, told apart by content, plain or compressed: the Azure LLM inference traces (CSV
//! with `TIMESTAMP,ContextTokens,GeneratedTokens`) and Mooncake's (a line of JSON a request, with
//! `timestamp` in milliseconds, `input_length` and `output_length`).

use std::path::Path;

use serde::Deserialize;

use super::clock::Stamp;
use super::delimited::{Dialect, Header, Row, Rows};
use super::token_count::TokenCount;
use super::{Input, Skipped, json, quantity};
use crate::TraceError;

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkloadRequest {
    /// When it arrives, nanoseconds after the first request.
    pub offset_ns: u64,
    /// Tokens of its prompt, at least one.
    pub input_tokens: u32,
    /// Tokens of its answer, at least one.
    pub output_tokens: u32,
}

/// A request trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Which format it was: `azure-llm-inference` or `mooncake`.
    pub format: &'static str,
    /// In the order of arrival; the first has offset zero. Never empty.
    pub requests: Vec<WorkloadRequest>,
    /// What was left out or decided, with line numbers.
    pub notes: Vec<String>,
}

/// Reads a request trace.
///
/// # Errors
/// When the file cannot be read, is of neither format, or holds no request.
pub fn read(path: &Path) -> Result<Workload, TraceError> {
    let input = Input::new(path);
    let head = input.head();
    let mut trace = Trace { input: &input, arrivals: Vec::new(), skipped: Skipped::default() };
    let format = if head.has_json_paths(&["timestamp", "input_length", "output_length"]) {
        trace.mooncake()?;
        "mooncake"
    } else if head.lines().next().is_some_and(is_azure_header) {
        trace.azure()?;
        "azure-llm-inference"
    } else {
        // An absent file is told as such before its content is judged.
        input.open()?;
        return Err(input.error(
            None,
            "is no request trace; expected CSV with the columns TIMESTAMP, ContextTokens and \
             GeneratedTokens, or lines of JSON with timestamp, input_length and output_length",
        ));
    };
    trace.finish(format)
}

fn is_azure_header(line: &str) -> bool {
    let names: Vec<&str> = line.split(',').map(str::trim).collect();
    COLUMNS.iter().all(|column| names.contains(column))
}

const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

/// A request at its own time.
struct Arrival {
    t_ns: i64,
    input_tokens: u32,
    output_tokens: u32,
}

impl Arrival {
    fn new(t_ns: i64, input_tokens: u32, output_tokens: u32) -> Result<Self, String> {
        if input_tokens == 0 || output_tokens == 0 {
            return Err(format!(
                "has {input_tokens} tokens of input and {output_tokens} of output; expected at least one of \
                 each"
            ));
        }
        Ok(Self { t_ns, input_tokens, output_tokens })
    }
}

struct Trace<'a> {
    input: &'a Input,
    arrivals: Vec<Arrival>,
    skipped: Skipped,
}

impl Trace<'_> {
    fn add(&mut self, line: u64, arrival: Result<Arrival, String>) -> Result<(), TraceError> {
        match arrival {
            Ok(arrival) => {
                self.arrivals.push(arrival);
                Ok(())
            }
            Err(message) => self.skipped.add(false, self.input.path(), line, "requests", message),
        }
    }

    fn azure(&mut self) -> Result<(), TraceError> {
        let mut rows = Rows::open(self.input, Dialect::COMMA)?;
        let Some(first) = rows.next_row()? else { return Ok(()) };
        let header = Header::new(&first);
        let mut places = [0; 3];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = header
                .require(column)
                .map_err(|message| self.input.error(Some(first.line), message))?;
        }
        while let Some(row) = rows.next_row()? {
            if !header.repeats(&row) {
                self.add(row.line, azure_arrival(&row, places))?;
            }
        }
        Ok(())
    }

    fn mooncake(&mut self) -> Result<(), TraceError> {
        let input = self.input;
        json::lines::<Mooncake>(input, |line, record| {
            let arrival = record.and_then(|record| {
                let t_ns = quantity::nanos(record.timestamp, "ms")
                    .map_err(|problem| format!("timestamp: {problem}"))?;
                let (TokenCount(input), TokenCount(output)) =
                    (record.input_length, record.output_length);
                Arrival::new(t_ns, input, output)
            });
            self.add(line, arrival)
        })
    }

    fn finish(mut self, format: &'static str) -> Result<Workload, TraceError> {
        let mut notes = self.skipped.notes(self.input.path());
        let Some(first_ns) = self.arrivals.iter().map(|arrival| arrival.t_ns).min() else {
            let mut message = "holds no request".to_owned();
            for note in notes {
                message += &format!("; {note}");
            }
            return Err(self.input.error(None, message));
        };
        let unsorted = self.arrivals.windows(2).filter(|pair| pair[1].t_ns < pair[0].t_ns).count();
        if unsorted > 0 {
            notes.push(format!(
                "{}: requests earlier than the one before, sorted by time: {unsorted}",
                self.input.file_name()
            ));
        }
        // Stable, so that requests of one instant keep their order.
        self.arrivals.sort_by_key(|arrival| arrival.t_ns);
        let requests = self
            .arrivals
            .iter()
            .map(|arrival| WorkloadRequest {
                offset_ns: arrival.t_ns.abs_diff(first_ns),
                input_tokens: arrival.input_tokens,
                output_tokens: arrival.output_tokens,
            })
            .collect();
        Ok(Workload { format, requests, notes })
    }
}

#[derive(Debug, Deserialize)]
struct Mooncake {
    /// Milliseconds since the beginning of the trace.
    timestamp: f64,
    input_length: TokenCount,
    output_length: TokenCount,
}

fn azure_arrival(row: &Row, [time, input, output]: [usize; 3]) -> Result<Arrival, String> {
    let cell = |place: usize, column: &str| {
        row.get(place).filter(|cell| !cell.is_empty()).ok_or_else(|| format!("has no {column}"))
    };
    let text = cell(time, COLUMNS[0])?;
    // Only differences count, so that a time without a zone may stand for one of any zone.
    let t_ns = match Stamp::parse(text) {
        Some(Stamp::Instant(nanos)) => nanos,
        Some(Stamp::Local(local)) => utc_nanos(local).ok_or_else(|| not_a_time(text))?,
        None => return Err(not_a_time(text)),
    };
    let tokens = |place: usize, column: &str| {
        let cell = cell(place, column)?;
        cell.parse::<u32>().map_err(|_| {
            format!("{column} is \"{}\"; expected a number of tokens", cell.escape_debug())
        })
    };
    Arrival::new(t_ns, tokens(input, COLUMNS[1])?, tokens(output, COLUMNS[2])?)
}

fn not_a_time(text: &str) -> String {
    format!("TIMESTAMP is \"{}\"; expected a date and time", text.escape_debug())
}

fn utc_nanos(local: jiff::civil::DateTime) -> Option<i64> {
    let instant = jiff::tz::TimeZone::UTC.to_timestamp(local).ok()?;
    i64::try_from(instant.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests;
