//! Simulated archives: determinism, truth, sensors, the committed plans, and messages about bad ones.

#![expect(clippy::unwrap_used, reason = "a helper of a test panics where the test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use serde_json::Value;
use wattrace_schema::{DevicePower, Requests, Run, RunKind, Split, Steps};
use wattrace_simulate::{Plan, simulate};
use wattrace_trace::{Finding, ReadOptions, RunLocation, Severity, check_run, find_runs, read_run};

/// Parts for plans in tests: a small model, two boards without spread, perfect sensors.
const PARTS: &str = r#"
seed = 11
start = "2026-01-31T12:00:00Z"

[models.tiny]
total_params = 1_000_000_000
dtype = "bfloat16"
layers = 16
hidden_size = 1024
intermediate_size = 4096
attention_heads = 16
kv_heads = 4
head_dim = 64
vocab_size = 32000
tied_embeddings = true

[hardware.pair]
accelerator = "simulated"
count = 2
hbm_bandwidth_gb_s = 1000
power = { idle_w = 50, board_spread_percent = 0 }

[engines.e]
name = "simulated-engine"
compile_s = 2

[workloads.chat]
task = "chat"
input_tokens = { min = 10, max = 60 }
output_tokens = { min = 1, max = 40 }

[sensors.board]
interval_ms = 100
counter = {}
"#;

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, Path::new("plan.toml")).map_err(|error| error.to_string())
}

/// Simulates `PARTS` and `runs` into a new folder.
fn archive_of(runs: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let plan = parse(&format!("{PARTS}\n{runs}")).unwrap();
    simulate(&plan, folder.path(), None, &|_| ()).unwrap();
    folder
}

fn load(location: &RunLocation) -> Run {
    let loaded = read_run(location, ReadOptions::default()).unwrap();
    assert_eq!(loaded.findings, [], "{}", location.relative);
    loaded.run
}

/// The one run of an archive.
fn only_run(archive: &Path) -> Run {
    let locations = find_runs(archive).unwrap();
    assert_eq!(locations.len(), 1);
    load(&locations[0])
}

fn truth(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("truth.json")).unwrap()).unwrap()
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Every file below a folder and its bytes.
fn bytes_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

// Determinism ------------------------------------------------------------------------------------

const MIXED: &str = r#"
[sensors.noisy]
interval_ms = 50
jitter_ms = 5
lost_percent = 3
noise_w = 2
noise_percent = 1
counter = { refresh_ms = 20, resolution_j = 0.01 }

[[serving]]
id = "closed"
model = "tiny"
hardware = "pair"
engine = "e"
workload = "chat"
sensors = ["noisy"]
concurrency = [2, 5]
requests = 60
repeat = 2
steps = true
release = { monitor_s = 40 }
failures = { error_percent = 5, timeout_percent = 5, timeout_s = 2, cancelled_percent = 5 }

[[decode]]
id = "decode"
model = "tiny"
hardware = "pair"
engine = "e"
sensors = "noisy"
energy = { c_j_per_token = 0.01, alpha_j_per_gb = 0.1, beta_j_per_gb = 0.3, p_tau_w = 150 }
noise = { run_percent = 1, cell_percent = 1, block_percent = 1 }

[[decode.cells]]
split = "fit"
batch = [2, 4]
history = [100, 200]
steps = 20
repeat = 2
blocks = 2
"#;

#[test]
fn the_same_plan_gives_the_same_bytes_on_one_thread_and_on_two() {
    let plan = parse(&format!("{PARTS}\n{MIXED}")).unwrap();
    let archive = |threads: usize| {
        let folder = tempfile::tempdir().unwrap();
        simulate(&plan, folder.path(), NonZeroUsize::new(threads), &|_| ()).unwrap();
        bytes_below(folder.path())
    };
    let one = archive(1);
    assert_eq!(one.len(), 4 * 5 + 8 * 5, "run.json, truth.json and three tables a run");
    assert!(one == archive(2), "two threads wrote other bytes than one");
    assert!(one == archive(1), "a second time gave other bytes");
}

#[test]
fn another_seed_gives_other_rows() {
    let with_seed = |seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{PARTS}\n{MIXED}").replace("seed = 11", seed);
        simulate(&parse(&text).unwrap(), folder.path(), None, &|_| ()).unwrap();
        bytes_below(folder.path()).remove(Path::new("closed-c2-1/power.parquet")).unwrap()
    };
    assert!(with_seed("seed = 11") != with_seed("seed = 12"));
}

#[test]
fn an_existing_run_is_an_error_and_stays_as_it_was() {
    let folder = archive_of(MIXED);
    let before = bytes_below(folder.path());
    let plan = parse(&format!("{PARTS}\n{MIXED}")).unwrap();
    let error = simulate(&plan, folder.path(), None, &|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "run \"closed-c2-1\" could not be written");
    assert!(before == bytes_below(folder.path()));
}

#[test]
fn progress_counts_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = parse(&format!("{PARTS}\n{MIXED}")).unwrap();
    let seen = std::sync::Mutex::new(BTreeSet::new());
    let summary = simulate(&plan, folder.path(), None, &|progress| {
        assert_eq!(progress.total, 12);
        seen.lock().unwrap().insert((progress.done, progress.run_id.to_owned()));
    })
    .unwrap();
    assert_eq!(seen.lock().unwrap().len(), 12);
    let names: Vec<_> = summary.runs.iter().map(|run| run.file_name().unwrap()).collect();
    assert_eq!(names, plan.run_ids().collect::<Vec<_>>());
}

// Serving ----------------------------------------------------------------------------------------

fn serving(more: &str) -> String {
    format!(
        "[[serving]]\nid = \"run\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"e\"\n\
         workload = \"chat\"\nsensors = \"board\"\n{more}\n"
    )
}

/// What every request log must hold, whatever the plan.
fn assert_requests_are_consistent(run: &Run) {
    let requests = run.requests.as_ref().unwrap();
    for index in 0..requests.len() {
        let send_ns = requests.t_send_ns[index].unwrap();
        let end_ns = requests.t_end_ns[index].unwrap();
        assert!(send_ns < end_ns);
        let Some(tokens) = requests.successful_tokens(index) else { continue };
        let first_ns = requests.t_first_token_ns[index].unwrap();
        assert!(send_ns < first_ns && first_ns <= end_ns);
        let (gaps_ns, chunks) = requests.gaps.of(index);
        assert_eq!(gaps_ns.iter().sum::<u64>(), (end_ns - first_ns) as u64);
        assert!(gaps_ns.iter().all(|gap_ns| *gap_ns > 0));
        let after_first =
            if chunks.is_empty() { gaps_ns.len() as u32 } else { chunks.iter().sum() };
        assert_eq!(after_first, tokens - 1);
    }
}

/// Formal requests that are sent and not ended just after each of them was sent.
fn in_flight(requests: &Requests) -> Vec<usize> {
    let formal: Vec<(i64, i64)> = (0..requests.len())
        .filter(|index| requests.is_formal(*index))
        .map(|index| (requests.t_send_ns[index].unwrap(), requests.t_end_ns[index].unwrap()))
        .collect();
    formal
        .iter()
        .map(|(now, _)| formal.iter().filter(|(send, end)| send <= now && now < end).count())
        .collect()
}

