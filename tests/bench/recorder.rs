//! What recording costs, against its targets: 8 boards at 10 Hz and a node at 1 Hz, alone and with 100
//! requests a second, from replayed power, beside what a machine takes for waking alone; then the files and the memory of days, and of hours with
//! requests, whose clock is set.
//!
//! `RECORDER_BENCH_SECONDS` sets the length of the first three, `RECORDER_BENCH_DAYS` and
//! `RECORDER_BENCH_HOURS` those of the others;
//! `WATTRACE_RECORDER` is the program whose size counts, which is the one built for tests otherwise.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wattrace_record::clock::{Clock, Span, SystemClock};
use wattrace_record::live::Live;
use wattrace_record::sampler::{Punctuality, Sampler};
use wattrace_record::source::{
    PowerSource, Reading, Sample, SourceOptions, SourceSpecification, Stream,
};
use wattrace_record::store::{RunPath, Stage, Store, convert};
use wattrace_record::{
    Context, Cost, DEFAULT_FLUSH, Description, Recording, RecordingOptions, Stop,
};
use wattrace_schema::{
    Hardware, Model, Reading as ReadingKind, RequestStage, RequestStatus, RunKind, RunManifest,
    Scope,
};
use wattrace_trace::RequestRow;

/// Requests a second, and output tokens of each.
const REQUESTS_PER_SECOND: i64 = 100;
const TOKENS: u64 = 100;

/// Targets.
const MOST_CPU_PERCENT: f64 = 0.5;
const MOST_RESIDENT_MB: f64 = 25.0;
const MOST_LATENESS_MS: f64 = 5.0;
const MOST_PROGRAM_MB: f64 = 12.0;

const SECOND_NS: i64 = 1_000_000_000;

fn main() {
    let seconds: u64 = number_of("RECORDER_BENCH_SECONDS", 60.0) as u64;
    let days = number_of("RECORDER_BENCH_DAYS", 1.0);
    let hours = number_of("RECORDER_BENCH_HOURS", 1.0);
    // Each case is a process of its own, whose memory is measured from its start.
    match std::env::args().find(|word| word.starts_with("case-")).as_deref() {
        Some("case-waking") => wake(seconds),
        Some("case-power") => record(seconds, false),
        Some("case-requests") => record(seconds, true),
        Some("case-days") => record_long(days * 24.0, false),
        Some("case-hours") => record_long(hours, true),
        _ => {
            println!("recorder, 8 boards x 10 Hz and a node x 1 Hz, {seconds} s each");
            for case in ["case-waking", "case-power", "case-requests", "case-days", "case-hours"] {
                let status = Command::new(std::env::current_exe().unwrap()).arg(case).status();
                assert!(status.unwrap().success());
            }
            print_program_size();
        }
    }
}

fn number_of(variable: &str, otherwise: f64) -> f64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// What the machine takes for waking as often, without anything that is read or kept: the share of the
/// recorder's processor time that no recorder can save.
fn wake(seconds: u64) {
    let (clock, stop) = (SystemClock, Stop::new());
    let start_ns = clock.monotonic_ns();
    let cpu_before_s = cpu_s();
    for tick in 1..=seconds as i64 * 10 {
        let _ = clock.wait(&stop, start_ns + tick * SECOND_NS / 10);
    }
    let cpu_percent = 100.0 * (cpu_s() - cpu_before_s) / seconds as f64;
    println!("a thread that only wakes 10 times a second");
    println!("  {:<34} {cpu_percent:>8.2} % of a core", "processor time");
}

