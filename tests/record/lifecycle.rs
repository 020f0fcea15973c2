//! `run`: the whole life of a service.

use std::fs;

use rustix::process::Signal;

use crate::support::{Place, is_about_lateness, signal, wait_until};

/// A board that is always at 100 W, so that it is at its idle power as soon as anybody looks.
const CALM: &str = "t,device,power_w,energy_j\n0,gpu0,100,0\n0,gpu1,101,0\n";

/// A service that says when it is ready and ends in order when it is asked to.
const SERVICE: &str = "trap 'echo bye; exit 9' TERM; echo starting; sleep 0.2; echo 'startup complete'; \
                       while :; do sleep 0.05; done";

fn place() -> Place {
    let place = Place::new();
    place.write("boards.csv", CALM);
    place
}

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = [
        "run",
        "--out",
        "{}/archive/run",
        "--power",
        "replay={}/boards.csv",
        "--keep-free",
        "0",
        "--flush",
        "0.2",
        "--idle",
        "0.5",
        "--release-hold",
        "0.3",
        "--release-wait",
        "60",
        "--shutdown-wait",
        "20",
    ];
    words.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn what_is_started_does_not_see_log_ins_for_power_sources() {
    let place = place();
    let mut command = place.record(&run(&["--", "env"]));
    command.env("WATTRACE_REDFISH_PASSWORD", "calvin").env("SEEN", "by all");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let log = fs::read_to_string(place.path("archive/run/logs/command.log")).unwrap();
    assert!(log.contains("SEEN=by all") && !log.contains("WATTRACE_REDFISH"), "{log}");
}

#[test]
fn every_stage_is_stamped_in_order() {
    let place = place();
    let warmup = "echo warm >> {}/requests.log";
    let formal = "echo formal >> {}/requests.log; sleep 0.6";
    let output = place.output(&run(&[
        "--ready-log",
        "startup complete",
        "--warmup",
        warmup,
        "--formal",
        formal,
        "--",
        "sh",
        "-c",
        SERVICE,
    ]));
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    // Eight warm-up requests, then the formal ones.
    let requests = fs::read_to_string(place.path("requests.log")).unwrap();
    assert_eq!(requests, format!("{}formal\n", "warm\n".repeat(8)));
    let run = place.run("run");
    let stamps = run.manifest.stages.in_order();
    let missing: Vec<_> =
        stamps.iter().filter(|(_, time)| time.is_none()).map(|(name, _)| *name).collect();
    // Replayed boards do not say how much memory they use, and this is no decode run.
    assert_eq!(missing, ["decode_start", "decode_end", "memory_released"]);
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
    let log = fs::read_to_string(place.path("archive/run/logs/command.log")).unwrap();
    // Some shells also say that the sleep was ended.
    let log: Vec<_> = log.lines().filter(|line| *line != "Terminated").collect();
    assert_eq!(log, ["starting", "startup complete", "bye"]);
    let seconds = |from: Option<wattrace_schema::TimestampNs>,
                   to: Option<wattrace_schema::TimestampNs>| {
        (to.unwrap().nanos() - from.unwrap().nanos()) as f64 / 1e9
    };
    let stages = run.manifest.stages;
    assert!(seconds(stages.idle_start, stages.idle_end) >= 0.5);
    assert!(seconds(stages.launch, stages.ready) >= 0.2);
    assert!(seconds(stages.formal_start, stages.formal_end) >= 0.6);
    assert!(seconds(stages.process_exit, stages.monitor_end) >= 0.3);
}

#[test]
fn the_exit_code_of_a_command_that_ends_by_itself_is_passed_on() {
    let place = place();
    let output = place.output(&run(&["--", "sh", "-c", "sleep 0.4; exit 7"]));
    assert_eq!(output.status.code(), Some(7), "{}", place.stderr(&output));
    let stages = place.run("run").manifest.stages;
    assert!(stages.formal_start < stages.formal_end && stages.formal_end <= stages.process_exit);
    assert!(stages.monitor_end.is_some());
}

#[test]
fn failed_formal_requests_are_said_and_the_run_is_written() {
    let place = place();
    let output = place.output(&run(&["--formal", "exit 5", "--", "sh", "-c", SERVICE]));
    assert_eq!(output.status.code(), Some(5), "{}", place.stderr(&output));
    assert!(place.stderr(&output).contains("warning: the formal requests failed: exit code 5"));
    let notes = place.run("run").manifest.provenance.notes;
    assert!(notes.contains(&"the formal requests failed: exit code 5".to_owned()), "{notes:?}");
}

#[test]
fn a_command_that_ends_before_it_is_ready_is_said() {
    let place = place();
    let output = place.output(&run(&["--ready-log", "never", "--", "sh", "-c", "exit 3"]));
    assert_eq!(output.status.code(), Some(3), "{}", place.stderr(&output));
    assert!(place.stderr(&output).contains("COMMAND ended before its time: exit code 3"));
    let stages = place.run("run").manifest.stages;
    assert!(stages.launch.is_some() && stages.ready.is_none() && stages.process_exit.is_some());
}

#[test]
fn a_command_that_is_not_there_is_said() {
    let place = place();
    let output = place.output(&run(&["--", "no-such-program"]));
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    assert!(
        place.stderr(&output).contains("cannot start COMMAND: \"no-such-program\": No such file")
    );
}

#[test]
fn a_signal_finishes_the_run_and_the_service() {
    for signal_of_user in [Signal::INT, Signal::TERM] {
        let place = place();
        let service = format!("echo $$ > {{}}/pid; {SERVICE}");
        let words = run(&["--formal-seconds", "1000", "--", "sh", "-c", &service]);
        let child = place.record(&words).spawn().unwrap();
        let journal = place.path("archive/run.partial/journal.jsonl");
        wait_until("the formal window began", || {
            fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"formal_start\""))
        });
        wait_until("the service said who it is", || {
            fs::read_to_string(place.path("pid")).is_ok_and(|text| text.ends_with('\n'))
        });
        signal(&child, signal_of_user);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", place.stderr(&output));
        let stages = place.run("run").manifest.stages;
        assert!(stages.formal_end.is_some() && stages.process_exit.is_some());
        let broken = place.broken_rules();
        assert!(broken.iter().all(is_about_lateness), "{broken:?}");
        let pid: i32 = fs::read_to_string(place.path("pid")).unwrap().trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err(), "the service still runs");
    }
}
