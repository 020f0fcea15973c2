//! One answer: its chunks, its end, and the counts that the server gives.

use serde_json::Value;
use wattrace_schema::{RequestStage, RequestStatus};
use wattrace_trace::RequestRow;

use super::sse::EventParser;
use crate::clock::RunClock;

/// Largest answer that is kept as a whole, B: one that is not streamed, or tells of an error.
const LARGEST_BODY: usize = 16 << 20;

/// Longest text of an error in a row, characters.
const LONGEST_ERROR: usize = 200;

/// What the last event of a stream holds.
const DONE: &[u8] = b"[DONE]";

/// Token counts as the server gives them; what it does not give stays `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Tokens of the prompt.
    pub(crate) input_tokens: Option<u32>,
    /// Tokens of the answer, reasoning included.
    pub(crate) output_tokens: Option<u32>,
    /// Tokens of reasoning.
    pub(crate) reasoning_tokens: Option<u32>,
}

impl Usage {
    fn of(value: &Value) -> Option<Self> {
        let usage = value.get("usage").filter(|usage| usage.is_object())?;
        let count = |value: &Value| value.as_u64().and_then(|count| u32::try_from(count).ok());
        Some(Self {
            input_tokens: count(&usage["prompt_tokens"]),
            output_tokens: count(&usage["completion_tokens"]),
            reasoning_tokens: count(&usage["completion_tokens_details"]["reasoning_tokens"]),
        })
    }
}

/// An answer as it arrives. Times are of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// HTTP status, once the head has arrived.
    status: Option<u16>,
    body: Body,
    stream: Stream,
    /// Why the answer failed although it went on.
    error: Option<String>,
}

#[derive(Debug, Default)]
enum Body {
    /// The head has not arrived.
    #[default]
    Unknown,
    Events(EventParser),
    Whole(Vec<u8>),
    /// It is not read, or cannot be.
    Skipped,
}

/// What was seen of the stream so far.
#[derive(Debug, Default)]
struct Stream {
    /// When the last event came.
    done_ns: Option<i64>,
    first_ns: Option<i64>,
    last_ns: i64,
    gaps_ns: Vec<u64>,
    /// Tokens of every chunk after the first, while all of them are known.
    gap_tokens: Option<Vec<u32>>,
    usage: Option<Usage>,
}

/// An answer once it has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observed {
    /// How it ended.
    pub(crate) status: RequestStatus,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// Arrival of the first chunk with tokens; `None` where there was none.
    pub(crate) first_token_ns: Option<i64>,
    /// When it ended.
    pub(crate) end_ns: i64,
    /// Gaps between successive chunks with tokens.
    pub(crate) gaps_ns: Option<Vec<u64>>,
    /// Tokens that each gap led to, where the server says so and some chunk holds more than one.
    pub(crate) gap_tokens: Option<Vec<u32>>,
    /// Token counts.
    pub(crate) usage: Usage,
}

impl Answer {
    /// Takes the head: the status, and whether the body is a stream of events.
    pub(crate) fn head(&mut self, status: u16, content_type: &str) {
        self.status = Some(status);
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let is_stream = media_type.eq_ignore_ascii_case("text/event-stream");
        self.body = if is_stream && is_success(status) {
            Body::Events(EventParser::default())
        } else {
            Body::Whole(Vec::new())
        };
    }

    /// Notes that the body cannot be read, and why.
    pub(crate) fn unreadable(&mut self, cause: &str) {
        self.fail(cause);
        self.body = Body::Skipped;
    }

    /// The body will not be read, for no fault of the answer: its tokens stay unknown.
    pub(crate) fn skip_body(&mut self) {
        self.body = Body::Skipped;
    }

