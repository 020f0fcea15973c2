//! `proxy`, and the proxies of `run`: what goes by is recorded, and arrives as it was sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use wattrace_schema::{RequestStage, RequestStatus, Requests};

use crate::completion_server::CompletionServer;
use crate::support::{Place, is_about_lateness, run_words, signal};

/// Starts `proxy` and gives the address at which it listens.
fn start(place: &Place, url: &str) -> (Child, String) {
    let words =
        ["proxy", "--out", "{}/archive/seen", "--keep-free", "0", "--listen", "0", "--to", url];
    let mut child = place.record(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.find_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("requests to ").map(|rest| rest.split(' ').next().unwrap().to_owned())
    });
    // The pipe has to be read, or the program would wait for that.
    std::thread::spawn(move || lines.for_each(drop));
    (child, said.unwrap())
}

fn end(mut child: Child) {
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn lasted_ns(requests: &Requests, index: usize) -> (i64, i64) {
    let sent = requests.t_send_ns[index].unwrap();
    (requests.t_first_token_ns[index].unwrap() - sent, requests.t_end_ns[index].unwrap() - sent)
}

#[test]
fn a_client_and_the_proxy_before_it_see_the_same() {
    let place = Place::new();
    let server = CompletionServer::start(|asked, reply| match asked.number {
        4 => reply.whole(503, "application/json", r#"{"error": {"message": "overloaded"}}"#),
        number => reply.stream(10, 2 + number as u32),
    });
    let (proxy, url) = start(&place, &server.url());
    let output = place
        .record(&[
            "load",
            "--out",
            "{}/archive/sent",
            "--keep-free",
            "0",
            "--url",
            &url,
            "--synthetic",
            "8",
            "--input-tokens",
            "5",
            "--output-tokens",
            "5",
            "--warmup-count",
            "0",
        ])
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    end(proxy);
    let (sent, seen) = (place.run("sent"), place.run("seen"));
    let (sent, seen_requests) = (sent.requests.unwrap(), seen.requests.as_ref().unwrap());
    assert_eq!((sent.len(), seen_requests.len()), (8, 8));
    assert_eq!(sent.status, seen_requests.status);
    assert_eq!(sent.error, seen_requests.error);
    assert_eq!(sent.output_tokens, seen_requests.output_tokens);
    assert_eq!(sent.status[4], RequestStatus::Error);
    for index in (0..8).filter(|index| *index != 4) {
        assert_eq!(seen_requests.output_tokens[index], Some(2 + index as u32));
        assert_eq!(seen_requests.gaps.of(index).0.len(), 1 + index);
        assert_eq!(seen_requests.stage[index], RequestStage::Formal);
        // The proxy hears of a request after it was sent, and of each token before the client does.
        let (first, end) = lasted_ns(&sent, index);
        let (seen_first, seen_end) = lasted_ns(seen_requests, index);
        assert!(seen_first < first && seen_end < end, "{seen_first} {first} {seen_end} {end}");
    }
    assert_eq!(seen_requests.request_id[7], "proxy-8");
    let broken = place.broken_rules();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn bytes_pass_as_they_are_and_what_is_no_completion_is_not_recorded() {
    let place = Place::new();
    let answer = "HTTP/1.1 200 Fine\r\nX-Odd:  two  spaces\r\ncontent-length: 4\r\n\r\nabcd";
    let server = CompletionServer::start(move |_, reply| reply.raw(answer.as_bytes()));
    let (proxy, url) = start(&place, &server.url());
    let mut client = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    client.write_all(b"GET /v1/models HTTP/1.1\r\nhOsT: a\r\n\r\n").unwrap();
    let mut back = vec![0; answer.len()];
    client.read_exact(&mut back).unwrap();
    assert_eq!(String::from_utf8(back).unwrap(), answer);
    let completion = "POST /v1/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
    client.write_all(completion.as_bytes()).unwrap();
    client.read_exact(&mut vec![0; answer.len()]).unwrap();
    drop(client);
    end(proxy);
    let asked = server.asked();
    assert_eq!(asked[0].path, "/v1/models");
    assert_eq!(asked[0].headers, [("host".to_owned(), "a".to_owned())]);
    let requests = place.run("seen").requests.unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        requests.error[0].as_deref(),
        Some("the answer is neither an event stream nor JSON")
    );
}

#[test]
fn requests_of_any_client_are_recorded_in_their_stage() {
    let place = Place::with_calm_boards();
    let server = CompletionServer::start(|asked, reply| reply.stream(10, 2 + asked.number as u32));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let route = format!("{port}={}", server.url());
    let program = env!("CARGO_BIN_EXE_wattrace-record");
    let client = |name: &str, count: u32| {
        format!(
            "unset OPENAI_API_KEY; {program} load --quiet --out {{}}/other/{name} --keep-free 0 --url \
             http://127.0.0.1:{port} --synthetic {count} --input-tokens 5 --output-tokens 5 --warmup-count 0"
        )
    };
    // Whoever still wants something while the service ends is too late.
    let late = format!("trap '{}; exit 0' TERM; while :; do sleep 0.05; done", client("late", 1));
    let output = place.output(&run_words(&[
        "--proxy",
        &route,
        "--warmup-count",
        "1",
        "--warmup",
        &client("warm", 2),
        "--formal",
        &client("formal", 3),
        "--",
        "sh",
        "-c",
        &late,
    ]));
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    assert!(place.path("other/late").exists(), "the late client ran");
    let run = place.run("run");
    let requests = run.requests.as_ref().unwrap();
    let stages: Vec<_> = requests.stage.iter().map(|stage| stage.name()).collect();
    assert_eq!(stages, ["warmup", "warmup", "formal", "formal", "formal"]);
    assert!(requests.status.iter().all(|status| *status == RequestStatus::Ok));
    let formal_end = run.manifest.stages.formal_end.unwrap().nanos();
    assert!(requests.t_end_ns.iter().all(|end| end.unwrap() <= formal_end));
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
}

#[test]
fn a_proxy_that_cannot_be_is_refused_before_anything_is_recorded() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let message = |listen: &str, to: &str| {
        let words = [
            "proxy",
            "--out",
            "{}/archive/run",
            "--keep-free",
            "0",
            "--listen",
            listen,
            "--to",
            to,
        ];
        let output = place.output(&words);
        assert_eq!(output.status.code(), Some(2));
        assert!(!place.archive().exists());
        place.stderr(&output).replace(&port, "PORT").trim_end().to_owned()
    };
    insta::assert_snapshot!(
        [
            message(&port, "http://127.0.0.1:1"),
            message("here", "http://127.0.0.1:1"),
            message("0", "https://127.0.0.1"),
        ]
        .join("\n"),
        @r#"
        error: cannot listen at 127.0.0.1:PORT: Address already in use (os error 98)
        error: "here" is no address to listen at; expected a port of this machine, such as 8001 or 127.0.0.1:8001
        error: "https://127.0.0.1": the proxy passes bytes on as they are and cannot encrypt them; let another program do that, such as socat TCP-LISTEN:8002,bind=127.0.0.1,fork,reuseaddr OPENSSL:127.0.0.1:443, and name http://127.0.0.1:8002
        "#
    );
}