#[test]
fn a_closed_loop_keeps_its_number_of_clients_busy() {
    let folder = archive_of(&serving("concurrency = 7\nrequests = 200"));
    let run = only_run(folder.path());
    assert_requests_are_consistent(&run);
    let requests = run.requests.as_ref().unwrap();
    assert_eq!((0..requests.len()).filter(|index| requests.is_formal(*index)).count(), 200);
    let in_flight = in_flight(requests);
    assert!(in_flight.iter().all(|count| *count <= 7), "{in_flight:?}");
    // Each client sends again the moment that its request ends.
    assert!(in_flight.iter().all(|count| *count == 7), "{in_flight:?}");
}

#[test]
fn poisson_arrivals_have_their_mean_rate_and_spread() {
    let folder = archive_of(&serving("request_rate = 40\nrequests = 4000\ntoken_times = false"));
    let run = only_run(folder.path());
    assert_eq!(run.manifest.workload.request_rate, Some(40.0));
    let requests = run.requests.as_ref().unwrap();
    let sent: Vec<i64> = (0..requests.len())
        .filter(|index| requests.is_formal(*index))
        .map(|index| requests.t_send_ns[index].unwrap())
        .collect();
    let gaps_s: Vec<f64> = sent.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
    let n = gaps_s.len() as f64;
    let mean = gaps_s.iter().sum::<f64>() / n;
    let variance = gaps_s.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
    // The mean of 4,000 exponential gaps has a relative standard error of 1/sqrt(4000) = 1.6%, their
    // standard deviation one of about sqrt(2/4000) = 2.2%: five of either.
    assert!((mean * 40.0 - 1.0).abs() < 0.08, "{mean}");
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.11, "{}", variance.sqrt() / mean);
}

/// A plan in `folder`, whose one run replays the trace in the file `trace`.
fn replaying(folder: &Path, trace: &str, more: &str) -> Result<Plan, String> {
    let text = format!(
        "{PARTS}\n[workloads.replayed]\ntask = \"chat\"\ntrace = \"{trace}\"\ninput_tokens = 8\n\
         output_tokens = 4\n\n[[serving]]\nid = \"replay\"\nmodel = \"tiny\"\nhardware = \"pair\"\n\
         engine = \"e\"\nworkload = \"replayed\"\nsensors = \"board\"\n{more}\n"
    );
    Plan::parse(&text, &folder.join("plan.toml")).map_err(|error| error.to_string())
}

#[test]
fn a_request_trace_gives_arrivals_and_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,30,5\n\
                 2023-11-16 18:15:46.5,20,7\n2023-11-16 18:15:49.25,10,3\n";
    std::fs::write(folder.path().join("trace.csv"), trace).unwrap();
    let replayed = |more: &str, archive: &str| {
        let archive = folder.path().join(archive);
        let plan = replaying(folder.path(), "trace.csv", more).unwrap();
        simulate(&plan, &archive, None, &|_| ()).unwrap();
        let run = only_run(&archive);
        let start_ns = run.manifest.stages.formal_start.unwrap().nanos();
        let requests = run.requests.as_ref().unwrap();
        let rows: Vec<(i64, u32, u32)> = (0..requests.len())
            .filter(|index| requests.is_formal(*index))
            .map(|index| {
                let sent_ms = (requests.t_send_ns[index].unwrap() - start_ns) / 1_000_000;
                let input = requests.input_tokens[index].unwrap();
                (sent_ms, input, requests.output_tokens[index].unwrap())
            })
            .collect();
        (rows, run)
    };
    let (rows, run) = replayed("", "whole");
    assert_eq!(rows, [(0, 30, 5), (500, 20, 7), (3250, 10, 3)]);
    assert_eq!(run.manifest.workload.trace.as_deref(), Some("trace.csv"));
    assert_requests_are_consistent(&run);
    // A plan may end it early.
    assert_eq!(replayed("requests = 2", "part").0.len(), 2);
    assert_eq!(replayed("seconds = 1", "second").0.len(), 2);
}

#[test]
fn a_trace_that_cannot_be_replayed_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let plan = replaying(folder.path(), "nowhere.csv", "").unwrap();
    let error = simulate(&plan, &folder.path().join("archive"), None, &|_| ()).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("run \"replay\": cannot read \""), "{message}");
    assert!(message.contains("nowhere.csv\": "), "{message}");
    let message = replaying(folder.path(), "trace.csv", "concurrency = 2").unwrap_err();
    assert!(
        message.ends_with(
            "the workload has a \"trace\", which gives the arrivals; expected neither \"concurrency\" nor \
             \"request_rate\" beside it"
        ),
        "{message}"
    );
}

#[test]
fn seconds_end_the_sending() {
    let folder = archive_of(&serving("concurrency = 3\nseconds = 4"));
    let run = only_run(folder.path());
    let formal_start_ns = run.manifest.stages.formal_start.unwrap().nanos();
    let requests = run.requests.as_ref().unwrap();
    let last_ns = requests.t_send_ns.iter().map(|sent| sent.unwrap()).max().unwrap();
    assert!((3_900_000_000..=4_000_000_000).contains(&(last_ns - formal_start_ns)));
}

#[test]
fn failures_come_in_their_shares() {
    let folder = archive_of(&serving(
        "concurrency = 8\nrequests = 2000\n\
         failures = { error_percent = 10, timeout_percent = 10, timeout_s = 1.5, cancelled_percent = 20 }",
    ));
    let run = only_run(folder.path());
    assert_requests_are_consistent(&run);
    let requests = run.requests.as_ref().unwrap();
    let formal: Vec<usize> = (0..requests.len()).filter(|i| requests.is_formal(*i)).collect();
    let share = |name: &str| {
        let count = formal.iter().filter(|index| requests.status[**index].name() == name).count();
        count as f64 / formal.len() as f64
    };
    // Standard error of a share of 10% of 2,000: 0.7%; of 20%: 0.9%. Five of them.
    assert!((share("error") - 0.1).abs() < 0.035);
    assert!((share("timeout") - 0.1).abs() < 0.035);
    assert!((share("cancelled") - 0.2).abs() < 0.045);
    let timed_out = formal.iter().filter(|index| requests.status[**index].name() == "timeout");
    for index in timed_out {
        let waited_ns = requests.t_end_ns[*index].unwrap() - requests.t_send_ns[*index].unwrap();
        assert!(waited_ns >= 1_500_000_000);
    }
    let truth = truth(&folder.path().join("run"));
    assert_eq!(truth["requests_total"], 2000);
    let failed = formal.iter().filter(|i| requests.successful_tokens(**i).is_none()).count();
    assert_eq!(truth["requests_failed"], failed);
}

#[test]
fn chunks_hold_several_tokens() {
    let folder = archive_of(&serving("concurrency = 4\nrequests = 40\ntokens_per_chunk = 4"));
    let run = only_run(folder.path());
    assert_requests_are_consistent(&run);
    let tokens = &run.requests.as_ref().unwrap().gaps.tokens;
    assert!(tokens.contains(&4) && tokens.iter().all(|tokens| (1..=4).contains(tokens)));
}

