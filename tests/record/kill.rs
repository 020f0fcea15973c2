//! A recorder that is killed at any moment.

use std::fs::{self, File};
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wattrace_schema::TimestampNs;

use crate::completion_server::CompletionServer;
use crate::support::{Place, device, is_about_lateness, mock_nvml, signal, wait_until};

/// Kills, spread over as many threads.
const KILLS: u64 = 50;
const THREADS: u64 = 10;

/// Time between writes to disk. Every fifth recording writes so often that segments are merged, too.
const FLUSH_S: f64 = 0.2;
const OFTEN_S: f64 = 0.02;

/// What a machine that is busy with other tests may take on top, for one write.
const BUSY_S: f64 = 1.0;

/// A number from 0 to 1 that looks random (splitmix64).
fn random(seed: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// One read as the library noted it.
#[derive(Debug, Clone, Copy)]
struct Read {
    board: u32,
    number: i64,
    monotonic_ns: i64,
}

fn reads(text: &str) -> Vec<Read> {
    let line = |line: &str| {
        let numbers: Vec<i64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        Read { board: numbers[0] as u32, number: numbers[1], monotonic_ns: numbers[2] }
    };
    text.lines().map(line).collect()
}

/// Records, kills at a moment that `seed` chooses, and finishes the run. Every third recording is about to
/// end by itself then, so that some are killed while they join.
fn kill(seed: u64) {
    let place = Place::new();
    let log = place.path("reads.log");
    let library = mock_nvml().display().to_string();
    let flush_s = if seed.is_multiple_of(5) { OFTEN_S } else { FLUSH_S };
    let flush = flush_s.to_string();
    let after_s = 0.1 + 2.9 * random(seed);
    let seconds =
        if seed.is_multiple_of(3) { (after_s - 0.02).max(0.05) } else { 1000.0 }.to_string();
    let words = [
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        "nvml",
        "--interval",
        "nvml=20",
        "--nvml-library",
        &library,
        "--flush",
        &flush,
        "--keep-free",
        "0",
        "--seconds",
        &seconds,
    ];
    let mut child = place.record(&words).env("MOCK_NVML_LOG", &log).spawn().unwrap();
    wait_until("the first read", || fs::metadata(&log).is_ok_and(|log| log.len() > 0));
    std::thread::sleep(Duration::from_secs_f64(after_s));
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let reads = reads(&fs::read_to_string(&log).unwrap());
    let last_ns = reads.iter().map(|read| read.monotonic_ns).max().unwrap();

    let is_finished = place.path("archive/run/run.json").exists();
    let has_partial = place.path("archive/run.partial").exists();
    let allowed_ns = ((flush_s + BUSY_S) * 1e9) as i64;
    if !is_finished || has_partial {
        let output = place.output(&["convert", "{}/archive/run"]);
        if output.status.code() == Some(3) {
            let first_ns = reads[0].monotonic_ns;
            assert!(last_ns - first_ns < allowed_ns, "seed {seed}: {}", place.stderr(&output));
            return;
        }
        assert!(output.status.success(), "seed {seed}: {}", place.stderr(&output));
    }
    let run = place.run("run");
    for board in 0..2 {
        let name = format!("gpu{board}");
        let base_mw = (i64::from(board) + 1) * 100_000;
        let rows: Vec<i64> = device(&run, "nvml", &name)
            .power_w
            .value
            .iter()
            .map(|power_w| (power_w * 1e3).round() as i64 - base_mw)
            .collect();
        let given: Vec<Read> = reads.iter().copied().filter(|read| read.board == board).collect();
        // No hole: the rows are the reads from the first on.
        let numbers: Vec<i64> = given.iter().take(rows.len()).map(|read| read.number).collect();
        assert_eq!(rows, numbers, "seed {seed}");
        // What is missing is younger than a flush interval.
        for lost in &given[rows.len()..] {
            let age_ns = last_ns - lost.monotonic_ns;
            assert!(age_ns < allowed_ns, "seed {seed}: a row {age_ns} ns old is lost");
        }
    }
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "seed {seed}: {broken:?}");
    assert!(!place.path("archive/run.partial").exists());
}

#[test]
fn after_a_kill_every_row_older_than_a_flush_interval_is_there() {
    mock_nvml();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                (thread..KILLS).step_by(THREADS as usize).for_each(|seed| kill(seed + 1));
            });
        }
    });
}

