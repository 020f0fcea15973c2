//! How fast inputs are imported and in how much memory: beside a plain `serde_json` parse of the same bytes,
//! and beside Python's json with pandas where `WATTRACE_PYTHON` names an interpreter that has it.
//!
//! `make bench` runs it; the inputs are made once, below the target folder.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

/// An import must stay below this, however large its input.
const MEMORY_LIMIT_MB: u64 = 300;

/// One input.
struct Case {
    format: &'static str,
    file: &'static str,
    make: fn(&mut dyn Write) -> io::Result<()>,
    /// Whether a plain parse holds it in memory without trouble.
    parse_whole: bool,
}

const CASES: [Case; 3] = [
    Case { format: "aiperf", file: "aiperf-1m.jsonl", make: aiperf, parse_whole: true },
    Case { format: "mlenergy-raw", file: "results-200mb.json", make: mlenergy, parse_whole: true },
    Case {
        format: "vllm-bench",
        file: "vllm-bench-2gb.json",
        make: vllm_bench,
        parse_whole: false,
    },
];

fn main() {
    for case in CASES {
        if wattrace_trace::format::find(case.format).is_none() {
            println!("{}: there is no such format", case.format);
            continue;
        }
        let input = made(&case);
        let bytes = input.metadata().expect("the input was just made").len();
        println!("{}: {:.0} MB", case.file, bytes as f64 / 1e6);
        let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
        let (time, peak_mb) = import(case.format, &input);
        println!("  wattrace import   {:7.1} MB/s, at most {peak_mb} MB in memory", rate(time));
        assert!(
            peak_mb < MEMORY_LIMIT_MB,
            "{} took {peak_mb} MB; expected less than {MEMORY_LIMIT_MB}",
            case.file
        );
        if case.parse_whole {
            println!("  serde_json alone  {:7.1} MB/s", rate(plain_parse(&input)));
            if let Some(time) = python(&input) {
                println!("  json and pandas   {:7.1} MB/s", rate(time));
            }
        }
    }
}

/// The input, made unless it is there.
fn made(case: &Case) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(case.file);
    if !path.is_file() {
        let partial = path.with_extension("partial");
        let mut file =
            BufWriter::new(File::create(&partial).expect("the target folder is writable"));
        (case.make)(&mut file).expect("the disk has room for the input");
        file.flush().expect("the disk has room for the input");
        std::fs::rename(&partial, &path).expect("the target folder is writable");
    }
    path
}

