//! The steps of a decode window, added up.

use std::collections::BTreeSet;

use wattrace_schema::{Flag, FlagSet, Interval, Reason, Requests, Run, Steps};

/// How a row of the step log lies to the decode window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Inside,
    Straddling,
    Outside,
}

/// A step is inside when it neither begins before the window nor ends after it. Without a start, its
/// end alone decides: it ended inside, after the very beginning.
pub(crate) fn place(steps: &Steps, index: usize, window: Interval) -> Place {
    let end_ns = steps.t_end_ns[index];
    let start_ns = steps.t_start_ns[index];
    let begins_inside = match start_ns {
        Some(start_ns) => window.start_ns <= start_ns,
        None => window.start_ns < end_ns,
    };
    if begins_inside && end_ns <= window.end_ns {
        return Place::Inside;
    }
    let overlaps =
        start_ns.is_some_and(|start_ns| start_ns < window.end_ns) && end_ns > window.start_ns;
    if overlaps { Place::Straddling } else { Place::Outside }
}

/// Totals of the steps inside a decode window.
#[derive(Debug, Clone)]
pub(super) struct StepTotals {
    pub(super) window: Interval,
    /// Rows inside.
    pub(super) rows: usize,
    /// Useful tokens.
    pub(super) tokens: u64,
    /// Iterations, at least one.
    pub(super) iterations: u64,
    /// History before every token, or why it is not known.
    pub(super) history_tokens: Result<u128, Reason>,
    /// Rows partly inside, left out.
    pub(super) straddling: u64,
    /// What a reader must know.
    pub(super) flags: FlagSet,
}

impl StepTotals {
    /// Adds up the steps of `run` inside `window`.
    ///
    /// # Errors
    /// [`Reason::NoSteps`] when there is no iteration inside.
    pub(super) fn of(run: &Run, window: Interval) -> Result<Self, Reason> {
        let steps = run.steps.as_ref().ok_or(Reason::NoSteps)?;
        let mut totals = Self {
            window,
            rows: 0,
            tokens: 0,
            iterations: 0,
            history_tokens: Ok(0),
            straddling: 0,
            flags: FlagSet::EMPTY,
        };
        let mut replicas = BTreeSet::new();
        let mut last: Option<(u16, i64)> = None;
        for index in 0..steps.len() {
            match place(steps, index, window) {
                Place::Outside => continue,
                Place::Straddling => totals.straddling += 1,
                Place::Inside => {
                    totals.add(steps, index);
                    replicas.insert(steps.replica[index]);
                    totals.flags.insert_if(overlaps(steps, index, last), Flag::OverlappingSteps);
                    last = Some((steps.replica[index], steps.t_end_ns[index]));
                }
            }
            // A prompt in a straddling step draws power inside the window as well.
            totals.flags.insert_if(steps.prefill_tokens[index] > 0, Flag::MixedPrefill);
        }
        if totals.iterations == 0 {
            return Err(Reason::NoSteps);
        }
        totals.flags.insert_if(totals.straddling > 0, Flag::StraddlingSteps);
        let declared = run.manifest.engine.replicas.unwrap_or(1);
        let as_declared = usize::try_from(declared) == Ok(replicas.len());
        totals.flags.insert_if(!as_declared, Flag::ReplicaCountMismatch);
        let logs_agree = tokens_agree(run.requests.as_ref(), steps, totals.tokens);
        totals.flags.insert_if(!logs_agree, Flag::TokenMismatch);
        Ok(totals)
    }

    fn add(&mut self, steps: &Steps, index: usize) {
        self.rows += 1;
        self.tokens += u64::from(steps.new_tokens[index]);
        self.iterations += u64::from(steps.iterations[index]);
        self.flags.insert_if(steps.t_start_ns[index].is_none(), Flag::StepStartMissing);
        self.history_tokens = match (self.history_tokens, steps.history_tokens[index]) {
            (Ok(sum), Some(history)) => Ok(sum + u128::from(history)),
            // A step without a sequence reads no history, whether the log says so or not.
            (sum, None) if steps.new_tokens[index] == 0 => sum,
            _ => Err(Reason::NoHistory),
        };
    }

    /// Tokens as a divisor: never zero.
    pub(super) fn tokens_for_ratio(&self) -> Result<f64, Reason> {
        if self.tokens == 0 { Err(Reason::NoOutputTokens) } else { Ok(self.tokens as f64) }
    }
}

/// Whether a step begins before the last one of its replica ended; steps come in the order of replica,
/// then end.
fn overlaps(steps: &Steps, index: usize, last: Option<(u16, i64)>) -> bool {
    let Some((replica, last_end_ns)) = last else { return false };
    replica == steps.replica[index]
        && steps.t_start_ns[index].is_some_and(|start_ns| start_ns < last_end_ns)
}

/// Whether the request log allows the step log's tokens: the formal requests' output tokens, less the
/// first of each, which prefill made, are those of the window or those of the whole step log (the
/// window may be cut from the middle of a longer run). A log that does not say cannot disagree.
fn tokens_agree(requests: Option<&Requests>, steps: &Steps, in_window: u64) -> bool {
    let Some(requests) = requests else { return true };
    let mut expected = 0;
    for index in (0..requests.len()).filter(|index| requests.is_formal(*index)) {
        let Some(output) = requests.output_tokens[index] else { return true };
        expected += u64::from(output.saturating_sub(1));
    }
    let logged: u64 = steps.new_tokens.iter().map(|tokens| u64::from(*tokens)).sum();
    expected == in_window || expected == logged
}