    /// Takes the next bytes of the body, which arrived at `t_ns`.
    pub(crate) fn push(&mut self, bytes: &[u8], t_ns: i64) {
        let Self { body, stream, error, .. } = self;
        let result = match body {
            Body::Events(parser) => {
                let result = parser.push(bytes, |data| stream.event(data, t_ns, error));
                result.map_err(|error| error.to_string())
            }
            Body::Whole(whole) if whole.len() + bytes.len() > LARGEST_BODY => {
                Err(format!("the answer is larger than {} MiB", LARGEST_BODY >> 20))
            }
            Body::Whole(whole) => {
                whole.extend_from_slice(bytes);
                Ok(())
            }
            Body::Unknown | Body::Skipped => Ok(()),
        };
        if let Err(cause) = result {
            self.unreadable(&cause);
        }
    }

    /// Whether the stream has said that it is complete.
    #[must_use]
    pub(crate) const fn is_done(&self) -> bool {
        self.stream.done_ns.is_some()
    }

    /// The body has ended at `t_ns`, as it said it would. A stream was complete with its last event:
    /// what may still follow is no part of it.
    #[must_use]
    pub(crate) fn complete(mut self, t_ns: i64) -> Observed {
        let status = self.status;
        match std::mem::take(&mut self.body) {
            Body::Unknown => self.fail("the answer has no head"),
            Body::Skipped => match status {
                Some(status) if !is_success(status) => self.fail(&format!("HTTP {status}")),
                _ => (),
            },
            Body::Events(parser) => {
                let Self { stream, error, .. } = &mut self;
                parser.finish(|data| stream.event(data, t_ns, error));
                if !self.is_done() {
                    self.fail("the stream ended before [DONE]");
                }
            }
            Body::Whole(body) => match status {
                Some(status) if !is_success(status) => {
                    let message = message_of(&body);
                    self.fail(format!("HTTP {status}{message}").trim());
                }
                _ => self.whole(&body),
            },
        }
        let outcome = if self.error.is_some() { RequestStatus::Error } else { RequestStatus::Ok };
        let end_ns = self.stream.done_ns.unwrap_or(t_ns);
        self.ended(outcome, end_ns)
    }

    /// The answer was broken off at `t_ns`. An answer that was complete by then is not failed by it.
    #[must_use]
    pub(crate) fn broken(mut self, outcome: RequestStatus, cause: &str, t_ns: i64) -> Observed {
        if self.is_done() {
            return self.complete(t_ns);
        }
        self.fail(cause);
        self.ended(outcome, t_ns)
    }

    /// The first cause is kept: those after it follow from it.
    fn fail(&mut self, cause: &str) {
        self.error.get_or_insert_with(|| short(cause));
    }

    /// Takes an answer that is not streamed, in which no token has a time.
    fn whole(&mut self, body: &[u8]) {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => match error_of(&value) {
                Some(message) => self.fail(&message),
                None => self.stream.usage = Usage::of(&value),
            },
            Err(_) => self.fail("the answer is neither an event stream nor JSON"),
        }
    }

    fn ended(self, status: RequestStatus, end_ns: i64) -> Observed {
        let stream = self.stream;
        let tells_tokens = |tokens: &Vec<u32>| tokens.iter().any(|tokens| *tokens != 1);
        Observed {
            status,
            error: self.error,
            first_token_ns: stream.first_ns,
            end_ns,
            gaps_ns: stream.first_ns.map(|_| stream.gaps_ns),
            gap_tokens: stream.gap_tokens.filter(tells_tokens),
            usage: stream.usage.unwrap_or_default(),
        }
    }
}

