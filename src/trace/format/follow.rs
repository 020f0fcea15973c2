//! Logs of decode iterations that are read while an engine writes them. The rules are those of the
//! importers: the same readers, fed line by line, which date lines by when they were seen.

use std::path::Path;

use super::{Format, Head, Line, Reader, Seen, Sink, llamacpp, sglang_log, trtllm_stats, vllm_log};
use crate::TraceError;

/// Reads a log line by line. Steps whose times are not settled yet are held back.
pub trait LogReader: Send {
    /// Takes from a line that was written before the recording what it says of the engine's settings; no
    /// row comes of it.
    fn settings(&mut self, text: &str);

    /// Takes a line that was just written.
    ///
    /// # Errors
    /// Those of `sink`.
    fn line(&mut self, line: Line<'_>, seen: Seen, sink: &mut dyn Sink) -> Result<(), TraceError>;

    /// Gives the steps that ended before `horizon_ns`, which should lie a few seconds back.
    ///
    /// # Errors
    /// Those of `sink`.
    fn settle(&mut self, horizon_ns: i64, sink: &mut dyn Sink) -> Result<(), TraceError>;

    /// Gives what was held back, and ends the part that the caller need not have begun.
    ///
    /// # Errors
    /// Those of `sink`, and a message if the log held nothing of its format.
    fn finish(self: Box<Self>, sink: &mut dyn Sink) -> Result<(), TraceError>;
}

/// A log of decode iterations.
#[derive(Debug, Clone, Copy)]
pub struct StepLog {
    /// The engine that writes it, as the command line names it.
    pub name: &'static str,
    /// Its importer.
    pub format: &'static Format,
    /// Begins to read the log at a path, which is for messages only.
    pub follow: fn(path: &Path) -> Box<dyn LogReader>,
}

/// Every such log, by name.
pub const STEP_LOGS: &[StepLog] = &[
    StepLog { name: "llamacpp", format: &llamacpp::FORMAT, follow: llamacpp::follow },
    StepLog { name: "sglang", format: &sglang_log::FORMAT, follow: sglang_log::follow },
    StepLog { name: "trtllm", format: &trtllm_stats::FORMAT, follow: trtllm_stats::follow },
    StepLog { name: "vllm", format: &vllm_log::FORMAT, follow: vllm_log::follow },
];

/// The log of that engine.
#[must_use]
pub fn find_step_log(name: &str) -> Option<&'static StepLog> {
    STEP_LOGS.iter().find(|log| log.name == name)
}

