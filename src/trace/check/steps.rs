//! Rules about decode iterations.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use wattrace_schema::tables::{STEPS, step_column};
use wattrace_schema::{RunManifest, Steps};

use super::device::seconds;
use super::{Place, Report};
use crate::reader::steps::compare_sort_key;

/// Reports every row for which `problem` gives one, as one finding.
fn each(
    steps: &Steps,
    report: &mut Report,
    column: &'static str,
    what: &str,
    expected: &str,
    problem: impl Fn(usize) -> Option<String>,
) {
    let broken = (0..steps.len()).filter_map(|index| {
        let problem = problem(index)?;
        let (step, replica) = (steps.step[index], steps.replica[index]);
        Some((index as u64, format!("step {step} of replica {replica} {problem}")))
    });
    let place = Place::file(STEPS.file).column(column);
    report.add_rows(place, steps.len(), what, broken, expected);
}

/// Readers do not rely on the order, so it is worth no more than a note.
pub(super) fn order(_: &RunManifest, steps: &Steps, report: &mut Report) {
    let unsorted =
        (1..steps.len()).find(|row| compare_sort_key(steps, row - 1, *row) == Ordering::Greater);
    if let Some(row) = unsorted {
        let message =
            format!("rows are not sorted by {}; no value depends on it", STEPS.sort_key.join(", "));
        report.add(Place::file(STEPS.file).row(row as u64), message);
    }
}

pub(super) fn unique(_: &RunManifest, steps: &Steps, report: &mut Report) {
    let mut seen = BTreeSet::new();
    let repeated: Vec<bool> =
        steps.replica.iter().zip(&steps.step).map(|step| !seen.insert(step)).collect();
    each(steps, report, step_column::step, "rows repeat a step", "numbers that differ", |index| {
        repeated[index].then(|| "was there before".to_owned())
    });
}

pub(super) fn times(_: &RunManifest, steps: &Steps, report: &mut Report) {
    let what = "rows end before they start";
    each(steps, report, step_column::t_end, what, "t_start <= t_end", |index| {
        let early = steps.t_start_ns[index]?.saturating_sub(steps.t_end_ns[index]);
        (early > 0).then(|| format!("ends {} before it starts", seconds(early)))
    });
}

pub(super) fn overlap(_: &RunManifest, steps: &Steps, report: &mut Report) {
    let mut order: Vec<usize> =
        (0..steps.len()).filter(|index| steps.t_start_ns[*index].is_some()).collect();
    order.sort_by_key(|i| (steps.replica[*i], steps.t_start_ns[*i], steps.t_end_ns[*i]));
    let mut overlap_ns = vec![0; steps.len()];
    // The latest end so far, since a long step may reach over several that follow.
    let mut latest: Option<(u16, i64)> = None;
    for index in order {
        let (replica, end) = (steps.replica[index], steps.t_end_ns[index]);
        let before = latest.filter(|(before, _)| *before == replica).map(|(_, end)| end);
        if let (Some(before), Some(start)) = (before, steps.t_start_ns[index]) {
            overlap_ns[index] = before.min(end).saturating_sub(start);
        }
        latest = Some((replica, before.map_or(end, |before| before.max(end))));
    }
    let what = "rows overlap an earlier step";
    let expected = "steps of one replica to follow each other";
    each(steps, report, step_column::t_start, what, expected, |index| {
        let overlap = overlap_ns[index];
        (overlap > 0).then(|| format!("overlaps by {}", seconds(overlap)))
    });
}

pub(super) fn outside_decode(manifest: &RunManifest, steps: &Steps, report: &mut Report) {
    let (Some(start), Some(end)) = (manifest.stages.decode_start, manifest.stages.decode_end)
    else {
        return;
    };
    let what = "rows reach outside the decode window";
    let expected = "decode_start <= t_start and t_end <= decode_end; others are left out";
    each(steps, report, step_column::t_end, what, expected, |index| {
        let begin = steps.t_start_ns[index].unwrap_or(steps.t_end_ns[index]);
        let early = start.nanos().saturating_sub(begin);
        let late = steps.t_end_ns[index].saturating_sub(end.nanos());
        if early > 0 {
            Some(format!("starts {} before the window", seconds(early)))
        } else {
            (late > 0).then(|| format!("ends {} after the window", seconds(late)))
        }
    });
}

pub(super) fn iterations(_: &RunManifest, steps: &Steps, report: &mut Report) {
    let what = "rows cover no iteration";
    each(steps, report, step_column::iterations, what, "at least 1", |index| {
        (steps.iterations[index] == 0).then(|| "has iterations 0".to_owned())
    });
}

/// Dummy steps are known of some engines, and count as iterations.
pub(super) fn tokens(_: &RunManifest, steps: &Steps, report: &mut Report) {
    let what = "rows yield no tokens";
    let expected = "new_tokens above 0, unless they are dummy steps";
    each(steps, report, step_column::new_tokens, what, expected, |index| {
        (steps.new_tokens[index] == 0)
            .then(|| format!("has {} active sequences", steps.active_sequences[index]))
    });
}

pub(super) fn prefill(manifest: &RunManifest, steps: &Steps, report: &mut Report) {
    let (Some(start), Some(end)) = (manifest.stages.decode_start, manifest.stages.decode_end)
    else {
        return;
    };
    let what = "rows of the decode window prefill";
    let expected = "prefill_tokens 0; the run stays out of the fits";
    each(steps, report, step_column::prefill_tokens, what, expected, |index| {
        let begin = steps.t_start_ns[index].unwrap_or(steps.t_end_ns[index]);
        let is_inside = start.nanos() <= begin && steps.t_end_ns[index] <= end.nanos();
        let tokens = steps.prefill_tokens[index];
        (is_inside && tokens > 0).then(|| format!("has {tokens} prefill tokens"))
    });
}

pub(super) fn history(_: &RunManifest, steps: &Steps, report: &mut Report) {
    let what = "rows have no history";
    let expected = "history_tokens; without it the bytes of the KV cache are unknown";
    each(steps, report, step_column::history_tokens, what, expected, |index| {
        steps.history_tokens[index].is_none().then(|| "has history_tokens null".to_owned())
    });
}

pub(super) fn replicas(manifest: &RunManifest, steps: &Steps, report: &mut Report) {
    let replicas = manifest.engine.replicas.unwrap_or(1);
    let what = "rows name an unknown replica";
    let expected = format!("replicas below engine.replicas, {replicas}");
    each(steps, report, step_column::replica, what, &expected, |index| {
        (u32::from(steps.replica[index]) >= replicas).then(|| "is beyond them".to_owned())
    });
}
