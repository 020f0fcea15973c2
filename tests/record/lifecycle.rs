//! `run`: the whole life of a service.

use std::fs;

use rustix::process::Signal;

use crate::support::{
    Place, is_about_lateness, run_words, signal, wait_for_formal_window, wait_until,
};

/// A service that says when it is ready and ends in order when it is asked to.
const SERVICE: &str = "trap 'echo bye; exit 9' TERM; echo starting; sleep 0.2; echo 'startup complete'; \
                       while :; do sleep 0.05; done";

#[test]
fn what_is_started_does_not_see_log_ins_for_power_sources() {
    let place = Place::with_calm_boards();
    let service = format!("env > {{}}/service; {SERVICE}");
    let mut command = place.record(&run_words(&[
        "--ready-command",
        "env > {}/probe",
        "--warmup",
        "env > {}/warmup",
        "--formal",
        "env > {}/formal",
        "--",
        "sh",
        "-c",
        &service,
    ]));
    command.env("WATTRACE_REDFISH_PASSWORD", "calvin").env("SEEN", "by all");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    for name in ["service", "probe", "warmup", "formal"] {
        let seen = fs::read_to_string(place.path(name)).unwrap();
        assert!(seen.contains("SEEN=by all"), "{name}: {seen}");
        assert!(!seen.contains("WATTRACE_REDFISH"), "{name}: {seen}");
    }
}

#[test]
fn a_ready_command_that_hangs_is_ended_in_time_and_by_a_signal() {
    let hanging = "echo $$ > {}/probe; sleep 1000; exit 1";
    let words = |wait: &'static str| {
        run_words(&["--ready-wait", wait, "--ready-command", hanging, "--", "sh", "-c", SERVICE])
    };
    let is_gone = |place: &Place| {
        let probe = fs::read_to_string(place.path("probe")).unwrap();
        let probe = rustix::process::Pid::from_raw(probe.trim().parse().unwrap()).unwrap();
        rustix::process::test_kill_process(probe).is_err()
    };
    let place_of_limit = Place::with_calm_boards();
    let output = place_of_limit.output(&words("3"));
    let said = place_of_limit.stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("warning: COMMAND was not ready after 3 s"), "{said}");
    assert!(is_gone(&place_of_limit));

    let place_of_signal = Place::with_calm_boards();
    let child = place_of_signal.record(&words("1000")).spawn().unwrap();
    wait_until("the probe said who it is", || {
        let probe = fs::read_to_string(place_of_signal.path("probe"));
        probe.is_ok_and(|text| text.ends_with('\n'))
    });
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", place_of_signal.stderr(&output));
    assert!(is_gone(&place_of_signal));
}

