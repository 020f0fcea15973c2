//! Sends one request and reads its answer as it arrives.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::time::Duration;

use ureq::typestate::WithBody;
use ureq::{Agent, RequestBuilder};
use wattrace_schema::RequestStatus;

use super::requests::Api;
use super::{LoadError, LoadOptions};
use crate::Stop;
use crate::clock::Clock;
use crate::completion::{Answer, Observed};
use crate::http::{self, Address};

/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;

/// Buffers of a connection. The head of an answer has to fit.
const BUFFER_BYTES: usize = 32 << 10;

/// An idle connection with encryption is used again only while it is younger than this: servers close
/// theirs after a few seconds (uvicorn after 5 s), and a request that crosses the close fails.
const IDLE_CONNECTION: Duration = Duration::from_secs(2);

/// Longest time until a connection is there.
const CONNECT: Duration = Duration::from_secs(10);

/// A key that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes a key; white space around it is no part of it.
    ///
    /// # Errors
    /// When it is empty or holds what no header may.
    pub fn new(text: &str) -> Result<Self, LoadError> {
        let key = text.trim();
        let is_usable = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if is_usable { Ok(Self(key.to_owned())) } else { Err(LoadError::Key) }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKey(***)")
    }
}

/// The endpoint of one run.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    url: Address,
    is_verified: bool,
    key: Option<ApiKey>,
    timeout: Duration,
    cancelled: Stop,
}

impl Client {
    pub(super) fn open(options: &LoadOptions) -> Result<Self, LoadError> {
        let url = endpoint(&options.url, options.api)?;
        if options.key.is_some() && !options.http.may_carry_credentials(&url) {
            return Err(LoadError::PlainKey { url: url.to_string() });
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // A key goes to no other place than the one that was named.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .accept("text/event-stream, application/json")
            .accept_encoding("identity")
            .user_agent(concat!("wattrace-record/", env!("CARGO_PKG_VERSION")))
            .max_response_header_size(BUFFER_BYTES)
            .input_buffer_size(BUFFER_BYTES)
            .output_buffer_size(BUFFER_BYTES)
            .max_idle_connections(options.max_in_flight)
            .max_idle_connections_per_host(options.max_in_flight)
            .max_idle_age(IDLE_CONNECTION)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(options.timeout));
        if url.is_encrypted() {
            let trusted = http::tls(&options.http)
                .map_err(|problem| LoadError::Certificates { url: url.to_string(), problem })?;
            config = config.tls_config(trusted);
        }
        Ok(Self {
            agent: config.build().new_agent(),
            url,
            is_verified: !options.http.insecure,
            key: options.key.clone(),
            timeout: options.timeout,
            cancelled: Stop::new(),
        })
    }

    pub(super) const fn url(&self) -> &Address {
        &self.url
    }

    /// Whether whoever answers may be another than the address names.
    pub(super) const fn is_unverified(&self) -> bool {
        self.url.is_encrypted() && !self.is_verified
    }

    /// Raised once no request is to be sent any more.
    pub(super) const fn cancelled(&self) -> &Stop {
        &self.cancelled
    }

    /// Breaks off what is under way, and sends nothing more.
    pub(super) fn cancel(&self) {
        self.cancelled.raise();
        self.agent.clone().shutdown();
    }

    /// Sends a request and reads the answer to its end. Gives when it was sent, which is before a
    /// connection is opened for it, and what was seen.
    pub(super) fn send(&self, body: &[u8], clock: &dyn Clock) -> (i64, Observed) {
        let request = self.post();
        let sent_ns = clock.monotonic_ns();
        let mut answer = Answer::default();
        let observed = match request.send(body) {
            Err(error) => self.broken(answer, &error, clock),
            Ok(mut response) => {
                let content_type = response.headers().get("content-type");
                let content_type = content_type.and_then(|value| value.to_str().ok());
                answer.head(response.status().as_u16(), content_type.unwrap_or_default());
                if response.headers().contains_key("content-encoding") {
                    answer.unreadable("the answer is compressed, which was not asked for");
                }
                let body = response.body_mut().with_config().limit(u64::MAX).reader();
                self.read(answer, body, clock)
            }
        };
        (sent_ns, self.without_key(observed))
    }

