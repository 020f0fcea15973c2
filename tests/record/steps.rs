//! Logs of engines that are read while they are written, and their metrics.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use wattrace_record::clock::Clock;
use wattrace_record::steps::{self, StepsSource};
use wattrace_record::{Context, Stop};
use wattrace_trace::StepRow;
use wattrace_trace::format::{ImportOptions, import};

use crate::support::{Place, is_about_lateness, number_between, run_words, wait_for_formal_window};

const SECOND_NS: i64 = 1_000_000_000;

/// Time that moves only when something waits; then, whatever an engine would have logged meanwhile is
/// appended to its log. The recording stops after the last line.
#[derive(Debug)]
struct Engine {
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now_ns: i64,
    /// Lines still to be written, the next one last, each with its time.
    lines: Vec<(i64, String)>,
}

impl Engine {
    fn new(log: &Path, start_ns: i64, mut lines: Vec<(i64, String)>) -> Arc<Self> {
        lines.reverse();
        let state = Mutex::new(State { now_ns: start_ns, lines });
        Arc::new(Self { log: log.to_owned(), state })
    }
}

impl Clock for Engine {
    fn monotonic_ns(&self) -> i64 {
        self.state.lock().unwrap().now_ns
    }

    fn wall_ns(&self) -> i64 {
        self.monotonic_ns()
    }

    fn wait(&self, stop: &Stop, until_ns: i64) -> bool {
        let mut state = self.state.lock().unwrap();
        state.now_ns = state.now_ns.max(until_ns);
        let mut log = File::options().create(true).append(true).open(&self.log).unwrap();
        while state.lines.last().is_some_and(|(t_ns, _)| *t_ns <= state.now_ns) {
            let (_, line) = state.lines.pop().unwrap();
            writeln!(log, "{line}").unwrap();
        }
        if state.lines.is_empty() {
            stop.raise();
        }
        stop.is_raised()
    }
}

/// Follows the log of an engine to its end.
fn follow(engine: Arc<Engine>) -> (Vec<StepRow>, Vec<String>) {
    let log = engine.log.clone();
    let context = Arc::new(Context::new(engine));
    steps::run(&context, StepsSource::from_start(&log, None), 0, 1);
    assert!(context.failures().is_empty(), "{:?}", context.failures());
    (context.sink.take().steps, context.take_notes())
}

/// Our own capture of a real vLLM server.
fn captured() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("WATTRACE_SHARED_DATA").map_or(beside, PathBuf::from);
    let log = data.join("captured/vllm_server.log");
    if !log.exists() {
        println!("skipped: there is no {}", log.display());
        return None;
    }
    Some(log)
}

/// The second in which a line of that log was written, nanoseconds since 1970.
fn second_ns(line: &str) -> Option<i64> {
    let at = line.find("11-30 ")?;
    let time = line.get(at + 6..at + 14)?;
    let text = format!("2026-11-30T{time}Z");
    Some(wattrace_schema::TimestampNs::parse(&text).ok()?.nanos())
}

#[test]
fn a_growing_log_gives_what_its_import_gives() {
    let Some(captured) = captured() else { return };
    let text = fs::read_to_string(captured).unwrap();
    // Lines of one second are spread evenly over it; those without a stamp follow the one before.
    let mut seconds: Vec<(i64, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (second_ns(line), seconds.last_mut()) {
            (Some(second), Some((last, lines))) if second <= *last => lines.push(line),
            (None, Some((_, lines))) => lines.push(line),
            (Some(second), _) => seconds.push((second, vec![line])),
            (None, None) => (),
        }
    }
    let lines: Vec<(i64, String)> = seconds
        .iter()
        .flat_map(|(second, lines)| {
            let step = SECOND_NS / lines.len() as i64;
            lines
                .iter()
                .zip(0..)
                .map(move |(line, index)| (second + step * index + step / 2, (*line).to_owned()))
        })
        .collect();
    let written: Vec<i64> =
        lines.iter().filter(|(_, line)| line.contains("Iteration(")).map(|(t, _)| *t).collect();

    let place = Place::new();
    let start_ns = lines[0].0 - 2 * SECOND_NS;
    let (steps, notes) = follow(Engine::new(&place.path("vllm.log"), start_ns, lines));

    let options = ImportOptions {
        time_zone: Some("UTC".into()),
        year: Some(2026),
        run_id: Some("imported".into()),
        ..ImportOptions::default()
    };
    let summary =
        import("vllm-log", &[place.path("vllm.log")], &place.archive(), &options).unwrap();
    assert!(summary.failed.is_empty(), "{summary:?}");
    let imported = place.run("imported").steps.unwrap();
    // grep -c 'Iteration(' counts as many.
    assert_eq!((steps.len(), imported.len()), (3796, 3796));
    for (index, row) in steps.iter().enumerate() {
        assert_eq!((row.step, row.replica), (imported.step[index], imported.replica[index]));
        assert_eq!(row.new_tokens, imported.new_tokens[index]);
        assert_eq!(row.prefill_tokens, imported.prefill_tokens[index]);
        assert_eq!(row.active_sequences, imported.active_sequences[index]);
        let length = |start: Option<i64>, end: i64| end - start.unwrap();
        assert_eq!(
            length(row.t_start_ns, row.t_end_ns),
            length(imported.t_start_ns[index], imported.t_end_ns[index])
        );
        assert!(row.t_end_ns.abs_diff(imported.t_end_ns[index]) <= SECOND_NS as u64);
    }
    let off = steps.iter().zip(&written).map(|(row, written)| row.t_end_ns.abs_diff(*written));
    let imported_off =
        imported.t_end_ns.iter().zip(&written).map(|(end, written)| end.abs_diff(*written));
    let (off, imported_off): (Vec<u64>, Vec<u64>) = (off.collect(), imported_off.collect());
    let mean = |off: &[u64]| off.iter().sum::<u64>() / off.len() as u64 / 1_000_000;
    println!(
        "ends off the moment of writing: mean {} ms, at most {} ms followed; mean {} ms, at most {} ms \
         imported",
        mean(&off),
        off.iter().max().unwrap() / 1_000_000,
        mean(&imported_off),
        imported_off.iter().max().unwrap() / 1_000_000
    );
    assert!(mean(&off) <= mean(&imported_off));
    // The benchmark of 60 requests with 60 tokens in and 40 out, the first of which comes from prefill.
    let nanos = |text| wattrace_schema::TimestampNs::parse(text).unwrap().nanos();
    let bench = nanos("2026-11-30T04:42:10Z")..nanos("2026-11-30T04:43:00Z");
    let sums = steps
        .iter()
        .filter(|row| bench.contains(&row.t_end_ns))
        .fold((0, 0), |(prefill, new), row| (prefill + row.prefill_tokens, new + row.new_tokens));
    assert_eq!(sums, (3600, 2340));
    println!("{notes:#?}");
    assert!(
        notes.iter().any(|note| note.contains("their zone, +00:00, and year follow")),
        "{notes:?}"
    );
}

