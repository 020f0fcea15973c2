//! How fast raw logs are read: a million request records of AIPerf, and a raw ML.ENERGY `results.json` of
//! 200 MB, both generated. Beside the importer stand a plain `serde_json` parse of the same bytes into
//! values, and Python's json with pandas.
//!
//! `make bench` runs it; the inputs are made once, below the target folder.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use wattrace_trace::format::{ImportOptions, Input, Part, Reader, Sink, find, import};
use wattrace_trace::{AccuracyWriteRow, EngineRow, PowerRow, RequestRow, StepRow, TraceError};

/// Times each measurement this often and keeps the shortest: the others were disturbed.
const REPEATS: usize = 3;
const RECORDS: u64 = 1_000_000;
const RESULTS_BYTES: u64 = 200_000_000;
const START_NS: u64 = 1_736_944_496_000_000_000;

fn main() {
    let records = made("bench-aiperf.jsonl", write_records);
    compare("aiperf", &records, parse_lines, "records");
    let results = made("bench-mlenergy-results.json", write_results);
    compare("mlenergy-raw", &results, parse_document, "document");
}

/// Times reading, importing, the plain parse and the script on one file.
fn compare(format: &str, path: &Path, plain: fn(&Path), layout: &str) {
    let bytes = std::fs::metadata(path).expect("the input was just made").len();
    let shown = |what: &str, time: Duration| {
        let rate = bytes as f64 / 1e6 / time.as_secs_f64();
        println!("{format:13} {what:38} {:7.3} s {rate:7.1} MB/s", time.as_secs_f64());
    };
    println!("{format}: {:.1} MB", bytes as f64 / 1e6);
    shown("plain serde_json parse into values", shortest(|| plain(path)));
    let Reader::Parts { read, .. } = find(format).expect("the format is listed").reader else {
        panic!("{format} reads parts")
    };
    let reading = shortest(|| {
        let mut rows = Counted::default();
        read(&Input::new(path), &ImportOptions::default(), &mut rows).expect("the input is sound");
        assert!(rows.0 > 0);
    });
    shown("read into rows", reading);
    let archive = path.with_extension("archive");
    let whole = shortest(|| {
        let _ = std::fs::remove_dir_all(&archive);
        let inputs = [path.to_owned()];
        let summary = import(format, &inputs, &archive, &ImportOptions::default());
        assert_eq!(summary.expect("the format is listed").failed, [""; 0]);
    });
    shown("imported into an archive", whole);
    let Some(python) = std::env::var_os("WATTRACE_PYTHON") else {
        println!("{format:13} json and pandas were not timed: `make bench` gives a Python");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/read_raw.py");
    let started = Instant::now();
    let output = Command::new(python).arg(script).arg(layout).arg(path).output();
    let output = output.expect("the script starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    shown("Python's json and pandas", started.elapsed());
}

/// Parses every line into a value, one at a time.
fn parse_lines(path: &Path) {
    let mut reader = BufReader::new(File::open(path).expect("the input was just made"));
    let mut line = String::new();
    while reader.read_line(&mut line).expect("the input is text") > 0 {
        let value: serde_json::Value = serde_json::from_str(&line).expect("the input is JSON");
        std::hint::black_box(value);
        line.clear();
    }
}

/// Parses the file into one value.
fn parse_document(path: &Path) {
    let bytes = std::fs::read(path).expect("the input was just made");
    let value: serde_json::Value = serde_json::from_slice(&bytes).expect("the input is JSON");
    std::hint::black_box(value);
}

/// Counts rows and drops them.
#[derive(Default)]
struct Counted(u64);

impl Counted {
    fn count(&mut self) -> Result<(), TraceError> {
        self.0 += 1;
        Ok(())
    }
}

impl Sink for Counted {
    fn begin(&mut self, _: &str) -> Result<(), TraceError> {
        Ok(())
    }

    fn power(&mut self, row: PowerRow) -> Result<(), TraceError> {
        std::hint::black_box(row);
        self.count()
    }

    fn request(&mut self, row: RequestRow) -> Result<(), TraceError> {
        std::hint::black_box(row);
        self.count()
    }

    fn step(&mut self, row: StepRow) -> Result<(), TraceError> {
        std::hint::black_box(row);
        self.count()
    }

    fn engine(&mut self, row: EngineRow) -> Result<(), TraceError> {
        std::hint::black_box(row);
        self.count()
    }

    fn accuracy(&mut self, row: AccuracyWriteRow) -> Result<(), TraceError> {
        std::hint::black_box(row);
        self.count()
    }

    fn end(&mut self, _: Part) -> Result<(), TraceError> {
        Ok(())
    }
}

/// A file below the target folder, written on first use.
fn made(name: &str, write: fn(&mut BufWriter<File>) -> std::io::Result<()>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !path.is_file() {
        let partial = path.with_extension("partial");
        let mut file = BufWriter::new(File::create(&partial).expect("the target folder can be written"));
        write(&mut file).and_then(|()| file.flush()).expect("the target folder can be written");
        std::fs::rename(&partial, &path).expect("the target folder can be written");
    }
    path
}

/// Gaps of `count` chunks, as JSON numbers that differ from each other.
fn gaps(number: u64, count: u64, unit: f64) -> String {
    let mut text = String::new();
    for place in 0..count {
        let gap = (20.0 + ((number * 31 + place * 17) % 97) as f64 / 100.0) * unit;
        let separator = if place == 0 { "" } else { "," };
        write!(text, "{separator}{gap}").expect("a string takes all text");
    }
    text
}

/// Records with the keys that AIPerf writes, those that nobody reads among them.
fn write_records(file: &mut BufWriter<File>) -> std::io::Result<()> {
    for number in 0..RECORDS {
        let start = START_NS + number * 2_000_000;
        let chunks = 20 + number % 24;
        let end = start + 200_000_000 + chunks * 20_500_000;
        let gaps = gaps(number, chunks, 1.0);
        writeln!(
            file,
            r#"{{"metadata":{{"session_num":{number},"x_request_id":"request-{number:08}","x_correlation_id":"session-{number:08}","conversation_id":"c-{number}","turn_index":0,"request_start_ns":{start},"request_ack_ns":null,"request_end_ns":{end},"worker_id":"worker_1","record_processor_id":"record_processor_1","benchmark_phase":"profiling","was_cancelled":false,"cancellation_time_ns":null}},"metrics":{{"time_to_first_token":{{"value":200.0,"unit":"ms"}},"time_to_second_token":{{"value":20.4,"unit":"ms"}},"request_latency":{{"value":{latency},"unit":"ms"}},"inter_chunk_latency":{{"value":[{gaps}],"unit":"ms"}},"output_sequence_length":{{"value":{tokens},"unit":"tokens"}},"input_sequence_length":{{"value":512,"unit":"tokens"}},"output_token_throughput_per_user":{{"value":48.7,"unit":"tokens/sec/user"}}}},"error":null}}"#,
            latency = (end - start) as f64 / 1e6,
            tokens = chunks + 1,
        )?;
    }
    Ok(())
}

/// Results with prompts and answers of some kilobytes each, and power of eight boards at 10 Hz.
fn write_results(file: &mut BufWriter<File>) -> std::io::Result<()> {
    let prompt = "Explain how a turbine works, step by step, with numbers. ".repeat(20);
    write!(
        file,
        r#"{{"model_id":"example/model","gpu_model":"H100","num_gpus":8,"max_num_seqs":256,"duration":1000.0,"steady_state_energy":3000000.0,"steady_state_energy_per_token":0.5,"timeline":{{"benchmark_start_time":1736944496.0,"benchmark_end_time":1736945496.0,"power":{{"device_instant":{{"#
    )?;
    for board in 0..8_u64 {
        write!(file, r#"{}"{board}":["#, if board == 0 { "" } else { "," })?;
        for sample in 0..10_000_u64 {
            let watts = 400.0 + ((sample * 37 + board * 11) % 2500) as f64 / 10.0;
            let separator = if sample == 0 { "" } else { "," };
            let time = 1_736_944_496.0 + sample as f64 / 10.0;
            write!(file, "{separator}[{time},{watts}]")?;
        }
        write!(file, "]")?;
    }
    write!(file, r#"}}}}}},"results":["#)?;
    let (mut number, mut written) = (0_u64, 0_u64);
    while written < RESULTS_BYTES {
        let tokens = 200 + number % 300;
        let record = format!(
            r#"{}{{"prompt":"{prompt}","output_text":"{prompt}","reasoning_output_text":"","input_len":240,"output_len":{tokens},"dataset_output_len":{tokens},"latency":{latency},"ttft":0.2,"itl":[{gaps}],"success":true,"error":"","energy":120.5}}"#,
            if number == 0 { "" } else { "," },
            latency = 0.2 + tokens as f64 * 0.0205,
            gaps = gaps(number, tokens - 1, 1e-3),
        );
        file.write_all(record.as_bytes())?;
        written += record.len() as u64;
        number += 1;
    }
    write!(file, r#"],"completed":{number}}}"#)
}

fn shortest(mut work: impl FnMut()) -> Duration {
    (0..REPEATS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .min()
        .unwrap_or_default()
}
