//! Decode iterations from the server's verbose log.
//!
//! The server begins an iteration with `posting NEXT_RESPONSE`. It then names every slot that decodes
//! (`slot decode token`, with the tokens in its cache) and every slot whose prompt goes on (`cached n_tokens`),
//! decodes one batch of all of them, and prints the tokens that came of it (`next token`). How much of a
//! prompt a batch took shows only in the next iteration, so one iteration is held back.

use std::collections::BTreeMap;

use super::log::Line;
use crate::StepRow;

/// An iteration on the clock of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Iteration {
    begun_ns: i64,
    /// Time of its last token.
    last_token_ns: Option<i64>,
    /// Tokens in the cache of every task that decodes; none where the version does not say.
    decoding: BTreeMap<i64, Option<u64>>,
    /// The part of the prompt that it takes, by task.
    prefilling: BTreeMap<i64, Prefill>,
    new_tokens: u32,
    /// Most tokens in its batch; none if it never came to that.
    batch_tokens: Option<u32>,
}

/// Where in its prompt a task is before an iteration, and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefill {
    from: u32,
    to: Option<u32>,
}

impl Iteration {
    fn begin(begun_ns: i64) -> Self {
        Self {
            begun_ns,
            last_token_ns: None,
            decoding: BTreeMap::new(),
            prefilling: BTreeMap::new(),
            new_tokens: 0,
            batch_tokens: None,
        }
    }
}

/// Finds iterations in the lines of a log.
#[derive(Debug, Default)]
pub(super) struct StepScan {
    current: Option<Iteration>,
    before: Option<Iteration>,
    prompt_tokens: BTreeMap<i64, u32>,
    steps: u64,
    last_end_ns: Option<i64>,
}

impl StepScan {
    /// Begins anew, as the server does, with the next step's number.
    pub(super) fn of_next_start(&self) -> Self {
        Self { steps: self.steps, ..Self::default() }
    }

    /// Takes a line; gives the iterations whose counts are known by now.
    pub(super) fn line(&mut self, line: Line<'_>, uptime_ns: i64) -> Vec<StepRow> {
        if let Some((task, text)) = line.of_task() {
            self.task_line(uptime_ns, task, text);
        } else if line.body.contains("posting NEXT_RESPONSE") {
            return self.begin(uptime_ns);
        } else if line.body.contains("all slots are idle") {
            return self.end(uptime_ns);
        } else if let (Some(most), Some(current)) = (batch_tokens(line.body), &mut self.current) {
            current.batch_tokens.get_or_insert(most);
            let begun_ns = current.begun_ns;
            return self.settle(begun_ns).into_iter().collect();
        }
        Vec::new()
    }

    /// What is left when the log ends or the server has nothing to do.
    pub(super) fn end(&mut self, uptime_ns: i64) -> Vec<StepRow> {
        let mut rows = self.begin(uptime_ns);
        self.current = None;
        rows.extend(self.settle(uptime_ns));
        rows
    }

    fn begin(&mut self, uptime_ns: i64) -> Vec<StepRow> {
        let Some(current) = self.current.replace(Iteration::begin(uptime_ns)) else {
            return Vec::new();
        };
        let settled = self.settle(current.begun_ns);
        self.before = Some(current);
        settled.into_iter().collect()
    }

    fn task_line(&mut self, uptime_ns: i64, task: i64, text: &str) {
        if text.starts_with("new prompt") {
            let tokens =
                number(text, "task.n_tokens = ").or_else(|| number(text, "n_prompt_tokens = "));
            self.prompt_tokens.extend(tokens.map(|tokens| (task, tokens)));
        } else if text.starts_with("stop processing") {
            self.prompt_tokens.remove(&task);
        }
        let prompt_tokens = self.prompt_tokens.get(&task).copied();
        let Some(current) = &mut self.current else { return };
        if text.starts_with("slot decode token") {
            current.decoding.insert(task, number(text, "n_tokens = ").map(u64::from));
        } else if text.starts_with("cached n_tokens = ") {
            let Some(from) = number(text, "cached n_tokens = ") else { return };
            current.prefilling.insert(task, Prefill { from, to: None });
            let earlier = self.before.as_mut().and_then(|before| before.prefilling.get_mut(&task));
            if let Some(earlier) = earlier.filter(|earlier| earlier.from <= from) {
                earlier.to = Some(from);
            }
        } else if text.contains("next token:") {
            current.last_token_ns = Some(uptime_ns);
            if current.decoding.contains_key(&task) {
                current.new_tokens = current.new_tokens.saturating_add(1);
            } else if let Some(prefill) = current.prefilling.get_mut(&task) {
                // The first token of a request comes of its prompt, which is done with it.
                prefill.to = prompt_tokens.or(prefill.to);
            }
        }
    }

    /// The iteration that is held back as a row; `next_ns` is when the next began.
    fn settle(&mut self, next_ns: i64) -> Option<StepRow> {
        let iteration = self.before.take()?;
        let most = iteration.batch_tokens?;
        let active = iteration.decoding.len() + iteration.prefilling.len();
        if active == 0 {
            return None;
        }
        // A batch without a token of its own lasts until the next begins.
        let end_ns = iteration.last_token_ns.unwrap_or(next_ns).max(iteration.begun_ns);
        let start_ns = iteration.begun_ns.max(self.last_end_ns.unwrap_or(i64::MIN)).min(end_ns);
        self.last_end_ns = Some(end_ns);
        let decoding = u32::try_from(iteration.decoding.len()).unwrap_or(u32::MAX);
        let histories: Option<Vec<u64>> = iteration.decoding.values().copied().collect();
        let longest = histories.as_ref().and_then(|histories| histories.iter().max().copied());
        let prefill = iteration.prefilling.iter().map(|(task, prefill)| {
            let rest = self
                .prompt_tokens
                .get(task)
                .map_or(u32::MAX, |all| all.saturating_sub(prefill.from));
            match prefill.to {
                Some(to) => to.saturating_sub(prefill.from),
                // It was given up before it showed: as much as the batch had room for.
                None => rest.min(most.saturating_sub(decoding)),
            }
        });
        let row = StepRow {
            step: self.steps,
            replica: 0,
            t_start_ns: Some(start_ns),
            t_end_ns: end_ns,
            active_sequences: u32::try_from(active).unwrap_or(u32::MAX),
            new_tokens: iteration.new_tokens,
            history_tokens: histories.map(|histories| histories.iter().sum()),
            max_sequence_tokens: longest.and_then(|longest| u32::try_from(longest).ok()),
            prefill_tokens: prefill.fold(0, u32::saturating_add),
            iterations: 1,
            active_experts: None,
            graph_mode: None,
        };
        self.steps += 1;
        Some(row)
    }
}

/// The most tokens of a batch, from the line that says that it is decoded.
fn batch_tokens(text: &str) -> Option<u32> {
    number(text, "n_batch (effective) = ").or_else(|| number(text, "decoding batch, n_tokens = "))
}

/// The whole number behind `key`.
fn number(text: &str, key: &str) -> Option<u32> {
    let (_, rest) = text.split_once(key)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}
