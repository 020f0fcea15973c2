//! What is sent: requests of a file or a trace, or made up.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};
use wattrace_trace::format::workload::{self, WorkloadRequest};

use super::LoadError;

/// Where requests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestSource {
    /// Lines of JSON with `prompt` or `messages`, or a request trace.
    File(PathBuf),
    /// Made up, all of one size.
    Synthetic {
        /// How many.
        count: usize,
        /// Tokens of each prompt, about.
        input_tokens: u32,
        /// Tokens of each answer at most.
        output_tokens: u32,
    },
}

/// Which endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// What every request has in common.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) api: Api,
    pub(super) model: Option<String>,
    /// Fields that the user adds; they replace those of the same name.
    pub(super) extra: Map<String, Value>,
    pub(super) seed: u64,
}

/// A request ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadRequest {
    pub(super) id: String,
    pub(super) body: Vec<u8>,
}

/// The requests of a run, in their order. Each body is made when it is needed, so that traces of long
/// prompts take little memory.
#[derive(Debug)]
pub(super) struct RequestSet {
    form: Form,
    kind: Kind,
    /// Ids that the file gives.
    ids: BTreeSet<String>,
    notes: Vec<String>,
}

#[derive(Debug)]
enum Kind {
    Listed(Vec<Listed>),
    Trace { requests: Vec<WorkloadRequest>, name: String },
    Synthetic { count: usize, input_tokens: u32, output_tokens: u32 },
}

/// A line of a request file.
#[derive(Debug, Clone, PartialEq)]
struct Listed {
    id: Option<String>,
    content: Content,
    max_tokens: Option<u32>,
    offset_ns: Option<u64>,
    extra: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Prompt(Value),
    Messages(Value),
}

/// Words of made-up prompts. Each is one token with its space in the vocabularies that are in wide use.
const WORDS: [&str; 64] = [
    "about", "after", "again", "air", "answer", "back", "before", "book", "boy", "bring", "car",
    "change", "city", "close", "cold", "come", "country", "day", "door", "early", "earth", "eat",
    "end", "eye", "face", "family", "far", "few", "find", "fire", "food", "friend", "girl", "give",
    "good", "great", "hand", "head", "help", "home", "house", "keep", "know", "land", "learn",
    "letter", "life", "light", "little", "long", "man", "mother", "mountain", "name", "night",
    "number", "paper", "people", "place", "river", "school", "water", "world", "year",
];

/// Streams of random words: those of warm-up requests differ from all others, so that no prefix cache
/// holds a formal prompt already.
const FORMAL_STREAM: u64 = 0;
const WARM_UP_STREAM: u64 = 1;

impl RequestSet {
    pub(super) fn open(source: &RequestSource, form: Form) -> Result<Self, LoadError> {
        let mut notes = Vec::new();
        let kind = match source {
            RequestSource::Synthetic { count, input_tokens, output_tokens } => Kind::Synthetic {
                count: *count,
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
            },
            RequestSource::File(path) if is_listed(path)? => {
                Kind::Listed(read_listed(path, form.api, &mut notes)?)
            }
            RequestSource::File(path) => {
                let trace = workload::read(path)
                    .map_err(|error| LoadError::Requests(not_a_trace(&error.with_causes())))?;
                notes.extend(trace.notes);
                Kind::Trace { requests: trace.requests, name: file_name(path) }
            }
        };
        if !matches!(kind, Kind::Listed(_)) {
            notes.push(
                "load: prompts are random English words, about one token each; input_tokens holds what the \
                 server counted"
                    .to_owned(),
            );
        }
        if let RequestSource::File(path) = source
            && let Kind::Listed(_) = kind
        {
            notes.push(format!("load: requests of {}", file_name(path)));
        }
        let ids = match &kind {
            Kind::Listed(requests) => {
                requests.iter().filter_map(|listed| listed.id.clone()).collect()
            }
            Kind::Trace { .. } | Kind::Synthetic { .. } => BTreeSet::new(),
        };
        Ok(Self { form, kind, ids, notes })
    }