/// A measured value beside its target.
fn print(what: &str, value: f64, unit: &str, target: f64) {
    let verdict = if value < target { "met" } else { "MISSED" };
    println!("  {what:<34} {value:>8.2} {unit:<10} target < {target} {unit}: {verdict}");
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
        flush: DEFAULT_FLUSH,
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
    if with_requests {
        println!("power and 100 requests a second (made by threads of the same process)");
        println!("  {:<34} {:>8.2} % of a core", "processor time", number("cpu_percent"));
    } else {
        println!("power alone");
        print("processor time", number("cpu_percent"), "% of a core", MOST_CPU_PERCENT);
    }
    print("resident at most", number("peak_resident_bytes") / 1e6, "MB", MOST_RESIDENT_MB);
    print("lateness, 99 of 100 ticks", number("p99_lateness_ms"), "ms", MOST_LATENESS_MS);
    println!("  {:<34} {:>8.2} ms", "lateness at most", number("worst_lateness_ms"));
    println!("  {:<34} {} of {}", "missed ticks", cost["missed_ticks"], cost["ticks"]);
    let rate = number("bytes_written") / 1e3 / number("elapsed_s");
    println!("  {:<34} {rate:>8.2} kB/s", "to disk");
    println!("  {:<34} {:>8.2} MB", "resident at most, joining as well", peak_resident_mb());
}

/// The line `VmHWM:   12345 kB` of Linux's `/proc/self/status`.
fn peak_resident_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0 / 1e6
}

fn cpu_s() -> f64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

/// Hands over requests as a client would, at even intervals.
fn send(context: &Context) {
    let clock = context.clock.clock();
    let start_ns = clock.monotonic_ns();
    for index in 0.. {
        let due_ns = start_ns + index * SECOND_NS / REQUESTS_PER_SECOND;
        if clock.wait(&context.stop, due_ns) {
            return;
        }
        if context.sink.request(request(index, context.clock.run_time_ns(due_ns))).is_err() {
            return;
        }
    }
}

fn request(index: i64, sent_ns: i64) -> RequestRow {
    let gap_ns = 20_000_000;
    RequestRow {
        request_id: format!("r{index}"),
        stage: RequestStage::Formal,
        t_send_ns: Some(sent_ns),
        t_first_token_ns: Some(sent_ns + 100_000_000),
        t_end_ns: Some(sent_ns + 100_000_000 + (TOKENS as i64 - 1) * gap_ns),
        status: RequestStatus::Ok,
        error: None,
        input_tokens: Some(500),
        output_tokens: Some(TOKENS as u32),
        reasoning_tokens: None,
        itl_ns: Some((1..TOKENS).map(|token| gap_ns as u64 + token).collect()),
        itl_tokens: None,
        ttft_ns: None,
        e2e_ns: None,
    }
}

/// A clock that moves only when something waits.
#[derive(Debug, Default)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn monotonic_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn wall_ns(&self) -> i64 {
        1_769_860_800 * SECOND_NS + self.monotonic_ns()
    }

    fn wait(&self, stop: &Stop, until_ns: i64) -> bool {
        self.0.fetch_max(until_ns, Ordering::Relaxed);
        stop.is_raised()
    }
}

/// Nine devices whose power wanders.
#[derive(Debug)]
struct Wandering {
    streams: Vec<Stream>,
    state: u64,
}

impl PowerSource for Wandering {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        for device in 0..self.streams[0].devices.len() {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let power_w = 300.0 + (self.state >> 54) as f64 / 10.0;
            let energy_j = clock.monotonic_ns() as f64 * 350e-9;
            let sample =
                Sample { power_w: Some(power_w), energy_j: Some(energy_j), ..Sample::default() };
            let now_ns = clock.monotonic_ns();
            let span = Span { start_ns: now_ns, end_ns: now_ns };
            readings.push(Reading { stream: 0, device, span, sample, failures: Vec::new() });
        }
    }
}