#[test]
fn broken_and_foreign_lines_are_counted_and_lose_no_other() {
    let place = Place::new();
    let log = place.path("server.log");
    let t0 = wattrace_schema::TimestampNs::parse("2026-01-31T12:00:00Z").unwrap().nanos();
    // Berlin, one hour ahead; a step each 100 ms.
    let line = |number: i64| {
        let second = number / 10;
        let text = format!(
            "INFO 01-31 13:00:{second:02} [core.py:343] Iteration({number}): 0 context requests, 0 context \
             tokens, 2 generation requests, 2 generation tokens, iteration elapsed time: 50.00 ms"
        );
        (t0 + number * SECOND_NS / 10 + SECOND_NS / 20, text)
    };
    let mut lines: Vec<(i64, String)> = (0..100).map(line).collect();
    lines[40].1 = "INFO 01-31 13:00:04 [core.py:343] Iteration(40): broken".to_owned();
    lines.insert(0, (t0, "a line of a wrapper".to_owned()));
    let (steps, notes) = follow(Engine::new(&log, t0 - SECOND_NS, lines));
    let numbers: Vec<u64> = steps.iter().map(|row| row.step).collect();
    let expected: Vec<u64> = (0..100).filter(|number| *number != 40).collect();
    assert_eq!(numbers, expected);
    // A line seen at a look was written since the one before: each end is known to 100 ms and a bit.
    for row in &steps {
        let written = t0 + row.step as i64 * SECOND_NS / 10 + SECOND_NS / 20;
        assert!(row.t_end_ns.abs_diff(written) <= 120_000_000, "step {}", row.step);
    }
    insta::assert_snapshot!(notes.join("\n"), @r#"
    steps from server.log (vllm): server.log line 42 skipped: is an iteration line without iteration elapsed time; expected "Iteration(N): … iteration elapsed time: X ms"
    steps from server.log (vllm): its stamps are of this machine's clock; their zone, +01:00, and year follow from when lines were seen
    steps from server.log (vllm): 99 steps; stamps have whole seconds, so ends within a second follow from durations and order, at most 100 ms off; the log has no history lengths
    steps from server.log (vllm): lines before the first of a known engine, not read: 1
    "#);
}

/// Answers every question with what `body` gives for its number, from 1; gives the address.
fn serve(body: impl Fn(u32) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (stream, number) in listener.incoming().zip(1..) {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                line.clear();
            }
            let body = body(number);
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn statistics_that_are_given_once_are_asked_for_until_the_end() {
    let place = Place::with_calm_boards();
    // Two iterations an answer, without a stamp; the engine dropped one in between.
    let address = serve(|number| {
        let iteration = |iter: u32| {
            format!(
                "{{\"timestamp\":\"\",\"iter\":{iter},\"iterLatencyMS\":5.0,\"numActiveRequests\":3,\
                 \"inflightBatchingStats\":{{\"numGenRequests\":3,\"numCtxTokens\":0,\"numGenKvTokens\":99}}}}"
            )
        };
        format!("[{},{}]", iteration(number * 3), iteration(number * 3 + 1))
    });
    let output = place.output(&[
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        "replay={}/boards.csv",
        "--keep-free",
        "0",
        "--steps",
        &format!("trtllm={address}"),
        "--metrics-interval",
        "0.1",
        "--seconds",
        "0.5",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let run = place.run("run");
    let steps = run.steps.unwrap();
    let answers = steps.len() as u64 / 2;
    let expected: Vec<u64> = (1..=answers).flat_map(|n| [n * 3, n * 3 + 1]).collect();
    assert!(answers >= 2 && steps.step == expected, "{:?}", steps.step);
    assert!(steps.new_tokens.iter().all(|tokens| *tokens == 3));
    let notes = run.manifest.provenance.notes.join("\n");
    for text in [
        format!("(trtllm): {answers} answers"),
        format!("iterations missing between those that were polled: {}", answers - 1),
        "dated by when they were seen, at most".to_owned(),
    ] {
        assert!(notes.contains(&text), "{notes}");
    }
}

#[test]
fn run_follows_the_output_of_its_command_and_asks_for_metrics() {
    let place = Place::with_calm_boards();
    let address = serve(|number| format!("llamacpp:tokens_predicted_total {number}\n"));
    let service = "echo starting; for i in 1 2 3; do echo \"INFO $(date '+%m-%d %H:%M:%S') [core.py:343] \
                   Iteration($i): 0 context requests, 0 context tokens, 4 generation requests, 4 generation \
                   tokens, iteration elapsed time: 20.00 ms\"; sleep 0.1; done; echo \"INFO $(date '+%m-%d \
                   %H:%M:%S') [core.py:343] Iteration(4): 1 context requests\"; printf 'no end'";
    let output = place.output(&run_words(&[
        "--steps",
        "command",
        "--metrics",
        &address,
        "--metrics-interval",
        "0.1",
        "--",
        "sh",
        "-c",
        service,
    ]));
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let run = place.run("run");
    let steps = run.steps.unwrap();
    assert_eq!(steps.step, [1, 2, 3]);
    assert_eq!(steps.new_tokens, [4, 4, 4]);
    let stages = run.manifest.stages;
    let (launch, end) = (stages.launch.unwrap().nanos(), stages.process_exit.unwrap().nanos());
    let notes = run.manifest.provenance.notes.join("\n");
    let off_ns = (number_between(&notes, "at most ", " ms off") + 1) * 1_000_000;
    let during = launch - off_ns..end + off_ns;
    assert!(steps.t_end_ns.iter().all(|t| during.contains(t)), "{:?} {during:?}", steps.t_end_ns);
    // One answer a question: the counter counts them.
    let metrics = place.engine_metric("run", &["llamacpp:tokens_predicted_total"]);
    let values = &metrics[0].samples.value;
    let expected: Vec<f64> = (1..=values.len()).map(|count| count as f64).collect();
    assert!(values.len() >= 3 && *values == expected, "{values:?}");
    assert!(
        notes.contains(
            "steps from command.log (vllm): command.log line 5 skipped: is an iteration line"
        ),
        "{notes}"
    );
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
}

#[test]
fn attach_reads_only_what_comes_after_it_began() {
    let place = Place::with_calm_boards();
    let decode = |local: &str, running: u32| {
        format!(
            "[{local}] Decode batch. #running-req: {running}, #token: 900, token usage: 0.02, cuda graph: \
             True, gen throughput (token/s): 80.00, #queue-req: 0\n"
        )
    };
    let old =
        "[2026-01-31 12:00:00] server_args=ServerArgs(model_path='m', decode_log_interval=10)\n";
    let log = place.write("server.log", &format!("{old}{}", decode("2026-01-31 12:00:01", 7)));
    let child = place
        .record(&[
            "attach",
            "--out",
            "{}/archive/run",
            "--power",
            "replay={}/boards.csv",
            "--keep-free",
            "0",
            "--steps",
            "sglang={}/server.log",
        ])
        .spawn()
        .unwrap();
    wait_for_formal_window(&place);
    // Whatever zone the clock shows, a stamp of now is a stamp of now.
    let now = std::process::Command::new("date").arg("+%Y-%m-%d %H:%M:%S").output().unwrap();
    let now = String::from_utf8(now.stdout).unwrap();
    let mut file = File::options().append(true).open(log).unwrap();
    file.write_all(decode(now.trim(), 2).as_bytes()).unwrap();
    drop(file);
    crate::support::signal(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let steps = place.run("run").steps.unwrap();
    // Ten iterations of two sequences, as the settings before say.
    assert_eq!(
        (steps.active_sequences.as_slice(), steps.iterations.as_slice()),
        (&[2][..], &[10][..])
    );
    assert_eq!(steps.new_tokens, [20]);
    let output = place.output(&[
        "attach",
        "--out",
        "{}/a",
        "--power",
        "replay={}/boards.csv",
        "--steps",
        "command",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        place.stderr(&output),
        "error: --steps command: nothing is run here; expected the FILE that the service logs to\n"
    );
}