#[test]
fn the_step_log_and_the_requests_count_the_same_tokens() {
    let folder = archive_of(&serving("concurrency = 4\nrequests = 80\nsteps = true"));
    let run = only_run(folder.path());
    let requests = run.requests.as_ref().unwrap();
    let steps = run.steps.as_ref().unwrap();
    // The first token of each request comes from its prompt.
    let decoded: u64 = (0..requests.len())
        .map(|index| u64::from(requests.output_tokens[index].unwrap() - 1))
        .sum();
    assert_eq!(steps.new_tokens.iter().map(|tokens| u64::from(*tokens)).sum::<u64>(), decoded);
    let prompts: u64 =
        (0..requests.len()).map(|index| u64::from(requests.input_tokens[index].unwrap())).sum();
    assert_eq!(steps.prefill_tokens.iter().map(|t| u64::from(*t)).sum::<u64>(), prompts);
    // A request with prompt p and n tokens attends to p, p + 1, … p + n − 2 before its decode steps.
    let history: u64 = (0..requests.len())
        .map(|index| {
            let prompt = u64::from(requests.input_tokens[index].unwrap());
            let steps = u64::from(requests.output_tokens[index].unwrap() - 1);
            steps * prompt + steps * steps.saturating_sub(1) / 2
        })
        .sum();
    assert_eq!(steps.history_tokens.iter().map(|tokens| tokens.unwrap()).sum::<u64>(), history);
}

// Truth ------------------------------------------------------------------------------------------

/// Value of a series at `t_ns` on the line between its neighbours.
fn at(device: &DevicePower, t_ns: i64) -> f64 {
    let series = &device.energy_j;
    let after = series.t_ns.partition_point(|t| *t < t_ns);
    if series.t_ns[after] == t_ns {
        return series.value[after];
    }
    let (t0, t1) = (series.t_ns[after - 1], series.t_ns[after]);
    let (e0, e1) = (series.value[after - 1], series.value[after]);
    e0 + (e1 - e0) * (t_ns - t0) as f64 / (t1 - t0) as f64
}

fn counter_difference(run: &Run, from_ns: i64, to_ns: i64) -> f64 {
    run.power.iter().map(|device| at(device, to_ns) - at(device, from_ns)).sum()
}

/// Energy by the trapezoid of sampled power, from the first sample to the last inside the window.
fn integral(device: &DevicePower, from_ns: i64, to_ns: i64) -> f64 {
    let series = &device.power_w;
    let pairs: Vec<(i64, f64)> = series
        .t_ns
        .iter()
        .copied()
        .zip(series.value.iter().copied())
        .filter(|(t_ns, _)| (from_ns..=to_ns).contains(t_ns))
        .collect();
    let area =
        |pair: &[(i64, f64)]| 0.5 * (pair[0].1 + pair[1].1) * (pair[1].0 - pair[0].0) as f64 / 1e9;
    pairs.windows(2).map(area).sum()
}

#[test]
fn fine_samples_and_perfect_counters_agree_with_the_truth() {
    let text = serving(
        "concurrency = 6\nrequests = 300\ntransient = { power_percent = 20, step_time_percent = 10 }",
    );
    let folder = archive_of(
        &text
            .replace("sensors = \"board\"", "sensors = \"fast\"")
            .replace("[[serving]]", "[sensors.fast]\ninterval_ms = 1\ncounter = {}\n[[serving]]"),
    );
    let run = only_run(folder.path());
    let truth = truth(&folder.path().join("run"));
    let stages = &run.manifest.stages;
    let [launch, start, end] =
        [stages.launch, stages.formal_start, stages.formal_end].map(|stamp| stamp.unwrap().nanos());
    // Samples every millisecond see each step of several milliseconds; what is left is the bend of the
    // power within one interval at each end: 1 ms x 0.5 kW of about 1 kJ.
    let close = |value: f64, key: &str| {
        let expected = truth[key].as_f64().unwrap();
        assert!((value / expected - 1.0).abs() < 1e-3, "{key}: {value} is not {expected}");
    };
    close(counter_difference(&run, launch, start), "startup_energy_j");
    close(counter_difference(&run, start, end), "formal_energy_j");
    let integrals = |from_ns: i64, to_ns: i64| -> f64 {
        run.power.iter().map(|device| integral(device, from_ns, to_ns)).sum()
    };
    close(integrals(launch, start), "startup_energy_j");
    close(integrals(start, end), "formal_energy_j");
    // Idle is constant: 2 x 50 W.
    assert_eq!(truth["idle_power_w"].as_f64().unwrap(), 100.0);
    let idle = stages.idle_start.unwrap().nanos();
    let idle_j = counter_difference(&run, idle, idle + 10_000_000_000);
    assert!((idle_j - 1000.0).abs() < 1e-6, "{idle_j}");
}

#[test]
fn the_energies_of_the_requests_add_up() {
    let folder = archive_of(&serving(
        "request_rate = 12\nrequests = 500\nfailures = { error_percent = 5, cancelled_percent = 10 }",
    ));
    let truth = truth(&folder.path().join("run"));
    let energies = truth["request_energy_j"].as_array().unwrap();
    assert_eq!(energies.len(), 500);
    let attributed: f64 = energies.iter().filter_map(Value::as_f64).sum();
    let total = attributed + truth["unattributed_energy_j"].as_f64().unwrap();
    let formal = truth["formal_energy_j"].as_f64().unwrap();
    assert!((total / formal - 1.0).abs() < 1e-9, "{total} is not {formal}");
    let failed = energies.iter().filter(|energy| energy.is_null()).count();
    assert_eq!(truth["requests_failed"], failed);
}

#[test]
fn the_stages_add_up_to_the_lifecycle() {
    let folder = archive_of(&serving("concurrency = 6\nrequests = 60"));
    let truth = truth(&folder.path().join("run"));
    let value = |key: &str| truth[key].as_f64().unwrap();
    let sum = value("startup_energy_j") + value("formal_energy_j") + value("release_energy_j");
    assert_eq!(sum, value("lifecycle_energy_j"));
    let tokens = truth["output_tokens"].as_u64().unwrap() as f64;
    assert_eq!(value("lifecycle_energy_j") / tokens, value("lifecycle_j_per_token"));
}

#[test]
fn release_closes_in_time_late_or_never() {
    let release = |plan: &str| {
        let folder = archive_of(&serving(&format!("concurrency = 2\nrequests = 4\n{plan}")));
        truth(&folder.path().join("run"))
    };
    let closed = release("release = { exit_s = 1, memory_s = 0, decay_s = 2 }");
    // Ready 118 W, idle 50 W: within 2.5 W after 1 s + 2 s x ln(68/2.5) = 7.6 s, on straight lines
    // between points of the exponential a little later.
    let seconds = closed["release_seconds"].as_f64().unwrap();
    assert!((7.6..7.7).contains(&seconds), "{seconds}");
    assert_eq!(release("release = { residual_w = 5 }")["release_closed"], false);
    assert_eq!(release("release = { monitor_s = 20 }")["release_closed"], false);
    let second = release("release = { bump = { after_s = 25, seconds = 4, power_w = 30 } }");
    assert_eq!(second["release_seconds"], 29.0);
}

// Sensors ----------------------------------------------------------------------------------------

/// A run that is idle for a minute, seen by a sensor.
fn idle_seen_by(sensor: &str, more: &str) -> Run {
    let runs = serving(&format!("concurrency = 2\nrequests = 4\nidle_s = 60\n{more}"))
        .replace("sensors = \"board\"", "sensors = \"s\"");
    let folder = archive_of(&format!("[sensors.s]\n{sensor}\n{runs}"));
    only_run(folder.path())
}

