use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use proptest::prelude::*;
use wattrace_schema::{RequestStage, RequestStatus};
use wattrace_trace::RequestRow;

use super::{Proxy, ProxyRoute};
use crate::Context;
use crate::clock::SystemClock;

/// A proxy to a server that does `serve` with each connection.
fn proxy(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> (Proxy, Arc<Context>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream.unwrap()));
        }
    });
    proxy_to(&format!("http://{server}"))
}

fn proxy_to(url: &str) -> (Proxy, Arc<Context>) {
    let context = Arc::new(Context::new(Arc::new(SystemClock)));
    context.begin_formal(i64::MIN);
    let proxy = Proxy::bind(&ProxyRoute::new("0", url).unwrap(), context.clone()).unwrap();
    proxy.open().unwrap();
    (proxy, context)
}

/// Closes the proxy and gives the rows.
fn rows(proxy: Proxy, context: &Context) -> Vec<RequestRow> {
    proxy.close();
    context.sink.take().requests
}

/// Everything up to an empty line.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).unwrap()
}

const POST: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n";
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

fn event(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn token() -> String {
    event(r#"{"choices":[{"delta":{"content":"a"}}]}"#)
}

fn usage(tokens: u32) -> String {
    event(&format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":{tokens}}}}}"#
    ))
}

fn row_facts(row: &RequestRow) -> (RequestStatus, Option<&str>, Option<u32>, Option<usize>) {
    (row.status, row.error.as_deref(), row.output_tokens, row.itl_ns.as_ref().map(Vec::len))
}

#[test]
fn a_streamed_completion_is_a_row_and_other_requests_are_none() {
    let (proxy, context) = proxy(|mut stream| {
        for _ in 0..4 {
            let head = read_head(&mut stream);
            if head.starts_with("POST") {
                stream.read_exact(&mut [0; 2]).unwrap();
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                let answer = [
                    STREAM,
                    &token(),
                    &token(),
                    &token(),
                    &usage(3),
                    &event("[DONE]"),
                    "0\r\n\r\n",
                ];
                stream.write_all(answer.concat().as_bytes()).unwrap();
            } else {
                let body = if head.starts_with("HEAD") { "" } else { "ok" };
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    // All at once: a client need not wait for answers.
    let health = "GET /health HTTP/1.1\r\n\r\n";
    let head = "HEAD /health HTTP/1.1\r\n\r\n";
    client.write_all(format!("{head}{health}{POST}{{}}{health}").as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("200 OK").count(), 4);
    assert!(all.ends_with("\r\n\r\nok"));
    let rows = rows(proxy, &context);
    assert_eq!(rows.len(), 1);
    assert_eq!(row_facts(&rows[0]), (RequestStatus::Ok, None, Some(3), Some(2)));
    assert_eq!((rows[0].request_id.as_str(), rows[0].stage), ("proxy-1", RequestStage::Formal));
    assert!(rows[0].t_send_ns < rows[0].t_first_token_ns);
    assert!(rows[0].t_first_token_ns <= rows[0].t_end_ns);
    assert_eq!(context.failures(), []);
}

#[test]
fn an_answer_that_is_not_streamed_is_counted_and_one_that_ends_with_the_connection_is_complete() {
    let (proxy, context) = proxy(|mut stream| {
        read_head(&mut stream);
        stream.read_exact(&mut [0; 2]).unwrap();
        stream
            .write_all(
                b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n\
                  {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":8}}",
            )
            .unwrap();
    });
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.write_all(format!("{POST}{{}}").as_bytes()).unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).unwrap();
    drop(client);
    let rows = rows(proxy, &context);
    assert_eq!(row_facts(&rows[0]), (RequestStatus::Ok, None, Some(8), None));
}

#[test]
fn a_client_that_leaves_and_a_server_that_leaves_are_told_apart() {
    let (left, has_left) = std::sync::mpsc::channel();
    let left = std::sync::Mutex::new(left);
    let (proxy, context) = proxy(move |mut stream| {
        let head = read_head(&mut stream);
        stream.read_exact(&mut [0; 2]).unwrap();
        stream.write_all([STREAM, &token()].concat().as_bytes()).unwrap();
        if head.contains("Wait: 1") {
            // As a server does that hears that its client has gone.
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            left.lock().unwrap().send(()).unwrap();
        }
    });
    let begin = |post: &str| {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.write_all(format!("{post}{{}}").as_bytes()).unwrap();
        let length = STREAM.len() + token().len();
        client.read_exact(&mut vec![0; length]).unwrap();
        client
    };
    drop(begin(&POST.replace("Host: x", "Wait: 1")));
    has_left.recv().unwrap();
    let mut client = begin(POST);
    assert_eq!(
        client.read(&mut [0]).unwrap(),
        0,
        "the end of the server is the end for the client"
    );
    drop(client);
    let rows = rows(proxy, &context);
    let facts: Vec<_> = rows.iter().map(row_facts).collect();
    assert!(
        facts.contains(&(
            RequestStatus::Cancelled,
            Some("the client closed the connection"),
            None,
            Some(0)
        )),
        "{facts:?}"
    );
    assert!(
        facts.contains(&(
            RequestStatus::Error,
            Some("the server closed the connection"),
            None,
            Some(0)
        )),
        "{facts:?}"
    );
}

#[test]
fn a_server_that_is_not_there_closes_the_connection_and_the_request_has_failed() {
    // Nobody listens at the port of tcpmux.
    let (proxy, context) = proxy_to("http://127.0.0.1:1");
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.write_all(format!("{POST}{{}}").as_bytes()).unwrap();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    let rows = rows(proxy, &context);
    assert_eq!(
        row_facts(&rows[0]),
        (RequestStatus::Error, Some("the server could not be reached"), None, None)
    );
}

#[test]
fn what_cannot_be_followed_passes_and_is_counted() {
    let (proxy, context) = proxy(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    for text in ["\u{1}\u{2} not http", &format!("{POST}{{}}")] {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.write_all(text.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut back = String::new();
        client.read_to_string(&mut back).unwrap();
        assert_eq!(back, text);
    }
    let rows = rows(proxy, &context);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0].error.as_deref(),
        Some("the connection could not be followed: an answer is no HTTP/1.1")
    );
    let failures: Vec<_> =
        context.failures().into_iter().map(|failure| (failure.cause, failure.count)).collect();
    assert_eq!(
        failures,
        [("a request is no HTTP/1.1".to_owned(), 1), ("an answer is no HTTP/1.1".to_owned(), 1)]
    );
}

#[test]
fn the_end_of_the_recording_breaks_off_what_still_passes() {
    let (proxy, context) = proxy(|mut stream| {
        read_head(&mut stream);
        stream.read_exact(&mut [0; 2]).unwrap();
        stream.write_all([STREAM, &token()].concat().as_bytes()).unwrap();
        // Until the proxy breaks it off.
        let _ = stream.read(&mut [0]);
    });
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.write_all(format!("{POST}{{}}").as_bytes()).unwrap();
    client.read_exact(&mut vec![0; STREAM.len() + token().len()]).unwrap();
    // One that never said anything.
    let _idle = TcpStream::connect(proxy.address()).unwrap();
    let rows = rows(proxy, &context);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        row_facts(&rows[0]),
        (RequestStatus::Cancelled, Some("the measurement ended"), None, Some(0))
    );
}

/// While the sink takes nothing, the observer waits with the first row; copies pile up behind it until
/// there are too many. All bytes pass meanwhile.
#[test]
fn a_recorder_that_falls_behind_does_not_hold_up_what_passes() {
    const LARGE: usize = 48 << 20;
    let (proxy, context) = proxy(|mut stream| {
        for length in [2, LARGE] {
            read_head(&mut stream);
            std::io::copy(&mut (&stream).take(length as u64), &mut std::io::sink()).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        }
    });
    let most = 200_000;
    context.sink.power(vec![crate::sink::SampledRow::default(); most]).unwrap();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let mut answer = [0; 40];
    let mut ask = |head: &str, length: usize| {
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&vec![b'x'; length]).unwrap();
        client.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(b"{}"));
    };
    ask(POST, 2);
    ask(&POST.replace("Content-Length: 2", &format!("Content-Length: {LARGE}")), LARGE);
    assert_eq!(context.sink.take().power.len(), most);
    let rows = rows(proxy, &context);
    let errors: Vec<_> = rows.iter().map(|row| row.error.as_deref()).collect();
    assert_eq!(errors, [None, Some("not observed to its end: the recorder fell behind")]);
    let failures = context.failures();
    assert_eq!((failures[0].cause.as_str(), failures[0].count), ("the recorder fell behind", 1));
    assert!(context.take_notes()[1].starts_with("proxy: 1 connections were no longer observed"));
}

#[test]
fn routes_are_read_and_those_that_cannot_work_are_refused() {
    let shown = |text: &str| text.parse::<ProxyRoute>().unwrap().to_string();
    assert_eq!(shown("8001=http://localhost:8000/"), "127.0.0.1:8001=http://localhost:8000");
    assert_eq!(shown("localhost:1=http://[::1]"), "127.0.0.1:1=http://[::1]:80");
    let message = |text: &str| text.parse::<ProxyRoute>().unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            message("8001"),
            message("host:x=http://h"),
            message("1=https://api.example.org"),
            message("1=http://user:secret@h"),
            message("1=http://h/v1"),
            message("1=h:80"),
        ]
        .join("\n"),
        @r#"
        "8001" is no route; expected LISTEN=URL, such as 127.0.0.1:8001=http://127.0.0.1:8000
        "host:x" is no address to listen at; expected a port of this machine, such as 8001 or 127.0.0.1:8001
        "https://api.example.org": the proxy passes bytes on as they are and cannot encrypt them; let another program do that, such as socat TCP-LISTEN:8002,bind=127.0.0.1,fork,reuseaddr OPENSSL:api.example.org:443, and name http://127.0.0.1:8002
        "http://***@h" holds a user or a password, which others could read; expected an address such as http://127.0.0.1:8000
        "http://h/v1" holds a path, and paths pass as they are; expected an address such as http://127.0.0.1:8000
        "h:80" is neither http nor https; expected an address such as http://127.0.0.1:8000
        "#
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The server sends back what it gets, cut in other places; whether it is HTTP or not.
    #[test]
    fn every_byte_arrives_as_it_was_sent(
        bytes in prop::collection::vec(any::<u8>(), 1..200_000),
        is_http in any::<bool>(),
        pieces in prop::collection::vec(1_usize..70_000, 1..20),
    ) {
        let sent = if is_http {
            let head = format!("POST /v1/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n", bytes.len());
            [head.as_bytes(), &bytes].concat()
        } else {
            bytes
        };
        let (proxy, context) = proxy(|mut stream| {
            let mut buffer = vec![0; 1_000];
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    count => stream.write_all(&buffer[..count]).unwrap(),
                }
            }
        });
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        let mut writer = client.try_clone().unwrap();
        let expected = sent.clone();
        let writing = std::thread::spawn(move || {
            let mut left = sent.as_slice();
            for piece in pieces.iter().cycle() {
                let (now, later) = left.split_at((*piece).min(left.len()));
                writer.write_all(now).unwrap();
                left = later;
                if left.is_empty() {
                    break;
                }
            }
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        writing.join().unwrap();
        proptest::prop_assert!(back == expected);
        let rows = rows(proxy, &context);
        // What comes back is no answer, so a request is recorded as failed; what is no request, not at all.
        proptest::prop_assert!(rows.len() <= 1);
    }
}
