//! The page of a results folder, in a real browser.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{analyzed, python_with, sample_archive, wattrace};

fn report(folder: &Path, name: &str) -> PathBuf {
    let results = folder.join("results");
    if !results.exists() {
        analyzed(&sample_archive(), &results, &[]);
    }
    let page = folder.join(name);
    let ended = wattrace(["report", results.to_str().unwrap(), "--out", page.to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{ended:?}");
    page
}

#[test]
fn the_page_stands_alone_and_is_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = std::fs::read_to_string(report(folder.path(), "first.html")).unwrap();
    let second = std::fs::read_to_string(report(folder.path(), "second.html")).unwrap();
    assert_eq!(first, second);
    for loading in [" src=", "<link rel=\"stylesheet", "@import", "url(http", "fetch(", "import("] {
        assert!(!first.contains(loading), "{loading}");
    }
    assert!(first.contains("synthetic: simulated, not measured"));
    assert!(first.contains("<svg"));
    for part in ["metric_definitions_version", "archive_sha256", "wattrace analyze"] {
        assert!(first.contains(part), "{part}");
    }
}

#[test]
fn the_page_works_in_a_browser() {
    let browser = ["/usr/bin/chromium", "/usr/bin/chromedriver"];
    if !browser.iter().all(|program| Path::new(program).exists()) {
        println!(
            "skipped: no chromium with chromedriver; Debian: apt-get install chromium chromium-driver"
        );
        return;
    }
    let Some(python) = python_with("selenium") else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path(), "report.html");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peer/browse_report.py");
    let output = Command::new(python).arg(script).arg(page).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["errors"], serde_json::json!([]), "{seen:#}");
    assert_eq!(seen["requests"], serde_json::json!([]), "{seen:#}");
    assert!(seen["figures"].as_u64().unwrap() > 0);

    // Numbers in order, missing ones at the end whichever way.
    let numbers = |order: &str| -> Vec<Option<f64>> {
        let cells = seen[order].as_array().unwrap();
        cells.iter().map(|cell| cell.as_str().map(|text| text.parse().unwrap())).collect()
    };
    let (up, down) = (numbers("ascending"), numbers("descending"));
    let present = up.iter().flatten().count();
    assert!(present > 1, "{up:?}");
    assert!(up[..present].is_sorted() && up[present..].iter().all(Option::is_none), "{up:?}");
    let mut expected: Vec<Option<f64>> = up[..present].iter().rev().copied().collect();
    expected.resize(up.len(), None);
    assert_eq!(down, expected);

    assert_eq!(seen["found"], 1, "{seen:#}");
    assert!(seen["said"].as_str().unwrap().starts_with("1 of "), "{seen:#}");
    assert_eq!(seen["explanation_shown"], true);
    let explanation = seen["explanation"].as_str().unwrap();
    assert!(explanation.starts_with("formal_energy_j of run"), "{explanation}");
    assert_eq!(seen["tools_printed"], false);
    assert_eq!(seen["printed"], true);
}