impl Stream {
    fn event(&mut self, data: &[u8], t_ns: i64, error: &mut Option<String>) {
        if data.trim_ascii() == DONE {
            self.done_ns.get_or_insert(t_ns);
            return;
        }
        let Ok(value) = serde_json::from_slice::<Value>(data) else {
            // Something arrived here, whatever it was to be.
            error.get_or_insert_with(|| short("a chunk is not JSON"));
            self.chunk(None, t_ns);
            return;
        };
        if let Some(message) = error_of(&value) {
            error.get_or_insert_with(|| short(&message));
            return;
        }
        let before = self.usage.and_then(|usage| usage.output_tokens);
        if let Some(usage) = Usage::of(&value) {
            self.usage = Some(usage);
        }
        let choices = value["choices"].as_array().map_or(&[][..], Vec::as_slice);
        if choices.iter().any(holds_tokens) {
            let now = Usage::of(&value).and_then(|usage| usage.output_tokens);
            let counted = now.map(|now| now.saturating_sub(before.unwrap_or(0)));
            self.chunk(counted.or_else(|| listed_tokens(choices)), t_ns);
        }
    }

    /// Notes a chunk with tokens, and how many where that is known.
    fn chunk(&mut self, tokens: Option<u32>, t_ns: i64) {
        if self.first_ns.is_none() {
            self.first_ns = Some(t_ns);
            self.gap_tokens = Some(Vec::new());
        } else {
            self.gaps_ns.push(t_ns.saturating_sub(self.last_ns).unsigned_abs());
            match (tokens, &mut self.gap_tokens) {
                (Some(tokens), Some(known)) => known.push(tokens),
                _ => self.gap_tokens = None,
            }
        }
        self.last_ns = t_ns;
    }
}

const fn is_success(status: u16) -> bool {
    status >= 200 && status < 300
}

/// Whether a choice of a chunk brings text, reasoning or a call: the first chunk often brings only a
/// role, and the last only why it ended.
fn holds_tokens(choice: &Value) -> bool {
    let is_something = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    let delta = &choice["delta"];
    let parts =
        ["content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call"];
    is_something(&choice["text"]) || parts.iter().any(|part| is_something(&delta[*part]))
}

/// Tokens that a chunk lists: vLLM's `token_ids`, or the log probabilities of chat or of completions.
fn listed_tokens(choices: &[Value]) -> Option<u32> {
    let [choice] = choices else { return None };
    let logprobs = &choice["logprobs"];
    let lists = [&choice["token_ids"], &logprobs["content"], &logprobs["tokens"]];
    let tokens = lists.iter().find_map(|list| list.as_array())?.len();
    u32::try_from(tokens).ok().filter(|tokens| *tokens > 0)
}

/// The message of a body or event that tells of an error, as OpenAI, vLLM, SGLang and llama.cpp word it.
fn error_of(value: &Value) -> Option<String> {
    let error = match value.get("error") {
        None | Some(Value::Null) => (value["object"] == "error").then_some(value)?,
        Some(error) => error,
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let message = text(error).or_else(|| text(&error["message"]));
    Some(message.unwrap_or_else(|| error.to_string()))
}

/// What the body of a failed answer says, after a colon; nothing where it says nothing.
fn message_of(body: &[u8]) -> String {
    let message = match serde_json::from_slice::<Value>(body) {
        Ok(value) => error_of(&value).or_else(|| match &value["detail"] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            detail => Some(detail.to_string()),
        }),
        Err(_) => None,
    };
    let message =
        message.unwrap_or_else(|| String::from_utf8_lossy(body.trim_ascii()).into_owned());
    if message.is_empty() { message } else { format!(": {message}") }
}

/// A text short enough for a row, in one line.
#[must_use]
pub(crate) fn short(text: &str) -> String {
    let mut words = text.split(char::is_whitespace).filter(|word| !word.is_empty());
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        line.push(' ');
        line.push_str(word);
        if line.len() > 4 * LONGEST_ERROR {
            break;
        }
    }
    let line: String = line.chars().filter(|letter| !letter.is_control()).collect();
    match line.char_indices().nth(LONGEST_ERROR) {
        None => line,
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}

