//! `requests.parquet`.

use super::declare;

declare! {
    /// Requests as the client saw them.
    REQUESTS, request_column, file "requests.parquet", row "one request",
    sort &["t_send", "request_id"],
    request_id Text None Required "Unique in the run.";
    stage Text None Required "warmup or formal.";
    t_send Time Timestamp Nullable "When the client sent the request.";
    t_first_token Time Timestamp Nullable "When the first output token arrived.";
    t_end Time Timestamp Nullable "When the last output token arrived.";
    status Text None Required "ok, error, timeout or cancelled.";
    error Text None Optional "What failed, in the client's words.";
    input_tokens U32 Token Nullable "Tokens of the prompt.";
    output_tokens U32 Token Nullable "Tokens generated, reasoning included.";
    reasoning_tokens U32 Token Optional "Tokens generated before the answer.";
    itl_ns ListU64 Nanosecond Optional "Gaps between successive output tokens or chunks.";
    itl_tokens ListU32 Token Optional "Tokens of the chunk after each gap; 1 each when absent.";
    ttft_ns U64 Nanosecond Optional "Time to first token, used only where clock times are null.";
    e2e_ns U64 Nanosecond Optional "Time from sending to end, used only where clock times are null.";
}