/// Samples of the first board during idle: times and values.
fn idle_samples(run: &Run, counter: bool) -> Vec<(i64, f64)> {
    let (start, end) =
        (run.manifest.stages.idle_start.unwrap(), run.manifest.stages.idle_end.unwrap());
    let device = &run.power[0];
    let series = if counter { &device.energy_j } else { &device.power_w };
    let pairs = series.t_ns.iter().copied().zip(series.value.iter().copied());
    pairs.filter(|(t_ns, _)| (start.nanos()..=end.nanos()).contains(t_ns)).collect()
}

#[test]
fn noise_and_resolution_shape_the_readings() {
    let run = idle_seen_by("interval_ms = 10\nnoise_w = 2\nresolution_w = 0.5", "");
    let values: Vec<f64> = idle_samples(&run, false).iter().map(|(_, value)| *value).collect();
    assert!(values.iter().all(|value| (value * 2.0).fract() == 0.0), "multiples of 0.5 W");
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
    // 6,000 samples: standard errors of 0.026 W and 0.018 W; rounding adds 0.5²/12 W².
    assert!((mean - 50.0).abs() < 0.13, "{mean}");
    assert!((deviation - (4.0_f64 + 0.25 / 12.0).sqrt()).abs() < 0.1, "{deviation}");
}

#[test]
fn gain_errors_raise_power_and_counter_alike() {
    let run = idle_seen_by("interval_ms = 100\ngain_error_percent = 4\ncounter = {}", "");
    assert!(idle_samples(&run, false).iter().all(|(_, value)| (value - 52.0).abs() < 1e-9));
    let counter = idle_samples(&run, true);
    let (first, last) = (counter[0], counter[counter.len() - 1]);
    let power = (last.1 - first.1) / ((last.0 - first.0) as f64 / 1e9);
    assert!((power - 52.0).abs() < 1e-6, "{power}");
}

#[test]
fn a_counter_changes_only_when_it_is_refreshed() {
    let run = idle_seen_by("interval_ms = 100\ncounter = { refresh_ms = 1000 }", "");
    let counter = idle_samples(&run, true);
    let steps: Vec<f64> = counter.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    // Every tenth sample sees another second's 50 J.
    assert!(steps.iter().all(|step| *step == 0.0 || (step - 50.0).abs() < 1e-6));
    let changes = steps.iter().filter(|step| **step > 0.0).count();
    assert!((59..=60).contains(&changes), "{changes}");
}

#[test]
fn a_counter_wraps_once_and_a_reset_starts_from_zero() {
    let falls = |run: &Run| -> Vec<(f64, f64)> {
        let values = &run.power[0].energy_j.value;
        let pairs = values.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|(before, after)| after < before).collect()
    };
    let wrapping = idle_seen_by("interval_ms = 100\ncounter = { wrap_j = 100_000 }", "");
    assert_eq!(wrapping.manifest.power_sources[0].counter_wrap_j, Some(100_000.0));
    let wraps = falls(&wrapping);
    assert_eq!(wraps.len(), 1);
    // Idle or not, a tenth of a second has less than 70 J.
    assert!(wraps[0].0 > 99_930.0 && wraps[0].1 < 70.0, "{wraps:?}");

    let reset = idle_seen_by(
        "interval_ms = 100\ncounter = {}",
        "counter_resets = [{ stage = \"idle\", after_s = 30 }]",
    );
    let resets = falls(&reset);
    assert_eq!(resets.len(), 1);
    assert!(resets[0].1 <= 5.0, "{resets:?}");
}

#[test]
fn a_gap_and_lost_samples_leave_no_rows() {
    let run = idle_seen_by(
        "interval_ms = 100\nlost_percent = 25",
        "gaps = [{ stage = \"idle\", after_s = 10, seconds = 20 }]",
    );
    let start_ns = run.manifest.stages.idle_start.unwrap().nanos();
    let samples = idle_samples(&run, false);
    let in_gap = |t_ns: i64| (10_000_000_000..30_000_000_000).contains(&(t_ns - start_ns));
    assert!(!samples.iter().any(|(t_ns, _)| in_gap(*t_ns)));
    // A quarter of 400 due samples is lost; standard error 8.7.
    assert!((255..=345).contains(&samples.len()), "{}", samples.len());
}

#[test]
fn clocks_differ_by_what_is_declared_and_by_what_is_not() {
    let first_ns = |sensor: &str| idle_seen_by(sensor, "").power[0].power_w.t_ns[0];
    let plain = first_ns("interval_ms = 100");
    // The reader adds the declared offset, so that it cancels; the undeclared one stays.
    assert_eq!(first_ns("interval_ms = 100\nclock_offset_ms = 250"), plain);
    assert_eq!(first_ns("interval_ms = 100\nclock_error_ms = 30"), plain - 30_000_000);
}

#[test]
fn averages_trail_behind_instants() {
    // Idle ends and loading begins a second later at 110 W: an average over two seconds is half-way
    // between after one second.
    let run =
        idle_seen_by("reading = \"average\"\naveraging_window_ms = 2000\ninterval_ms = 10", "");
    assert_eq!(run.manifest.power_sources[0].averaging_window_ms, Some(2000.0));
    let launch_ns = run.manifest.stages.launch.unwrap().nanos();
    let series = &run.power[0].power_w;
    let index = series.t_ns.partition_point(|t_ns| *t_ns < launch_ns + 1_000_000_000);
    assert!((series.value[index] - 80.0).abs() < 0.31, "{}", series.value[index]);
}

#[test]
fn sampling_may_be_slower_outside_the_formal_stage() {
    let run = idle_seen_by("interval_ms = 20\ninterval_outside_formal_ms = 1000", "");
    assert!((59..=61).contains(&idle_samples(&run, false).len()));
    let [start, end] = [run.manifest.stages.formal_start, run.manifest.stages.formal_end]
        .map(|stamp| stamp.unwrap().nanos());
    let inside = run.power[0].power_w.t_ns.iter().filter(|t| (start..end).contains(t)).count();
    let due = (end - start) / 20_000_000;
    assert!((inside as i64 - due).abs() <= 1, "{inside} of {due}");
}

#[test]
fn a_node_has_its_base_and_its_losses() {
    let run = idle_seen_by("scope = \"node\"\ninterval_ms = 1000", "");
    // 420 W + 1.14 x 2 x 50 W.
    assert_eq!(run.power.len(), 1);
    assert!(idle_samples(&run, false).iter().all(|(_, value)| (value - 534.0).abs() < 1e-9));
}

// Decode -----------------------------------------------------------------------------------------

/// Coordinates and energy of a decode run from its rows alone, by the definitions.
struct DecodePoint {
    q_w: f64,
    q_kv: f64,
    tau: f64,
    energy_j_per_token: f64,
}

fn decode_point(run: &Run) -> DecodePoint {
    let steps: &Steps = run.steps.as_ref().unwrap();
    let model = &run.manifest.model;
    let [start, end] = [run.manifest.stages.decode_start, run.manifest.stages.decode_end]
        .map(|stamp| stamp.unwrap().nanos());
    assert_eq!(steps.t_start_ns[0], Some(start));
    assert_eq!(*steps.t_end_ns.last().unwrap(), end);
    let tokens: u64 = steps.new_tokens.iter().map(|tokens| u64::from(*tokens)).sum();
    let history: u64 = steps.history_tokens.iter().map(|tokens| tokens.unwrap()).sum();
    let embedding = u64::from(model.vocab_size.unwrap()) * u64::from(model.hidden_size.unwrap());
    let looked_up = if model.tied_embeddings.unwrap() { 0 } else { embedding };
    let weight_bytes =
        model.weight_bytes_per_param.unwrap() * (model.total_params.unwrap() - looked_up) as f64;
    let kv_bytes = 2.0
        * f64::from(model.layers.unwrap() * model.kv_heads.unwrap() * model.head_dim.unwrap())
        * model.kv_bytes_per_value.unwrap();
    let b_eff = tokens as f64 / steps.len() as f64;
    let mean_history = history as f64 / tokens as f64;
    DecodePoint {
        q_w: weight_bytes / (1e9 * b_eff),
        q_kv: kv_bytes * (mean_history + 1.0) / 1e9,
        tau: (end - start) as f64 / 1e9 / tokens as f64,
        energy_j_per_token: counter_difference(run, start, end) / tokens as f64,
    }
}

