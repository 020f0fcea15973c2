//! What the program does to files, and what it does not.

use std::fs;
use std::process::Command;

use crate::support::{Place, is_about_lateness, wait_until};

/// Two boards and a node for as long as one likes.
const POWER: &str = "t,device,power_w,energy_j\n0,gpu0,300,0\n0,gpu1,310,0\n";
const NODE: &str = "t,device,power_w\n0,node,1200\n";

fn place() -> Place {
    let place = Place::new();
    place.write("boards.csv", POWER);
    place.write("node.csv", NODE);
    place
}

const ATTACH: [&str; 12] = [
    "attach",
    "--power",
    "replay={}/boards.csv",
    "--power",
    "replay={}/node.csv",
    "--interval",
    "replay-2=100",
    "--keep-free",
    "0",
    "--flush",
    "0.2",
    "--out",
];

fn attach<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ATTACH.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn a_device_without_any_value_is_said_and_loses_nothing_else() {
    let place = place();
    place.write("boards.csv", "t,device,power_w\n0,gpu0,300\n0,gpu1,\n");
    let output = place.output(&attach(&["{}/archive/run", "--seconds", "0.5"]));
    let said = place.stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let loss = "replay gpu1 gave neither power nor energy in the whole recording; \
                recorder_cost.failures says why";
    assert_eq!(said.matches("gave neither").count(), 1, "{said}");
    assert!(said.contains(&format!("warning: {loss}\n")), "{said}");
    assert!(said.contains("warning: replay gpu1: the file has no value at this time ("), "{said}");
    let run = place.run("run");
    assert!(run.manifest.provenance.notes.iter().any(|note| note == loss));
    let board = crate::support::device(&run, "replay", "gpu0");
    assert!(board.power_w.len() >= 2);
}

#[test]
fn a_run_is_whole_and_says_what_it_cost() {
    let place = place();
    place.write(
        "about.json",
        r#"{"model": {"name": "qwen"}, "configuration": "production", "engine": {"name": "vllm"}}"#,
    );
    let words =
        attach(&["{}/archive/run", "--seconds", "1", "--describe", "{}/about.json", "--json"]);
    let output = place.output(&words);
    assert!(output.status.success(), "{}", place.stderr(&output));
    let names: Vec<_> = fs::read_dir(place.archive())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["run"]);
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");

    let run = place.run("run");
    let manifest = &run.manifest;
    assert!(manifest.synthetic, "nothing was measured");
    assert_eq!((manifest.model.name.as_str(), manifest.hardware.count), ("qwen", 2));
    assert_eq!(manifest.engine.name.as_deref(), Some("vllm"));
    assert_eq!(run.power.len(), 3);
    for device in &run.power {
        // Every time but the last is one of the recorder's ticks, so the count is at most 1 s / 100 ms
        // and the samples at both ends, plus those that the first reading waited for.
        assert!((2..=80).contains(&device.power_w.len()), "{}", device.power_w.len());
        let stages = manifest.stages;
        let (first, last) = (device.power_w.t_ns[0], *device.power_w.t_ns.last().unwrap());
        assert!(first <= stages.formal_start.unwrap().nanos(), "a sample before the window");
        assert!(last >= stages.formal_end.unwrap().nanos(), "and one after it");
    }
    let cost = manifest.recorder_cost.as_ref().unwrap();
    for key in ["cpu_s", "peak_resident_bytes", "bytes_written", "p99_lateness_ms", "ticks"] {
        assert!(cost[key].as_f64().unwrap() > 0.0, "{key} of {cost}");
    }
    assert!(cost["missed_ticks"].is_u64() && cost["clock"]["pairs"].as_u64().unwrap() > 2);
}

