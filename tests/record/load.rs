//! `load`, and the requests of `run`: what was sent, and what is recorded of the answers.

use std::fs;
use std::process::Output;
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};

use rustix::process::Signal;
use wattrace_schema::{RequestStage, RequestStatus, Requests, Run};

use crate::completion_server::CompletionServer;
use crate::http_service::{Authority, Reply, Service};
use crate::support::{Place, is_about_lateness, run_words, signal};

/// `load` to this server, with a small file of requests unless `more` says otherwise.
fn words<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = [
        "load",
        "--out",
        "{}/archive/run",
        "--power",
        "replay={}/boards.csv",
        "--keep-free",
        "0",
        "--flush",
        "0.2",
        "--model",
        "tiny",
        "--url",
        url,
    ];
    words.iter().chain(more).copied().collect()
}

fn load(place: &Place, url: &str, more: &[&str]) -> Output {
    place.record(&words(url, more)).env_remove("OPENAI_API_KEY").output().unwrap()
}

const MADE_UP: [&str; 6] = ["--synthetic", "3", "--input-tokens", "20", "--output-tokens", "5"];

fn made_up<'a>(more: &[&'a str]) -> Vec<&'a str> {
    MADE_UP.iter().chain(more).copied().collect()
}

/// Requests of a stage, in the order in which they were sent.
fn of_stage(run: &Run, stage: RequestStage) -> Vec<usize> {
    let requests = run.requests.as_ref().unwrap();
    (0..requests.len()).filter(|index| requests.stage[*index] == stage).collect()
}

fn statuses(requests: &Requests) -> Vec<(String, RequestStatus, String)> {
    let row = |index: usize| {
        let error = requests.error[index].clone().unwrap_or_default();
        (requests.request_id[index].clone(), requests.status[index], error)
    };
    (0..requests.len()).map(row).collect()
}

