//! Fits and predictions through the program, over an archive and over its results.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::ffi::OsStr;
use std::path::Path;

use support::{Ended, analyzed, sample_archive, wattrace};

fn over(command: &str, input: &Path, more: &[&str]) -> Ended {
    let words: Vec<&OsStr> = vec![command.as_ref(), input.as_os_str()];
    wattrace(words.into_iter().chain(more.iter().map(AsRef::<OsStr>::as_ref)))
}

#[test]
fn an_archive_and_its_results_are_fitted_alike() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    // What the results were made with does not matter: their runs are fitted anew.
    analyzed(&sample_archive(), &results, &["--bootstrap", "0"]);
    let of_archive = over("fit", &sample_archive(), &["--json", "--bootstrap", "200"]);
    let of_results = over("fit", &results, &["--json", "--bootstrap", "200"]);
    assert_eq!((of_archive.code, of_results.code), (0, 0), "{}", of_results.stderr);
    assert!(of_archive.stdout == of_results.stdout, "{}", of_results.stdout);
    let tables: serde_json::Value = serde_json::from_str(&of_results.stdout).unwrap();
    assert_eq!(tables["fits"].as_array().unwrap().len(), 2 * 7, "forms of two settings");
    for table in ["heldout", "step_breaks", "batch_effects", "block_effects"] {
        assert!(!tables[table].as_array().unwrap().is_empty(), "{table}");
    }

    let setting = tables["fits"][0]["setting"].as_str().unwrap();
    let cell = ["--setting", setting, "--batch", "12", "--history", "4096"];
    let [of_archive, of_results] =
        [&sample_archive(), &results].map(|input| over("predict", input, &cell));
    assert_eq!((of_archive.code, of_results.code), (0, 0), "{}", of_results.stderr);
    assert!(
        of_results.stdout.contains("J/token, 95% prediction interval"),
        "{}",
        of_results.stdout
    );
    assert_eq!(of_archive.stdout, of_results.stdout);
    // The model holds from no history on, and says how far that is from what was measured.
    let none = ["--setting", setting, "--batch", "12", "--history", "0", "--force"];
    let ended = over("predict", &results, &none);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("extrapolated: "), "{}", ended.stdout);
    let negative =
        over("predict", &results, &["--setting", setting, "--batch", "12", "--history=-1"]);
    assert_eq!(negative.code, 2, "{negative:?}");
    assert!(negative.stderr.contains("expected a number, zero or more"), "{}", negative.stderr);
}

#[test]
fn a_run_that_could_not_be_read_is_said_over_results_too() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, results) = (folder.path().join("archive"), folder.path().join("results"));
    for run in std::fs::read_dir(sample_archive().join("decode")).unwrap() {
        let run = run.unwrap();
        let copy = archive.join(run.file_name());
        std::fs::create_dir_all(&copy).unwrap();
        for file in std::fs::read_dir(run.path()).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
            }
        }
    }
    std::fs::write(archive.join("7b-b4-h4096-1/power.parquet"), "not what it was").unwrap();
    let words = ["analyze".as_ref(), archive.as_os_str(), "--out".as_ref(), results.as_os_str()];
    assert_eq!(wattrace(words).code, 1);
    let [of_archive, of_results] =
        [&archive, &results].map(|input| over("fit", input, &["--json"]));
    assert!(of_archive.stderr.contains("run \"7b-b4-h4096-1\": "), "{}", of_archive.stderr);
    assert_eq!(of_results.stderr, of_archive.stderr);
    assert!(of_results.stdout == of_archive.stdout && of_results.code == of_archive.code);
}

#[test]
fn results_of_serving_runs_alone_have_nothing_to_fit() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    analyzed(&sample_archive().join("serving"), &results, &[]);
    let ended = over("fit", &results, &[]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("holds no decode or summary run"), "{}", ended.stderr);
}