    /// Requests before they repeat.
    pub(super) fn len(&self) -> usize {
        match &self.kind {
            Kind::Listed(requests) => requests.len(),
            Kind::Trace { requests, .. } => requests.len(),
            Kind::Synthetic { count, .. } => *count,
        }
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// `workload.dataset` and `workload.trace` of `run.json`.
    pub(super) fn names(&self, source: &RequestSource) -> (Option<String>, Option<String>) {
        match (&self.kind, source) {
            (Kind::Trace { name, .. }, _) => (None, Some(name.clone())),
            (_, RequestSource::File(path)) => (Some(file_name(path)), None),
            (Kind::Synthetic { input_tokens, output_tokens, .. }, _) => {
                let about = format!(
                    "random words, about {input_tokens} input and up to {output_tokens} output tokens"
                );
                (Some(about), None)
            }
            (Kind::Listed(_), RequestSource::Synthetic { .. }) => (None, None),
        }
    }

    /// When each request is due by the file, nanoseconds after the first.
    pub(super) fn offsets_ns(&self) -> Result<Vec<u64>, LoadError> {
        match &self.kind {
            Kind::Trace { requests, .. } => {
                Ok(requests.iter().map(|request| request.offset_ns).collect())
            }
            Kind::Listed(requests) => {
                let offsets: Option<Vec<u64>> =
                    requests.iter().map(|request| request.offset_ns).collect();
                let offsets = offsets.ok_or(LoadError::NoTimes)?;
                let first_ns = offsets.iter().min().copied().unwrap_or(0);
                if !offsets.is_sorted() {
                    return Err(LoadError::Requests(
                        "the requests are not in the order of their \"t\"; expected times that do not \
                         decrease"
                            .to_owned(),
                    ));
                }
                Ok(offsets.iter().map(|offset_ns| offset_ns - first_ns).collect())
            }
            Kind::Synthetic { .. } => Err(LoadError::NoTimes),
        }
    }

    /// Request number `index`. Beyond the end a file begins again, with ids of its own; made-up prompts
    /// never repeat.
    pub(super) fn request(&self, index: usize) -> LoadRequest {
        let round = index / self.len();
        let place = index % self.len();
        let (id, body) = match &self.kind {
            Kind::Listed(requests) => {
                let listed = &requests[place];
                let body = self.form.body(listed.content.clone(), listed.max_tokens, &listed.extra);
                (listed.id.clone(), body)
            }
            Kind::Trace { requests, .. } => {
                let WorkloadRequest { input_tokens, output_tokens, .. } = requests[place];
                (None, self.made_up(FORMAL_STREAM, index, input_tokens, output_tokens))
            }
            Kind::Synthetic { input_tokens, output_tokens, .. } => {
                (None, self.made_up(FORMAL_STREAM, index, *input_tokens, *output_tokens))
            }
        };
        let id = match (id, round) {
            (None, _) => self.unused(format!("request-{}", index + 1)),
            (Some(id), 0) => id,
            (Some(id), round) => self.unused(format!("{id}#{}", round + 1)),
        };
        LoadRequest { id, body }
    }

    /// A warm-up request about as long as formal request `index`, with words of its own.
    pub(super) fn warm_up(&self, index: usize) -> LoadRequest {
        let (input_tokens, output_tokens) = match &self.kind {
            Kind::Synthetic { input_tokens, output_tokens, .. } => (*input_tokens, *output_tokens),
            Kind::Trace { requests, .. } => {
                let request = requests[index % requests.len()];
                (request.input_tokens, request.output_tokens)
            }
            Kind::Listed(requests) => {
                let listed = &requests[index % requests.len()];
                let output_tokens = listed.max_tokens.unwrap_or(WARM_UP_TOKENS);
                (listed.content.words(), output_tokens)
            }
        };
        LoadRequest {
            id: self.unused(format!("warmup-{}", index + 1)),
            body: self.made_up(WARM_UP_STREAM, index, input_tokens, output_tokens),
        }
    }

    /// The id, made one that no request of the file has.
    fn unused(&self, mut id: String) -> String {
        while self.ids.contains(&id) {
            id.push('_');
        }
        id
    }

    fn made_up(&self, stream: u64, index: usize, input: u32, output: u32) -> Vec<u8> {
        let prompt = prompt(self.form.seed, stream, index, input);
        self.form.body(Content::Prompt(prompt.into()), Some(output), &Map::new())
    }
}

/// Output tokens of a warm-up request where the file does not say how many.
const WARM_UP_TOKENS: u32 = 128;

impl Content {
    /// Words of all its texts, and token ids.
    fn words(&self) -> u32 {
        fn count(value: &Value) -> usize {
            match value {
                Value::String(text) => text.split_whitespace().count(),
                Value::Array(items) => items.iter().map(count).sum(),
                Value::Object(fields) => {
                    fields.get("content").or(fields.get("text")).map_or(0, count)
                }
                Value::Number(_) => 1,
                Value::Null | Value::Bool(_) => 0,
            }
        }
        let (Self::Prompt(value) | Self::Messages(value)) = self;
        u32::try_from(count(value)).unwrap_or(u32::MAX).max(1)
    }
}

impl Form {
    fn body(
        &self,
        content: Content,
        max_tokens: Option<u32>,
        listed_extra: &Map<String, Value>,
    ) -> Vec<u8> {
        let mut body = Map::new();
        if let Some(model) = &self.model {
            body.insert("model".into(), model.clone().into());
        }
        match (self.api, content) {
            (Api::Chat, Content::Prompt(prompt)) => {
                body.insert("messages".into(), json!([{"role": "user", "content": prompt}]));
            }
            (_, Content::Messages(messages)) => {
                body.insert("messages".into(), messages);
            }
            (Api::Completions, Content::Prompt(prompt)) => {
                body.insert("prompt".into(), prompt);
            }
        }
        if let Some(max_tokens) = max_tokens {
            body.insert("max_tokens".into(), max_tokens.into());
        }
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({"include_usage": true}));
        for (key, value) in listed_extra.iter().chain(&self.extra) {
            match (body.get_mut(key), value) {
                (Some(Value::Object(known)), Value::Object(given)) => known.extend(given.clone()),
                _ => drop(body.insert(key.clone(), value.clone())),
            }
        }
        Value::Object(body).to_string().into_bytes()
    }
}

