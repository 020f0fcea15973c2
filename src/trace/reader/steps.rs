//! `steps.parquet`: rows in file order, then in canonical order.

use std::cmp::Ordering;

use wattrace_schema::tables::step_column as column;
use wattrace_schema::{GraphMode, Steps};

use super::column::Batch;
use super::file::TableFile;
use super::{extend_options, permuted, sorted_order};
use crate::TraceError;

/// Columns that are read.
pub(crate) const COLUMNS: [&str; 12] = [
    column::step,
    column::replica,
    column::t_start,
    column::t_end,
    column::active_sequences,
    column::new_tokens,
    column::history_tokens,
    column::max_sequence_tokens,
    column::prefill_tokens,
    column::iterations,
    column::active_experts,
    column::graph_mode,
];

/// Reads every row, in the order of the file.
pub(crate) fn read_steps(file: &TableFile) -> Result<Steps, TraceError> {
    let mut steps = Steps::default();
    file.read(&COLUMNS, |batch| add(&mut steps, &batch))?;
    Ok(steps)
}

fn add(steps: &mut Steps, batch: &Batch<'_>) -> Result<(), TraceError> {
    let rows = batch.rows();
    steps.step.extend_from_slice(&batch.required_numbers(column::step)?);
    steps.replica.extend_from_slice(&batch.required_numbers(column::replica)?);
    extend_options(&mut steps.t_start_ns, rows, batch.times(column::t_start)?);
    steps.t_end_ns.extend_from_slice(&batch.required_times(column::t_end)?);
    steps.active_sequences.extend_from_slice(&batch.required_numbers(column::active_sequences)?);
    steps.new_tokens.extend_from_slice(&batch.required_numbers(column::new_tokens)?);
    extend_options(&mut steps.history_tokens, rows, batch.numbers(column::history_tokens)?);
    extend_options(
        &mut steps.max_sequence_tokens,
        rows,
        batch.numbers(column::max_sequence_tokens)?,
    );
    steps.prefill_tokens.extend_from_slice(&batch.required_numbers(column::prefill_tokens)?);
    match batch.numbers::<u32>(column::iterations)? {
        Some(values) => steps.iterations.extend(values.options().map(|count| count.unwrap_or(1))),
        None => steps.iterations.resize(steps.iterations.len() + rows, 1),
    }
    extend_options(&mut steps.active_experts, rows, batch.numbers(column::active_experts)?);
    add_graph_modes(&mut steps.graph_mode, batch)
}

fn add_graph_modes(
    target: &mut Vec<Option<GraphMode>>,
    batch: &Batch<'_>,
) -> Result<(), TraceError> {
    let rows = batch.rows();
    let Some(labels) = batch.labels(column::graph_mode) else {
        target.resize(target.len() + rows, None);
        return Ok(());
    };
    let name = |mode: &GraphMode| mode.name();
    let meanings = labels.meanings(GraphMode::ALL, name);
    for row in 0..rows {
        let mode = match labels.key(row) {
            None => None,
            Some(key) => Some(meanings[key].ok_or_else(|| {
                batch.unknown_label(column::graph_mode, row, &labels, GraphMode::ALL, name)
            })?),
        };
        target.push(mode);
    }
    Ok(())
}

/// Puts steps in the order of replica, end and number, then whatever else tells them apart, so that the
/// order of rows in the file no longer matters.
pub(crate) fn sort_steps(steps: Steps) -> Steps {
    let Some(order) = sorted_order(steps.len(), |a, b| compare(&steps, a, b)) else {
        return steps;
    };
    Steps {
        step: permuted(&steps.step, &order),
        replica: permuted(&steps.replica, &order),
        t_start_ns: permuted(&steps.t_start_ns, &order),
        t_end_ns: permuted(&steps.t_end_ns, &order),
        active_sequences: permuted(&steps.active_sequences, &order),
        new_tokens: permuted(&steps.new_tokens, &order),
        history_tokens: permuted(&steps.history_tokens, &order),
        max_sequence_tokens: permuted(&steps.max_sequence_tokens, &order),
        prefill_tokens: permuted(&steps.prefill_tokens, &order),
        iterations: permuted(&steps.iterations, &order),
        active_experts: permuted(&steps.active_experts, &order),
        graph_mode: permuted(&steps.graph_mode, &order),
    }
}

/// The order of two rows as `steps.parquet` is sorted.
pub(crate) fn compare_sort_key(steps: &Steps, a: usize, b: usize) -> Ordering {
    let key = |i: usize| (steps.replica[i], steps.t_end_ns[i], steps.step[i]);
    key(a).cmp(&key(b))
}

fn compare(steps: &Steps, a: usize, b: usize) -> Ordering {
    let rest = |i: usize| {
        (
            steps.t_start_ns[i],
            (steps.active_sequences[i], steps.new_tokens[i], steps.prefill_tokens[i]),
            (steps.history_tokens[i], steps.max_sequence_tokens[i], steps.iterations[i]),
            steps.active_experts[i].map(f32::to_bits),
            steps.graph_mode[i].map(|mode| mode as u8),
        )
    };
    compare_sort_key(steps, a, b).then_with(|| rest(a).cmp(&rest(b)))
}
