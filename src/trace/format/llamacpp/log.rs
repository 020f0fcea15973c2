//! The server's log. Lines carry the time since the start of the server as minutes, seconds, milliseconds
//! and microseconds (`10.04.883.980 I …`) in newer versions, and none in older ones.

use std::collections::BTreeMap;

use wattrace_schema::{ClockBase, Engine, InputClock, Model, RequestStatus};

use super::super::placement::{Extent, Placement};
use super::super::request_row::bare_request;
use super::super::{Head, ImportOptions, Input, Part, Sink};
use super::responses::timed;
use super::steps::StepScan;
use crate::{RequestRow, StepRow, TraceError};

/// What only llama.cpp's server writes.
const MARKS: [&str; 4] = [
    "slot print_timing: id",
    "slot launch_slot_: id",
    "llama_model_loader: ",
    "srv    load_model: ",
];

/// The mark that the log has, if it is one.
pub(super) fn mark(head: &Head) -> Option<&'static str> {
    if head.is_json() {
        return None;
    }
    MARKS.into_iter().find(|mark| head.text().contains(mark))
}

/// A line without its stamp and level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) uptime_ns: Option<i64>,
    pub(super) body: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let line = Self::stamped(text).unwrap_or(Self { uptime_ns: None, body: text });
        line.glued().unwrap_or(line)
    }

    fn stamped(text: &'a str) -> Option<Self> {
        let (stamp, rest) = text.trim_start().split_once(' ')?;
        let uptime_ns = uptime_ns(stamp)?;
        let (level, body) = rest.split_once(' ')?;
        (level.len() == 1).then_some(Self { uptime_ns: Some(uptime_ns), body })
    }

    /// The line that begins within this one, where the server printed a message without a line end.
    fn glued(self) -> Option<Self> {
        let at = [" D slot ", " I slot ", " D srv ", " I srv "]
            .iter()
            .find_map(|mark| self.body.find(mark))?;
        let is_stamp = |c: char| c.is_ascii_digit() || c == '.';
        let stamp = self.body[..at].trim_end_matches(is_stamp).len();
        Self::stamped(self.body[stamp..].trim_start_matches('.'))
    }

    /// Slot and task of a line `slot function: id  0 | task 7 | text`, and the text.
    pub(super) fn of_task(self) -> Option<(i64, &'a str)> {
        let rest = self.body.trim_start().strip_prefix("slot ")?;
        let (_, rest) = rest.split_once("| task ")?;
        let (task, text) = rest.split_once('|')?;
        Some((task.trim().parse().ok()?, text.trim()))
    }
}

/// `minutes.SS.mmm.uuu`
fn uptime_ns(stamp: &str) -> Option<i64> {
    let mut parts = stamp.split('.');
    let mut part = |digits: Option<usize>| -> Option<i64> {
        let text = parts.next()?;
        let fits =
            digits.map_or(!text.is_empty() && text.len() <= 9, |digits| text.len() == digits);
        (fits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (minutes, seconds, millis, micros) =
        (part(None)?, part(Some(2))?, part(Some(3))?, part(Some(3))?);
    if parts.next().is_some() {
        return None;
    }
    Some((((minutes * 60 + seconds) * 1000 + millis) * 1000 + micros) * 1000)
}

/// The text behind `key`, up to a comma.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    Some(rest.split(',').next().unwrap_or(rest).trim())
}

/// Milliseconds and tokens of `… time = 120.00 ms / 64 tokens (…)`.
fn time_and_tokens(text: &str) -> Option<(f64, u32)> {
    let (ms, rest) = text.split_once(" ms /")?;
    let tokens = rest.split_whitespace().next()?;
    Some((ms.trim().parse().ok()?, tokens.parse().ok()?))
}

/// A request while its lines come.
#[derive(Debug, Default)]
struct Task {
    started_ns: Option<i64>,
    prompt_tokens: Option<u32>,
    cached_tokens: u32,
    prompt: Option<(f64, u32)>,
    generation: Option<(f64, u32)>,
    token_times: Vec<i64>,
    cancelled: bool,
}

impl Task {
    /// The request on the clock of the log.
    fn row(self, task: i64, ended_ns: Option<i64>, is_cut: bool) -> Result<RequestRow, String> {
        let mut row = bare_request(format!("task-{task}"));
        row.input_tokens = self
            .prompt_tokens
            .or(self.prompt.and_then(|(_, tokens)| tokens.checked_add(self.cached_tokens)));
        let seen = u32::try_from(self.token_times.len()).ok().filter(|tokens| *tokens > 0);
        row.output_tokens = self.generation.map(|(_, tokens)| tokens).or(seen);
        if is_cut {
            row.status = RequestStatus::Cancelled;
            row.error = Some("the log ends before the request does".into());
        } else if self.cancelled {
            row.status = RequestStatus::Cancelled;
        }
        if !self.token_times.is_empty() {
            let gaps =
                self.token_times.windows(2).map(|pair| u64::try_from(pair[1] - pair[0]).ok());
            row.itl_ns = Some(gaps.collect::<Option<_>>().ok_or("times of tokens run backwards")?);
        }
        let prompt_ms = self.prompt.map(|(ms, _)| ms);
        let generation_ms = self.generation.map(|(ms, _)| ms);
        let Some(started_ns) = self.started_ns else { return timed(row, prompt_ms, generation_ms) };
        let timed = timed(row, prompt_ms, generation_ms)?;
        let after = |duration: Option<u64>| {
            duration.and_then(|duration| started_ns.checked_add_unsigned(duration))
        };
        let last = self.token_times.last().copied();
        Ok(RequestRow {
            t_send_ns: Some(started_ns),
            t_first_token_ns: self.token_times.first().copied().or_else(|| after(timed.ttft_ns)),
            // The last token comes before the slot is released.
            t_end_ns: last.or_else(|| after(timed.e2e_ns)).or(ended_ns),
            ttft_ns: None,
            e2e_ns: None,
            ..timed
        })
    }
}

/// What the log says besides requests.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) model: Model,
    pub(super) version: Option<String>,
    rounded_params: Option<String>,
    lines: u64,
    has_stamps: bool,
}