/// Runs the program; gives its time and its peak of resident memory in MB.
fn import(format: &str, input: &Path) -> (Duration, u64) {
    let archive = input.with_extension("archive");
    if archive.exists() {
        std::fs::remove_dir_all(&archive).expect("the archive of the last time can go");
    }
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_wattrace"))
        .args(["import", format, "--tz", "UTC", "--quiet", "--out"])
        .args([&archive, input])
        .spawn()
        .expect("the program starts");
    let mut peak_kb = 0;
    let status = loop {
        // The kernel keeps the peak while the process lives.
        peak_kb = peak_resident_kb(child.id()).unwrap_or(peak_kb);
        match child.try_wait().expect("the program is ours") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let time = start.elapsed();
    assert!(status.success(), "{format} {}", input.display());
    (time, peak_kb / 1000)
}

/// `VmHWM` of a process, where the system tells it.
fn peak_resident_kb(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn plain_parse(input: &Path) -> Duration {
    let start = Instant::now();
    let file = BufReader::new(File::open(input).expect("the input was just made"));
    let documents = serde_json::Deserializer::from_reader(file).into_iter::<Value>();
    for document in documents {
        std::hint::black_box(document.expect("the input is JSON"));
    }
    start.elapsed()
}

/// The same bytes by `json.loads` into a pandas table.
fn python(input: &Path) -> Option<Duration> {
    const SCRIPT: &str = "
import json, sys, pandas
with open(sys.argv[1]) as file:
    text = file.read(2)
    file.seek(0)
    rows = [json.loads(line) for line in file] if sys.argv[1].endswith('.jsonl') else json.load(file)['results']
print(len(pandas.json_normalize(rows)))
";
    let python = std::env::var_os("WATTRACE_PYTHON")?;
    let start = Instant::now();
    let output = Command::new(python).args(["-c", SCRIPT]).arg(input).output().ok()?;
    output.status.success().then(|| start.elapsed())
}

/// One million records of AIPerf's `profile_export.jsonl`.
fn aiperf(out: &mut dyn Write) -> io::Result<()> {
    for index in 0..1_000_000_u64 {
        let start = 1_736_944_496_000_000_000 + index * 10_000_000;
        let end = start + 1_500_000_000;
        writeln!(
            out,
            r#"{{"metadata":{{"session_num":{index},"x_request_id":"r-{index}","turn_index":0,"request_start_ns":{start},"request_ack_ns":null,"request_end_ns":{end},"worker_id":"w1","record_processor_id":"p1","benchmark_phase":"profiling","was_cancelled":false,"cancellation_time_ns":null}},"metrics":{{"time_to_first_token":{{"value":210.25,"unit":"ms"}},"request_latency":{{"value":1500.0,"unit":"ms"}},"inter_chunk_latency":{{"value":[20.5,19.75,21.125,20.0],"unit":"ms"}},"output_sequence_length":{{"value":5,"unit":"tokens"}},"input_sequence_length":{{"value":512,"unit":"tokens"}}}},"error":null}}"#
        )?;
    }
    Ok(())
}

/// A `results.json` of ML.ENERGY of about 200 MB: 8 boards at 10 Hz and requests with their gaps.
fn mlenergy(out: &mut dyn Write) -> io::Result<()> {
    const START: u64 = 1_736_944_496;
    write!(
        out,
        r#"{{"model_id":"m-7b","gpu_model":"H100","num_gpus":8,"max_num_seqs":64,"num_prompts":20000,"completed":20000,"duration":3600.0,"steady_state_duration":3000.0,"steady_state_energy":1.0e7,"timeline":{{"benchmark_start_time":{START}.0,"benchmark_end_time":{}.0,"power":{{"device_instant":{{"#,
        START + 3600
    )?;
    for board in 0..8 {
        write!(out, "{}\"{board}\":[", if board > 0 { "," } else { "" })?;
        for tick in 0..36_000_u64 {
            let comma = if tick > 0 { "," } else { "" };
            write!(out, "{comma}[{}.{},{}.5]", START + tick / 10, tick % 10, 400 + tick % 97)?;
        }
        write!(out, "]")?;
    }
    write!(out, "}}}}}},\"results\":[")?;
    for request in 0..20_000_u64 {
        let comma = if request > 0 { "," } else { "" };
        write!(
            out,
            r#"{comma}{{"prompt":"p","output_text":"t","input_len":512,"output_len":501,"latency":15.21,"ttft":0.21,"success":true,"error":"","energy":100.5,"itl":["#
        )?;
        gaps(out, 500)?;
        write!(out, "]}}")?;
    }
    write!(out, "]}}")
}

/// A detailed result of `vllm bench serve` of about 2 GB.
fn vllm_bench(out: &mut dyn Write) -> io::Result<()> {
    const REQUESTS: u64 = 100_000;
    const GAPS: u64 = 1000;
    write!(
        out,
        r#"{{"date":"20250115-123456","endpoint_type":"openai","backend":"vllm","model_id":"m-7b","tokenizer_id":"m-7b","num_prompts":{REQUESTS},"request_rate":"inf","burstiness":1.0,"max_concurrency":64,"duration":2000.0,"completed":{REQUESTS},"total_input_tokens":{},"#,
        REQUESTS * 512
    )?;
    let mut list = |name: &str, value: &dyn Fn(u64) -> String| -> io::Result<()> {
        write!(out, "\"{name}\":[")?;
        for request in 0..REQUESTS {
            write!(out, "{}{}", if request > 0 { "," } else { "" }, value(request))?;
        }
        write!(out, "],")
    };
    list("input_lens", &|_| "512".into())?;
    list("output_lens", &|_| (GAPS + 1).to_string())?;
    list("ttfts", &|_| "0.21".into())?;
    list("start_times", &|request| format!("{}.25", 1000 + request / 60))?;
    list("errors", &|_| "\"\"".into())?;
    write!(out, "\"itls\":[")?;
    for request in 0..REQUESTS {
        write!(out, "{}[", if request > 0 { "," } else { "" })?;
        gaps(out, GAPS)?;
        write!(out, "]")?;
    }
    write!(out, "]}}")
}

/// Gaps with as many digits as the tools write.
fn gaps(out: &mut dyn Write, count: u64) -> io::Result<()> {
    for gap in 0..count {
        write!(
            out,
            "{}0.0{:017}",
            if gap > 0 { "," } else { "" },
            20_000_000_000_000_000 + gap * 31_415_926
        )?;
    }
    Ok(())
}
