//! What request formats share: a request of which nothing is known yet, and what errors say of one.

use wattrace_schema::{RequestStage, RequestStatus};

use crate::RequestRow;

/// A successful formal request without times and tokens.
pub(super) fn bare_request(request_id: String) -> RequestRow {
    RequestRow {
        request_id,
        stage: RequestStage::Formal,
        t_send_ns: None,
        t_first_token_ns: None,
        t_end_ns: None,
        status: RequestStatus::Ok,
        error: None,
        input_tokens: None,
        output_tokens: None,
        reasoning_tokens: None,
        itl_ns: None,
        itl_tokens: None,
        ttft_ns: None,
        e2e_ns: None,
    }
}

/// What a client's name of an error, such as `TimeoutError` or `CancelledError`, says of the request.
pub(super) fn status_of_error(kind: Option<&str>) -> RequestStatus {
    let kind = kind.unwrap_or_default();
    if kind.contains("Timeout") {
        RequestStatus::Timeout
    } else if kind.contains("Cancel") {
        RequestStatus::Cancelled
    } else {
        RequestStatus::Error
    }
}
