//! A completion server that does what a test tells it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// In the order in which requests arrived, from 0.
    pub(crate) number: usize,
    pub(crate) path: String,
    /// Lines of the head, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A server on a port of its own; it ends with the test program.
pub(crate) struct CompletionServer {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl CompletionServer {
    /// Answers every request by `answer`, each connection in a thread of its own.
    pub(crate) fn start(answer: impl Fn(&Asked, &mut Reply) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, answer) = (seen.clone(), answer.clone());
                std::thread::spawn(move || serve(&stream.unwrap(), &seen, &*answer));
            }
        });
        Self { address, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that was asked.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: &TcpStream, seen: &Mutex<Vec<Asked>>, answer: &impl Fn(&Asked, &mut Reply)) {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(mut asked) = read_request(&mut reader) {
        {
            let mut seen = seen.lock().unwrap();
            asked.number = seen.len();
            seen.push(asked.clone());
        }
        let mut reply = Reply { stream: stream.try_clone().unwrap(), is_cut: false };
        answer(&asked, &mut reply);
        if reply.is_cut {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut asked = Asked { number: 0, path, headers, body: Value::Null };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = serde_json::from_slice(&body).unwrap_or_default();
    Some(asked)
}

/// What goes back.
pub(crate) struct Reply {
    stream: TcpStream,
    is_cut: bool,
}

impl Reply {
    /// Bytes as they are. A client that has gone is no failure of the server.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// A whole answer.
    pub(crate) fn whole(&mut self, status: u16, content_type: &str, body: &str) {
        let length = body.len();
        self.raw(
            format!(
                "HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        );
    }

    /// The head of a stream in chunks.
    pub(crate) fn begin(&mut self) {
        self.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
              Transfer-Encoding: chunked\r\n\r\n",
        );
    }

    /// One event as one chunk.
    pub(crate) fn event(&mut self, data: &str) {
        let event = format!("data: {data}\n\n");
        self.raw(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.event(&json!({"choices": [{"index": 0, "delta": {"content": text}}]}).to_string());
    }

    /// The counts, the last event, and the end of the stream.
    pub(crate) fn end(&mut self, input_tokens: u32, output_tokens: u32) {
        let usage = json!({"prompt_tokens": input_tokens, "completion_tokens": output_tokens});
        self.event(&json!({"choices": [], "usage": usage}).to_string());
        self.event("[DONE]");
        self.raw(b"0\r\n\r\n");
    }

    /// A stream of a role and then `tokens` tokens.
    pub(crate) fn stream(&mut self, input_tokens: u32, output_tokens: u32) {
        self.begin();
        self.event(r#"{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}"#);
        for token in 0..output_tokens {
            self.text(&format!(" {token}"));
        }
        self.event(r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}"#);
        self.end(input_tokens, output_tokens);
    }

    /// Closes the connection after this.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }
}
