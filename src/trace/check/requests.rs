//! Rules about requests.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use wattrace_schema::tables::{REQUESTS, request_column};
use wattrace_schema::{RequestStatus, Requests, RunManifest, TimestampNs};

use super::device::seconds;
use super::{Place, Report};
use crate::reader::requests::compare_sort_key;

/// Reports every request for which `problem` gives one, as one finding.
fn each(
    requests: &Requests,
    report: &mut Report,
    column: &'static str,
    what: &str,
    expected: &str,
    problem: impl Fn(usize) -> Option<String>,
) {
    let broken = (0..requests.len()).filter_map(|index| {
        let problem = problem(index)?;
        Some((index as u64, format!("\"{}\" {problem}", requests.request_id[index].escape_debug())))
    });
    let place = Place::file(REQUESTS.file).column(column);
    report.add_rows(place, requests.len(), what, broken, expected);
}

fn is_successful(requests: &Requests, index: usize) -> bool {
    requests.status[index] == RequestStatus::Ok
}

/// Readers do not rely on the order, so it is worth no more than a note.
pub(super) fn order(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let unsorted = (1..requests.len())
        .find(|row| compare_sort_key(requests, row - 1, *row) == Ordering::Greater);
    if let Some(row) = unsorted {
        let message = format!(
            "rows are not sorted by {}; no value depends on it",
            REQUESTS.sort_key.join(", ")
        );
        report.add(Place::file(REQUESTS.file).row(row as u64), message);
    }
}

pub(super) fn id_unique(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let mut seen = BTreeSet::new();
    let repeated: Vec<bool> = requests.request_id.iter().map(|id| !seen.insert(id)).collect();
    let column = request_column::request_id;
    each(requests, report, column, "requests repeat an id", "ids that differ", |index| {
        repeated[index].then(|| "was there before".to_owned())
    });
}

pub(super) fn times(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let named = |index: usize| {
        [
            (request_column::t_send, requests.t_send_ns[index]),
            (request_column::t_first_token, requests.t_first_token_ns[index]),
            (request_column::t_end, requests.t_end_ns[index]),
        ]
    };
    let what = "requests have times that run backwards";
    let expected = "t_send <= t_first_token <= t_end";
    each(requests, report, request_column::t_end, what, expected, |index| {
        let given: Vec<_> =
            named(index).into_iter().filter_map(|(name, time)| Some((name, time?))).collect();
        let pair = given.windows(2).find(|pair| pair[1].1 < pair[0].1)?;
        let ((before, earlier), (after, later)) = (pair[0], pair[1]);
        let early = seconds(earlier.saturating_sub(later));
        let at = TimestampNs::from_nanos(later);
        Some(format!("has {after} {at}, {early} before {before}"))
    });
}

pub(super) fn durations(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let what = "requests get their first token after their end";
    each(requests, report, request_column::ttft_ns, what, "ttft_ns <= e2e_ns", |index| {
        let (first, whole) = (requests.ttft_ns[index]?, requests.e2e_ns[index]?);
        (first > whole).then(|| format!("has ttft_ns {first} and e2e_ns {whole}"))
    });
}

pub(super) fn outside_formal(manifest: &RunManifest, requests: &Requests, report: &mut Report) {
    let stages = &manifest.stages;
    let what = "requests are formal but reach outside the formal window";
    let expected = "formal_start <= t_send and t_end <= formal_end";
    each(requests, report, request_column::stage, what, expected, |index| {
        if !requests.is_formal(index) {
            return None;
        }
        let early = stages.formal_start.zip(requests.t_send_ns[index]).and_then(|(start, sent)| {
            let early = start.nanos().saturating_sub(sent);
            (early > 0).then(|| format!("was sent {} before its start", seconds(early)))
        });
        let late = stages.formal_end.zip(requests.t_end_ns[index]).and_then(|(end, ended)| {
            let late = ended.saturating_sub(end.nanos());
            (late > 0).then(|| format!("ended {} after its end", seconds(late)))
        });
        early.or(late)
    });
}