    /// A request. Without encryption a new connection takes a few microseconds on the same machine, and one
    /// that is used again may just be closing: llama.cpp's server closes after every streamed answer,
    /// without a word. So each request has its own; sending one twice would be worse.
    fn post(&self) -> RequestBuilder<WithBody> {
        let mut request =
            self.agent.post(self.url.as_str()).header("content-type", "application/json");
        if !self.url.is_encrypted() {
            request = request.header("connection", "close");
        }
        match &self.key {
            Some(ApiKey(key)) => request.header("authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    fn read(&self, mut answer: Answer, mut body: impl Read, clock: &dyn Clock) -> Observed {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = body.read(&mut buffer);
            let t_ns = clock.monotonic_ns();
            match read {
                // A connection that was shut down may look like one that ends in order.
                Ok(0) if self.cancelled.is_raised() => {
                    return answer.broken(RequestStatus::Cancelled, CANCELLED, t_ns);
                }
                Ok(0) => return answer.complete(t_ns),
                Ok(count) => {
                    answer.push(&buffer[..count], t_ns);
                    // Some servers keep a body open after its last event. Who waits for them would begin
                    // the next request late; only a connection that is used again has to be read to its end.
                    if answer.is_done() && !self.url.is_encrypted() {
                        return answer.complete(t_ns);
                    }
                }
                Err(error) => return self.broken(answer, &ureq::Error::from(error), clock),
            }
        }
    }

    fn broken(&self, answer: Answer, error: &ureq::Error, clock: &dyn Clock) -> Observed {
        let t_ns = clock.monotonic_ns();
        if self.cancelled.is_raised() {
            return answer.broken(RequestStatus::Cancelled, CANCELLED, t_ns);
        }
        match error {
            ureq::Error::Timeout(ureq::Timeout::Global) => {
                let cause = format!("no complete answer within {} s", self.timeout.as_secs_f64());
                answer.broken(RequestStatus::Timeout, &cause, t_ns)
            }
            ureq::Error::Timeout(_) => {
                let cause = format!("no connection within {} s", CONNECT.as_secs_f64());
                answer.broken(RequestStatus::Timeout, &cause, t_ns)
            }
            ureq::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                answer.broken(RequestStatus::Error, "the server closed the connection", t_ns)
            }
            ureq::Error::Io(error) => answer.broken(RequestStatus::Error, &error.to_string(), t_ns),
            error => answer.broken(RequestStatus::Error, &error.to_string(), t_ns),
        }
    }

    /// A server may repeat the key in its message.
    fn without_key(&self, mut observed: Observed) -> Observed {
        if let (Some(ApiKey(key)), Some(error)) = (&self.key, &mut observed.error) {
            *error = error.replace(key.as_str(), "***");
        }
        observed
    }
}

const CANCELLED: &str = "cancelled";

