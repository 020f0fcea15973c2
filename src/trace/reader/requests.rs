//! `requests.parquet`: rows in file order, then in canonical order.

use std::cmp::Ordering;

use wattrace_schema::tables::request_column as column;
use wattrace_schema::{Gaps, RequestStage, RequestStatus, Requests};

use super::column::{Batch, Labels, Lists};
use super::file::TableFile;
use super::{extend_options, extend_texts, permuted, sorted_order};
use crate::TraceError;

/// Columns that are read.
pub(crate) const COLUMNS: [&str; 14] = [
    column::request_id,
    column::stage,
    column::t_send,
    column::t_first_token,
    column::t_end,
    column::status,
    column::error,
    column::input_tokens,
    column::output_tokens,
    column::reasoning_tokens,
    column::itl_ns,
    column::itl_tokens,
    column::ttft_ns,
    column::e2e_ns,
];

/// Reads every row, in the order of the file.
pub(crate) fn read_requests(file: &TableFile) -> Result<Requests, TraceError> {
    let mut requests = Requests::default();
    file.read(&COLUMNS, |batch| add(&mut requests, batch))?;
    requests.gaps = canonical_gaps(requests.gaps);
    Ok(requests)
}

fn add(requests: &mut Requests, mut batch: Batch<'_>) -> Result<(), TraceError> {
    let rows = batch.rows();
    if let Some(ids) = batch.required_texts(column::request_id)? {
        requests.request_id.extend(ids.iter().flatten().map(str::to_owned));
    }
    let stages = batch.required_labels(column::stage)?;
    extend_named(
        &mut requests.stage,
        &batch,
        column::stage,
        stages.as_ref(),
        RequestStage::ALL,
        |s| s.name(),
    )?;
    let statuses = batch.required_labels(column::status)?;
    extend_named(
        &mut requests.status,
        &batch,
        column::status,
        statuses.as_ref(),
        RequestStatus::ALL,
        |s| s.name(),
    )?;
    extend_options(&mut requests.t_send_ns, rows, batch.times(column::t_send)?);
    extend_options(&mut requests.t_first_token_ns, rows, batch.times(column::t_first_token)?);
    extend_options(&mut requests.t_end_ns, rows, batch.times(column::t_end)?);
    extend_options(&mut requests.ttft_ns, rows, batch.numbers(column::ttft_ns)?);
    extend_options(&mut requests.e2e_ns, rows, batch.numbers(column::e2e_ns)?);
    extend_options(&mut requests.input_tokens, rows, batch.numbers(column::input_tokens)?);
    extend_options(&mut requests.output_tokens, rows, batch.numbers(column::output_tokens)?);
    extend_options(&mut requests.reasoning_tokens, rows, batch.numbers(column::reasoning_tokens)?);
    extend_texts(&mut requests.error, rows, batch.texts(column::error));
    let gaps = batch.take_lists::<u64>(column::itl_ns)?;
    let tokens = batch.take_lists::<u32>(column::itl_tokens)?;
    add_gaps(&mut requests.gaps, &batch, gaps, tokens.as_ref())
}

/// Appends labels that must be the names of `all`, and not null.
fn extend_named<T: Copy>(
    target: &mut Vec<T>,
    batch: &Batch<'_>,
    column: &'static str,
    labels: Option<&Labels<'_>>,
    all: &[T],
    name: impl Fn(&T) -> &'static str,
) -> Result<(), TraceError> {
    let Some(labels) = labels else { return Ok(()) };
    let meanings = labels.meanings(all, &name);
    target.reserve(batch.rows());
    for row in 0..batch.rows() {
        let Some(value) = labels.key(row).and_then(|key| meanings[key]) else {
            return Err(batch.unknown_label(column, row, labels, all, name));
        };
        target.push(value);
    }
    Ok(())
}