impl Facts {
    pub(super) fn take(&mut self, body: &str) {
        let body = body.trim_start();
        if let Some(fact) = body.strip_prefix("print_info: ") {
            if let Some((key, value)) = fact.split_once('=') {
                self.print_info(key.trim(), value.trim());
            }
        } else if let Some((_, path)) = body.split_once("loading model '") {
            let path = path.trim_end().trim_end_matches('\'');
            let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
            self.model.name = name.to_owned();
        } else if let Some((_, build)) = body.split_once("build_info: ") {
            self.version = Some(build.trim().to_owned());
        }
    }

    fn print_info(&mut self, key: &str, value: &str) {
        let number = || value.parse().ok().filter(|number: &u32| *number > 0);
        let model = &mut self.model;
        match key {
            "n_layer" => model.layers = number(),
            "n_embd" => model.hidden_size = number(),
            "n_head" => model.attention_heads = number(),
            "n_head_kv" => model.kv_heads = number(),
            "n_embd_head_k" => model.head_dim = number(),
            "n_ff" => model.intermediate_size = number(),
            "n_vocab" => model.vocab_size = number(),
            "file type" => model.dtype = Some(value.to_owned()),
            "model params" => self.rounded_params = Some(value.to_owned()),
            _ => {}
        }
    }
}

/// What a log holds, on its own clock.
enum Found {
    /// A request, or what is wrong with it.
    Request(Result<RequestRow, String>),
    Step(StepRow),
}

/// Reads the log; `each` gets the number of the line at which a request or a step ended, and which.
fn scan(
    input: &Input,
    each: &mut dyn FnMut(u64, Found) -> Result<(), TraceError>,
) -> Result<Facts, TraceError> {
    let mut facts = Facts::default();
    let mut steps = StepScan::default();
    let mut last_ns = 0;
    let mut tasks: BTreeMap<i64, Task> = BTreeMap::new();
    let mut timing_task = None;
    let mut lines = input.lines()?;
    while let Some(line) = lines.next_line()? {
        facts.lines = line.number;
        // Prompts are printed as they are; bytes that are no text hold no timing.
        let Ok(text) = line.text else { continue };
        let parsed = Line::parse(text);
        facts.has_stamps |= parsed.uptime_ns.is_some();
        if let Some(uptime_ns) = parsed.uptime_ns {
            last_ns = uptime_ns;
            for row in steps.line(parsed, uptime_ns) {
                each(line.number, Found::Step(row))?;
            }
        }
        if let Some((task, text)) = parsed.of_task() {
            if parsed.body.trim_start().starts_with("slot print_timing") {
                timing_task = Some(task);
            }
            let ended = tasks.entry(task).or_default().take(parsed.uptime_ns, text);
            if ended {
                let task_state = tasks.remove(&task).unwrap_or_default();
                if task_state.is_request() {
                    each(
                        line.number,
                        Found::Request(task_state.row(task, parsed.uptime_ns, false)),
                    )?;
                }
            }
        } else if let Some(task) = cancelled_task(parsed.body) {
            tasks.entry(task).or_default().cancelled = true;
        } else if let Some(state) = timing_task.and_then(|task| tasks.get_mut(&task)) {
            // Older versions print the times below the line that names the task.
            state.times(parsed.body.trim());
        }
        facts.take(parsed.body);
    }
    for row in steps.end(last_ns) {
        each(facts.lines, Found::Step(row))?;
    }
    for (task, state) in tasks {
        if state.is_request() {
            each(facts.lines, Found::Request(state.row(task, None, true)))?;
        }
    }
    Ok(facts)
}

