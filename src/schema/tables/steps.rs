//! `steps.parquet`.

use super::declare;

declare! {
    /// Iterations of the engine.
    STEPS, step_column, file "steps.parquet", row "one decode iteration, or several that were logged together",
    sort &["replica", "t_end", "step"],
    step U64 None Required "Number of the iteration within its replica.";
    replica U16 None Required "Replica of the model.";
    t_start Time Timestamp Nullable "When the iteration began.";
    t_end Time Timestamp Required "When it ended.";
    active_sequences U32 None Required "Sequences in the batch.";
    new_tokens U32 Token Required "Useful decode tokens, summed over the iterations of the row.";
    history_tokens U64 Token Nullable "Attention history before each token, summed over active sequences and iterations.";
    max_sequence_tokens U32 Token Optional "Longest sequence of the batch.";
    prefill_tokens U32 Token Required "Prompt tokens processed in the same iterations.";
    iterations U32 None Optional "Iterations that the row covers; 1 when absent.";
    active_experts F32 None Optional "Mean distinct routed experts of a layer.";
    graph_mode Text None Optional "graph or eager.";
}