/// The address of the endpoint: `url` itself where it names one, else below it.
fn endpoint(url: &str, api: Api) -> Result<Address, LoadError> {
    let given: Address = url.parse()?;
    let unusable = |problem: &'static str| LoadError::Url { url: given.to_string(), problem };
    if given.path().contains('?') {
        return Err(unusable("holds a query"));
    }
    let path = given.path().trim_end_matches('/');
    let name = match api {
        Api::Chat => "/chat/completions",
        Api::Completions => "/completions",
    };
    if path.ends_with("/completions") {
        let is_chat = path.ends_with("/chat/completions");
        if is_chat != (api == Api::Chat) {
            return Err(unusable("is not the endpoint that --api names"));
        }
        return Ok(given);
    }
    let version = if path.ends_with("/v1") { "" } else { "/v1" };
    Ok(format!("{}{path}{version}{name}", given.base()).parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_found_below_the_address_of_a_server() {
        let at = |url, api| endpoint(url, api).unwrap().to_string();
        let chat = "http://127.0.0.1:8000/v1/chat/completions";
        for url in
            ["http://127.0.0.1:8000", "http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/", chat]
        {
            assert_eq!(at(url, Api::Chat), chat);
        }
        let below = "https://host/llm/v1/completions";
        assert_eq!(at("https://host/llm", Api::Completions), below);
        assert_eq!(at(below, Api::Completions), below);
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_its_secret() {
        let message = |url| endpoint(url, Api::Chat).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                message("http://me:secret@host/v1"),
                message("http://host/v1/completions"),
                message("http://host/?a=b"),
            ]
            .join("\n"),
            @r#"
            "http://***@host/v1" holds a user or a password, which others could read; expected an address such as http://127.0.0.1:8000
            "http://host/v1/completions" is not the endpoint that --api names; expected an address such as http://127.0.0.1:8000
            "http://host/?a=b" holds a query; expected an address such as http://127.0.0.1:8000
            "#
        );
    }

    /// Counts how often it is read, and tells of each time.
    #[derive(Debug)]
    struct CountingClock {
        count: std::sync::atomic::AtomicI64,
        read: std::sync::mpsc::Sender<i64>,
    }

    impl Clock for CountingClock {
        fn monotonic_ns(&self) -> i64 {
            let count = self.count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let _ = self.read.send(count);
            count
        }

        fn wall_ns(&self) -> i64 {
            0
        }

        fn wait(&self, _: &Stop, _: i64) -> bool {
            true
        }
    }

    /// One request to that address.
    fn options(url: String) -> LoadOptions {
        LoadOptions {
            url,
            api: Api::Chat,
            model: None,
            source: super::super::RequestSource::Synthetic {
                count: 1,
                input_tokens: 1,
                output_tokens: 1,
            },
            arrival: super::super::Arrival::Closed { concurrency: 1 },
            count: None,
            time: None,
            warm_up: 0,
            seed: 0,
            extra: serde_json::Map::new(),
            timeout: Duration::from_secs(60),
            max_in_flight: 1,
            key: None,
            http: http::HttpOptions::default(),
        }
    }

    /// The server sends a piece only after the piece before was read and timed, however small it is; were
    /// anything held back on the way, both would wait until the time is over.
    #[test]
    fn each_piece_is_handed_out_as_soon_as_it_is_there() {
        use std::io::{BufRead, BufReader, Write};
        let (read, timed) = std::sync::mpsc::channel();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> =
                lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            assert!(head[0].starts_with("POST /v1/chat/completions"));
            assert_eq!(timed.recv(), Ok(0), "when it was sent");
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
                )
                .unwrap();
            let text = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
            for (index, event) in [text, text, ": still here\n\n", text].iter().enumerate() {
                stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).unwrap();
                assert_eq!(timed.recv(), Ok(1 + index as i64));
            }
            stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").unwrap();
        });
        let options = options(url);
        let clock = CountingClock { count: 0.into(), read };
        let (sent_ns, observed) = Client::open(&options).unwrap().send(b"{}", &clock);
        server.join().unwrap();
        assert_eq!((sent_ns, observed.first_token_ns, observed.end_ns), (0, Some(1), 5));
        // The comment was read at 3, between the second token and the third.
        assert_eq!(observed.gaps_ns, Some(vec![1, 2]));
        assert_eq!(observed.status, RequestStatus::Ok);
    }

    /// The server ends the body only once the client has gone; were its end awaited, both would wait until
    /// the time is over.
    #[test]
    fn an_answer_is_complete_with_its_last_event() {
        use std::io::{BufRead, BufReader, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while !lines.next().unwrap().unwrap().is_empty() {}
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
                      data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n",
                )
                .unwrap();
            // The request's body, then the end that the client makes.
            lines.map_while(Result::ok).count()
        });
        let clock = CountingClock { count: 0.into(), read: std::sync::mpsc::channel().0 };
        let (_, observed) = Client::open(&options(url)).unwrap().send(b"{}", &clock);
        assert_eq!((observed.status, observed.error), (RequestStatus::Ok, None));
        server.join().unwrap();
    }

    #[test]
    fn keys_go_in_the_clear_only_to_this_machine() {
        let options = http::HttpOptions::default();
        let is_safe = |url: &str| options.may_carry_credentials(&url.parse().unwrap());
        for url in ["https://host", "http://localhost:1", "http://127.0.0.2", "http://[::1]:80"] {
            assert!(is_safe(url), "{url}");
        }
        for url in ["http://host", "http://10.0.0.1", "http://localhost.example.org"] {
            assert!(!is_safe(url), "{url}");
        }
        let key = ApiKey::new(" sk-1\n").unwrap();
        assert_eq!((key.0.as_str(), format!("{key:?}").as_str()), ("sk-1", "ApiKey(***)"));
        assert!(ApiKey::new(" ").is_err() && ApiKey::new("a b").is_err());
    }
}