/// Least squares with an intercept, by singular values of scaled columns.
fn least_squares(rows: &[Vec<f64>], values: &[f64]) -> Vec<f64> {
    let columns = rows[0].len() + 1;
    let design = DMatrix::from_fn(rows.len(), columns, |row, column| {
        if column == 0 { 1.0 } else { rows[row][column - 1] }
    });
    let scales: Vec<f64> = (0..columns).map(|column| design.column(column).norm()).collect();
    let scaled = DMatrix::from_fn(rows.len(), columns, |r, c| design[(r, c)] / scales[c]);
    let solution = scaled.svd(true, true).solve(&DVector::from_column_slice(values), 0.0).unwrap();
    solution.iter().zip(&scales).map(|(value, scale)| value / scale).collect()
}

/// Largest over smallest singular value of the centred columns of unit variance.
fn condition_number(rows: &[Vec<f64>]) -> f64 {
    let n = rows.len() as f64;
    let columns = rows[0].len();
    let mean = |c: usize| rows.iter().map(|row| row[c]).sum::<f64>() / n;
    let means: Vec<f64> = (0..columns).map(mean).collect();
    let deviation = |c: usize| {
        (rows.iter().map(|row| (row[c] - means[c]).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
    };
    let deviations: Vec<f64> = (0..columns).map(deviation).collect();
    let standard =
        DMatrix::from_fn(rows.len(), columns, |r, c| (rows[r][c] - means[c]) / deviations[c]);
    let values = standard.singular_values();
    values.max() / values.min()
}

#[test]
fn noise_free_runs_give_the_coefficients_back() {
    let folder = archive_of(
        "[[decode]]\nid = \"exact\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"e\"\n\
         sensors = \"board\"\n\
         energy = { c_j_per_token = 0.013, alpha_j_per_gb = 0.17, beta_j_per_gb = 0.41, p_tau_w = 143 }\n\
         [[decode.cells]]\nsplit = \"fit\"\nbatch = [2, 8, 32]\nhistory = [500, 9000]\nsteps = 64\n\
         repeat = 3\nrun_delay_percent = [0, 40, 15, 70]\n",
    );
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for location in find_runs(folder.path()).unwrap() {
        let run = load(&location);
        assert_eq!(run.power.len(), 2);
        let point = decode_point(&run);
        let truth = truth(&location.folder);
        let stored = |key: &str| truth[key].as_f64().unwrap();
        for (value, key) in [
            (point.q_w, "q_w_gb"),
            (point.q_kv, "q_kv_gb"),
            (point.tau, "tau_s"),
            (point.energy_j_per_token, "j_per_token"),
            (point.energy_j_per_token, "law_j_per_token"),
        ] {
            assert!((value / stored(key) - 1.0).abs() < 1e-11, "{}: {key}", location.relative);
        }
        rows.push(vec![point.q_w, point.q_kv, point.tau]);
        values.push(point.energy_j_per_token);
    }
    assert_eq!(rows.len(), 18);
    let found = least_squares(&rows, &values);
    for (found, expected) in found.iter().zip([0.013, 0.17, 0.41, 143.0]) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }
}

#[test]
fn graphs_end_at_their_limit_and_steps_become_slower() {
    let folder = archive_of(
        "[engines.graphs]\nstep_jitter_percent = 0\ngraph_limit_tokens = 110\neager_extra_ms = 5\n\
         [[decode]]\nid = \"eager\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"graphs\"\n\
         sensors = \"board\"\n\
         energy = { c_j_per_token = 0, alpha_j_per_gb = 0.2, beta_j_per_gb = 0.3, p_tau_w = 100 }\n\
         [[decode.cells]]\nsplit = \"fit\"\nbatch = 1\nhistory = 100\nsteps = 20\n",
    );
    let run = only_run(folder.path());
    let steps = run.steps.as_ref().unwrap();
    for index in 0..20 {
        // Step i makes a sequence of 101 + i tokens.
        let eager = index >= 10;
        assert_eq!(steps.max_sequence_tokens[index], Some(101 + index as u32));
        assert_eq!(steps.graph_mode[index].unwrap().name(), if eager { "eager" } else { "graph" });
    }
    let duration = |index: usize| steps.t_end_ns[index] - steps.t_start_ns[index].unwrap();
    let jump_ms = (duration(10) - duration(9)) as f64 / 1e6;
    assert!((jump_ms - 5.0).abs() < 0.01, "{jump_ms}");
}

#[test]
fn additive_noise_has_its_standard_deviation() {
    let folder = archive_of(
        "[[decode]]\nid = \"noisy\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"e\"\n\
         sensors = \"board\"\nnoise = { run_j_per_token = 0.002 }\n\
         energy = { c_j_per_token = 0.01, alpha_j_per_gb = 0.2, beta_j_per_gb = 0.3, p_tau_w = 100 }\n\
         [[decode.cells]]\nsplit = \"fit\"\nbatch = 4\nhistory = 100\nsteps = 5\nrepeat = 400\n",
    );
    let departures: Vec<f64> = find_runs(folder.path())
        .unwrap()
        .iter()
        .map(|location| {
            let truth = truth(&location.folder);
            truth["j_per_token"].as_f64().unwrap() - truth["law_j_per_token"].as_f64().unwrap()
        })
        .collect();
    let square = departures.iter().map(|departure| departure.powi(2)).sum::<f64>();
    let deviation = (square / departures.len() as f64).sqrt();
    // Relative standard error 1/sqrt(2 x 400) = 3.5%; five of them.
    assert!((deviation / 0.002 - 1.0).abs() < 0.18, "{deviation}");
}

// The committed plans ----------------------------------------------------------------------------

fn simulate_file(plan: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::read(&repository(plan)).unwrap();
    simulate(&plan, folder.path(), None, &|_| ()).unwrap();
    folder
}

/// A run's place in the design and its true coordinates.
struct DesignRun {
    setting: String,
    cell: String,
    split: Split,
    draining: bool,
    coordinates: Vec<f64>,
    energy_j_per_token: f64,
    truth: Value,
}

fn design(archive: &Path) -> Vec<DesignRun> {
    let read = |location: &RunLocation| {
        let manifest = wattrace_trace::read_manifest(location).unwrap();
        assert_eq!(manifest.kind, RunKind::Decode);
        assert!(manifest.synthetic);
        let truth = truth(&location.folder);
        let value = |key: &str| truth[key].as_f64().unwrap();
        DesignRun {
            setting: manifest.setting_or_default(),
            cell: manifest.cell.clone().unwrap(),
            split: manifest.split.unwrap(),
            draining: manifest.initial_cohort.is_some(),
            coordinates: vec![value("q_w_gb"), value("q_kv_gb"), value("tau_s")],
            energy_j_per_token: value("j_per_token"),
            truth,
        }
    };
    find_runs(archive).unwrap().iter().map(read).collect()
}

/// Largest error of a held-out cell's mean, for a form that sees what `columns` makes of the coordinates.
fn largest_heldout_error(runs: &[&DesignRun], columns: impl Fn(&[f64]) -> Vec<f64>) -> f64 {
    let fit = || runs.iter().filter(|run| run.split == Split::Fit);
    let rows: Vec<Vec<f64>> = fit().map(|run| columns(&run.coordinates)).collect();
    let values: Vec<f64> = fit().map(|run| run.energy_j_per_token).collect();
    let coefficients = least_squares(&rows, &values);
    let mut cells: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.split == Split::Heldout) {
        let products = columns(&run.coordinates).into_iter().zip(&coefficients[1..]);
        let predicted = coefficients[0] + products.map(|(x, b)| x * b).sum::<f64>();
        let error = predicted / run.energy_j_per_token - 1.0;
        cells.entry(&run.cell).or_default().push(error);
    }
    let mean = |errors: &Vec<f64>| (errors.iter().sum::<f64>() / errors.len() as f64).abs();
    cells.values().map(mean).fold(0.0, f64::max)
}