/// `tokens` random words.
fn prompt(seed: u64, stream: u64, index: usize, tokens: u32) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(2 * index as u64 + stream);
    let mut text = String::new();
    for _ in 0..tokens {
        let separator = if text.is_empty() { "" } else { " " };
        let word = WORDS[random.random_range(0..WORDS.len())];
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{word}");
    }
    text
}

/// Why a file is no trace, and what else it might have been.
fn not_a_trace(problem: &str) -> String {
    let hint = if problem.contains("is no request trace") {
        "; nor are its lines requests, JSON with prompt or messages"
    } else {
        ""
    };
    format!("{problem}{hint}")
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
}

fn open(path: &Path) -> Result<BufReader<File>, LoadError> {
    let file = File::open(path).map_err(|error| {
        LoadError::Requests(format!("cannot open \"{}\": {error}", path.display()))
    })?;
    Ok(BufReader::new(file))
}

/// Whether the first line is a request rather than one of a trace.
fn is_listed(path: &Path) -> Result<bool, LoadError> {
    for line in open(path)?.split(b'\n') {
        // What is no text is left to the readers of traces, which may be compressed.
        let Ok(line) = line else { return Ok(false) };
        if !line.trim_ascii().is_empty() {
            let value = serde_json::from_slice::<Value>(&line).unwrap_or_default();
            return Ok(["prompt", "messages"].iter().any(|key| value.get(key).is_some()));
        }
    }
    Ok(false)
}

/// Keys of a line of a request file.
const KEYS: [&str; 7] = ["id", "prompt", "messages", "max_tokens", "output_tokens", "t", "body"];

