//! What recording costs: 8 boards at 10 Hz and a node at 1 Hz, alone and with 100 requests a second, from
//! replayed power. `RECORDER_BENCH_SECONDS` sets the length of each.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use wattrace_record::clock::SystemClock;
use wattrace_record::source::{SourceOptions, SourceSpecification};
use wattrace_record::store::Stage;
use wattrace_record::{Context, Description, Recording, RecordingOptions};
use wattrace_schema::{RequestStage, RequestStatus};
use wattrace_trace::RequestRow;

/// Requests a second, and output tokens of each.
const REQUESTS_PER_SECOND: i64 = 100;
const TOKENS: u64 = 100;

fn main() {
    let seconds = std::env::var("RECORDER_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(60);
    // Each case is a process of its own, whose memory is measured from its start.
    match std::env::args().find(|word| word.starts_with("case-")).as_deref() {
        Some("case-power") => record(seconds, false),
        Some("case-requests") => record(seconds, true),
        _ => {
            println!("recorder, 8 boards x 10 Hz and a node x 1 Hz, {seconds} s each");
            for case in ["case-power", "case-requests"] {
                let status = Command::new(std::env::current_exe().unwrap()).arg(case).status();
                assert!(status.unwrap().success());
            }
            print_binary_size();
        }
    }
}

fn record(seconds: u64, with_requests: bool) {
    let folder = tempfile::tempdir().unwrap();
    let boards = folder.path().join("boards.csv");
    let rows: String = (0..8).map(|board| format!("0,gpu{board},{},0\n", 300 + board)).collect();
    fs::write(&boards, format!("t,device,power_w,energy_j\n{rows}")).unwrap();
    let node = folder.path().join("node.csv");
    fs::write(&node, "t,device,power_w\n0,node,4000\n").unwrap();
    let options = RecordingOptions {
        out: folder.path().join("archive/run"),
        power: [boards, node].map(|file| SourceSpecification::Replay { file }).into(),
        intervals_ms: Vec::new(),
        source: SourceOptions::default(),
        steps: Vec::new(),
        metrics: Vec::new(),
        metrics_interval: Duration::from_secs(1),
        proxies: Vec::new(),
        description: Description::default(),
        flush: Duration::from_secs(10),
        keep_free_bytes: 0,
        command: "bench".to_owned(),
    };
    let recording = Recording::start(&options, Arc::new(SystemClock), || ()).unwrap();
    recording.stamp(Stage::FormalStart).unwrap();
    let context = recording.context().clone();
    let requests = with_requests.then(|| std::thread::spawn(move || send(&context)));
    std::thread::sleep(Duration::from_secs(seconds));
    recording.stamp(Stage::FormalEnd).unwrap();
    let joined = recording.finish().unwrap();
    if let Some(requests) = requests {
        requests.join().unwrap();
    }
    let cost = joined.manifest.recorder_cost.unwrap();
    let number = |key: &str| cost[key].as_f64().unwrap();
    println!(
        "{:<28} {:.2} % of a core, {:.1} MB resident at most, lateness p99 {:.2} ms and at most \
         {:.1} ms, {} of {} ticks missed, {:.1} kB/s to disk",
        if with_requests { "with 100 requests a second" } else { "power alone" },
        number("cpu_percent"),
        number("peak_resident_bytes") / 1e6,
        number("p99_lateness_ms"),
        number("worst_lateness_ms"),
        cost["missed_ticks"],
        cost["ticks"],
        number("bytes_written") / 1e3 / number("elapsed_s"),
    );
}

/// Hands over requests as a client would, at even intervals.
fn send(context: &Context) {
    let clock = context.clock.clock();
    let start_ns = clock.monotonic_ns();
    for index in 0.. {
        let due_ns = start_ns + index * 1_000_000_000 / REQUESTS_PER_SECOND;
        if clock.wait(&context.stop, due_ns) {
            return;
        }
        let sent = context.clock.run_time_ns(due_ns);
        let gap_ns = 20_000_000;
        let row = RequestRow {
            request_id: format!("r{index}"),
            stage: RequestStage::Formal,
            t_send_ns: Some(sent),
            t_first_token_ns: Some(sent + 100_000_000),
            t_end_ns: Some(sent + 100_000_000 + (TOKENS as i64 - 1) * gap_ns),
            status: RequestStatus::Ok,
            error: None,
            input_tokens: Some(500),
            output_tokens: Some(TOKENS as u32),
            reasoning_tokens: None,
            itl_ns: Some((1..TOKENS).map(|token| gap_ns as u64 + token).collect()),
            itl_tokens: None,
            ttft_ns: None,
            e2e_ns: None,
        };
        if context.sink.request(row).is_err() {
            return;
        }
    }
}

fn print_binary_size() {
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("wattrace-record");
    let program = Path::new(env!("CARGO_BIN_EXE_wattrace-record"));
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(program).status();
    match status {
        Ok(status) if status.success() => {
            let bytes = fs::metadata(stripped).unwrap().len();
            println!("{:<28} {:.1} MB", "program, stripped", bytes as f64 / 1e6);
        }
        _ => println!("skipped: the size of the program, since strip is missing"),
    }
}