/// Asserts that every setting tells the coordinates apart, and that each form beats the next.
fn assert_the_full_form_wins(runs: &[DesignRun]) {
    let settings: BTreeSet<&str> = runs.iter().map(|run| run.setting.as_str()).collect();
    for setting in settings {
        let own: Vec<&DesignRun> = runs.iter().filter(|run| run.setting == setting).collect();
        let fit = own.iter().filter(|run| run.split == Split::Fit);
        let rows: Vec<Vec<f64>> = fit.map(|run| run.coordinates.clone()).collect();
        let condition = condition_number(&rows);
        assert!(condition < 30.0, "{setting}: condition number {condition}");
        let full = largest_heldout_error(&own, <[f64]>::to_vec);
        let merged = largest_heldout_error(&own, |x| vec![x[0] + x[1], x[2]]);
        let no_time = largest_heldout_error(&own, |x| vec![x[0], x[1]]);
        let no_bytes = largest_heldout_error(&own, |x| vec![x[2]]);
        let errors = format!("{setting}: {full} {merged} {no_time} {no_bytes}");
        assert!(full < 0.03, "{errors}");
        assert!(full < merged && merged < no_time.min(no_bytes), "{errors}");
    }
}

#[test]
fn the_whole_decode_design_is_as_its_plan_says() {
    let folder = simulate_file("sample-data/decode-full.plan.toml");
    let runs = design(folder.path());
    let count = |of: &dyn Fn(&DesignRun) -> bool| runs.iter().filter(|run| of(run)).count();
    assert_eq!(count(&|run| run.split == Split::Fit), 240);
    assert_eq!(count(&|run| run.split == Split::Heldout), 374);
    assert_eq!(count(&|run| run.draining), 104);
    let settings: BTreeSet<&str> = runs.iter().map(|run| run.setting.as_str()).collect();
    assert_eq!(settings.len(), 8);
    for setting in settings {
        assert_eq!(count(&|run| run.setting == setting && run.split == Split::Fit), 30);
    }
    let mut cells: BTreeMap<&str, u64> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.draining) {
        assert_eq!(run.truth["mean_history_tokens"], 9983.5);
        assert_ne!(run.truth["unweighted_history_tokens"], 9983.5);
        let b_eff = run.truth["b_eff"].as_f64().unwrap();
        assert!(run.cell.ends_with(&format!("-b{b_eff}")), "{}: {b_eff}", run.cell);
        assert!(run.truth["initial_cohort"].as_f64().unwrap() > b_eff);
        *cells.entry(&run.cell).or_default() += 1;
    }
    assert_eq!(cells.len(), 8);
    assert!(cells.values().all(|runs| *runs == 13));
    assert_the_full_form_wins(&runs);
}

#[test]
fn the_small_decode_plan_keeps_the_order_of_the_forms() {
    let folder = simulate_file("sample-data/decode.plan.toml");
    let runs = design(folder.path());
    assert_eq!(runs.len(), 56);
    assert_the_full_form_wins(&runs);
    assert_eq!(broken_rules(folder.path()), BTreeMap::new());
}

/// Findings above a note, by run: ids of the rules.
fn broken_rules(archive: &Path) -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut broken = BTreeMap::new();
    for location in find_runs(archive).unwrap() {
        let checked = check_run(&location);
        let findings = checked.checks.iter().flat_map(|result| &result.findings);
        let bad: BTreeSet<&'static str> = findings
            .filter(|finding: &&Finding| finding.severity > Severity::Note)
            .map(|finding| finding.check)
            .collect();
        if !bad.is_empty() {
            broken.insert(location.relative.clone(), bad);
        }
    }
    broken
}

#[test]
fn the_serving_sample_holds_what_its_comments_promise() {
    let folder = simulate_file("sample-data/serving.plan.toml");
    let truth_of = |run: &str| truth(&folder.path().join(run));
    let runs: Vec<String> =
        find_runs(folder.path()).unwrap().into_iter().map(|run| run.relative).collect();
    let chats: Vec<&String> = runs.iter().filter(|run| run.starts_with("chat-")).collect();
    assert_eq!((runs.len(), chats.len()), (12, 8));
    for run in chats {
        let truth = truth_of(run);
        assert_eq!(
            (&truth["steady_reached"], &truth["release_closed"]),
            (&true.into(), &true.into())
        );
        assert!(truth["steady_first_request"].as_u64().unwrap() > 0, "{run} has a transient");
    }
    assert_eq!(truth_of("never-steady")["steady_reached"], false);
    assert!(truth_of("never-steady")["requests_failed"].as_u64().unwrap() > 0);
    assert_eq!(truth_of("never-released")["release_closed"], false);
    assert_eq!(truth_of("monitor-ends-early")["release_closed"], false);
    assert_eq!(truth_of("second-release")["release_seconds"], 38.0);
    // The reset of the counter and the hole in the samples are there to be found; nothing else is.
    let broken = broken_rules(folder.path());
    assert_eq!(broken.keys().collect::<Vec<_>>(), ["second-release"], "{broken:?}");
    let bytes: usize = bytes_below(folder.path()).values().map(Vec::len).sum();
    assert!(bytes < 2_500_000, "{bytes} bytes are too many for a sample");
}

#[test]
fn the_benchmark_plan_has_200_runs() {
    let plan = Plan::read(&repository("tests/bench/serving-200.plan.toml")).unwrap();
    assert_eq!(plan.run_ids().len(), 200);
}

// Messages ---------------------------------------------------------------------------------------

fn message(runs: &str) -> String {
    // Lines are counted from the first line of `runs`, so that tests do not depend on PARTS.
    let lines_before = PARTS.lines().count();
    let text = parse(&format!("{PARTS}{runs}")).unwrap_err();
    let Some((before, after)) = text.split_once(" line ") else { return text };
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap();
    let line: usize = after[..digits].parse().unwrap();
    format!("{before} line +{}{}", line - lines_before, &after[digits..])
}