fn read_listed(path: &Path, api: Api, notes: &mut Vec<String>) -> Result<Vec<Listed>, LoadError> {
    let mut requests = Vec::new();
    let mut ids = BTreeSet::new();
    let mut unused = BTreeSet::new();
    for (index, line) in open(path)?.lines().enumerate() {
        let at = |problem: String| {
            LoadError::Requests(format!("\"{}\" line {}: {problem}", path.display(), index + 1))
        };
        let line = line.map_err(|error| at(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let fields: Map<String, Value> = serde_json::from_str(&line)
            .map_err(|error| at(format!("is no JSON object: {error}")))?;
        unused.extend(fields.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned());
        let request = listed(fields, api).map_err(at)?;
        if let Some(id) = &request.id
            && !ids.insert(id.clone())
        {
            return Err(at(format!("id \"{}\" was there before", id.escape_debug())));
        }
        requests.push(request);
    }
    if !unused.is_empty() {
        let names: Vec<_> = unused.into_iter().collect();
        notes.push(format!(
            "load: keys of {} that were not used: {}; fields of the request belong into \"body\"",
            file_name(path),
            names.join(", ")
        ));
    }
    Ok(requests)
}

fn listed(mut fields: Map<String, Value>, api: Api) -> Result<Listed, String> {
    let content = match (fields.remove("prompt"), fields.remove("messages")) {
        (Some(prompt @ Value::String(_)), None) => Content::Prompt(prompt),
        // Numbers of tokens, whose count is exact.
        (Some(prompt @ Value::Array(_)), None) if api == Api::Completions => {
            Content::Prompt(prompt)
        }
        (None, Some(messages @ Value::Array(_))) if api == Api::Chat => Content::Messages(messages),
        (None, Some(Value::Array(_))) => {
            return Err(
                "has messages, which only the chat endpoint takes; expected a prompt".into()
            );
        }
        _ => {
            let expected = match api {
                Api::Chat => "expected either a text \"prompt\" or a list of \"messages\"",
                Api::Completions => "expected a \"prompt\", a text or a list of token ids",
            };
            return Err(expected.into());
        }
    };
    let mut tokens = |key: &str| match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().map(u32::try_from) {
            Some(Ok(tokens)) if tokens > 0 => Ok(Some(tokens)),
            _ => Err(format!("{key} is {value}; expected a number of tokens, at least 1")),
        },
    };
    let max_tokens = tokens("max_tokens")?.or(tokens("output_tokens")?);
    let id = match fields.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) if !id.is_empty() => Some(id),
        Some(Value::Number(id)) => Some(id.to_string()),
        Some(other) => return Err(format!("id is {other}; expected a text or a number")),
    };
    let offset_ns = match fields.remove("t") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_f64() {
            Some(seconds) if (0.0..1e9).contains(&seconds) => Some((seconds * 1e9).round() as u64),
            _ => return Err(format!("t is {value}; expected seconds from the start, below 1e9")),
        },
    };
    let extra = match fields.remove("body") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(extra)) => extra,
        Some(other) => return Err(format!("body is {other}; expected an object")),
    };
    check_extra(&extra)?;
    Ok(Listed { id, content, max_tokens, offset_ns, extra })
}

