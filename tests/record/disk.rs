//! A disk that is full, or that cannot be written: a small file system in memory, mounted where nobody else
//! sees it.

use std::fs;
use std::process::{Command, Output};

use wattrace_trace::segment_entry;

use crate::completion_server::CompletionServer;
use crate::support::{Place, is_about_lateness};

/// Eight boards whose values never repeat, so that the files grow.
fn place() -> Place {
    let place = Place::new();
    let rows = |t: u32| {
        (0..8).map(move |board| format!("{t},gpu{board},{}\n", 300.123 * f64::from(t + board + 1)))
    };
    place.write(
        "boards.csv",
        &std::iter::once("t,device,power_w\n".to_owned())
            .chain(rows(0))
            .chain(rows(1000))
            .collect::<String>(),
    );
    fs::create_dir(place.path("disk")).unwrap();
    fs::create_dir(place.path("saved")).unwrap();
    place
}

/// Runs `script` with file systems of its own, as root over them; `None`, said plainly, where the system
/// gives no such thing. `$record` are options of a recording, `$disk` is the place to mount
/// something, `$saved` a folder that stays.
fn script(place: &Place, script: &str) -> Option<Output> {
    let alone = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-euc", script]);
        command
    };
    let probe = alone("mount -t tmpfs none /tmp").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("skipped: no file system can be mounted here without being root of the machine");
        return None;
    }
    let boards = place.path("boards.csv").display().to_string();
    let record = format!("--power replay={boards} --interval replay=5 --flush 0.2 --out",);
    let output = alone(script)
        .env("program", env!("CARGO_BIN_EXE_wattrace-record"))
        .env("record", record)
        .env("disk", place.path("disk"))
        .env("saved", place.path("saved"))
        .output()
        .unwrap();
    Some(output)
}

/// The run that a script saved, which breaks no rule.
fn saved_run(place: &Place) -> wattrace_schema::Run {
    fs::rename(place.path("saved/archive"), place.archive()).unwrap();
    let broken = place.broken_rules();
    assert!(broken.iter().all(is_about_lateness), "{broken:?}");
    place.run("run")
}

#[test]
fn a_disk_that_fills_up_stops_the_recording_and_what_was_written_can_be_finished() {
    let place = place();
    let Some(output) = script(
        &place,
        // Another program takes all of the disk within one flush interval.
        "mount -t tmpfs -o size=4m none \"$disk\"
         \"$program\" attach --seconds 100 $record \"$disk/archive/run\" --keep-free 0 &
         until test -e \"$disk/archive/run.partial/power-00000005.parquet\"; do sleep 0.05; done
         dd if=/dev/zero of=\"$disk/full\" bs=4k 2>&1 | grep -o 'No space left on device'
         code=0; wait $! || code=$?
         echo \"recorded: $code\"
         test ! -e \"$disk/archive/run\"
         code=0; \"$program\" convert \"$disk/archive/run\" || code=$?
         echo \"converted while the disk is full: $code\"
         rm \"$disk/full\"
         cp -r \"$disk/archive/run.partial\" \"$saved/segments\"
         code=0; \"$program\" convert \"$disk/archive/run\" || code=$?
         echo \"converted: $code\"
         ls -A \"$disk/archive\"
         cp -r \"$disk/archive\" \"$saved/archive\"",
    ) else {
        return;
    };
    let message = place.stderr(&output);
    assert!(output.status.success(), "{message}");
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    No space left on device
    recorded: 2
    converted while the disk is full: 2
    converted: 0
    run
    ");
    assert!(message.contains("No space left on device"), "{message}");

    // The rows are those of the segments that were whole, no more and no less.
    let segments = fs::read_dir(place.path("saved/segments")).unwrap();
    let paths = segments.map(|entry| entry.unwrap().path());
    let rows: u64 = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .map(|path| segment_entry(&path).unwrap().rows)
        .sum();
    assert!(rows > 100, "{rows}");
    assert_eq!(saved_run(&place).manifest.files["power.parquet"].rows, rows);
}

#[test]
fn a_recording_ends_in_order_before_the_space_is_used_up() {
    let place = place();
    let Some(output) = script(
        &place,
        "mount -t tmpfs -o size=1300k none \"$disk\"
         code=0; \"$program\" attach --seconds 100 $record \"$disk/archive/run\" --keep-free 1 || code=$?
         echo \"recorded: $code\"
         ls -A \"$disk/archive\"
         cp -r \"$disk/archive\" \"$saved/archive\"",
    ) else {
        return;
    };
    let message = place.stderr(&output);
    assert!(output.status.success(), "{message}");
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    recorded: 1
    run
    ");
    assert!(message.contains("warning: the recording ended early: "), "{message}");
    assert!(message.contains("KiB (--keep-free, and room to join what was recorded)"), "{message}");
    let notes = saved_run(&place).manifest.provenance.notes;
    assert!(notes.iter().any(|note| note.contains("ended early")), "{notes:?}");
}

#[test]
fn no_further_rate_is_measured_once_a_recording_ended_early() {
    let place = place();
    let server = CompletionServer::start(|_, reply| reply.stream(7, 4));
    let Some(output) = script(
        &place,
        &format!(
            "mount -t tmpfs -o size=1300k none \"$disk\"
             code=0; \"$program\" load $record \"$disk/archive/run\" --keep-free 1 --url {} \
               --synthetic 1 --input-tokens 5 --output-tokens 4 --warmup-count 0 --rates 20,40 \
               --seconds-each 100 || code=$?
             echo \"recorded: $code\"
             ls -A \"$disk/archive\"",
            server.url()
        ),
    ) else {
        return;
    };
    let message = place.stderr(&output);
    assert!(output.status.success(), "{message}");
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    recorded: 1
    run-rate-20
    ");
    assert!(message.contains("warning: 1 further runs were not begun"), "{message}");
}

#[test]
fn on_a_disk_that_is_full_already_nothing_is_left_behind() {
    let place = place();
    let Some(output) = script(
        &place,
        "mount -t tmpfs -o size=64k none \"$disk\"
         dd if=/dev/zero of=\"$disk/full\" bs=4k 2>&1 | grep -o 'No space left on device'
         code=0; \"$program\" attach --seconds 100 $record \"$disk/archive/run\" --keep-free 0 || code=$?
         echo \"recorded: $code\"
         ls -A \"$disk/archive\"",
    ) else {
        return;
    };
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        "No space left on device\nrecorded: 2\n"
    );
    insta::assert_snapshot!(place.stderr(&output), @r#"error: cannot write the journal of "{}/disk/archive/run.partial": No space left on device (os error 28)"#);
}

#[test]
fn a_read_only_disk_is_said_before_anything_else() {
    let place = place();
    let Some(output) = script(
        &place,
        "mount -t tmpfs none \"$disk\"
         mkdir \"$disk/archive\"
         mount -o remount,ro \"$disk\"
         code=0; \"$program\" attach --seconds 100 $record \"$disk/archive/run\" --keep-free 0 || code=$?
         echo \"recorded: $code\"",
    ) else {
        return;
    };
    assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), "recorded: 2\n");
    insta::assert_snapshot!(place.stderr(&output), @r#"error: cannot create folder "{}/disk/archive/.run.partial": Read-only file system (os error 30)"#);
}