impl Observed {
    /// The row of a request that was sent at `sent_ns`.
    #[must_use]
    pub(crate) fn row(
        self,
        clock: &RunClock,
        request_id: String,
        stage: RequestStage,
        sent_ns: i64,
    ) -> RequestRow {
        RequestRow {
            request_id,
            stage,
            t_send_ns: Some(clock.run_time_ns(sent_ns)),
            t_first_token_ns: self.first_token_ns.map(|t_ns| clock.run_time_ns(t_ns)),
            t_end_ns: Some(clock.run_time_ns(self.end_ns)),
            status: self.status,
            error: self.error,
            input_tokens: self.usage.input_tokens,
            output_tokens: self.usage.output_tokens,
            reasoning_tokens: self.usage.reasoning_tokens,
            itl_ns: self.gaps_ns,
            itl_tokens: self.gap_tokens,
            ttft_ns: None,
            e2e_ns: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(events: &[(i64, &str)]) -> Answer {
        let mut answer = Answer::default();
        answer.head(200, "text/event-stream; charset=utf-8");
        for (t_ns, data) in events {
            answer.push(format!("data: {data}\n\n").as_bytes(), *t_ns);
        }
        answer
    }

    const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
    const TEXT: &str = r#"{"choices":[{"delta":{"content":" the"}}],"usage":null}"#;
    const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":1}}}"#;

    #[test]
    fn tokens_are_timed_from_the_first_text_and_counted_by_the_server() {
        let thought = r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#;
        let answer = stream(&[
            (10, ROLE),
            (20, thought),
            (26, TEXT),
            (33, TEXT),
            (40, STOP),
            (41, USAGE),
            (42, "[DONE]"),
        ]);
        assert!(answer.is_done());
        let usage =
            Usage { input_tokens: Some(7), output_tokens: Some(4), reasoning_tokens: Some(1) };
        let expected = Observed {
            status: RequestStatus::Ok,
            error: None,
            first_token_ns: Some(20),
            end_ns: 42,
            gaps_ns: Some(vec![6, 7]),
            gap_tokens: None,
            usage,
        };
        assert_eq!(answer.complete(42), expected);
    }

    #[test]
    fn without_usage_no_tokens_are_counted() {
        let observed = stream(&[(1, TEXT), (2, TEXT), (3, "[DONE]")]).complete(3);
        assert_eq!((observed.status, observed.usage), (RequestStatus::Ok, Usage::default()));
        assert_eq!((observed.gaps_ns, observed.gap_tokens), (Some(vec![1]), None));
    }

    #[test]
    fn tokens_of_a_chunk_come_from_running_usage_or_from_lists() {
        let running = |tokens: u32| {
            format!(
                r#"{{"choices":[{{"text":"a b"}}],"usage":{{"completion_tokens":{tokens},"prompt_tokens":1}}}}"#
            )
        };
        let (first, second, third) = (running(2), running(3), running(6));
        let observed = stream(&[(1, &first), (2, &second), (5, &third), (6, "[DONE]")]).complete(6);
        assert_eq!(observed.gap_tokens, Some(vec![1, 3]));
        assert_eq!(observed.usage.output_tokens, Some(6));
        let ids = r#"{"choices":[{"text":"a b","token_ids":[5,6]}]}"#;
        let observed = stream(&[(1, ids), (2, ids), (3, "[DONE]")]).complete(3);
        assert_eq!(observed.gap_tokens, Some(vec![2]));
        // One chunk that does not say leaves all of them unknown.
        let observed =
            stream(&[(1, ids), (2, ids), (3, TEXT), (4, ids), (5, "[DONE]")]).complete(5);
        assert_eq!((observed.gaps_ns, observed.gap_tokens), (Some(vec![1, 1, 1]), None));
    }

    #[test]
    fn a_stream_that_fails_keeps_what_was_seen_and_says_why() {
        let cut = stream(&[(1, TEXT), (3, TEXT)]).complete(9);
        assert_eq!(
            (cut.status, cut.first_token_ns, cut.end_ns),
            (RequestStatus::Error, Some(1), 9)
        );
        let broken = stream(&[(1, TEXT)]).broken(RequestStatus::Timeout, "no answer for 5 s", 8);
        let bad = stream(&[(1, TEXT), (3, "{oops"), (4, USAGE), (5, "[DONE]")]).complete(5);
        assert_eq!((bad.status, bad.gaps_ns.clone()), (RequestStatus::Error, Some(vec![2])));
        let told = stream(&[
            (1, TEXT),
            (2, r#"{"error":{"message":"out of\nmemory","code":500}}"#),
            (3, "[DONE]"),
        ])
        .complete(3);
        assert_eq!(told.status, RequestStatus::Error);
        let errors = [cut, broken, bad, told].map(|observed| observed.error.unwrap());
        assert_eq!(
            errors,
            [
                "the stream ended before [DONE]",
                "no answer for 5 s",
                "a chunk is not JSON",
                "out of memory"
            ]
        );
        // Nothing is broken once everything is there.
        let done = stream(&[(1, TEXT), (2, "[DONE]")]);
        assert_eq!(done.broken(RequestStatus::Cancelled, "", 3).status, RequestStatus::Ok);
    }

    #[test]
    fn an_answer_that_is_not_streamed_has_counts_and_no_times() {
        let mut answer = Answer::default();
        answer.head(200, "application/json");
        answer.push(br#"{"choices":[{"text":"a"}],"usage":{"prompt_tokens":3,"#, 5);
        answer.push(br#""completion_tokens":1}}"#, 6);
        let observed = answer.complete(6);
        assert_eq!((observed.status, observed.first_token_ns), (RequestStatus::Ok, None));
        assert_eq!((observed.usage.output_tokens, observed.gaps_ns), (Some(1), None));
    }

    #[test]
    fn the_status_and_the_message_of_a_refusal_are_the_error() {
        let refusal = |status, body: &str| {
            let mut answer = Answer::default();
            answer.head(status, "application/json");
            answer.push(body.as_bytes(), 1);
            answer.complete(1).error.unwrap()
        };
        assert_eq!(
            [
                refusal(400, r#"{"object":"error","message":"too long","code":400}"#),
                refusal(401, r#"{"error":{"message":"no key"}}"#),
                refusal(422, r#"{"detail":[{"msg":"field required"}]}"#),
                refusal(503, "busy\r\n"),
                refusal(500, ""),
            ],
            [
                "HTTP 400: too long",
                "HTTP 401: no key",
                r#"HTTP 422: [{"msg":"field required"}]"#,
                "HTTP 503: busy",
                "HTTP 500",
            ]
        );
        assert_eq!(refusal(500, &"x".repeat(1000)).len(), 203);
    }

    proptest::proptest! {
        /// Whatever a server sends, there is an outcome, and tokens are timed in the order of arrival.
        #[test]
        fn no_answer_makes_it_panic(
            status in 0_u16..1000,
            content_type in "(text/event-stream|application/json|)",
            pieces in proptest::collection::vec(
                "(data: |\n|\n\n|\\[DONE\\]|\\{\"choices\":|\\[|\\{|\"delta\":|\"content\":|\"a\"|\\}|\\]|1|null|[ -~]{0,4}){0,12}",
                0..8,
            ),
            is_complete in proptest::prelude::any::<bool>(),
        ) {
            let mut answer = Answer::default();
            answer.head(status, &content_type);
            for (t_ns, piece) in pieces.iter().enumerate() {
                answer.push(piece.as_bytes(), t_ns as i64);
            }
            let end_ns = pieces.len() as i64;
            let observed = if is_complete {
                answer.complete(end_ns)
            } else {
                answer.broken(RequestStatus::Cancelled, "gone", end_ns)
            };
            let gaps_ns = observed.gaps_ns.unwrap_or_default().iter().sum::<u64>() as i64;
            proptest::prop_assert!(observed.first_token_ns.unwrap_or(0) + gaps_ns <= end_ns);
            let has_cause = observed.error.is_some();
            proptest::prop_assert_eq!(observed.status == RequestStatus::Ok, !has_cause);
        }
    }
}