/// Refuses fields that would change what is measured.
pub(super) fn check_extra(extra: &Map<String, Value>) -> Result<(), String> {
    match extra.get("stream") {
        None | Some(Value::Bool(true)) => Ok(()),
        Some(other) => {
            Err(format!("\"stream\" is {other}; answers are timed as they stream, so leave it out"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(api: Api) -> Form {
        Form { api, model: Some("m".into()), extra: Map::new(), seed: 1 }
    }

    fn set(api: Api, name: &str, text: &str) -> Result<RequestSet, LoadError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        RequestSet::open(&RequestSource::File(path), form(api))
    }

    fn body(request: &LoadRequest) -> Value {
        serde_json::from_slice(&request.body).unwrap()
    }

    #[test]
    fn lines_of_a_file_are_sent_as_they_are_and_begin_again_at_the_end() {
        let text = r#"{"prompt": "hello there", "max_tokens": 5, "id": "a", "kind": "x"}

{"messages": [{"role": "system", "content": "be brief"}], "body": {"temperature": 0, "stream_options": {"continuous_usage_stats": true}}}
"#;
        let set = set(Api::Chat, "r.jsonl", text).unwrap();
        assert_eq!(set.len(), 2);
        assert_eq!(
            body(&set.request(0)),
            json!({
                "model": "m", "max_tokens": 5, "stream": true, "stream_options": {"include_usage": true},
                "messages": [{"role": "user", "content": "hello there"}],
            })
        );
        assert_eq!(
            body(&set.request(1)),
            json!({
                "model": "m", "temperature": 0, "stream": true,
                "stream_options": {"include_usage": true, "continuous_usage_stats": true},
                "messages": [{"role": "system", "content": "be brief"}],
            })
        );
        let ids: Vec<_> = (0..4).map(|index| set.request(index).id).collect();
        assert_eq!(ids, ["a", "request-2", "a#2", "request-4"]);
        assert_eq!(
            set.notes()[0].split(';').next(),
            Some("load: keys of r.jsonl that were not used: kind")
        );
        // Two words: so many tokens has the warm-up, and not these.
        let warm_up = body(&set.warm_up(0));
        let words = warm_up["messages"][0]["content"].as_str().unwrap();
        assert_eq!((words.split(' ').count(), &warm_up["max_tokens"]), (2, &json!(5)));
        assert_ne!(words, "hello there");
    }

    #[test]
    fn an_id_that_is_made_is_none_that_the_file_has() {
        let text = "{\"id\": \"request-2\", \"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n\
                    {\"id\": \"request-2#2\", \"prompt\": \"c\"}\n";
        let set = set(Api::Completions, "r.jsonl", text).unwrap();
        let ids: Vec<_> = (0..5).map(|index| set.request(index).id).collect();
        assert_eq!(ids, ["request-2", "request-2_", "request-2#2", "request-2#2_", "request-5"]);
    }

    #[test]
    fn made_up_prompts_have_the_length_that_is_asked_for_and_never_repeat() {
        let source = RequestSource::Synthetic { count: 2, input_tokens: 40, output_tokens: 9 };
        let set = RequestSet::open(&source, form(Api::Completions)).unwrap();
        let prompts: Vec<_> = (0..4)
            .map(|index| set.request(index))
            .chain((0..4).map(|index| set.warm_up(index)))
            .map(|request| body(&request)["prompt"].as_str().unwrap().to_owned())
            .collect();
        assert!(prompts.iter().all(|prompt| prompt.split(' ').count() == 40));
        let starts: BTreeSet<_> = prompts.iter().map(|prompt| prompt[..20].to_owned()).collect();
        assert_eq!(starts.len(), 8, "{prompts:?}");
        assert_eq!(body(&set.request(0))["max_tokens"], 9);
        let again = RequestSet::open(&source, form(Api::Completions)).unwrap();
        assert_eq!(again.request(3), set.request(3));
    }

    #[test]
    fn a_trace_gives_lengths_and_times() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0000000,3,10\n\
                    2023-11-16 18:15:47.5000000,4,20\n";
        let set = set(Api::Completions, "trace.csv", text).unwrap();
        assert_eq!(set.offsets_ns().unwrap(), [0, 1_500_000_000]);
        let second = body(&set.request(1));
        assert_eq!(second["prompt"].as_str().unwrap().split(' ').count(), 4);
        assert_eq!(second["max_tokens"], 20);
        assert_eq!(set.request(1).id, "request-2");
    }

    #[test]
    fn a_prompt_of_token_ids_is_sent_as_it_is() {
        let set =
            set(Api::Completions, "r", "{\"prompt\": [5, 6, 7], \"max_tokens\": 2}\n").unwrap();
        assert_eq!(body(&set.request(0))["prompt"], json!([5, 6, 7]));
        let warm_up = body(&set.warm_up(0));
        assert_eq!(warm_up["prompt"].as_str().unwrap().split(' ').count(), 3);
    }

    #[test]
    fn times_of_a_file_count_from_the_first() {
        let text = "{\"prompt\": \"a\", \"t\": 2.5}\n{\"prompt\": \"b\", \"t\": 3}\n";
        assert_eq!(set(Api::Chat, "r", text).unwrap().offsets_ns().unwrap(), [0, 500_000_000]);
        let without = set(Api::Chat, "r", "{\"prompt\": \"a\"}\n").unwrap();
        assert!(matches!(without.offsets_ns(), Err(LoadError::NoTimes)));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_with_its_number() {
        let message = |api, line: &str| {
            let text = format!("{{\"prompt\": \"a\", \"id\": 1}}\n{line}\n");
            let error = set(api, "r", &text).unwrap_err().to_string();
            error.split_once("\" ").unwrap().1.to_owned()
        };
        insta::assert_snapshot!(
            [
                message(Api::Chat, "{"),
                message(Api::Chat, "{}"),
                message(Api::Chat, r#"{"prompt": "b", "id": 1}"#),
                message(Api::Chat, r#"{"prompt": "b", "max_tokens": 0}"#),
                message(Api::Chat, r#"{"prompt": "b", "t": -1}"#),
                message(Api::Chat, r#"{"prompt": "b", "body": {"stream": false}}"#),
                message(Api::Completions, r#"{"messages": []}"#),
            ]
            .join("\n"),
            @r#"
            line 2: is no JSON object: EOF while parsing an object at line 1 column 1
            line 2: expected either a text "prompt" or a list of "messages"
            line 2: id "1" was there before
            line 2: max_tokens is 0; expected a number of tokens, at least 1
            line 2: t is -1; expected seconds from the start, below 1e9
            line 2: "stream" is false; answers are timed as they stream, so leave it out
            line 2: has messages, which only the chat endpoint takes; expected a prompt
            "#
        );
    }
}