/// Hours of 9 devices at 10 Hz, written as often as by default, cut off and finished.
fn record_long(hours: f64, with_requests: bool) {
    let what = if with_requests { " and 100 requests a second" } else { "" };
    println!("{hours} hours of 9 devices x 10 Hz{what}, as fast as it goes");
    let folder = tempfile::tempdir().unwrap();
    let mut stream = Stream::new("boards", Scope::GpuBoard, ReadingKind::Instant);
    stream.entry.nominal_interval_ms = 100.0;
    stream.devices = (0..9).map(|device| format!("gpu{device}")).collect();
    let model = Model { name: "m".into(), ..Model::default() };
    let hardware = Hardware { accelerator: "x".into(), count: 9, ..Hardware::default() };
    let mut manifest = RunManifest::new("run".into(), RunKind::Serving, model, hardware);
    manifest.synthetic = true;
    manifest.power_sources.push(stream.entry.clone());
    let clock: Arc<dyn Clock> = Arc::new(SetClock::default());
    let context = Arc::new(Context::new(clock));
    let path = RunPath::new(&folder.path().join("archive/run")).unwrap();
    let flush_s = DEFAULT_FLUSH.as_secs() as i64;
    let mut store =
        Store::create(path.clone(), &manifest, context.clock.first(), flush_s as f64, 0).unwrap();
    let punctuality = Arc::new(Mutex::new(Punctuality::default()));
    let mut sampler = Sampler::new(
        Box::new(Wandering { streams: vec![stream], state: 1 }),
        SECOND_NS / 10,
        0,
        context.clone(),
        Arc::new(Live::default()),
        punctuality.clone(),
    );
    store.stamp(Stage::FormalStart, context.clock.now()).unwrap();
    let (began, cpu_before_s) = (Instant::now(), cpu_s());
    let flushes = (hours * 3600.0) as u64 / flush_s as u64;
    let ticks = 10 * flush_s;
    let mut longest_merge = Duration::ZERO;
    for flush in 0..flushes {
        (0..ticks).for_each(|_| assert!(sampler.next_tick()));
        if with_requests {
            let sent = flush_s * REQUESTS_PER_SECOND;
            let now_ns = context.clock.now().nanos();
            for index in 0..sent {
                let number = flush as i64 * sent + index;
                context.sink.request(request(number, now_ns + index)).unwrap();
            }
        }
        let written = store.bytes_written();
        let cost = Cost::measure(1, written, context.own_cpu(), Duration::ZERO, &punctuality);
        store.flush(context.sink.take(), &context, cost).unwrap();
        while let Some(merge) = store.take_due_merge() {
            let begun = Instant::now();
            let merged = merge.write().unwrap();
            store.merged(&merge, &merged).unwrap();
            longest_merge = longest_merge.max(begun.elapsed());
        }
    }
    let cpu_percent = 100.0 * (cpu_s() - cpu_before_s) / (flushes as f64 * flush_s as f64);
    println!("  {:<34} {:>8.2} s", "took", began.elapsed().as_secs_f64());
    println!("  {:<34} {cpu_percent:>8.3} % of a core, waiting left out", "processor time");
    println!("  {:<34} {:>8.2} s", "longest merge of segments", longest_merge.as_secs_f64());
    print("resident at most", peak_resident_mb(), "MB", MOST_RESIDENT_MB);
    let files = fs::read_dir(path.partial()).unwrap().count();
    println!("  {:<34} {files:>8} (of {flushes} writes)", "files");
    println!("  {:<34} {:>8.2} MB", "on disk", bytes_below(&path.partial()) / 1e6);
    // Dropped without an end, as a kill leaves it.
    drop(store);
    let begun = Instant::now();
    let joined = convert(&path).unwrap();
    assert_eq!(joined.manifest.files["power.parquet"].rows, flushes * ticks as u64 * 9);
    println!("  {:<34} {:>8.2} s", "convert", begun.elapsed().as_secs_f64());
    println!("  {:<34} {:>8.2} MB", "resident at most, convert as well", peak_resident_mb());
    println!("  {:<34} {:>8.2} MB", "the run on disk", bytes_below(&joined.run) / 1e6);
}

fn bytes_below(folder: &Path) -> f64 {
    let files = fs::read_dir(folder).unwrap();
    files.map(|entry| entry.unwrap().metadata().unwrap().len() as f64).sum()
}

fn print_program_size() {
    let built: PathBuf = std::env::var_os("WATTRACE_RECORDER")
        .map_or_else(|| env!("CARGO_BIN_EXE_wattrace-record").into(), PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("wattrace-record");
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(&built).status();
    match status {
        Ok(status) if status.success() => {
            let bytes = fs::metadata(stripped).unwrap().len();
            println!("the program {}", built.display());
            print("stripped", bytes as f64 / 1e6, "MB", MOST_PROGRAM_MB);
        }
        _ => println!("skipped: the size of the program, since strip is missing"),
    }
}