/// Kills of recorders that send requests and follow a log, all at once.
const LOADED_KILLS: u64 = 6;

/// Steps are held until this much of the log behind them is known, and looked for this often.
const SETTLED_S: f64 = 3.0;
const LOOK_S: f64 = 0.2;

/// A line of vLLM's log for one iteration that ends now.
fn iteration(number: usize) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = TimestampNs::from_nanos(now.as_nanos() as i64).to_string();
    let (date, time) = (&now[5..10], &now[11..19]);
    format!(
        "INFO {date} {time} [core.py:343] Iteration({number}): 0 context requests, 0 context tokens, 2 \
         generation requests, 2 generation tokens, iteration elapsed time: 5.00 ms\n"
    )
}

/// Sends a hundred requests a second and follows a log to which the server adds an iteration with each
/// answer, kills at a moment that `seed` chooses, and finishes the run.
fn kill_with_steps_and_load(seed: u64) {
    let place = Place::with_calm_boards();
    let prompts: String = (0..5000)
        .map(|number| {
            format!("{{\"id\":\"r{number}\",\"prompt\":\"{number}\",\"max_tokens\":2}}\n")
        })
        .collect();
    place.write("prompts.jsonl", &prompts);
    let log = Mutex::new(File::create(place.path("server.log")).unwrap());
    // Which request was answered, and by when that and the iteration were there.
    let answered = Arc::new(Mutex::new(Vec::<(String, Instant)>::new()));
    let noted = answered.clone();
    let server = CompletionServer::start(move |asked, reply| {
        reply.stream(3, 2);
        let mut noted = noted.lock().unwrap();
        let line = iteration(noted.len() + 1);
        log.lock().unwrap().write_all(line.as_bytes()).unwrap();
        let prompt = asked.body["messages"][0]["content"].as_str().unwrap();
        noted.push((format!("r{prompt}"), Instant::now()));
    });
    let mut child = place
        .record(&[
            "load",
            "--out",
            "{}/archive/run",
            "--power",
            "replay={}/boards.csv",
            "--keep-free",
            "0",
            "--flush",
            &FLUSH_S.to_string(),
            "--steps",
            "vllm={}/server.log",
            "--url",
            &server.url(),
            "--requests",
            "{}/prompts.jsonl",
            "--constant-rate",
            "100",
            "--warmup-count",
            "0",
        ])
        .env_remove("OPENAI_API_KEY")
        .spawn()
        .unwrap();
    wait_until("the first answer", || !answered.lock().unwrap().is_empty());
    std::thread::sleep(Duration::from_secs_f64(SETTLED_S + 2.0 + 2.0 * random(seed)));
    let killed = Instant::now();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let answered = answered.lock().unwrap().clone();
    let output = place.output(&["convert", "{}/archive/run"]);
    assert!(output.status.success(), "seed {seed}: {}", place.stderr(&output));
    let run = place.run("run");
    let older_than = |age_s: f64| {
        let is_older = |(_, ended): &&(String, Instant)| {
            killed.saturating_duration_since(*ended).as_secs_f64() > age_s
        };
        answered.iter().take_while(is_older).count()
    };

    let recorded = &run.requests.as_ref().unwrap().request_id;
    let due = older_than(FLUSH_S + BUSY_S);
    let lost: Vec<_> = answered[..due].iter().filter(|(id, _)| !recorded.contains(id)).collect();
    assert!(due > 0 && lost.is_empty(), "seed {seed}: {lost:?}");

    // No hole: the steps are the iterations from the first on.
    let steps = &run.steps.as_ref().unwrap().step;
    assert!(steps.iter().copied().eq(1..=steps.len() as u64), "seed {seed}: {steps:?}");
    let due = older_than(SETTLED_S + LOOK_S + FLUSH_S + BUSY_S);
    assert!(due > 0 && steps.len() >= due, "seed {seed}: {} of {due}", steps.len());

    // The formal window ends with the last sample of power; that answers came after it is said truly.
    let mut broken = place.broken_rules();
    broken.retain(|finding| finding.check != "request-outside-formal");
    assert!(broken.iter().all(is_about_lateness), "seed {seed}: {broken:?}");
    assert!(!place.path("archive/run.partial").exists());
}

#[test]
fn after_a_kill_requests_and_settled_steps_are_there() {
    std::thread::scope(|scope| {
        for seed in 1..=LOADED_KILLS {
            scope.spawn(move || kill_with_steps_and_load(seed));
        }
    });
}