#[test]
fn every_request_is_a_row_and_one_is_sent_after_the_other() {
    let place = Place::with_calm_boards();
    let server = CompletionServer::start(|asked, reply| {
        let number = asked.number as u32;
        reply.stream(10 + number, 3 + number);
    });
    let output = load(
        &place,
        &server.url(),
        &made_up(&["--warmup-count", "2", "--body", r#"{"top_p": 1, "api_key": "of-mine"}"#]),
    );
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let asked = server.asked();
    assert_eq!(asked.len(), 5);
    for asked in &asked {
        assert_eq!(asked.path, "/v1/chat/completions");
        assert_eq!(asked.header("accept-encoding"), Some("identity"));
        assert_eq!(asked.header("authorization"), None);
        // Each on a connection of its own.
        assert_eq!(asked.header("connection"), Some("close"));
        let body = &asked.body;
        assert_eq!(
            (&body["model"], &body["max_tokens"], &body["top_p"]),
            (&"tiny".into(), &5.into(), &1.into())
        );
        assert_eq!(body["messages"][0]["content"].as_str().unwrap().split(' ').count(), 20);
    }
    let run = place.run("run");
    let requests = run.requests.as_ref().unwrap();
    assert_eq!(
        requests.request_id,
        ["warmup-1", "warmup-2", "request-1", "request-2", "request-3"]
    );
    let stages = run.manifest.stages;
    for index in 0..5 {
        let tokens = 3 + index as u32;
        assert_eq!(requests.status[index], RequestStatus::Ok);
        assert_eq!(
            (requests.input_tokens[index], requests.output_tokens[index]),
            (Some(10 + index as u32), Some(tokens))
        );
        assert_eq!(requests.gaps.of(index).0.len() as u32, tokens - 1);
        let (first, end) =
            (requests.t_first_token_ns[index].unwrap(), requests.t_end_ns[index].unwrap());
        assert!(requests.t_send_ns[index].unwrap() <= first && first <= end);
        let generated: u64 = requests.gaps.of(index).0.iter().sum();
        assert!(first + generated as i64 <= end);
        if index > 0 {
            assert!(requests.t_end_ns[index - 1] <= requests.t_send_ns[index], "one after another");
        }
    }
    assert_eq!(of_stage(&run, RequestStage::Warmup), [0, 1]);
    assert!(stages.warmup_start <= stages.formal_start);
    assert!(stages.formal_start.unwrap().nanos() <= requests.t_send_ns[2].unwrap());
    assert_eq!(stages.formal_end.unwrap().nanos(), requests.t_end_ns[4].unwrap());
    let manifest = &run.manifest;
    assert_eq!(manifest.model.name, "tiny");
    assert_eq!(manifest.workload.request_rate, None);
    let kept = serde_json::to_string(&manifest.provenance).unwrap();
    assert!(kept.contains("top_p") && !kept.contains("of-mine"), "{kept}");
    assert!(
        manifest.workload.dataset.as_deref().unwrap().starts_with("random words, about 20 input")
    );
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
}

#[test]
fn fifty_requests_are_under_way_at_once() {
    let place = Place::with_calm_boards();
    // Nobody is answered before all fifty have asked.
    let barrier = Barrier::new(50);
    let server = CompletionServer::start(move |_, reply| {
        barrier.wait();
        reply.stream(7, 4);
    });
    let more = [
        "--synthetic",
        "100",
        "--input-tokens",
        "5",
        "--output-tokens",
        "4",
        "--warmup-count",
        "0",
        "--concurrency",
        "50",
        // Where fewer ask at once, nobody is answered.
        "--timeout",
        "60",
    ];
    let output = load(&place, &server.url(), &more);
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let run = place.run("run");
    let requests = run.requests.as_ref().unwrap();
    assert_eq!(requests.len(), 100);
    assert!(requests.output_tokens.iter().all(|tokens| *tokens == Some(4)));
    assert!((0..100).all(|index| requests.gaps.of(index).0.len() == 3));
}

#[test]
fn requests_with_given_times_do_not_wait_for_answers() {
    let place = Place::with_calm_boards();
    place.write(
        "trace.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.000,3,10\n\
         2023-11-16 18:15:46.100,4,20\n2023-11-16 18:15:46.300,5,30\n",
    );
    for (arrival, name) in [
        (vec!["--requests", "{}/trace.csv", "--replay", "--speed-up", "2"], "trace"),
        (made_up(&["--rate", "1000"]), "random"),
        (made_up(&["--constant-rate", "1000"]), "even"),
    ] {
        let barrier = Barrier::new(3);
        let server = CompletionServer::start(move |_, reply| {
            barrier.wait();
            reply.stream(7, 4);
        });
        let out = format!("{{}}/archive/{name}");
        let mut more = vec!["--warmup-count", "0", "--timeout", "60", "--out", &out];
        more.extend(&arrival);
        let url = server.url();
        let mut words = words(&url, &more);
        words.drain(1..3);
        let output = place.output(&words);
        assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
        let run = place.run(name);
        let notes = &run.manifest.provenance.notes;
        assert!(
            notes.iter().any(|note| note.starts_with("load: formal requests were sent late by")),
            "{notes:?}"
        );
        assert_eq!(run.requests.as_ref().unwrap().len(), 3);
        if name == "trace" {
            let lengths: Vec<_> = server
                .asked()
                .iter()
                .map(|asked| asked.body["max_tokens"].as_u64().unwrap())
                .collect();
            assert_eq!(lengths, [10, 20, 30]);
            let sent = &run.requests.as_ref().unwrap().t_send_ns;
            let sent: Vec<_> = sent
                .iter()
                .map(|sent| sent.unwrap() - run.manifest.stages.formal_start.unwrap().nanos())
                .collect();
            // 0, 50 and 150 ms by the trace at twice its speed; never earlier.
            assert!(sent[0] >= 0 && sent[1] >= 50_000_000 && sent[2] >= 150_000_000, "{sent:?}");
            assert_eq!(run.manifest.workload.trace.as_deref(), Some("trace.csv"));
            // Two gaps in 300 ms at twice the speed: 2 / 0.15 s.
            assert!((run.manifest.workload.request_rate.unwrap() - 2.0 / 0.15).abs() < 1e-9);
        } else {
            assert_eq!(run.manifest.workload.request_rate, Some(1000.0));
        }
    }
}

#[test]
fn whatever_goes_wrong_is_a_row_that_says_what() {
    let place = Place::with_calm_boards();
    let server = CompletionServer::start(|asked, reply| {
        match asked.number {
        0 => reply.whole(503, "application/json", r#"{"error": {"message": "overloaded", "code": 503}}"#),
        1 => {
            reply.begin();
            reply.text("a");
            reply.event(r#"{"error": {"message": "out of memory"}}"#);
            reply.end(1, 1);
        }
        2 => {
            reply.begin();
            reply.text("a");
            reply.text("b");
            reply.cut();
        }
        3 => {
            reply.begin();
            reply.text("a");
            reply.raw(b"0\r\n\r\n");
        }
        4 => {
            reply.begin();
            reply.event("{cut");
            reply.end(1, 1);
        }
        5 => reply.cut(),
        6 => reply.whole(200, "application/json", r#"{"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}"#),
        7 => reply.whole(200, "text/html", "<html>"),
        8 => {
            reply.begin();
            reply.text("a");
            reply.event("[DONE]");
            reply.raw(b"0\r\n\r\n");
        }
        _ => {
            reply.begin();
            // The client gives up before anything comes.
            let (_sender, receiver) = channel::<()>();
            let _ = receiver.recv_timeout(std::time::Duration::from_secs(60));
        }
    }
    });
    let more =
        ["--synthetic", "9", "--input-tokens", "5", "--output-tokens", "4", "--warmup-count", "0"];
    let output = load(&place, &server.url(), &more);
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    assert!(
        place
            .stderr(&output)
            .contains("warning: 7 of 9 requests failed, the first: HTTP 503: overloaded"),
        "{}",
        place.stderr(&output)
    );
    let run = place.run("run");
    let requests = run.requests.as_ref().unwrap();
    let lines: Vec<_> = statuses(requests)
        .iter()
        .map(|(id, status, error)| format!("{id} {}: {error}", status.name()).trim_end().to_owned())
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
        request-1 error: HTTP 503: overloaded
        request-2 error: out of memory
        request-3 error: the server closed the connection
        request-4 error: the stream ended before [DONE]
        request-5 error: a chunk is not JSON
        request-6 error: the server closed the connection
        request-7 ok:
        request-8 error: the answer is neither an event stream nor JSON
        request-9 ok:
        "#);
    // What was seen before the failure is kept.
    assert_eq!(requests.gaps.of(2).0.len(), 1);
    assert_eq!(requests.output_tokens[2], None);
    // Not streamed: counted, without times of tokens.
    assert_eq!((requests.output_tokens[6], requests.t_first_token_ns[6]), (Some(2), None));
    // Without usage no count, whatever was seen.
    assert_eq!(requests.output_tokens[8], None);
    let notes = &run.manifest.provenance.notes;
    assert!(
        notes.iter().any(|note| note.contains("1 answers to formal requests came without a usage")),
        "{notes:?}"
    );
}

#[test]
fn a_request_that_takes_too_long_and_a_server_that_is_not_there() {
    let place = Place::with_calm_boards();
    let (held, hold) = channel::<()>();
    let hold = Mutex::new(hold);
    let server = CompletionServer::start(move |_, reply| {
        reply.begin();
        reply.text("a");
        // Until the client has given up.
        let _ = hold.lock().unwrap().recv();
        reply.cut();
    });
    let more = [
        "--synthetic",
        "1",
        "--input-tokens",
        "5",
        "--output-tokens",
        "4",
        "--warmup-count",
        "0",
        "--timeout",
        "0.3",
    ];
    let output = load(&place, &server.url(), &more);
    drop(held);
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    let run = place.run("run");
    let requests = run.requests.as_ref().unwrap();
    assert_eq!(
        statuses(requests)[0],
        ("request-1".into(), RequestStatus::Timeout, "no complete answer within 0.3 s".into())
    );
    assert!(requests.t_first_token_ns[0].is_some());

    // Nobody listens at the port of tcpmux.
    let url = "http://127.0.0.1:1".to_owned();
    let output = place.output(&[
        "load",
        "--out",
        "{}/archive/none",
        "--keep-free",
        "0",
        "--url",
        &url,
        "--synthetic",
        "1",
        "--input-tokens",
        "1",
        "--output-tokens",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    assert!(
        place.stderr(&output).contains("warm-up: 1 of 1 requests failed, the first: "),
        "{}",
        place.stderr(&output)
    );
    assert!(place.stderr(&output).contains("refused"), "{}", place.stderr(&output));
}

#[test]
fn a_run_needs_no_power() {
    let place = Place::new();
    let server = CompletionServer::start(|_, reply| reply.stream(7, 4));
    let url = server.url();
    let mut words = vec!["load", "--out", "{}/archive/run", "--keep-free", "0", "--url", &url];
    words.extend(MADE_UP);
    let output = place.output(&words);
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let run = place.run("run");
    assert!(run.power.is_empty() && run.manifest.power_sources.is_empty());
    assert_eq!(of_stage(&run, RequestStage::Formal).len(), 3);
    assert_eq!(of_stage(&run, RequestStage::Warmup).len(), 8);
    let broken = place.broken_rules();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn ctrl_c_breaks_off_what_is_under_way_and_the_run_is_written() {
    let place = Place::with_calm_boards();
    let (begun, has_begun) = channel();
    let begun = Mutex::new(begun);
    let server = CompletionServer::start(move |asked, reply| {
        if asked.number == 0 {
            return reply.stream(7, 2);
        }
        reply.begin();
        reply.text("a");
        begun.lock().unwrap().send(()).unwrap();
        // The rest never comes.
        let (_sender, never) = channel::<()>();
        let _ = never.recv_timeout(std::time::Duration::from_secs(60));
    });
    let url = server.url();
    let words = words(
        &url,
        &["--synthetic", "5", "--input-tokens", "5", "--output-tokens", "4", "--warmup-count", "0"],
    );
    let child = place.record(&words).env_remove("OPENAI_API_KEY").spawn().unwrap();
    has_begun.recv().unwrap();
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", place.stderr(&output));
    let run = place.run("run");
    let rows = statuses(run.requests.as_ref().unwrap());
    let expected = [
        ("request-1".to_owned(), RequestStatus::Ok, String::new()),
        ("request-2".to_owned(), RequestStatus::Cancelled, "cancelled".to_owned()),
    ];
    assert_eq!(rows, expected);
    assert!(run.manifest.stages.formal_end.is_some());
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
}

#[test]
fn a_key_is_sent_and_written_nowhere() {
    const KEY: &str = "sk-very-secret-123";
    let place = Place::with_calm_boards();
    let server = CompletionServer::start(|asked, reply| {
        let told = asked.header("authorization").unwrap_or("nothing").to_owned();
        reply.whole(401, "text/plain", &format!("wrong: {told}"));
    });
    let url = server.url();
    let words = words(&url, &made_up(&["--warmup-count", "0"]));
    let output = place.record(&words).env("OPENAI_API_KEY", KEY).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    assert!(
        server
            .asked()
            .iter()
            .all(|asked| asked.header("authorization") == Some(&format!("Bearer {KEY}")))
    );
    assert!(!place.stderr(&output).contains(KEY));
    let run = place.run("run");
    assert_eq!(statuses(run.requests.as_ref().unwrap())[0].2, "HTTP 401: wrong: Bearer ***");
    assert!(!format!("{:?}", run.manifest).contains(KEY));
    // Another machine gets it only encrypted.
    let file = place.write("key", KEY);
    let file = file.display().to_string();
    let output = place.output(&[
        "load",
        "--out",
        "{}/archive/far",
        "--url",
        "http://192.0.2.1",
        "--api-key-file",
        &file,
        "--synthetic",
        "1",
        "--input-tokens",
        "1",
        "--output-tokens",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(place.stderr(&output), @"error: the key would go to http://192.0.2.1/v1/chat/completions without encryption; use https, take the key away, or allow it with --allow-plain-credentials");
}

/// The service, its metrics and its sign of readiness: all are asked over TLS.
#[test]
fn certificates_are_verified_wherever_an_address_is_https() {
    let place = Place::with_calm_boards();
    let authority = Authority::new();
    let service = Service::start_tls(&authority, |question| match question.path.as_str() {
        "/metrics" => Reply::Text("requests_total 5\n".to_owned()),
        _ => Reply::json(&serde_json::json!({
            "choices": [{ "message": { "content": "a" } }],
            "usage": { "prompt_tokens": 20, "completion_tokens": 1 }
        })),
    });
    let ca_file = place.write("ca.pem", &authority.pem()).display().to_string();
    let (url, metrics) = (service.url(""), service.url("/metrics"));
    let record = |run: &str, more: &[&str]| {
        let out = format!("{{}}/archive/{run}");
        let words = ["run", "--out", &out, "--power", "replay={}/boards.csv", "--keep-free", "0"];
        let ready = ["--idle", "0.3", "--ready-url", &url, "--metrics", &metrics];
        let load =
            ["--load-url", &url, "--model", "tiny", "--synthetic", "1", "--warmup-count", "0"];
        let rest = ["--input-tokens", "20", "--output-tokens", "1", "--release-hold", "0.1"];
        let command = ["--", "sleep", "60"];
        let words = [&words[..], &ready, &load, &rest, more, &command].concat();
        place.record(&words).env_remove("OPENAI_API_KEY").output().unwrap()
    };
    for (name, trust) in [("known", ["--ca-file", &ca_file]), ("any", ["--insecure", "--quiet"])] {
        let output = record(name, &trust);
        let run = place.run(name);
        let requests = run.requests.as_ref().unwrap();
        assert_eq!(statuses(requests)[0].1, RequestStatus::Ok, "{}", place.stderr(&output));
        assert!(run.manifest.files.contains_key("engine.parquet"), "{:?}", run.manifest.files);
        let notes = run.manifest.provenance.notes.join("\n");
        let said = ["not verified by its certificate", "answers, not verified by a certificate"];
        assert!(said.iter().all(|text| notes.contains(text) == (name == "any")), "{notes}");
    }
    let output = record("unknown", &["--ready-wait", "0.5"]);
    assert_ne!(output.status.code(), Some(0));
    let run = place.run("unknown");
    assert!(run.requests.is_none_or(|requests| requests.is_empty()));
    assert!(!run.manifest.files.contains_key("engine.parquet"));
}

#[test]
fn each_rate_is_a_run_of_its_own() {
    let place = Place::new();
    // A board without values is a loss of every run, and ends none.
    place.write("boards.csv", "t,device,power_w\n0,gpu0,100\n0,gpu1,\n");
    let server = CompletionServer::start(|_, reply| reply.stream(7, 4));
    let output = load(
        &place,
        &server.url(),
        &[
            "--synthetic",
            "2",
            "--input-tokens",
            "5",
            "--output-tokens",
            "4",
            "--rates",
            "200,400.5",
            "--repeats",
            "2",
            "--requests-each",
            "6",
            "--warmup-count",
            "1",
        ],
    );
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    for (name, rate) in [
        ("run-rate-200-1", 200.0),
        ("run-rate-400.5-1", 400.5),
        ("run-rate-200-2", 200.0),
        ("run-rate-400.5-2", 400.5),
    ] {
        let run = place.run(name);
        assert_eq!(run.manifest.workload.request_rate, Some(rate));
        assert_eq!(of_stage(&run, RequestStage::Formal).len(), 6);
    }
    // No prompt is sent twice.
    let prompts: std::collections::BTreeSet<_> =
        server.asked().iter().map(|asked| asked.body["messages"].to_string()).collect();
    assert_eq!(prompts.len(), 28);
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is_recorded() {
    let place = Place::with_calm_boards();
    place.write("odd.csv", "a,b\n1,2\n");
    let to = |url: &str, more: &[&str]| {
        let output = load(&place, url, more);
        assert_eq!(output.status.code(), Some(2));
        assert!(!place.archive().exists());
        let text = place.stderr(&output);
        text.lines().next().unwrap().to_owned()
    };
    let message = |more: &[&str]| to("http://127.0.0.1:1", more);
    insta::assert_snapshot!(
        [
            message(&[]),
            message(&["--requests", "{}/none.jsonl"]),
            message(&["--requests", "{}/odd.csv"]),
            message(&made_up(&["--body", "[1]"])),
            message(&made_up(&["--body", r#"{"stream": false}"#])),
            message(&made_up(&["--rate", "0"])),
            message(&made_up(&["--rates", "1,2"])),
            message(&made_up(&["--rates", "2,1,2.0", "--seconds-each", "1"])),
            message(&made_up(&["--rate", "1", "--concurrency", "2"])),
            to("http://user:secret@127.0.0.1", &MADE_UP),
            // The port of the proxy need not be free: nothing listens before this is refused.
            to("http://localhost:1/v1", &made_up(&["--proxy", "1=http://127.0.0.1:2"])),
            to("http://127.0.0.1:1", &made_up(&["--proxy", "0.0.0.0:1=http://127.0.0.1:2"])),
        ]
        .join("\n"),
        @r#"
        error: nothing says what to send; expected --requests FILE, or --synthetic N with --input-tokens and --output-tokens
        error: cannot open "{}/none.jsonl": No such file or directory (os error 2)
        error: "{}/odd.csv": is no request trace; expected CSV with the columns TIMESTAMP, ContextTokens and GeneratedTokens, or lines of JSON with timestamp, input_length and output_length; nor are its lines requests, JSON with prompt or messages
        error: invalid value '[1]' for '--body <JSON>': expected a JSON object: invalid type: sequence, expected a map at line 1 column 0
        error: --body: "stream" is false; answers are timed as they stream, so leave it out
        error: invalid value '0' for '--rate <R>': expected a number from 0.000001 to 1000000
        error: --rates needs --seconds-each or --requests-each
        error: --rates: 2 is given twice; expected each rate once, and --repeats for several runs of each
        error: the argument '--rate <R>' cannot be used with '--concurrency <C>'
        error: "http://***@127.0.0.1" holds a user or a password, which others could read; expected an address such as http://127.0.0.1:8000
        error: --proxy 127.0.0.1:1=http://127.0.0.1:2 would record the requests that are sent from here a second time; expected the address of the service itself
        error: --proxy 0.0.0.0:1=http://127.0.0.1:2 would record the requests that are sent from here a second time; expected the address of the service itself
        "#
    );
}

#[test]
fn requests_from_here_wait_until_the_service_is_ready() {
    let place = Place::with_calm_boards();
    let mut words = run_words(&["--load-url", "http://127.0.0.1:1"]);
    words.extend(made_up(&["--", "true"]));
    let output = place.output(&words);
    assert_eq!(output.status.code(), Some(2));
    let text = place.stderr(&output);
    assert!(
        text.contains("--ready-url <URL>|--ready-command <SHELL>|--ready-log <TEXT>"),
        "{text}"
    );
}

#[test]
fn a_service_is_measured_with_requests_from_here() {
    let place = Place::with_calm_boards();
    let server = CompletionServer::start(|_, reply| reply.stream(7, 4));
    let url = server.url();
    let output = place
        .record(&run_words(&[
            "--load-url",
            &url,
            "--model",
            "tiny",
            "--synthetic",
            "6",
            "--input-tokens",
            "5",
            "--output-tokens",
            "4",
            "--concurrency",
            "3",
            "--ready-log",
            "up",
            "--",
            "sh",
            "-c",
            "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done",
        ]))
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let run = place.run("run");
    let stamps = run.manifest.stages.in_order();
    let missing: Vec<_> =
        stamps.iter().filter(|(_, time)| time.is_none()).map(|(name, _)| *name).collect();
    assert_eq!(missing, ["decode_start", "decode_end", "memory_released"]);
    assert_eq!(of_stage(&run, RequestStage::Warmup).len(), 8);
    assert_eq!(of_stage(&run, RequestStage::Formal).len(), 6);
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
    let text = fs::read_to_string(place.path("archive/run/run.json")).unwrap();
    assert!(text.contains("load: requests to http://127.0.0.1:"), "{text}");
}