#[test]
fn every_stage_is_stamped_in_order() {
    let place = Place::with_calm_boards();
    let warmup = "echo warm >> {}/requests.log";
    let formal = "echo formal >> {}/requests.log; sleep 0.6";
    let output = place.output(&run_words(&[
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
    let place = Place::with_calm_boards();
    let output = place.output(&run_words(&["--", "sh", "-c", "sleep 0.4; exit 7"]));
    assert_eq!(output.status.code(), Some(7), "{}", place.stderr(&output));
    let stages = place.run("run").manifest.stages;
    assert!(stages.formal_start < stages.formal_end && stages.formal_end <= stages.process_exit);
    assert!(stages.monitor_end.is_some());
}

#[test]
fn failed_formal_requests_are_said_and_the_run_is_written() {
    let place = Place::with_calm_boards();
    let output = place.output(&run_words(&["--formal", "exit 5", "--", "sh", "-c", SERVICE]));
    assert_eq!(output.status.code(), Some(5), "{}", place.stderr(&output));
    assert!(place.stderr(&output).contains("warning: the formal requests failed: exit code 5"));
    let notes = place.run("run").manifest.provenance.notes;
    assert!(notes.contains(&"the formal requests failed: exit code 5".to_owned()), "{notes:?}");
}

#[test]
fn a_command_that_ends_before_it_is_ready_is_said() {
    let place = Place::with_calm_boards();
    let output = place.output(&run_words(&["--ready-log", "never", "--", "sh", "-c", "exit 3"]));
    assert_eq!(output.status.code(), Some(3), "{}", place.stderr(&output));
    assert!(place.stderr(&output).contains("COMMAND ended before its time: exit code 3"));
    let stages = place.run("run").manifest.stages;
    assert!(stages.launch.is_some() && stages.ready.is_none() && stages.process_exit.is_some());
}

#[test]
fn a_command_that_is_not_there_is_said() {
    let place = Place::with_calm_boards();
    let output = place.output(&run_words(&["--", "no-such-program"]));
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    assert!(
        place.stderr(&output).contains("cannot start COMMAND: \"no-such-program\": No such file")
    );
}

#[test]
fn a_second_ctrl_c_kills_a_service_that_does_not_end() {
    let place = Place::with_calm_boards();
    let service = "trap 'echo asked > {}/asked' TERM; echo > {}/up; while :; do sleep 0.05; done";
    let words = run_words(&["--formal-seconds", "1000", "--", "sh", "-c", service]);
    let mut child = place.record(&words).spawn().unwrap();
    wait_for_formal_window(&place);
    wait_until("the service would not end", || place.path("up").exists());
    signal(&child, Signal::INT);
    wait_until("the service was asked to end", || place.path("asked").exists());
    // One that comes right after the first is the same request; in the end one counts.
    wait_until("the recorder ended", || {
        signal(&child, Signal::INT);
        child.try_wait().unwrap().is_some()
    });
    let output = child.wait_with_output().unwrap();
    let said = place.stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("Ctrl-C again kills COMMAND"), "{said}");
    let killed = "warning: COMMAND was killed, since Ctrl-C came again while it shut down";
    assert!(said.contains(killed), "{said}");
    let stages = place.run("run").manifest.stages;
    assert!(stages.process_exit.is_some() && stages.monitor_end >= stages.process_exit);
}

/// A service that takes its time to end, and says when it has.
const SLOW_SERVICE: &str = "trap 'echo > {}/asked; sleep 0.7; echo > {}/bye; exit 0' TERM; echo > {}/up; \
                            while :; do sleep 0.05; done";

#[test]
fn signals_that_come_together_are_one_request_to_end() {
    let place = Place::with_calm_boards();
    let words = run_words(&["--formal-seconds", "1000", "--", "sh", "-c", SLOW_SERVICE]);
    let child = place.record(&words).spawn().unwrap();
    wait_for_formal_window(&place);
    wait_until("the service is up", || place.path("up").exists());
    // So does a terminal that is closed, more or less.
    for together in [Signal::HUP, Signal::INT, Signal::TERM, Signal::HUP] {
        signal(&child, together);
    }
    let output = child.wait_with_output().unwrap();
    let said = place.stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(place.path("bye").exists() && !said.contains("killed, since"), "{said}");
    assert!(!said.contains("cut short"), "the release is waited for: {said}");
}

#[test]
fn a_first_signal_lets_a_service_that_is_ending_end() {
    for signal_of_user in [Signal::INT, Signal::TERM] {
        let place = Place::with_calm_boards();
        let words = run_words(&[
            "--ready-command",
            "test -e {}/up",
            "--formal-seconds",
            "0.1",
            "--",
            "sh",
            "-c",
            SLOW_SERVICE,
        ]);
        let child = place.record(&words).spawn().unwrap();
        wait_until("the service was asked to end", || place.path("asked").exists());
        signal(&child, signal_of_user);
        let output = child.wait_with_output().unwrap();
        let said = place.stderr(&output);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(place.path("bye").exists() && !said.contains("killed, since"), "{said}");
    }
}

#[test]
fn a_signal_finishes_the_run_and_the_service() {
    for signal_of_user in [Signal::INT, Signal::TERM] {
        let place = Place::with_calm_boards();
        let service = format!("echo $$ > {{}}/pid; {SERVICE}");
        let words = run_words(&["--formal-seconds", "1000", "--", "sh", "-c", &service]);
        let child = place.record(&words).spawn().unwrap();
        wait_for_formal_window(&place);
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