/// The log that `bytes`, whole lines of the file at `path`, are of.
#[must_use]
pub fn detect_step_log(path: &Path, bytes: &[u8]) -> Option<&'static StepLog> {
    let head = Head::new(path, bytes.to_vec());
    STEP_LOGS.iter().find(|log| match log.format.reader {
        Reader::Parts { detect, .. } => detect(&head).is_some(),
        Reader::Runs { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Collected, nanos};
    use super::*;

    const MS: i64 = 1_000_000;

    /// Reads bytes of which every line was seen 50 ms after `at`, in looks of 100 ms.
    fn followed(bytes: &[u8], mut at: impl FnMut(&str) -> i64) -> Collected {
        let path = Path::new("engine.log");
        let text = std::str::from_utf8(bytes).unwrap();
        let log = text.lines().find_map(|line| detect_step_log(path, line.as_bytes())).unwrap();
        let mut reader = (log.follow)(path);
        let mut collected = Collected::default();
        collected.names.push(log.name.to_owned());
        for (line, number) in text.lines().zip(1..) {
            let at_ns = at(line) + 50 * MS;
            let seen = Seen { since_ns: at_ns - 100 * MS, at_ns, wall_offset_ns: 0 };
            let line = Line { number, text: Ok(line), ended: true };
            reader.line(line, seen, &mut collected).unwrap();
            reader.settle(at_ns - 3_000 * MS, &mut collected).unwrap();
        }
        reader.finish(&mut collected).unwrap();
        collected
    }

    #[test]
    fn the_log_of_llamacpp_is_placed_by_when_its_lines_were_seen() {
        let start_ns = nanos("2026-01-31T12:00:00Z");
        // The third field of a stamp is milliseconds.
        let collected = followed(llamacpp::tests::STEPS, |line| {
            let mut fields =
                line.split(['.', ' ']).skip(1).map(|field| field.parse::<i64>().unwrap());
            start_ns + (fields.next().unwrap() * 1000 + fields.next().unwrap()) * MS
        });
        assert_eq!(collected.names, ["llamacpp"]);
        assert_eq!(collected.steps.len(), 4);
        // Each look lies 50 ms before and after its line, so the middle is right but for the microseconds
        // that are cut off here.
        let off = collected.steps[3].t_end_ns - start_ns - 1480 * MS;
        assert!(off.abs() < MS, "{off}");
        assert_eq!(collected.steps[3].history_tokens, Some(143));
        assert!(collected.requests.is_empty());
        assert!(
            collected.parts[0].notes[0]
                .starts_with("4 steps; stamps count from the server's start")
        );
    }

    /// The server writes its log, is gone, and ten minutes after the first start writes it once more: every
    /// step comes twice, ten minutes apart.
    #[test]
    fn a_server_of_llamacpp_that_is_started_again_counts_from_zero() {
        let steps = std::str::from_utf8(llamacpp::tests::STEPS).unwrap();
        let text = format!("{steps}0.05.000.000 I srv  update_slots: all slots are idle\n");
        let starts = [nanos("2026-01-31T12:00:00Z"), nanos("2026-01-31T12:10:00Z")];
        let lines = text.lines().count();
        let mut read = 0;
        let collected = followed(format!("{text}{text}").as_bytes(), |line| {
            let mut fields =
                line.split(['.', ' ']).skip(1).map(|field| field.parse::<i64>().unwrap());
            let start_ns = starts[usize::from(read >= lines)];
            read += 1;
            start_ns + (fields.next().unwrap() * 1000 + fields.next().unwrap()) * MS
        });
        let steps = &collected.steps;
        assert_eq!(steps.len(), 8);
        assert_eq!(
            steps.iter().map(|step| step.step).collect::<Vec<_>>(),
            (0..8).collect::<Vec<_>>()
        );
        for (first, second) in steps[..4].iter().zip(&steps[4..]) {
            assert_eq!(second.t_end_ns - first.t_end_ns, starts[1] - starts[0]);
            assert_eq!(second.history_tokens, first.history_tokens);
        }
        let note = &collected.parts[0].notes[1];
        assert!(note.contains("started again while its log was followed: 1 times"), "{note}");
    }

    #[test]
    fn statistics_of_tensorrt_llm_may_lack_a_stamp_or_break() {
        let line = |stamp: &str, iter: u32| {
            format!(
                "[{{\"timestamp\":\"{stamp}\",\"iter\":{iter},\"iterLatencyMS\":10.0,\"numActiveRequests\":2,\
                 \"inflightBatchingStats\":{{\"numGenRequests\":2,\"numCtxTokens\":0}}}}]"
            )
        };
        let (first, broken) = (line("01-31-2026 04:00:00.250000", 1), &line("", 2)[..40]);
        let text = format!("{first}\n{broken}\n{}\n", line("", 5));
        let now = nanos("2026-01-31T12:00:00.3Z");
        let collected = followed(text.as_bytes(), |_| now);
        let ends: Vec<i64> = collected.steps.iter().map(|step| step.t_end_ns).collect();
        // Los Angeles; then the middle of the look.
        assert_eq!(ends, [now - 50 * MS, now]);
        let part = &collected.parts[0];
        assert_eq!(part.skipped.count(), 1);
        let has = |text: &str| part.notes.iter().any(|note| note.contains(text));
        assert!(has("iterations missing between those that were polled: 3"), "{:?}", part.notes);
        assert!(has("dated by when they were seen, at most 50 ms off"), "{:?}", part.notes);
    }
}
