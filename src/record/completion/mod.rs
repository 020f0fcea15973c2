//! Answers of OpenAI-compatible completion endpoints, streamed or whole: when their tokens arrived, and
//! what the server says of them. [`crate::load`] reads the answers to its own requests, [`crate::proxy`]
//! those that pass through it.

mod answer;
mod sse;

pub(crate) use answer::{Answer, Observed};