/// Appends the gaps of a batch, and the tokens after each where the file gives them. `tokens` is kept
/// as long as `gap_ns` whenever the file has the column.
fn add_gaps(
    target: &mut Gaps,
    batch: &Batch<'_>,
    gaps: Option<Lists<u64>>,
    tokens: Option<&Lists<u32>>,
) -> Result<(), TraceError> {
    if target.offsets.is_empty() {
        target.offsets.push(0);
    }
    let begin = target.gap_ns.len();
    match gaps {
        Some(gaps) => {
            // The decoder gives a null list no items, so the items of all rows lie side by side.
            target.offsets.extend(gaps.offsets[1..].iter().map(|end| begin + *end as usize));
            if target.gap_ns.is_empty() {
                target.gap_ns = gaps.items;
            } else {
                target.gap_ns.extend_from_slice(&gaps.items);
            }
        }
        None => target.offsets.resize(target.offsets.len() + batch.rows(), begin),
    }
    let Some(tokens) = tokens else { return Ok(()) };
    let first = target.offsets.len() - batch.rows() - 1;
    for row in 0..batch.rows() {
        let gaps = target.offsets[first + row + 1] - target.offsets[first + row];
        let items = &tokens.items[tokens.offsets[row] as usize..tokens.offsets[row + 1] as usize];
        if tokens.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            target.tokens.resize(target.tokens.len() + gaps, 1);
        } else if items.len() == gaps {
            target.tokens.extend_from_slice(items);
        } else {
            return Err(batch.value_error(
                column::itl_tokens,
                row,
                format!("a list of {}", items.len()),
                format!("one count for each of the {gaps} gaps in \"itl_ns\", or null"),
            ));
        }
    }
    Ok(())
}

/// No offsets without gaps, and no tokens where each chunk is one.
fn canonical_gaps(mut gaps: Gaps) -> Gaps {
    if gaps.gap_ns.is_empty() {
        return Gaps::default();
    }
    if gaps.tokens.iter().all(|tokens| *tokens == 1) {
        gaps.tokens = Vec::new();
    }
    gaps
}

/// Puts requests in the order of sending time (those without one first), then id, then whatever else
/// tells them apart, so that the order of rows in the file no longer matters.
pub(crate) fn sort_requests(mut requests: Requests) -> Requests {
    let Some(order) = sorted_order(requests.len(), |a, b| compare(&requests, a, b)) else {
        return requests;
    };
    let ids = &mut requests.request_id;
    let errors = &mut requests.error;
    Requests {
        request_id: order.iter().map(|i| std::mem::take(&mut ids[*i])).collect(),
        error: order.iter().map(|i| errors[*i].take()).collect(),
        stage: permuted(&requests.stage, &order),
        status: permuted(&requests.status, &order),
        t_send_ns: permuted(&requests.t_send_ns, &order),
        t_first_token_ns: permuted(&requests.t_first_token_ns, &order),
        t_end_ns: permuted(&requests.t_end_ns, &order),
        ttft_ns: permuted(&requests.ttft_ns, &order),
        e2e_ns: permuted(&requests.e2e_ns, &order),
        input_tokens: permuted(&requests.input_tokens, &order),
        output_tokens: permuted(&requests.output_tokens, &order),
        reasoning_tokens: permuted(&requests.reasoning_tokens, &order),
        gaps: permuted_gaps(&requests.gaps, &order),
    }
}

/// The order of two requests as `requests.parquet` is sorted.
pub(crate) fn compare_sort_key(requests: &Requests, a: usize, b: usize) -> Ordering {
    requests.t_send_ns[a]
        .cmp(&requests.t_send_ns[b])
        .then_with(|| requests.request_id[a].cmp(&requests.request_id[b]))
}

fn compare(requests: &Requests, a: usize, b: usize) -> Ordering {
    let rest = |i: usize| {
        (
            requests.t_end_ns[i],
            requests.t_first_token_ns[i],
            requests.stage[i] as u8,
            requests.status[i] as u8,
            (requests.input_tokens[i], requests.output_tokens[i], requests.reasoning_tokens[i]),
            (requests.ttft_ns[i], requests.e2e_ns[i]),
            requests.gaps.of(i),
            &requests.error[i],
        )
    };
    compare_sort_key(requests, a, b).then_with(|| rest(a).cmp(&rest(b)))
}

fn permuted_gaps(gaps: &Gaps, order: &[usize]) -> Gaps {
    if gaps.offsets.is_empty() {
        return Gaps::default();
    }
    let mut sorted = Gaps {
        offsets: Vec::with_capacity(gaps.offsets.len()),
        gap_ns: Vec::with_capacity(gaps.gap_ns.len()),
        tokens: Vec::with_capacity(gaps.tokens.len()),
    };
    sorted.offsets.push(0);
    for index in order {
        let (gap_ns, tokens) = gaps.of(*index);
        sorted.gap_ns.extend_from_slice(gap_ns);
        sorted.tokens.extend_from_slice(tokens);
        sorted.offsets.push(sorted.gap_ns.len());
    }
    sorted
}