#[test]
fn an_existing_run_is_refused_and_stays_as_it_is() {
    let place = place();
    fs::create_dir_all(place.path("archive/run")).unwrap();
    fs::write(place.path("archive/run/run.json"), "{}").unwrap();
    let output = place.output(&attach(&["{}/archive/run"]));
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(place.stderr(&output), @r#"error: "{}/archive/run" exists already; a run is never overwritten, so choose another run id"#);
    assert_eq!(fs::read_to_string(place.path("archive/run/run.json")).unwrap(), "{}");
    assert!(!place.path("archive/run.partial").exists());
}

#[test]
fn an_unfinished_run_is_refused_too_and_so_is_one_that_is_being_written() {
    let place = place();
    let child = place.record(&attach(&["{}/archive/run"])).spawn().unwrap();
    wait_until("the recording began", || place.path("archive/run.partial/journal.jsonl").exists());
    let output = place.output(&attach(&["{}/archive/run"]));
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(place.stderr(&output), @r#"error: "{}/archive/run.partial" exists already: a recorder is writing it, or was cut off; finish it with wattrace-record convert, or choose another name"#);
    let output = place.output(&["convert", "{}/archive/run.partial"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(place.stderr(&output), @r#"error: "{}/archive/run.partial" is being written by another recorder; stop that first"#);
    crate::support::signal(&child, rustix::process::Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", place.stderr(&output));
    assert!(place.path("archive/run/run.json").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_said_before_anything_else() {
    let place = place();
    // A file in the way of the archive's folder: not even root can write below it.
    place.write("archive", "");
    let output = place.output(&attach(&["{}/archive/run"]));
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(place.stderr(&output), @r#"error: cannot create folder "{}/archive": File exists (os error 17)"#);
}

#[test]
fn too_little_space_is_said_before_anything_else() {
    let place = place();
    let words = attach(&["{}/archive/run", "--keep-free", "1000000000000"]);
    let words: Vec<_> = words
        .iter()
        .enumerate()
        // The first --keep-free and its value.
        .filter(|(at, _)| !(7..9).contains(at))
        .map(|(_, word)| *word)
        .collect();
    let output = place.output(&words);
    assert_eq!(output.status.code(), Some(2));
    let message = place.stderr(&output);
    assert!(message.ends_with("expected at least 1000000000000 MiB (--keep-free)\n"), "{message}");
    assert!(!place.path("archive/run.partial").exists());
}

#[test]
fn when_a_file_can_no_longer_be_written_it_stops_and_what_was_written_can_be_finished() {
    let place = place();
    // No file may grow beyond 32 blocks of 512 bytes. The journal gets there after some flushes.
    let program = env!("CARGO_BIN_EXE_wattrace-record");
    let words = attach(&["{}/archive/run"]);
    let root = place.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 32; exec \"$@\"", "sh", program])
        .args(words.iter().map(|word| word.replace("{}", root)))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", place.stderr(&output));
    let message = place.stderr(&output);
    assert!(
        message.contains(
            "error: cannot write the journal of \"{}/archive/run.partial\": File too large"
        ),
        "{message}"
    );
    assert!(!place.path("archive/run").exists());

    let output = place.output(&["convert", "{}/archive/run"]);
    assert_eq!(output.status.code(), Some(0), "{}", place.stderr(&output));
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
    let run = place.run("run");
    assert!(run.power.iter().all(|device| device.power_w.len() >= 2));
    assert!(run.manifest.provenance.notes.iter().any(|note| note.contains("cut off")));
}

#[test]
fn a_segment_that_was_damaged_is_left_out_and_said() {
    let place = place();
    let mut child = place.record(&attach(&["{}/archive/run"])).spawn().unwrap();
    let segment =
        |number: u32| place.path(&format!("archive/run.partial/power-{number:08}.parquet"));
    wait_until("four segments lie there", || segment(4).exists());
    crate::support::signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    let mut bytes = fs::read(segment(2)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(segment(2), bytes).unwrap();
    let output = place.output(&["convert", "{}/archive/run"]);
    assert_eq!(output.status.code(), Some(1), "{}", place.stderr(&output));
    let message = place.stderr(&output);
    assert!(message.contains("segment power-00000002.parquet"), "{message}");
    assert!(
        place.run("run").manifest.provenance.notes.iter().any(|n| n.contains("power-00000002"))
    );
}

#[test]
fn there_must_be_something_to_convert() {
    let place = place();
    let output = place.output(&["convert", "{}/archive/run"]);
    assert_eq!(output.status.code(), Some(3));
    insta::assert_snapshot!(place.stderr(&output), @r#"error: "{}/archive/run.partial" holds no recording; expected a folder with a journal.jsonl"#);
}

#[test]
fn a_run_that_is_finished_already_is_said_to_be() {
    let place = place();
    let output = place.output(&attach(&["{}/archive/run", "--seconds", "0.3"]));
    assert!(output.status.success(), "{}", place.stderr(&output));
    for name in ["{}/archive/run", "{}/archive/run.partial"] {
        // What a kill left while the unfinished run was removed goes now.
        let left = place.path("archive/.run.retired");
        fs::create_dir_all(left.join("logs")).unwrap();
        fs::write(left.join("journal.jsonl"), "{}").unwrap();
        let output = place.output(&["convert", name]);
        assert_eq!(output.status.code(), Some(3));
        assert!(!left.exists());
        insta::allow_duplicates! {
            insta::assert_snapshot!(place.stderr(&output), @r#"error: "{}/archive/run" is finished already; there is nothing to convert"#);
        }
    }
}

#[test]
fn no_source_is_read_twice_and_every_interval_is_for_a_source() {
    let place = place();
    let message = |words: &[&str]| {
        let output = place.output(&attach(&[&["{}/archive/run"], words].concat()));
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(!place.archive().exists());
        place.stderr(&output)
    };
    insta::assert_snapshot!(
        [
            message(&["--power", "replay={}/boards.csv"]),
            message(&["--interval", "nvml=50"]),
            message(&["--interval", "replay-3=50"]),
            message(&["--interval", "replay-2=50"]),
        ]
        .concat(),
        @r#"
    error: power source "replay={}/boards.csv" is given twice; expected each source once
    error: --interval names "nvml"; expected one of replay, replay-1, replay-2
    error: --interval names "replay-3"; expected one of replay, replay-1, replay-2
    error: --interval is given twice for "replay-2"; expected one interval for each
    "#
    );
}

#[test]
fn an_interval_is_for_all_sources_of_a_name_or_for_one() {
    let place = place();
    let output =
        place.output(&attach(&["{}/archive/run", "--seconds", "0.3", "--interval", "replay=50"]));
    assert!(output.status.success(), "{}", place.stderr(&output));
    let sources = place.run("run").manifest.power_sources;
    let intervals: Vec<_> =
        sources.iter().map(|source| (source.id.as_str(), source.nominal_interval_ms)).collect();
    // --interval replay-2=100 comes first for the second.
    assert_eq!(intervals, [("replay", 50.0), ("replay-2", 100.0)]);
}

#[test]
fn a_recording_ends_in_order_when_its_terminal_goes_unless_it_was_told_to_stay() {
    // What is started inherits it, and nothing here could undo it.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    if u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 != 0 {
        println!(
            "skipped: SIGHUP is ignored here, as under nohup, so a terminal that goes cannot be tried"
        );
        return;
    }
    let place = place();
    let words = attach(&["{}/archive/run"]);
    let child = place.record(&words).spawn().unwrap();
    wait_until("the first segment", || {
        place.path("archive/run.partial/power-00000001.parquet").exists()
    });
    crate::support::signal(&child, rustix::process::Signal::HUP);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", place.stderr(&output));
    assert!(place.run("run").manifest.stages.formal_end.is_some());

    // As nohup does.
    let root = place.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let words = attach(&["{}/archive/stays"]);
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_wattrace-record")])
        .args(words.iter().map(|word| word.replace("{}", root)))
        .spawn()
        .unwrap();
    let segment =
        |number: u32| place.path(&format!("archive/stays.partial/power-{number:08}.parquet"));
    wait_until("the first segment", || segment(1).exists());
    crate::support::signal(&child, rustix::process::Signal::HUP);
    wait_until("it goes on", || segment(4).exists());
    crate::support::signal(&child, rustix::process::Signal::TERM);
    assert!(child.wait().unwrap().success());
    assert!(place.path("archive/stays/run.json").exists());
}