fn cancelled_task(body: &str) -> Option<i64> {
    let (_, task) = body.split_once("cancel task, id_task = ")?;
    task.trim().parse().ok()
}

impl Task {
    /// Takes a line of this task; says whether the slot was released.
    fn take(&mut self, uptime_ns: Option<i64>, text: &str) -> bool {
        if text.starts_with("processing task") {
            self.started_ns = uptime_ns;
        } else if text.starts_with("new prompt") {
            let tokens =
                value(text, "task.n_tokens = ").or_else(|| value(text, "n_prompt_tokens = "));
            self.prompt_tokens = tokens.and_then(|tokens| tokens.parse().ok());
        } else if text.starts_with("cached n_tokens = ") {
            let cached = value(text, "cached n_tokens = ");
            self.cached_tokens = cached.and_then(|tokens| tokens.parse().ok()).unwrap_or_default();
        } else if text.contains("next token:") {
            self.token_times.extend(uptime_ns);
        } else if text.starts_with("stop processing") {
            return true;
        }
        self.times(text);
        false
    }

    fn times(&mut self, text: &str) {
        if let Some((_, rest)) = text.split_once("prompt eval time =") {
            self.prompt = time_and_tokens(rest);
        } else if let Some((_, rest)) = text.split_once("eval time =") {
            self.generation = time_and_tokens(rest);
        }
    }

    /// Slots also load and restore states as tasks.
    fn is_request(&self) -> bool {
        self.prompt.is_some()
            || self.generation.is_some()
            || !self.token_times.is_empty()
            || self.prompt_tokens.is_some()
    }
}

pub(super) fn read(
    input: &Input,
    options: &ImportOptions,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    let placement = Placement::of(options, input, || {
        let mut extent = Extent::default();
        scan(input, &mut |_, found| {
            if let Found::Request(Ok(row)) = found {
                extent.add(&row);
            }
            Ok(())
        })?;
        Ok(extent)
    })?;
    sink.begin(&input.stem())?;
    let mut part = Part::default();
    let mut rows = 0_u64;
    let mut steps = 0_u64;
    let facts = scan(input, &mut |line, found| {
        let row = match found {
            Found::Request(row) => row,
            Found::Step(row) => {
                steps += 1;
                return match placement.place_step(row) {
                    Some(row) => sink.step(row),
                    None => Ok(()),
                };
            }
        };
        let placed = row
            .and_then(|row| if row.t_send_ns.is_some() { placement.place(row) } else { Ok(row) });
        match placed {
            Ok(row) => {
                rows += 1;
                sink.request(row)
            }
            Err(message) => {
                part.skipped.add(options.strict, input.path(), line, "requests", message)
            }
        }
    })?;
    if rows == 0 {
        return Err(input.error(
            None,
            format!(
                "holds no request: none was processed by line {}, the last; expected lines with \
                 \"slot print_timing\"",
                facts.lines
            ),
        ));
    }
    part.clock = if facts.has_stamps {
        placement.clock(ClockBase::Relative, 1_000)
    } else {
        InputClock::default()
    };
    if facts.has_stamps {
        part.notes.extend(placement.note());
    }
    part.notes.push(
        "a request begins when a slot takes it, so time in the queue is not in it; its end is its last token"
            .into(),
    );
    if steps > 0 && matches!(placement, Placement::Unknown) {
        part.notes
            .push(format!("steps without a time, since no anchor is named, left out: {steps}"));
    }
    if let Some(params) = facts.rounded_params {
        part.notes
            .push(format!("the log rounds the parameters to {params}, so total_params is null"));
    }
    part.engine =
        Engine { name: Some("llama.cpp".into()), version: facts.version, ..Engine::default() };
    part.model = facts.model;
    sink.end(part)
}
