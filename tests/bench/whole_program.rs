//! How fast the main job is, over a simulated archive of 200 runs with 8 boards at 10 Hz, 10 minutes and
//! 5,000 requests each: beside merely decoding the same Parquet columns with arrow-rs in this program,
//! and beside a plain pandas and numpy script of the same definitions.
//!
//! `make bench` runs it; the archive is made once, below the target folder.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rayon::prelude::*;
use wattrace_analysis::Options;
use wattrace_analysis::metrics::analyze;
use wattrace_simulate::{Plan, simulate};
use wattrace_trace::{ReadOptions, RunLocation, find_runs, read_run};

/// The program's own allocator, so that bare decoding has it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Times each measurement this often and keeps the shortest: the others were disturbed.
const REPEATS: usize = 5;
/// Runs that the script is timed on; it is slow.
const PEER_RUNS: usize = 20;

/// What `analyze` needs of each file.
const COLUMNS: [(&str, &[&str]); 2] = [
    ("power.parquet", &["t", "source", "device", "power_w", "energy_j"]),
    (
        "requests.parquet",
        &[
            "request_id",
            "stage",
            "t_send",
            "t_first_token",
            "t_end",
            "status",
            "input_tokens",
            "output_tokens",
            "reasoning_tokens",
            "itl_ns",
            "itl_tokens",
            "ttft_ns",
            "e2e_ns",
        ],
    ),
];

fn main() {
    let archive = made("bench-archive", "../../tests/bench/serving-200.plan.toml");
    let runs = find_runs(&archive).expect("the archive was just made");
    println!("{} runs in {}", runs.len(), archive.display());

    let decode = shortest(|| {
        runs.par_iter().for_each(decode_only);
    });
    let read = shortest(|| {
        runs.par_iter().for_each(|run| {
            read_run(run, ReadOptions { verify: false, ..ReadOptions::default() })
                .expect("the run is sound");
        });
    });
    let compute = shortest(|| {
        runs.par_iter().for_each(|run| {
            let loaded = read_run(run, ReadOptions::default()).expect("the run is sound");
            std::hint::black_box(analyze(&loaded.run, &Options::default()));
        });
    });
    let results = archive.with_file_name("bench-results");
    let program = shortest(|| {
        let status = wattrace().arg("analyze").arg(&archive).arg("--out").arg(&results).output();
        assert!(status.expect("the program starts").status.success());
    });
    println!("decoding the columns with arrow-rs      {}", seconds(decode));
    println!("reading into runs, digests not compared {}", seconds(read));
    println!("reading, digests compared, and metrics  {}", seconds(compute));
    println!("wattrace analyze, whole program         {}", seconds(program));
    println!(
        "wattrace analyze takes {:.2} times as long as decoding the columns",
        program.as_secs_f64() / decode.as_secs_f64()
    );
    beside_the_peer(&archive, &runs);
    decode_design();
}

/// The full decode design: reading, coordinates, fits of every form with 10,000 resamples, tables.
fn decode_design() {
    let archive = made("bench-decode", "../../sample-data/decode-full.plan.toml");
    let runs = find_runs(&archive).expect("the archive was just made").len();
    let results = archive.with_file_name("bench-decode-results");
    let program = shortest(|| {
        let output = wattrace().arg("analyze").arg(&archive).arg("--out").arg(&results).output();
        assert!(output.expect("the program starts").status.success());
    });
    println!("{runs} decode runs analysed and fitted with bootstrap: {}", seconds(program));
}

/// Decodes what the analysis needs and does nothing with it.
fn decode_only(run: &RunLocation) {
    for (file, columns) in COLUMNS {
        let bytes = std::fs::read(run.folder.join(file)).expect("the run is sound");
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))
            .expect("the run is sound");
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        for batch in builder.with_projection(mask).build().expect("the run is sound") {
            std::hint::black_box(batch.expect("the run is sound"));
        }
    }
}

/// Times the script and the program on the same runs, each as a user would start it.
fn beside_the_peer(archive: &Path, runs: &[RunLocation]) {
    let Some(python) = std::env::var_os("WATTRACE_PYTHON") else {
        println!("the pandas script was not timed: `make bench` gives it a Python");
        return;
    };
    let part = archive.with_file_name("bench-archive-part");
    let _ = std::fs::remove_dir_all(&part);
    for run in &runs[..PEER_RUNS.min(runs.len())] {
        copy(&run.folder, &part.join(&run.relative));
    }
    let results = archive.with_file_name("bench-results-part");
    let program = shortest(|| {
        let output = wattrace().arg("analyze").arg(&part).arg("--out").arg(&results).output();
        assert!(output.expect("the program starts").status.success());
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/analyze.py");
    let started = Instant::now();
    let output = Command::new(python)
        .arg(script)
        .arg(&part)
        .arg("--out")
        .arg(results.join("peer.csv"))
        .output()
        .expect("the script starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let peer = started.elapsed();
    println!(
        "on {PEER_RUNS} of the runs: pandas script {}, wattrace analyze {}",
        seconds(peer),
        seconds(program)
    );
    println!(
        "wattrace analyze is {:.0} times faster than the pandas script",
        peer.as_secs_f64() / program.as_secs_f64()
    );
}

fn wattrace() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wattrace"))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the target folder can be written");
    for entry in std::fs::read_dir(from).expect("the run is sound") {
        let path = entry.expect("the run is sound").path();
        let name = path.file_name().expect("an entry has a name");
        std::fs::copy(&path, to.join(name)).expect("the target folder can be written");
    }
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

fn seconds(duration: Duration) -> String {
    format!("{:7.3} s", duration.as_secs_f64())
}

/// The archive of a plan, made on first use.
fn made(name: &str, plan: &str) -> PathBuf {
    let archive = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !archive.is_dir() {
        let plan = Plan::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(plan));
        let plan = plan.expect("the plan is sound");
        let partial = archive.with_extension("partial");
        let _ = std::fs::remove_dir_all(&partial);
        simulate(&plan, &partial, None, &|_| {}).expect("the target folder can be written");
        std::fs::rename(&partial, &archive).expect("the target folder can be written");
    }
    archive
}
