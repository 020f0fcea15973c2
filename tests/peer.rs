//! Our numbers beside those of a second implementation: tests/peer/analyze.py, written from the
//! definitions alone with pandas and numpy.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use support::{python_with, read_csv, run, wattrace};

/// Relative difference up to which two correct programs may differ: both add some ten thousand terms.
const TOLERANCE: f64 = 1e-9;

/// What we and the peer say of one metric of one run.
fn compare(archive: &Path) -> usize {
    let Some(python) = python_with("pandas, pyarrow") else { return 0 };
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let ended = wattrace([
        "analyze".as_ref(),
        archive.as_os_str(),
        "--out".as_ref(),
        results.as_os_str(),
        "--per-request".as_ref(),
    ]);
    assert!(matches!(ended.code, 0 | 1), "{ended:?}");
    let peer = folder.path().join("peer.csv");
    let peer_requests = folder.path().join("peer-requests.csv");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/analyze.py");
    let output = Command::new(python)
        .arg(script)
        .arg(archive)
        .arg("--out")
        .arg(&peer)
        .arg("--per-request")
        .arg(&peer_requests)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let ours: BTreeMap<String, BTreeMap<String, String>> = read_csv(&results.join("runs.csv"))
        .into_iter()
        .map(|row| (row["run_id"].clone(), row))
        .collect();
    let mut compared = 0;
    let mut differences = Vec::new();
    for row in read_csv(&peer) {
        let (run_id, metric) = (&row["run_id"], &row["metric"]);
        let Some(value) = ours[run_id].get(metric) else {
            differences.push(format!("{run_id}: we have no column {metric}"));
            continue;
        };
        compared += 1;
        if !same(value, &row["value"]) {
            differences.push(format!(
                "{run_id} {metric}: ours {value:?}, peer {:?} {}",
                row["value"], row["reason"]
            ));
        }
    }
    let requests: BTreeMap<(String, String), BTreeMap<String, String>> =
        read_csv(&results.join("requests.csv"))
            .into_iter()
            .map(|row| ((row["run_id"].clone(), row["request_id"].clone()), row))
            .collect();
    for row in read_csv(&peer_requests) {
        let ours = &requests[&(row["run_id"].clone(), row["request_id"].clone())];
        for column in ["energy_j", "j_per_token", "order", "window_cv"] {
            compared += 1;
            if !same(&ours[column], &row[column]) {
                differences.push(format!(
                    "{} {} {column}: ours {:?}, peer {:?}",
                    row["run_id"], row["request_id"], ours[column], row[column]
                ));
            }
        }
    }
    let shown: Vec<_> = differences.iter().take(40).cloned().collect();
    assert!(
        differences.is_empty(),
        "{} of {compared} differ:\n{}",
        differences.len(),
        shown.join("\n")
    );
    println!("{compared} values compared with the peer");
    compared
}

/// Whether two cells say the same: both empty, equal text, equal times, or numbers within tolerance.
fn same(ours: &str, peer: &str) -> bool {
    if ours == peer {
        return true;
    }
    if let Ok(time) = wattrace_schema::TimestampNs::parse(ours) {
        return time.nanos().to_string() == peer;
    }
    let number = |text: &str| text.parse::<f64>().ok();
    match (number(ours), number(peer)) {
        (Some(ours), Some(peer)) => {
            (ours - peer).abs() <= TOLERANCE * ours.abs().max(peer.abs()).max(1e-9)
        }
        _ => false,
    }
}

#[test]
fn the_peer_agrees_on_a_small_run() {
    let folder = tempfile::tempdir().unwrap();
    run("sound").write(folder.path());
    compare(folder.path());
}

#[test]
fn the_peer_agrees_on_the_sample_archive() {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-data/archive"));
}