pub(super) fn tokens_timed(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let what = "requests have output tokens but lack a time";
    let expected = "t_send, t_first_token and t_end, or ttft_ns and e2e_ns";
    each(requests, report, request_column::output_tokens, what, expected, |index| {
        let tokens = requests.successful_tokens(index).filter(|tokens| *tokens > 0)?;
        let has_durations = requests.ttft_ns[index].is_some() && requests.e2e_ns[index].is_some();
        let absent: Vec<_> = [
            (request_column::t_send, requests.t_send_ns[index]),
            (request_column::t_first_token, requests.t_first_token_ns[index]),
            (request_column::t_end, requests.t_end_ns[index]),
        ]
        .into_iter()
        .filter(|(_, time)| time.is_none())
        .map(|(name, _)| name)
        .collect();
        let is_broken = !absent.is_empty() && !has_durations;
        is_broken.then(|| format!("has {tokens} output tokens and no {}", absent.join(", ")))
    });
}

pub(super) fn tokens_counted(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let what = "requests succeeded without a count of output tokens";
    each(requests, report, request_column::output_tokens, what, "a count", |index| {
        let is_broken = is_successful(requests, index) && requests.output_tokens[index].is_none();
        is_broken.then(|| "has status ok and output_tokens null".to_owned())
    });
}

pub(super) fn zero_tokens(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let what = "requests succeeded with zero output tokens";
    each(requests, report, request_column::output_tokens, what, "at least one", |index| {
        (requests.successful_tokens(index) == Some(0)).then(|| "has status ok and none".to_owned())
    });
}

pub(super) fn reasoning(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let what = "requests have more reasoning tokens than output tokens";
    let expected = "output_tokens to include reasoning_tokens";
    each(requests, report, request_column::reasoning_tokens, what, expected, |index| {
        let (part, whole) = (requests.reasoning_tokens[index]?, requests.output_tokens[index]?);
        (part > whole).then(|| format!("has {part} of {whole}"))
    });
}

pub(super) fn chunks(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let what = "requests have chunks that do not add up";
    let expected = "the tokens after the gaps (itl_tokens, or one each) to be output_tokens - 1";
    each(requests, report, request_column::itl_ns, what, expected, |index| {
        let output = u64::from(requests.successful_tokens(index)?);
        let (gaps, tokens) = requests.gaps.of(index);
        if gaps.is_empty() {
            return None;
        }
        let sum: u64 = match tokens {
            [] => gaps.len() as u64,
            tokens => tokens.iter().map(|tokens| u64::from(*tokens)).sum(),
        };
        (sum + 1 != output).then(|| {
            format!("has {sum} tokens after {} gaps and {output} output tokens", gaps.len())
        })
    });
}

/// Clients round times and gaps apart from each other; a request is off only beyond that.
const GAP_SUM_TOLERANCE_NS: f64 = 1e6;
const GAP_SUM_TOLERANCE_SHARE: f64 = 0.01;

pub(super) fn gap_sum(_: &RunManifest, requests: &Requests, report: &mut Report) {
    let what = "requests have gaps longer than their generation";
    let expected = "the gaps to end by t_end, within 1 ms and 1%";
    each(requests, report, request_column::itl_ns, what, expected, |index| {
        let (first, end) = (requests.t_first_token_ns[index]?, requests.t_end_ns[index]?);
        let span = end.saturating_sub(first) as f64;
        let sum: f64 = requests.gaps.of(index).0.iter().map(|gap| *gap as f64).sum();
        let is_over = sum > span + GAP_SUM_TOLERANCE_NS.max(GAP_SUM_TOLERANCE_SHARE * span.abs());
        is_over.then(|| format!("has gaps of {} in {}", seconds(sum as i64), seconds(span as i64)))
    });
}