#[test]
fn messages_name_line_key_value_and_what_is_expected() {
    let run = serving("concurrency = 2\nrequests = 4");
    let cases = [
        (run.replace("requests", "reqests"), "plan \"plan.toml\" line +9, in \"serving\": unknown key \"reqests\", expected one of \"id\""),
        (run.replace("requests = 4", "requests = 0"), "plan \"plan.toml\" line +9, in \"serving.requests\": invalid value: integer \"0\", expected items from 1 to 10000000"),
        (run.replace("requests = 4", "requests = \"many\""), "plan \"plan.toml\" line +9, in \"serving.requests\": invalid type: string \"many\", expected items from 1 to 10000000"),
        (run.replace("requests = 4", "requests = 1.5"), "plan \"plan.toml\" line +9, in \"serving.requests\": invalid value: floating point \"1.5\", expected items from 1 to 10000000"),
        (run.replace("requests = 4", "idle_s = nan"), "plan \"plan.toml\" line +9, in \"serving.idle_s\": invalid value: floating point \"NaN\", expected seconds from 0.001 to 1000000"),
        (run.replace("\"tiny\"", "\"tinny\""), "plan \"plan.toml\" line +3, in \"serving.model\": \"tinny\" is not in [models]; expected \"tiny\""),
        (run.replace("\"tiny\"", "[]"), "plan \"plan.toml\" line +3, in \"serving.model\": invalid length 0, expected a value or a list of at least one"),
        (run.replace("id = \"run\"", "id = \"../run\""), "plan \"plan.toml\" line +2, in \"serving.id\": invalid value: string \"../run\", expected 1 to 100 letters, digits, dots, hyphens or underscores, a letter or digit first"),
        (run.replace("concurrency = 2\n", ""), "plan \"plan.toml\" line +1, in \"serving\": arrivals are not given; expected one of \"concurrency\" and \"request_rate\", here or in the workload"),
        (run.replace("requests = 4", "request_rate = 3\nseconds = 2"), "plan \"plan.toml\" line +1, in \"serving\": both \"concurrency\" and \"request_rate\" are given; expected one of them"),
        (run.replace("requests = 4", ""), "plan \"plan.toml\" line +1, in \"serving\": neither \"requests\" nor \"seconds\" is given; expected one or both"),
        (run.replace("requests = 4", "requests = 4\nfailures = { error_percent = 60, cancelled_percent = 50 }"), "plan \"plan.toml\" line +1, in \"serving\": the shares of failures are 110 percent together; expected at most 100"),
        (run.replace("requests = 4", "requests = 4\nspec = \"chat\""), "plan \"plan.toml\" line +10, in \"serving.spec\": \"chat\" is not in [specs]; expected a text in [specs], which the plan lacks"),
        (run.replace("requests = 4", "requests = 4\naccuracy = { suite = \"s\", items = 5, seeds = [1], right = [6] }"), "plan \"plan.toml\" line +1, in \"serving\": accuracy.right is 6 of 5 items; expected at most all of them"),
        (run.replace("requests = 4", "requests = 4\naccuracy = { suite = \"s\", items = 5, seeds = [1, 2], right = [4] }"), "plan \"plan.toml\" line +1, in \"serving\": accuracy has 2 seeds and 1 numbers of right items; expected as many of one as of the other, at least one"),
        ("[specs]\nchat = \"slo: 1\"\n".to_owned() + &run, "plan \"plan.toml\" line +2, in \"specs.chat\": the text is not a valid spec: line 1, field \"hardware\": found nothing; expected a section with its fields"),
        (run.replace("requests = 4", "requests = 4\ngaps = [{ sensor = \"bmc\", stage = \"formal\", after_s = 1, seconds = 1 }]"), "plan \"plan.toml\" line +1, in \"serving.gaps.sensor\": \"bmc\" is not one of the run's sensors; expected \"board\""),
        (format!("{run}{run}"), "plan \"plan.toml\" line +10, in \"serving\": two runs have the id \"run\"; expected every id once"),
        (run.replace("requests = 4", "requests = 4\nrepeat = 100_001"), "plan \"plan.toml\" line +10, in \"serving.repeat\": invalid value: integer \"100001\", expected repeats from 1 to 100000"),
        (run.replace("requests = 4", "requests = 4\nrepeat = 100_000\nmodel2 = 1").replace("model2 = 1", "").replace("concurrency = 2", "concurrency = [1, 2]"), "plan \"plan.toml\" line +1, in \"serving\": the entry has more runs than 100000; expected fewer"),
        ("[workloads.w]\ntask = \"x\"\ninput_tokens = { min = 5, max = 4 }\n".to_owned(), "plan \"plan.toml\" line +3, in \"workloads.w.input_tokens\": min is 5 and max is 4; expected min to be at most max"),
        ("[sensors.s]\nscope = \"gpu\"\n".to_owned(), "plan \"plan.toml\" line +2, in \"sensors.s.scope\": unknown variant \"gpu\", expected one of \"gpu-board\""),
        ("[sensors.s]\n".to_owned(), "plan \"plan.toml\" line +1, in \"sensors.s\": missing key \"interval_ms\""),
        (String::new(), "plan \"plan.toml\": the plan has no run; expected at least one [[serving]] or [[decode]] entry"),
        ("[[serving]\n".to_owned(), "plan \"plan.toml\" line +1: "),
    ];
    for (runs, expected) in cases {
        let found = message(&runs);
        assert!(found.starts_with(expected), "\n   found {found}\nexpected {expected}");
    }
}

#[test]
fn messages_about_decode_cells_name_their_line() {
    let decode = |cells: &str| {
        message(&format!(
            "[[decode]]\nid = \"d\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"e\"\nsensors = \"board\"\n\
             energy = {{ c_j_per_token = 0, alpha_j_per_gb = 0.2, beta_j_per_gb = 0.3, p_tau_w = 100 }}\n\
             [[decode.cells]]\nsplit = \"fit\"\n{cells}\n"
        ))
    };
    assert_eq!(
        decode("batch = 4"),
        "plan \"plan.toml\" line +8, in \"decode.cells\": expected either \"cohort\" or all of \"batch\", \"history\" and \"steps\""
    );
    assert_eq!(
        decode("cohort = [{ requests = 1, tokens = 1, history = 1 }]"),
        "plan \"plan.toml\" line +8, in \"decode.cells\": a cohort has no \"name\"; expected one"
    );
    assert_eq!(
        decode("name = \"c\"\ncohort = []"),
        "plan \"plan.toml\" line +8, in \"decode.cells\": \"cohort\" has 0 requests; expected 1 to 100000"
    );
}

#[test]
fn a_run_that_leads_nowhere_says_why() {
    let fail = |runs: &str| {
        let folder = tempfile::tempdir().unwrap();
        let plan = parse(&format!("{PARTS}\n{runs}")).unwrap();
        let error = simulate(&plan, folder.path(), None, &|_| ()).unwrap_err();
        assert_eq!(bytes_below(folder.path()).len(), 0, "nothing is left of the run");
        error.to_string()
    };
    assert_eq!(
        fail(&serving("request_rate = 0.01\nrequests = 10_000_000")),
        "run \"run\": the run lasts longer than 30 days; expected less"
    );
    let slow = "[engines.slow]\nstep_overhead_ms = 1_000_000\n\
        [[decode]]\nid = \"d\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"slow\"\nsensors = \"board\"\n\
        energy = { c_j_per_token = 0, alpha_j_per_gb = 1, beta_j_per_gb = 1, p_tau_w = 1 }\n\
        [[decode.cells]]\nsplit = \"fit\"\nbatch = 1\nhistory = 1\nsteps = 10_000_000\ncell_delay_percent = 10_000\n";
    assert_eq!(fail(slow), "run \"d-b1-h1\": the run lasts longer than 30 days; expected less");
    let dense = serving("concurrency = 1\nrequests = 1\nidle_s = 1_000_000")
        .replace("sensors = \"board\"", "sensors = \"dense\"");
    // Two boards, a little over 1e6 s of a sample every millisecond.
    let message = fail(&format!("[sensors.dense]\ninterval_ms = 1\n{dense}"));
    assert!(
        message.starts_with("run \"run\": sensor \"dense\" would have 2000")
            && message.ends_with(" rows; expected at most 200000000 (sample less often)"),
        "{message}"
    );
    let negative = "[[decode]]\nid = \"d\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"e\"\nsensors = \"board\"\n\
        energy = { c_j_per_token = -5, alpha_j_per_gb = 0, beta_j_per_gb = 0, p_tau_w = 0 }\n\
        [[decode.cells]]\nsplit = \"fit\"\nbatch = 1\nhistory = 1\nsteps = 1\n";
    assert_eq!(
        fail(negative),
        "run \"d-b1-h1\": the energy of a token is -5 J; expected a positive value (less noise, or larger coefficients)"
    );
}

#[test]
fn a_missing_plan_says_which() {
    let error = Plan::read(Path::new("no-such.plan.toml")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read plan \"no-such.plan.toml\"");
}

// Any plan ---------------------------------------------------------------------------------------

prop_compose! {
    fn any_arrival()(closed in any::<bool>(), concurrency in 1_u32..20, rate in 1.0_f64..200.0) -> String {
        if closed { format!("concurrency = {concurrency}") } else { format!("request_rate = {rate:.2}") }
    }
}

prop_compose! {
    fn any_sensor()(
        average in any::<bool>(),
        interval_ms in 5_u32..400,
        jitter_ms in 0_u32..500,
        lost in 0_u32..100,
        noise_w in 0.0_f64..200.0,
        resolution_w in prop_oneof![Just(0.0), Just(1e-300), 0.001_f64..50.0],
        refresh_ms in prop_oneof![Just(0.0), 0.1_f64..500.0],
        wrap_j in prop_oneof![Just(None), (50_u32..5000).prop_map(Some)],
        offset_ms in -5000_i32..5000,
    ) -> String {
        let reading = if average { "average" } else { "instant" };
        let wrap = wrap_j.map(|wrap| format!(", wrap_j = {wrap}")).unwrap_or_default();
        format!(
            "[sensors.any]\nreading = \"{reading}\"\ninterval_ms = {interval_ms}\njitter_ms = {jitter_ms}\n\
             lost_percent = {lost}\nnoise_w = {noise_w:?}\nresolution_w = {resolution_w:?}\n\
             counter = {{ refresh_ms = {refresh_ms:?}{wrap} }}\nclock_offset_ms = {offset_ms}\n"
        )
    }
}

prop_compose! {
    fn any_serving()(
        arrival in any_arrival(),
        requests in 1_u32..60,
        warmup in 0_u32..6,
        input in 1_u32..3000,
        output in 1_u32..40,
        max_batch in 1_u32..12,
        prefill_chunk in 1_u32..600,
        percents in (0_u32..34, 0_u32..34, 0_u32..33),
        power in 0_u32..300,
        release in (0_u32..5, 0_u32..5, 0_u32..60, 0_u32..30),
        chunk in 1_u32..6,
        gap_s in 1_u32..20,
        steps in any::<bool>(),
    ) -> String {
        let (error, timeout, cancelled) = percents;
        let (exit_s, memory_s, monitor_s, residual_w) = release;
        format!(
            "[engines.any]\nmax_batch = {max_batch}\nprefill_chunk_tokens = {prefill_chunk}\ncompile_s = 1\n\
             step_jitter_percent = 30\n\
             [workloads.any]\ntask = \"any\"\ninput_tokens = {{ min = 1, max = {input} }}\n\
             output_tokens = {{ min = 1, max = {output}, median = {output}, sigma = 1 }}\n{arrival}\n\
             [[serving]]\nid = \"any\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"any\"\nworkload = \"any\"\n\
             sensors = \"any\"\nrequests = {requests}\nidle_s = 3\nsteps = {steps}\ntokens_per_chunk = {chunk}\n\
             warmup = {{ requests = {warmup}, concurrency = 3 }}\n\
             failures = {{ error_percent = {error}, timeout_percent = {timeout}, timeout_s = 1, cancelled_percent = {cancelled} }}\n\
             transient = {{ power_percent = {power}, step_time_percent = {power}, time_constant_s = 1 }}\n\
             release = {{ exit_s = {exit_s}, memory_s = {memory_s}, monitor_s = {monitor_s}, residual_w = {residual_w} }}\n\
             gaps = [{{ stage = \"startup\", after_s = 0, seconds = {gap_s} }}]\n"
        )
    }
}

prop_compose! {
    fn any_decode()(
        groups in prop::collection::vec((1_u32..20, 1_u32..60, 1_u32..9000), 1..4),
        c in 0.0_f64..0.1,
        p_tau in 1.0_f64..300.0,
        delay in 0_u32..400,
        limit in 1_u32..9000,
        noise in 0_u32..5,
    ) -> String {
        let cohort: Vec<String> = groups
            .iter()
            .map(|(requests, tokens, history)| format!("{{ requests = {requests}, tokens = {tokens}, history = {history} }}"))
            .collect();
        format!(
            "[engines.graphs]\ngraph_limit_tokens = {limit}\neager_extra_ms = 3\n\
             [[decode]]\nid = \"any-decode\"\nmodel = \"tiny\"\nhardware = \"pair\"\nengine = \"graphs\"\nsensors = \"any\"\n\
             energy = {{ c_j_per_token = {c:?}, alpha_j_per_gb = 0.2, beta_j_per_gb = 0.3, p_tau_w = {p_tau:?} }}\n\
             noise = {{ run_percent = {noise}, cell_percent = {noise} }}\n\
             [[decode.cells]]\nsplit = \"heldout\"\nname = \"c\"\ncohort = [{}]\nrepeat = 2\ncell_delay_percent = {delay}\n",
            cohort.join(", ")
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_plan_gives_rows_that_keep_the_contract(
        sensor in any_sensor(),
        serving in any_serving(),
        decode in any_decode(),
        seed in 0_u64..1000,
    ) {
        let text = format!("{PARTS}\n{sensor}{serving}{decode}").replace("seed = 11", &format!("seed = {seed}"));
        let plan = parse(&text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        simulate(&plan, folder.path(), None, &|_| ()).unwrap();
        for location in find_runs(folder.path()).unwrap() {
            let loaded = read_run(&location, ReadOptions::default()).unwrap();
            let run = loaded.run;
            prop_assert!(run.manifest.synthetic);
            if run.manifest.kind == RunKind::Serving {
                assert_requests_are_consistent(&run);
            }
            for device in &run.power {
                prop_assert_eq!(device.invalid_samples + device.duplicate_times, 0);
            }
            let checked = check_run(&location);
            let errors: Vec<&Finding> = checked
                .checks
                .iter()
                .flat_map(|result| &result.findings)
                .filter(|finding| finding.severity == Severity::Error)
                .collect();
            prop_assert!(errors.is_empty(), "{errors:?}\n{text}");
        }
    }
}
